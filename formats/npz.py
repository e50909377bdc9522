"""Graphs in NPZ files: a sparse matrix as scipy.sparse.save_npz writes it, or arrays of edges.

Arrays of edges are `u` and `v` and optionally `value` (or `s`): ids, integers or strings, numbered by first appearance;
or, with an array `names` of strings, indices into it. scipy is not needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.arrays import as_float64, as_int64, load_npz, require_finite
from icml.formats.dialect import listing
from icml.formats.edges import EdgeList
from icml.formats.errors import InputError
from icml.formats.matrix import matrix_edges, require_square
from icml.formats.names import Names
from icml.formats.numbering import number_integers, number_labels
from icml.formats.source import Content

_Arrays = Mapping[str, NDArray[Any]]


def read_npz_edges(content: Content, columns: Sequence[str] | None) -> EdgeList:
    """Reads an NPZ file; `columns` names the arrays of u, v and optionally the value.

    Raises:
        InputError: it is damaged, holds Python objects or neither a sparse matrix nor edges; or an index, length or
            value is not what it must be.
    """
    arrays = load_npz(content)
    if columns is None and is_sparse(arrays):
        return _read_sparse(arrays, content.name)
    if columns is None:
        if "u" not in arrays or "v" not in arrays:
            message = f"expected a saved sparse matrix or arrays u and v; there are {listing(list(arrays))}"
            raise InputError(message, content.name)
        columns = ["u", "v", *[name for name in ("value", "s") if name in arrays][:1]]
    return _read_arrays(arrays, columns, content.name)


def _column(arrays: _Arrays, name: str, source: str) -> NDArray[Any]:
    if name not in arrays:
        raise InputError(f"no array '{name}'; there are {listing(list(arrays))}", source)
    if arrays[name].ndim != 1:
        raise InputError(f"array '{name}' must have one dimension, not {arrays[name].ndim}", source)
    return arrays[name]


def _require_length(array: NDArray[Any], length: int, name: str, source: str) -> None:
    if len(array) != length:
        raise InputError(f"array '{name}' has {len(array)} elements, not {length}", source)


def _read_arrays(arrays: _Arrays, columns: Sequence[str], source: str) -> EdgeList:
    u, v = _column(arrays, columns[0], source), _column(arrays, columns[1], source)
    _require_length(v, len(u), columns[1], source)
    value = None
    if len(columns) == 3:
        value = as_float64(_column(arrays, columns[2], source), f"array '{columns[2]}'", source)
        _require_length(value, len(u), columns[2], source)
        require_finite(value, f"array '{columns[2]}'", source)
    if "names" in arrays:
        names = _strings(_column(arrays, "names", source), "names", source)
        if len(set(names)) < len(names):
            raise InputError("array 'names' holds a name twice", source)
        ends = [
            _indices(ids, len(names), f"array '{name}'", source)
            for ids, name in ((u, columns[0]), (v, columns[1]))
        ]
        first, second = (end.astype(np.int32) for end in ends)
        return EdgeList(first, second, value, Names.from_strings(names), None, source)
    first, second, numbered = _number(u, v, columns, source)
    return EdgeList(first, second, value, numbered, None, source)


def _number(
    u: NDArray[Any], v: NDArray[Any], columns: Sequence[str], source: str
) -> tuple[NDArray[np.int32], NDArray[np.int32], Names]:
    if u.dtype.kind in "iu" and v.dtype.kind in "iu":
        return number_integers(
            as_int64(u, f"array '{columns[0]}'", source), as_int64(v, f"array '{columns[1]}'", source)
        )
    both = _strings(u, columns[0], source) + _strings(v, columns[1], source)
    if "" in both:
        raise InputError("an empty node id", source)
    labels, codes = np.unique(np.array(both, dtype=object), return_inverse=True)
    codes = codes.astype(np.int64)
    return number_labels(codes[: len(u)], codes[len(u) :], labels.tolist())


def _strings(array: NDArray[Any], name: str, source: str) -> list[str]:
    if array.dtype.kind == "S":
        try:
            return [text.decode() for text in array.tolist()]
        except UnicodeDecodeError as error:
            raise InputError(f"array '{name}' holds text that is not UTF-8", source) from error
    if array.dtype.kind != "U":
        raise InputError(f"array '{name}' must hold strings, not {array.dtype}", source)
    texts: list[str] = array.tolist()
    return texts


def _indices(array: NDArray[Any], count: int, what: str, source: str) -> NDArray[np.int64]:
    indices = as_int64(array, what, source)
    wrong = (indices < 0) | (indices >= count)
    if wrong.any():
        message = f"{what} holds index {indices[np.argmax(wrong)]}, outside 0 to {count - 1}"
        raise InputError(message, source)
    return indices


def _read_sparse(arrays: _Arrays, source: str) -> EdgeList:
    rows, columns, values, shape = load_sparse(arrays, source)
    n = require_square(shape[0], shape[1], source)
    require_finite(values, "array 'data'", source)
    return matrix_edges(rows, columns, values, Names.from_range(0, n), source)


def is_sparse(names: Collection[str]) -> bool:
    """Whether arrays of these names are a matrix as scipy.sparse.save_npz writes it."""
    return "format" in names and "shape" in names


def load_sparse(
    arrays: _Arrays, source: str
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], tuple[int, int]]:
    """Rows, columns and values of the entries of a saved sparse matrix, and its shape.

    Raises:
        InputError: it is inconsistent, or saved in a blocked or diagonal format.
    """
    layout = arrays["format"].tobytes().decode("ascii", "replace").replace("\0", "")
    if layout not in ("csr", "csc", "coo"):
        message = f"a sparse matrix saved in format '{layout}'; save A.tocsr() instead"
        raise InputError(message, source)
    shape = as_int64(arrays["shape"], "array 'shape'", source).tolist()
    if np.ndim(shape) != 1 or len(shape) != 2 or min(shape) < 0:
        raise InputError("the array 'shape' of the sparse matrix is not two sizes", source)
    high, wide = shape
    if layout == "coo":
        rows = _indices(_column(arrays, "row", source), high, "array 'row'", source)
        columns = _indices(_column(arrays, "col", source), wide, "array 'col'", source)
    else:
        major, minor = (high, wide) if layout == "csr" else (wide, high)
        columns = _indices(_column(arrays, "indices", source), minor, "array 'indices'", source)
        pointers = as_int64(_column(arrays, "indptr", source), "array 'indptr'", source)
        rows = _expand(pointers, major, len(columns), source)
        if layout == "csc":
            rows, columns = columns, rows
    values = as_float64(_column(arrays, "data", source), "array 'data'", source)
    _require_length(columns, len(rows), "col", source)
    _require_length(values, len(rows), "data", source)
    return rows, columns, values, (high, wide)


def _expand(indptr: NDArray[np.int64], n: int, entries: int, source: str) -> NDArray[np.int64]:
    """The row of each entry of a CSR matrix with these row pointers."""
    bad = len(indptr) != n + 1 or indptr[0] != 0 or indptr[-1] != entries or (np.diff(indptr) < 0).any()
    if bad:
        raise InputError("the array 'indptr' of the sparse matrix is inconsistent", source)
    return np.repeat(np.arange(n), np.diff(indptr))
