"""Shapley values when one evaluation is expensive: which coalition to evaluate next, and what is known so far.

    from icml.tools.shapleig import ShapleyDesign

    design = ShapleyDesign(10)
    for _ in range(60):
        Z = design.ask()
        design.tell(Z, [train(z) for z in Z])
    design.values_, design.interval()

After Rundel, Fumagalli, Muschalik, Bischl, Feurer: ShaplEIG: Bayesian Experimental Design for Shapley Value
Estimation (2026).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.shapleig.covariances import shapley_covariances
    from icml.tools.shapleig.design import Result, ShapleyDesign, estimate
    from icml.tools.shapleig.estimates import Estimate, Stopping
    from icml.tools.shapleig.semivalues import exact_values
    from icml.tools.shapleig.study import Study

_HOMES = {
    "Estimate": "estimates",
    "Result": "design",
    "ShapleyDesign": "design",
    "Stopping": "estimates",
    "Study": "study",
    "estimate": "design",
    "exact_values": "semivalues",
    "shapley_covariances": "covariances",
}

__all__ = [
    "Estimate",
    "Result",
    "ShapleyDesign",
    "Stopping",
    "Study",
    "estimate",
    "exact_values",
    "shapley_covariances",
]

__getattr__ = attach(__name__, _HOMES)
