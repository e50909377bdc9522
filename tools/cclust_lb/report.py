"""What a bound says about a clustering: ratios, what is proven, which edges to blame; as data and as text."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from icml.tools.cclust_lb.problem import Problem, SignedGraph

if TYPE_CHECKING:
    from icml.tools.cclust_lb.bounds import Bound


@dataclass(frozen=True)
class Ratios:
    """How far a clustering can be from the best possible one.

    Attributes:
        disagree: cost / bound, at least 1; the clustering disagrees at most this many times as much as the optimum.
        agree: (total weight - cost) / (total weight - bound), at most 1.
        cut: for `maxcut` the same as `agree`: cut weight over an upper bound on the maximum cut.
        optimal: whether the cost equals the bound, so that no clustering is better.
        note: why a ratio is missing, if one is.
    """

    disagree: float | None
    agree: float | None
    cut: float | None
    optimal: bool
    note: str | None = None


@dataclass(frozen=True)
class BlamedEdge:
    """An edge that the fractional cover says is wrong.

    Attributes:
        edge: its number in the graph.
        cover: x_e in [0, 1]; near 1, every near-optimal relaxed solution pays for this edge.
    """

    edge: int
    cover: float


def weight_total(graph: SignedGraph, problem: Problem) -> float:
    """Total weight of all pairs that count, W: what agreements and disagreements add up to."""
    total = float(graph.weight.sum())
    if problem is Problem.CC_COMPLETE:
        total += graph.n * (graph.n - 1) // 2 - graph.m
    return total


def ratios(graph: SignedGraph, bound: Bound, cost: float) -> Ratios:
    """Compares the cost of a clustering with the bound.

    Args:
        graph: the graph the bound was made for.
        bound: a lower bound on the optimum.
        cost: total weight of the clustering's disagreements.
    """
    lower, total = bound.best, weight_total(graph, bound.problem)
    agree = (total - cost) / (total - lower) if total > lower else None
    cut = agree if bound.problem is Problem.MAXCUT else None
    if lower > 0:
        return Ratios(cost / lower, agree, cut, optimal=cost <= lower)
    if cost == 0:
        return Ratios(1.0, agree, cut, optimal=True)
    note = (
        "no disagreement ratio: the bound is 0 while the cost is not; no obstruction found carries any weight"
    )
    return Ratios(None, agree, cut, optimal=False, note=note)


def blame(bound: Bound, count: int) -> list[BlamedEdge]:
    """The edges that the fractional cover charges most, at most `count` of them, most charged first.

    Only edges charged more than half are named; ties go to the lower edge number.
    """
    order = np.lexsort((np.arange(len(bound.cover)), -bound.cover))[:count]
    return [BlamedEdge(int(e), float(bound.cover[e])) for e in order if bound.cover[e] > 0.5]


def figures(graph: SignedGraph, bound: Bound, cost: float | None, clusters: int | None) -> dict[str, Any]:
    """The result as plain values, in the order of the JSON object that the man page documents."""
    total = weight_total(graph, bound.problem)
    result = (
        ratios(graph, bound, cost) if cost is not None else Ratios(None, None, None, False, "no clustering")
    )
    return {
        "problem": str(bound.problem),
        "n": graph.n,
        "m": graph.m,
        "negative": int(np.count_nonzero(graph.negative)),
        "weight_total": total,
        "dropped": {"loops": graph.loops, "zero_sum": graph.zero_sum},
        "lower_bound": bound.lower,
        "lower_bound_int": bound.lower_int,
        "lp_upper": bound.lp_upper,
        "gap": bound.gap,
        "finished": bound.finished,
        "cost": cost,
        "cut": total - cost if bound.problem is Problem.MAXCUT and cost is not None else None,
        "clusters": clusters,
        "ratio_disagree": result.disagree,
        "ratio_agree": result.agree,
        "cut_ratio": result.cut,
        "optimal_proven": result.optimal,
        "note": result.note,
        "obstructions": dict(bound.obstructions),
        "pool": bound.pool,
    }


def table(figures: dict[str, Any]) -> str:
    """The figures for people: a name and a value a line, blamed edges below, tab-separated."""
    if "holds" in figures:
        rows = [("certificate", "holds" if figures["holds"] else f"does not hold: {figures['reason']}")]
        rows.append(("problem", figures["problem"]))
        if figures["holds"]:
            rows.append(("lower bound", _bound_text(figures)))
        return _aligned(rows)
    obstructions = ", ".join(_count(count, name) for name, count in figures["obstructions"].items() if count)
    rows = [
        ("problem", figures["problem"]),
        (
            "graph",
            f"{_count(figures['n'], 'node')}, {_count(figures['m'], 'edge')}, {figures['negative']} negative"
            + _dropped_text(figures),
        ),
        ("lower bound", _bound_text(figures)),
        ("proof", f"{obstructions or 'no obstruction'} ({figures['finished']})"),
    ]
    if figures["cost"] is not None:
        if figures["cut"] is not None:
            rows.append(("cut", f"{figures['cut']:.10g} of {figures['weight_total']:.10g}"))
        rows.append(("disagreements", f"{figures['cost']:.10g} in {_count(figures['clusters'], 'cluster')}"))
        if figures["heuristic_cost"] is not None and figures["heuristic_cost"] != figures["cost"]:
            rows.append(("heuristic", f"{figures['heuristic_cost']:.10g} ({figures['heuristic']})"))
        rows += _ratio_rows(figures)
    text = _aligned(rows)
    if figures.get("blame"):
        text += "\nu\tv\tsign\tcover\n"
    for edge in figures.get("blame", ()):
        text += f"{edge['u']}\t{edge['v']}\t{edge['sign']:+d}\t{edge['cover']:.4f}\n"
    return text


def _ratio_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    if figures["optimal_proven"]:
        return [("verdict", "optimal: no clustering disagrees less")]
    claims = []
    if figures["ratio_disagree"] is not None:
        claims.append(
            f"at most {_rounded_up(figures['ratio_disagree'])} x the disagreements of the best clustering"
        )
    if figures["cut_ratio"] is not None:
        claims.append(f"at least {_rounded_down(figures['cut_ratio'])} x the maximum cut")
    elif figures["ratio_agree"] is not None:
        claims.append(
            f"at least {_rounded_down(figures['ratio_agree'])} x the agreements of the best clustering"
        )
    rows = [("" if i else "verdict", claim) for i, claim in enumerate(claims)]
    if figures["note"]:
        rows.append(("note", figures["note"]))
    return rows


def _bound_text(figures: dict[str, Any]) -> str:
    whole = figures["lower_bound_int"]
    return _rounded_down(figures["lower_bound"], 10) + ("" if whole is None else f", so at least {whole}")


def _rounded_down(value: float, digits: int = 6) -> str:
    """A decimal with that many significant digits that is at most the value."""
    return _rounded(value, digits, decimal.ROUND_FLOOR)


def _rounded_up(value: float, digits: int = 6) -> str:
    """A decimal with that many significant digits that is at least the value."""
    return _rounded(value, digits, decimal.ROUND_CEILING)


def _rounded(value: float, digits: int, rounding: str) -> str:
    rounded = (
        decimal.Context(prec=digits, rounding=rounding).create_decimal(decimal.Decimal(value)).normalize()
    )
    return f"{rounded:f}" if -7 < rounded.adjusted() < 16 else str(rounded)


def _count(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def _dropped_text(figures: dict[str, Any]) -> str:
    loops, zero_sum = figures["dropped"]["loops"], figures["dropped"]["zero_sum"]
    parts = [_count(loops, "self-loop")] * bool(loops) + [_count(zero_sum, "cancelling pair")] * bool(
        zero_sum
    )
    return f"; {' and '.join(parts)} dropped" if parts else ""


def _aligned(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)
