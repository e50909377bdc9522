"""Model directories: one file, shards, pickles only when allowed, and indexes that lead astray."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.formats.model_dir import ModelDir, from_torch, open_model, to_torch
from icml.formats.safetensors import RawTensor, to_dtype, write_safetensors

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.ones(4, np.float16)


def directory(folder: Path, config: dict[str, Any] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "toy"}))
    return folder


def sharded(folder: Path, weight_map: Any = None) -> Path:
    directory(folder)
    write_safetensors(folder / "model-1.safetensors", {"a": A})
    write_safetensors(folder / "model-2.safetensors", {"b": B, "c": A})
    places = {"a": "model-1.safetensors", "b": "model-2.safetensors"} if weight_map is None else weight_map
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return folder


def refused(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        open_model(path, **options)
    return str(caught.value)


def test_one_file(tmp_path: Path) -> None:
    write_safetensors(directory(tmp_path / "m") / "model.safetensors", {"a": A, "b": B})
    model = open_model(tmp_path / "m")
    assert set(model) == {"a", "b"}
    assert model.config == {"model_type": "toy"}
    assert model.quantization is None
    np.testing.assert_array_equal(model.float32("b"), np.ones(4))


def test_shards(tmp_path: Path) -> None:
    model = open_model(sharded(tmp_path / "m"))
    assert set(model) == {"a", "b"}  # what the index names, not what else is in the shards
    np.testing.assert_array_equal(model["a"].bits, A)
    np.testing.assert_array_equal(model["b"].bits, B)


def test_a_bare_safetensors_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", {"a": A})
    model = open_model(tmp_path / "a.safetensors")
    assert model.config is None
    assert model.side_files() == []
    np.testing.assert_array_equal(model.float32("a"), A)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "model-1.safetensors", "b": "absent.safetensors"}, "missing absent.safetensors"),
        ({"a": "model-2.safetensors"}, "no tensor 'a'"),
        ({"a": "../../etc/passwd"}, "outside the directory"),
        ({"a": "/etc/passwd"}, "outside the directory"),
        ({"a": "sub/model-1.safetensors"}, "outside the directory"),
        ({"a": ".."}, "missing .."),
        ({"a": ""}, "missing"),
        ({"a": "model-1.safetensors\0"}, "missing"),
        ({"a": 3}, "no weight_map"),
        (["model-1.safetensors"], "no weight_map"),
    ],
)
def test_indexes_that_lead_astray(tmp_path: Path, weight_map: Any, message: str) -> None:
    assert message in refused(sharded(tmp_path / "m", weight_map))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_configurations_that_are_none(tmp_path: Path, content: bytes) -> None:
    folder = sharded(tmp_path / "m")
    (folder / "config.json").write_bytes(content)
    assert "config.json: " in refused(folder)


def test_damaged_shard(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "m")
    os.truncate(folder / "model-2.safetensors", 100)
    assert "model-2.safetensors: not a safetensors file, or truncated" in refused(folder)


def test_what_is_no_model(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "absent")
    assert "has no config.json" in refused(tmp_path)
    assert "neither model.safetensors nor" in refused(directory(tmp_path / "m"))
    (tmp_path / "notes.txt").write_text("hello, this is no model")
    assert "not a safetensors file" in refused(tmp_path / "notes.txt")
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(20))
    assert "GGUF" in refused(tmp_path / "x.gguf")
    (tmp_path / "x.bin").write_bytes(pickle.dumps([1]))
    assert "a pickle" in refused(tmp_path / "x.bin")


class Malicious:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def test_pickles_are_read_only_when_allowed_and_only_as_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = directory(tmp_path / "m")
    state = {"a": torch.from_numpy(A), "b": torch.tensor([1.5, -2.0]).bfloat16(), "c": torch.tensor([3, 4])}
    torch.save(state, folder / "pytorch_model.bin")
    assert "--allow-pickle" in refused(folder)
    model = open_model(folder, allow_pickle=True)
    np.testing.assert_array_equal(model.float32("a"), A)
    np.testing.assert_array_equal(model.float32("b"), [1.5, -2.0])
    assert (model["b"].dtype, model["c"].dtype) == ("BF16", "I64")
    for content in ({"a": Malicious(tmp_path / "made")}, Malicious(tmp_path / "made")):
        torch.save(content, folder / "pytorch_model.bin")
        message = refused(folder, allow_pickle=True)
        assert message.endswith("pytorch_model.bin: torch cannot read it safely: it would run posix.mkdir")
    assert not (tmp_path / "made").exists()
    for other in ([torch.zeros(2)], {"a": 3}, {"a": {"b": torch.zeros(2)}}):
        torch.save(other, folder / "pytorch_model.bin")
        assert "expected a dictionary of tensors" in refused(folder, allow_pickle=True)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02no pickle")
    assert "torch cannot read it safely" in refused(folder, allow_pickle=True)
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(open_model(folder, allow_pickle=True).float32("a"), A)
    torch.save({"a": torch.zeros(2, dtype=torch.complex64)}, folder / "pytorch_model.bin")
    assert "complex64" in refused(folder, allow_pickle=True)


def test_sharded_pickles(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = directory(tmp_path / "m")
    torch.save({"a": torch.from_numpy(A)}, folder / "p1.bin")
    torch.save({"b": torch.zeros(3, dtype=torch.float8_e4m3fn)}, folder / "p2.bin")
    index = {"weight_map": {"a": "p1.bin", "b": "p2.bin"}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert "--allow-pickle" in refused(folder)
    model = open_model(folder, allow_pickle=True)
    np.testing.assert_array_equal(model["a"].bits, A)
    assert model["b"].dtype == "F8_E4M3"


def test_safetensors_are_preferred_to_pickles(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m")
    write_safetensors(folder / "model.safetensors", {"a": A})
    (folder / "pytorch_model.bin").write_bytes(b"not looked at")
    assert set(open_model(folder)) == {"a"}


@pytest.mark.parametrize(
    ("suffix", "scales"),
    [
        ("_scale_inv", np.float32([[2.0, 0.5], [3.0, 4.0]])),
        ("_scale", np.float32(0.25)),
        ("_scale", np.arange(1, 201, dtype=np.float32)[:, None]),
    ],
)
def test_float8_weights_are_multiplied_by_their_scales(
    tmp_path: Path, suffix: str, scales: np.ndarray
) -> None:
    codes = np.random.default_rng(0).integers(0, 120, (200, 130), dtype=np.uint8)
    tensors = {"w": RawTensor("F8_E4M3", codes), "w" + suffix: np.asarray(scales)}
    write_safetensors(directory(tmp_path / "m") / "model.safetensors", tensors)
    model = open_model(tmp_path / "m")
    values = RawTensor("F8_E4M3", codes).float32()
    for i, j in ((0, 0), (127, 127), (128, 0), (127, 128), (199, 129)):
        scale = (
            scales[i // 128, j // 128]
            if scales.shape == (2, 2)
            else np.broadcast_to(scales, (200, 130))[i, j]
        )
        assert model.float32("w")[i, j] == values[i, j] * scale


def test_float8_weights_without_scales_that_fit(tmp_path: Path) -> None:
    codes = RawTensor("F8_E4M3", np.zeros((200, 130), np.uint8))
    write_safetensors(
        directory(tmp_path / "m") / "model.safetensors",
        {"a": codes, "b": codes, "b_scale": np.ones((3, 3), np.float32)},
    )
    model = open_model(tmp_path / "m")
    with pytest.raises(InputError, match="'a' is float8 without scales"):
        model.float32("a")
    with pytest.raises(InputError, match=r"scales \(3, 3\) do not fit"):
        model.float32("b")


def test_integers_are_no_weights(tmp_path: Path) -> None:
    write_safetensors(directory(tmp_path / "m") / "model.safetensors", {"a": np.arange(3)})
    with pytest.raises(InputError, match="'a' is I64, not floating point"):
        open_model(tmp_path / "m").float32("a")


def test_side_files_are_all_but_weights_configuration_and_the_hidden(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "m")
    (folder / "1_Pooling").mkdir()
    (folder / ".cache").mkdir()
    kept = ["tokenizer.json", "README.md", "1_Pooling/config.json", "generation_config.json"]
    for name in [*kept, ".hidden", ".cache/x", "pytorch_model.bin", "m.gguf", "flax_model.msgpack"]:
        (folder / name).write_text("{}")
    assert open_model(folder).side_files() == sorted(map(Path, kept))


def test_quantization_is_what_the_configuration_says(tmp_path: Path) -> None:
    folder = directory(tmp_path / "m", {"quantization_config": {"quant_method": "fp8"}})
    write_safetensors(folder / "model.safetensors", {"a": A})
    assert open_model(folder).quantization == {"quant_method": "fp8"}
    assert ModelDir(folder, {"quantization_config": "fp8"}, {}).quantization is None


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool"]
)
def test_torch_tensors_come_back(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[0.0, 1.0], [-2.0, 3.0]]).to(getattr(torch, dtype)).T
    back = to_torch(from_torch(tensor))
    assert back.dtype == tensor.dtype
    assert torch.equal(back, tensor)


def test_short_floats_as_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    values = np.float32([0.1, -3.0, 1e-3])
    made = to_torch(to_dtype(values, "BF16"))
    assert torch.equal(made, torch.from_numpy(values).bfloat16())
    codes = np.arange(120, dtype=np.uint8)
    expected = torch.from_numpy(codes).view(torch.float8_e4m3fn).float()
    assert torch.equal(to_torch(RawTensor("F8_E4M3", codes)), expected)
