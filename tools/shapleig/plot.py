"""The picture of a study: the values with their intervals, and how the intervals shrank."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from icml.formats.errors import MissingError
from icml.tools.shapleig.report import CurvePoint, Line

_SHOWN = 40


def plot(lines: Sequence[Line], curve: Sequence[CurvePoint], destination: str | Path, *, title: str) -> None:
    """Draws values with 95 % intervals, largest on top, and half-widths against evaluations.

    Args:
        lines: of the report; the 40 largest in absolute value are shown.
        curve: half-widths after fewer evaluations.
        destination: a .png, .svg or .pdf file; appears whole or not at all.
        title: one line above the axes.

    Raises:
        MissingError: matplotlib is not installed.
    """
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingError("--plot needs matplotlib", "pip install 'icml-tools[plot]'") from error
    from icml.formats.output import atomic_output

    path = Path(destination)
    shown = sorted(sorted(lines, key=lambda line: -abs(line.value))[:_SHOWN], key=lambda line: line.value)
    height = max(3.0, 0.9 + 0.26 * len(shown))
    with matplotlib.rc_context({"svg.hashsalt": "icml", "svg.fonttype": "none"}):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(10, height), layout="constrained", width_ratios=(3, 2)
        )
        places = range(len(shown))
        values = [line.value for line in shown]
        left.axvline(0, color="#999999", linewidth=0.8)
        left.errorbar(
            values, places, xerr=[line.high - line.value for line in shown], fmt="o", color="#1f5fa8",
            ecolor="#7fa6d0", elinewidth=2, capsize=3, markersize=4,
        )  # fmt: skip
        left.set_yticks(places, [line.player for line in shown], fontsize=8)
        left.set_xlabel("value, 95 % interval (model-based)")
        counts = [point.evaluations for point in curve]
        right.plot(counts, [p.max_halfwidth for p in curve], color="#c0392b", marker=".", label="widest")
        right.plot(counts, [p.mean_halfwidth for p in curve], color="#1f5fa8", marker=".", label="mean")
        if any(p.mean_halfwidth > 0 for p in curve):
            right.set_yscale("log")
        right.set_xlabel("evaluations")
        right.set_ylabel("half-width of the intervals")
        right.legend(frameon=False, fontsize=8)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=10)
        with atomic_output(path, "wb") as stream:
            figure.savefig(stream, format=path.suffix[1:].lower(), dpi=150, metadata=_undated(path))
        pyplot.close(figure)


def _undated(path: Path) -> dict[str, None]:
    """No date in the file, so that the same study gives the same bytes."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
