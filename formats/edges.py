"""Graphs as edge lists: one reader for every format.

`read_edges` recognises the binary formats and MatrixMarket by content and the rest by the name's suffix; what is left
is text, one edge a line: `u v` or `u v value`, further columns ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icml.formats.errors import InputError
from icml.formats.source import Content, Source, read_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from icml.formats.names import Names

FORMATS = {
    "auto": "by content, else by suffix, else an edge list in text",
    "edges": "text, fields separated by spaces and tabs (SNAP, KONECT)",
    "csv": "text, fields separated by commas or semicolons",
    "tsv": "text, fields separated by single tabs",
    "mtx": "MatrixMarket coordinate",
    "metis": "METIS graph",
    "npz": "a saved scipy.sparse matrix, or arrays u, v[, value][, names]",
    "parquet": "Parquet columns",
}
"""The names that `format` takes, with what they mean."""

ALIASES = {"snap": "edges", "konect": "edges", "matrixmarket": "mtx", "ssv": "edges"}

_MAGIC = {b"PK\x03\x04": "npz", b"PAR1": "parquet", b"%%MatrixMarket": "mtx"}
_SUFFIXES = {
    ".graph": "metis",
    ".metis": "metis",
    ".tsv": "tsv?",
    ".mtx": "mtx",
    ".npz": "npz",
    ".parquet": "parquet",
}


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges in the order of the input, with nodes numbered from 0.

    Nothing is merged or dropped: self-loops and parallel edges are rows like any other.

    Attributes:
        u: int32 (m,), the number of each edge's first node.
        v: int32 (m,), the number of its second node.
        value: float64 (m,), finite, or None if the input has no values.
        names: the nodes' names as the input spells them; names[i] belongs to node i. There may be nodes without edges
            where the format can say so.
        line: int64 (m,), the 1-based line of the input that each edge is on, or None for formats without lines.
        source: the input's name for messages.
        undirected: True if the input says that every row stands for both directions (and then lists each edge once).
        header: the fields of the line that was taken for a header, None if there was none.
    """

    u: NDArray[np.int32]
    v: NDArray[np.int32]
    value: NDArray[np.float64] | None
    names: Names
    line: NDArray[np.int64] | None
    source: str
    undirected: bool = False
    header: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.u)


def read_edges(
    source: Source,
    *,
    format: str = "auto",
    columns: Sequence[str] | None = None,
    threads: int | None = None,
) -> EdgeList:
    """Reads a graph.

    Compression (gzip, bzip2, xz, Zstandard) is recognised by content and undone.

    In text, lines that are blank or begin with # or % are skipped. The separator, and whether the first data line is a
    header, are judged by the first 100 data lines; see `icml.formats.dialect` and `icml.formats.edge_text`. Every line
    must have as many columns as the first. Nodes are numbered by first appearance, row by row, u before v, whatever
    the number of threads.

    A matrix gives an edge for each stored entry, and its nodes in the order of its rows. If it equals its transpose it
    is an undirected graph, and gives each edge once. So does a METIS file.

    Args:
        source: a path, "-" for standard input, or a file object opened in binary mode.
        format: one of FORMATS.
        columns: the columns of u, v and optionally the value, by name or 1-based number; for text, Parquet and NPZ
            arrays (by name). By default the first two, and the third if there is one.
        threads: how many threads parse text; by default as many as OpenMP offers.

    Returns:
        The edges, possibly none.

    Raises:
        InputError: the input cannot be read or is not what it should be; with the line where there is one.
        MissingError: the format needs a package that is not installed.
    """
    format = ALIASES.get(format, format)
    if format not in FORMATS:
        raise InputError(f"unknown format '{format}'; there are {', '.join(FORMATS)}")
    if columns is not None and len(columns) not in (2, 3):
        raise InputError(f"expected 2 or 3 columns to be chosen, got {len(columns)}")
    content = read_source(source)
    if format == "auto":
        format = _detect(content)
    if columns is not None and format in ("mtx", "metis"):
        raise InputError(f"columns cannot be chosen in format {format}", content.name)
    return _read(content, format, columns, threads or 0)


def _detect(content: Content) -> str:
    for magic, format in _MAGIC.items():
        if content.data[: len(magic)].lower() == magic.lower():
            return format
    if content.begins_with(b"\x93NUMPY"):
        raise InputError(
            "an NPY file holds no graph; save arrays u, v[, value] with numpy.savez", content.name
        )
    return _SUFFIXES.get(content.suffix, "text")


def _read(content: Content, format: str, columns: Sequence[str] | None, threads: int) -> EdgeList:
    """Hands `content` to the reader of `format`; each is imported only when it is needed."""
    if format == "npz":
        from icml.formats.npz import read_npz_edges

        return read_npz_edges(content, columns)
    if format == "parquet":
        from icml.formats.parquet import read_parquet_edges

        return read_parquet_edges(content, columns)
    if format == "mtx":
        from icml.formats.matrix_market import read_matrix_market

        return read_matrix_market(content, threads)
    if format == "metis":
        from icml.formats.metis import read_metis

        return read_metis(content)
    from icml.formats.edge_text import read_edge_text

    return read_edge_text(content, format, columns, threads)
