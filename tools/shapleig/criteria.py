"""How much one more evaluation would tell: scores of candidate coalitions, larger is better."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.posterior import Candidates, Posterior
from icml.tools.shapleig.semivalues import Array

Criterion = Literal["auto", "eig", "trace", "variance", "random"]
CRITERIA: tuple[str, ...] = get_args(Criterion)
EIG_FROM = 6.4
"""`auto` goes from trace to eig at this multiple of the number of players."""


def parse_criterion(text: str) -> Criterion:
    """Checks the name of a criterion."""
    if text not in CRITERIA:
        raise InputError(f"unknown criterion '{text}': expected {', '.join(CRITERIA)}")
    return text  # type: ignore[return-value]


def resolve(criterion: Criterion, evaluations: int, players: int) -> Criterion:
    """What `auto` stands for after so many evaluations."""
    if criterion != "auto":
        return criterion
    return "trace" if evaluations < EIG_FROM * players else "eig"


def score(criterion: Criterion, candidates: Candidates, posterior: Posterior) -> Array:
    """Scores by a resolved criterion.

    Args:
        criterion: "eig", "trace" or "variance".
        candidates: what to score.
        posterior: that they are candidates of.
    """
    if criterion == "eig":
        return information_gain(candidates, posterior)
    if criterion == "trace":
        return error_drop(candidates)
    return candidates.variance


def information_gain(candidates: Candidates, posterior: Posterior) -> Array:
    """Expected information gain about the values, in nats.

    It is half the log-determinant ratio of their covariance before and after. When the sum of the values is known the
    covariance is singular; the gain is then taken in the remaining dimensions.
    """
    projected = candidates.cross @ posterior.whitener
    ratio = np.einsum("nk,nk->n", projected, projected) / candidates.variance
    result: Array = -0.5 * np.log1p(-np.clip(ratio, 0.0, 1.0 - 1e-12))
    return result


def error_drop(candidates: Candidates) -> Array:
    """Expected drop of the summed squared error of the values."""
    result: Array = np.einsum("np,np->n", candidates.cross, candidates.cross) / candidates.variance
    return result
