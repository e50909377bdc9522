"""The picture of a run: certified radius and number of outliers over the updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icml.formats.errors import MissingError


def require_matplotlib() -> None:
    """Raises MissingError where pictures cannot be drawn, before any work is done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingError("--plot needs matplotlib", "pip install 'icml-tools[plot]'") from error


def plot_answers(answers: Sequence[dict[str, Any]], destination: Path, *, title: str, unit: str) -> None:
    """Draws radius, lower bound and outliers against the number of updates.

    Args:
        answers: entries with "t", "radius", "opt_lower", "outliers" and "z".
        destination: a .png, .svg or .pdf file; appears whole or not at all.
        title: one line above the axes.
        unit: of the radius, "" for that of the coordinates.
    """
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from icml.formats.output import atomic_output

    times = [entry["t"] for entry in answers]
    with matplotlib.rc_context({"svg.hashsalt": "icml", "svg.fonttype": "none"}):
        figure, (upper, lower) = pyplot.subplots(
            2, 1, figsize=(7, 5), sharex=True, layout="constrained", height_ratios=[2, 1]
        )
        upper.plot(
            times, [entry["radius"] for entry in answers], ".-", color="#1f5fa8", label="certified radius"
        )
        bounds = [(entry["t"], entry["opt_lower"]) for entry in answers if entry["opt_lower"] is not None]
        if bounds:
            upper.plot(*zip(*bounds, strict=True), ".:", color="#999999", label="lower bound on the optimum")
        if _spread([entry["radius"] for entry in answers]) > 100:
            upper.set_yscale("log")
        upper.set_ylabel(f"radius{f' ({unit})' if unit else ''}")
        upper.set_title(title, fontsize=10)
        upper.legend(fontsize=8, frameon=False)
        lower.step(
            times, [entry["outliers"] for entry in answers], where="mid", color="#c0392b", label="discarded"
        )
        lower.step(times, [entry["z"] for entry in answers], where="mid", color="#999999", ls=":", label="z")
        lower.set_ylabel("outliers")
        lower.set_xlabel("updates")
        lower.legend(fontsize=8, frameon=False)
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
        with atomic_output(destination, "wb") as stream:
            metadata = {"Date": None} if destination.suffix.lower() == ".svg" else None
            figure.savefig(stream, format=destination.suffix[1:].lower(), dpi=150, metadata=metadata)
        pyplot.close(figure)


def _spread(values: Sequence[float]) -> float:
    positive = [value for value in values if value > 0]
    return max(positive) / min(positive) if positive else 1.0
