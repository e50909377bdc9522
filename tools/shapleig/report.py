"""What a study says so far, as a table and as one JSON object; and how it came to be sure of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from icml.tools.shapleig.baseline import LeastSquares
from icml.tools.shapleig.coalition_text import Players
from icml.tools.shapleig.design import ShapleyDesign
from icml.tools.shapleig.estimates import Estimate

TABLE_HEADER = ("player", "value", "sd", "low", "high", "rank")
BASELINE = "least_squares"
_CURVE_POINTS = 16


class Line(NamedTuple):
    """A player's line of the report."""

    player: str
    value: float
    sd: float
    low: float
    high: float
    rank: int


def lines(players: Players, estimate: Estimate) -> list[Line]:
    """One a player, in the order of the study; rank 1 has the largest value."""
    low, high = estimate.interval()
    order = np.argsort(-estimate.values, kind="stable")
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(1, len(order) + 1)
    columns = zip(estimate.values.tolist(), estimate.sd.tolist(), low.tolist(), high.tolist(), strict=True)
    return [
        Line(name, value, sd, start, end, place)
        for name, (value, sd, start, end), place in zip(players.names, columns, rank.tolist(), strict=True)
    ]


def table(players: Players, estimate: Estimate, baseline: LeastSquares | None = None) -> str:
    """The TSV table, header included; a baseline is one more column."""
    rows = ["\t".join([*TABLE_HEADER, *([BASELINE] if baseline else [])])]
    for i, line in enumerate(lines(players, estimate)):
        cells = [line.player, *(f"{number:.9g}" for number in line[1:5]), str(line.rank)]
        rows.append("\t".join([*cells, *([f"{baseline.values[i]:.9g}"] if baseline else [])]))
    return "\n".join(rows) + "\n"


def figures(
    players: Players,
    design: ShapleyDesign,
    *,
    attempts: int,
    stop_reason: str | None,
    baseline: LeastSquares | None = None,
) -> dict[str, Any]:
    """The JSON object that the man page documents."""
    estimate = design.estimate
    result: dict[str, Any] = {
        "index": design.settings.index,
        "players": [
            {
                "name": line.player,
                **dict(zip(TABLE_HEADER[1:], line[1:], strict=True)),
                "lengthscale": float(length),
            }
            for line, length in zip(lines(players, estimate), estimate.lengthscale, strict=True)
        ],
        "evaluations": len(design.evaluations),
        "budget_used": attempts,
        "pending": len(design.pending),
        "failed": len(design.failed),
        "cost": float(np.nansum(design.evaluations.costs)),
        "sum": float(np.sum(estimate.values)),
        "v_empty": estimate.empty,
        "v_full": estimate.full,
        "max_halfwidth": float(estimate.halfwidth().max()),
        "calibration": estimate.calibration,
        "roughness": design.fitted.theta.roughness,
        "noise": design.fitted.theta.noise if design.settings.learn_noise else None,
        "exact": estimate.exact,
        "criterion": design.settings.criterion,
        "seed": design.settings.seed,
        "stop_reason": stop_reason,
    }
    if baseline is not None:
        result["compare"] = {
            BASELINE: baseline.values.tolist(),
            "prediction_error": baseline.model_error,
            f"{BASELINE}_prediction_error": baseline.error,
        }
    return result


class CurvePoint(NamedTuple):
    """What would have been known after fewer evaluations."""

    evaluations: int
    max_halfwidth: float
    mean_halfwidth: float


def curve(design: ShapleyDesign) -> list[CurvePoint]:
    """Half-widths of the 95 % intervals against evaluations, at up to 16 points from p + 1 to all of them."""
    done = design.evaluations
    first = min(design.n_players + 1, len(done))
    counts = np.unique(np.linspace(first, len(done), _CURVE_POINTS).round().astype(int))
    return [_point(design, int(count)) for count in counts if count >= 2]


def _point(design: ShapleyDesign, count: int) -> CurvePoint:
    settings, done = design.settings, design.evaluations
    earlier = ShapleyDesign(
        design.n_players,
        settings.index,
        seed=settings.seed,
        noise="learn" if settings.learn_noise else "fixed",
    )
    earlier.tell(done.masks[:count], done.values[:count])
    half = earlier.estimate.halfwidth()
    return CurvePoint(count, float(half.max()), float(half.mean()))


def summary(
    design: ShapleyDesign, stop_reason: str | None, baseline: LeastSquares | None = None
) -> Sequence[tuple[str, str | int | float | None]]:
    """Names and figures for people."""
    estimate = design.estimate
    rows: list[tuple[str, str | int | float | None]] = [
        ("evaluations", len(design.evaluations)),
        ("pending", len(design.pending)),
        ("failed", len(design.failed)),
        (
            "widest interval",
            "exact" if estimate.exact else f"+- {estimate.halfwidth().max():.4g} (95 %, model-based)",
        ),
        ("sum of values", f"{estimate.values.sum():.6g}"),
        ("v(all) - v(none)", None if estimate.total is None else f"{estimate.total:.6g}"),
        ("stopped by", stop_reason),
    ]
    if baseline is not None and baseline.error is not None and baseline.model_error is not None:
        rows.append(("error of predicting each evaluation from the others", f"{baseline.model_error:.4g}"))
        rows.append(("the same by least squares", f"{baseline.error:.4g}"))
    return rows
