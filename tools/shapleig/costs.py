"""What an evaluation is expected to cost: a constant and an amount for every player that takes part."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import Mask
from icml.tools.shapleig.evaluations import Evaluations
from icml.tools.shapleig.semivalues import Array

_NUMBER = r"(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)"


@dataclass(frozen=True)
class CostModel:
    """cost(S) = base + sum of the players' parts; "measured" fits both to the recorded costs.

    Args:
        base: cost of the empty coalition.
        parts: a number for every player, or one for all; None when measured.
    """

    base: float = 0.0
    parts: tuple[float, ...] | None = None

    def predict(self, masks: Mask, evaluations: Evaluations) -> Array:
        """Expected costs (n,) of coalitions (n, p), all positive."""
        base, parts = self._measured(evaluations) if self.parts is None else (self.base, np.array(self.parts))
        costs: Array = base + (masks @ parts if len(parts) > 1 else masks.sum(axis=1) * parts[0])
        positive = costs[costs > 0]
        floor = 1e-3 * float(positive.mean()) if len(positive) else 1.0
        return np.maximum(costs, floor)

    def _measured(self, evaluations: Evaluations) -> tuple[float, Array]:
        """Non-negative least squares on the evaluations whose cost is known; equal costs while there are too few."""
        from scipy.optimize import nnls

        known = np.isfinite(evaluations.costs)
        players = evaluations.players
        if known.sum() < 3:
            return 1.0, np.zeros(players)
        masks, costs = evaluations.masks[known].astype(float), evaluations.costs[known]
        # A little of every part's prior, all players alike, so that few evaluations do not make some players free.
        mean_part = max(float(costs.mean()) / max(float(masks.sum(axis=1).mean()), 1.0), 0.0)
        design = np.vstack([np.column_stack([np.ones(len(costs)), masks]), 0.1 * np.eye(players + 1)[1:]])
        solution, _ = nnls(design, np.concatenate([costs, np.full(players, 0.1 * mean_part)]))
        return float(solution[0]), solution[1:]


def parse_cost(text: str, players: int) -> CostModel:
    """Reads "A+B*size" (either term may be left out), "A+p1,p2,.." with one number for every player, or "measured".

    Raises:
        InputError: it is none of them, or a number is negative, or all are zero.
    """
    plain = text.replace(" ", "")
    if plain == "measured":
        return CostModel()
    by_size = re.fullmatch(rf"(?:{_NUMBER}\+)?(?:{_NUMBER}\*)?size", plain)
    by_player = re.fullmatch(rf"(?:{_NUMBER}\+)?({_NUMBER}(?:,{_NUMBER})+)", plain)
    if by_size:
        parts: tuple[float, ...] = (float(by_size[2] or 1),)
        base = float(by_size[1] or 0)
    elif by_player:
        parts = tuple(float(part) for part in by_player[2].split(","))
        base = float(by_player[1] or 0)
        if len(parts) != players:
            raise InputError(f"--cost names {len(parts)} players' costs, the study has {players} players")
    else:
        raise InputError(f"cannot read the cost '{text}': expected A+B*size, A+COST1,COST2,... or measured")
    if not math.isfinite(base + sum(parts)) or base + sum(parts) <= 0:
        raise InputError(f"the cost '{text}' is nothing for every coalition")
    return CostModel(base, parts)
