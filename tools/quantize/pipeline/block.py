"""One block's linears, or one linear alone: from weights and Hessians to stored tensors and a line of the report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from icml.formats.safetensors import RawTensor, to_dtype
from icml.tools.quantize.core import quantize_linear
from icml.tools.quantize.hessian import Hessian, InputSpace, prepare_input
from icml.tools.quantize.linear import QuantizedLinear
from icml.tools.quantize.pipeline.acts import clip_for
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.settings import Settings
from icml.tools.quantize.proteus import ProteusLinear

FEW = 16
"""With fewer tokens than inputs / FEW, as rarely chosen experts have, only the Hessian's diagonal is believed."""

Matrix = NDArray[np.float32]


@dataclass
class Unit:
    """What a unit of work becomes.

    Attributes:
        tensors: to store, by full name.
        modules: what the configuration says of each quantized module; by bits, if a budget is to choose.
        report: a line for each linear and number of bits.
        notes: what somebody may want to know.
    """

    tensors: dict[str, NDArray[Any] | RawTensor] = field(default_factory=dict)
    modules: dict[str, dict[str, Any]] = field(default_factory=dict)
    report: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def info(self, digest: str, weights: int) -> dict[str, Any]:
        """For the file that says that the unit is finished."""
        return {
            "digest": digest,
            "weights": weights,
            "modules": self.modules,
            "report": self.report,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Quantizer:
    """Quantizes linears as the settings say."""

    settings: Settings
    control: Control

    def group(
        self,
        unit: Unit,
        weights: Mapping[str, Matrix],
        hessian: Hessian | None,
        biases: Mapping[str, RawTensor],
        sample: Matrix | None = None,
    ) -> dict[str, QuantizedLinear]:
        """Quantizes linears that read the same input, by name, into `unit`; returns them in their first bits."""
        lead = next(iter(weights))
        n = weights[lead].shape[1]
        space = prepare_input(
            self._matrix(unit, lead, n, hessian), n, self.settings.method, seed=self._seed(lead),
            threads=self.control.threads, **self.settings.input_options(),
        )  # fmt: skip
        first: dict[str, QuantizedLinear] = {}
        for name, weight in weights.items():
            choices = self.settings.choices(name)
            for bits in choices:
                quantized = self._linear(unit, name, weight, space, bits, hessian, sample)
                first.setdefault(name, quantized)
                key = f"{name}@{bits}" if self.settings.fractional else name
                for suffix, tensor in quantized.tensors().items():
                    unit.tensors[f"{key}.{suffix}"] = tensor
                bias = biases.get(name)
                if bias is not None:
                    unit.tensors[f"{key}.bias"] = _shifted(bias, quantized, weight, hessian)
        return first

    def _seed(self, name: str) -> tuple[int, int]:
        """Of a linear's own random numbers, whatever is quantized before it."""
        return self.settings.seed, crc32(name.encode())

    def _options(self, bits: int) -> dict[str, Any]:
        device = {"device": self.control.device} if self.settings.method == "proteus" else {}
        return self.settings.linear_options(bits) | device

    def _matrix(self, unit: Unit, lead: str, n: int, hessian: Hessian | None) -> Matrix | None:
        if hessian is None:
            return None
        if not hessian.count:
            unit.notes.append(
                f"{lead}: no token reached it in calibration; its inputs are taken for independent"
            )
            return None
        matrix = hessian.matrix()
        if hessian.count * FEW < n:
            unit.notes.append(
                f"{lead}: only {hessian.count} tokens reached it; of its Hessian the diagonal is used"
            )
            return np.diag(np.diag(matrix))
        return matrix

    def _linear(
        self,
        unit: Unit,
        name: str,
        weight: Matrix,
        space: InputSpace,
        bits: int,
        hessian: Hessian | None,
        sample: Matrix | None,
    ) -> QuantizedLinear:
        start = time.monotonic()
        quantized = quantize_linear(
            weight, space, self.settings.method, seed=self._seed(name), threads=self.control.threads,
            should_stop=self.control.should_stop, **self._options(bits),
        )  # fmt: skip
        meta = dict(quantized.meta)
        if self.settings.act_bits in ("4", "8"):
            meta["act_bits"] = int(self.settings.act_bits)
            meta["act_clip"] = 1.0 if sample is None else clip_for(quantized, sample, meta["act_bits"])
        key = f"{name}@{bits}" if self.settings.fractional else name
        unit.modules[key] = meta
        line = {
            "layer": name,
            "shape": list(quantized.shape),
            "bits": bits,
            "bpw": quantized.bpw,
            "error": quantized.proxy_error,
            "tokens": 0 if hessian is None else hessian.count,
            "candidate": str(quantized.generator) if isinstance(quantized, ProteusLinear) else None,
            "seconds": round(time.monotonic() - start, 3),
        }
        unit.report.append(line)
        self.control.on_linear(line)
        return quantized


def _shifted(
    bias: RawTensor, quantized: QuantizedLinear, weight: Matrix, hessian: Hessian | None
) -> RawTensor:
    """The bias that keeps the mean output."""
    if hessian is None or not hessian.count:
        return bias
    values = bias.float32() + quantized.bias_shift(weight, hessian.mean)
    return to_dtype(values, bias.dtype if bias.dtype in ("F16", "BF16") else "F32")
