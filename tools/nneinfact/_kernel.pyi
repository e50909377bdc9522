"""Signatures of the compiled kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32] | NDArray[np.float64]

def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> str: ...

class DenseData:
    def __init__(self, batches: int, rows: int, columns: int, /) -> None: ...
    def set_values(
        self,
        values: NDArray[Any],
        batch: NDArray[np.int64],
        row: NDArray[np.int64],
        column: NDArray[np.int64] | None,
    ) -> None: ...
    def set_weights(
        self,
        weights: NDArray[Any],
        batch: NDArray[np.int64],
        row: NDArray[np.int64],
        column: NDArray[np.int64] | None,
    ) -> None: ...
    def set_bits(
        self,
        observed: NDArray[np.uint8] | None,
        held: NDArray[np.uint8] | None,
        origin: int,
        batch: NDArray[np.int64],
        row: NDArray[np.int64],
        column: NDArray[np.int64] | None,
    ) -> None: ...
    def set_sparse(self, start: NDArray[np.int64], column: NDArray[np.int32], value: Float) -> None: ...

def dense_pass(
    data: DenseData,
    left: Float,
    right: Float,
    rule: int,
    alpha: float,
    beta: float,
    floor: float,
    den_loss: float,
    want_left: bool,
    want_right: bool,
    want_den: bool,
    want_loss: bool,
    threads: int,
) -> tuple[
    NDArray[np.float64] | None,
    NDArray[np.float64] | None,
    NDArray[np.float64] | None,
    NDArray[np.float64] | None,
    float,
    float,
]: ...
def multiply(left: NDArray[np.float64], right: NDArray[np.float64], threads: int) -> NDArray[np.float64]: ...
def powers(values: Float) -> tuple[Float, Float]: ...
def sparse_pass(
    start: NDArray[np.int64],
    column: NDArray[np.int32],
    value: Float | None,
    left: Float,
    right: Float,
    rank: int,
    rule: int,
    alpha: float,
    beta: float,
    floor: float,
    want_num: bool,
    want_terms: bool,
    want_loss: bool,
    threads: int,
) -> tuple[NDArray[np.float64] | None, Float | None, float, float]: ...
def column_pass(
    start: NDArray[np.int64],
    row: NDArray[np.int32],
    entry: NDArray[np.int32],
    terms: Float | None,
    left: Float,
    rank: int,
    threads: int,
) -> NDArray[np.float64]: ...
def transpose(
    start: NDArray[np.int64], column: NDArray[np.int32], columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]: ...
def scatter_add(index: NDArray[np.int64], values: NDArray[np.float64], rows: int) -> NDArray[np.float64]: ...
