"""k-center with outliers over points that come and go: `DynamicKCenter`.

Layers of samples summarise the live points without guessing the optimal radius, so that neither updates nor answers
depend on the ratio of the largest to the smallest distance (New Algorithms for Fully-Dynamic k-center with Outliers,
ICML 2026). An answer discards at most (1 + eps) z points and comes with a radius that provably covers the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.kmeans_dyn import _kernel
from icml.tools.kmeans_dyn.metrics import METRICS
from icml.tools.kmeans_dyn.outliers import Outliers

CONFLICTS = ("error", "skip", "replace")
SCHEDULES = ("lazy", "strict")
DTYPES = ("float32", "float64")
FLOAT32_METRICS = ("euclidean", "manhattan", "chebyshev", "cosine")

Floats = NDArray[np.float64]
Ids = list[str] | NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Result:
    """An answer.

    Attributes:
        updates: insertions and deletions so far.
        n: live points.
        k, z: what was asked for.
        radius: every point but the outliers is within this distance of a center, rounded up; in kilometres for
            haversine, radians for cosine.
        opt_lower: no k live centers discarding z points have a smaller radius; None if nothing is known.
        centers: ids of m <= k live points, integers if the ids came as integers.
        coordinates: theirs, (m, d).
        sizes: how many points each center answers for, (m,); with the outliers they add up to n.
        outliers: ids of at most (1 + eps) z points.
        layers, coreset: layers of samples, and representatives in them.
        recourse: centers that were none in the answer before.
        seconds: what it took.
        note: what is special about it, if anything.
    """

    updates: int
    n: int
    k: int
    z: int
    radius: float
    opt_lower: float | None
    centers: Sequence[str] | NDArray[np.int64]
    coordinates: Floats
    sizes: NDArray[np.int64]
    outliers: Sequence[str] | NDArray[np.int64]
    layers: int
    coreset: int
    recourse: int
    seconds: float
    note: str | None = None


@dataclass(frozen=True, eq=False)
class Scores:
    """How points that need not be there relate to the latest answer.

    Attributes:
        center: number of the nearest center in the answer, (n,).
        distance: to it, (n,).
        score: distance / radius; above 1 the point would be an outlier.
        outlier: whether it would, (n,).
    """

    center: NDArray[np.int64]
    distance: Floats
    score: Floats
    outlier: NDArray[np.bool_]


@dataclass(frozen=True)
class _Latest:
    """What scoring needs of an answer: its centers as the kernel stores them."""

    ids: list[str]
    words: Floats
    radius: float
    updates: int


class DynamicKCenter:
    """k centers for live points, under insertions and deletions.

    >>> import numpy as np
    >>> points = np.array([[0.0], [1.0], [10.0], [11.0], [1e9]])
    >>> model = DynamicKCenter(k=2, z=1)
    >>> model.insert(np.arange(5), points)
    5
    >>> answer = model.query()
    >>> round(answer.radius, 9), answer.outliers
    (1.0, array([4]))

    An insertion takes O(k log k) expected distances while points arrive as before, an answer
    O((k log k log n + k / eps)^2) operations, whatever the distances.

    Args:
        k: number of centers.
        z: number of outliers, or a share of the live points in (0, 1) or as "0.1%".
        eps: answers may discard (1 + eps) z points; in (0, 1].
        metric: euclidean, manhattan, chebyshev; cosine (angles); haversine (latitude and longitude in degrees);
            hamming (coordinates 0 and 1); precomputed.
        schedule: "lazy" rebuilds layers when they overflow or an answer got worse, "strict" after every half as many
            updates as they were built from: the worst-case bound.
        sticky: keep the centers before while their radius is at most 1 + sticky times the new one.
        window: keep only so many points, the latest.
        window_time: keep only points that arrived within this time before the latest; times come with a stream.
        dtype: how points are stored. "float32" rounds coordinates as they come in and takes half the memory; everything
            is computed in double precision from the rounded ones, so that answers are those of "float64" for them. Not
            for haversine, hamming and precomputed.
        matrix: for precomputed, symmetric distances (N, N); ids are row numbers.
        seed: of the samples; the same insertions, deletions and queries give the same answers.
        threads: for rebuilding and answering; they change nothing in the results.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        k: int,
        z: int | float | str | Outliers,
        *,
        eps: float = 0.2,
        metric: str = "euclidean",
        schedule: str = "lazy",
        sticky: float = 0.0,
        window: int | None = None,
        window_time: float | None = None,
        dtype: str = "float64",
        matrix: ArrayLike | None = None,
        seed: int = 0,
        threads: int = 1,
    ) -> None:
        _check(k, eps, metric, schedule)
        _check_dtype(dtype, metric)
        _check_moving(sticky, window, window_time)
        self.k = k
        self.outliers = Outliers.of(z)
        self.eps = eps
        self.metric = metric
        self.schedule = schedule
        self.sticky = sticky
        self.window = window
        self.window_time = window_time
        self.dtype = dtype
        self.seed = seed
        self.threads = threads
        self.matrix = check_matrix(matrix) if matrix is not None else None
        if (metric == "precomputed") != (matrix is not None):
            raise InputError("a matrix goes with metric precomputed and nothing else")
        self._structure: _kernel.Structure | None = None
        self._latest: _Latest | None = None
        self._integers = True  # whether all ids came as integers
        if matrix is not None:
            self.prepare(0)

    def prepare(self, dimension: int) -> _kernel.Structure:
        """The structure, made for points of this dimension if there is none yet.

        Raises:
            InputError: there is one for another dimension, or the metric has no such points.
        """
        if self._structure is None:
            try:
                self._structure = _kernel.Structure(
                    self.metric,
                    dimension,
                    self.k,
                    self.outliers.value,
                    self.outliers.share,
                    self.eps,
                    self.schedule == "strict",
                    self.seed,
                    self.threads,
                    matrix=self.matrix,
                    single=self.dtype == "float32",
                )
            except ValueError as error:
                raise InputError(str(error)) from None
            self._structure.set_window(self.window or 0, self.window_time or 0.0)
            self.dimension = dimension
        elif dimension != self.dimension:
            raise InputError(f"expected {self.dimension} coordinates, got {dimension}")
        return self._structure

    def ids_are_text(self) -> None:
        """Has ids come back as strings, however they look: what a stream's ids are."""
        self._integers = False

    def __len__(self) -> int:
        """Live points."""
        return 0 if self._structure is None else self._structure.size

    @property
    def updates(self) -> int:
        """Insertions and deletions so far."""
        return 0 if self._structure is None else self._structure.updates

    def insert(
        self, ids: ArrayLike | Sequence[str], points: ArrayLike | None = None, *, on_conflict: str = "error"
    ) -> int:
        """Adds points; all of them or, after an error, none.

        Args:
            ids: n integers or strings, not in use yet.
            points: numbers (n, d); None for precomputed distances, where the ids are rows.
            on_conflict: what to do about an id in use: "error", "skip" the new point, or "replace" the old one.

        Returns:
            How many were not skipped.

        Raises:
            InputError: an id is in use, or a point is not finite, not of the dimension, or none of the metric's.
        """
        x = None if points is None else _matrix_of(points)
        names = self._ids(ids)
        structure = self.prepare(0 if x is None else x.shape[1])
        try:
            return structure.insert(names, x, CONFLICTS.index(_conflict(on_conflict)))
        except ValueError as error:
            raise InputError(str(error)) from None

    def delete(self, ids: ArrayLike | Sequence[str], *, on_conflict: str = "error") -> int:
        """Removes points; all of them or, after an error, none.

        Raises:
            InputError: an id is not there, unless `on_conflict` says to skip those.
        """
        names = self._ids(ids)
        if self._structure is None:
            if len(names) and on_conflict == "error":
                raise InputError(f"id '{names[0]}' is not there")
            return 0
        try:
            return self._structure.erase(names, CONFLICTS.index(_conflict(on_conflict)))
        except ValueError as error:
            raise InputError(str(error)) from None

    def query(self, k: int | None = None, z: int | float | str | Outliers | None = None) -> Result:
        """Centers, radius and outliers of the points that are live now.

        Args:
            k: fewer centers than the structure was made for.
            z: another number of outliers, not below a quarter of what it was made for.

        Raises:
            InputError: k or z is out of that range, or k / eps too large for the memory there is.
        """
        start = time.perf_counter()
        n = len(self)
        k = self.k if k is None else k
        count = self._count(k, z)
        if self._structure is None:
            return self._empty(k, count, start)
        try:
            found = self._structure.answer(k, count, self.sticky)
        except ValueError as error:
            raise InputError(str(error)) from None
        note = None if n > count else "no more points than outliers: nothing has to be covered"
        self._latest = _Latest(found["ids"], found["words"], found["radius"], self.updates)
        return Result(
            updates=self.updates,
            n=n,
            k=k,
            z=count,
            radius=found["radius"],
            opt_lower=found["lower"] if found["lower"] > 0 else None,
            centers=self._given(found["ids"]),
            coordinates=found["coordinates"],
            sizes=found["sizes"],
            outliers=self._given(found["outliers"]),
            layers=found["layers"],
            coreset=found["coreset"],
            recourse=found["recourse"],
            seconds=time.perf_counter() - start,
            note=note,
        )

    def score(self, points: ArrayLike) -> Scores:
        """Compares points with the latest answer, without inserting them.

        The answer is computed if there is none, or if more than a tenth of the points changed since.

        Args:
            points: float64 (n, d); for precomputed distances row numbers (n, 1).

        Raises:
            InputError: there are no centers, or a point is not one of the metric's.
        """
        if self._latest is None or self.updates - self._latest.updates > 0.1 * len(self):
            self.query()
        latest = self._latest
        if latest is None or self._structure is None or not latest.ids:
            raise InputError("there are no centers to compare with")
        x = _matrix_of(points)
        self._check_rows(x)
        try:
            center, distance = self._structure.nearest(latest.words, x)
        except ValueError as error:
            raise InputError(str(error)) from None
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(distance == 0, 0.0, distance / latest.radius)
        return Scores(center, distance, score, distance > latest.radius)

    @property
    def latest_centers(self) -> Sequence[str] | NDArray[np.int64]:
        """Ids of the centers that `score` compares with."""
        return [] if self._latest is None else self._given(self._latest.ids)

    def counters(self) -> dict[str, Any]:
        """What goes on inside: points in each layer, rebuilds, distances computed, sample sizes, slots in memory."""
        return {} if self._structure is None else self._structure.counters()

    def rebuild(self) -> None:
        """Builds all layers anew, as a single build on the live points does."""
        if self._structure is not None:
            self._structure.rebuild()

    def live(self) -> tuple[Sequence[str] | NDArray[np.int64], Floats]:
        """Ids and coordinates (n, d) of the live points, in order of arrival; cosine gives unit vectors."""
        if self._structure is None:
            return [], np.empty((0, 0))
        return self._given(self._structure.ids()), self._structure.coordinates()

    def save(self, destination: str | Path | BinaryIO) -> None:
        """Writes a checkpoint, an NPZ file that appears whole or not at all."""
        from icml.tools.kmeans_dyn.checkpoint import save

        save(self, destination)

    def load(self, source: str | Path | BinaryIO) -> None:
        """Goes on from a checkpoint; from then on everything is as if there had been no interruption.

        Raises:
            InputError: it is damaged, of another version, or was made with another k, metric, dtype or dimension.
        """
        from icml.tools.kmeans_dyn.checkpoint import load

        load(self, source)

    def _count(self, k: int, z: int | float | str | Outliers | None) -> int:
        n = len(self)
        if not 1 <= k <= self.k:
            raise InputError(f"k of a query must be from 1 to {self.k}, got {k}")
        made_for = self.outliers.count(n)
        count = made_for if z is None else Outliers.of(z).count(n)
        if 4 * count < made_for:
            raise InputError(f"z of a query must be at least a quarter of {made_for}, got {count}")
        return count

    def _empty(self, k: int, z: int, start: float) -> Result:
        none: NDArray[np.int64] = np.empty(0, np.int64)
        seconds = time.perf_counter() - start
        note = "there are no points"
        return Result(0, 0, k, z, 0.0, None, [], np.empty((0, 0)), none, [], 0, 0, 0, seconds, note)

    def _ids(self, ids: ArrayLike | Sequence[str]) -> Ids:
        array = np.asarray(ids)
        if array.ndim != 1:
            raise InputError("ids must be a list")
        if array.dtype.kind in "iu" and array.size:
            return np.ascontiguousarray(array, np.int64)
        if array.size:
            self._integers = False
        return [str(name) for name in array.tolist()]

    def _given(self, ids: list[str]) -> Sequence[str] | NDArray[np.int64]:
        return np.array(ids, np.int64) if self._integers else ids

    def _check_rows(self, x: Floats) -> None:
        if self.matrix is not None:
            bad = (x[:, 0] < 0) | (x[:, 0] >= len(self.matrix)) | (x[:, 0] != np.floor(x[:, 0]))
            if x.shape[1] != 1 or bad.any():
                raise InputError("with precomputed distances a point is a row number of the matrix")
        elif x.shape[1] != self.dimension:
            raise InputError(f"expected {self.dimension} coordinates, got {x.shape[1]}")


def check_matrix(matrix: ArrayLike) -> Floats:
    """Checks precomputed distances (N, N): finite, not negative, symmetric, zero on the diagonal.

    Whether they obey the triangle inequality is not checked; without it the radius is not certified.

    Raises:
        InputError: they are no such matrix.
    """
    x = np.ascontiguousarray(matrix, np.float64)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise InputError(f"the matrix of distances must be square, its shape is {x.shape}")
    if not np.isfinite(x).all():
        raise InputError("a distance is not finite")
    if x.size and x.min() < 0:
        raise InputError("a distance is negative")
    if x.size and x.max() > 1e30:
        raise InputError("a distance is beyond 1e30")
    if np.diagonal(x).any():
        raise InputError("the distance of a point to itself must be 0")
    if not np.array_equal(x, x.T):
        i, j = np.argwhere(x != x.T)[0]
        raise InputError(f"the matrix of distances is not symmetric at row {i}, column {j}")
    return x


def _check(k: int, eps: float, metric: str, schedule: str) -> None:
    if not 1 <= k <= 100_000:
        raise InputError(f"k must be from 1 to 100000, got {k}")
    if not 0 < eps <= 1:
        raise InputError(f"eps must be in (0, 1], got {eps}")
    if metric not in METRICS:
        raise InputError(f"unknown metric '{metric}'; there are {', '.join(METRICS)}")
    if schedule not in SCHEDULES:
        raise InputError(f"unknown schedule '{schedule}'; there are {', '.join(SCHEDULES)}")


def _check_dtype(dtype: str, metric: str) -> None:
    if dtype not in DTYPES:
        raise InputError(f"unknown dtype '{dtype}'; there are {', '.join(DTYPES)}")
    if dtype == "float32" and metric not in FLOAT32_METRICS:
        raise InputError(f"dtype float32 goes with metrics {', '.join(FLOAT32_METRICS)}, not with {metric}")


def _check_moving(sticky: float, window: int | None, window_time: float | None) -> None:
    if not 0 <= sticky < 1e6:
        raise InputError(f"sticky must be a number from 0 on, got {sticky}")
    if window is not None and window < 1:
        raise InputError(f"a window must hold at least one point, got {window}")
    if window_time is not None and not 0 < window_time < float("inf"):
        raise InputError(f"a window must have a length above 0, got {window_time}")
    if window is not None and window_time is not None:
        raise InputError("a window is either by count or by time")


def _conflict(name: str) -> str:
    if name not in CONFLICTS:
        raise InputError(f"unknown on_conflict '{name}'; there are {', '.join(CONFLICTS)}")
    return name


def _matrix_of(points: ArrayLike) -> Floats:
    try:
        x: Any = np.ascontiguousarray(points, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"points must be numbers: {error}") from None
    if x.ndim != 2:
        raise InputError(f"points must be a matrix with one row each, got {x.ndim} dimensions")
    return np.asarray(x)
