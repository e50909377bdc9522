"""Everything by explicit sums over all 2^p coalitions."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def coalitions(players: int) -> NDArray[np.bool_]:
    """All of them, (2^p, p); bit i of the index = player i takes part."""
    return (np.arange(2**players)[:, None] >> np.arange(players)) & 1 == 1


def hamming_kernel(Z: NDArray[np.bool_], lengthscale: Array, outputscale: float) -> Array:
    """s exp(-(1/p) sum [z_j != z'_j] / l_j), term by term."""
    differs = Z[:, None, :] != Z[None, :, :]
    result: Array = outputscale * np.exp(-(differs / lengthscale).sum(axis=2) / Z.shape[1])
    return result


def shapley_by_permutations(table: Array) -> Array:
    """The average marginal contribution over all p! orders."""
    players = len(table).bit_length() - 1
    totals = np.zeros(players)
    for order in permutations(range(players)):
        code = 0
        for i in order:
            totals[i] += table[code | 1 << i] - table[code]
            code |= 1 << i
    return totals / math.factorial(players)


def semivalue_matrix(players: int, weights: list[float]) -> Array:
    """A with phi = A v, (p, 2^p), from the weight of a coalition of the others by its size."""
    A = np.zeros((players, 2**players))
    for i in range(players):
        for code in range(2**players):
            if not code >> i & 1:
                weight = weights[code.bit_count()]
                A[i, code | 1 << i] += weight
                A[i, code] -= weight
    return A


def random_game(players: int, seed: int) -> Array:
    """Main effects, pairs and a little of everything, (2^p,)."""
    rng = np.random.default_rng(seed)
    Z = coalitions(players).astype(float)
    pairs = rng.normal(0, 0.3, (players, players))
    table: Array = Z @ rng.normal(0, 1, players) + np.einsum("ni,ij,nj->n", Z, pairs, Z)
    return table + rng.normal(0, 0.02, 2**players)
