"""What a text file looks like, judged by its first data lines: separator, header line, columns.

The separator is the one of the candidates that splits the most of the first 100 data lines into at least two fields;
of equal ones the first. A semicolon comes before the comma, which may be a decimal sign between semicolons, and both
before a run of spaces and tabs, which may surround them. Comments and blank lines are no data lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from icml.formats import _kernel
from icml.formats.errors import InputError
from icml.formats.source import Content

BLANKS = " "
"""The separator that stands for a run of spaces and tabs."""

_SAMPLE_LINES = 100


@dataclass(frozen=True)
class Row:
    """A data line: its 1-based number, the byte offset of the line after it, its fields."""

    line: int
    end: int
    fields: list[str]


@dataclass(frozen=True)
class Sample:
    """The beginning of a text.

    Attributes:
        separator: what stands between fields; BLANKS for a run of spaces and tabs.
        rows: the first data lines, short of one that cannot be split.
    """

    separator: str
    rows: list[Row]


def sample(content: Content, candidates: Sequence[str]) -> Sample:
    """Looks at the first data lines of `content` and chooses among `candidates`."""
    if content.begins_with(b"\xff\xfe") or content.begins_with(b"\xfe\xff"):
        raise InputError("this is UTF-16 text; convert it, e.g. with: iconv -f UTF-16 -t UTF-8", content.name)
    votes: dict[str, tuple[int, list[Row]]] = {}
    for separator in candidates:
        found = _kernel.sample(content.data, 0, separator, _SAMPLE_LINES)
        rows = [Row(line + 1, end, fields) for line, end, fields in found]
        votes[separator] = sum(len(row.fields) > 1 for row in rows), rows
    most = max(count for count, _ in votes.values())
    separator = next(s for s in candidates if votes[s][0] == most)
    return Sample(separator, votes[separator][1])


def is_number(text: str) -> bool:
    """Whether `text` is a number, finite or not, by the rules of the readers."""
    return _kernel.is_number(text)


def fold(name: str) -> str:
    """A column name for comparison with well-known ones: "Source_ID" -> "sourceid"."""
    return re.sub(r"[\W_]+", "", name).lower()


def parse_count(text: str) -> int | None:
    """A number of digits only, None for anything else."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def column_number(column: str) -> int | None:
    """The 0-based index that a column chosen by 1-based number means; None for one chosen by name."""
    count = parse_count(column)
    return None if count is None else count - 1


def find_column(column: str, first: Row, source: str) -> int:
    """The 0-based index of a column chosen by name, or by 1-based number, in a file whose first data line is `first`.

    Raises:
        InputError: there is no such column, or more than one of that name; the message lists the columns.
    """
    number = column_number(column)
    if number is not None:
        if not 0 <= number < len(first.fields):
            raise InputError(
                f"no column {column}; there are columns 1 to {len(first.fields)}", source, first.line
            )
        return number
    if first.fields.count(column) > 1:
        raise InputError(f"more than one column is called '{column}'", source, first.line)
    if column not in first.fields:
        if any(map(is_number, first.fields)):
            hint = f"there is no header line; choose by number, 1 to {len(first.fields)}"
        else:
            hint = f"the columns are {listing(first.fields)}"
        raise InputError(f"no column '{column}'; {hint}", source, first.line)
    return first.fields.index(column)


def listing(names: Sequence[str], most: int = 20) -> str:
    """Names for an error message, not more than `most` of them."""
    rest = f", … ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


@contextmanager
def located(source: str) -> Iterator[None]:
    """Turns the kernel's errors into InputErrors about `source`."""
    try:
        yield
    except _kernel.ParseError as error:
        message, line = error.args
        raise InputError(message, source, line) from None
    except InputError:
        raise
    except ValueError as error:  # more nodes than an int32 can number
        raise InputError(str(error), source) from error
