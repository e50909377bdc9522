"""Compares what verification programs wrote: with each other, and with the numpy executor on the same inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.tools.migrate.table.entry import Arg, Entry
from icml.tools.migrate.table.lanes import dtype
from icml.tools.migrate.table.pool import SLOT, SLOTS, canonical, kind_of, pools, slot
from icml.tools.migrate.table.program import CANARY, compared, output_layout, result_type, seed_of, variants
from icml.tools.migrate.table.types import Type

Array = NDArray[Any]


def inputs(entry: Entry, rounds: int) -> list[Any]:
    """What the program gives each parameter: arrays with one row per round, None for an immediate."""
    return [_input(arg, index, seed_of(entry), rounds) for index, arg in enumerate(entry.args)]


def _input(arg: Arg, index: int, seed: int, rounds: int) -> Any:
    if arg.kind == "imm":
        return None
    if arg.kind == "out":
        size = arg.count * arg.type.size
        return np.full((rounds, size), CANARY, dtype=np.uint8).view(dtype(arg.type))
    size = arg.count * arg.type.size if arg.kind in ("in", "tuple") else arg.type.size
    pool = np.frombuffer(pools()[kind_of(arg.type)], dtype=np.uint8)
    starts = np.array([slot(r, index, seed) for r in range(rounds)]) * SLOT
    data = pool[(starts[:, None] + np.arange(size)) % (SLOTS * SLOT)].view(dtype(arg.type)).copy()
    if arg.mask is not None:
        data &= dtype(arg.type).type(arg.mask)
    if arg.kind == "tuple":
        return list(np.split(data, arg.count, axis=1))
    return data if arg.type.lanes or arg.kind == "in" else data[:, 0]


def against_lanes(entries: Sequence[Entry], data: bytes, rounds: int) -> Iterator[tuple[str, str]]:
    """Entries whose numpy results are not those of the source ISA, with the first difference."""
    start = 0
    for entry in entries:
        size = sum(part for part, _ in output_layout(entry)) * len(variants(entry)) * rounds
        theirs, start = data[start : start + size], start + size
        ours = lanes_output(entry, rounds)
        if ours == theirs or (entry.tolerance is not None and within_tolerance(entry, theirs, ours)):
            continue
        yield entry.name, first_difference(entry, theirs, ours)


def lanes_output(entry: Entry, rounds: int) -> bytes:
    """What the program would write, computed by the numpy executor."""
    values = inputs(entry, rounds)
    layout = output_layout(entry)
    columns = []
    for chosen in variants(entry):
        immediates = iter(chosen)
        arguments = [next(immediates) if value is None else value for value in values]
        results = entry.arrays(*arguments)
        if not entry.stores:
            results = [np.concatenate([_rows(part, rounds) for part in results], axis=1)]
        for result, (size, kind) in zip(results, layout, strict=True):
            rows = np.ascontiguousarray(canonical(_rows(result, rounds), kind)).view(np.uint8)
            columns.append(rows.reshape(rounds, -1)[:, :size])
    return np.concatenate(columns, axis=1).tobytes()


def _rows(part: Array, rounds: int) -> Array:
    """One row of numbers per round, even where the result does not depend on the inputs."""
    rows = part.reshape(part.shape[0], -1) if part.ndim and part.shape[0] == rounds else part.reshape(1, -1)
    return np.ascontiguousarray(np.broadcast_to(rows, (rounds, rows.shape[1])))


def _places(entry: Entry) -> tuple[int, list[tuple[int, int, Type]]]:
    """Bytes per round, and for each piece of it its start, immediate's number and type."""
    if entry.stores:
        types = [(arg.type, arg.count) for arg in entry.args if arg.kind == "out"]
    else:
        type = result_type(entry)[0]
        types = [(type.element, compared(entry) // type.element.size)]
    pieces, start = [], 0
    for number in range(len(variants(entry))):
        for type, count in types:
            for _ in range(count):
                pieces.append((start, number, type))
                start += type.size
    return start, pieces


def first_difference(entry: Entry, theirs: bytes, ours: bytes) -> str:
    """Where two outputs differ first: the lane, the inputs and both results."""
    width, pieces = _places(entry)
    if len(theirs) != len(ours):
        return f"{len(ours)} bytes of results instead of {len(theirs)}"
    differs = np.nonzero(np.frombuffer(theirs, np.uint8) != np.frombuffer(ours, np.uint8))[0]
    if not len(differs):
        return "differs in later rounds alone"
    round_, offset = divmod(int(differs[0]), width)
    index = max(i for i, piece in enumerate(pieces) if piece[0] <= offset)
    start, number, type = pieces[index]
    lane = index - min(i for i, piece in enumerate(pieces) if piece[1] == number)
    place = round_ * width + start
    wanted, got = (np.frombuffer(d[place : place + type.size], dtype(type))[0] for d in (theirs, ours))
    chosen = iter(variants(entry)[number])
    shown = []
    for arg, value in zip(entry.args, inputs(entry, round_ + 1), strict=True):
        if value is None:
            shown.append(f"{arg.name}={next(chosen)}")
        elif arg.kind != "out":
            row = [part[round_] for part in value] if isinstance(value, list) else value[round_]
            shown.append(f"{arg.name}={np.array(row).tolist()}")
    return f"lane {lane} is {got}, not {wanted}, for {', '.join(shown)}"


def within_tolerance(entry: Entry, theirs: bytes, ours: bytes) -> bool:
    """Whether two outputs of an inexact entry agree to its relative error; infinities and NaNs must be the same."""
    type = result_type(entry)[0]
    assert entry.tolerance is not None
    wanted, got = (np.frombuffer(data, dtype(type)).astype(np.float64) for data in (theirs, ours))
    # What is below the normal range may have been flushed to zero.
    smallest = float(np.finfo(dtype(type)).tiny)
    with np.errstate(invalid="ignore"):
        close = np.abs(wanted - got) <= entry.tolerance * np.abs(wanted) + smallest
    return bool(np.all(close | (wanted == got) | (np.isnan(wanted) & np.isnan(got))))
