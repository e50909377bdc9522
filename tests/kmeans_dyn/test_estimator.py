"""`KCenterOutliers` as a scikit-learn estimator."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from icml.tools.kmeans_dyn import KCenterOutliers, dynamic, estimator
from icml.tools.kmeans_dyn.metrics import distances


@parametrize_with_checks([KCenterOutliers(), KCenterOutliers(3, 2, eps=0.5), KCenterOutliers(2, 0.05)])
def test_scikit_learn_checks(estimator: KCenterOutliers, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_blobs_with_outliers() -> None:
    x, truth = make_blobs(3000, centers=[[10.0 * i, 0] for i in range(6)], random_state=1)
    x[:20] += np.random.default_rng(0).normal(size=(20, 2)) * 1e6
    model = KCenterOutliers(6, 20, random_state=0).fit(x)
    assert 20 <= np.count_nonzero(model.labels_ == -1) <= 24
    assert np.all(model.labels_[:20] == -1)
    kept = model.labels_ >= 0
    pairs = set(zip(truth[kept].tolist(), model.labels_[kept].tolist(), strict=True))
    assert len(pairs) == 6, "each blob is one cluster"
    distance = np.linalg.norm(x - model.cluster_centers_[model.labels_], axis=1)
    assert distance[kept].max() == pytest.approx(model.radius_)
    np.testing.assert_array_equal(model.cluster_centers_, x[model.center_indices_])
    np.testing.assert_array_equal(model.predict(x), model.labels_)
    assert model.predict([[1e9, 0.0]]) == [-1]


def test_precomputed_distances() -> None:
    x, _ = make_blobs(200, centers=4, random_state=2)
    matrix = distances("euclidean", x, x)
    matrix = np.maximum(matrix, matrix.T)
    a = KCenterOutliers(4, 3, random_state=0).fit(x)
    b = KCenterOutliers(4, 3, metric="precomputed", random_state=0).fit(matrix)
    np.testing.assert_array_equal(a.labels_, b.labels_)
    assert a.radius_ == pytest.approx(b.radius_)


def test_more_clusters_than_rows_and_nothing_but_outliers() -> None:
    assert KCenterOutliers(8).fit([[0.0], [1.0]]).radius_ == 0
    assert KCenterOutliers(1, 5).fit_predict([[0.0], [1.0]]).tolist() == [-1, -1]


@pytest.mark.parametrize("module", [estimator, dynamic])
def test_examples_in_docstrings(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0
