"""Bits of activations, block by block: the losses are those of the models they stand for, the choice is the best."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from icml.formats.model_dir import open_model  # noqa: E402
from icml.tools.quantize.activations import best_clip, quantize_activations  # noqa: E402
from icml.tools.quantize.allocation import allocate_bits  # noqa: E402
from icml.tools.quantize.options import Stopped  # noqa: E402
from icml.tools.quantize.pipeline.acts import clip_in  # noqa: E402
from icml.tools.quantize.pipeline.control import Control  # noqa: E402
from icml.tools.quantize.pipeline.mixing import FEWER, costs, variants  # noqa: E402

from .small_models import configuration, content, logits, quantize, write_text  # noqa: E402

PLAIN: dict[str, Any] = {"method": "twla", "rotate": "none", "head_bits": 16}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A model with mixed bits of activations, and the summary."""
    folder = tmp_path_factory.mktemp("mixed")
    write_text(folder / "text.txt")
    tiny_llama(folder / "m", hidden=32, layers=2)
    return folder, mixed(folder, "q")


def mixed(folder: Path, name: str, **options: Any) -> Any:
    settings: dict[str, Any] = {"act_bits": "mix", "avg_act_bits": 4.0}
    return quantize(folder / "m", folder / name, **PLAIN, **settings, **options)


def test_the_loss_is_that_of_the_model_that_comes_out(made: tuple[Path, Any]) -> None:
    """Through transformers, where every linear rounds what it reads as the configuration says."""
    folder, summary = made
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "m")
    ids = tokenizer((folder / "text.txt").read_text(), add_special_tokens=False)["input_ids"]
    there = len(ids) // 128
    rows = torch.tensor([ids[i * there // 8 * 128 :][:128] for i in range(8)])
    found = logits(folder / "q", rows)[:, :-1]
    loss = torch.nn.functional.cross_entropy(found.reshape(-1, found.shape[-1]), rows[:, 1:].reshape(-1))
    assert summary.activations["loss"] == pytest.approx(
        float(loss), rel=5e-4
    )  # 2-bit activations tell apart roundings


def test_the_budget_is_kept_and_uniform_bits_are_no_better(made: tuple[Path, Any]) -> None:
    folder, summary = made
    chosen = summary.activations
    assert len(chosen["bits"]) == 2
    assert sum(chosen["bits"]) / 2 <= 4
    assert chosen["loss"] <= chosen["uniform"]
    modules = configuration(folder / "q")["modules"]
    for name, meta in modules.items():
        if "layers" in name:
            assert meta["act_bits"] == chosen["bits"][int(name.split(".")[2])]
            assert 0.5 <= meta["act_clip"] <= 1


def test_threads_and_interruptions_change_nothing(made: tuple[Path, Any]) -> None:
    folder, _ = made
    told: list[str] = []
    control = Control(
        threads=1,
        should_stop=lambda: any(name.startswith("activations of model.layers.0") for name in told),
        on_block=lambda state: told.append(state[1]),
    )
    (folder / "other").mkdir()
    for name in ("m", "text.txt"):
        (folder / "other" / name).symlink_to(folder / name)
    with pytest.raises(Stopped):
        mixed(folder / "other", "q", control=control)
    mixed(folder / "other", "q", threads=3, job={"resume": True})
    assert content(folder / "other" / "q") == content(folder / "q")


def test_costs_of_variants() -> None:
    """Losses that are sums of single and joint costs are taken apart into them."""
    rng = np.random.default_rng(0)
    blocks = 4
    own = rng.random((blocks, 3))
    joint = rng.random((blocks - 1, 3, 3))
    losses: dict[tuple[int, ...], float] = {(): 2.0}
    for key in variants(blocks)[1:]:
        i, *bits = key
        k = FEWER.index(bits[-1])
        losses[key] = 2.0 + own[i, k]
        if len(bits) == 2:
            j = FEWER.index(bits[0])
            losses[key] += own[i - 1, j] + joint[i - 1, j, k]
    assert len(losses) == 1 + 3 * blocks + 9 * (blocks - 1)
    found_own, found_joint = costs(losses, blocks)
    assert np.allclose(found_own[:, :3], own)
    assert not found_own[:, 3].any()
    assert np.allclose(found_joint[:, :3, :3], joint)
    assert not found_joint[:, 3].any()
    assert not found_joint[:, :, 3].any()
    chosen = allocate_bits(found_own, found_joint, (2, 4, 6, 8), 4, beta=1.0)
    whole = np.pad(own, ((0, 0), (0, 1))), np.pad(joint, ((0, 0), (0, 1), (0, 1)))

    def cost(choice: tuple[int, ...]) -> float:
        k = [(2, 4, 6, 8).index(b) for b in choice]
        return float(
            sum(whole[0][i, k[i]] for i in range(4)) + sum(whole[1][i, k[i], k[i + 1]] for i in range(3))
        )

    every = [choice for choice in product((2, 4, 6, 8), repeat=4) if sum(choice) <= 16]
    assert cost(tuple(chosen)) == pytest.approx(min(map(cost, every)))


def test_clip_factors_are_nearly_as_good_as_a_full_search() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_t(3, (64, 32))).astype(np.float32)
    weight = rng.standard_normal((16, 32)).astype(np.float32)

    def loss(bits: int, clip: float) -> float:
        return float(np.square((quantize_activations(x, bits, clip) - x) @ weight.T).sum())

    for bits in (2, 4, 8):
        assert loss(bits, clip_in(x, weight, bits)) <= 1.02 * loss(bits, best_clip(x, weight, bits))


def test_weights_are_those_of_a_run_without(made: tuple[Path, Any]) -> None:
    folder, _ = made
    quantize(folder / "m", folder / "plain", **PLAIN)
    old, new = open_model(folder / "plain"), open_model(folder / "q")
    assert all(np.array_equal(old[name].bits, new[name].bits) for name in old)
