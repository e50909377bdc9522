"""Fully dynamic k-center with outliers.

Python API of `icml kcenter-dyn`:

    from icml.tools.kmeans_dyn import DynamicKCenter, KCenterOutliers, greedy_disks
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from icml.tools.kmeans_dyn.audit import Audit, audit
from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result, Scores
from icml.tools.kmeans_dyn.outliers import Outliers
from icml.tools.kmeans_dyn.static import Disks, greedy_disks

if TYPE_CHECKING:
    from icml.tools.kmeans_dyn.estimator import KCenterOutliers

__all__ = [
    "Audit",
    "Disks",
    "DynamicKCenter",
    "KCenterOutliers",
    "Outliers",
    "Result",
    "Scores",
    "audit",
    "greedy_disks",
]


def __getattr__(name: str) -> Any:  # the estimator alone needs scikit-learn, which takes a second to import
    if name == "KCenterOutliers":
        from icml.tools.kmeans_dyn.estimator import KCenterOutliers

        return KCenterOutliers
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
