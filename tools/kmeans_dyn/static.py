"""The static problem on a matrix of distances: greedy disks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.kmeans_dyn import _kernel
from icml.tools.kmeans_dyn.dynamic import check_matrix


@dataclass(frozen=True, eq=False)
class Disks:
    """Centers among weighted points.

    Attributes:
        centers: at most k of the points, int32 (m,).
        radius: of all points but those given up; at most 3 times the optimum, in single precision.
        owner: which center each point belongs to, -1 for points given up, int32 (n,).
        lower: no k of the points cover all but the budget within this radius.
    """

    centers: NDArray[np.int32]
    radius: float
    owner: NDArray[np.int32]
    lower: float


def greedy_disks(
    distances: ArrayLike, weights: ArrayLike | None, k: int, budget: int, *, threads: int = 1
) -> Disks:
    """k centers that leave at most the budget's weight uncovered, and their radius.

    M. Charikar, S. Khuller, D. Mount and G. Narasimhan, Algorithms for Facility Location Problems with Outliers, SODA
    2001: k times the heaviest disk, covering three times its radius, for the smallest radius that works within 1 %;
    then every center moves to the middle of its cluster while that helps.

    Args:
        distances: a metric, (n, n).
        weights: not negative integers, (n,); None for 1 each.
        k: number of centers.
        budget: weight that may stay uncovered.

    Raises:
        InputError: an argument is out of range.
    """
    matrix = check_matrix(distances)
    weight = np.ones(len(matrix), np.int64) if weights is None else np.ascontiguousarray(weights, np.int64)
    try:
        centers, radius, owner, disproved = _kernel.greedy_disks(matrix, weight, k, budget, threads)
    except ValueError as error:
        raise InputError(str(error)) from None
    return Disks(centers, radius, owner, disproved)
