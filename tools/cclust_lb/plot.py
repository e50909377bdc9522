"""The picture of a run: the certified bound rising and the best clustering's cost falling until they meet."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icml.formats.errors import MissingError


def require_matplotlib() -> None:
    """Raises MissingError if there is nothing to draw with."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingError("--plot needs matplotlib", "pip install 'icml-tools[plot]'")


def plot_trace(trace: Sequence[dict[str, Any]], destination: str | Path, *, title: str) -> None:
    """Draws lower bound, LP side and best cost against time.

    Args:
        trace: entries with "t" (seconds) and any of "lower", "lp_upper", "cost".
        destination: a .png, .svg or .pdf file; appears whole or not at all.
        title: one line above the axes.

    Raises:
        MissingError: matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from icml.formats.output import atomic_output

    path = Path(destination)
    with matplotlib.rc_context({"svg.hashsalt": "icml", "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        end = max((entry["t"] for entry in trace), default=0.0)
        curves: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("cost", "best clustering", {"color": "#c0392b"}),
            (
                "lp_upper",
                "LP value of the obstructions found, from above",
                {"color": "#999999", "linestyle": ":"},
            ),
            ("lower", "certified lower bound", {"color": "#1f5fa8"}),
        )
        for key, label, style in curves:
            times, values = _series(trace, key, end)
            if times:
                axes.step(times, values, where="post", label=f"{label}: {values[-1]:,.10g}", **style)
        low, high = _certified_range(trace)
        axes.fill_between(
            *_band(trace, end),
            step="post",
            alpha=0.12,
            color="#1f5fa8",
            linewidth=0,
            label="where the optimum is",
        )
        if high > low:
            axes.set_ylim(low - 0.05 * (high - low), high + 0.1 * (high - low))
        axes.set_xlabel("seconds")
        axes.set_ylabel("weight of disagreements")
        axes.set_title(title, fontsize=10)
        axes.legend(loc="lower right", fontsize=8, frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        with atomic_output(path, "wb") as stream:
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
            figure.savefig(stream, format=path.suffix[1:].lower(), dpi=150, metadata=metadata)
        pyplot.close(figure)


def _series(trace: Sequence[dict[str, Any]], key: str, end: float) -> tuple[list[float], list[float]]:
    """One curve, the best value so far, carried on to the end of the run."""
    better = max if key == "lower" else min
    times: list[float] = []
    values: list[float] = []
    for entry in trace:
        value = entry.get(key)
        if value is None:
            continue
        best = value if not values or key == "lp_upper" else better(values[-1], value)
        times.append(entry["t"])
        values.append(best)
    if times and times[-1] < end:
        times.append(end)
        values.append(values[-1])
    return times, values


def _band(trace: Sequence[dict[str, Any]], end: float) -> tuple[list[float], list[float], list[float]]:
    """Times at which both a bound and a cost are known, with the two."""
    times: list[float] = []
    lows: list[float] = []
    highs: list[float] = []
    low: float | None = None
    high: float | None = None
    for entry in [*trace, {"t": end}]:
        if entry.get("lower") is not None:
            low = entry["lower"] if low is None else max(low, entry["lower"])
        if entry.get("cost") is not None:
            high = entry["cost"] if high is None else min(high, entry["cost"])
        if low is not None and high is not None:
            times.append(entry["t"])
            lows.append(low)
            highs.append(high)
    return times, lows, highs


def _certified_range(trace: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The span of bounds and costs, so that an early LP value far above does not flatten the picture."""
    values = [entry[key] for entry in trace for key in ("lower", "cost") if entry.get(key) is not None]
    return (min(values), max(values)) if values else (0.0, 0.0)
