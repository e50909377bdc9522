"""Tables in text: their head (separator, header, columns) and their cells."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icml.formats import _kernel
from icml.formats.dialect import Row, column_number, find_column, is_number, located, sample
from icml.formats.errors import InputError
from icml.formats.source import Content

SEPARATORS = {"text": ("\t", ";", ",", " "), "csv": (";", ","), "tsv": ("\t",)}
"""The separators to choose among, by format."""


@dataclass(frozen=True)
class TextOptions:
    """How to read cells: whether a number may be NaN, infinite or missing; and the number of threads, 0 for all."""

    allow_nonfinite: bool
    threads: int


@dataclass(frozen=True)
class TextHead:
    """The beginning of a table.

    Attributes:
        separator: what stands between fields.
        header: the fields of the header line, None without one.
        width: the number of columns, 0 for an empty table.
        rows: the first data lines, header included.
    """

    separator: str
    header: tuple[str, ...] | None
    width: int
    rows: list[Row]

    def find(self, column: str, source: str) -> int:
        """The 0-based index of a column chosen by name or 1-based number; InputError without one."""
        return find_column(column, self.rows[0], source)

    def labels(self, source: str) -> list[str]:
        """The columns' names: from the header, or their number where that has none; InputError if two are the same."""
        names = self.header or ("",) * self.width
        labels = [name or str(i + 1) for i, name in enumerate(names)]
        if len(set(labels)) < len(labels):
            twice = next(label for label in labels if labels.count(label) > 1)
            raise InputError(f"more than one column is called '{twice}'", source)
        return labels

    def guess_kinds(self) -> list[str]:
        """The kernel's kind of each column: "t" for one that the first lines show to be text, "g" for the others."""
        kinds = ["g"] * self.width
        for row in self.rows[1:] if self.header else self.rows:
            for i, cell in enumerate(row.fields[: self.width]):
                if cell and not is_number(cell):
                    kinds[i] = "t"
        return kinds


@dataclass(frozen=True)
class Cells:
    """The cells of a table.

    Attributes:
        places: for each column its kind ("n" number, "t" text, "s" skipped) and its index among those of that kind.
        numbers: float64 (n, number columns), row-major.
        texts: one list of n strings a text column.
        line: int64 (n,), the 1-based line of each row.
    """

    places: list[tuple[str, int]]
    numbers: NDArray[np.float64]
    texts: list[list[str]]
    line: NDArray[np.int64]


def read_head(
    content: Content, format: str, header: bool | None, chosen: Collection[str], ids: Collection[str] = ()
) -> TextHead:
    """Looks at the beginning of a table.

    Args:
        content: the text.
        format: one of SEPARATORS.
        header: whether the first data line is one; None to say yes if no field of it is a number, `ids` aside, or if a
            column is chosen by name.
        chosen: the columns that the caller asks for.
        ids: those of them that hold no numbers.
    """
    beginning = sample(content, SEPARATORS[format])
    if not beginning.rows:
        return TextHead(beginning.separator, None, 0, [])
    first = beginning.rows[0]
    if header is None:
        skipped = {find_column(column, first, content.name) for column in ids}
        cells = [field for i, field in enumerate(first.fields) if i not in skipped]
        by_name = any(column_number(column) is None for column in chosen)
        header = by_name or (any(cells) and not any(map(is_number, cells)))
    return TextHead(
        beginning.separator, tuple(first.fields) if header else None, len(first.fields), beginning.rows
    )


def read_cells(content: Content, head: TextHead, kinds: str, options: TextOptions) -> Cells:
    """Reads the rows below the head; `kinds` has one of the kernel's kinds a column.

    Raises:
        InputError: with the line, and the column where there is one.
    """
    skip = head.rows[0] if head.header else None
    with located(content.name):
        settled, numbers, texts, line = _kernel.read_columns(
            content.data,
            skip.end if skip else 0,
            skip.line + 1 if skip else 1,
            head.separator,
            kinds,
            list(head.header or ("",) * head.width),
            options.allow_nonfinite,
            options.threads,
        )
    places = [(kind, settled[:i].count(kind)) for i, kind in enumerate(settled)]
    return Cells(places, np.empty((len(line), 0)) if numbers is None else numbers, texts, line)
