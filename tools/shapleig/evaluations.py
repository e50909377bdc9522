"""The evaluations of a study in the order they came: coalitions, values, repeats, costs."""

from __future__ import annotations

import math
from collections.abc import KeysView

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import Coalition, Mask
from icml.tools.shapleig.semivalues import Array


class Evaluations:
    """A growing table of distinct coalitions.

    Args:
        players: p.
        repeats_allowed: a coalition may come again with another value, and then has their mean.
    """

    def __init__(self, players: int, *, repeats_allowed: bool) -> None:
        self.players = players
        self._repeats_allowed = repeats_allowed
        self._values: dict[Coalition, list[float]] = {}
        self._costs: dict[Coalition, float] = {}
        self._repeated = 0

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: Coalition) -> bool:
        return key in self._values

    def __getitem__(self, key: Coalition) -> float:
        """The (mean) value of a coalition; raises KeyError if it is not evaluated."""
        values = self._values[key]
        return values[0] if len(values) == 1 else math.fsum(values) / len(values)

    def get(self, key: Coalition) -> float | None:
        """The (mean) value of a coalition, None if it is not evaluated."""
        return self[key] if key in self._values else None

    @property
    def version(self) -> object:
        """Differs whenever what was told of the earlier coalitions has changed."""
        return self._repeated

    def keys(self) -> KeysView[Coalition]:
        """The coalitions, in order."""
        return self._values.keys()

    def add(self, key: Coalition, value: float, cost: float = math.nan) -> None:
        """Adds one observation; the same one again changes nothing when evaluations are exact.

        Raises:
            InputError: the value is not finite, or not the one told before; the cost is negative or infinite.
        """
        if not math.isfinite(value):
            raise InputError(f"a value must be a finite number, got {value}")
        if cost < 0 or math.isinf(cost):
            raise InputError(f"a cost must be a finite number that is not negative, got {cost}")
        told = self._values.get(key)
        if told is None:
            self._values[key] = [value]
        elif self._repeats_allowed:
            told.append(value)
            self._repeated += 1
        elif told[0] != value:
            raise InputError(
                f"this coalition was told before with another value, {told[0]!r}, now {value!r}; "
                "noisy evaluations need a study with --noise learn"
            )
        if not math.isnan(cost):
            self._costs[key] = cost

    @property
    def masks(self) -> Mask:
        """The coalitions (t, p)."""
        return np.frombuffer(b"".join(self._values), dtype=np.bool_).reshape(-1, self.players)

    @property
    def values(self) -> Array:
        """Their values, the mean of repeats, (t,)."""
        return np.array([self[key] for key in self._values])

    @property
    def repeats(self) -> Array:
        """Observations of each, (t,)."""
        return np.array([len(values) for values in self._values.values()], dtype=float)

    def scatter(self, count: int) -> tuple[float, int]:
        """Sum of squares of the repeats of the first `count` coalitions around their means.

        And its degrees of freedom.
        """
        repeated = [np.array(values) for values in list(self._values.values())[:count] if len(values) > 1]
        squares = math.fsum(float(np.sum((values - values.mean()) ** 2)) for values in repeated)
        return squares, sum(len(values) - 1 for values in repeated)

    @property
    def costs(self) -> Array:
        """The last recorded cost of each, NaN if none, (t,)."""
        return np.array([self._costs.get(key, math.nan) for key in self._values])
