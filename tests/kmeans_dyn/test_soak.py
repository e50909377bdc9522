"""Long runs: memory stays flat, members and counts stay right."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from icml.tools.kmeans_dyn import DynamicKCenter, audit


def _resident() -> int:
    """Bytes of memory in use now."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * resource.getpagesize()


def _churn(updates: int, window: int, every: int, *, validate_every: int) -> list[int]:
    """Mixed updates: sliding, random deletions, drift, outliers; returns the memory in use at each query."""
    rng = np.random.default_rng(1)
    centers = rng.normal(size=(10, 4)) * 100
    model = DynamicKCenter(10, 20, seed=1)
    live = np.empty(0, np.int64)
    done = fresh = answers = 0
    memory = []
    while done < updates:
        size = every // 2
        centers += rng.normal(size=centers.shape) * 0.3
        x = centers[rng.integers(10, size=size)] + rng.normal(size=(size, 4))
        far = rng.random(size) < 12 / window
        x[far] *= 10 ** rng.uniform(2, 6, size=(int(far.sum()), 1))
        model.insert(np.arange(fresh, fresh + size), x)
        live = np.concatenate([live, np.arange(fresh, fresh + size)])
        fresh += size
        if answers % 2:
            live = rng.permutation(live)
        gone, live = live[: max(0, len(live) - window)], live[max(0, len(live) - window) :]
        model.delete(gone)
        done += size + len(gone)
        result = model.query()
        answers += 1
        if answers % validate_every == 0:
            assert model._structure is not None
            model._structure.validate()
            assert audit(model, result, bound=False).holds
        memory.append(_resident())
    assert len(model) == len(live)
    assert sorted(np.asarray(model.live()[0]).tolist()) == sorted(live.tolist())
    return memory


def test_a_hundred_thousand_updates() -> None:
    _churn(100_000, window=5000, every=2000, validate_every=1)


@pytest.mark.slow
def test_a_million_updates() -> None:
    """The size for the sanitizers."""
    _churn(1_000_000, window=20_000, every=10_000, validate_every=1)


@pytest.mark.slow
def test_ten_million_updates_in_flat_memory() -> None:
    memory = _churn(10_000_000, window=50_000, every=10_000, validate_every=100)
    settled = memory[len(memory) // 4 :]
    assert max(settled) <= 1.1 * settled[0] + (16 << 20)
