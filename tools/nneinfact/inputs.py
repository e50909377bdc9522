"""From files to what an estimator takes: data, masks, weights, lists of cells, labels, model strings.

Every error names the file and, where there is one, the line; cells are named by letter, with their labels.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.formats.names import Names
from icml.formats.source import read_source
from icml.formats.tensors import DenseTensor, Request, SparseTensor, match_labels, read_tensor
from icml.tools.nneinfact.data import boolean_mask, check_weights
from icml.tools.nneinfact.dense_data import DenseData
from icml.tools.nneinfact.estimator import NNEinFact
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.sparse_data import SparseData

Tensor = DenseTensor | SparseTensor
MANY_INDICES = 1 << 20
"""Indices along an axis, most of them unused, from which they are more likely to be names."""


@dataclass(frozen=True)
class Reading:
    """How files are read.

    Attributes:
        format, key, columns, threads: see `formats.tensors.Request`.
        sizes: sizes of observed letters.
        named: letters whose columns hold names even where they are integers.
        labels: for some letters a file with a name a line, or the array of an NPZ file that holds them.
        nan: "missing" or "error".
    """

    format: str = "auto"
    key: str | None = None
    columns: Sequence[str] | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    named: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    nan: str = "missing"
    threads: int = 0

    def request(self, letters: str, **changes: Any) -> Request:
        """For a tensor with these letters."""
        request = Request(
            tuple(letters), self.format, self.key, self.columns, dict(self.sizes), frozenset(self.named),
            threads=self.threads,
        )  # fmt: skip
        return replace(request, **changes)


@dataclass(frozen=True)
class Observations:
    """Data as read.

    Attributes:
        letters: of the axes.
        tensor: the data.
        labels: names along some of the letters.
        notes: what the user should know, a sentence each.
    """

    letters: str
    tensor: Tensor
    labels: dict[str, list[str]]
    notes: list[str]

    @property
    def source(self) -> str:
        return self.tensor.source

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def values(self) -> Any:
        """The data as `NNEinFact.fit` takes them."""
        if isinstance(self.tensor, DenseTensor):
            return self.tensor.array
        return self.tensor.index, self.tensor.values, self.tensor.shape


@contextmanager
def about(source: str) -> Iterator[None]:
    """Puts the file's name before errors that do not name one."""
    try:
        yield
    except InputError as error:
        if error.source is not None:
            raise
        raise InputError(error.message, source) from None


def read_data(
    source: str, model: Model, reading: Reading, known: Mapping[str, Sequence[str]] | None = None
) -> Observations:
    """Reads a tensor.

    Args:
        source: a path, or "-" for standard input.
        model: whose observed letters the axes are.
        reading: see `Reading`.
        known: labels that some letters must have, in the order of their indices.

    Raises:
        InputError: it cannot be read, does not have the axes of the model, or holds a value below zero or infinite, or
            a label that is not among the known ones.
    """
    _check_letters(reading, model)
    known = known or {}
    # Where names are given beside the data, a column may hold their indices.
    named = frozenset(reading.named) | (frozenset(known) - frozenset(reading.labels))
    tensor = read_tensor(source, reading.request(model.output, named=named))
    if len(tensor.shape) != len(model.output):
        raise InputError(
            f"the model {model.text!r} needs {len(model.output)} axes ({', '.join(model.output)}), "
            f"the data have {len(tensor.shape)}: {_sizes(tensor.shape)}",
            tensor.source,
        )
    if reading.named and isinstance(tensor, DenseTensor):
        raise InputError(
            "--names is for tables; names along an axis of an array come with --labels", tensor.source
        )
    for letter, place in reading.labels.items():
        tensor = _with_names(tensor, letter, place, model.output)
    for letter, names in known.items():
        tensor = _with_known(tensor, letter, names, model.output)
    if isinstance(tensor, SparseTensor):
        _check_entries(tensor, model.output, reading.nan)
    labels = {c: names.to_list() for c, names in tensor.labels.items()}
    labels |= {c: list(known[c]) for c in known}
    return Observations(model.output, tensor, labels, _notes(tensor, model.output))


def load(
    estimator: NNEinFact,
    data: Observations,
    mask: Any = None,
    weights: Any = None,
    holdout: float | None = None,
) -> DenseData | SparseData:
    """The data checked against the estimator's divergence; errors name the file."""
    with about(data.source):
        return estimator.load(data.values(), mask, weights, holdout=holdout)


def read_mask(source: str, data: Observations, reading: Reading) -> NDArray[Any]:
    """Which cells are observed: an array of the data's shape, or a list of the cells that are not.

    Returns:
        A boolean array, true where observed, or the int64 (axes, n) indices of cells that are not observed.
    """
    request = _cell_request(data, reading, values=False)
    tensor = read_tensor(source, request)
    if isinstance(tensor, SparseTensor):
        index = _matched(tensor, data).index
        if isinstance(data.tensor, SparseTensor):
            return index
        mask = np.ones(data.shape, bool)
        mask[tuple(index)] = False
        return mask
    with about(tensor.source):
        found = boolean_mask(tensor.array, data.shape)
    assert found is not None
    return found


def read_weights(source: str, data: Observations, reading: Reading) -> NDArray[Any]:
    """A weight for every cell: an array that can be broadcast to the data's shape."""
    tensor = read_tensor(source, replace(_cell_request(data, reading), sizes={}))
    if isinstance(tensor, SparseTensor):
        raise InputError("weights come as an array (.npy, .npz) that has one for every cell", tensor.source)
    with about(tensor.source):
        check_weights(tensor.array, data.shape)
    return tensor.array


def read_cells(source: str, model: NNEinFact, reading: Reading) -> NDArray[np.int64]:
    """Cells whose values are wanted: int64 (axes, n), in the order of the input."""
    letters = Model.parse(model.model).output
    known = model.labels or {}
    sizes = {c: n for c, n in model.all_sizes().items() if c in letters and c not in known}
    request = reading.request(letters, values=False, sizes=sizes, named=frozenset(known))
    tensor = read_tensor(source, request)
    if isinstance(tensor, DenseTensor):
        raise InputError(f"cells come as a table with the columns {', '.join(letters)}", tensor.source)
    for letter in letters:
        if letter in known:
            tensor = match_labels(tensor, letter, known[letter], letters)
        elif letter in tensor.labels:
            name = tensor.labels[letter][0]
            raise InputError(
                f"the model has no labels for {letter}, only indices 0..{sizes[letter] - 1}; got {name!r}",
                tensor.source,
            )
    return tensor.index


def parse_slice(text: str, model: NNEinFact) -> dict[str, int]:
    """Reads `w=3,d=Monday`: for some letters the index, or label, to stay at.

    Raises:
        InputError: not of that form, a letter twice, or a label or index that the model does not know.
    """
    chosen: dict[str, int] = {}
    for part in re.split(r",(?=\s*[A-Za-z]\s*=)", text):
        letter, equals, name = part.partition("=")
        letter = letter.strip()
        if not equals or len(letter) != 1:
            raise InputError(f"slice {text!r}: expected LETTER=INDEX such as w=3, got {part!r}")
        if letter in chosen:
            raise InputError(f"slice {text!r}: letter {letter!r} is there twice")
        chosen[letter] = int(model.locate(letter, [name.strip()])[0])
    return chosen


def read_models(source: str) -> list[str]:
    """Model strings, one a line; blank lines and comments (#) are skipped. `source` may be a model string itself.

    Raises:
        InputError: no model, or one that cannot be read, with its line.
    """
    if "->" in source:
        return [Model.parse(source).text]
    content = read_source(source)
    models = []
    for number, line in enumerate(content.data.decode("utf-8", "replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            models.append(Model.parse(text).text)
        except InputError as error:
            raise InputError(error.message, content.name, number) from None
    if not models:
        raise InputError("holds no model", content.name)
    return list(dict.fromkeys(models))


def start_from(saved: NNEinFact, model: Model, labels: Mapping[str, Sequence[str]]) -> list[NDArray[Any]]:
    """The factors of a saved model as a start for data with these labels.

    Raises:
        InputError: it is another model, or lacks a label.
    """
    if saved.model != model.text:
        raise InputError(f"it is a model {saved.model!r}, not {model.text!r}")
    factors = list(saved.factors_)
    for letter in model.output:
        if letter not in labels or letter not in (saved.labels or {}):
            continue
        order = saved.locate(letter, labels[letter])
        for i, letters in enumerate(model.factors):
            if letter in letters:
                factors[i] = np.take(factors[i], order, axis=letters.index(letter))
    return factors


def parse_shape(text: str, letters: str) -> dict[str, int]:
    """Reads `27,24,?`: sizes of the observed letters in their order; those left open come from the data."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(letters) or not all(p == "?" or (p.isdecimal() and int(p) > 0) for p in parts):
        raise InputError(
            f"--shape takes {len(letters)} sizes, one for each of {', '.join(letters)}, such as "
            f"{','.join(['10'] * len(letters))} (? for one that the data tell); got {text!r}"
        )
    return {c: int(part) for c, part in zip(letters, parts, strict=True) if part != "?"}


def parse_labels(text: str) -> dict[str, str]:
    """Reads `d=days.txt,w=weeks.txt`."""
    found: dict[str, str] = {}
    for part in re.split(r",(?=\s*[A-Za-z]=)", text):
        letter, equals, place = part.strip().partition("=")
        if not equals or len(letter) != 1 or not place or letter in found:
            raise InputError(f"--labels takes LETTER=FILE, several with commas; got {text!r}")
        found[letter] = place
    return found


def _check_letters(reading: Reading, model: Model) -> None:
    for option, letters in (("--names", reading.named), ("--labels", reading.labels)):
        unknown = next((c for c in letters if c not in model.output), None)
        if unknown is not None:
            raise InputError(f"{option}: {unknown!r} is not an observed letter of the model {model.text!r}")


def _with_known(tensor: Tensor, letter: str, names: Sequence[str], letters: str) -> Tensor:
    """The tensor with one letter's labels, or indices, as a model has them."""
    if isinstance(tensor, SparseTensor):
        return match_labels(tensor, letter, names, letters)
    own = tensor.labels.get(letter)
    if own is not None and own != list(names):
        raise InputError(f"its labels along {letter} are not those of the model", tensor.source)
    return tensor


def _check_entries(tensor: SparseTensor, letters: str, nan: str) -> None:
    """Refuses the first entry that no divergence admits, with its line."""
    values = tensor.values
    assert values is not None
    with np.errstate(invalid="ignore"):
        bad = (values < 0) | np.isinf(values)
    if nan == "error":
        bad |= np.isnan(values)
    if not bad.any():
        return
    entry = int(np.argmax(bad))
    value = values[entry]
    what = "negative" if value < 0 and np.isfinite(value) else "infinite" if np.isinf(value) else "NaN"
    cell = ", ".join(
        f"{c}={tensor.labels[c][int(i)] if c in tensor.labels else int(i)}"
        for c, i in zip(letters, tensor.index[:, entry], strict=True)
    )
    raise InputError(f"cell {cell} is {what}: {value:g}", tensor.source, tensor.line_of(entry))


def _notes(tensor: Tensor, letters: str) -> list[str]:
    notes = []
    if isinstance(tensor, SparseTensor):
        for letter, size, index in zip(letters, tensor.shape, tensor.index, strict=True):
            if letter not in tensor.labels and size > MANY_INDICES and size > 100 * len(index):
                notes.append(
                    f"{tensor.source}: indices along {letter} go up to {size - 1}; "
                    f"if they are names, say --names {letter}"
                )
    return notes


def _with_names(tensor: Tensor, letter: str, place: str, letters: str) -> Tensor:
    """The tensor with names along one letter; where a table has names of its own, they are numbered as in the list."""
    own = isinstance(tensor, DenseTensor) and place in tensor.texts and not os.path.exists(place)
    names = tensor.texts[place] if own else _read_names(place)  # type: ignore[union-attr]
    if isinstance(tensor, SparseTensor) and letter in tensor.labels:
        return match_labels(tensor, letter, names, letters)
    size = tensor.shape[letters.index(letter)]
    if len(names) != size:
        raise InputError(f"{len(names)} labels for {letter}, which has size {size}", place)
    return replace(tensor, labels={**tensor.labels, letter: names})


def _read_names(place: str) -> Names:
    """Names from a file with one a line; empty lines at its end do not count."""
    content = read_source(place)
    lines = [line.removesuffix(b"\r") for line in bytes(content.data).split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        try:
            name = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"byte 0x{line[error.start]:02x} is not UTF-8 text", content.name, number
            ) from None
        if not name or "\0" in name:
            raise InputError(
                "NUL byte; this is not a text file" if name else "no label", content.name, number
            )
        if name in seen:
            raise InputError(
                f"label {name!r} is there twice, first in line {seen[name]}", content.name, number
            )
        seen[name] = number
    return Names.from_strings(seen)


def _cell_request(data: Observations, reading: Reading, **changes: Any) -> Request:
    """For a file about the cells of the data, in a format of its own."""
    sizes = {c: n for c, n in zip(data.letters, data.shape, strict=True) if c not in data.labels}
    return Request(
        tuple(data.letters), sizes=sizes, named=frozenset(data.labels), threads=reading.threads, **changes
    )


def _matched(tensor: SparseTensor, data: Observations) -> SparseTensor:
    for letter, names in data.labels.items():
        tensor = match_labels(tensor, letter, Names.from_strings(names), data.letters)
    for letter in tensor.labels:
        if letter not in data.labels:
            raise InputError(f"the data have no labels along {letter}", tensor.source)
    return tensor


def _sizes(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
