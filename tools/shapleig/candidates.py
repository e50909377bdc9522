"""Which coalitions are looked at: the first ones to evaluate, and the ones a criterion chooses from.

Randomness is counter-based: every draw is keyed by the seed and by how many evaluations there are, so that the
next coalition is a function of the study and not of the process that asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from icml.tools.shapleig.semivalues import Array

Coalition = bytes
"""A coalition as a dictionary key: one byte a player, 0 or 1."""
Mask = NDArray[np.bool_]

ENUMERATED = 65_536
"""All coalitions are candidates up to this many of them."""


def generator(seed: int, stream: int, step: int = 0) -> np.random.Generator:
    """The random numbers of one purpose at one step."""
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=[0, 0, 0, step])
    )


def signs(masks: Mask) -> Array:
    """Coalitions in +-1, as the kernel takes them."""
    result: Array = np.where(masks, 1.0, -1.0)
    return result


def key_of(mask: Mask) -> Coalition:
    """The coalition (p,) as a key."""
    return np.ascontiguousarray(mask, dtype=np.bool_).tobytes()


def mask_of(key: Coalition) -> Mask:
    """The key as a coalition (p,)."""
    return np.frombuffer(key, dtype=np.bool_)


def initial_coalitions(players: int, seed: int) -> Iterator[Coalition]:
    """None, all, then coalitions of uniformly drawn size, each followed by its complement; never one twice.

    Ends when every coalition has come.
    """
    rng = generator(seed, 0)
    seen = {bytes(players), b"\x01" * players}
    yield bytes(players)
    yield b"\x01" * players
    total = 2**players if players < 60 else None
    while len(seen) != total:
        mask = sized_coalitions(rng, 1, players)[0]
        for key in (key_of(mask), key_of(~mask)):
            if key not in seen:
                seen.add(key)
                yield key


def sized_coalitions(rng: np.random.Generator, count: int, players: int) -> Mask:
    """Random coalitions (count, p) of sizes uniform on 1 .. p - 1: leverage-score sampling (Musco, Witter 2025)."""
    sizes = rng.integers(1, players, count)
    ranks = np.argsort(np.argsort(rng.random((count, players)), axis=1), axis=1)
    result: Mask = ranks < sizes[:, None]
    return result


def pool(
    players: int,
    known: Collection[Coalition],
    evaluated: Mask,
    promising: Mask,
    *,
    seed: int,
    step: int,
    size: int,
) -> Mask:
    """The coalitions (n, p) to choose from, none of them known.

    Args:
        players: how many.
        known: coalitions that must not be offered.
        evaluated: the coalitions (t, p) whose neighbours are worth a look.
        promising: coalitions (k, p) that scored well before.
        seed: of the study.
        step: evaluations so far.
        size: how many to offer when not all can be.
    """
    if 2**players <= ENUMERATED:
        codes = np.arange(2**players)
        taken = np.zeros(2**players, dtype=bool)
        if known:
            masks = np.frombuffer(b"".join(known), dtype=np.bool_).reshape(-1, players)
            taken[masks @ (1 << np.arange(players))] = True
        rest: Mask = (codes[~taken, None] >> np.arange(players)) & 1 == 1
        return rest
    rng = generator(seed, 1, step)
    drawn = sized_coalitions(rng, size - size // 2, players)
    centres = np.vstack([evaluated, promising]) if len(promising) else evaluated
    if len(centres):
        near = centres[rng.integers(0, len(centres), size // 2)]
        near = near ^ _flips(rng, len(near), players)
        drawn = np.vstack([drawn, near])
    return distinct(drawn, known)


def neighbours(mask: Mask, known: Collection[Coalition]) -> Mask:
    """The unknown coalitions that differ from `mask` (p,) in one player."""
    return distinct(mask ^ np.eye(len(mask), dtype=bool), known)


def distinct(masks: Mask, known: Collection[Coalition]) -> Mask:
    """The rows that are not known, each once, in order."""
    kept = {key_of(mask): None for mask in masks}
    rows = [key for key in kept if key not in known]
    return np.frombuffer(b"".join(rows), dtype=np.bool_).reshape(-1, masks.shape[1])


def best(scores: Array, masks: Mask) -> int:
    """The index of the highest score; of those within 1e-9 of it, the lowest coalition code.

    So that runs repeat on any machine.
    """
    top = float(scores.max())
    tied = np.flatnonzero(scores >= top - 1e-9 * abs(top))
    if len(tied) == 1:
        return int(tied[0])
    order = np.lexsort(masks[tied].T)
    return int(tied[order[0]])


def _flips(rng: np.random.Generator, count: int, players: int) -> Mask:
    """One or two players a row, (count, p)."""
    flips = np.zeros((count, players), dtype=bool)
    rows = np.arange(count)
    flips[rows, rng.integers(0, players, count)] = True
    second = rng.random(count) < 0.5
    flips[rows[second], rng.integers(0, players, int(second.sum()))] = True
    return flips
