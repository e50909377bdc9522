"""Whatever the bytes are, the readers return or raise InputError."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zstandard

from icml.formats import InputError, read_edges, read_labels, read_points, read_table

from .test_matrix_formats import METIS_PLAIN, METIS_WEIGHTED, SPECIFICATION_EXAMPLE, save, saved_arrays

TEXTS = [
    b"1 2\n3 4\n5 6\n",
    b"# c\n1,2,1\n3,4,-1.5e3\n\n",
    b'\xef\xbb\xbfsource;target;sign\r\n"a ""b""";c;1\r\n',
    b"a\tb\t0.5\nc\td\t-1\n",
    "é ß 1\n€ 😀 -2\n".encode(),
    SPECIFICATION_EXAMPLE[:60] + b"\n3 3 2\n1 2 0.5\n3 1 -1\n",
    METIS_PLAIN,
    METIS_WEIGHTED,
]
TOKENS = [
    *[b"\n", b"\r", b",", b";", b"\t", b" ", b'"', b'""', b"#", b"%", b"\0", b"\xff", b"\xc3", b"\xe2\x82"],
    *[b"nan", b"inf", b"1e999", b"-", b"+", b".", b"e", b"99999999999999999999", b"9" * 5000],
    *[b"%%MatrixMarket matrix coordinate real general\n", b"\xef\xbb\xbf", b"\xff\xfe"],
    *[b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\x93NUMPY", b"BZh91AY&SY", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"],
]


def mutate(data: bytes, rng: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(result))
        match rng.randint(0, 5):
            case 0:
                result[at : at + rng.randint(1, 9)] = b""
            case 1:
                result[at:at] = rng.choice(TOKENS)
            case 2:
                result[at : at + 1] = bytes([rng.randrange(256)])
            case 3:
                result = result[:at]
            case 4:
                result[at:at] = result[: rng.randint(0, len(result))]
            case 5 if result:
                result[at % len(result)] ^= 1 << rng.randrange(8)
    return bytes(result)


def outcome(read: Callable[..., Any], data: bytes, **options: Any) -> InputError | None:
    try:
        read(io.BytesIO(data), **options)
    except InputError as error:
        return error
    return None


def survives(read: Callable[..., Any], data: bytes, **options: Any) -> bool:
    """Whether `data` was read; if it was refused, in one line."""
    error = outcome(read, data, **options)
    assert "\n" not in str(error)
    return error is None


def random_bytes(rng: random.Random) -> bytes:
    return rng.choice([b"", *TOKENS]) + rng.randbytes(rng.randint(0, 60))


READERS: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    *[
        (f, read_edges, {"format": f})
        for f in ("auto", "edges", "csv", "tsv", "mtx", "metis", "npz", "parquet")
    ],
    ("columns", read_edges, {"columns": ("source", "3")}),
    ("labels", read_labels, {}),
    ("table", read_table, {}),
    ("points", read_points, {"nonfinite": "allow"}),
    ("ids", read_points, {"id_column": "1"}),
]


@pytest.mark.parametrize(("name", "read", "options"), READERS, ids=[name for name, _, _ in READERS])
def test_text_readers(name: str, read: Callable[..., Any], options: dict[str, Any]) -> None:
    rng = random.Random(name)
    survived = [survives(read, mutate(rng.choice(TEXTS), rng), **options) for _ in range(350)]
    for _ in range(120):
        survives(read, random_bytes(rng), **options)
    if name not in ("npz", "parquet", "mtx", "metis", "columns"):
        assert 20 < sum(survived) < 350  # both outcomes are common


def parquet_file() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"u": [1, 2, 3], "v": ["a", "b", "c"], "w": [0.5, 1.5, 2.5]}), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["sparse", "deflated", "arrays", "npy", "parquet"])
def test_binary_readers(kind: str) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.eye(3))
    data = {
        "sparse": save(sp.eye_array(4, format="csr"), compressed=False),
        "deflated": save(sp.eye_array(4, format="coo")),
        "arrays": saved_arrays(u=np.array([1, 2]), v=np.array([2, 3]), names=np.array(list("abcd"))),
        "npy": buffer.getvalue(),
        "parquet": parquet_file(),
    }[kind]
    rng = random.Random(kind)
    for _ in range(150):
        damaged = mutate(data, rng)
        survives(read_edges, damaged)
        survives(read_points, damaged)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress])
def test_compressed_streams(compress: Callable[[bytes], bytes]) -> None:
    rng = random.Random(1)
    data = compress(b"".join(b"%d %d\n" % (i, i % 7) for i in range(40)))
    survived = [survives(read_edges, mutate(data, rng)) for _ in range(200)]
    assert not all(survived)
