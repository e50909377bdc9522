"""Dense products and factorizations whose bits do not depend on the number of threads.

BLAS splits its work by the number of threads, which changes the last bits and, through rounding to codes, everything
after. Here the splitting is fixed and every piece runs on one BLAS thread; threads only share out the pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.quantize.threads import thread_count

ROWS = 128  # of a piece of a product
TILE = 256  # of a factorization

Item = TypeVar("Item")
Matrix32 = NDArray[np.float32]
Matrix64 = NDArray[np.float64]


@contextmanager
def single_blas() -> Iterator[None]:
    """Within, BLAS has one thread."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(limits=1, user_api="blas"):
        yield


@contextmanager
def workers(threads: int | None) -> Iterator[Callable[[Callable[[Item], Any], Iterable[Item]], None]]:
    """Within, BLAS has one thread; yields a function that calls f on each item, sharing the items out to threads."""
    count = thread_count(threads)
    with single_blas(), ThreadPoolExecutor(count) as pool:

        def each(f: Callable[[Item], Any], items: Iterable[Item]) -> None:
            for _ in map(f, items) if count == 1 else pool.map(f, items):
                pass

        yield each


def matmul(a: Matrix32, b: Matrix32, threads: int | None = None) -> Matrix32:
    """a @ b."""
    out = np.empty((a.shape[0], b.shape[1]), np.result_type(a, b))

    def rows(first: int) -> None:
        np.matmul(a[first : first + ROWS], b, out=out[first : first + ROWS])

    with workers(threads) as each:
        each(rows, range(0, a.shape[0], ROWS))
    return out


def row_forms(a: Matrix32, b: Matrix32, h: Matrix32 | None, threads: int | None = None) -> Matrix64:
    """a_i h b_iᵀ for each row i; h None is the identity."""
    out = np.empty(a.shape[0])

    def rows(first: int) -> None:
        part = slice(first, first + ROWS)
        left = a[part] if h is None else a[part] @ h
        out[part] = np.einsum("ij,ij->i", left, b[part], dtype=np.float64)

    with workers(threads) as each:
        each(rows, range(0, a.shape[0], ROWS))
    return out


def cholesky(h: Matrix64, threads: int | None = None) -> Matrix64:
    """Lower C with C Cᵀ = h, tile by tile; raises InputError if h is not positive definite."""
    from scipy.linalg import solve_triangular

    c = np.tril(h)
    starts = range(0, len(c), TILE)
    tile = [slice(i, min(i + TILE, len(c))) for i in starts]
    with workers(threads) as each:
        for k, diagonal in enumerate(tile):
            try:
                c[diagonal, diagonal] = np.linalg.cholesky(c[diagonal, diagonal])
            except np.linalg.LinAlgError as error:
                raise InputError("the Hessian is not positive definite; more damping helps") from error
            corner = c[diagonal, diagonal]

            def below(i: int, corner: Matrix64 = corner, column: slice = diagonal) -> None:
                c[tile[i], column] = solve_triangular(
                    corner, c[tile[i], column].T, lower=True, check_finite=False
                ).T

            def trailing(pair: tuple[int, int], column: slice = diagonal) -> None:
                i, j = tile[pair[0]], tile[pair[1]]
                c[i, j] -= c[i, column] @ c[j, column].T

            rest = range(k + 1, len(tile))
            each(below, rest)
            each(trailing, [(i, j) for i in rest for j in range(k + 1, i + 1)])
    return np.tril(c)


def inverse_factor(h: Matrix64, threads: int | None = None) -> Matrix64:
    """Upper R with RᵀR = h⁻¹ (the factor GPTQ walks along).

    With J the reversal of order, J h J = C Cᵀ gives h⁻¹ = RᵀR for R = J C⁻¹ J, which is upper triangular.
    """
    from scipy.linalg import solve_triangular

    c = cholesky(np.ascontiguousarray(h[::-1, ::-1]), threads)
    inverse = np.zeros_like(c)

    def columns(first: int) -> None:
        last = min(first + TILE, len(c))
        right = np.zeros((len(c) - first, last - first))
        np.fill_diagonal(right, 1.0)
        inverse[first:, first:last] = solve_triangular(
            c[first:, first:], right, lower=True, check_finite=False
        )

    with workers(threads) as each:
        each(columns, range(0, len(c), TILE))
    return np.ascontiguousarray(inverse[::-1, ::-1])
