"""Few-shot distillation: the codes stay, and the numbers around them learn to make the model say what it said before.

Trained are the gains of inputs and outputs (su, sv) and the affine map (a, b) of each trellis-coded linear and the
gains of the norms, a third of a percent of the parameters, by the Kullback-Leibler divergence from the original's
distribution of the next token. Of that the 64 likeliest tokens are kept and the rest as one. The last tenth of the
calibration is held out: the state with the least divergence there is taken, and that may be the first.

In memory are the model in float32 and, for each calibration token, 64 tokens with their probabilities (396 bytes).
Every sequence is computed by one thread and gradients are added in their order, so that threads change no bit.

Source: Proteus (ICML 2026), reconstructed from its abstract.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from icml.formats.errors import InputError
from icml.formats.safetensors import RawTensor, SafetensorsFile, to_dtype, write_safetensors
from icml.tools.quantize.pipeline.calibration import Calibration
from icml.tools.quantize.pipeline.capture import Each, sequences_on
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.finished import Finished
from icml.tools.quantize.pipeline.settings import TIED
from icml.tools.quantize.pipeline.skeleton import Skeleton, check_language_model, put_tensor
from icml.tools.quantize.pipeline.workspace import METADATA, Workspace
from icml.tools.quantize.proteus import ProteusLinear

LIKELIEST = 64
LENGTH = 512  # tokens of a training sequence, at most
BATCH = 2  # sequences of a step
SPREAD = 148.0  # of byte sums, about
DISTILLED = "distilled.safetensors"


@dataclass(frozen=True)
class Recipe:
    """How it is trained.

    Attributes:
        steps: of Adam, each on two sequences.
        rate: highest learning rate, of a one-cycle schedule.
        clip: of the gradient's norm.
        seed: of the order of sequences.
    """

    steps: int
    rate: float = 6e-3
    clip: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Distilled:
    """Mean divergence from the original on the held-out sequences, nats a token, before and after."""

    before: float
    after: float


def check_distillable(skeleton: Skeleton, calibration: Calibration) -> None:
    """Raises InputError if there is no next token to learn, or not enough text to hold some out."""
    check_language_model(skeleton, "--distill")
    if len(_sequences(calibration)) < 2:
        raise InputError("--distill needs at least two sequences of calibration text", calibration.source)


def distill(
    space: Workspace, skeleton: Skeleton, calibration: Calibration, recipe: Recipe, control: Control
) -> Distilled:
    """Trains the model in a workspace and writes what was learnt into its files.

    Raises:
        Stopped: `control.should_stop` said so; the files are as they were.
        WorkError: the disk is full.
    """
    kept = space.work / DISTILLED
    stored = SafetensorsFile(kept) if kept.is_file() else None
    if stored is not None and stored.metadata.get("recipe") == repr(recipe):  # an earlier run came so far
        _apply(space, stored)
        return Distilled(float(stored.metadata["before"]), float(stored.metadata["after"]))
    sequences = _sequences(calibration)
    whole = skeleton.loaded(list(skeleton.homes))
    with whole, skeleton.head_tied(), sequences_on(control.threads) as each:
        targets = each(lambda row: _target(skeleton.model, row, control), list(sequences))
        with _student(space, skeleton, control) as student:
            trainer = _Trainer(student, skeleton.model, sequences, targets, recipe, control, each)
            result = trainer.run()
            tensors = student.tensors()
    metadata = {
        **METADATA,
        "recipe": repr(recipe),
        "before": repr(result.before),
        "after": repr(result.after),
    }
    write_safetensors(kept, tensors, metadata)
    _apply(space, SafetensorsFile(kept))
    return result


def _sequences(calibration: Calibration) -> NDArray[np.int64]:
    """[sequences, length]: those of the calibration, cut into pieces of at most LENGTH."""
    length = calibration.tokens.shape[1]
    pieces = -(-length // LENGTH)
    size = length // pieces
    return calibration.tokens[:, : pieces * size].reshape(-1, size)


@dataclass(frozen=True)
class _Target:
    """The original's distribution at each position: the likeliest tokens, their log-probabilities, and the rest's."""

    tokens: torch.Tensor
    logs: torch.Tensor
    rest: torch.Tensor

    def divergence(self, logits: torch.Tensor) -> torch.Tensor:
        """Mean Kullback-Leibler divergence of softmax(logits) [length, vocabulary] from it, nats."""
        found = functional.log_softmax(logits, -1).gather(-1, self.tokens.long())
        logs, rest = self.logs.float(), self.rest.float()
        others = torch.log1p(-found.exp().sum(-1).clamp(max=1 - 1e-6))
        part = (logs.exp() * (logs - found)).sum(-1) + rest.exp() * (rest - others)
        return part.mean()


def _target(model: Any, row: NDArray[np.int64], control: Control) -> _Target:
    control.poll()
    with torch.no_grad():
        logs = functional.log_softmax(_logits(model, row), -1)
        best, tokens = logs.topk(min(LIKELIEST, logs.shape[-1]), -1)
        best = best.half()
        rest = torch.log1p(-best.float().exp().sum(-1).clamp(max=1 - 1e-6)).half()
    return _Target(tokens.int(), best, rest)


def _logits(model: Any, row: NDArray[np.int64]) -> torch.Tensor:
    logits: torch.Tensor = model(torch.from_numpy(row[None]), use_cache=False).logits[0].float()
    return logits


class _Linear(nn.Module):
    """A trellis-coded linear with its codes fixed: diag(sv) (a M + b u vᵀ) diag(su), M the codes rotated back."""

    codes: torch.Tensor
    ones_out: torch.Tensor
    ones_in: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, quantized: ProteusLinear, bias: torch.Tensor | None, threads: int) -> None:
        super().__init__()
        m, n = quantized.shape
        plain = quantized.replace(
            np.ones(n, np.float32), np.ones(m, np.float32), np.array([1, 0], np.float32)
        )
        self.register_buffer("codes", torch.from_numpy(plain.dequantize(threads=threads)))
        self.register_buffer("ones_out", _turned_back(quantized.rotation_out, m))
        self.register_buffer("ones_in", _turned_back(quantized.rotation_in, n))
        self.register_buffer("bias", bias)
        self.first = quantized
        self.su = nn.Parameter(torch.from_numpy(quantized.su.astype(np.float32)))
        self.sv = nn.Parameter(torch.from_numpy(quantized.sv.astype(np.float32)))
        # relative to a: of a, and of b, which moves all weights at once, in units of the codes' spread over sqrt(n)
        self.affine = nn.Parameter(torch.zeros(2))
        self.unit = SPREAD / n**0.5

    def scaled(self) -> torch.Tensor:
        """(a, b)."""
        a, b = (float(value) for value in self.first.affine)
        return torch.stack([a * (1 + self.affine[0]), b + a * self.unit * self.affine[1]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Ŵ x + bias."""
        a, b = self.scaled()
        h = x * self.su
        z = a * functional.linear(h, self.codes) + b * (h @ self.ones_in)[..., None] * self.ones_out
        out: torch.Tensor = self.sv * z
        return out if self.bias is None else out + self.bias

    def quantized(self) -> ProteusLinear:
        """With what was learnt, as it is stored."""
        su, sv, affine = (t.detach().numpy() for t in (self.su, self.sv, self.scaled()))
        return self.first.replace(su, sv, affine)


def _turned_back(rotation: Any, n: int) -> torch.Tensor:
    """Vᵀ 1."""
    ones = np.ones((1, n), np.float32)
    return torch.from_numpy(
        ones[0] if rotation is None else rotation.apply(ones, transpose=True, threads=1)[0]
    )


@dataclass
class _Student:
    """What is trained: linears by name, and gains of norms by the name of their tensor."""

    linears: dict[str, _Linear]
    gains: dict[str, nn.Parameter]
    dtypes: dict[str, str]

    def parameters(self) -> list[nn.Parameter]:
        """In a fixed order."""
        return [p for linear in self.linears.values() for p in linear.parameters()] + list(
            self.gains.values()
        )

    def tensors(self) -> dict[str, NDArray[Any] | RawTensor]:
        """As they are stored, by full name."""
        found: dict[str, NDArray[Any] | RawTensor] = {}
        for name, linear in self.linears.items():
            stored = linear.quantized().tensors()
            found |= {f"{name}.{suffix}": stored[suffix] for suffix in ("su", "sv", "affine")}
        for name, gain in self.gains.items():
            found[name] = to_dtype(gain.detach().numpy(), self.dtypes[name])
        return found


@contextmanager
def _student(space: Workspace, skeleton: Skeleton, control: Control) -> Iterator[_Student]:
    """Within, the skeleton's model has quantized linears and embeddings, ready to be trained."""
    made, model = Finished.open(space.folder), skeleton.model
    replaced: dict[str, nn.Module] = {}
    student = _Student({}, {}, {})
    try:
        with _quantized_embeddings(made, skeleton):
            for name, meta in made.modules.items():
                if "role" in meta:
                    continue
                quantized = made.linear(name)
                assert isinstance(quantized, ProteusLinear)
                bias = made.source.get(f"{name}.bias")
                shift = None if bias is None else torch.from_numpy(np.array(bias.float32()))
                student.linears[name] = _Linear(quantized, shift, control.threads)
                replaced[name] = model.get_submodule(name)
                model.set_submodule(name, student.linears[name])
            for name, gain in _gains(model, skeleton):
                gain.requires_grad_(True)
                student.gains[name] = gain
                student.dtypes[name] = skeleton.raw(name).dtype
            yield student
    finally:
        for name, module in replaced.items():
            model.set_submodule(name, module)


@contextmanager
def _quantized_embeddings(made: Finished, skeleton: Skeleton) -> Iterator[None]:
    """Within, embeddings that were quantized have the weights that came of it."""
    for name, meta in made.modules.items():
        if meta.get("role") not in (None, TIED):
            put_tensor(skeleton.model, f"{name}.weight", torch.from_numpy(made.linear(name).dequantize()))
    with skeleton.head_tied():
        yield


def _gains(model: nn.Module, skeleton: Skeleton) -> Iterator[tuple[str, nn.Parameter]]:
    """Weights of the norms, and their names."""
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if "norm" in type(module).__name__.lower() and isinstance(weight, nn.Parameter) and weight.ndim == 1:
            full = f"{name}.weight"
            if full in skeleton.homes and skeleton.raw(full).dtype in ("F32", "F16", "BF16"):
                yield full, weight


class _Trainer:
    def __init__(
        self,
        student: _Student,
        model: Any,
        sequences: NDArray[np.int64],
        targets: list[_Target],
        recipe: Recipe,
        control: Control,
        each: Each,
    ) -> None:
        self.parameters = student.parameters()
        self.model, self.sequences, self.targets = model, sequences, targets
        self.recipe, self.control, self.each = recipe, control, each
        held = max(1, min(len(sequences) // 10, 16))
        self.held = range(len(sequences) - held, len(sequences))

    def run(self) -> Distilled:
        recipe = self.recipe
        optimizer = torch.optim.Adam(self.parameters, recipe.rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=recipe.steps + 1)
        before = least = self._held_out()
        best = [p.detach().clone() for p in self.parameters]
        order = self._order()
        every = max(1, recipe.steps // 8)
        for step in range(1, recipe.steps + 1):
            self._step([next(order) for _ in range(BATCH)], optimizer)
            schedule.step()
            if step % every == 0 or step == recipe.steps:
                found = self._held_out()
                if found < least:
                    least, best = found, [p.detach().clone() for p in self.parameters]
            self.control.on_step((step, recipe.steps, least))
        with torch.no_grad():
            for parameter, value in zip(self.parameters, best, strict=True):
                parameter.copy_(value)
        return Distilled(before, least)

    def _order(self) -> Iterator[int]:
        rng = np.random.Generator(np.random.Philox([self.recipe.seed, 0xD157]))
        while True:
            yield from rng.permutation(self.held.start).tolist()

    def _step(self, chosen: list[int], optimizer: torch.optim.Optimizer) -> None:
        parts = self.each(self._gradient, chosen)
        for parameter, *gradients in zip(self.parameters, *parts, strict=True):
            parameter.grad = torch.stack(gradients).mean(0)
        nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        optimizer.step()

    def _gradient(self, index: int) -> tuple[torch.Tensor, ...]:
        self.control.poll()
        with torch.enable_grad():
            loss = self._loss(index)
            return torch.autograd.grad(loss, self.parameters)

    def _loss(self, index: int) -> torch.Tensor:
        return self.targets[index].divergence(_logits(self.model, self.sequences[index]))

    def _held_out(self) -> float:
        def one(index: int) -> float:
            self.control.poll()
            with torch.no_grad():
                return float(self._loss(index))

        return float(np.mean(self.each(one, list(self.held))))


def _apply(space: Workspace, learnt: SafetensorsFile) -> None:
    """Puts learnt tensors into the files of the workspace; doing it again changes nothing."""
    for unit in range(space.units):
        stored = space.tensors(unit)
        mine: dict[str, RawTensor] = {name: learnt[name] for name in stored if name in learnt}
        if mine:
            write_safetensors(space.weights_file(unit), {**stored, **mine}, METADATA)
