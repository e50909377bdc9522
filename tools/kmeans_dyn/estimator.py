"""`KCenterOutliers`: k-center with outliers as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from icml.tools.kmeans_dyn.dynamic import DynamicKCenter
from icml.tools.kmeans_dyn.metrics import Floats, distances

_BATCH = 4096  # rows that are copied to double precision at a time


class KCenterOutliers(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of the smallest radius when a few points may be discarded.

    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [1e6]])
    >>> KCenterOutliers(n_clusters=2, n_outliers=1).fit_predict(X)
    array([ 0,  0,  0,  1,  1, -1])

    Args:
        n_clusters: number of centers.
        n_outliers: number of points that may be discarded, or their share in (0, 1).
        eps: up to (1 + eps) n_outliers points are discarded.
        metric: euclidean, manhattan, chebyshev, cosine, haversine or precomputed (X is the matrix of distances).
        dtype: "float64", or "float32", which rounds X and takes half the memory; see `DynamicKCenter`.
        random_state: seed; small inputs do not depend on it.

    Attributes:
        cluster_centers_: points of X, (m, d) with m <= n_clusters.
        center_indices_: their rows, (m,).
        labels_: the nearest center of each row, -1 for outliers, (n,).
        radius_: the largest distance of a row that is no outlier to its center.
        lower_bound_: no n_clusters rows have a smaller radius with n_outliers rows discarded; 0 if nothing is known.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        n_outliers: int | float = 0,
        *,
        eps: float = 0.2,
        metric: str = "euclidean",
        dtype: str = "float64",
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_outliers = n_outliers
        self.eps = eps
        self.metric = metric
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Finds the centers of the rows of X; `y` is ignored."""
        x: Floats = validate_data(self, X, dtype=self._stored, ensure_min_samples=1)
        n = len(x)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        matrix = x if self.metric == "precomputed" else None
        model = DynamicKCenter(
            min(self.n_clusters, n) if self.n_clusters >= 1 else self.n_clusters,
            self.n_outliers,
            eps=self.eps,
            metric=self.metric,
            dtype=self.dtype,
            matrix=matrix,
            seed=seed,
        )
        for begin in range(0, n, _BATCH):
            rows = np.arange(begin, min(n, begin + _BATCH))
            model.insert(rows, None if matrix is not None else x[rows])
        model.rebuild()
        result = model.query()
        self.center_indices_ = np.sort(np.asarray(result.centers, np.int64))
        self.cluster_centers_ = x[self.center_indices_]
        self.lower_bound_ = result.opt_lower or 0.0
        distance = self._distances(x)
        nearest = distance.min(axis=1) if distance.shape[1] else np.zeros(n)
        allowed = model.outliers.allowed(n, self.eps) if distance.shape[1] else n
        self.radius_ = float(np.sort(nearest)[n - 1 - allowed]) if allowed < n else 0.0
        self.labels_ = self._labels(distance)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """The nearest center of each row of X, -1 for rows beyond the radius."""
        check_is_fitted(self)
        return self._labels(self._distances(validate_data(self, X, dtype=self._stored, reset=False)))

    @property
    def _stored(self) -> type[np.floating[Any]]:
        return np.float32 if self.dtype == "float32" else np.float64

    def _distances(self, x: Floats) -> Floats:
        if self.metric == "precomputed":
            return np.asarray(x[:, self.center_indices_])
        return distances(self.metric, x, self.cluster_centers_)

    def _labels(self, distance: Floats) -> NDArray[np.int64]:
        if not distance.shape[1]:
            return np.full(len(distance), -1, np.int64)
        return np.where(distance.min(axis=1) <= self.radius_, distance.argmin(axis=1), -1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags
