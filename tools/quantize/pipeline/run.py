"""Quantizes a model block by block.

In memory are one block with the Hessians of its inputs, the calibration's hidden states, and once, at the start, the
input embedding. Each finished block is on the disk before the next begins.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from icml.formats.errors import InputError
from icml.formats.safetensors import RawTensor
from icml.tools.quantize.linear import QuantizedLinear
from icml.tools.quantize.pipeline.block import Quantizer, Unit
from icml.tools.quantize.pipeline.calibration import Calibration
from icml.tools.quantize.pipeline.capture import (
    BlockInputs,
    Call,
    all_finite,
    embed,
    observe_block,
    run_block,
)
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.embeddings import store_rest
from icml.tools.quantize.pipeline.finished import restored
from icml.tools.quantize.pipeline.settings import Settings
from icml.tools.quantize.pipeline.skeleton import Skeleton
from icml.tools.quantize.pipeline.workspace import Workspace

SAMPLE = 128
"""Rows of input on which the clipping of activations is chosen."""


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count` of the blocks, counted from 0: one job of a job array."""

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From "3/16".

        Raises:
            InputError: it is something else, or there is no such part.
        """
        first, _, second = text.partition("/")
        if not (first.isdigit() and second.isdigit()) or not int(first) < int(second):
            raise InputError(f"--shard takes I/N with I from 0 to N - 1, got {text!r}")
        return cls(int(first), int(second))

    def part(self, blocks: int) -> range:
        """Its blocks: neighbours, so that it need not go further than its last."""
        return range(self.index * blocks // self.count, (self.index + 1) * blocks // self.count)


@dataclass
class Run:
    """The quantization of one model into one workspace.

    Attributes:
        skeleton: the model.
        calibration: what it reads; None to know nothing of the inputs.
        space: where finished blocks go.
        shard: which blocks are done here.
    """

    skeleton: Skeleton
    settings: Settings
    calibration: Calibration | None
    space: Workspace
    control: Control
    shard: Shard = field(default_factory=Shard)

    def execute(self) -> None:
        """Does all units of the shard that are not done yet.

        Raises:
            Stopped: `should_stop` said so.
            InputError: weights or activations are not finite.
            WorkError: the disk is full.
        """
        part = self.shard.part(len(self.skeleton.blocks))
        chain = _Chain(self.settings, self.calibration)
        chain.add(self.skeleton, self.skeleton.other_tensors())
        if self.shard.index == 0:
            self._do_rest(chain.digest())
        digests = []
        for index in range(part.stop):
            chain.add(self.skeleton, self.skeleton.block_tensors(index))
            digests.append(chain.digest())
        last = max((i for i in part if self.space.finished(i, digests[i]) is None), default=-1)
        hidden: torch.Tensor | None = None
        calls: list[Call] = []
        if self.calibration is not None and last >= 0:
            hidden, calls = embed(self.skeleton, self.calibration.tokens)
        for index in range(last + 1):
            self.control.poll()
            call = calls[index] if calls else None
            self._do_block(index, index in part, index < last, digests[index], hidden, call)

    def _do_rest(self, digest: str) -> None:
        unit = len(self.skeleton.blocks)
        if self.space.finished(unit, digest) is None:
            made = store_rest(self.skeleton, self.settings, self.control.threads)
            self.space.save(unit, made.tensors, made.info(digest, 0))

    def _do_block(
        self,
        index: int,
        mine: bool,
        more: bool,
        digest: str,
        hidden: torch.Tensor | None,
        call: Call | None,
    ) -> None:
        """Quantizes a block if it is this shard's and not done; `hidden` become those after it if `more` follow."""
        done = self.space.finished(index, digest)
        if done is not None or not mine:
            if more:
                self._pass(index, done, hidden, call)
            return
        with self.skeleton.loaded(self.skeleton.block_tensors(index)):
            unit, weights = self._quantize(index, hidden, call, more)
        _check_finite(self.skeleton, index, hidden)
        for note in unit.notes:
            self.control.on_note(note)
        self.space.save(index, unit.tensors, unit.info(digest, weights), candidates=self.settings.fractional)
        self.control.on_block((index + 1, self.skeleton.block_name(index), len(self.skeleton.blocks)))

    def _pass(
        self, index: int, done: dict[str, Any] | None, hidden: torch.Tensor | None, call: Call | None
    ) -> None:
        """Takes the hidden states past a block that is not to be quantized here."""
        if hidden is None or call is None:
            return
        with self.skeleton.loaded(self.skeleton.block_tensors(index)):
            if done is not None and self.settings.hessian == "sequential":
                self._put_quantized(self.space.tensors(index), done["modules"])
            run_block(self.skeleton.blocks[index], call, hidden, self.control.threads, self.control.poll)
        _check_finite(self.skeleton, index, hidden)

    def _put_quantized(self, tensors: Any, modules: dict[str, dict[str, Any]]) -> None:
        for name, meta in modules.items():
            weight = restored(name, meta, tensors).dequantize()
            self.skeleton.put_linear(name, weight, tensors.get(f"{name}.bias"))

    def _quantize(
        self, index: int, hidden: torch.Tensor | None, call: Call | None, more: bool
    ) -> tuple[Unit, int]:
        """A loaded block's unit, and how many weights are in its linears; takes the hidden states past it."""
        linears = {
            name: module
            for name, module in self.skeleton.linears(index).items()
            if not self.settings.skips(name) and f"{name}.weight" in self.skeleton.homes
        }
        block, sequential = self.skeleton.blocks[index], self.settings.hessian == "sequential"
        seen = BlockInputs({name: [name] for name in linears})
        if hidden is not None and call is not None and linears:
            seen = observe_block(
                block, call, hidden, linears, self.control.threads, poll=self.control.poll,
                sample=SAMPLE if self.settings.act_bits in ("4", "8") else 0, advance=more and not sequential,
            )  # fmt: skip
        unit = Unit()
        quantizer = Quantizer(self.settings, self.control)
        weights = {name: module.weight.detach().numpy() for name, module in linears.items()}
        biases = {
            name: self.skeleton.kept(f"{name}.bias")
            for name in linears
            if f"{name}.bias" in self.skeleton.homes
        }
        for lead, names in seen.groups.items():
            made = quantizer.group(
                unit, {name: weights[name] for name in names}, seen.hessians.get(lead), biases, seen.samples.get(lead)
            )  # fmt: skip
            if sequential:
                self._replace(made, unit)
        taken = {f"{name}.{leaf}" for name in linears for leaf in ("weight", "bias")}
        for name in self.skeleton.block_tensors(index):
            if name not in taken:
                unit.tensors[name] = self.skeleton.kept(name)
        if more and hidden is not None and call is not None and (sequential or not linears):
            run_block(block, call, hidden, self.control.threads, self.control.poll)
        return unit, sum(weight.size for weight in weights.values())

    def _replace(self, made: dict[str, QuantizedLinear], unit: Unit) -> None:
        for name, quantized in made.items():
            bias = unit.tensors.get(f"{name}.bias")
            self.skeleton.put_linear(
                name, quantized.dequantize(), bias if isinstance(bias, RawTensor) else None
            )


def _check_finite(skeleton: Skeleton, index: int, hidden: torch.Tensor | None) -> None:
    if hidden is not None and not all_finite(hidden):
        raise InputError(
            f"activations after {skeleton.block_name(index)} are not finite", skeleton.source.name
        )


class _Chain:
    """A digest of everything that the quantization of a block depends on: it and the blocks before."""

    def __init__(self, settings: Settings, calibration: Calibration | None) -> None:
        self._hash = hashlib.blake2b(settings.digest().encode(), digest_size=16)
        self._hash.update((calibration.digest() if calibration is not None else "none").encode())

    def add(self, skeleton: Skeleton, names: list[str]) -> None:
        for name in names:
            raw = skeleton.raw(name)
            self._hash.update(f"{name} {raw.dtype} {raw.shape}".encode())
            self._hash.update(np.ascontiguousarray(raw.bits).reshape(-1).view(np.uint8).data)

    def digest(self) -> str:
        return self._hash.copy().hexdigest()
