"""What the simple way makes of the same evaluations: a weighted least-squares fit of one effect a player.

With the weights of KernelSHAP (Lundberg, Lee: A Unified Approach to Interpreting Model Predictions, 2017) its limit are
the Shapley values, with equal weights the Banzhaf values (Hammer, Holzman 1992). Which of the two to trust more on this
input is told by predicting every evaluation from all the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import signs
from icml.tools.shapleig.design import ShapleyDesign
from icml.tools.shapleig.posterior import Posterior
from icml.tools.shapleig.semivalues import BANZHAF, SHAPLEY, Array

_CERTAIN = 1e6
"""Weight of nobody and of all, which KernelSHAP takes as constraints, against the largest other."""


@dataclass(frozen=True)
class LeastSquares:
    """The baseline.

    Args:
        values: one a player, (p,); the shortest solution where the evaluations leave a choice.
        error: root mean square of predicting each evaluation from the others, but for nobody and all; None if an
            evaluation cannot be left out.
        model_error: the same of the model; None if its estimate does not come from the model.
    """

    values: Array
    error: float | None
    model_error: float | None

    @property
    def wins(self) -> bool:
        """Whether it predicts better than the model."""
        return self.error is not None and self.model_error is not None and self.error < self.model_error


def least_squares(design: ShapleyDesign) -> LeastSquares:
    """The baseline from the evaluations of a design.

    Raises:
        InputError: the index is not the limit of such a fit.
    """
    if design.semivalue not in (SHAPLEY, BANZHAF):
        raise InputError(f"--compare is for shapley and banzhaf, not for {design.settings.index}")
    done = design.evaluations
    sizes = done.masks.sum(axis=1)
    inner = (sizes > 0) & (sizes < done.players)
    weights = (
        _kernel_weights(sizes, done.players) if design.semivalue == SHAPLEY else np.ones(len(done))
    ) * done.repeats
    design_matrix = np.column_stack([np.ones(len(done)), done.masks])
    root = np.sqrt(weights)
    U, singular, V = np.linalg.svd(design_matrix * root[:, None], full_matrices=False)
    kept = singular > 1e-10 * singular[0]
    U, singular, V = U[:, kept], singular[kept], V[kept]
    centre = float(done.values.mean())  # so that the shortest solution does not depend on the origin
    coefficients = V.T @ ((U.T @ (root * (done.values - centre))) / singular)
    residual = done.values - centre - design_matrix @ coefficients
    freedom = 1.0 - np.einsum("tk,tk->t", U, U)
    error = None
    if inner.any() and freedom[inner].min() > 1e-9:
        error = _root_mean_square((residual / np.maximum(freedom, 1e-300))[inner])
    return LeastSquares(coefficients[1:], error, _model_error(design, inner))


def _kernel_weights(sizes: Array, players: int) -> Array:
    """(p - 1) / (C(p, s) s (p - s)) relative to the largest of them."""
    logs = np.full(len(sizes), math.log(_CERTAIN))
    for i, size in enumerate(sizes.tolist()):
        if 0 < size < players:
            logs[i] = -_log_choose(players, size) - math.log(size * (players - size))
    inner = (sizes > 0) & (sizes < players)
    if inner.any():
        logs[inner] -= logs[inner].max()
    result: Array = np.exp(np.maximum(logs, math.log(1.0 / _CERTAIN)))
    return result


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _model_error(design: ShapleyDesign, inner: Array) -> float | None:
    estimate, done, fitted = design.estimate, design.evaluations, design.fitted
    if estimate.constant or estimate.exact or not inner.any():
        return None
    posterior = Posterior(fitted.theta, signs(done.masks), done.repeats, design.semivalue)
    errors = posterior.prediction_errors((done.values - fitted.centre) / fitted.scale)
    return fitted.scale * _root_mean_square(errors[inner])


def _root_mean_square(errors: Array) -> float:
    return math.sqrt(float(np.mean(errors**2)))
