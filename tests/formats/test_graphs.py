"""networkx and scipy.sparse in and out, and Parquet against pyarrow."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import (
    EdgeList,
    InputError,
    edges_from_networkx,
    edges_from_scipy,
    read_edges,
    to_networkx,
    to_scipy,
)


def named_edges(edges: EdgeList) -> list[tuple[str, str]]:
    return [(edges.names[u], edges.names[v]) for u, v in zip(edges.u, edges.v, strict=True)]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(-3, 3)), max_size=12))
def test_networkx_round_trip(kind: Any, triples: list[tuple[int, int, int]]) -> None:
    graph = kind()
    graph.add_nodes_from(range(9))
    for u, v, w in triples:
        graph.add_edge(u, v, weight=w)
    edges = edges_from_networkx(graph)
    assert edges.names.to_list() == [str(node) for node in graph.nodes]
    assert edges.undirected == (not graph.is_directed())
    assert len(edges) == graph.number_of_edges()
    back = to_networkx(edges, create_using=kind)
    expected = nx.relabel_nodes(graph, str)
    assert nx.utils.graphs_equal(back, expected)
    assert np.array_equal(to_scipy(edges).toarray(), nx.to_numpy_array(graph))


def test_networkx_weights() -> None:
    graph = nx.path_graph(3)
    assert edges_from_networkx(graph).value is None
    graph[0][1]["weight"] = 2.5
    edges = edges_from_networkx(graph)
    assert edges.value is not None
    assert edges.value.tolist() == [2.5, 1.0]
    assert edges_from_networkx(graph, weight=None).value is None
    graph[1][2]["weight"] = "heavy"
    with pytest.raises(InputError, match="edge 1 2: expected a finite number as weight, got 'heavy'"):
        edges_from_networkx(graph)
    graph[1][2]["weight"] = float("nan")
    with pytest.raises(InputError, match="edge 1 2: expected a finite number as weight, got nan"):
        edges_from_networkx(graph)


def test_networkx_names() -> None:
    graph = nx.Graph([(1, "1")])
    with pytest.raises(InputError, match="two nodes have the name '1'"):
        edges_from_networkx(graph)
    assert named_edges(edges_from_networkx(nx.Graph([((0, 1), "x\ny")]))) == [("(0, 1)", "x\ny")]
    assert to_networkx(read_edges(io.BytesIO(b"a b 2\n"))).edges["a", "b"] == {"weight": 2.0}


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_scipy_round_trip(layout: str, make: Any) -> None:
    matrix = make(np.array([[0, 2, 0], [1, 5, 0], [0, 0, 0]])).asformat(layout)
    edges = edges_from_scipy(matrix)
    assert not edges.undirected
    assert np.array_equal(to_scipy(edges).toarray(), matrix.toarray())
    both = matrix + matrix.T
    edges = edges_from_scipy(both)
    assert edges.undirected
    assert len(edges) == 2
    assert np.array_equal(to_scipy(edges).toarray(), both.toarray())
    assert np.array_equal(to_scipy(edges, symmetric=False).toarray(), np.triu(both.toarray()))


def test_scipy_bad_matrices() -> None:
    with pytest.raises(InputError, match="a graph needs a square matrix, this one is 2 x 3"):
        edges_from_scipy(sp.csr_array((2, 3)))
    with pytest.raises(InputError, match="expected real numbers, got complex128"):
        edges_from_scipy(sp.csr_array(np.eye(2) * 1j))
    with pytest.raises(InputError, match=r"entry \(0, 1\) is nan, not a finite number"):
        edges_from_scipy(sp.csr_array(np.array([[0, np.nan], [0, 0]])))
    with pytest.raises(InputError, match="expected a matrix, got 1 dimensions"):
        edges_from_scipy(sp.coo_array(np.ones(3)))


def test_parallel_edges_add_up() -> None:
    edges = read_edges(io.BytesIO(b"a b 2\nb a 3\na b 4\na a 1\n"))
    assert to_scipy(edges).toarray().tolist() == [[1, 6], [3, 0]]
    assert to_scipy(edges, symmetric=True).toarray().tolist() == [[1, 9], [9, 0]]
    assert to_scipy(read_edges(io.BytesIO(b"a b\na b\n"))).toarray().tolist() == [[0, 2], [0, 0]]


def parquet(columns: dict[str, Any]) -> io.BytesIO:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, row_group_size=2)
    return io.BytesIO(buffer.getvalue())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ab7é", min_size=1, max_size=2), st.integers(-3, 9), st.integers(-5, 5)), max_size=9
    ),
    st.sampled_from(["strings", "integers", "mixed", "dictionary", "large"]),
)
def test_parquet_as_text(rows: list[tuple[str, int, int]], kind: str) -> None:
    """The same edges as CSV and as Parquet are the same graph."""
    u: Any = pa.array([a for a, _, _ in rows], pa.string())
    v: Any = pa.array([b for _, b, _ in rows], pa.int32())
    w = pa.array([x for _, _, x in rows], pa.int8())
    if kind == "integers":
        u = v
    elif kind == "strings":
        v = u
    elif kind == "dictionary":
        u = u.dictionary_encode()
    elif kind == "large":
        u = u.cast(pa.large_string())
    found = read_edges(parquet({"u": u, "v": v, "w": w, "when": w}))
    csv = "u,v,w\n" + "".join(
        f"{a},{b},{x}\n" for a, b, x in zip(u.to_pylist(), v.to_pylist(), w.to_pylist(), strict=True)
    )
    expected = read_edges(io.BytesIO(csv.encode()), columns=("u", "v", "w"))
    assert found.u.tolist() == expected.u.tolist()
    assert found.v.tolist() == expected.v.tolist()
    assert found.names == expected.names
    assert found.value is not None
    assert expected.value is None or found.value.tolist() == expected.value.tolist()
    assert found.line is None
    assert found.header == ("u", "v", "w")


def test_parquet_columns() -> None:
    data = {"when": ["x", "y"], "dst": [1, 2], "w": [True, False], "src": [2, 3]}
    edges = read_edges(parquet(data), columns=("src", "dst", "3"))
    assert named_edges(edges) == [("2", "1"), ("3", "2")]
    assert edges.value is not None
    assert edges.value.tolist() == [1, 0]
    assert edges.header == ("src", "dst", "w")
    assert edges.names.integers is not None


@pytest.mark.parametrize(
    ("data", "columns", "message"),
    [
        ({"u": [1]}, None, "expected 2 or 3 columns, got 1"),
        ({"u": [1, None], "v": [1, 2]}, None, "column 'u' is empty in row 2"),
        ({"u": ["a"], "v": [""]}, None, "an empty node id"),
        ({"u": [1.5], "v": [2]}, None, "column 'u' must hold integers or strings, not double"),
        ({"u": [1], "v": [2], "w": ["x"]}, None, "column 'w' must hold numbers, not string"),
        (
            {"u": [1], "v": [2], "w": [float("nan")]},
            None,
            "expected a finite number in column 'w', row 1, got nan",
        ),
        ({"u": [1], "v": [2]}, ("u", "dst"), "no column 'dst'; the columns are u, v"),
    ],
)
def test_parquet_errors(data: dict[str, Any], columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_edges(parquet(data), columns=columns)


def test_damaged_parquet() -> None:
    whole = parquet({"u": [1], "v": [2]}).getvalue()
    with pytest.raises(InputError, match="input: not a readable Parquet file: "):
        read_edges(io.BytesIO(whole[:-5]))
    with pytest.raises(InputError, match="input: not a readable Parquet file: "):
        read_edges(io.BytesIO(b"PAR1"))


def test_parquet_without_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "g.parquet").write_bytes(parquet({"u": [1], "v": [2]}).getvalue())
    (tmp_path / "pyarrow.py").write_text("raise ImportError('hidden')")
    code = (
        "import sys; from icml.formats import MissingError, read_edges\n"
        "try: read_edges(sys.argv[1])\n"
        "except MissingError as error: print(error, error.exit_code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "g.parquet"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "reading Parquet needs pyarrow; get it with: pip install 'icml-tools[parquet]' 3\n"
