"""Products with rows of 8-bit codes: double precision beside them, and the same bits on every path."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from icml.tools.quantize import _kernel, instruction_sets, quantize_linear

SHAPES = [(1, 1), (5, 16), (37, 100), (70, 31), (33, 2049), (3, 4200)]


def grid(
    m: int, n: int, group: int, bits: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2**bits, (m, n), dtype=np.uint8)
    scale, zero = rng.standard_normal((2, m, -(-n // group))).astype(np.float32)
    return codes, scale, zero, group, bits


def dense(codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, group: int, bits: int) -> np.ndarray:
    wide = [np.repeat(s.astype(np.float64), group, axis=1)[:, : codes.shape[1]] for s in (scale, zero)]
    return wide[0] * codes + wide[1]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("group", "bits"), [(10_000, 8), (64, 8), (33, 3), (16, 1), (1, 4)])
def test_products_are_those_of_the_weights(shape: tuple[int, int], group: int, bits: int) -> None:
    stored = grid(*shape, group, bits)
    weight = dense(*stored)
    for vectors in (0, 1, 3, 4, 9):
        x = np.random.default_rng(1).standard_normal((vectors, shape[1])).astype(np.float32)
        found = _kernel.rows_product(*stored, x, 2)
        bound = np.abs(x).astype(np.float64) @ np.abs(weight).T
        assert found.shape == (vectors, shape[0])
        assert (np.abs(found - x.astype(np.float64) @ weight.T) <= 1e-5 * bound + 1e-12).all()
        for threads in (1, 3):
            np.testing.assert_array_equal(_kernel.rows_product(*stored, x, threads), found)
    decoded = _kernel.rows_decode(*stored, 0, shape[0], 2)
    np.testing.assert_allclose(decoded, weight, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(_kernel.rows_decode(*stored, 1, shape[0], 1), decoded[1:])


@pytest.mark.skipif(len(instruction_sets()) < 2, reason="this machine has one set of instructions")
def test_instruction_sets_give_the_same_bits() -> None:
    code = (
        "import numpy as np, sys\n"
        "from icml.tools.quantize import quantize_linear\n"
        "rng = np.random.default_rng(0)\n"
        "w = rng.standard_normal((50, 333)).astype(np.float32)\n"
        "q = quantize_linear(w, None, 'rtn', bits=8, group=333, clip=False)\n"
        "sys.stdout.buffer.write(q.matvec(rng.standard_normal((7, 333)).astype(np.float32)).tobytes())"
    )
    found = {
        isa: subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "ICML_QUANTIZE_ISA": isa},
            capture_output=True,
            check=True,
        ).stdout
        for isa in instruction_sets()
    }
    assert len(set(found.values())) == 1
    assert len(found["portable"]) == 7 * 50 * 4


def test_many_vectors_go_through_the_given_product() -> None:
    rng = np.random.default_rng(0)
    quantized = quantize_linear(
        rng.standard_normal((2100, 40)).astype(np.float32), None, "rtn", bits=8, group=40
    )
    x = rng.standard_normal((20, 40)).astype(np.float32)
    called = []

    def gemm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        called.append(b.shape)
        np.matmul(a, b, out=out)

    found = quantized.matvec(x, gemm=gemm)
    np.testing.assert_allclose(found, x @ quantized.dequantize().T, atol=1e-4)
    assert called == [(40, 1024), (40, 1024), (40, 52)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({3: 0}, "at least one column"),
        ({3: 50}, "a scale and a zero"),
        ({4: 9}, "1 to 8 bits"),
        ({5: np.zeros((1, 99), np.float32)}, "an activation for each column"),
    ],
)
def test_what_does_not_fit(change: dict[int, object], message: str) -> None:
    arguments: list[object] = [*grid(4, 100, 100, 8), np.zeros((1, 100), np.float32), 1]
    for place, value in change.items():
        arguments[place] = value
    with pytest.raises(ValueError, match=message):
        _kernel.rows_product(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows of the matrix"):
        _kernel.rows_decode(*grid(4, 100, 100, 8), 3, 5, 1)
