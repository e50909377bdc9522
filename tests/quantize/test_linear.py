"""Whole linears by every method: what is stored is what multiplies, whatever the shape, the threads or the H."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.quantize import (
    Generator,
    ProteusLinear,
    QuantizedLinear,
    Stopped,
    prepare_input,
    quantize_linear,
    tensor_specs,
)

from .oracles import proxy, random_hessian

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("proteus", {"L": 9}),
    ("proteus", {"L": 9, "rotate": "none"}),
    ("proteus", {"L": 10, "bits": 4}),
    ("proteus", {"L": 9, "bits": 1, "pool": 1}),
    ("proteus", {"L": 16, "generator": "mul16", "pool": 1, "tail": "window"}),
    ("twla", {"group": 32}),
    ("twla", {"rotate": "none"}),
    ("gptq", {}),
    ("gptq", {"bits": 3, "group": 50, "rotate": "hadamard"}),
    ("rtn", {"clip": False}),
]


def problem(m: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scale = np.exp(0.3 * rng.standard_normal((m, 1)))
    return (0.05 * scale * rng.standard_normal((m, n))).astype(np.float32), random_hessian(n, rng)


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize(("m", "n"), [(32, 48), (37, 75)])
def test_products_storage_and_figures(method: str, options: dict[str, Any], m: int, n: int) -> None:
    w, h = problem(m, n)
    found = quantize_linear(w, h, method, **options)
    dense = found.dequantize()
    assert dense.shape == (m, n)
    assert found.proxy_error == pytest.approx(proxy(w, dense, h), rel=2e-3)
    assert found.error(w, h) == pytest.approx(found.proxy_error, rel=2e-3)

    tensors = found.tensors()
    assert {k: (t.shape, t.dtype.name) for k, t in tensors.items()} == tensor_specs(found.meta)
    assert found.bpw == pytest.approx(8 * sum(t.nbytes for t in tensors.values()) / (m * n))
    again = QuantizedLinear.from_tensors(found.meta, {k: t.copy() for k, t in tensors.items()})
    assert np.array_equal(again.dequantize(), dense)
    assert again.meta == found.meta

    rng = np.random.default_rng(1)
    for count in (1, 3, 8, 9, 30):
        x = rng.standard_normal((count, n)).astype(np.float32)
        exact = x @ dense.T.astype(float)
        assert np.abs(again.matvec(x) - exact).max() < 1e-5 * np.abs(exact).max()
        assert np.abs(again.matvec(x, activations="int8") - exact).max() <= int8_bound(found, x)
    assert found.matvec(x[0]).shape == (m,)
    assert np.allclose(found.bias_shift(w, x[0]), (w - dense) @ x[0], atol=1e-5)


def int8_bound(found: QuantizedLinear, x: np.ndarray) -> float:
    """Half a step at each rotated coordinate moves an output by at most half a step times the row's sum of |Ŵ|.

    Rotations are orthogonal, so |Ŵ e| <= |Ŵ|_F |e| bounds it in the original coordinates, too.
    """
    step = (
        1.01 * np.abs(x).max() * np.sqrt(x.shape[1]) / 127
    )  # a rotation spreads, at most, all into one coordinate
    return float(np.linalg.norm(found.dequantize(), 2) * step / 2 * np.sqrt(x.shape[1]))


def test_int8_activations_stay_within_half_a_step_a_weight() -> None:
    """Without rotations the bound is sharp: row by row, half a step times the sum of |Ŵ|."""
    w, h = problem(32, 80)
    found = quantize_linear(w, h, L=9, rotate="none")
    dense = found.dequantize().astype(float)
    x = np.random.default_rng(2).standard_normal((5, 80)).astype(np.float32)
    error = np.abs(found.matvec(x, activations="int8") - x @ dense.T)
    bound = 0.5 * np.abs(x).max(1, keepdims=True) / 127 * np.abs(dense).sum(1)
    assert (error <= 1.001 * bound).all()
    assert error.max() > 0.05 * bound.max()


@pytest.mark.parametrize(("method", "options"), [METHODS[0], METHODS[4], METHODS[5], METHODS[8]])
def test_the_same_bits_whatever_threads(method: str, options: dict[str, Any]) -> None:
    w, h = problem(150, 144)
    stored = [quantize_linear(w, h, method, threads=t, **options).tensors() for t in (1, 3)]
    for name, array in stored[0].items():
        assert np.array_equal(array, stored[1][name]), name
    found = QuantizedLinear.from_tensors(quantize_linear(w, h, method, **options).meta, stored[0])
    assert np.array_equal(found.dequantize(threads=1), found.dequantize(threads=3))


def test_a_shared_input_space_is_the_same_as_its_hessian() -> None:
    w, h = problem(32, 48)
    for method in ("proteus", "twla", "gptq"):
        space = prepare_input(h, 48, method, seed=5)
        assert np.array_equal(
            quantize_linear(w, space, method, seed=5).dequantize(),
            quantize_linear(w, h, method, seed=5).dequantize(),
        )


def test_methods_rank_as_they_should() -> None:
    w, h = problem(128, 256)
    error = {
        name: quantize_linear(w, h, method, **options).proxy_error
        for name, (method, options) in {
            "proteus": ("proteus", {"L": 12}),
            "proteus 14": ("proteus", {"L": 14}),
            "proteus 3": ("proteus", {"L": 12, "bits": 3}),
            "proteus 4": ("proteus", {"L": 12, "bits": 4}),
            "blind": ("proteus", {"L": 12, "rotate": "none", "damp": 1e2}),
            "gptq": ("gptq", {"rotate": "hadamard"}),
            "rtn": ("rtn", {}),
        }.items()
    }
    assert error["proteus 14"] < error["proteus"] < 0.75 * error["gptq"]
    assert error["gptq"] < error["rtn"]
    assert error["proteus 3"] < 0.35 * error["proteus"]
    assert error["proteus 4"] < 0.35 * error["proteus 3"]
    assert error["proteus"] < 0.8 * error["blind"]


def test_scale_is_chosen_on_a_sample() -> None:
    w, h = problem(64, 96)
    chosen = quantize_linear(w, h, L=9, scale="auto").proxy_error
    assert chosen <= 1.02 * min(
        quantize_linear(w, h, L=9, scale=s).proxy_error for s in (0.98, 1.0, 1.03, 1.06)
    )


def test_a_given_generator_is_used() -> None:
    w, h = problem(32, 48)
    found = quantize_linear(w, h, L=10, generator=Generator("mulx", 0xB4251189))
    assert isinstance(found, ProteusLinear)
    assert str(found.generator) == "mulx:b4251189"
    assert found.meta["family"] == "mulx"


def test_codes_and_gains_make_the_weights() -> None:
    w, h = problem(32, 48)
    found = quantize_linear(w, h, L=9)
    assert isinstance(found, ProteusLinear)
    u, v = (
        r.apply(np.eye(k, dtype=np.float32)).T for r, k in ((found.rotation_out, 32), (found.rotation_in, 48))
    )
    a, b = found.affine
    core = u.T @ (a * found.rotated_codes() + b) @ v
    assert np.allclose(found.dequantize(), found.sv[:, None] * core * found.su, atol=1e-5)
    doubled = found.replace(sv=2 * found.sv.astype(np.float32))
    assert np.allclose(doubled.dequantize(), 2 * found.dequantize(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("method", ["proteus", "twla", "gptq", "rtn"])
def test_odd_weights_are_valid(method: str) -> None:
    options = {"L": 9} if method == "proteus" else {}
    rng = np.random.default_rng(3)
    zero, constant = np.zeros((20, 24), np.float32), np.full((20, 24), 0.5, np.float32)
    dead = rng.standard_normal((20, 24)).astype(np.float32)
    dead[3], dead[:, 5] = 0, 0
    h = random_hessian(24, rng)
    h[5], h[:, 5] = 0, 0  # an input that is never active
    for w in (zero, constant, dead, dead[:1], dead[:, :1]):
        found = quantize_linear(w, h if w.shape[1] == 24 else None, method, **options)
        assert np.isfinite(found.dequantize()).all()
        assert np.isfinite(found.proxy_error)
        if w is zero:
            assert not found.dequantize().any()
            assert found.proxy_error == 0
        if w is dead:
            assert np.abs(found.dequantize()[3]).max() < 1e-6 or method in ("twla", "gptq", "rtn")
    single = quantize_linear(rng.standard_normal((7, 1)).astype(np.float32), None, method, **options)
    assert single.dequantize().shape == (7, 1)


def test_rank_deficient_hessians_work() -> None:
    rng = np.random.default_rng(4)
    w = rng.standard_normal((32, 64)).astype(np.float32)
    h = random_hessian(64, rng, tokens=5)
    for method in ("proteus", "twla", "gptq"):
        assert quantize_linear(w, h, method, **({"L": 9} if method == "proteus" else {})).proxy_error < 0.2


def test_refusals() -> None:
    w, h = problem(16, 32)
    for arguments, words in (
        ({"method": "awq"}, "no such method"),
        ({"method": "proteus", "group": 3}, "no option group"),
        ({"bits": 5}, "1 to 4"),
        ({"L": 2}, "L is"),
        ({"rotate": "kotms"}, "rotate"),
        ({"method": "twla", "group": 20}, "multiple of 16"),
        ({"method": "gptq", "bits": 9}, "1 to 8"),
        ({"scale": "big"}, "scale"),
        ({"generator": "lut"}, "generator"),
        ({"damp": -1}, "damping"),
    ):
        with pytest.raises(InputError, match=words):
            quantize_linear(w, h, **arguments)
    with pytest.raises(InputError, match="NaN"):
        quantize_linear(np.where(w == w[0, 0], np.nan, w), h)
    with pytest.raises(InputError, match="matrix"):
        quantize_linear(w[0], h)
    with pytest.raises(InputError, match=r"\[32, 32\]"):
        quantize_linear(w, h[:5])
    with pytest.raises(InputError, match="too large"):
        quantize_linear(w * 1e9, h, "rtn")
    with pytest.raises(Stopped):
        quantize_linear(w, h, should_stop=lambda: True)
    found = quantize_linear(w, h, L=9)
    with pytest.raises(InputError, match="lack"):
        QuantizedLinear.from_tensors(found.meta, {})
    with pytest.raises(InputError, match="qweight"):
        QuantizedLinear.from_tensors(
            found.meta, found.tensors() | {"qweight": found.tensors()["qweight"][:0]}
        )
    with pytest.raises(InputError, match="unknown method"):
        QuantizedLinear.from_tensors({"method": "awq"}, {})
    with pytest.raises(InputError, match="32 inputs"):
        found.matvec(np.zeros(31))
