"""The figures of a measurement, and intervals for them by resampling windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = (1000, 10_000)
"""At least and at most; between them as many as `DRAWS` windows drawn are."""

DRAWS = 2 * 10**7
BATCH = 2**22
"""Counts held at once."""

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over tokens, and the ends of its 95 % interval: NaN where there are too few windows to tell."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def exp(self) -> Estimate:
        """Of a perplexity."""
        return Estimate(*(math.exp(x) if x < 700 else math.inf for x in (self.value, self.low, self.high)))

    def scaled(self, factor: float) -> Estimate:
        """In another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_json(self) -> dict[str, float]:
        """The value and the interval."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Comparison:
    """A model beside the one it was made from; all of it over the same tokens.

    Attributes:
        baseline: its path.
        nll, perplexity: the baseline's own.
        nll_difference: the model's mean negative log-likelihood minus the baseline's, nats.
        kl: mean of KL(baseline || model), nats.
        top1_agreement: part of the tokens for which both hold the same token for the likeliest.
    """

    baseline: str
    nll: Estimate
    perplexity: Estimate
    nll_difference: Estimate
    kl: Estimate
    top1_agreement: Estimate


@dataclass(frozen=True)
class Report:
    """Attributes:
    model, text: what was measured on what.
    tokens: how many were scored.
    bytes: UTF-8 bytes of the text that they are; None if the tokenizer does not tell.
    windows, window, stride: how the text was cut.
    nll: mean negative log-likelihood of a token, nats.
    perplexity: exp(nll).
    bits_per_byte: nll in bits, for a byte of text instead of a token: it compares models of different tokenizers.
    complete: whether the whole text was scored, not only a part until somebody said stop.
    comparison: with the baseline, if there is one.
    """

    model: str
    text: str
    tokens: int
    bytes: int | None
    windows: int
    window: int
    stride: int
    nll: Estimate
    perplexity: Estimate
    bits_per_byte: Estimate | None
    complete: bool = True
    comparison: Comparison | None = None

    def to_json(self) -> dict[str, Any]:
        """As --json writes it: figures are numbers, with their intervals beside them."""
        found: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("model", "text", "tokens", "bytes", "windows", "window", "stride", "complete")
        }
        found |= _figures(self.rows())
        if self.comparison is not None:
            found |= {"baseline": self.comparison.baseline, **_figures(self.comparison_rows())}
        return found

    def rows(self) -> list[tuple[str, Estimate]]:
        """The model's own figures, by name."""
        found = [("nll", self.nll), ("ppl", self.perplexity)]
        return found if self.bits_per_byte is None else [*found, ("bits_per_byte", self.bits_per_byte)]

    def comparison_rows(self) -> list[tuple[str, Estimate]]:
        """Those that need the baseline."""
        if self.comparison is None:
            return []
        c = self.comparison
        return [
            ("baseline_nll", c.nll),
            ("baseline_ppl", c.perplexity),
            ("nll_difference", c.nll_difference),
            ("kl", c.kl),
            ("top1_agreement", c.top1_agreement),
        ]


def _figures(rows: Sequence[tuple[str, Estimate]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, estimate in rows:
        found[name] = estimate.value
        found[f"{name}_interval"] = [estimate.low, estimate.high]
    return found


@dataclass
class Sums:
    """What each window adds up to.

    Attributes:
        columns: a list with an entry a window for each of tokens, nll, and with a baseline baseline_nll, kl, agree.
    """

    columns: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **sums: float) -> None:
        """Another window."""
        for name, value in sums.items():
            self.columns.setdefault(name, []).append(value)

    def __len__(self) -> int:
        return len(self.columns.get("tokens", ()))

    def total(self, name: str) -> float:
        """Over all windows."""
        return math.fsum(self.columns.get(name, ()))

    def means(self, combinations: dict[str, dict[str, float]], seed: int) -> dict[str, Estimate]:
        """Means over tokens of sums of columns, with bootstrap intervals.

        All of them are resampled together, window by window, so that a difference of two columns is a paired one.

        Args:
            combinations: for each name the columns it is made of, and their factors.
            seed: of the resampling.
        """
        tokens = np.array(self.columns["tokens"])
        values = np.stack(
            [sum(f * np.array(self.columns[c]) for c, f in parts.items()) for parts in combinations.values()],
            1,
        )
        whole = values.sum(0) / tokens.sum()
        low = high = np.full(len(whole), np.nan)
        if len(tokens) > 1:
            drawn = _resampled(tokens, values, seed)
            tail = (1 - LEVEL) / 2
            low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
        ends = zip(combinations, whole.tolist(), low.tolist(), high.tolist(), strict=True)
        return {name: Estimate(value, a, b) for name, value, a, b in ends}


def _resampled(tokens: NDArray[Any], values: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Means in resamples of the windows, [resamples, columns]."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
    count = len(tokens)
    least, most = RESAMPLES
    resamples = min(max(DRAWS // count, least), most)
    step = max(1, BATCH // count)
    parts = []
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        times = generator.multinomial(count, np.full(count, 1 / count), rows).astype(np.float64)
        parts.append((times @ values) / (times @ tokens)[:, None])
    return np.concatenate(parts)


def conclude(report: Report, sums: Sums, baseline: str | None, seed: int) -> Report:
    """A report with the figures that the sums give."""
    combinations: dict[str, dict[str, float]] = {"nll": {"nll": 1.0}}
    if baseline is not None:
        combinations |= {
            "baseline_nll": {"baseline_nll": 1.0},
            "nll_difference": {"nll": 1.0, "baseline_nll": -1.0},
            "kl": {"kl": 1.0},
            "top1_agreement": {"agree": 1.0},
        }
    found = sums.means(combinations, seed)
    nll = found["nll"]
    comparison = None
    if baseline is not None:
        theirs = found["baseline_nll"]
        comparison = Comparison(
            baseline, theirs, theirs.exp(), found["nll_difference"], found["kl"], found["top1_agreement"]
        )
    per_byte = None
    if report.bytes:
        per_byte = nll.scaled(report.tokens / report.bytes / math.log(2))
    return replace(report, nll=nll, perplexity=nll.exp(), bits_per_byte=per_byte, comparison=comparison)
