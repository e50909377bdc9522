"""Fully dynamic k-center with outliers.

Python API of `icml kcenter-dyn`:

    from icml.tools.kmeans_dyn import DynamicKCenter, KCenterOutliers, greedy_disks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.kmeans_dyn.auditing import Audit, audit
    from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result, Scores
    from icml.tools.kmeans_dyn.estimator import KCenterOutliers
    from icml.tools.kmeans_dyn.outliers import Outliers
    from icml.tools.kmeans_dyn.static import Disks, greedy_disks

_HOMES = {
    "Audit": "auditing",
    "Disks": "static",
    "DynamicKCenter": "dynamic",
    "KCenterOutliers": "estimator",
    "Outliers": "outliers",
    "Result": "dynamic",
    "Scores": "dynamic",
    "audit": "auditing",
    "greedy_disks": "static",
}

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

__getattr__ = attach(__name__, _HOMES)
