"""Distillation brings the model nearer to the original, changes no code, and the same numbers whatever the threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from models import tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from icml.formats.errors import InputError  # noqa: E402
from icml.formats.model_dir import open_model  # noqa: E402
from icml.tools.quantize.options import Stopped  # noqa: E402
from icml.tools.quantize.pipeline.control import Control  # noqa: E402
from icml.tools.quantize.pipeline.distill import _Target  # noqa: E402
from icml.tools.quantize.pipeline.finished import Finished  # noqa: E402

from .small_models import content, logits, quantize, write_text  # noqa: E402

JOB = {"distill": 24, "tokens": 2048, "length": 64}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_text(folder / "text.txt")
    return tiny_llama(folder / "m", hidden=32)


@pytest.fixture(scope="module")
def plain(model: Path) -> Path:
    quantize(model, model.parent / "plain", job={**JOB, "distill": 0})
    return model.parent / "plain"


def test_nearer_to_the_original_on_text_it_has_not_seen(model: Path, plain: Path, tmp_path: Path) -> None:
    summary = quantize(model, tmp_path / "q", job=JOB)
    before, after = summary.divergence
    assert after < 0.9 * before
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    fresh = write_text(tmp_path / "fresh.txt", 4000).read_text()[-4000:]
    ids = torch.tensor(tokenizer(fresh, add_special_tokens=False)["input_ids"][:1920]).reshape(-1, 64)
    exact = torch.log_softmax(logits(model, ids), -1)

    def divergence(path: Path) -> float:
        found = torch.log_softmax(logits(path, ids), -1)
        return float((exact.exp() * (exact - found)).sum(-1).mean())

    assert divergence(tmp_path / "q") < 0.9 * divergence(plain)


def test_only_gains_learn(model: Path, plain: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "q", job=JOB)
    old, new = open_model(plain), open_model(tmp_path / "q")
    assert set(old) == set(new)
    changed = {name.rpartition(".")[2] for name in old if not np.array_equal(old[name].bits, new[name].bits)}
    assert changed == {"su", "sv", "affine", "weight"}
    assert {name for name in old if "norm" not in name and name.endswith(".weight")} == set()
    assert summary_bits(plain) == summary_bits(tmp_path / "q")


def summary_bits(path: Path) -> list[float]:
    finished = Finished.open(path)
    return [finished.linear(line["layer"]).bpw for line in finished.report()]


def test_threads_and_interruptions_change_nothing(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "a", threads=1, job=JOB)
    steps: list[int] = []
    control = Control(
        threads=2, should_stop=lambda: len(steps) > 5, on_step=lambda state: steps.append(state[0])
    )
    with pytest.raises(Stopped):
        quantize(model, tmp_path / "b", control=control, job=JOB)
    quantize(model, tmp_path / "b", threads=3, job={**JOB, "resume": True})
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_divergence_of_the_likeliest_tokens_and_the_rest() -> None:
    """Against the formula on the whole distribution, the rest being merged into one event."""
    rng = np.random.default_rng(0)
    p, q = (rng.dirichlet(np.full(300, 0.1), 5) for _ in range(2))
    order = np.argsort(-p, 1)[:, :64]
    kept_p, kept_q = np.take_along_axis(p, order, 1), np.take_along_axis(q, order, 1)
    rest_p, rest_q = 1 - kept_p.sum(1), 1 - kept_q.sum(1)
    expected = ((kept_p * np.log(kept_p / kept_q)).sum(1) + rest_p * np.log(rest_p / rest_q)).mean()
    target = _Target(torch.tensor(order).int(), torch.tensor(np.log(kept_p)), torch.tensor(np.log(rest_p)))
    assert float(target.divergence(torch.tensor(np.log(q)))) == pytest.approx(expected, rel=1e-3)
    assert float(target.divergence(torch.tensor(np.log(p)))) == pytest.approx(0, abs=1e-5)


def test_text_that_is_too_short_is_refused_before_the_work(model: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two sequences of calibration text"):
        quantize(model, tmp_path / "q", job={"distill": 2, "tokens": 64, "length": 64})
    assert not (tmp_path / "q.partial").exists()
