"""The baseline every fit is reported against: one constant for all cells."""

from __future__ import annotations

import math

import numpy as np

from icml.tools.nneinfact.contraction import Array
from icml.tools.nneinfact.engine import Engine, Losses


def null_losses(engine: Engine) -> Losses:
    """Losses of the constant that fits the observed cells best.

    It is their power mean of order α (the geometric mean for α = 0). With all ŷ equal to m, Σ θ num over one factor
    is m^β Σ w y^α, respectively m^β Σ w ln(y/m).
    """
    divergence, stats = engine.kernel.divergence, engine.stats
    level = stats.mean if stats.mean > 0 else 1.0
    factors = constant_factors(engine, level)
    total = float((factors[0] * engine.numerator(0, factors)).sum()) / level**divergence.beta / stats.weight
    if divergence.alpha == 0:
        best = level * math.exp(total)
    else:
        best = total ** (1 / divergence.alpha) if total > 0 else engine.kernel.floor
    return engine.exact_losses(constant_factors(engine, best))


def constant_factors(engine: Engine, level: float) -> list[Array]:
    """Constant factors whose model value is `level` everywhere."""
    model, sizes = engine.plan.model, engine.plan.sizes
    terms = math.prod(sizes[c] for c in model.latent)
    entry = (level / terms) ** (1 / len(model.factors))
    return [np.full(model.shape(i, sizes), entry) for i in range(len(model.factors))]
