"""The split planner on odd and large model strings."""

from __future__ import annotations

import itertools
import string

import numpy as np
import pytest
from hypothesis import given, settings

from icml.formats.errors import InputError
from icml.tools.nneinfact.contraction import Contraction
from icml.tools.nneinfact.model import Model
from icml.tools.nneinfact.split import plan

from .oracles import full, models, random_factors


@settings(max_examples=150, deadline=None)
@given(models(observed="ijkl", latent="rst", most=6))
def test_split_reproduces_the_model(drawn: tuple[Model, dict[str, int]]) -> None:
    model, sizes = drawn
    for nnz in (None, 7):
        p = plan(model, sizes, nnz=nnz)
        assert sorted(p.left + p.right) == list(range(len(model.factors)))
        assert sorted(p.batch + p.rows + p.columns) == sorted(model.output)
        assert model.output[-1] not in p.rows
        factors = random_factors(model, sizes, 0)
        parts = [
            np.einsum(",".join(model.factors[i] for i in side) + "->" + letters, *(factors[i] for i in side))
            if side
            else np.ones([sizes[c] for c in letters])
            for side, letters in ((p.left, p.batch + p.rows + p.cut), (p.right, p.batch + p.columns + p.cut))
        ]
        text = f"{p.batch + p.rows + p.cut},{p.batch + p.columns + p.cut}->{model.output}"
        np.testing.assert_allclose(np.einsum(text, *parts), full(model, factors), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("wr,hr,dr,ikr,jkr->whdij", {"wr", "hr", "dr"}, {"ikr", "jkr"}),
        ("ir,jr->ij", {"ir"}, {"jr"}),
        ("irs->i", set(), {"irs"}),
        ("ir,js,kt,rst->ijk", {"ir"}, {"js", "kt", "rst"}),
    ],
)
def test_expected_splits(text: str, left: set[str], right: set[str]) -> None:
    sizes = {"w": 27, "h": 24, "d": 7, "i": 100, "j": 100, "k": 6, "r": 4, "s": 4, "t": 5}
    if "rst" in text:
        sizes |= {"i": 30, "j": 30, "k": 30}
    p = plan(text, sizes)
    sides = [{p.model.factors[i] for i in side} for side in (p.left, p.right)]
    if text.startswith("ir,js"):
        assert p.cut in ("r", "t")  # the core goes with two of the three, so that one latent letter is cut
    else:
        assert sides == [left, right]


def test_fourteen_factors() -> None:
    letters = string.ascii_lowercase[:14]
    sizes = dict.fromkeys(letters, 2) | {"R": 5}
    p = plan(",".join(c + "R" for c in letters) + "->" + letters, sizes)
    assert p.rank == 5
    assert p.shape[1] * p.shape[2] == 2**14


def test_memory_limit() -> None:
    sizes = {"i": 1000, "j": 1000, "k": 1000, "r": 10}
    tight = plan("ir,jr,kr->ijk", sizes, max_memory=400e6)
    assert tight.bytes <= 400e6
    with pytest.raises(InputError, match=r"needs .* MiB .* more than the 1 MiB allowed"):
        plan("ir,jr,kr->ijk", sizes, max_memory=2**20)
    with pytest.raises(
        InputError, match=r"the factors of model .*i=10000000000000, j=2, r=1.* MiB of this machine"
    ):
        plan("ir,jr->ij", {"i": 10**13, "j": 2, "r": 1}, nnz=5)
    with pytest.raises(InputError, match="letter 'r' of the model has no size"):
        plan("ir,jr->ij", {"i": 3, "j": 4})


@settings(max_examples=80, deadline=None)
@given(models(observed="ijk", latent="rst", most=6))
def test_contraction_is_einsum(drawn: tuple[Model, dict[str, int]]) -> None:
    model, sizes = drawn
    sizes = {c: n + 7 * (c in "ir") for c, n in sizes.items()}  # some pairs large enough for the kernel
    factors = random_factors(model, sizes, 3)
    for output in (model.output, model.output[::-1], model.latent, ""):
        c = Contraction(model.factors, output, sizes)
        np.testing.assert_allclose(
            c(*factors), np.einsum(",".join(model.factors) + "->" + output, *factors), rtol=1e-12
        )


def test_contraction_order_is_the_cheapest() -> None:
    """Against all orders of pairing, by exhaustion."""
    inputs, output = ["ab", "bc", "cd", "de", "ea"], "ac"
    sizes = dict(zip("abcde", (2, 9, 3, 8, 5), strict=True))

    def least(parts: list[str]) -> int:
        if len(parts) == 1:
            return 0
        costs = []
        for i, j in itertools.combinations(range(len(parts)), 2):
            rest = [s for k, s in enumerate(parts) if k not in (i, j)]
            both = set(parts[i]) | set(parts[j])
            kept = "".join(c for c in both if c in output or any(c in s for s in rest))
            cost = int(np.prod([sizes[c] for c in both])) + int(np.prod([sizes[c] for c in kept]))
            costs.append(cost + least([*rest, kept]))
        return min(costs)

    found = Contraction(inputs, output, sizes)
    results = sum(int(np.prod([sizes[c] for c in s.output])) for s in found._steps)
    assert found.flops + results == least(inputs)
