"""Parquet files, through pyarrow if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.arrays import require_finite
from icml.formats.dialect import Row, find_column
from icml.formats.edges import EdgeList
from icml.formats.errors import InputError, MissingError
from icml.formats.numbering import number_integers, number_labels
from icml.formats.source import Content


def load_parquet(
    content: Content, columns: Sequence[str] | None = None, most: int | None = None
) -> tuple[Any, list[str]]:
    """A pyarrow.Table of the chosen columns, by name or 1-based number, in that order; by default of the first `most`.

    Returns:
        The table and the names of its columns.

    Raises:
        InputError: it is no readable Parquet file, or there is no such column.
        MissingError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingError("reading Parquet needs pyarrow", "pip install 'icml-tools[parquet]'") from error
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content.data)))
        names: list[str] = file.schema_arrow.names[:most]
        if columns is not None:
            header = Row(1, 0, file.schema_arrow.names)
            names = [header.fields[find_column(column, header, content.name)] for column in columns]
        table = file.read(columns=names)
        return table.select(names), names
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"not a readable Parquet file: {reason}", content.name) from error


def read_parquet_edges(content: Content, columns: Sequence[str] | None) -> EdgeList:
    """Reads edges from Parquet columns: by default the first two, and the third as the value if there is one.

    Ids are integers, or strings, plain or dictionary-encoded.

    Raises:
        InputError: a column is missing or of the wrong type, or a cell is null, NaN or infinite.
        MissingError: pyarrow is not installed.
    """
    table, names = load_parquet(content, columns, most=3)
    if len(names) < 2:
        raise InputError(f"expected 2 or 3 columns, got {len(names)}", content.name)
    for name, column in zip(names[:3], table.columns[:3], strict=True):
        require_no_nulls(column, name, content.name)
    first, second, node_names = _number(table, names, content.name)
    value = column_numbers(table.column(2), names[2], content.name) if len(names) > 2 else None
    if value is not None:
        require_finite(value, f"column '{names[2]}'", content.name)
    return EdgeList(first, second, value, node_names, None, content.name, header=tuple(names))


def column_numbers(column: Any, name: str, source: str) -> NDArray[np.float64]:
    """A column of numbers as float64 (m,), null as NaN.

    Raises:
        InputError: it holds something else.
    """
    import pyarrow as pa

    if not is_numeric(column.type):
        raise InputError(f"column '{name}' must hold numbers, not {column.type}", source)
    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    return np.array(values, np.float64)


def is_numeric(type: Any) -> bool:
    """Whether a column of this pyarrow type holds numbers (a truth value is one)."""
    import pyarrow as pa

    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(type) for test in tests)


def column_strings(column: Any, name: str, source: str) -> Any:
    """A column of integers or strings as a pyarrow column of plain strings."""
    import pyarrow as pa

    type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if not any(test(type) for test in tests):
        raise InputError(f"column '{name}' must hold integers or strings, not {type}", source)
    return column.cast(type).cast(pa.large_string())


def require_no_nulls(column: Any, name: str, source: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InputError(f"column '{name}' is empty in row {row + 1}", source)


def _number(table: Any, names: list[str], source: str) -> tuple[Any, Any, Any]:
    import pyarrow as pa

    ends = table.columns[:2]
    if all(pa.types.is_integer(end.type) and end.type != pa.uint64() for end in ends):
        return number_integers(*(np.asarray(end.to_numpy(), np.int64) for end in ends))
    texts = [column_strings(end, name, source) for end, name in zip(ends, names, strict=False)]
    encoded = pa.chunked_array(texts[0].chunks + texts[1].chunks, pa.large_string()).combine_chunks()
    encoded = encoded.dictionary_encode()
    labels = encoded.dictionary.to_pylist()
    if "" in labels:
        raise InputError("an empty node id", source)
    codes = encoded.indices.to_numpy().astype(np.int64)
    return number_labels(codes[: table.num_rows], codes[table.num_rows :], labels)
