"""Nonnegative tensor factorization written as an einsum, under any (alpha, beta)-divergence.

    >>> import numpy as np
    >>> from icml.tools.nneinfact import NNEinFact
    >>> counts = np.random.default_rng(0).poisson(3.0, (6, 5, 4))
    >>> fitted = NNEinFact("ur,vr,tr->uvt", "r=2").fit(counts)
    >>> [f.shape for f in fitted.factors_]
    [(6, 2), (5, 2), (4, 2)]

Source: John Hood, Aaron Schein, "Near-Universal Multiplicative Updates for Nonnegative Einsum Factorization",
ICML 2026.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.nneinfact.control import Checkpoint
    from icml.tools.nneinfact.estimator import NNEinFact
    from icml.tools.nneinfact.losses import Divergence, divergence
    from icml.tools.nneinfact.model import Model, parse_grid, parse_sizes
    from icml.tools.nneinfact.modelfile import load_checkpoint, load_model, save_checkpoint, save_model
    from icml.tools.nneinfact.selection import Candidate, select
    from icml.tools.nneinfact.split import Plan, plan

# Imported on first use, so that the command's --help does not import numpy.
_HOMES = {
    "Candidate": "selection",
    "Checkpoint": "control",
    "Divergence": "losses",
    "Model": "model",
    "NNEinFact": "estimator",
    "Plan": "split",
    "divergence": "losses",
    "load_checkpoint": "modelfile",
    "load_model": "modelfile",
    "parse_grid": "model",
    "parse_sizes": "model",
    "plan": "split",
    "save_checkpoint": "modelfile",
    "save_model": "modelfile",
    "select": "selection",
}

__all__ = [
    "Candidate",
    "Checkpoint",
    "Divergence",
    "Model",
    "NNEinFact",
    "Plan",
    "divergence",
    "load_checkpoint",
    "load_model",
    "parse_grid",
    "parse_sizes",
    "plan",
    "save_checkpoint",
    "save_model",
    "select",
]


__getattr__ = attach(__name__, _HOMES)
