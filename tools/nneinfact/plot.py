"""The picture of a model: a panel for every factor with one or two letters, and the losses against iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import MissingError
from icml.tools.nneinfact.model import Model

if TYPE_CHECKING:
    from icml.tools.nneinfact.estimator import NNEinFact

BARS = 3
"""Up to this many columns are drawn as bars, more as a heat map."""
TICKS = 32
"""Up to this many labels are written along an axis."""
MARKS = 200
"""Up to so many bars are drawn, more as steps."""


def require_matplotlib() -> None:
    """Raises MissingError where pictures cannot be drawn, before any work is done."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingError("--plot needs matplotlib", "pip install 'icml-tools[plot]'") from error


def plot_model(fitted: NNEinFact, destination: Path) -> None:
    """Draws a fitted model.

    Args:
        fitted: the model.
        destination: a .png, .svg or .pdf file; appears whole or not at all.
    """
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    from icml.formats.output import atomic_output

    panels = [
        (letters, factor)
        for letters, factor in zip(Model.parse(fitted.model).factors, fitted.factors_, strict=True)
        if len(letters) <= 2
    ]
    columns = math.ceil(math.sqrt(len(panels) + 1))
    rows = -(-(len(panels) + 1) // columns)
    with matplotlib.rc_context({"svg.hashsalt": "icml", "svg.fonttype": "none", "font.size": 8}):
        figure, grid = pyplot.subplots(
            rows, columns, figsize=(4.2 * columns, 3.2 * rows), layout="constrained", squeeze=False
        )
        cells = list(grid.flat)
        for axes, (letters, factor) in zip(cells, panels, strict=False):
            _draw_factor(axes, letters, factor, fitted)
        _draw_losses(cells[len(panels)], fitted)
        for axes in cells[len(panels) + 1 :]:
            axes.set_axis_off()
        figure.suptitle(_title(fitted), fontsize=10)
        with atomic_output(destination, "wb") as stream:
            metadata = {"Date": None} if destination.suffix.lower() == ".svg" else None
            figure.savefig(stream, format=destination.suffix[1:].lower(), dpi=150, metadata=metadata)
        pyplot.close(figure)


def _title(fitted: NNEinFact) -> str:
    left_out = [letters for letters in Model.parse(fitted.model).factors if len(letters) > 2]
    rest = f"; not drawn: {', '.join(left_out)}" if left_out else ""
    return f"{fitted.model} with α = {fitted.alpha:g}, β = {fitted.beta:g}{rest}"


def _draw_factor(axes: Any, letters: str, factor: NDArray[np.float64], fitted: NNEinFact) -> None:
    """Observed letters run along x, latent ones are columns."""
    observed = Model.parse(fitted.model).output
    if len(letters) == 2 and letters[0] not in observed and letters[1] in observed:
        letters, factor = letters[::-1], factor.T
    values = factor.reshape(len(factor), -1)
    along, across = letters[0], letters[1:]
    names = (fitted.labels or {}).get(along)
    if values.shape[1] <= BARS:
        _bars(axes, values, across)
        axes.set_ylabel("weight")
    else:
        image = axes.imshow(values.T, aspect="auto", cmap="Blues", interpolation="nearest", vmin=0)
        axes.figure.colorbar(image, ax=axes, shrink=0.9, label="weight")
        axes.set_ylabel(f"{across} ({'class' if across not in observed else 'index'})")
        _ticks(axes.yaxis, (fitted.labels or {}).get(across), values.shape[1])
    axes.set_xlabel(along)
    _ticks(axes.xaxis, names, len(values))
    axes.set_title(f"factor {letters}", fontsize=9)


def _bars(axes: Any, values: NDArray[np.float64], across: str) -> None:
    count, width = len(values), 0.8 / values.shape[1]
    at = np.arange(count)
    for k, column in enumerate(values.T):
        label = f"{across}={k}" if across else None
        if values.size <= MARKS:
            axes.bar(at - 0.4 + width * (k + 0.5), column, width, label=label)
        else:
            axes.step(at, column, where="mid", lw=0.8, label=label)
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if values.shape[1] > 1:
        axes.legend(frameon=False)


def _ticks(axis: Any, names: Sequence[str] | None, count: int) -> None:
    """A tick for every label where there is room, else round numbers."""
    from matplotlib.ticker import MaxNLocator

    if names is None or count > TICKS:
        axis.set_major_locator(MaxNLocator(8, integer=True))
        return
    long = max(map(len, names)) > 2 and axis.axis_name == "x"
    shown = [name if len(name) <= 16 else name[:15] + "…" for name in names]
    axis.set_ticks(range(count), [name.replace("$", r"\$") for name in shown], rotation=60 if long else 0)
    if long:
        for label in axis.get_ticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")


def _draw_losses(axes: Any, fitted: NNEinFact) -> None:
    axes.plot(range(len(fitted.history_)), fitted.history_, color="#1f5fa8", label="observed cells")
    shown = list(fitted.history_)
    if fitted.heldout_history_:
        held = fitted.heldout_history_
        axes.plot(range(len(held)), held, color="#c0392b", ls="--", label="held-out cells")
        shown += held
    axes.axhline(fitted.null_loss_, color="#999999", ls=":", label="best constant")
    positive = [value for value in (*shown, fitted.null_loss_) if value > 0]
    if positive and max(positive) > 10 * min(positive):
        axes.set_yscale("log")
        for ticks in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticks(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "125" else "")
    axes.set_xlabel("iteration")
    _ticks(axes.xaxis, None, len(fitted.history_))
    axes.set_ylabel("mean loss")
    axes.set_title("loss", fontsize=9)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
