"""What is written: values of cells, factors as a table, the ranking of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from icml.formats.output import Destination, atomic_output
from icml.formats.tsv import tsv_field
from icml.tools.nneinfact.cells import boxes
from icml.tools.nneinfact.model import Model

if TYPE_CHECKING:
    from icml.tools.nneinfact.estimator import NNEinFact
    from icml.tools.nneinfact.selection import Candidate

ROWS = 1 << 16
"""Lines that are put together before they are written."""


def write_cells(dest: Destination, model: NNEinFact, index: NDArray[np.int64], *, format: str) -> None:
    """The model's values of cells.

    Args:
        dest: a path, or "-" for standard output; written whole or not at all.
        model: fitted.
        index: (axes, n), from 0.
        format: "tsv" for a header and lines of the cells' labels or indices and the value; "npy" for the n values.
    """
    if format == "npy":
        with atomic_output(dest, "wb") as file:
            np.lib.format.write_array(file, model.predict(index), allow_pickle=False)
        return
    names = _Names(model, str(dest))
    with atomic_output(dest) as text:
        text.write(names.header())
        for low in range(0, index.shape[1], ROWS):
            part = index[:, low : low + ROWS]
            text.write(names.lines(part, model.predict(part)))


def write_slice(dest: Destination, model: NNEinFact, fixed: dict[str, int], *, format: str) -> None:
    """The model's values of all cells with the indices `fixed`, piece by piece.

    Args:
        dest: a path, or "-" for standard output; written whole or not at all.
        model: fitted.
        fixed: index of each letter that stays.
        format: "tsv" as for `write_cells`; "npy" for an array over the letters that are not fixed.
    """
    letters = Model.parse(model.model).output
    sizes = model.all_sizes()
    open_letters = [c for c in letters if c not in fixed]
    shape = tuple(sizes[c] for c in open_letters)
    if format == "npy":
        with atomic_output(dest, "wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            for _, values in _pieces(model, fixed, open_letters, shape):
                file.write(np.ascontiguousarray(values, "<f8").tobytes())
        return
    names = _Names(model, str(dest))
    with atomic_output(dest) as text:
        text.write(names.header())
        for start, values in _pieces(model, fixed, open_letters, shape):
            flat = values.reshape(-1)
            cells = np.arange(start, start + len(flat))
            at = dict(zip(open_letters, np.unravel_index(cells, shape) if shape else (), strict=True))
            index = np.stack([at[c] if c in at else np.full(len(flat), fixed[c]) for c in letters])
            text.write(names.lines(index, flat))


def write_factors(dest: Destination, model: NNEinFact) -> None:
    """All factors as lines `factor letter=index … value`, tab-separated."""
    parsed = Model.parse(model.model)
    with atomic_output(dest) as text:
        for letters, factor in zip(parsed.factors, model.factors_, strict=True):
            named = [
                _labels(model, c, n, str(dest), prefix=f"{c}=")
                for c, n in zip(letters, factor.shape, strict=True)
            ]
            flat = np.asarray(factor).reshape(-1)
            for low in range(0, len(flat), ROWS):
                part = flat[low : low + ROWS]
                at = np.unravel_index(np.arange(low, low + len(part)), factor.shape)
                columns = [
                    [names[i] for i in indices.tolist()] for names, indices in zip(named, at, strict=True)
                ]
                rows = zip(*columns, map(number, part.tolist()), strict=True)
                text.writelines(f"{letters}\t" + "\t".join(row) + "\n" for row in rows)


RANKING = ("rank", "model", "sizes", "parameters", "heldout_loss", "heldout_null_loss", "loss", "iterations")


def write_ranking(dest: Destination, candidates: Sequence[Candidate]) -> None:
    """The candidates of a search as a table, best first."""
    with atomic_output(dest) as text:
        text.write("\t".join(RANKING) + "\n")
        for row in ranking(candidates):
            cells = (number(x) if isinstance(x, float) else str(x) for x in row.values())
            text.write("\t".join(cells) + "\n")


def ranking(candidates: Sequence[Candidate]) -> list[dict[str, str | int | float]]:
    """The rows of the ranking."""
    return [
        {
            "rank": place,
            "model": c.model,
            "sizes": ",".join(f"{letter}={size}" for letter, size in c.sizes.items()),
            "parameters": c.parameters,
            "heldout_loss": c.heldout_loss,
            "heldout_null_loss": c.null_heldout_loss,
            "loss": c.loss,
            "iterations": c.iterations,
        }
        for place, c in enumerate(candidates, 1)
    ]


def number(value: float) -> str:
    """Nine significant digits, more than the data's arithmetic has in float32."""
    return f"{value:.9g}"


class _Names:
    """The names of cells in a table, by observed letter."""

    def __init__(self, model: NNEinFact, where: str) -> None:
        self._letters = Model.parse(model.model).output
        sizes = model.all_sizes()
        self._names = [_labels(model, c, sizes[c], where) for c in self._letters]

    def header(self) -> str:
        return "\t".join(self._letters) + "\tvalue\n"

    def lines(self, index: NDArray[np.integer], values: NDArray[np.float64]) -> str:
        columns = [[names[i] for i in row.tolist()] for names, row in zip(self._names, index, strict=True)]
        rows = zip(*columns, map(number, values.tolist()), strict=True)
        return "".join("\t".join(row) + "\n" for row in rows)


def _labels(model: NNEinFact, letter: str, size: int, where: str, prefix: str = "") -> list[str]:
    known = (model.labels or {}).get(letter)
    names = map(str, range(size)) if known is None else known
    return [tsv_field(prefix + name, where) for name in names]


def _pieces(
    model: NNEinFact, fixed: dict[str, int], letters: Sequence[str], shape: tuple[int, ...]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The values in memory order, with the number of the first cell of each piece."""
    for box in boxes(shape, ROWS):
        tile: dict[str, slice | int | Sequence[int]] = {
            **fixed,
            **dict(zip(letters, box.slices, strict=True)),
        }
        yield box.start, model.reconstruct(tile)
