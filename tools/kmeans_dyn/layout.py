"""What a stream looks like, judged by its first lines: the line protocol, or a table whose rows are insertions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from icml.formats.dialect import Row, find_column, fold, is_number, sample
from icml.formats.errors import InputError
from icml.formats.source import Content

OPERATIONS = ("+", "-", "?", "@", "=")
_SEPARATORS = ("\t", ";", ",", " ")
_SKIPPED = re.compile(rb"(?:[ \t]*(?:[#%][^\n]*|\?[ \t]*)?\r?\n)*")
_OPERATION = re.compile(rb"[ \t]*[-+?@=](?:[ \t]*([,;])|(\t| ))")
_DECIMAL_COMMA = re.compile(r".*\S[ \t]+[-+]?\d+,\d+")
LATITUDE, LONGITUDE = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


@dataclass(frozen=True)
class Columns:
    """Which columns of a table mean what, by name or 1-based number; None to find out.

    Attributes:
        id: the points' names.
        time: when they arrived, for windows by time.
        coordinates: their place.
    """

    id: str | None = None
    time: str | None = None
    coordinates: Sequence[str] | None = None

    @property
    def given(self) -> bool:
        """Whether any was chosen, so that the input must be a table."""
        return not (self.id is None and self.time is None and self.coordinates is None)


@dataclass(frozen=True)
class Layout:
    """How to read the lines.

    Attributes:
        separator: between fields; a blank stands for a run of blanks.
        implied: whether a line without an operation is an insertion.
        columns: of a table: operation, time, id (-1 for none), coordinates; empty for the line protocol.
        skip: bytes before the first line to apply: a header.
        first_line: its number.
    """

    separator: str
    implied: bool = False
    columns: list[int] = field(default_factory=list)
    skip: int = 0
    first_line: int = 1


def find_layout(head: Content, columns: Columns, metric: str, *, timed: bool) -> Layout:
    """Looks at the first lines of a stream.

    Args:
        head: whole lines from its beginning.
        columns: what the user said about a table's columns.
        metric: for haversine, columns called latitude and longitude are the coordinates.
        timed: whether insertions carry a time.

    Raises:
        InputError: there is no column that was asked for, or none called latitude or longitude; or the commas may be
            decimal ones.
    """
    if not columns.given and (separator := _after_operation(head)) is not None:
        return Layout(separator)
    found = sample(head, _SEPARATORS)
    if not found.rows:
        return Layout(" ")
    first = found.rows[0]
    if not columns.given and first.fields[0] in OPERATIONS:
        return Layout(" ")  # nothing but queries so far
    if _is_header(first):
        roles = _named(first, columns, metric, timed, head.name)
        return Layout(found.separator, columns=roles, skip=first.end, first_line=first.line + 1)
    if columns.given:
        return Layout(found.separator, columns=_numbered(first, columns, timed, head.name))
    if found.separator == "," and all(map(_may_be_decimal, found.rows)):
        raise InputError(
            f"is the comma in '{','.join(first.fields)}' a decimal one? Those are not understood; if it separates, "
            "begin lines with '+,'",
            head.name,
            first.line,
        )
    return Layout(found.separator, implied=True)


def _may_be_decimal(row: Row) -> bool:
    """Whether a line reads "id ... 0,5": one comma, digits after it, and a whole number after a blank before it."""
    return len(row.fields) == 2 and _DECIMAL_COMMA.fullmatch(",".join(row.fields)) is not None


def _after_operation(head: Content) -> str | None:
    """What separates the first operation that takes something from it: a decimal comma later on must not mislead."""
    begin = _SKIPPED.match(head.data)
    found = _OPERATION.match(head.data, begin.end() if begin else 0)
    return None if found is None else (found[1] or found[2]).decode()


def _is_header(first: Row) -> bool:
    names = [name for name in first.fields if name]
    numbers = (
        is_number(name.replace(",", ".", 1)) for name in names
    )  # those with a decimal comma are no names
    return bool(names) and not any(numbers) and (len(names) > 1 or fold(names[0]) == "id")


def _named(first: Row, columns: Columns, metric: str, timed: bool, source: str) -> list[int]:
    names = [fold(name) for name in first.fields]

    def role(chosen: str | None, known: Sequence[str]) -> int:
        if chosen is not None:
            return find_column(chosen, first, source)
        return next((names.index(name) for name in known if name in names), -1)

    operation = role(None, ("op", "operation"))
    time = role(columns.time, ("t", "time", "timestamp")) if timed else -1
    if timed and time < 0:
        raise InputError(
            "no column called t, time or timestamp; name it with --time-column", source, first.line
        )
    name = role(columns.id, ("id",))
    if columns.coordinates is not None:
        coordinates = [find_column(column, first, source) for column in columns.coordinates]
    elif metric == "precomputed":
        coordinates = []
    elif metric == "haversine":
        coordinates = [role(None, LATITUDE), role(None, LONGITUDE)]
        if min(coordinates) < 0:
            raise InputError(
                "no columns called latitude and longitude; name them with --columns", source, first.line
            )
    else:
        coordinates = [i for i in range(len(names)) if i not in (operation, time, name)]
    return [operation, time, name, *coordinates]


def _numbered(first: Row, columns: Columns, timed: bool, source: str) -> list[int]:
    """Roles in a table without a header: by default the id is the first column, the coordinates are the others."""
    time = -1 if columns.time is None else find_column(columns.time, first, source)
    if timed and time < 0:
        raise InputError("a table without a header needs --time-column", source)
    name = find_column(columns.id, first, source) if columns.id is not None else 0 if time != 0 else 1
    if columns.coordinates is not None:
        coordinates = [find_column(column, first, source) for column in columns.coordinates]
        if columns.id is None and name in coordinates:
            name = -1
    else:
        coordinates = [i for i in range(len(first.fields)) if i not in (time, name)]
    return [-1, time, name, *coordinates]
