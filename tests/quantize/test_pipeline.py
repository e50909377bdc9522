"""Whole models: what comes out computes what it should, whatever the method, the threads and the architecture."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf_models import write_gguf
from models import byte_tokenizer, tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from icml.formats.errors import InputError  # noqa: E402
from icml.formats.model_dir import open_model  # noqa: E402
from icml.formats.safetensors import RawTensor, SafetensorsFile, to_dtype, write_safetensors  # noqa: E402
from icml.tools.quantize.linear import QuantizedLinear, tensor_specs  # noqa: E402
from icml.tools.quantize.pipeline.budget import Offer  # noqa: E402
from icml.tools.quantize.pipeline.control import Control  # noqa: E402
from icml.tools.quantize.pipeline.finished import Finished, dequantize, kinds  # noqa: E402

from .small_models import configuration, content, logits, quantize, write_text  # noqa: E402

IDS = torch.arange(60)[None] + 40


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny language model, a text beside it."""
    folder = tmp_path_factory.mktemp("model")
    write_text(folder / "text.txt")
    return tiny_llama(folder / "m")


METHODS: dict[str, dict[str, Any]] = {
    "proteus": {},
    "sequential": {"hessian": "sequential"},
    "budget": {"bits": 3.2},
    "twla": {"method": "twla", "group": 32},
    "gptq": {"method": "gptq", "bits": 3},
    "rtn": {"method": "rtn", "rotate": "hadamard"},
    "activations": {"method": "twla", "act_bits": "4"},
}


@pytest.mark.parametrize("name", METHODS)
def test_the_same_bytes_whatever_the_threads(name: str, model: Path, tmp_path: Path) -> None:
    if name == "activations":
        write_text(tmp_path / "text.txt", 400)
        model = tiny_llama(tmp_path / "m", hidden=32, layers=1)
    quantize(model, tmp_path / "a", threads=1, **METHODS[name])
    quantize(model, tmp_path / "b", threads=3, **METHODS[name])
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_layers_are_what_quantize_linear_makes_of_captured_inputs(model: Path, tmp_path: Path) -> None:
    """The oracle runs the whole model with hooks, and measures the error of what is stored in that metric."""
    quantize(model, tmp_path / "q")
    finished = Finished.open(tmp_path / "q")
    full = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids = tokenizer((model.parent / "text.txt").read_text(), add_special_tokens=False)["input_ids"]
    there = len(ids) // 128
    rows = torch.tensor([ids[i * there // 8 * 128 :][:128] for i in range(8)])
    inputs: dict[str, list[Any]] = {}
    for name, module in full.named_modules():
        if name in finished.modules and "role" not in finished.modules[name]:
            module.register_forward_pre_hook(
                lambda _, args, name=name: inputs.setdefault(name, []).append(
                    args[0].reshape(-1, args[0].shape[-1])
                )
            )
    with torch.no_grad():
        full(rows)
    quantize(model, tmp_path / "blind", job={"calibration": "none"})
    blind = Finished.open(tmp_path / "blind")
    gains = []
    for line in finished.report():
        x = torch.cat(inputs[line["layer"]]).double()
        weight = full.get_submodule(line["layer"]).weight.detach().double()

        def error(made: Finished) -> float:
            lost = weight - torch.from_numpy(made.linear(line["layer"]).dequantize()).double()  # noqa: B023
            return float(((lost @ x.T) ** 2).sum() / ((weight @ x.T) ** 2).sum())  # noqa: B023

        assert line["error"] == pytest.approx(error(finished), rel=0.02, abs=1e-6)
        assert line["tokens"] == len(x) == 1024
        gains.append(math.log(error(blind) / line["error"]))
    assert math.exp(sum(gains) / len(gains)) > 1.2, "knowing the inputs helps"


def test_v_proj_is_protected_by_default(model: Path, tmp_path: Path) -> None:
    summary = quantize(model, tmp_path / "q")
    assert summary.bits == {2: 12, 4: 2}
    assert {kind.name: kind.bits for kind in kinds(Finished.open(tmp_path / "q"))}["v_proj"] == 4
    assert quantize(model, tmp_path / "none", protect=()).bits == {2: 14}


def test_figures_are_those_of_the_files(model: Path, tmp_path: Path) -> None:
    summary = quantize(model, tmp_path / "q")
    finished = Finished.open(tmp_path / "q")
    stored, weights, errors = 0, 0, []
    for line in finished.report():
        specs = tensor_specs(finished.modules[line["layer"]])
        stored += sum(8 * math.prod(s) * np.dtype(kind).itemsize for s, kind in specs.values())
        weights += math.prod(line["shape"])
        errors.append(math.log(line["error"]))
    assert summary.bpw_linear == pytest.approx(stored / weights)
    assert summary.error_geomean == pytest.approx(math.exp(sum(errors) / len(errors)))
    files = sum(path.stat().st_size for path in (tmp_path / "q").glob("*.safetensors"))
    assert summary.bytes_out == files
    parameters = sum(math.prod(raw.shape) for raw in open_model(model).values())
    assert summary.bpw_total == pytest.approx(8 * files / parameters)


def test_dequantized_models_compute_the_same(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "q")
    dequantize(Finished.open(tmp_path / "q"), tmp_path / "plain", Control(threads=2))
    config = json.loads((tmp_path / "plain" / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["tie_word_embeddings"]
    assert (tmp_path / "plain" / "tokenizer.json").is_file()
    assert torch.allclose(logits(tmp_path / "plain", IDS), logits(tmp_path / "q", IDS), atol=0.02)
    with pytest.raises(InputError, match="exists already"):
        dequantize(Finished.open(tmp_path / "q"), tmp_path / "plain", Control())


def test_a_budget_is_kept_and_spent_well(model: Path, tmp_path: Path) -> None:
    budget = 3.2
    summary = quantize(model, tmp_path / "q", bits=budget)
    assert budget - 0.15 < summary.bpw_linear <= budget
    assert len(summary.bits) > 1
    whole = quantize(model, tmp_path / "two", bits=2, protect=())
    chosen = [line["error"] for line in Finished.open(tmp_path / "q").report()]
    assert sum(chosen) < sum(line["error"] for line in Finished.open(tmp_path / "two").report())
    assert whole.bpw_linear < summary.bpw_linear
    budgets, errors = zip(*summary.frontier, strict=True)
    assert list(budgets) == sorted(budgets)
    assert list(errors) == sorted(errors, reverse=True)
    with pytest.raises(InputError, match=r"2\.1 bits a weight are too few.* are the least"):
        quantize(model, tmp_path / "few", bits=2.1)
    assert not (tmp_path / "few.partial").exists()


def test_the_choice_of_bits_is_the_best_there_is() -> None:
    rng = np.random.default_rng(1)
    report = [
        {
            "layer": name,
            "shape": [16, 16 * size],
            "bits": bits,
            "bpw": bits + 0.25,
            "error": float(error / 4**bits),
        }
        for name, size in (("a", 1), ("b", 2), ("c", 3), ("d", 1), ("e", 5))
        for bits, error in zip((2, 3, 4), rng.uniform(0.5, 2, 3), strict=True)
    ]
    offer = Offer.of([*report, {"layer": "pinned", "shape": [16, 64], "bits": 4, "bpw": 4.5, "error": 0.1}])
    names, sizes, fixed, total = "abcde", [1, 2, 3, 1, 5], 4 * 4.5, 16

    def cost(choice: tuple[int, ...]) -> float:
        return sum(line["error"] for line in report if choice[names.index(line["layer"])] == line["bits"])

    def spent(choice: tuple[int, ...]) -> float:
        return (fixed + sum(s * (b + 0.25) for s, b in zip(sizes, choice, strict=True))) / total

    every = [tuple(choice) for choice in np.ndindex(3, 3, 3, 3, 3)]
    for budget in (3.0, 3.3, 3.9):
        allowed = [tuple(b + 2 for b in c) for c in every if spent(tuple(b + 2 for b in c)) <= budget + 1e-9]
        found = offer.choose(budget)
        assert found.pop("pinned") == 4
        assert cost(tuple(found[n] for n in names)) == pytest.approx(min(map(cost, allowed)))


@pytest.mark.parametrize("tied", [True, False])
def test_sizes_that_are_no_multiple_of_16_and_tied_embeddings(tied: bool, tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    small = tiny_llama(tmp_path / "m", hidden=40, layers=1, tied=tied)
    quantize(small, tmp_path / "q", bits=4, protect=(), embed_bits=8)
    exact, found = logits(small, IDS), logits(tmp_path / "q", IDS)
    assert float(((exact - found) ** 2).mean() / (exact**2).mean()) < 0.02
    roles = [meta.get("role") for meta in configuration(tmp_path / "q")["modules"].values()]
    assert roles.count("tied") == tied


def test_zero_rows_and_constant_tensors(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "m")
    write_text(tmp_path / "text.txt")
    tensors = {name: RawTensor(raw.dtype, np.array(raw.bits)) for name, raw in open_model(model).items()}
    tensors["model.layers.0.mlp.up_proj.weight"].bits[:] = 0
    tensors["model.layers.0.mlp.gate_proj.weight"].bits[3:9] = 0
    tensors["model.layers.1.self_attn.q_proj.weight"].bits[:] = 0.25
    write_safetensors(tmp_path / "m" / "model.safetensors", tensors, {"format": "pt"})
    for method in ("proteus", "twla", "gptq"):
        quantize(tmp_path / "m", tmp_path / method, method=method)
        finished = Finished.open(tmp_path / method)
        assert not finished.linear("model.layers.0.mlp.up_proj").dequantize().any()
        assert bool(torch.isfinite(logits(tmp_path / method, IDS)).all())


def test_encoder_models(tmp_path: Path) -> None:
    """Blocks of a BERT are encoder layers; they have biases, which take up the mean of the error."""
    write_text(tmp_path / "text.txt")
    config = transformers.BertConfig(
        vocab_size=258, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=128, initializer_range=0.2,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(tmp_path / "m")
    byte_tokenizer(tmp_path / "m")
    summary = quantize(tmp_path / "m", tmp_path / "q", bits=4)
    assert (summary.linears, summary.blocks) == (12, 2)
    exact, found = logits(tmp_path / "m", IDS, "AutoModel"), logits(tmp_path / "q", IDS, "AutoModel")
    cosine = torch.nn.functional.cosine_similarity(exact.mean(1), found.mean(1))
    assert float(cosine) > 0.98
    with pytest.raises(InputError, match="needs a language model"):
        quantize(tmp_path / "m", tmp_path / "d", job={"distill": 4})


def test_experts_that_few_tokens_reach(tmp_path: Path) -> None:
    """Of their Hessians the diagonal is believed; where no token comes, nothing is known."""
    from icml.tools.quantize.hessian import Hessian
    from icml.tools.quantize.pipeline.block import Quantizer, Unit
    from icml.tools.quantize.pipeline.settings import Settings

    rng = np.random.default_rng(0)
    weight = rng.standard_normal((32, 64)).astype(np.float32)
    for count, note in ((0, "no token"), (3, "only 3 tokens"), (200, None)):
        hessian, unit = Hessian(64), Unit()
        if count:
            hessian.update(rng.standard_normal((count, 64)))
        Quantizer(Settings(effort="fast", pool=1), Control()).group(unit, {"expert": weight}, hessian, {})
        assert ([note in found for found in unit.notes] == [True]) if note else not unit.notes
        stored = {k.removeprefix("expert."): v for k, v in unit.tensors.items()}
        found = QuantizedLinear.from_tensors(unit.modules["expert"], stored)  # type: ignore[arg-type]
        assert found.error(weight) < 0.15


def test_models_with_fused_experts_keep_those(tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    config = transformers.MixtralConfig(
        vocab_size=258, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, max_position_embeddings=128,
    )  # fmt: skip
    transformers.MixtralForCausalLM(config).save_pretrained(tmp_path / "m")
    byte_tokenizer(tmp_path / "m")
    notes: list[str] = []
    quantize(tmp_path / "m", tmp_path / "q", bits=4, control=Control(on_note=notes.append))
    assert any("% of the blocks' weights are not in linears" in note for note in notes)
    exact, found = logits(tmp_path / "m", IDS), logits(tmp_path / "q", IDS)
    assert float(((exact - found) ** 2).mean() / (exact**2).mean()) < 0.05


def test_files_of_tensors_without_a_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors = {
        "a.weight": rng.standard_normal((40, 48)).astype(np.float32),
        "b": to_dtype(rng.standard_normal((16, 32)).astype(np.float32), "BF16"),
        "norm": np.ones(8, np.float32),
        "ids": np.arange(6).reshape(2, 3),
    }
    write_safetensors(tmp_path / "t.safetensors", tensors)
    summary = quantize(tmp_path / "t.safetensors", tmp_path / "q", job={"calibration": None})
    assert summary.linears == 2
    finished = Finished.open(tmp_path / "q")
    assert finished.linear("a").error(tensors["a.weight"]) < 0.1  # type: ignore[arg-type]
    dequantize(finished, tmp_path / "plain", Control())
    plain = open_model(tmp_path / "plain")
    assert {name: plain[name].shape for name in plain} == {
        "a.weight": (40, 48),
        "b": (16, 32),
        "norm": (8,),
        "ids": (2, 3),
    }
    assert (plain["ids"].bits == tensors["ids"]).all()


def test_gguf_files_and_shards_give_what_one_file_gives(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    write_text(tmp_path / "text.txt")
    half = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float16)
    half.save_pretrained(tmp_path / "m", max_shard_size="100kB")
    byte_tokenizer(tmp_path / "m")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 1
    notes: list[str] = []
    write_gguf(tmp_path / "m.gguf", model, quantized=True)
    for name, source in (("shards", tmp_path / "m"), ("gguf", tmp_path / "m.gguf"), ("file", model)):
        job = {"calibration": tmp_path / "text.txt"}
        quantize(
            source,
            tmp_path / name,
            control=Control(threads=2, on_note=notes.append),
            job=job,
            bits=4,
            protect=(),
        )
    assert [note for note in notes if "GGUF" in note or "gguf" in note] == [
        f"{tmp_path}/m.gguf: the weights are Q8_0; they are dequantized, and its error adds to what is made here"
    ]
    exact = logits(model, IDS)
    for name in ("shards", "gguf", "file"):
        assert float(((exact - logits(tmp_path / name, IDS)) ** 2).mean() / (exact**2).mean()) < 0.15


def test_float8_weights_are_dequantized_with_their_scales(model: Path, tmp_path: Path) -> None:
    """Linears that stay as they are must not lose their scales either."""
    shutil.copytree(model, tmp_path / "m")
    write_text(tmp_path / "text.txt")
    tensors: dict[str, Any] = dict(open_model(model))
    name = "model.layers.0.mlp.up_proj.weight"
    codes = np.random.default_rng(0).integers(0, 0x60, tensors[name].shape).astype(np.uint8)
    tensors[name] = RawTensor("F8_E4M3", codes)
    tensors[name + "_scale_inv"] = np.full((2, 1), 0.01, np.float32)
    write_safetensors(tmp_path / "m" / "model.safetensors", tensors, {"format": "pt"})
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8"}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    notes: list[str] = []
    quantize(tmp_path / "m", tmp_path / "q", skip="up_proj", control=Control(on_note=notes.append))
    assert any("weights are fp8" in note for note in notes)
    kept = open_model(tmp_path / "q")[name]
    expected = RawTensor("F8_E4M3", codes).float32() * np.float32(0.01)
    assert kept.dtype == "BF16"
    assert np.allclose(kept.float32(), expected, rtol=0.01)


def test_output_embedding_is_counted_and_stored_once(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "q")
    names = [n for path in (tmp_path / "q").glob("*.safetensors") for n in SafetensorsFile(path)]
    assert len(names) == len(set(names))
    found = sorted(name for name in names if "embed" in name or "lm_head" in name)
    assert found == [f"model.embed_tokens.{suffix}" for suffix in ("codes", "scale", "zero")]
