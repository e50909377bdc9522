"""Sparse tensors in text: which columns hold the axes and the value, whether they hold indices or labels.

The first data line is a header if it names all axes, or if none of its fields is a number and its value's field stands
above a number (without a value: the fields of all axes stand above integers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats import _kernel
from icml.formats.dialect import Row, column_number, find_column, fold, is_number, listing, located, sample
from icml.formats.errors import InputError
from icml.formats.names import Names
from icml.formats.source import Content
from icml.formats.table_text import SEPARATORS

_VALUE_NAMES = ("value", "count", "counts", "rating", "weight", "n", "y")
_NO_LIMIT = 1 << 62


@dataclass(frozen=True)
class TextRequest:
    """What is asked for; see `tensors.Request`."""

    axes: tuple[str, ...]
    format: str
    columns: Sequence[str] | None
    sizes: dict[str, int]
    named: frozenset[str]
    values: bool
    nonfinite: bool
    threads: int

    def columns_wanted(self) -> str:
        axes = ", ".join(self.axes)
        return f"{axes} and the value" if self.values else axes


@dataclass(frozen=True)
class Chosen:
    """The 0-based column of each axis, and that of the value if there is one."""

    axes: tuple[int, ...]
    value: int | None


Entries = tuple[NDArray[np.int64], list[Names | None], NDArray[np.float64] | None, NDArray[np.int64]]


def read_tensor_text(content: Content, request: TextRequest) -> Entries:
    """The entries of a tensor in text.

    Returns:
        int64 (axes, n) indices; the labels of each axis, None where it has none; float64 (n,) values, None if they were
        not asked for; int64 (n,) lines.

    Raises:
        InputError: with file and line.
    """
    from_one = request.format == "tns"
    beginning = sample(content, (" ",) if from_one else SEPARATORS[request.format])
    rows = beginning.rows
    if not rows:
        return _read_none(content, beginning.separator, request)
    first = rows[0]
    header = not from_one and _names_all(first.fields, request)
    chosen = choose_columns(first.fields, header, request, content.name, first.line)
    header = header or (not from_one and _is_header(rows, chosen))
    data = rows[1:] if header else rows
    roles = ["s"] * len(first.fields)
    limits = [_NO_LIMIT] * len(first.fields)
    for axis, column in zip(request.axes, chosen.axes, strict=True):
        labels = axis in request.named or not (from_one or _holds_integers(data, column))
        roles[column] = "l" if labels else "i"
        limits[column] = request.sizes.get(axis, _NO_LIMIT)
    if chosen.value is not None:
        roles[chosen.value] = "v"
    with located(content.name):
        flat, texts, values, line = _kernel.read_coordinates(
            content.data,
            first.end if header else 0,
            first.line + 1 if header else 1,
            beginning.separator,
            "".join(roles),
            _column_names(first.fields, header, chosen, request),
            limits,
            1 if from_one else 0,
            request.nonfinite,
            request.threads,
        )
    index = flat.reshape(len(chosen.axes), -1)
    names = [None if text is None else Names.from_utf8(*text) for text in texts]
    order = np.argsort(np.argsort(chosen.axes))  # the kernel's axes come in the order of the columns
    if (order != np.arange(len(order))).any():
        index = index[order]
        names = [names[i] for i in order]
    if request.values and values is None:
        values = np.ones(len(line))
    return index, names, values, line


def choose_columns(
    fields: Sequence[str], named: bool, request: TextRequest, source: str, line: int | None
) -> Chosen:
    """The columns that hold the axes and the value.

    Args:
        fields: the first data line, or the names of the columns.
        named: whether `fields` are names, to be looked among for those of the axes.
        request: what is asked for.
        source, line: where they are, for errors.

    Raises:
        InputError: there are no such columns, or too few or too many to know which are meant.
    """
    count = len(request.axes)
    if request.columns is not None:
        return _asked_for(fields, request, source, line)
    if named and set(request.axes) <= set(fields):
        axes = tuple(find_column(axis, Row(line or 1, 0, list(fields)), source) for axis in request.axes)
        rest = [i for i in range(len(fields)) if i not in axes]
        usual = [i for i in rest if fold(fields[i]) in _VALUE_NAMES]
        if not request.values or not rest:
            return Chosen(axes, None)
        if len(rest) > 1 and len(usual) != 1:
            raise InputError(
                f"which column holds the value? There are {listing([fields[i] for i in rest])}", source, line
            )
        return Chosen(axes, (usual or rest)[0])
    if len(fields) < count or (request.values and len(fields) > count + 1):
        raise InputError(
            f"expected {count + request.values} columns ({request.columns_wanted()}), got {len(fields)}",
            source,
            line,
        )
    has_value = request.values and len(fields) == count + 1
    if request.format == "tns" and request.values and not has_value:
        raise InputError(
            f"expected {count + 1} columns ({request.columns_wanted()}), got {len(fields)}", source, line
        )
    return Chosen(tuple(range(count)), count if has_value else None)


def _asked_for(fields: Sequence[str], request: TextRequest, source: str, line: int | None) -> Chosen:
    count = len(request.axes)
    columns = request.columns or ()
    if len(columns) not in (count, count + 1):
        raise InputError(f"{len(columns)} columns are chosen for {request.columns_wanted()}", source)
    found = [find_column(column, Row(line or 1, 0, list(fields)), source) for column in columns]
    if len(set(found)) < len(found):
        raise InputError(f"a column is chosen twice: {', '.join(columns)}", source)
    value = found[count] if request.values and len(found) > count else None
    return Chosen(tuple(found[:count]), value)


def _names_all(fields: Sequence[str], request: TextRequest) -> bool:
    """Whether the first line must be a header: it names all axes, or columns that were asked for."""
    by_name = any(column_number(column) is None for column in request.columns or ())
    return by_name or set(request.axes) <= set(fields)


def _is_header(rows: Sequence[Row], chosen: Chosen) -> bool:
    """Whether rows[0] heads the chosen columns rather than being an entry."""
    width = len(rows[0].fields)
    columns = [*chosen.axes, *(() if chosen.value is None else (chosen.value,))]
    if any(rows[0].fields[i] == "" or is_number(rows[0].fields[i]) for i in columns):
        return False
    others = [row.fields for row in rows[1:] if len(row.fields) == width]
    if chosen.value is not None:
        return any(is_number(fields[chosen.value]) for fields in others)
    return bool(others) and all(_is_integer(fields[i]) for fields in others for i in chosen.axes)


def _holds_integers(rows: Sequence[Row], column: int) -> bool:
    return all(_is_integer(row.fields[column]) for row in rows if column < len(row.fields))


def _is_integer(text: str) -> bool:
    """Whether this is an integer in its one and only spelling: "007" and "+7" are labels."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) < 20 and str(int(text)) == text


def _column_names(fields: Sequence[str], header: bool, chosen: Chosen, request: TextRequest) -> list[str]:
    """What messages call the columns: as the header does, else by their axis."""
    if header:
        return list(fields)
    axis_of = dict(zip(chosen.axes, request.axes, strict=True))
    return [axis_of.get(i, "") for i in range(len(fields))]


def _read_none(content: Content, separator: str, request: TextRequest) -> Entries:
    """No data lines, or a first one at fault, about which the kernel complains."""
    with located(content.name):
        _kernel.read_coordinates(content.data, 0, 1, separator, "s", [""], [_NO_LIMIT])
    count = len(request.axes)
    return np.empty((count, 0), np.int64), [None] * count, np.empty(0), np.empty(0, np.int64)
