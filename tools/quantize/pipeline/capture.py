"""Runs calibration through a model block by block, and collects what every linear of a block reads.

Sequences are shared out to threads, each of which computes with one: torch would otherwise split sums by the number of
threads, and the last bits of every Hessian with them. Hidden states are there once: each block's take the place of
those before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from icml.formats.errors import InputError
from icml.tools.quantize.hessian import Hessian
from icml.tools.quantize.pipeline.skeleton import Skeleton, StandIn

Inputs = dict[str, NDArray[np.float32]]
Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]


def _nothing() -> None:
    pass


class _Reached(Exception):
    """The last block has been called."""


class _Recorder(StandIn):
    """Notes how a block is called, and passes the hidden states on."""

    def __init__(
        self, block: nn.Module, calls: list[tuple[tuple[Any, ...], dict[str, Any]]], last: bool
    ) -> None:
        super().__init__(block)
        self._calls = calls
        self._last = last

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        self._calls.append((args, kwargs))
        if self._last:
            raise _Reached
        return _hidden((args, kwargs))


@dataclass(frozen=True)
class Call:
    """What a block is called with beside the hidden states: the same for every sequence."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    by_name: bool

    def __call__(self, block: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
        args, kwargs = ((), {"hidden_states": hidden}) if self.by_name else ((hidden, *self.args), {})
        out = block(*args, **kwargs, **self.kwargs)
        result: torch.Tensor = out[0] if isinstance(out, tuple) else out
        return result


@contextmanager
def sequences_on(threads: int) -> Iterator[Each]:
    """Within, torch and BLAS compute on one thread; yields a map over `threads` of them."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
            yield lambda f, items: list(map(f, items)) if threads == 1 else list(pool.map(f, items))
    finally:
        torch.set_num_threads(before)


def embed(skeleton: Skeleton, tokens: NDArray[np.int64]) -> tuple[torch.Tensor, list[Call]]:
    """The hidden states that reach the first block, [sequences, length, width], and how each block is called.

    Of the input embedding only the rows of these tokens are read.

    Raises:
        InputError: the architecture gives its blocks something that depends on the tokens.
    """
    first, last = skeleton.embedding_names()
    names = [name for name in skeleton.other_tensors() if name not in (first, last)]
    with skeleton.loaded(names), _few_rows(skeleton, tokens), torch.no_grad(), sequences_on(1):
        calls = _record(skeleton, tokens[0])
        hidden = torch.empty(len(tokens), *_hidden(calls[0]).shape[1:])
        hidden[0] = _hidden(calls[0])
        for i, row in enumerate(tokens[1:], 1):
            others = _record(skeleton, row)
            _check_same(skeleton, calls, others)
            hidden[i] = _hidden(others[0])
    return hidden, [_call(*call) for call in calls]


@contextmanager
def _few_rows(skeleton: Skeleton, tokens: NDArray[np.int64]) -> Iterator[None]:
    """Within, the input embedding holds only the rows of some tokens, and finds them by the ordinary numbers."""
    name, _ = skeleton.embedding_names()
    if name is None:
        raise InputError(f"{type(skeleton.model).__name__} has no input embedding", skeleton.source.name)
    module = skeleton.model.get_input_embeddings()
    used = np.unique(tokens)
    numbers = torch.from_numpy(used)
    old, padding = module.weight, getattr(module, "padding_idx", None)

    def renumber(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (torch.searchsorted(numbers, args[0]), *args[1:])

    hook = module.register_forward_pre_hook(renumber)
    module.padding_idx = None
    module.weight = nn.Parameter(torch.from_numpy(skeleton.rows(name, used)), requires_grad=False)
    try:
        yield
    finally:
        hook.remove()
        module.weight, module.padding_idx = old, padding


def _record(skeleton: Skeleton, row: NDArray[np.int64]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """What each block is called with for a sequence, none of them computing anything."""
    base = skeleton.model.base_model
    originals = list(skeleton.blocks)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for i, block in enumerate(originals):
        skeleton.blocks[i] = _Recorder(block, calls, i == len(originals) - 1)
    try:
        base(input_ids=torch.from_numpy(row[None]))
    except _Reached:
        pass
    finally:
        for i, block in enumerate(originals):
            skeleton.blocks[i] = block
    if len(calls) != len(originals):
        raise InputError(
            f"{type(base).__name__} does not call its blocks one after the other", skeleton.source.name
        )
    return calls


def _hidden(call: tuple[tuple[Any, ...], dict[str, Any]]) -> torch.Tensor:
    args, kwargs = call
    found: torch.Tensor = args[0] if args else kwargs["hidden_states"]
    return found


def _call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    rest = {name: value for name, value in kwargs.items() if name != "hidden_states"}
    return Call(args[1:], rest, by_name=not args)


def _check_same(skeleton: Skeleton, first: list[Any], other: list[Any]) -> None:
    for one, two in zip(first, other, strict=True):
        a, b = _call(*one), _call(*two)
        if not _equal((a.args, a.kwargs), (b.args, b.kwargs)):
            raise InputError(
                f"{type(skeleton.model).__name__} gives its blocks inputs that depend on the tokens",
                skeleton.source.name,
            )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return a is b or bool(a == b)


@dataclass
class BlockInputs:
    """What the linears of a block have read.

    Attributes:
        groups: linears that read the same input, by the name of the first of them.
        hessians: of each group.
        samples: some rows of each group's input, if asked for.
    """

    groups: dict[str, list[str]] = field(default_factory=dict)
    hessians: dict[str, Hessian] = field(default_factory=dict)
    samples: Inputs = field(default_factory=dict)


def all_finite(hidden: torch.Tensor) -> bool:
    """Whether there is no NaN and no infinity."""
    return all(bool(torch.isfinite(row.sum())) for row in hidden)


def run_block(
    block: nn.Module, call: Call, hidden: torch.Tensor, threads: int, poll: Callable[[], None] = _nothing
) -> None:
    """Puts the hidden states after a block in the place of those before it."""

    def one(i: int) -> None:
        poll()
        with torch.no_grad():
            hidden[i : i + 1] = call(block, hidden[i : i + 1])

    with sequences_on(threads) as each:
        each(one, range(len(hidden)))


def observe_block(
    block: nn.Module,
    call: Call,
    hidden: torch.Tensor,
    linears: dict[str, nn.Linear],
    threads: int,
    *,
    poll: Callable[[], None] = _nothing,
    sample: int = 0,
    advance: bool = True,
) -> BlockInputs:
    """What the linears of a block read.

    Args:
        block: the module, with its weights.
        call: how it is called.
        hidden: the hidden states before it, and on return those after it.
        linears: those of its linears to watch, by name.
        threads: how many sequences at a time.
        poll: called now and then; may raise.
        sample: rows of each input to keep, from all sequences.
        advance: False leaves `hidden` as it is.
    """
    seen = threading.local()
    result = BlockInputs()
    hooks = [module.register_forward_pre_hook(_keeper(seen, name)) for name, module in linears.items()]
    share = -(-sample // len(hidden))

    def one(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        poll()
        seen.inputs = {}
        with torch.no_grad():
            out = call(block, hidden[i : i + 1])
        return out, seen.inputs

    try:
        with sequences_on(threads) as each:
            for start in range(0, len(hidden), threads):
                done = each(one, range(start, min(start + threads, len(hidden))))
                pieces = [inputs for _, inputs in done]
                if not start:
                    result.groups = _group(pieces[0], linears)
                    result.hessians = {lead: Hessian(linears[lead].in_features) for lead in result.groups}
                each(lambda lead: _add(result, lead, pieces, share), list(result.groups))  # noqa: B023
                for i, (out, _) in enumerate(
                    done if advance else []
                ):  # last: inputs may be views of `hidden`
                    hidden[start + i] = out[0]
    finally:
        for hook in hooks:
            hook.remove()
    return result


def _keeper(seen: threading.local, name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
    def keep(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        seen.inputs[name] = args[0]

    return keep


def _group(inputs: dict[str, torch.Tensor], linears: dict[str, nn.Linear]) -> dict[str, list[str]]:
    """Linears that were given the very same tensor, by the first of them in the model's order."""
    groups: dict[str, list[str]] = {}
    leads: dict[Any, str] = {}
    for name in linears:
        x = inputs.get(name)
        key = name if x is None else (x.data_ptr(), x.shape, x.stride())
        groups.setdefault(leads.setdefault(key, name), []).append(name)
    return groups


def _add(result: BlockInputs, lead: str, pieces: list[dict[str, torch.Tensor]], share: int) -> None:
    for inputs in pieces:
        if lead not in inputs:
            continue
        x = inputs[lead].reshape(-1, inputs[lead].shape[-1]).numpy()
        result.hessians[lead].update(x)
        if share and len(x):
            chosen = x[np.linspace(0, len(x) - 1, min(share, len(x))).astype(int)]
            kept = result.samples.get(lead, x[:0])
            result.samples[lead] = np.concatenate([kept, chosen])
