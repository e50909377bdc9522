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

from icml.tools.shapleig.covariances import shapley_covariances
from icml.tools.shapleig.design import Result, ShapleyDesign, estimate
from icml.tools.shapleig.estimate import Estimate, Stopping
from icml.tools.shapleig.semivalues import exact_values
from icml.tools.shapleig.study import Study

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
