"""Answers as JSON objects, and the baselines and audits that go with them."""

from __future__ import annotations

from typing import Any

from icml.tools.kmeans_dyn.auditing import audit
from icml.tools.kmeans_dyn.baselines import compare
from icml.tools.kmeans_dyn.dynamic import DynamicKCenter, Result


def figures(result: Result, *, list_outliers: bool) -> dict[str, Any]:
    """An answer in the order of the keys that the man page documents."""
    return {
        "t": result.updates,
        "n": result.n,
        "k": result.k,
        "z": result.z,
        "radius": result.radius,
        "opt_lower": result.opt_lower,
        "centers": [str(name) for name in result.centers],
        "coords": result.coordinates.tolist(),
        "sizes": result.sizes.tolist(),
        "outliers": len(result.outliers),
        "outlier_ids": [str(name) for name in result.outliers] if list_outliers else None,
        "layers": result.layers,
        "coreset": result.coreset,
        "recourse": result.recourse,
        "seconds": round(result.seconds, 6),
        "note": result.note,
    }


def audit_figures(model: DynamicKCenter, result: Result, *, list_outliers: bool) -> dict[str, Any]:
    """What a look at all points says about the answer."""
    found = audit(model, result)
    lower = found.opt_lower
    return {
        "radius": found.radius,
        "beyond": found.beyond,
        "allowed": found.allowed,
        "holds": found.holds,
        "opt_lower": lower,
        "ratio": None if not lower else found.radius / lower,
        "outlier_ids": found.outliers if list_outliers else None,
    }


def comparison(model: DynamicKCenter, result: Result) -> dict[str, float | None]:
    """Exact radii of the answer and of what one would use otherwise, all discarding the same number of points."""
    return {"icml": audit(model, result, bound=False).radius, **compare(model, result)}
