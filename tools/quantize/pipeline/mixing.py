"""ILA-AMP: how many bits the activations of each block need, neighbours' joint errors included.

C_i(b) is what the loss on calibration text rises by when block i reads activations of b bits and all others of 8, and
K_i(b', b) what blocks i - 1 and i cost together beyond that. The choice for a mean number of bits is exact, by dynamic
programming (`allocate_bits`). The 3 N + 9 (N - 1) variants of N blocks go through the model side by side: each block is
loaded once, and the variants' hidden states wait in a file. Source: TWLA (ICML 2026).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from icml.formats.model_dir import CONFIG, read_json
from icml.formats.output import write_json
from icml.tools.quantize.allocation import allocate_bits
from icml.tools.quantize.pipeline.acts import Rounded
from icml.tools.quantize.pipeline.calibration import Calibration
from icml.tools.quantize.pipeline.capture import Call, embed, observe_block, sequences_on
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.finished import restored
from icml.tools.quantize.pipeline.settings import MIXED_ACT_BITS, Settings
from icml.tools.quantize.pipeline.skeleton import Skeleton
from icml.tools.quantize.pipeline.tail import Tail, loaded_tail
from icml.tools.quantize.pipeline.workspace import Workspace, check_space

TOKENS, LENGTH = 1024, 512
"""Of the calibration, so many tokens in sequences of at most so many are read."""

SAMPLE = 128
"""Inputs on which a linear's clip factors are chosen."""

BASE = MIXED_ACT_BITS[-1]
FEWER = MIXED_ACT_BITS[:-1]
BETA = 0.5
"""Weight of the joint costs."""

Key = tuple[int, ...]
"""A variant: () for 8 bits throughout, (i, b) for b bits in block i, (i, b', b) for b' bits in the block before too."""

Modules = Mapping[str, Mapping[str, Any]]


def variants(blocks: int) -> list[Key]:
    """All of them, in the order in which they part from others."""
    found: list[Key] = [()]
    for i in range(blocks):
        found += [(i, b) for b in FEWER]
        if i:
            found += [(i, before, b) for before, b in product(FEWER, FEWER)]
    return found


def costs(losses: Mapping[Key, float], blocks: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """C [blocks, 4] and K [blocks - 1, 4, 4] from the losses of all variants."""
    own = np.zeros((blocks, len(MIXED_ACT_BITS)))
    joint = np.zeros((blocks - 1, len(MIXED_ACT_BITS), len(MIXED_ACT_BITS)))
    for i in range(blocks):
        for k, b in enumerate(FEWER):
            own[i, k] = losses[i, b] - losses[()]
    for i in range(1, blocks):
        for (j, before), (k, b) in product(enumerate(FEWER), enumerate(FEWER)):
            joint[i - 1, j, k] = losses[i, before, b] - losses[()] - own[i - 1, j] - own[i, k]
    return own, joint


@dataclass(frozen=True)
class Mixture:
    """What was chosen, and what it is worth.

    Attributes:
        bits: of each block's activations.
        loss: negative log-likelihood of a token of calibration with them.
        uniform: with the whole number of bits below the wanted mean in every block.
        full: with 8 bits throughout.
    """

    bits: list[int]
    loss: float
    uniform: float
    full: float


def mix_activations(
    space: Workspace, skeleton: Skeleton, calibration: Calibration, settings: Settings, control: Control
) -> Mixture:
    """Chooses bits for the activations of every block and writes them into the configuration.

    The choice is held against the same bits for all, by the likelihood itself, and the better of the two is taken.

    Raises:
        InputError: the model scores no tokens.
        Stopped: what has been computed stays, and is gone on with.
    """
    config = read_json(space.folder / CONFIG)
    modules: dict[str, dict[str, Any]] = config["quantization_config"]["modules"]
    tokens = _tokens(calibration)
    content = f"{calibration.digest()} {tokens.shape} {sorted(modules.items())}".encode()
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    race = _Race(space, skeleton, modules, tokens, control, digest)
    blocks = len(skeleton.blocks)
    losses, clips = race.run(variants(blocks))
    own, joint = costs(losses, blocks)
    chosen = allocate_bits(own, joint if len(joint) else None, MIXED_ACT_BITS, settings.avg_act_bits, BETA)
    same = [max(bits for bits in MIXED_ACT_BITS if bits <= settings.avg_act_bits)] * blocks
    loss, uniform = race.compare([chosen, same])
    if uniform < loss:
        chosen, loss = same, uniform
    for name, by_bits in clips.items():
        bits = chosen[int(name.removeprefix(skeleton.prefix + ".").partition(".")[0])]
        modules[name] |= {"act_bits": bits, "act_clip": by_bits[str(bits)]}
    write_json(space.folder / CONFIG, config, indent=2)
    return Mixture(chosen, loss, uniform, losses[()])


def _tokens(calibration: Calibration) -> NDArray[np.int64]:
    """The first sequences, shortened."""
    length = min(LENGTH, calibration.tokens.shape[1])
    return calibration.tokens[: max(1, TOKENS // length), :length]


@dataclass
class _Race:
    """All variants on their way through the model."""

    space: Workspace
    skeleton: Skeleton
    modules: Modules
    tokens: NDArray[np.int64]
    control: Control
    digest: str

    def run(self, keys: list[Key]) -> tuple[dict[Key, float], dict[str, dict[str, float]]]:
        """The loss of each, and the clip factors of each linear for each number of bits."""
        first, calls = embed(self.skeleton, self.tokens)
        hidden = self._file(len(keys), first)
        done, clips = self._resume()
        if not done:
            hidden[0] = first.numpy()
        for index in range(done, len(self.skeleton.blocks)):
            with self._quantized(index, calls[index], torch.from_numpy(np.array(hidden[0]))) as (
                block,
                rounded,
            ):
                self._step(index, block, rounded, calls[index], hidden, keys)
            clips |= {name: {str(b): clip for b, clip in r.clips.items()} for name, r in rounded.items()}
            hidden.flush()
            write_json(self._state, {"digest": self.digest, "done": index + 1, "clips": clips})
            self.control.on_block(
                (index + 1, f"activations of {self.skeleton.block_name(index)}", len(calls))
            )
        return dict(zip(keys, self._losses(hidden), strict=True)), clips

    def compare(self, choices: list[list[int]]) -> list[float]:
        """The losses with some choices of bits for all blocks."""
        first, calls = embed(self.skeleton, self.tokens)
        hidden = first.numpy()[None].repeat(
            len(choices) + 1, 0
        )  # the last is the base, which clips were chosen on
        for index, call in enumerate(calls):
            with self._quantized(index, call, torch.from_numpy(hidden[-1].copy())) as (block, rounded):
                for k, bits in enumerate([*choices, [BASE] * len(calls)]):
                    self._pass(block, rounded, call, bits[index], [(k, k)], hidden)
        return self._losses(hidden[:-1])

    def _losses(self, hidden: NDArray[np.float32]) -> list[float]:
        with loaded_tail(self.skeleton) as tail, torch.no_grad(), sequences_on(self.control.threads) as each:
            return each(lambda states: self._loss(tail, states), list(hidden))

    @property
    def _state(self) -> Path:
        return self.space.work / "mixing.json"

    def _file(self, count: int, first: torch.Tensor) -> np.memmap[Any, np.dtype[np.float32]]:
        """Room for the hidden states of all variants."""
        path = self.space.work / "mixing.hidden"
        shape = (count, *first.shape)
        size = 4 * count * first.numel()
        mode: Any = "r+" if path.is_file() and path.stat().st_size == size else "w+"
        if mode == "w+":
            check_space(self.space.folder, size)
            self._state.unlink(missing_ok=True)
        return np.memmap(os.fspath(path), np.float32, mode, shape=shape)

    def _resume(self) -> tuple[int, dict[str, dict[str, float]]]:
        """How many blocks are done, and their clip factors."""
        state = read_json(self._state) if self._state.is_file() else {}
        return (state["done"], state["clips"]) if state.get("digest") == self.digest else (0, {})

    def _step(
        self,
        index: int,
        block: nn.Module,
        rounded: Mapping[str, Rounded],
        call: Call,
        hidden: NDArray[np.float32],
        keys: list[Key],
    ) -> None:
        """Takes every variant that has parted from others before through one block, and lets new ones part."""
        place = {key: k for k, key in enumerate(keys)}
        for b in FEWER:
            ways = [(place[()], place[index, b])]
            if index:
                ways += [(place[index - 1, before], place[index, before, b]) for before in FEWER]
            self._pass(block, rounded, call, b, ways, hidden)
        parted = [k for k, key in enumerate(keys) if not key or key[0] < index]
        self._pass(block, rounded, call, BASE, [(k, k) for k in parted], hidden)

    def _pass(
        self,
        block: nn.Module,
        rounded: Mapping[str, Rounded],
        call: Call,
        bits: int,
        ways: list[tuple[int, int]],
        hidden: NDArray[np.float32],
    ) -> None:
        """Takes hidden states through a block at some bits, from places to places."""
        for linear in rounded.values():
            linear.bits = bits

        def one(way: tuple[int, int]) -> None:
            self.control.poll()
            with torch.no_grad():
                for i in range(hidden.shape[1]):
                    x = torch.from_numpy(np.array(hidden[way[0], i : i + 1]))
                    hidden[way[1], i : i + 1] = call(block, x).numpy()

        with sequences_on(self.control.threads) as each:
            each(one, ways)

    @contextmanager
    def _quantized(
        self, index: int, call: Call, base: torch.Tensor
    ) -> Iterator[tuple[nn.Module, dict[str, Rounded]]]:
        """Within, a block has its quantized weights, and its linears round what they read."""
        block = self.skeleton.blocks[index]
        tensors = self.space.tensors(index)
        linears = {name: m for name, m in self.skeleton.linears(index).items() if name in self.modules}
        with self.skeleton.loaded(self.skeleton.block_tensors(index)):
            quantized = {name: restored(name, self.modules[name], tensors) for name in linears}
            for name, found in quantized.items():
                self.skeleton.put_linear(name, found.dequantize(), tensors.get(f"{name}.bias"))
            seen = observe_block(
                block,
                call,
                base,
                linears,
                self.control.threads,
                poll=self.control.poll,
                sample=SAMPLE,
                advance=False,
            )
            rounded = {}
            for lead, names in seen.groups.items():
                for name in names:
                    sample = seen.samples.get(lead, np.zeros((1, linears[name].in_features), np.float32))
                    rounded[name] = Rounded(quantized[name], linears[name].bias, sample, MIXED_ACT_BITS)
            for name, linear in rounded.items():
                self.skeleton.model.set_submodule(name, linear)
            try:
                yield block, rounded
            finally:
                for name, module in linears.items():
                    self.skeleton.model.set_submodule(name, module)

    def _loss(self, tail: Tail, hidden: NDArray[np.float32]) -> float:
        """Mean negative log-likelihood of every token but the first of each sequence."""
        self.control.poll()
        total = 0.0
        for row, states in zip(self.tokens, hidden, strict=True):
            scores = tail(torch.from_numpy(np.array(states[None])))[0, :-1].float()
            total += float(functional.cross_entropy(scores, torch.from_numpy(row[1:]), reduction="sum"))
        return total / (self.tokens.size - len(self.tokens))
