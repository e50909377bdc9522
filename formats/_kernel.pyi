"""Types of the compiled module `_kernel.cpp`."""

import numpy as np
from numpy.typing import NDArray

_Data = bytes | bytearray | memoryview

class ParseError(ValueError):
    args: tuple[str, int]

def read_edges(
    data: _Data,
    start: int,
    first_line: int,
    separator: str,
    width: int,
    u: int,
    v: int,
    value: int | None,
    threads: int = 0,
    piece_bytes: int = 0,
) -> tuple[
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.float64] | None,
    NDArray[np.int64],
    NDArray[np.int64] | tuple[bytes, NDArray[np.int64]],
]: ...
def number_edges(
    u: NDArray[np.int64], v: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]: ...
def read_columns(
    data: _Data,
    start: int,
    first_line: int,
    separator: str,
    kinds: str,
    names: list[str],
    allow_nonfinite: bool = False,
    threads: int = 0,
    piece_bytes: int = 0,
) -> tuple[str, NDArray[np.float64] | None, list[list[str]], NDArray[np.int64]]: ...
def read_coordinates(
    data: _Data,
    start: int,
    first_line: int,
    separator: str,
    roles: str,
    names: list[str],
    limits: list[int],
    base: int = 0,
    allow_nonfinite: bool = False,
    threads: int = 0,
    piece_bytes: int = 0,
) -> tuple[
    NDArray[np.int64],
    list[tuple[bytes, NDArray[np.int64]] | None],
    NDArray[np.float64] | None,
    NDArray[np.int64],
]: ...
def read_number_lines(
    data: _Data, start: int, first_line: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]: ...
def sample(data: _Data, start: int, separator: str, limit: int) -> list[tuple[int, int, list[str]]]: ...
def is_number(text: str) -> bool: ...
