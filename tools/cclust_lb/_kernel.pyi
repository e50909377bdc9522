"""Types of the compiled module `_kernel.cpp`."""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class CycleRule(enum.Enum):
    one_negative = ...
    odd_negative = ...

class PackingOptions:
    rule: CycleRule
    triangles: bool
    cycles: bool
    cliques: bool
    wedges: bool
    stars: bool
    garg_koenemann: bool
    tol: float
    sweeps: int
    mu: float
    max_cycle: int
    star: int
    max_pool: int
    seed: int
    integral: bool
    scale_bits: int
    target: float

def pack(
    nodes: int,
    u: NDArray[np.int32],
    v: NDArray[np.int32],
    weight: NDArray[np.float64],
    negative: NDArray[np.uint8],
    options: PackingOptions,
    seconds: float,
    should_stop: Callable[[], bool] | None,
    on_certify: Callable[[float, float, float, int], None] | None,
) -> dict[str, Any]: ...

class Heuristic(enum.Enum):
    pivot = ...
    local = ...
    louvain = ...
    ils = ...

def search_clusters(
    nodes: int,
    u: NDArray[np.int32],
    v: NDArray[np.int32],
    weight: NDArray[np.float64],
    negative: NDArray[np.uint8],
    two_clusters: bool,
    complete: bool,
    heuristic: Heuristic,
    start: NDArray[np.int32],
    seconds: float,
    steps: int,
    target: float,
    streams: int,
    seed: int,
    poll: Callable[[float, int], bool] | None,
) -> tuple[NDArray[np.int32], float, int]: ...
