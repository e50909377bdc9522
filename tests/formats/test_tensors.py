"""Tensors: coordinate tables against a reading by the csv module, binary formats against numpy and scipy, errors."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import InputError, _kernel
from icml.formats.tensors import DenseTensor, Request, SparseTensor, match_labels, read_tensor


def read(data: bytes | str, axes: str = "uvt", **options: Any) -> DenseTensor | SparseTensor:
    return read_tensor(
        io.BytesIO(data.encode() if isinstance(data, str) else data), Request(tuple(axes), **options)
    )


def sparse(data: bytes | str, axes: str = "uvt", **options: Any) -> SparseTensor:
    tensor = read(data, axes, **options)
    assert isinstance(tensor, SparseTensor)
    return tensor


def cells(tensor: SparseTensor, axes: str = "uvt") -> list[tuple[Any, ...]]:
    """The entries with labels in the place of their numbers."""
    assert tensor.values is not None
    columns = [
        [tensor.labels[c][i] for i in row.tolist()] if c in tensor.labels else row.tolist()
        for c, row in zip(axes, tensor.index, strict=True)
    ]
    return list(zip(*columns, tensor.values.tolist(), strict=True))


words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zs"]), min_size=1, max_size=20
).filter(lambda word: word[0] not in '#%"\ufeff')


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(words, st.integers(0, 30), st.sampled_from(["a", "long name, with a comma"]), st.floats(0, 9)),
             min_size=1, max_size=30),
    st.integers(1, 3),
    st.integers(1, 60),
)  # fmt: skip
def test_entries_as_the_csv_module_writes_them(rows: list[tuple[Any, ...]], threads: int, piece: int) -> None:
    """Labels by first appearance, whatever the threads and the pieces in which the text is read."""
    buffer = io.StringIO()
    csv.writer(buffer).writerows(rows)
    text = buffer.getvalue().encode()
    flat, labels, values, line = _kernel.read_coordinates(
        text, 0, 1, ",", "lilv", ["", "", "", ""], [1 << 60] * 4, threads=threads, piece_bytes=piece
    )
    index = flat.reshape(3, -1)
    assert values is not None
    assert values.tolist() == [row[3] for row in rows]
    assert index[1].tolist() == [row[1] for row in rows]
    assert line.tolist() == list(range(1, len(rows) + 1))
    for axis in (0, 2):
        found = labels[axis]
        assert found is not None
        arena, ends = found
        names = [arena[a:b].decode() for a, b in zip([0, *ends.tolist()], ends.tolist(), strict=False)]
        assert names == list(dict.fromkeys(row[axis] for row in rows))
        assert [names[i] for i in index[axis]] == [row[axis] for row in rows]


def test_indices_labels_and_headers() -> None:
    assert cells(sparse("0 1 2 3.5\n1 0 0 2\n")) == [(0, 1, 2, 3.5), (1, 0, 0, 2)]
    assert sparse("0 1 2 3.5\n1 0 0 2\n").shape == (2, 2, 3)
    assert cells(sparse('u,v,t,count\nann,"x, y",3,1\nann,z,0,2\n')) == [
        ("ann", "x, y", 3, 1),
        ("ann", "z", 0, 2),
    ]
    assert cells(sparse("user;item;day;rating\n1;a;0;2\n")) == [(1, "a", 0, 2)]
    assert cells(sparse("t\tcount\tv\tu\n5\t2\tx\t7\n")) == [(7, "x", 5, 2)]
    assert cells(sparse("ann,x,1\nann,x,1\n")) == [("ann", "x", 1, 1)] * 2
    assert cells(sparse("007 1 0 2\n+8 1 0 3\n")) == [("007", 1, 0, 2), ("+8", 1, 0, 3)]
    assert cells(sparse("7 1 0 2\n8 1 0 3\n", named="u")) == [("7", 1, 0, 2), ("8", 1, 0, 3)]
    assert cells(sparse("0,9,1,2,3,4\n", columns=["3", "1", "4", "6"])) == [(1, 0, 2, 4)]
    assert cells(sparse("who,what,n,when\na,b,2,4\n", columns=["who", "what", "when", "n"])) == [
        ("a", "b", 4, 2)
    ]
    assert cells(sparse(b"\xef\xbb\xbf% note\r\n\r\n1 2 3 4\r\n")) == [(1, 2, 3, 4)]
    assert np.isnan(sparse("0,0,0,nan\n").values).all()  # type: ignore[arg-type]
    assert sparse("0,0,0,\n1,1,1,2\n").line.tolist() == [1, 2]  # type: ignore[union-attr]


def test_lists_of_cells_have_no_values() -> None:
    tensor = sparse("u,v,t,whatever\na,b,1,x\n", values=False)
    assert (tensor.values, tensor.index.tolist()) == (None, [[0], [0], [1]])
    assert sparse("0 1 2 junk\n", values=False).index.tolist() == [[0], [1], [2]]


def test_frostt_counts_from_one() -> None:
    tensor = sparse("# three axes\n1 1 1 2.0\n2 3 4 5\n", format="tns")
    assert (tensor.index.tolist(), tensor.shape) == ([[0, 1], [0, 2], [0, 3]], (2, 3, 4))


def test_sizes_that_are_known() -> None:
    assert sparse("0 0 0 1\n", sizes={"v": 5}).shape == (1, 5, 1)
    assert match_labels(sparse("b x 0 1\n"), "u", ["a", "b", "c"], "uvt").index.tolist() == [[1], [0], [0]]
    assert match_labels(sparse("b x 0 1\n"), "u", ["a", "b", "c"], "uvt").shape == (3, 1, 1)


def test_arrays_stay_where_they_are(tmp_path: Path) -> None:
    y = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    np.save(tmp_path / "y.npy", y)
    np.save(tmp_path / "f.npy", np.asfortranarray(y))
    (tmp_path / "y.npy.gz").write_bytes(gzip.compress((tmp_path / "y.npy").read_bytes()))
    mapped = read_tensor(tmp_path / "y.npy", Request(tuple("uvt")))
    assert isinstance(mapped, DenseTensor)
    assert isinstance(mapped.array, np.memmap)
    for name in ("y.npy", "f.npy", "y.npy.gz"):
        with open(tmp_path / name, "rb") as file:
            for source in (tmp_path / name, file):
                tensor = read_tensor(source, Request(tuple("uvt")))
                assert isinstance(tensor, DenseTensor)
                assert tensor.array.dtype == np.int16
                np.testing.assert_array_equal(tensor.array, y)


def test_archives(tmp_path: Path) -> None:
    import scipy.sparse

    y = np.random.default_rng(0).poisson(0.5, (5, 7)).astype(float)
    np.savez(
        tmp_path / "y.npz", Y=y, X=y + 1, labels_u=np.array(list("abcde")), days=np.array(["mon", "tue"])
    )
    dense = read_tensor(tmp_path / "y.npz", Request(("u", "v")))
    assert isinstance(dense, DenseTensor)
    np.testing.assert_array_equal(dense.array, y)
    assert (dense.labels, dense.texts) == ({"u": list("abcde")}, {"days": ["mon", "tue"]})
    other = read_tensor(tmp_path / "y.npz", Request(("u", "v"), key="X"))
    assert isinstance(other, DenseTensor)
    np.testing.assert_array_equal(other.array, y + 1)
    matrix = scipy.sparse.coo_matrix(y)
    for kind in ("csr", "csc", "coo"):
        scipy.sparse.save_npz(tmp_path / f"{kind}.npz", matrix.asformat(kind))
        tensor = read_tensor(tmp_path / f"{kind}.npz", Request(("u", "v")))
        assert isinstance(tensor, SparseTensor)
        assert tensor.shape == (5, 7)
        back = np.zeros(tensor.shape)
        back[tuple(tensor.index)] = tensor.values
        np.testing.assert_array_equal(back, y)
    coords = np.array(np.nonzero(y))
    np.savez(
        tmp_path / "nd.npz", coords=coords, data=y[y != 0], shape=np.array(y.shape), fill_value=np.zeros(())
    )
    tensor = read_tensor(tmp_path / "nd.npz", Request(("u", "v")))
    assert isinstance(tensor, SparseTensor)
    np.testing.assert_array_equal(tensor.index, coords)


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {
        "n": [1.5, 2.0],
        "v": pa.array(["x", "y"]).dictionary_encode(),
        "u": [3, 0],
        "t": ["süß", "süß"],
    }
    pq.write_table(pa.table(columns), tmp_path / "y.parquet")
    tensor = read_tensor(tmp_path / "y.parquet", Request(tuple("uvt")))
    assert isinstance(tensor, SparseTensor)
    assert cells(tensor) == [(3, "x", "süß", 1.5), (0, "y", "süß", 2.0)]
    named = read_tensor(tmp_path / "y.parquet", Request(tuple("uvt"), named="u"))
    assert isinstance(named, SparseTensor)
    assert named.labels["u"] == ["3", "0"]
    for bad, message in (({"u": [None, 1], "v": [1, 2], "t": [1, 2]}, "column 'u' is empty in row 1"),
                         ({"u": [-1, 1], "v": [1, 2], "t": [1, 2]}, "holds the index -1"),
                         ({"u": [0.5, 1], "v": [1, 2], "t": [1, 2]}, "must hold integers or strings")):  # fmt: skip
        pq.write_table(pa.table(bad), tmp_path / "bad.parquet")
        with pytest.raises(InputError, match=message):
            read_tensor(tmp_path / "bad.parquet", Request(tuple("uvt")))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "holds no entries"),
        ("# nothing\n\n", {}, "holds no entries"),
        ("u,v,t,n\n", {}, "holds no entries"),
        ("0 0 0 1\n1 1 1\n", {}, ":2: expected 4 columns, got 3"),
        ("0 0 0 0 1\n", {}, ":1: expected 4 columns"),
        ("0 0\n", {}, ":1: expected 4 columns"),
        ("0 0 0 1\n0 0 -1 1\n", {}, r":2: index -1 in column 3 \(t\); indices count from 0"),
        ("0 0 0 1\n0 0 5 1\n", {"sizes": {"t": 5}}, r":2: index 5 in column 3 \(t\) is outside 0..4"),
        ("1 1 6 1\n", {"sizes": {"t": 5}, "format": "tns"}, r":1: index 6 in column 3 \(t\) is outside 1..5"),
        ("0 1 1 1\n", {"format": "tns"}, r":1: index 0 in column 1 \(u\); indices count from 1"),
        ("1 1 1\n", {"format": "tns"}, "expected 4 columns"),
        ("0,0,0,1\n0,,0,1\n", {}, r":2: empty cell in column 2 \(v\)"),
        ("0,0,0,1\n0,0,0,one\n", {}, ":2: expected a number in column 4, got 'one'"),
        (
            "0,0,0,1\n" * 200 + "0,x,0,1\n",
            {},
            r":201: expected an index in column 2 \(v\), as in the lines",
        ),
        ("0,0,0,1\n" * 200 + "0,99999999999999999999,0,1\n", {}, ":201: expected an index in column 2"),
        ("0,0,0,inf\n", {"nonfinite": False}, ":1: expected a finite number"),
        ("a,b,c,d\n", {"columns": ["1", "2"]}, "2 columns are chosen for u, v, t and the value"),
        ("a,b,c,d\n", {"columns": ["1", "2", "9", "4"]}, "no column 9"),
        ("a,b,c,d\n", {"columns": ["1", "2", "2", "4"]}, "a column is chosen twice"),
        ("u,v,t,first,second\n1,1,1,1,1\n", {}, "which column holds the value"),
        (
            "a b 0 1\nb b 0 1\n",
            {"sizes": {"u": 3}},
            "axis u has 2 labels, not 3: the first is 'a'",
        ),
        (b"0 0 0 1\n0 0 \xff 1\n", {}, ":2: "),
        ("0 0 0 1\n", {"format": "xml"}, "unknown format 'xml'"),
        ("0 0 0 1\n", {"key": "Y"}, "for NPZ files"),
        (b"\x93NUMPY\x01\x00garbage", {}, "NPY file is not readable"),
        (b"PK\x03\x04garbage", {}, "not a readable NPZ file"),
    ],
)
def test_errors_say_where(text: bytes | str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, **options)


def test_unknown_labels_say_where() -> None:
    with pytest.raises(InputError, match=":3: unknown u='zoe'"):
        match_labels(sparse("u,v,t\nann,x,0\nzoe,x,0\n"), "u", ["ann"], "uvt")


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ({"a": np.ones((2, 2)), "b": np.ones((2, 2))}, {}, "several arrays with 2 axes; choose one by its key: a, b"),
        ({"a": np.ones(3), "b": np.ones((2, 2, 2))}, {}, "no array with 2 axes"),
        ({"a": np.ones((2, 2))}, {"key": "z"}, "no array 'z'; there are a"),
        ({"a": np.ones((2, 2), complex)}, {"key": "a"}, "must hold real numbers"),
        ({"a": np.ones((2, 2)), "labels_u": np.array(["x", "x"])}, {}, "holds a label twice"),
        ({"a": np.ones((2, 2))}, {"sizes": {"v": 3}}, "axis v has size 2, not 3"),
        ({"coords": np.array([[0], [9]]), "data": np.ones(1), "shape": np.array([2, 2])}, {},
         "index outside 0..1 on axis 1"),
        ({"coords": np.zeros((2, 1), int), "data": np.ones(1), "shape": np.array([2, 2]), "fill_value": np.ones(1)}, {},
         "must be zero"),
    ],
)  # fmt: skip
def test_archives_that_do_not_fit(arrays: dict[str, Any], options: dict[str, Any], message: str) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    with pytest.raises(InputError, match=message):
        read(buffer.getvalue(), "uv", **options)


def test_a_shape_that_is_too_large_is_no_memory_error(tmp_path: Path) -> None:
    """A header that promises more than the file holds."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 2)}
    )
    (tmp_path / "y.npy").write_bytes(buffer.getvalue())
    for source in (tmp_path / "y.npy", io.BytesIO(buffer.getvalue())):
        with pytest.raises(InputError, match="not readable"):
            read_tensor(source, Request(("u", "v")))
