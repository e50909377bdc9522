"""Edge lists in text: which columns hold the edges, and whether there is a header line.

The first data line is a header if a column was chosen by a name, or if the fields in the chosen columns are no numbers
and either are well-known names (source and target, from and to, …) or stand above numbers: in a file with values, some
value below is a number; in one without, all ids below are. `columns` of digits only are numbers, never names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from icml.formats import _kernel
from icml.formats.dialect import Row, Sample, column_number, find_column, fold, is_number, located, sample
from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.names import Names
from icml.formats.source import Content

_CANDIDATES = {
    "text": (";", ",", " "),
    "tsv?": ("\t", ";", ",", " "),
    "csv": (";", ","),
    "tsv": ("\t",),
    "edges": (" ",),
}
"""The separators to choose among; "text" is unnamed text, "tsv?" what is called .tsv but may be something else."""

_NODE_COLUMNS = {
    ("source", "target"),
    ("src", "dst"),
    ("src", "dest"),
    ("from", "to"),
    ("fromid", "toid"),
    ("fromnode", "tonode"),
    ("fromnodeid", "tonodeid"),
    ("sourceid", "targetid"),
    ("sourcenode", "targetnode"),
    ("node1", "node2"),
    ("rater", "ratee"),
}


@dataclass(frozen=True)
class _Layout:
    """Where the edges are: 0-based columns, the number of columns, and the first line that holds one."""

    u: int
    v: int
    value: int | None
    width: int
    header: tuple[str, ...] | None
    start: int
    line: int


def read_edge_text(content: Content, format: str, columns: Sequence[str] | None, threads: int) -> EdgeList:
    """Reads text of one of the formats of _CANDIDATES."""
    beginning = sample(content, _CANDIDATES[format])
    layout = _layout(beginning, columns, content.name)
    with located(content.name):
        u, v, value, line, ids = _kernel.read_edges(
            content.data,
            layout.start,
            layout.line,
            beginning.separator,
            layout.width,
            layout.u,
            layout.v,
            layout.value,
            threads,
        )
    names = Names.from_utf8(*ids) if isinstance(ids, tuple) else Names.from_integers(ids)
    return EdgeList(u, v, value, names, line, content.name, header=layout.header)


def _layout(beginning: Sample, columns: Sequence[str] | None, source: str) -> _Layout:
    rows = beginning.rows
    if not rows:  # no data lines, or the first one is at fault and the kernel will say how
        return _Layout(0, 1, None, 2, None, 0, 1)
    first = rows[0]
    width = len(first.fields)
    if columns is None:
        columns = ("1", "2", "3")[: max(2, min(3, width))]
    if width < 2:
        return _Layout(0, 1, None, 2, None, 0, 1)
    chosen = [find_column(column, first, source) for column in columns]
    if len(set(chosen)) < len(chosen):
        raise InputError(f"a column is chosen twice: {', '.join(columns)}", source)
    u, v, *rest = chosen
    value = rest[0] if rest else None
    if any(column_number(column) is None for column in columns) or _is_header(rows, chosen):
        return _Layout(u, v, value, width, tuple(first.fields), first.end, first.line + 1)
    return _Layout(u, v, value, width, None, 0, 1)


def _is_header(rows: Sequence[Row], chosen: Sequence[int]) -> bool:
    """Whether rows[0] heads the `chosen` columns (of u, v and perhaps the value) rather than being an edge."""
    first, *others = ([row.fields[i] for i in chosen if i < len(row.fields)] for row in rows)
    if any(field == "" or is_number(field) for field in first):
        return False
    if (fold(first[0]), fold(first[1])) in _NODE_COLUMNS:
        return True
    if len(chosen) == 3:
        return any(len(other) == 3 and is_number(other[2]) for other in others)
    return bool(others) and all(is_number(field) for other in others for field in other)
