"""Signatures of the compiled kernels."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

def instruction_sets() -> list[str]: ...

class Code:
    def __init__(
        self,
        state_bits: int,
        bits: int,
        value13: NDArray[np.int16],
        level: NDArray[np.uint8],
        level_value: NDArray[np.int16],
        /,
    ) -> None: ...

def search(
    code: Code, x: Floats, window: int, refinements: int, narrow: bool, threads: int, isa: str
) -> NDArray[np.uint16]: ...
def pack(states: NDArray[np.uint16], bits: int) -> NDArray[np.uint32]: ...
def unpack(packed: NDArray[np.uint32], state_bits: int, bits: int) -> NDArray[np.uint16]: ...

class Trellis:
    def __init__(
        self,
        packed: NDArray[np.int32],
        family: int,
        a: int,
        b: int,
        state_bits: int,
        bits: int,
        isa: str = "",
    ) -> None: ...
    def integer(self, x: NDArray[np.int8], threads: int) -> NDArray[np.int64]: ...
    def exact(self, x: Floats, threads: int) -> Floats: ...
    def decode(self, first: int, last: int, threads: int) -> Floats: ...

class Ternary:
    def __init__(
        self, packed: NDArray[np.uint8], alpha: Floats, mu: Floats, group: int, isa: str = ""
    ) -> None: ...
    def integer(self, x: NDArray[np.int8], scale: Floats, threads: int) -> Floats: ...
    def exact(self, x: Floats, threads: int) -> Floats: ...

def ternary_pack(codes: NDArray[np.uint8]) -> NDArray[np.uint8]: ...
def hadamard(x: Floats, first: int, width: int, threads: int) -> None: ...
def mix(x: Floats, q: Floats, transpose: bool, threads: int) -> None: ...
def rows_product(
    codes: NDArray[np.uint8], scale: Floats, zero: Floats, group: int, bits: int, x: Floats, threads: int
) -> Floats: ...
def rows_decode(
    codes: NDArray[np.uint8],
    scale: Floats,
    zero: Floats,
    group: int,
    bits: int,
    first: int,
    last: int,
    threads: int,
) -> Floats: ...
def walk(
    w: Floats, factor: Floats, scale: Floats, zero: Floats, lowest: int, highest: int, threads: int
) -> tuple[NDArray[np.int8], Floats]: ...
