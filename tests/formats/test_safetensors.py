"""Safetensors: the reference package's own bytes both ways, values of every dtype, and headers that lie."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from icml.formats.errors import InputError
from icml.formats.safetensors import RawTensor, SafetensorsFile, to_dtype, write_safetensors

DTYPES = ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]


def raw_file(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    as_list = [list(x) if isinstance(x, tuple) else x for x in (shape, offsets)]
    return {"dtype": dtype, "shape": as_list[0], "data_offsets": as_list[1]}


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(
            lambda name: name != "__metadata__"
        ),
        st.sampled_from(DTYPES).flatmap(
            lambda code: hnp.arrays(
                np.dtype(code), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
            )
        ),
        max_size=6,
    ),
    st.dictionaries(st.text('ab\n"é\\', max_size=4), st.text("xyz\t€", max_size=4), max_size=1),
)
def test_round_trip_and_the_bytes_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory, tensors: dict[str, np.ndarray], metadata: dict[str, str]
) -> None:
    reference = pytest.importorskip("safetensors.numpy")
    path = tmp_path_factory.mktemp("st") / "a.safetensors"
    write_safetensors(path, tensors, metadata)
    assert path.read_bytes() == reference.save(tensors, metadata or None)
    with SafetensorsFile(path) as file:
        assert set(file) == set(tensors)
        assert file.metadata == metadata
        for name, value in tensors.items():
            assert file[name].bits.dtype == value.dtype
            assert file[name].shape == value.shape
            assert file[name].bits.tobytes() == value.tobytes()


def test_bytes_do_not_depend_on_the_order_given(tmp_path: Path) -> None:
    tensors = {f"t{i}": np.full(i + 1, i, code) for i, code in enumerate(DTYPES)}
    write_safetensors(tmp_path / "a", tensors)
    write_safetensors(tmp_path / "b", dict(reversed(tensors.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("name", "torch_name"),
    [("BF16", "bfloat16"), ("F16", "float16"), ("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")],
)
def test_every_value_of_the_short_floats_is_that_of_torch(tmp_path: Path, name: str, torch_name: str) -> None:
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("safetensors.torch")
    dtype = getattr(torch, torch_name)
    size = dtype.itemsize
    codes = (
        torch.arange(256**size, dtype=torch.int32).to(torch.uint8 if size == 1 else torch.uint16).view(dtype)
    )
    reference.save_file({"all": codes}, tmp_path / "a.safetensors")
    raw = SafetensorsFile(tmp_path / "a.safetensors")["all"]
    assert raw.dtype == name
    np.testing.assert_array_equal(raw.float32(), codes.float().numpy())
    write_safetensors(tmp_path / "b.safetensors", {"all": raw})
    assert (tmp_path / "b.safetensors").read_bytes() == (tmp_path / "a.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("name", "torch_name"), [("BF16", "bfloat16"), ("F16", "float16"), ("F32", "float32")]
)
def test_rounding_is_that_of_torch(name: str, torch_name: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    halfway = (rng.integers(0, 2**16, 20_000, dtype=np.uint32) << 16) | np.uint32(0x8000)
    values = np.concatenate([bits, halfway]).view(np.float32)
    values = np.concatenate([values, np.float32([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65520, 3.4e38])])
    made = to_dtype(values, name)
    expected = torch.from_numpy(values).to(getattr(torch, torch_name))
    np.testing.assert_array_equal(made.float32(), expected.float().numpy())
    sure = ~np.isnan(values)
    width = torch.int32 if name == "F32" else torch.int16
    np.testing.assert_array_equal(
        made.bits.view(f"i{made.bits.itemsize}")[sure], expected.view(width).numpy()[sure]
    )


def test_what_has_no_place_in_the_format() -> None:
    with pytest.raises(TypeError, match="complex128"):
        RawTensor.of(np.zeros(3, complex))
    with pytest.raises(TypeError, match="I32 is not a floating-point type"):
        RawTensor.of(np.zeros(3, np.int32)).float32()
    with pytest.raises(ValueError, match="expected F16, BF16 or F32"):
        to_dtype(np.zeros(3, np.float32), "F64")


def test_big_endian_and_strided_arrays_are_stored_in_order(tmp_path: Path) -> None:
    value = np.arange(12, dtype=">f4").reshape(3, 4)
    write_safetensors(tmp_path / "a", {"big": value, "turned": value.T, "part": value[:, ::2]})
    file = SafetensorsFile(tmp_path / "a")
    np.testing.assert_array_equal(file["big"].bits, value)
    np.testing.assert_array_equal(file["turned"].bits, value.T)
    np.testing.assert_array_equal(file["part"].bits, value[:, ::2])


def test_tensors_that_the_header_leaves_unaligned_can_be_read(tmp_path: Path) -> None:
    values = np.float64([1.5, -2.25])
    text = json.dumps({"x": entry("F64", (2,), (0, 16))}).encode()
    text += b" " * (3 - len(text) % 8)
    for extra in range(8):
        padded = text + b" " * extra
        file = SafetensorsFile(raw_file(tmp_path / "a", padded, values.tobytes()))
        assert file["x"].bits.flags.aligned
        np.testing.assert_array_equal(file["x"].bits, values)


def test_only_what_is_looked_at_is_read(tmp_path: Path) -> None:
    """A sparse file of 64 GB opens at once, and one tensor of it takes no more memory than itself."""
    count, size = 64, 1 << 30
    header = {f"t{i}": entry("U8", (size,), (i * size, (i + 1) * size)) for i in range(count)}
    path = raw_file(tmp_path / "huge.safetensors", header)
    base = path.stat().st_size
    os.truncate(path, base + count * size)
    code = (
        "import resource, sys\n"
        "from icml.formats.safetensors import SafetensorsFile\n"
        "file = SafetensorsFile(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert int(file['t40'].bits[: 1 << 20].sum()) == 0\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000  # kB


LIES: list[tuple[str, Any, str]] = [
    ("not JSON", b"{'a': 1}", "not sound JSON"),
    ("not UTF-8", b'{"\xff": 1}', "not sound JSON"),
    ("no object", [1, 2], "not a JSON object"),
    ("deep", b"[" * 200_000, "not sound JSON"),
    ("deep objects", b'{"a":' * 200_000, "not sound JSON"),
    ("a number of a million digits", b'{"a": ' + b"9" * 1_000_000 + b"}", "not sound JSON"),
    ("a name twice", b'{"a": %s, "a": %s}' % (json.dumps(entry()).encode(), json.dumps(entry()).encode()), "twice"),
    ("a key twice", b'{"a": {"dtype": "U8", "dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}', "twice"),
    ("no entry", {"a": [0, 4]}, "not described by a JSON object"),
    ("no dtype", {"a": {"shape": [4], "data_offsets": [0, 4]}}, "unknown dtype None"),
    ("unknown dtype", {"a": entry("F7")}, "unknown dtype 'F7'"),
    ("dtype that is a list", {"a": entry(["U8"])}, "unknown dtype"),
    ("no shape", {"a": {"dtype": "U8", "data_offsets": [0, 4]}}, "not a list of sizes"),
    ("shape that is a number", {"a": entry(shape=4)}, "not a list of sizes"),
    ("negative sizes", {"a": entry(shape=(-2, -2))}, "not a list of sizes"),
    ("true for one", {"a": entry(shape=(True, 4))}, "not a list of sizes"),
    ("fractional size", {"a": entry(shape=(4.0,))}, "not a list of sizes"),
    ("NaN", b'{"a": {"dtype": "U8", "shape": [NaN], "data_offsets": [0, 4]}}', "not a list of sizes"),
    ("too many dimensions", {"a": entry(shape=(1,) * 40 + (4,))}, "not a list of sizes"),
    ("three offsets", {"a": entry(offsets=(0, 4, 8))}, "not two offsets"),
    ("negative offset", {"a": entry(offsets=(-4, 0))}, "not two offsets"),
    ("true for an offset", {"a": entry(shape=(3,), offsets=(True, 4))}, "not two offsets"),
    ("offsets the wrong way round", {"a": entry(offsets=(4, 0))}, "takes 4 bytes, its offsets give -4"),
    ("shape and offsets that disagree", {"a": entry(shape=(5,))}, "takes 5 bytes, its offsets give 4"),
    ("sizes that overflow 64 bits", {"a": entry(shape=(2**32, 2**32))}, "its offsets give 4"),
    ("past the end", {"a": entry(shape=(2**50,), offsets=(0, 2**50))}, "truncated"),
    ("overlap", {"a": entry(), "b": entry(offsets=(2, 6))}, "'b' overlaps tensor 'a'"),
    ("the same bytes twice", {"a": entry(), "b": entry()}, "'b' overlaps tensor 'a'"),
    ("hole at the start", {"a": entry(offsets=(1, 5))}, "'a' leaves a hole after the header"),
    ("hole between", {"a": entry(), "b": entry(offsets=(5, 9))}, "'b' leaves a hole after tensor 'a'"),
    ("bytes that belong to none", {"a": entry(shape=(3,), offsets=(0, 3))}, "after the last tensor"),
    ("metadata that are no strings", {"__metadata__": {"x": 1}, "a": entry()}, "metadata are not strings"),
    ("metadata that are a list", {"__metadata__": [], "a": entry()}, "metadata are not strings"),
]  # fmt: skip


@pytest.mark.parametrize(("header", "message"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_headers_that_lie_are_refused(tmp_path: Path, header: Any, message: str) -> None:
    path = raw_file(tmp_path / "bad.safetensors", header, b"\0" * 4)
    with pytest.raises(InputError, match=r"bad\.safetensors: ") as caught:
        SafetensorsFile(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**8 + 1, 5])
def test_lengths_of_headers_that_lie(tmp_path: Path, length: int) -> None:
    (tmp_path / "a").write_bytes(struct.pack("<Q", length) + b"{}")
    with pytest.raises(InputError, match="not a safetensors file, or truncated"):
        SafetensorsFile(tmp_path / "a")


def test_truncated_anywhere(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", {"x": np.arange(5, dtype=np.int16), "y": np.zeros((2, 0), np.float32)})
    whole = (tmp_path / "a").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "b").write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"truncated|not sound"):
            SafetensorsFile(tmp_path / "b")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_one_wrong_byte_ends_in_an_error_or_in_tensors_inside_the_file(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int
) -> None:
    path = tmp_path_factory.mktemp("st") / "a"
    write_safetensors(path, {"x": np.arange(6, dtype=np.int16), "y": np.ones((3, 2), np.float32)}, {"k": "v"})
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    try:
        file = SafetensorsFile(path)
    except InputError:
        return
    assert sum(file[name].nbytes for name in file) == 36


@pytest.mark.parametrize("content", [b"", b"\0" * 7])
def test_shorter_than_a_length(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(InputError, match="shorter than 8 bytes"):
        SafetensorsFile(tmp_path / "a")


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        SafetensorsFile(tmp_path / "absent")
    with pytest.raises(InputError, match="Is a directory"):
        SafetensorsFile(tmp_path)


def test_views_outlive_the_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", {"x": np.arange(5)})
    with SafetensorsFile(tmp_path / "a") as file:
        kept = file["x"].bits
    np.testing.assert_array_equal(kept, np.arange(5))
