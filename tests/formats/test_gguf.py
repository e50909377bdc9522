"""GGUF files: a small real one written by the gguf package, and damaged ones."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from gguf_models import write_gguf
from models import tiny_llama

from icml.formats.errors import InputError
from icml.formats.gguf_model import convert_gguf, is_gguf
from icml.formats.model_dir import open_model

pytest.importorskip("gguf")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("gguf") / "tiny")


@pytest.mark.parametrize("quantized", [False, True])
def test_conversion_gives_the_model_back(model: Path, tmp_path: Path, quantized: bool, capfd) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, model, quantized=quantized)
    assert is_gguf(path)
    assert convert_gguf(path, tmp_path / "out") == ("Q8_0" if quantized else "F32")
    assert capfd.readouterr() == ("", "")
    original, made = open_model(model), open_model(tmp_path / "out")
    assert set(made) == set(original)
    assert made.quantization is None
    for name in original:
        value = original.float32(name)
        error = np.abs(made.float32(name) - value).max() / np.abs(value).max()
        assert made[name].dtype == "F16"
        assert error < (2**-7 if quantized else 2**-11), name


def test_the_converted_tokenizer_is_the_original(model: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    write_gguf(tmp_path / "tiny.gguf", model)
    convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out")
    text = "Straße, 1 < 2 &\tκ\n"
    ids = [AutoTokenizer.from_pretrained(p)(text)["input_ids"] for p in (model, tmp_path / "out")]
    assert ids[0] == ids[1]


def test_files_that_are_none(tmp_path: Path) -> None:
    assert not is_gguf(tmp_path / "absent")
    assert not is_gguf(tmp_path)
    for content in (b"", b"GGUF", b"GGUF" + bytes(20), b"GGUF" + b"\xff" * 60, b"hello"):
        (tmp_path / "x.gguf").write_bytes(content)
        assert is_gguf(tmp_path / "x.gguf") == (content[:4] == b"GGUF")
        with pytest.raises(InputError, match=r"x\.gguf: ") as caught:
            convert_gguf(tmp_path / "x.gguf", tmp_path / "out")
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_damaged_files(model: Path, tmp_path: Path) -> None:
    """Cut short or with wrong bytes in the header they end in one error, and nothing is written."""
    path = tmp_path / "x.gguf"
    write_gguf(path, model)
    whole = path.read_bytes()
    chance = random.Random(0)
    messages = []
    for trial in range(30):
        content = bytearray(whole)
        if trial % 2:
            content[chance.randrange(4, 400)] ^= 1 << chance.randrange(8)
        else:
            del content[chance.randrange(len(whole) - 1000) :]
        path.write_bytes(content)
        out, before = tmp_path / f"out{trial}", len(messages)
        try:
            convert_gguf(path, out)
        except InputError as error:
            messages.append(str(error))
        assert out.exists() == (len(messages) == before)
    assert len(messages) >= 20
    assert not any("\n" in message for message in messages)
