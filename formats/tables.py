"""Tables and points: CSV, TSV and other text, Parquet, NPY and NPZ.

In text the separator is a tab if that splits the first lines best, else a semicolon, comma or run of blanks. The first
line is a header if none of its fields is a number. Without a header columns are called by their number, "1", "2", ….
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from icml.formats.arrays import as_float64, load_npy, load_npz, require_finite
from icml.formats.dialect import column_number, listing
from icml.formats.errors import InputError
from icml.formats.source import Content, Source, read_source
from icml.formats.table_text import SEPARATORS, TextHead, TextOptions, read_cells, read_head

FORMATS = ("auto", "text", "csv", "tsv", "parquet", "npy", "npz")
"""The names that `format` takes; text is separated by whatever splits it best."""

_MAGIC = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}

NonFinite = Literal["error", "allow"]
"""What to do with NaN, infinities and empty cells (which are NaN) where a number is expected."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length.

    Attributes:
        columns: by name, in the order of the input: float64 (n,) where every cell is a number, else a list of n
            strings.
        header: the names as the input has them, None if it has none.
        line: int64 (n,), the 1-based input line of each row, or None for formats without lines.
        source: the input's name for messages.
    """

    columns: dict[str, NDArray[np.float64] | list[str]]
    header: tuple[str, ...] | None
    line: NDArray[np.int64] | None
    source: str


@dataclass(frozen=True, eq=False)
class Points:
    """Points in space.

    Attributes:
        x: float64 (n, d), C-contiguous.
        ids: the n cells of the id column, None without one.
        header: the names of the d coordinates, None if the input has none.
        line: int64 (n,), the 1-based input line of each point, or None for formats without lines.
        source: the input's name for messages.
    """

    x: NDArray[np.float64]
    ids: list[str] | None
    header: tuple[str, ...] | None
    line: NDArray[np.int64] | None
    source: str


def read_table(
    source: Source,
    *,
    format: str = "auto",
    header: bool | None = None,
    text: Collection[str] = (),
    nonfinite: NonFinite = "error",
    threads: int | None = None,
) -> Table:
    """Reads a table, finding out which columns hold numbers: those where every cell that is not empty is one.

    Numbers are float64, so integers beyond 2**53 and codes such as "007" are not kept as spelled; name their columns
    in `text`.

    Args:
        source: a path, "-" for standard input, or a binary file object; compression is undone.
        format: one of FORMATS.
        header: whether the first data line of text is a header; None to find out.
        text: the names of columns to leave as strings.
        nonfinite: "error", or "allow" to take NaN, infinities, and empty cells as NaN.
        threads: how many threads parse text; by default as many as OpenMP offers.

    Raises:
        InputError: the input cannot be read; a line has another number of columns than the first; two columns have the
            same name; a cell of a number column is not finite or empty (unless allowed); with file, line and column.
        MissingError: Parquet without pyarrow.
    """
    content, format = _open(source, format)
    if format in SEPARATORS:
        head = read_head(content, format, header, text)
        return _text_table(content, head, text, TextOptions(nonfinite == "allow", threads or 0))
    if format == "parquet":
        columns = _load_parquet_columns(content, text)
        names: tuple[str, ...] | None = tuple(columns)
    else:
        columns, names = _load_array_columns(content, format)
    _find_all(text, list(columns), content.name)
    for name, column in columns.items():
        if nonfinite == "error" and not isinstance(column, list):
            require_finite(column, f"column '{name}'", content.name)
    return Table(columns, names, None, content.name)


def read_points(
    source: Source,
    *,
    format: str = "auto",
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    header: bool | None = None,
    nonfinite: NonFinite = "error",
    threads: int | None = None,
) -> Points:
    """Reads points, one a row: numbers in every column but that of the ids.

    An NPY file holds x itself; so does an NPZ file with one array, or one called x or points.

    Args:
        source: a path, "-" for standard input, or a binary file object; compression is undone.
        format: one of FORMATS.
        columns: the coordinates, by name or 1-based number; by default all columns but that of the ids.
        id_column: the column of the ids, by name or 1-based number; None if there are none.
        header: whether the first data line of text is a header; None to find out.
        nonfinite: "error", or "allow" to take NaN, infinities, and empty cells as NaN.
        threads: how many threads parse text; by default as many as OpenMP offers.

    Raises:
        InputError: the input cannot be read; there is no such column; a line has another number of columns than the
            first; a cell is no number, or not finite (unless allowed); with file, line and column.
        MissingError: Parquet without pyarrow.
    """
    content, format = _open(source, format)
    if format in SEPARATORS:
        ids = () if id_column is None else (id_column,)
        head = read_head(content, format, header, (*(columns or ()), *ids), ids)
        return _text_points(
            content, head, columns, id_column, TextOptions(nonfinite == "allow", threads or 0)
        )
    if format == "parquet":
        loaded = _load_parquet_columns(content, () if id_column is None else (id_column,))
        names: tuple[str, ...] | None = tuple(loaded)
    else:
        loaded, names = _load_array_columns(content, format)
    points = _points(loaded, names, columns, id_column, content.name)
    if nonfinite == "error":
        for i in range(points.x.shape[1]):
            what = f"column '{points.header[i] if points.header else i + 1}'"
            require_finite(points.x[:, i], what, content.name)
    return points


def _open(source: Source, format: str) -> tuple[Content, str]:
    if format not in FORMATS:
        raise InputError(f"unknown format '{format}'; there are {', '.join(FORMATS)}")
    content = read_source(source)
    if format == "auto":
        found = [known for magic, known in _MAGIC.items() if content.begins_with(magic)]
        format = found[0] if found else "text"
    return content, format


def _text_table(content: Content, head: TextHead, text: Collection[str], options: TextOptions) -> Table:
    labels = head.labels(content.name)
    kinds = head.guess_kinds()
    for i in _find_all(text, labels, content.name):
        kinds[i] = "t"
    cells = read_cells(content, head, "".join(kinds), options)
    columns = {
        label: cells.texts[i] if kind == "t" else np.ascontiguousarray(cells.numbers[:, i])
        for label, (kind, i) in zip(labels, cells.places, strict=True)
    }
    return Table(columns, head.header, cells.line, content.name)


def _text_points(
    content: Content,
    head: TextHead,
    columns: Sequence[str] | None,
    id_column: str | None,
    options: TextOptions,
) -> Points:
    id_index = None if id_column is None or not head.width else head.find(id_column, content.name)
    if columns is None or not head.width:
        coordinates = [i for i in range(head.width) if i != id_index]
    else:
        coordinates = [head.find(column, content.name) for column in columns]
    kinds = "".join("n" if i in coordinates else "t" if i == id_index else "s" for i in range(head.width))
    cells = read_cells(content, head, kinds, options)
    places = [cells.places[i][1] for i in coordinates]
    x = cells.numbers if places == list(range(cells.numbers.shape[1])) else cells.numbers[:, places]
    header = None if head.header is None else tuple(head.header[i] for i in coordinates)
    ids = None if id_column is None else cells.texts[0] if cells.texts else []
    return Points(np.ascontiguousarray(x), ids, header, cells.line, content.name)


def _find_all(columns: Collection[str], labels: Sequence[str], source: str) -> list[int]:
    """The indices of columns chosen by label, or by 1-based number."""
    found = []
    for column in columns:
        number = column_number(column)
        if column in labels:
            found.append(labels.index(column))
        elif number is not None and 0 <= number < len(labels):
            found.append(number)
        else:
            raise InputError(f"no column '{column}'; the columns are {listing(labels)}", source)
    return found


def _load_parquet_columns(
    content: Content, text: Collection[str]
) -> dict[str, NDArray[np.float64] | list[str]]:
    from icml.formats.parquet import column_numbers, column_strings, is_numeric, load_parquet

    table, names = load_parquet(content)
    as_text = {names[i] for i in _find_all(text, names, content.name)}
    columns: dict[str, NDArray[np.float64] | list[str]] = {}
    for name, column in zip(names, table.columns, strict=True):
        if is_numeric(column.type) and name not in as_text:
            columns[name] = column_numbers(column, name, content.name)
        else:
            columns[name] = [cell or "" for cell in column_strings(column, name, content.name).to_pylist()]
    return columns


def _load_array_columns(
    content: Content, format: str
) -> tuple[dict[str, NDArray[np.float64] | list[str]], tuple[str, ...] | None]:
    """The columns of an NPY or NPZ file; named if they are arrays of their own."""
    if format == "npy":
        return _split(load_npy(content), "the array", content.name), None
    arrays = load_npz(content)
    for name, array in arrays.items():
        if array.ndim == 2 and (len(arrays) == 1 or name in ("x", "X", "points")):
            return _split(array, f"array '{name}'", content.name), None
    columns: dict[str, NDArray[np.float64] | list[str]] = {}
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) != len(next(iter(arrays.values()))):
            raise InputError(f"array '{name}' is no column: its shape is {array.shape}", content.name)
        columns[name] = (
            array.tolist() if array.dtype.kind == "U" else as_float64(array, f"array '{name}'", content.name)
        )
    return columns, tuple(columns)


def _split(array: NDArray[Any], what: str, source: str) -> dict[str, NDArray[np.float64] | list[str]]:
    if array.ndim not in (1, 2):
        raise InputError(f"{what} must have one or two dimensions, not {array.ndim}", source)
    matrix = as_float64(array, what, source)
    matrix = matrix if matrix.ndim == 2 else matrix[:, np.newaxis]
    return {str(i + 1): matrix[:, i] for i in range(matrix.shape[1])}


def _points(
    loaded: dict[str, NDArray[np.float64] | list[str]],
    names: tuple[str, ...] | None,
    columns: Sequence[str] | None,
    id_column: str | None,
    source: str,
) -> Points:
    """Points from columns that are already in memory."""
    labels = list(loaded)
    id_label = None if id_column is None else labels[_find_all([id_column], labels, source)[0]]
    if columns is None:
        chosen = [label for label in labels if label != id_label]
    else:
        chosen = [labels[i] for i in _find_all(columns, labels, source)]
    coordinates = []
    for label in chosen:
        column = loaded[label]
        if isinstance(column, list):
            raise InputError(f"column '{label}' must hold numbers, not strings", source)
        coordinates.append(column)
    ids = None
    if id_label is not None:
        cells = loaded[id_label]
        ids = cells if isinstance(cells, list) else [format(cell, ".17g") for cell in cells.tolist()]
    rows = len(next(iter(loaded.values()), []))
    x = np.stack(coordinates, axis=1) if coordinates else np.empty((rows, 0))
    return Points(np.ascontiguousarray(x), ids, None if names is None else tuple(chosen), None, source)
