"""The torch decoder against the compiled one, for every method and awkward shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from icml.hf import decoding  # noqa: E402
from icml.tools.quantize import quantize_linear  # noqa: E402

CASES: list[tuple[str, dict[str, Any]]] = [
    *(("proteus", {"L": 12, "bits": bits, "pool": 1}) for bits in (1, 2, 3, 4)),
    *(
        ("proteus", {"L": 16, "generator": family, "pool": 1, "tail": "window"})
        for family in ("mul16", "mulx")
    ),
    ("proteus", {"L": 12, "rotate": "none", "pool": 1}),
    *(("twla", {"group": 32, "rotate": rotate}) for rotate in ("both", "hadamard", "kotms", "none")),
    *(("rtn", {"bits": bits, "group": 50}) for bits in (1, 2, 3, 5, 8)),
    ("gptq", {"bits": 4, "rotate": "hadamard"}),
]


@pytest.mark.parametrize("shape", [(48, 96), (37, 100), (5, 16), (16, 2 * 521)], ids=str)
@pytest.mark.parametrize(("method", "options"), CASES, ids=str)
def test_decodes_what_the_kernel_decodes(
    method: str, options: dict[str, Any], shape: tuple[int, int]
) -> None:
    if shape[1] > 1000 and options.get("rotate") in ("kotms", "both"):
        options = {**options, "kotms_steps": 1}
    weight = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    quantized = quantize_linear(weight, None, method, **options)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in quantized.tensors().items()}
    found = decoding.dequantize(quantized.meta, tensors)
    expected = quantized.dequantize()
    assert found.dtype == torch.float32
    assert found.shape == shape
    assert np.abs(found.numpy() - expected).max() <= 2e-6 * np.abs(expected).max()


def test_stripes_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = np.random.default_rng(0).standard_normal((100, 32)).astype(np.float32)
    quantized = quantize_linear(weight, None, "proteus", L=9, pool=1)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in quantized.tensors().items()}
    whole = decoding.dequantize(quantized.meta, tensors)
    monkeypatch.setattr(decoding, "STRIPES", 2)
    assert torch.equal(decoding.dequantize(quantized.meta, tensors), whole)
