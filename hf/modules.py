"""What stands in the place of torch's linears and embeddings: buffers with the stored bits, and how they multiply.

On a CPU a few vectors are multiplied by the fused kernels and many by decoding stripes for matrix products, all in
float32. On other devices the weights are decoded once, by torch, and kept; where gradients have to flow to the input,
they are decoded each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from icml.hf.decoding import dequantize
from icml.tools.quantize import QuantizedLinear, quantize_activations, tensor_specs


class _Stored(nn.Module):
    """Buffers as `tensor_specs` lays them out; their bits stay what they are, whatever dtype the model is cast to."""

    def __init__(self, meta: Mapping[str, Any], dtype: torch.dtype) -> None:
        super().__init__()
        self.meta = dict(meta)
        self.dtype = dtype
        self.stored = tensor_specs(meta)
        for name, (shape, kind) in self.stored.items():
            self.register_buffer(name, torch.empty(shape, dtype=getattr(torch, kind)))
        self.out_features, self.in_features = meta["shape"]
        self._seen: list[tuple[str, torch.Tensor, int]] = []
        self._quantized: QuantizedLinear | None = None
        self._weight: torch.Tensor | None = None

    def quantized(self) -> QuantizedLinear:
        """The weights on the CPU, restored anew when the buffers have changed."""
        if self._quantized is None or not self._unchanged():
            arrays = {name: buffer.detach().cpu().numpy() for name, buffer in self._look().items()}
            self._quantized = QuantizedLinear.from_tensors(self.meta, arrays)
        return self._quantized

    @property
    def weight(self) -> torch.Tensor:
        """The dequantized weights; not kept on a CPU."""
        device = self.get_buffer(next(iter(self.stored))).device
        if device.type == "cpu":
            return torch.from_numpy(self.quantized().dequantize(threads=torch.get_num_threads())).to(
                self.dtype
            )
        if device.type == "meta":
            return torch.empty(self.out_features, self.in_features, dtype=self.dtype, device=device)
        if self._weight is None or not self._unchanged() or self._weight.dtype != self.dtype:
            self._weight = dequantize(self.meta, self._look()).to(self.dtype)
        return self._weight

    def _look(self) -> dict[str, torch.Tensor]:
        """The buffers, after forgetting what was made of those before."""
        self._quantized, self._weight = None, None
        buffers = {name: self.get_buffer(name) for name in self.stored}
        self._seen = [(name, buffer, _version(buffer)) for name, buffer in buffers.items()]
        return buffers

    def matvec(self, rows: np.ndarray[Any, Any], **activations: Any) -> Any:
        """The product of the weights with each row, on the CPU."""
        return self.quantized().matvec(rows, threads=torch.get_num_threads(), gemm=_gemm, **activations)

    def _unchanged(self) -> bool:
        buffers = self._buffers
        return all(buffers[name] is seen and _version(seen) == version for name, seen, version in self._seen)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Moves the buffers without a cast; what the dtype would have become is that of what the module returns."""
        for name in self.stored:
            buffer = self.get_buffer(name)
            moved = fn(buffer)
            self._buffers[name] = moved if moved.dtype == buffer.dtype else buffer.to(moved.device)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = nn.Parameter(fn(parameter.data), requires_grad=False)
        self.dtype = fn(torch.empty(0, dtype=self.dtype)).dtype
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen": [], "_quantized": None, "_weight": None}

    def extra_repr(self) -> str:
        """For print(model)."""
        bits = self.meta.get("bits", "ternary")
        return f"{self.in_features}, {self.out_features}, {self.meta['method']}, bits={bits}"


def _gemm(a: Any, b: Any, out: Any) -> None:
    """By torch, whose threads are those of the rest of the model."""
    torch.mm(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))


def _version(tensor: torch.Tensor) -> int:
    """Counts changes in place, except under torch.inference_mode."""
    return 0 if tensor.is_inference() else tensor._version


class IcmlLinear(_Stored):
    """A linear of any of the tool's methods."""

    def __init__(self, meta: Mapping[str, Any], *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__(meta, dtype)
        self.bias = (
            nn.Parameter(torch.empty(self.out_features, dtype=dtype), requires_grad=False) if bias else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ŵ x + bias, in the dtype of x."""
        learning = x.requires_grad and torch.is_grad_enabled()
        rounding = "act_bits" in self.meta
        if rounding and learning:
            raise RuntimeError("no gradient passes activations that are rounded; use torch.no_grad()")
        if learning or (x.device.type != "cpu" and not rounding):
            bias = None if self.bias is None else self.bias.to(x.dtype)
            return functional.linear(x, self.weight.to(x.dtype), bias)
        rows = x.detach().reshape(-1, self.in_features).float().cpu().numpy()
        out = torch.from_numpy(self._products(rows)).view(*x.shape[:-1], self.out_features).to(x.device)
        if self.bias is not None:
            out += self.bias.float()
        return out.to(x.dtype)

    def _products(self, rows: Any) -> Any:
        if "act_bits" not in self.meta:
            return self.matvec(rows)
        bits, clip = self.meta["act_bits"], self.meta["act_clip"]
        if self.meta["method"] == "twla":
            return self.matvec(rows, act_bits=bits, act_clip=clip)
        return self.matvec(quantize_activations(rows, bits, clip))


class IcmlEmbedding(_Stored):
    """Rows of 8-bit codes, each with a scale and a zero."""

    codes: torch.Tensor
    scale: torch.Tensor
    zero: torch.Tensor

    def __init__(
        self, meta: Mapping[str, Any], *, dtype: torch.dtype, padding_idx: int | None = None
    ) -> None:
        super().__init__(meta, dtype)
        self.num_embeddings, self.embedding_dim = meta["shape"]
        self.padding_idx = padding_idx

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of tokens, in the model's dtype."""
        codes = self.codes.view(self.out_features, self.in_features)[ids]
        return (codes.float() * self.scale[ids].float() + self.zero[ids].float()).to(self.dtype)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """The product of every row with x, in the dtype of x."""
        if x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
            return functional.linear(x, self.weight.to(x.dtype))
        rows = x.detach().reshape(-1, self.in_features).float().numpy()
        products = torch.from_numpy(self.matvec(rows))
        return products.view(*x.shape[:-1], self.out_features).to(x.dtype)


class IcmlHead(IcmlEmbedding):
    """An output embedding of its own."""

    def __init__(self, meta: Mapping[str, Any], *, bias: bool, dtype: torch.dtype) -> None:
        super().__init__(meta, dtype=dtype)
        self.bias = (
            nn.Parameter(torch.empty(self.out_features, dtype=dtype), requires_grad=False) if bias else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of all tokens."""
        scores = self.scores(x)
        return scores if self.bias is None else scores + self.bias.to(scores.dtype)


class TiedHead(nn.Module):
    """An output embedding that is the input embedding, and stores nothing."""

    def __init__(self, embedding: IcmlEmbedding) -> None:
        super().__init__()
        self._held = (embedding,)  # in a tuple it is no submodule: its buffers are stored once
        self.in_features, self.out_features = embedding.in_features, embedding.out_features

    @property
    def embedding(self) -> IcmlEmbedding:
        """What it is tied to."""
        return self._held[0]

    @property
    def weight(self) -> torch.Tensor:
        """The embedding's."""
        return self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of all tokens."""
        return self.embedding.scores(x)
