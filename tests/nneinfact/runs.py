"""What the tests of the command share: small data."""

from __future__ import annotations

from typing import Any

import numpy as np

MODEL = "ur,vr,tr->uvt"
TRIPS = (
    'user\titem\tday\tcount\nann\tx\t0\t3\nbob\ty\t1\t2\n"tab\there"\tz z\t2\t4\nböb\tx\t2\t5\nann\tx\t0\t1\n'
)


def counts(seed: int = 0, shape: tuple[int, ...] = (12, 9, 7)) -> Any:
    rng = np.random.default_rng(seed)
    return rng.poisson(np.einsum("ur,vr,tr->uvt", *(rng.gamma(0.7, 1.0, (n, 3)) for n in shape))).astype(
        float
    )
