"""`import icml.hf`: what transformers loads computes with the dequantized weights, and saves the bits it has read."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models import tiny_llama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import icml.hf  # noqa: E402
from icml.formats.errors import InputError  # noqa: E402
from icml.formats.model_dir import open_model  # noqa: E402
from icml.formats.safetensors import write_safetensors  # noqa: E402
from icml.hf.modules import IcmlEmbedding, IcmlHead, IcmlLinear, TiedHead  # noqa: E402
from icml.tools.quantize import QuantizedLinear  # noqa: E402
from icml.tools.quantize.pipeline.jobs import Control, Job, Settings, quantize_model  # noqa: E402

IDS = torch.tensor([[0, *range(60, 100), 3, 3, 250]])
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "proteus": ({}, {"effort": "fast"}),
    "untied": ({"tied": False}, {"effort": "fast", "embed_bits": 8}),
    "plain embeddings": ({"tied": False}, {"effort": "fast", "head_bits": 16, "skip": "k_proj"}),
    "twla": ({}, {"method": "twla", "group": 32}),
    "gptq": ({}, {"method": "gptq"}),
}


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized directory."""
    return make(tmp_path_factory.mktemp("hf"), *KINDS[request.param])


@pytest.fixture(scope="module")
def proteus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("hf"), *KINDS["proteus"])


def make(folder: Path, model: dict[str, Any], settings: dict[str, Any]) -> Path:
    tiny_llama(folder / "tiny", **model)
    job = Job(folder / "tiny", folder / "out", Settings(**settings), calibration="none")
    quantize_model(job, Control(threads=2))
    return folder / "out"


def load(path: Path, **options: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True, **options).eval()


def logits(model: Any, ids: Any = IDS, **options: Any) -> Any:
    with torch.no_grad():
        return model(input_ids=ids, **options).logits


def reference(path: Path) -> Any:
    """An ordinary model with the weights that the stored tensors stand for, put together by hand."""
    stored = open_model(path)
    assert stored.config is not None
    modules = stored.config["quantization_config"]["modules"]
    config = {k: v for k, v in stored.config.items() if k != "quantization_config"}
    config["tie_word_embeddings"] = any(meta.get("role") == "tied" for meta in modules.values())
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).float().eval()
    state = {}
    for name in stored:
        module, _, leaf = name.rpartition(".")
        if module in modules and leaf != "bias":
            tensors = {
                n.rpartition(".")[2]: np.array(stored[n].bits)
                for n in stored
                if n.rpartition(".")[0] == module
            }
            quantized = QuantizedLinear.from_tensors(modules[module], tensors)
            state[f"{module}.weight"] = torch.from_numpy(quantized.dequantize())
        else:
            state[name] = torch.from_numpy(np.array(stored.float32(name)))
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    return model


def close(a: Any, b: Any) -> float:
    return float((a.float() - b.float()).abs().max() / b.float().abs().max())


def test_logits_are_those_of_the_dequantized_weights(made: Path) -> None:
    model, plain = load(made), reference(made)
    assert any(isinstance(module, IcmlLinear) for module in model.modules())
    assert close(logits(model), logits(plain)) < 1e-5
    assert (
        close(logits(model, IDS[:, :5]), logits(plain, IDS[:, :5])) < 1e-5
    )  # the fused products of few vectors
    assert close(logits(model, IDS.repeat(3, 1)), logits(plain, IDS.repeat(3, 1))) < 1e-5


def test_saving_gives_the_same_tensors_and_configuration(made: Path, tmp_path: Path) -> None:
    load(made).save_pretrained(tmp_path / "again")
    first, second = open_model(made), open_model(tmp_path / "again")
    assert set(first) == set(second)
    for name in first:
        if first[name].dtype == "F16" and name.endswith(".weight"):  # not quantized; takes the model's dtype
            np.testing.assert_array_equal(second.float32(name), first.float32(name))
            continue
        assert first[name].dtype == second[name].dtype
        assert first[name].bits.tobytes() == second[name].bits.tobytes(), name
    assert first.config is not None
    assert second.config is not None
    for key in ("modules", "format", "bits", "version", "quant_method", "settings"):
        assert first.config["quantization_config"][key] == second.config["quantization_config"][key]
    assert torch.equal(logits(load(made)), logits(load(tmp_path / "again")))


def test_generation_is_that_of_the_dequantized_model(made: Path) -> None:
    options = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False}
    first = load(made).generate(IDS, **options)
    assert torch.equal(first, reference(made).generate(IDS, **options))
    with torch.inference_mode():
        assert torch.equal(first, load(made).generate(IDS, **options))


def test_copies_and_pickles_compute_the_same(made: Path) -> None:
    model = load(made)
    expected = logits(model)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(logits(again), expected)
        for module in again.modules():
            if isinstance(module, TiedHead):
                assert module.embedding is again.get_input_embeddings()
                assert module.embedding is not model.get_input_embeddings()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_other_dtypes_leave_the_bits_alone(made: Path, tmp_path: Path, dtype: str) -> None:
    kind = getattr(torch, dtype)
    model = load(made, dtype=kind)
    assert model.dtype == kind
    assert logits(model).dtype == kind
    assert close(logits(model), logits(load(made, dtype=torch.float32))) < {
        "bfloat16": 0.1,
        "float16": 0.01,
    }.get(dtype, 1e-9)
    moved = load(made, dtype=torch.float32)
    for module in moved.modules():
        if isinstance(module, IcmlLinear | IcmlEmbedding):
            before = {name: module.get_buffer(name).clone() for name in module.stored}
            module.to(kind)
            assert module.dtype == kind
            for name, value in before.items():
                assert torch.equal(module.get_buffer(name), value)
                assert module.get_buffer(name).dtype == value.dtype


def test_dequantize_gives_an_ordinary_model(made: Path, tmp_path: Path) -> None:
    model = load(made)
    tied = any(isinstance(module, TiedHead) for module in model.modules())
    expected = logits(model)
    plain = model.dequantize()
    assert not any(isinstance(m, IcmlLinear | IcmlEmbedding | TiedHead) for m in plain.modules())
    assert close(logits(plain), expected) < 1e-5
    assert (plain.lm_head.weight is plain.get_input_embeddings().weight) == tied
    plain.save_pretrained(tmp_path / "plain")
    assert close(logits(load(tmp_path / "plain")), expected) < 1e-5


def test_the_base_model_loads_without_the_head(made: Path) -> None:
    base = transformers.AutoModel.from_pretrained(made, local_files_only=True).eval()
    assert sum(isinstance(m, IcmlLinear) for m in base.modules()) >= 12
    with torch.no_grad():
        expected = load(made)(input_ids=IDS, output_hidden_states=True).hidden_states[-1]
        assert torch.equal(base(input_ids=IDS).last_hidden_state, expected)


def test_gradients_flow_to_the_input(made: Path) -> None:
    model, plain = load(made), reference(made)
    gradients = []
    for each in (model, plain):
        x = plain.get_input_embeddings()(IDS).detach().requires_grad_()
        each(inputs_embeds=x, labels=IDS).loss.backward()
        gradients.append(x.grad)
    assert close(*gradients) < 1e-4


def test_changed_buffers_are_seen(proteus: Path) -> None:
    linear = load(proteus).model.layers[0].self_attn.q_proj
    x = torch.ones(1, linear.in_features)
    before = linear(x)
    linear.sv.mul_(2)
    assert torch.allclose(linear(x), 2 * before)
    linear.sv = linear.sv / 2
    assert torch.allclose(linear(x), before)
    assert torch.allclose(linear.weight @ x[0], before[0], atol=1e-5)


def test_no_vectors_and_many_axes(proteus: Path) -> None:
    model = load(proteus)
    for module in (model.model.layers[0].self_attn.q_proj, model.lm_head):
        n, m = module.in_features, module.out_features
        assert module(torch.zeros(0, n)).shape == (0, m)
        assert module(torch.zeros(2, 3, 4, n)).shape == (2, 3, 4, m)
        x = torch.randn(2, 5, n)
        assert close(module(x.transpose(0, 1)).transpose(0, 1), module(x)) < 1e-5


def test_what_is_printed(proteus: Path) -> None:
    assert "q_proj): IcmlLinear(64, 64, proteus, bits=2)" in str(load(proteus))


def test_another_device_decodes_by_torch_and_keeps_the_weights(proteus: Path) -> None:
    """The meta device stands for it as far as shapes go; the decoder itself is tested by itself."""
    linear = load(proteus).model.layers[0].mlp.up_proj
    moved = copy.deepcopy(linear).to("meta")
    assert moved.qweight.device.type == "meta"
    assert moved(torch.zeros(3, 64, device="meta")).shape == (3, linear.out_features)


def edited(source: Path, folder: Path, edit: Any) -> Path:
    """A copy whose quantization_config has been changed."""
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    edit(config["quantization_config"])
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c.update(version=2), "version 2 of the format"),
        (
            lambda c: c["modules"].update({"model.layers.7.x": {"method": "rtn"}}),
            "no module 'model.layers.7.x'",
        ),
        (
            lambda c: c["modules"]["model.layers.0.mlp.up_proj"].update(method="magic"),
            "unknown method: magic",
        ),
        (lambda c: c["modules"]["lm_head"].update(to="model.norm"), "is no quantized embedding"),
    ],
)
def test_configurations_that_do_not_fit(proteus: Path, tmp_path: Path, edit: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(edited(proteus, tmp_path / "m", edit))
    assert message in str(caught.value)


def test_a_missing_tensor_is_an_error(proteus: Path, tmp_path: Path) -> None:
    stored = open_model(proteus)
    lost = "model.layers.1.mlp.down_proj.qweight"
    folder = edited(proteus, tmp_path / "m", lambda _: None)
    for file in folder.glob("model*"):
        file.unlink()
    write_safetensors(
        folder / "model.safetensors", {n: stored[n] for n in stored if n != lost}, {"format": "pt"}
    )
    with pytest.raises(InputError, match=lost):
        load(folder)


def test_importing_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    code = (
        "import os; before = dict(os.environ); import icml.hf, transformers\n"
        "assert dict(os.environ) == before\n"
        "assert transformers.utils.logging.is_progress_bar_enabled()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=dict(os.environ))
    assert icml.hf.IcmlConfig({}).to_dict()["quant_method"] == "icml"
    assert issubclass(IcmlHead, IcmlEmbedding)
