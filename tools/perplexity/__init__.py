"""How well a language model predicts a text: negative log-likelihood, perplexity, bits per byte; and how far a model
made from another (quantized, pruned, fine-tuned) has moved away from it.

    from icml.tools.perplexity import perplexity

    report = perplexity("SmolLM2-2bit", "heldout.txt", baseline="SmolLM2")
    report.perplexity, report.comparison.kl

See `measure.perplexity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from icml.tools.lazy import attach

if TYPE_CHECKING:
    from icml.tools.perplexity.measure import perplexity
    from icml.tools.perplexity.report import Comparison, Estimate, Report

# Imported on first use, so that the command's --help does not import numpy.
_HOMES = {
    "Comparison": "report",
    "Estimate": "report",
    "Report": "report",
    "perplexity": "measure",
}

__all__ = ["Comparison", "Estimate", "Report", "perplexity"]


__getattr__ = attach(__name__, _HOMES)
