"""Tensors: dense ones from NPY and NPZ files, sparse ones from tables of coordinates, FROSTT and scipy files.

A table of coordinates has a column for each axis and one for the value; without that every line counts 1. An axis
whose column begins with integers has indices; one that begins with anything else, or is in `named`, has labels,
numbered by first appearance. Nothing is merged or dropped: cells that are listed twice stay so.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.arrays import NpzArchive, as_float64, as_int64, load_npy, map_npy
from icml.formats.dialect import listing
from icml.formats.errors import InputError
from icml.formats.names import Names
from icml.formats.npz import is_sparse, load_sparse
from icml.formats.source import Content, Source, read_source, source_name
from icml.formats.tensor_text import TextRequest, read_tensor_text

FORMATS = ("auto", "text", "csv", "tsv", "tns", "parquet", "npy", "npz")
"""The names that `format` takes; auto goes by content, but for the suffix .tns."""

_MAGIC = {b"PK\x03\x04": "npz", b"\x93NUMPY": "npy", b"PAR1": "parquet"}
_USUAL_KEYS = ("Y", "y", "X", "x", "data", "tensor")


@dataclass(frozen=True, eq=False)
class DenseTensor:
    """A value for every cell.

    Attributes:
        array: as stored; a memory map of an NPY file that is not compressed.
        labels: names along an axis, by axis; from arrays `labels_AXIS` of an NPZ file.
        texts: the other arrays of strings in an NPZ file, by name.
        source: the input's name for messages.
    """

    array: NDArray[Any]
    labels: dict[str, Names]
    texts: dict[str, Names]
    source: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """Some cells with their values, in the order of the input.

    Attributes:
        index: int64 (axes, n), from 0.
        values: float64 (n,), or None if the cells have no values.
        shape: sizes of the axes.
        labels: names along an axis, by axis, where the input has labels.
        line: int64 (n,), the 1-based input line of each entry, or None for formats without lines.
        source: the input's name for messages.
    """

    index: NDArray[np.int64]
    values: NDArray[np.float64] | None
    shape: tuple[int, ...]
    labels: dict[str, Names]
    line: NDArray[np.int64] | None
    source: str

    def line_of(self, entry: int) -> int | None:
        """The input line of an entry, for errors."""
        return None if self.line is None else int(self.line[entry])


@dataclass(frozen=True)
class Request:
    """What is asked of a reader.

    Attributes:
        axes: names of the axes, in order.
        format: one of FORMATS.
        key: the array of an NPZ file that holds the tensor; None to find out.
        columns: the columns of a table for the axes and, if there is one more, for the value, by name or 1-based
            number.
        sizes: sizes of axes that are known.
        named: axes whose columns hold labels even where they are integers.
        values: whether the last column is a value; for a list of cells further columns are ignored instead.
        nonfinite: whether values may be NaN or infinite.
        threads: how many threads parse text; 0 for as many as OpenMP offers.
    """

    axes: Sequence[str]
    format: str = "auto"
    key: str | None = None
    columns: Sequence[str] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    named: Collection[str] = ()
    values: bool = True
    nonfinite: bool = True
    threads: int = 0


def read_tensor(source: Source, request: Request) -> DenseTensor | SparseTensor:
    """Reads a tensor.

    Args:
        source: a path, "-" for standard input, or a binary file object; compression is undone.
        request: see `Request`.

    Raises:
        InputError: the input cannot be read; it has other axes or sizes than asked for; a cell of a table is no index
            or no number, or an index is out of range; with file, line and column.
        MissingError: Parquet without pyarrow.
    """
    if request.format not in FORMATS:
        raise InputError(f"unknown format '{request.format}'; there are {', '.join(FORMATS)}")
    name = source_name(source)
    magic = _peek(source)
    if magic is not None and request.format in ("auto", _MAGIC.get(magic)):
        if _MAGIC.get(magic) == "npy":
            _refuse_choices(request, "npy", name)
            return _dense(map_npy(os.fspath(source)), {}, {}, request, name)  # type: ignore[arg-type]
        if _MAGIC.get(magic) == "npz":
            _refuse_choices(request, "npz", name)
            return _read_npz(os.fspath(source), request, name)  # type: ignore[arg-type]
    content = read_source(source)
    format = _find_format(content, request.format)
    _refuse_choices(request, format, name)
    if format == "npy":
        return _dense(load_npy(content), {}, {}, request, name)
    if format == "npz":
        import io

        return _read_npz(io.BytesIO(content.data), request, name)
    if format == "parquet":
        return _read_parquet(content, request)
    index, labels, values, line = read_tensor_text(content, _text_request(request, format))
    return _sparse(index, values, dict(zip(request.axes, labels, strict=True)), request, name, line)


def match_labels(
    tensor: SparseTensor, axis: str, known: Names | Sequence[str], axes: Sequence[str]
) -> SparseTensor:
    """The tensor with the labels of one axis numbered as in `known`.

    Raises:
        InputError: a label that is not in `known`, with its line.
    """
    found = tensor.labels.get(axis)
    if found is None:
        return tensor
    known = known if isinstance(known, Names) else Names.from_strings(known)
    number = known.lookup(found.to_list()).astype(np.int64)
    at = axes.index(axis)
    if (number < 0).any():
        unknown = int(np.argmax(number < 0))
        entry = int(np.argmax(tensor.index[at] == unknown))
        raise InputError(f"unknown {axis}={found[unknown]!r}", tensor.source, tensor.line_of(entry))
    index = tensor.index.copy()
    index[at] = number[index[at]]
    labels = {**tensor.labels, axis: known}
    shape = tuple(len(known) if i == at else n for i, n in enumerate(tensor.shape))
    return replace(tensor, index=index, labels=labels, shape=shape)


def _peek(source: Source) -> bytes | None:
    """The magic number of an ordinary file that can be read in place; None for anything else."""
    if not isinstance(source, str | os.PathLike) or source == "-" or not os.path.isfile(source):
        return None
    try:
        with open(source, "rb") as file:
            head = file.read(6)
    except OSError:
        return None  # whoever reads the whole file says why
    return next((magic for magic in _MAGIC if head.startswith(magic)), None)


def _find_format(content: Content, format: str) -> str:
    if format != "auto":
        return format
    found = [known for magic, known in _MAGIC.items() if content.begins_with(magic)]
    return found[0] if found else "tns" if content.suffix == ".tns" else "text"


def _refuse_choices(request: Request, format: str, source: str) -> None:
    """Refuses a choice of what this format does not have."""
    if request.key is not None and format != "npz":
        raise InputError("an array is chosen by key, which is for NPZ files", source)
    if request.columns is not None and format in ("npy", "npz"):
        raise InputError("columns are chosen in tables; this is an array", source)


def _text_request(request: Request, format: str) -> TextRequest:
    return TextRequest(
        tuple(request.axes),
        format,
        request.columns,
        dict(request.sizes),
        frozenset(request.named),
        request.values,
        request.nonfinite,
        request.threads,
    )


def _dense(
    array: NDArray[Any], labels: dict[str, Names], texts: dict[str, Names], request: Request, source: str
) -> DenseTensor:
    if array.dtype.kind not in "biuf":
        raise InputError(f"the array must hold real numbers, not {array.dtype}", source)
    for axis, size in request.sizes.items():
        if array.ndim == len(request.axes) and array.shape[request.axes.index(axis)] != size:
            found = array.shape[request.axes.index(axis)]
            raise InputError(f"axis {axis} has size {found}, not {size}", source)
    for axis, names in labels.items():
        if array.ndim == len(request.axes) and array.shape[request.axes.index(axis)] != len(names):
            found = array.shape[request.axes.index(axis)]
            raise InputError(f"axis {axis} has {len(names)} labels but size {found}", source)
    return DenseTensor(array, labels, texts, source)


def _read_npz(file: Any, request: Request, source: str) -> DenseTensor | SparseTensor:
    with NpzArchive(file, source) as archive:
        names = archive.names
        if request.key is None and is_sparse(names):
            arrays = {name: archive.load(name) for name in names}
            rows, columns, values, shape = load_sparse(arrays, source)
            return _listed(np.stack((rows, columns)), values, shape, request, source)
        if request.key is None and {"coords", "data", "shape"} <= set(names):
            return _read_coords(archive, request, source)
        key = request.key if request.key is not None else _find_key(archive, request, source)
        if key not in names:
            raise InputError(f"no array '{key}'; there are {listing(names)}", source)
        labels, texts = {}, {}
        for name in names:
            axis = name.removeprefix("labels_")
            if name != axis and axis in request.axes:
                labels[axis] = _label_array(archive.load(name), name, source)
            elif archive.layout(name)[1].kind == "U" and len(archive.layout(name)[0]) == 1:
                texts[name] = _label_array(archive.load(name), name, source)
        return _dense(archive.load(key), labels, texts, request, source)


def _find_key(archive: NpzArchive, request: Request, source: str) -> str:
    """The array that must be meant: of real numbers and with as many axes as asked for."""
    fitting = []
    for name in archive.names:
        shape, dtype = archive.layout(name)
        if dtype.kind in "biuf" and len(shape) == len(request.axes):
            fitting.append(name)
    usual = [name for name in _USUAL_KEYS if name in fitting]
    if len(fitting) == 1 or usual:
        return usual[0] if usual else fitting[0]
    what = "several arrays" if fitting else "no array"
    raise InputError(
        f"{what} with {len(request.axes)} axes; choose one by its key: {listing(fitting or archive.names)}",
        source,
    )


def _read_coords(archive: NpzArchive, request: Request, source: str) -> SparseTensor:
    """What pydata's sparse.save_npz writes for COO arrays."""
    index = as_int64(archive.load("coords"), "array 'coords'", source)
    values = as_float64(archive.load("data"), "array 'data'", source)
    sizes = as_int64(archive.load("shape"), "array 'shape'", source)
    fill = archive.load("fill_value") if "fill_value" in archive.names else np.zeros(())
    if index.ndim != 2 or sizes.ndim != 1 or values.shape != index.shape[1:] or len(sizes) != len(index):
        raise InputError("the arrays coords, data and shape do not fit together", source)
    if fill.size != 1 or fill.reshape(-1)[0] != 0:
        raise InputError("the cells that are not listed must be zero", source)
    shape = tuple(int(n) for n in sizes)
    for axis, size in enumerate(shape):
        if index.shape[1] and (index[axis].min() < 0 or index[axis].max() >= size):
            raise InputError(f"array 'coords' holds an index outside 0..{size - 1} on axis {axis}", source)
    return _listed(index, values, shape, request, source)


def _listed(
    index: NDArray[np.int64],
    values: NDArray[np.float64],
    shape: tuple[int, ...],
    request: Request,
    source: str,
) -> SparseTensor:
    """A sparse tensor whose shape the file gives."""
    if len(shape) != len(request.axes):
        raise InputError(
            f"expected {len(request.axes)} axes ({', '.join(request.axes)}), got the shape {shape}", source
        )
    for axis, found in zip(request.axes, shape, strict=True):
        if request.sizes.get(axis, found) != found:
            raise InputError(f"axis {axis} has size {found}, not {request.sizes[axis]}", source)
    return SparseTensor(index, values, shape, {}, None, source)


def _sparse(
    index: NDArray[np.int64],
    values: NDArray[np.float64] | None,
    labels: Mapping[str, Names | None],
    request: Request,
    source: str,
    line: NDArray[np.int64] | None,
) -> SparseTensor:
    """A sparse tensor whose shape is what its entries need, or what was asked for."""
    if index.shape[1] == 0:
        raise InputError("holds no entries", source)
    shape = []
    for at, axis in enumerate(request.axes):
        names = labels[axis]
        needed = int(index[at].max()) + 1 if names is None else len(names)
        size = request.sizes.get(axis, needed)
        if names is not None and size != needed:
            at_line = None if line is None else int(line[np.argmax(index[at] == 0)])
            raise InputError(
                f"axis {axis} has {needed} labels, not {size}: the first is {names[0]!r}", source, at_line
            )
        if size < needed:  # text has been checked line by line
            entry = int(np.argmax(index[at] >= size))
            raise InputError(f"row {entry + 1}: {axis}={index[at, entry]} is outside 0..{size - 1}", source)
        shape.append(size)
    named = {axis: names for axis, names in labels.items() if names is not None}
    return SparseTensor(index, values, tuple(shape), named, line, source)


def _label_array(array: NDArray[Any], name: str, source: str) -> Names:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise InputError(f"array '{name}' must hold strings, one an index", source)
    names: list[str] = array.tolist()
    if len(set(names)) < len(names):
        raise InputError(f"array '{name}' holds a label twice", source)
    return Names.from_strings(names)


def _read_parquet(content: Content, request: Request) -> SparseTensor:
    from icml.formats.parquet import column_numbers, load_parquet
    from icml.formats.tensor_text import choose_columns

    table, names = load_parquet(content)
    chosen = choose_columns(names, True, _text_request(request, "parquet"), content.name, None)
    index = np.empty((len(request.axes), table.num_rows), np.int64)
    labels: dict[str, Names | None] = {}
    for at, (axis, column) in enumerate(zip(request.axes, chosen.axes, strict=True)):
        index[at], labels[axis] = _parquet_axis(
            table.column(column), names[column], axis in request.named, content.name
        )
    values = None
    if request.values:
        values = np.ones(table.num_rows)
        if chosen.value is not None:
            values = column_numbers(table.column(chosen.value), names[chosen.value], content.name)
    return _sparse(index, values, labels, request, content.name, None)


def _parquet_axis(column: Any, name: str, named: bool, source: str) -> tuple[NDArray[np.int64], Names | None]:
    import pyarrow as pa

    from icml.formats.parquet import column_strings, require_no_nulls

    require_no_nulls(column, name, source)
    if pa.types.is_integer(column.type) and not named:
        index = as_int64(column.to_numpy(), f"column '{name}'", source)
        if len(index) and index.min() < 0:
            raise InputError(f"column '{name}' holds the index {index.min()}", source)
        return index, None
    encoded = pa.chunked_array(column_strings(column, name, source).chunks, pa.large_string())
    encoded = encoded.combine_chunks().dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), Names.from_strings(encoded.dictionary.to_pylist())
