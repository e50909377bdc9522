"""From what a caller holds to the data that the engines take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from icml.tools.nneinfact.data import Holdout
from icml.tools.nneinfact.dense_data import DenseData, load_dense
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.sparse_data import SparseData, load_sparse

if TYPE_CHECKING:
    from icml.tools.nneinfact.sharded import Ranks


def load_data(
    y: Any,
    divergence: Divergence,
    *,
    mask: ArrayLike | None,
    weights: ArrayLike | None,
    holdout: Holdout | None,
    nan: str,
    ranks: Ranks | None,
) -> DenseData | SparseData:
    """The data, checked against the divergence; of several processes each gets its part.

    Args:
        y: see `NNEinFact.fit`.
        mask, weights, holdout, nan: see `load_dense` and `load_sparse`.
        ranks: the processes that share the data, or None.
    """
    listed = as_coordinates(y)
    if listed is None:
        if ranks is None:
            return load_dense(y, divergence, mask=mask, weights=weights, holdout=holdout, nan=nan)
        from icml.tools.nneinfact.sharded import load_dense_part

        return load_dense_part(y, divergence, ranks, mask=mask, weights=weights, holdout=holdout, nan=nan)
    coords, values, shape = listed
    data = load_sparse(
        coords, values, shape, divergence, missing=mask, weights=weights, holdout=holdout, nan=nan
    )
    if ranks is None:
        return data
    from icml.tools.nneinfact.sharded import part_by_entries

    return data.cut(part_by_entries(data, ranks))


def as_coordinates(y: Any) -> tuple[Any, Any, tuple[int, ...]] | None:
    """(coords, values, shape) of anything sparse; None for what is dense."""
    if isinstance(y, tuple) and len(y) == 3:
        coords, values, shape = y
        return coords, values, tuple(shape)
    if hasattr(y, "tocoo"):
        matrix = y.tocoo()
        return (
            np.vstack(matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)),
            matrix.data,
            matrix.shape,
        )
    if hasattr(y, "coords") and hasattr(y, "data") and hasattr(y, "shape") and not isinstance(y, np.ndarray):
        return y.coords, y.data, tuple(y.shape)
    return None
