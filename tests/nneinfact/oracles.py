"""The method as plainly as it can be written: loops over cells and latent indices, nothing shared, nothing clever."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from icml.tools.nneinfact.control import Guard
from icml.tools.nneinfact.engine import Engine
from icml.tools.nneinfact.engines import Setup, make_engine
from icml.tools.nneinfact.losses import Divergence
from icml.tools.nneinfact.model import Model

Array = NDArray[np.float64]
GRID = [
    (a, b)
    for a in (-2, -1, -0.5, -0.1, 0.05, 0.3, 0.5, 1, 1.5, 2.5)
    for b in (-2, -1, -0.5, 0, 0.3, 0.5, 1, 1.5, 2.5)
]
LIMITS = [(1, 0), (2, 0), (0.5, -0.5), (1, -1), (-1, 1), (0, 1), (0, 0.5), (0, -1), (0, 2), (0, 0)]


def loop_model(model: Model, factors: Sequence[Array], cell: tuple[int, ...], sizes: dict[str, int]) -> float:
    """ŷ of one cell."""
    return sum(
        math.prod(f[tuple(at[c] for c in s)] for s, f in zip(model.factors, factors, strict=True))
        for at in _assignments(model, cell, sizes)
    )


def loop_gradient(
    model: Model, factors: Sequence[Array], i: int, *, y: Array, weight: Array, d: Divergence
) -> tuple[Array, Array]:
    """Numerator and denominator of factor i, term by term."""
    sizes = all_sizes(model, factors)
    num, den = np.zeros_like(factors[i]), np.zeros_like(factors[i])
    for cell in np.ndindex(y.shape):
        if weight[cell] == 0:
            continue
        x = loop_model(model, factors, cell, sizes)
        up, down = (float(t) for t in d.terms(np.float64(y[cell]), np.float64(x)))
        for at in _assignments(model, cell, sizes):
            others = math.prod(
                f[tuple(at[c] for c in s)]
                for k, (s, f) in enumerate(zip(model.factors, factors, strict=True))
                if k != i
            )
            where = tuple(at[c] for c in model.factors[i])
            num[where] += weight[cell] * up * others
            den[where] += weight[cell] * down * others
    return num, den


def full(model: Model, factors: Sequence[Array]) -> Array:
    """ŷ of all cells, by one numpy.einsum."""
    return np.einsum(model.text, *factors)


def plain_sweep(
    model: Model, factors: Sequence[Array], y: Array, d: Divergence, weight: Array | None = None
) -> list[Array]:
    """One block sweep as the paper writes it, ŷ made anew for every factor."""
    out = [np.array(f) for f in factors]
    w = np.ones(y.shape) if weight is None else weight
    for i in range(len(out)):
        up, down = d.terms(y, full(model, out))
        others = [f for k, f in enumerate(out) if k != i]
        text = ",".join([model.output, *(s for k, s in enumerate(model.factors) if k != i)])
        num, den = (np.einsum(f"{text}->{model.factors[i]}", w * t, *others) for t in (up, down))
        out[i] = out[i] * (np.exp(d.exponent * num / den) if d.alpha == 0 else (num / den) ** d.exponent)
    return out


def all_sizes(model: Model, factors: Sequence[Array]) -> dict[str, int]:
    return {
        c: n for s, f in zip(model.factors, factors, strict=True) for c, n in zip(s, f.shape, strict=True)
    }


def random_factors(model: Model, sizes: dict[str, int], seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.gamma(2.0, 0.5, model.shape(i, sizes)) + 0.05 for i in range(len(model.factors))]


def engine_for(
    model: Model,
    sizes: dict[str, int],
    data: object,
    d: Divergence,
    *,
    dtype: str = "float64",
    path: str = "auto",
    threads: int = 1,
    poll: Callable[[], None] | None = None,
    device: str = "cpu",
) -> Engine:
    latent = {c: sizes[c] for c in model.latent}
    setup = Setup(model, d, latent, dtype, path, threads, None, device)
    return make_engine(setup, data, poll or Guard(None, None).poll)  # type: ignore[arg-type]


@st.composite
def models(
    draw: st.DrawFn, observed: str = "ijk", latent: str = "rs", most: int = 4
) -> tuple[Model, dict[str, int]]:
    """A random admissible model string with small sizes for its letters."""
    output = "".join(draw(st.permutations(observed[: draw(st.integers(1, len(observed)))])))
    hidden = latent[: draw(st.integers(0, len(latent)))]
    letters = output + hidden
    subsets = [
        frozenset(s) for k in range(1, min(len(letters), 4) + 1) for s in itertools.combinations(letters, k)
    ]
    chosen = draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=most, unique=True))
    missing = set(output) - set().union(*chosen)
    if missing:
        chosen = [*chosen[:-1], chosen[-1] | missing]
    chosen = list(dict.fromkeys(chosen))
    factors = ["".join(draw(st.permutations(sorted(s)))) for s in chosen]
    model = Model.parse(",".join(factors) + "->" + output)
    sizes = {c: draw(st.integers(1, 5 if c in output else 3)) for c in model.letters}
    return model, sizes


def _assignments(model: Model, cell: tuple[int, ...], sizes: dict[str, int]) -> list[dict[str, int]]:
    """All values of all letters that belong to a cell."""
    fixed = dict(zip(model.output, cell, strict=True))
    spans = [range(sizes[c]) for c in model.latent]
    return [{**fixed, **dict(zip(model.latent, at, strict=True))} for at in itertools.product(*spans)]
