"""MatrixMarket, METIS and NPZ graphs, against scipy and networkx and the formats' own published examples."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import EdgeList, InputError, read_edges, to_scipy

# The example of the format's specification (The Matrix Market Exchange Formats, section "Coordinate Format").
SPECIFICATION_EXAMPLE = b"""%%MatrixMarket matrix coordinate real general
%=================================================================================
%
% This ASCII file represents a sparse MxN matrix with L
% nonzeros in the following Matrix Market format:
%
%=================================================================================
  5  5  8
    1     1   1.000e+00
    2     2   1.050e+01
    3     3   1.500e-02
    1     4   6.000e+00
    4     2   2.505e+02
    4     4  -2.800e+02
    4     5   3.332e+01
    5     5   1.200e+01
"""

# The graph of the METIS manual (version 5.1.0, figures 2a and 2b): without and with weights.
METIS_PLAIN = b"""% the manual's graph
7 11
5 3 2
1 3 4
5 4 2 1
2 3 6 7
1 3 6
5 4 7
6 4
"""
METIS_EDGES = [(1, 5), (1, 3), (1, 2), (2, 3), (2, 4), (3, 5), (3, 4), (4, 6), (4, 7), (5, 6), (6, 7)]
METIS_WEIGHTED = b"""7 11 001
5 1 3 2 2 1
1 1 3 2 4 1
5 3 4 2 2 2 1 2
2 1 3 2 6 2 7 5
1 1 3 3 6 2
5 2 4 2 7 6
6 6 4 5
"""


def read(data: bytes, **options: Any) -> EdgeList:
    return read_edges(io.BytesIO(data), **options)


def named_edges(edges: EdgeList) -> list[tuple[str, str]]:
    return [(edges.names[u], edges.names[v]) for u, v in zip(edges.u, edges.v, strict=True)]


def dense(edges: EdgeList) -> np.ndarray[Any, Any]:
    return to_scipy(edges).toarray()


def save(matrix: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix, **options)
    return buffer.getvalue()


def saved_arrays(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_matrix_market_specification_example(tmp_path: Path) -> None:
    edges = read(SPECIFICATION_EXAMPLE)
    assert np.array_equal(dense(edges), scipy.io.mmread(io.BytesIO(SPECIFICATION_EXAMPLE)).toarray())
    assert edges.names.to_list() == ["1", "2", "3", "4", "5"]
    assert named_edges(edges)[3:5] == [("1", "4"), ("4", "2")]
    assert edges.line is not None
    assert edges.line.tolist() == list(range(9, 17))
    assert not edges.undirected


matrices = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.integers(-3, 3)), max_size=14
    ).map(
        lambda entries: sp.coo_array(
            (
                np.array([x for _, _, x in entries], float),
                (np.array([i for i, _, _ in entries], int), np.array([j for _, j, _ in entries], int)),
            ),
            shape=(n, n),
        )
    )
)


@settings(max_examples=60, deadline=None)
@given(
    matrices,
    st.sampled_from(["general", "symmetric", "upper"]),
    st.sampled_from(["real", "integer", "pattern"]),
)
def test_matrix_market_as_scipy_writes_it(matrix: Any, kind: str, field: str) -> None:
    matrix = matrix.tocsr()
    if kind == "symmetric":
        matrix = matrix + matrix.T
    if kind == "upper":
        matrix = sp.triu(matrix)
    if field == "pattern":
        matrix = (matrix != 0).astype(float)
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix.tocoo(), field=field)
    edges = read(buffer.getvalue())
    assert np.array_equal(dense(edges), matrix.toarray())
    assert edges.names == [str(i + 1) for i in range(matrix.shape[0])]
    assert (edges.value is None) == (b"pattern" in buffer.getvalue().split(b"\n")[0])
    if kind == "symmetric":
        assert edges.undirected


def test_matrix_market_kinds() -> None:
    head = "%%MatrixMarket matrix coordinate real "
    body = "\n%\n\n4 4 2\n2 1 5\n3 2 -1\n"
    symmetric = read((head + "symmetric" + body).encode())
    assert (named_edges(symmetric), symmetric.undirected) == ([("2", "1"), ("3", "2")], True)
    skew = read((head.upper() + "skew-symmetric" + body).encode(), format="mtx")
    assert (named_edges(skew), skew.undirected) == ([("2", "1"), ("3", "2")], False)
    assert skew.value is not None
    assert skew.value.tolist() == [5, -1]
    general = read((head + "general\n2 2 3\n1 2 7\n2 1 7\n2 2 1\n").encode())
    assert (named_edges(general), general.undirected) == ([("1", "2"), ("2", "2")], True)
    assert len(symmetric.names) == 4  # node 4 has no edge
    assert (
        len(read(b"%%MatrixMarket matrix coordinate pattern general\n2000000000 2000000000 0\n").names)
        == 2 * 10**9
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("real general\n2 2 2\n1 2 1\n", "input: expected 2 entries, got 1"),
        ("real general\n2 2 1\n1 2 1\n% c\n2 1 1\n", "input:5: more entries than the 1 that line 2 promises"),
        ("real general\n2 2 2\n1 2 1\n1 3 1\n", "input:4: expected row and column numbers from 1 to 2"),
        ("real general\n2 2 1\n0 1 1\n", "input:3: expected row and column numbers from 1 to 2"),
        ("real general\n2 2 1\n1.0 1 1\n", "input:3: expected row and column numbers from 1 to 2"),
        ("real general\n2 2 1\n1 1\n", "input:3: expected 3 columns, got 2"),
        ("pattern general\n2 2 1\n1 1 1\n", "input:3: expected 2 columns, got 3"),
        ("real general\n2 2 1\n1 1 x\n", "input:3: expected a number in column 3, got 'x'"),
        ("real general\n2 2 1\n1 1 nan\n", "input:3: expected a finite number in column 3, got 'nan'"),
        ("real general\n2 3 1\n1 1 1\n", "input:2: a graph needs a square matrix, this one is 2 x 3"),
        ("real general\n% c\n2 2\n1 1 1\n", "input:3: expected the size line 'rows columns entries'"),
        ("real general\n-2 -2 1\n", "input:2: expected the size line 'rows columns entries'"),
        ("real general\n3000000000 3000000000 1\n", "input:2: more than 2147483647 nodes"),
        ("real general\n", "input: the size line 'rows columns entries' is missing"),
        (
            "complex general\n",
            "input:1: expected one of real, double, integer, unsigned-integer, pattern; got 'complex'",
        ),
        ("real hermitian\n", "input:1: expected one of general, symmetric, skew-symmetric; got 'hermitian'"),
    ],
)
def test_matrix_market_errors(data: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(("%%MatrixMarket matrix coordinate " + data).encode())
    assert str(caught.value) == message


def test_matrix_market_banner() -> None:
    with pytest.raises(
        InputError, match="input:1: expected '%%MatrixMarket matrix coordinate FIELD SYMMETRY'"
    ):
        read(b"1 2\n", format="mtx")
    with pytest.raises(InputError, match="input:1: only coordinate matrices are graphs, this one is 'array'"):
        read(b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n")
    with pytest.raises(InputError, match="columns cannot be chosen in format mtx"):
        read(SPECIFICATION_EXAMPLE, columns=("1", "2"))
    assert len(read(b"\xef\xbb\xbf" + SPECIFICATION_EXAMPLE.replace(b"\n", b"\r\n"))) == 8


def test_metis_manual_examples(tmp_path: Path) -> None:
    (tmp_path / "manual.graph").write_bytes(METIS_PLAIN)
    plain = read_edges(tmp_path / "manual.graph")
    assert named_edges(plain) == [(str(u), str(v)) for u, v in METIS_EDGES]
    assert plain.value is None
    assert plain.undirected
    assert plain.line is not None
    assert plain.line.tolist() == [u + 2 for u, _ in METIS_EDGES]
    weighted = read(METIS_WEIGHTED, format="metis")
    assert named_edges(weighted) == named_edges(plain)
    assert weighted.value is not None
    assert weighted.value.tolist() == [1, 2, 1, 2, 1, 3, 2, 2, 5, 2, 6]


def test_metis_skips_sizes_and_node_weights() -> None:
    _, *lines = METIS_WEIGHTED.decode().splitlines()
    with_all = ["7 11 111 2", *(f"9 4.5 -1 {line}" for line in lines)]
    assert (
        dense(read("\n".join(with_all).encode(), format="metis")).tolist()
        == dense(read(METIS_WEIGHTED, format="metis")).tolist()
    )
    node_weights = ["3 2 10", "4 2", "1 1 3", "2 2"]
    assert len(read("\n".join(node_weights).encode(), format="metis")) == 2


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 9), st.randoms(use_true_random=False), st.booleans())
def test_metis_against_networkx(n: int, random: Any, weighted: bool) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(1, n + 1))
    for u, v in itertools.combinations(range(1, n + 1), 2):
        if random.random() < 0.4:
            graph.add_edge(u, v, weight=random.randint(1, 9) if weighted else 1)
    lines = [f"{n} {graph.number_of_edges()}" + (" 1" if weighted else "")]
    for u in graph.nodes:
        words = [f"{v} {graph[u][v]['weight']}" if weighted else str(v) for v in graph[u]]
        random.shuffle(words)
        lines.append(" ".join(words))
        if random.random() < 0.2:
            lines.append("% a comment")
    edges = read("\n".join(lines).encode() + b"\n", format="metis")
    expected = nx.to_numpy_array(graph) if n else np.zeros((0, 0))
    assert np.array_equal(dense(edges), expected)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "input: expected the header line 'nodes edges [format [constraints]]'"),
        (b"% c\n3\n", "input:2: expected the header line 'nodes edges [format [constraints]]'"),
        (b"3 2 2\n", "input:1: expected a format of three digits 0 or 1, got '2'"),
        (b"3 1\n2\n1\n", "input: expected the lines of 3 nodes, got 2"),
        (b"2 1\n2\n1\n\n2\n", "input:5: more lines than the 2 nodes"),
        (b"2 2\n2\n1\n", "input:1: the header says 2 edges, the lines have 1"),
        (b"2 1\n2\n\n", "input:2: edge 1 2 must be listed once by each of its nodes, with the same weight"),
        (
            b"3 2\n2\n1 3\n\n",
            "input:3: edge 2 3 must be listed once by each of its nodes, with the same weight",
        ),
        (
            b"2 1 1\n2 5\n1 6\n",
            "input:2: edge 1 2 must be listed once by each of its nodes, with the same weight",
        ),
        (
            b"2 1\n2 2\n1 1\n",
            "input:3: edge 2 1 must be listed once by each of its nodes, with the same weight",
        ),
        (b"2 1\n3\n1\n", "input:2: expected neighbours from 1 to 2"),
        (b"2 1\n2\n1.5\n", "input:3: expected neighbours from 1 to 2"),
        (b"2 1\n2\n2\n", "input:3: node 2 lists itself"),
        (b"2 1 1\n2 5\n1\n", "input:3: the last neighbour has no edge weight"),
        (b"2 1 11 2\n1 1 2 5\n1\n", "input:3: expected 2 numbers before the neighbours"),
        (b"2 1\n2\nx\n", "input:3: expected a finite number, got 'x'"),
        (b"3000000000 1\n", "input:1: more than 2147483647 nodes"),
    ],
)
def test_metis_errors(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(data, format="metis")
    assert str(caught.value) == message


@settings(max_examples=60, deadline=None)
@given(matrices, st.sampled_from(["csr", "csc", "coo"]), st.booleans(), st.booleans())
def test_npz_of_scipy(matrix: Any, layout: str, symmetric: bool, compressed: bool) -> None:
    if symmetric:
        matrix = matrix + matrix.T
    matrix = matrix.asformat(layout)
    edges = read(save(matrix, compressed=compressed))
    assert np.array_equal(dense(edges), matrix.toarray())
    assert edges.names == [str(i) for i in range(matrix.shape[0])]
    if symmetric:
        assert edges.undirected
        assert (edges.u <= edges.v).all()
    elif not edges.undirected:
        assert len(edges) == matrix.nnz
        coo = matrix.tocoo()
        assert edges.u.tolist() == coo.row.tolist()
        assert edges.v.tolist() == coo.col.tolist()


def test_npz_is_read_without_scipy(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(save(sp.eye_array(3, format="csr")))
    code = (
        "import sys; from icml.formats import read_edges\n"
        "print(len(read_edges(sys.argv[1])), 'scipy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.npz"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3 False\n"


def test_npz_of_edges() -> None:
    edges = read(
        saved_arrays(u=np.array([7, 5], np.uint8), v=np.array([5, -1]), s=np.array([1, -1], np.int8))
    )
    assert named_edges(edges) == [("7", "5"), ("5", "-1")]
    assert edges.names.to_list() == ["7", "5", "-1"]
    assert edges.value is not None
    assert edges.value.tolist() == [1, -1]
    assert edges.line is None
    texts = read(
        saved_arrays(u=np.array(["x", "007"]), v=np.array([b"7", "é".encode()]), value=np.array([0.5, 2]))
    )
    assert texts.names.to_list() == ["x", "7", "007", "é"]
    indexed = read(saved_arrays(u=np.array([2]), v=np.array([0]), names=np.array(["a", "b", "c"])))
    assert (named_edges(indexed), indexed.names.to_list()) == ([("c", "a")], ["a", "b", "c"])
    chosen = read(saved_arrays(a=np.array([1]), b=np.array([2]), w=np.array([3])), columns=("b", "a", "w"))
    assert (named_edges(chosen), chosen.value) == ([("2", "1")], np.array([3.0]))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"u": [1]}, "input: expected a saved sparse matrix or arrays u and v; there are u"),
        ({"u": [1], "v": [1, 2]}, "input: array 'v' has 2 elements, not 1"),
        ({"u": [1], "v": [2], "s": [1, 2]}, "input: array 's' has 2 elements, not 1"),
        ({"u": [1], "v": [2], "s": [np.nan]}, "input: expected a finite number in array 's', row 1, got nan"),
        ({"u": [1], "v": [2], "s": ["x"]}, "input: array 's' must hold real numbers, not <U1"),
        ({"u": [1.5], "v": [2]}, "input: array 'u' must hold strings, not float64"),
        ({"u": [[1]], "v": [2]}, "input: array 'u' must have one dimension, not 2"),
        ({"u": [""], "v": ["a"]}, "input: an empty node id"),
        ({"u": [3], "v": [0], "names": ["a", "b"]}, "input: array 'u' holds index 3, outside 0 to 1"),
        ({"u": [0], "v": [1], "names": ["a", "a"]}, "input: array 'names' holds a name twice"),
        (
            {"u": [np.uint64(2**63)], "v": [np.uint64(1)]},
            "input: array 'u' must hold int64 integers, not uint64",
        ),
        ({"u": [b"\xff"], "v": [b"a"]}, "input: array 'u' holds text that is not UTF-8"),
    ],
)
def test_npz_errors(arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(saved_arrays(**{name: np.array(array) for name, array in arrays.items()}))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indptr": [0, 1]}, "the array 'indptr' of the sparse matrix is inconsistent"),
        ({"indptr": [0, 2, 1, 3]}, "the array 'indptr' of the sparse matrix is inconsistent"),
        ({"indices": [0, 1, 3]}, "array 'indices' holds index 3, outside 0 to 2"),
        ({"indices": [0, 1, -1]}, "array 'indices' holds index -1, outside 0 to 2"),
        ({"data": [1.0, 2.0]}, "array 'data' has 2 elements, not 3"),
        ({"data": [1.0, np.inf, 2.0]}, "expected a finite number in array 'data', row 2, got inf"),
        ({"data": [1j, 1, 1]}, "array 'data' must hold real numbers, not complex128"),
        ({"shape": [3, 4]}, "a graph needs a square matrix, this one is 3 x 4"),
        ({"shape": [3]}, "the array 'shape' of the sparse matrix is not two sizes"),
        ({"shape": [-3, -3]}, "the array 'shape' of the sparse matrix is not two sizes"),
        ({"format": b"bsr"}, "a sparse matrix saved in format 'bsr'; save A.tocsr() instead"),
    ],
)
def test_npz_sparse_errors(change: dict[str, Any], message: str) -> None:
    with np.load(io.BytesIO(save(sp.eye_array(3, format="csr")))) as saved:
        arrays = dict(saved)
    arrays |= {name: np.array(array) for name, array in change.items()}
    with pytest.raises(InputError) as caught:
        read(saved_arrays(**arrays))
    assert str(caught.value) == f"input: {message}"


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "exploded",)

    data = saved_arrays(u=np.array([Bomb()], dtype=object), v=np.array([1]))
    with pytest.raises(InputError, match="array 'u' is not readable: Object arrays cannot be loaded"):
        read(data)
    assert not (tmp_path / "exploded").exists()


def test_other_archives_and_arrays() -> None:
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("edges.csv", "1,2\n")
    with pytest.raises(InputError, match="a zip archive without arrays; unpack it first"):
        read(buffer.getvalue())
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    with pytest.raises(InputError, match="an NPY file holds no graph"):
        read(buffer.getvalue())
