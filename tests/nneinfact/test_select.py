"""Structure search on the Uber pickups, pooled to 25 x 25 cells: custom structure against CP and Tucker."""

from __future__ import annotations

import numpy as np
import pytest
from support import EXAMPLES

from icml.formats.errors import InputError
from icml.tools.nneinfact import NNEinFact, select

# About 1,200 parameters each.
CUSTOM, CP, TUCKER = "wr,hr,dr,ikr,jkr->whdij", "ws,hs,ds,is,js->whdij", "wa,hb,dc,ie,jf,abcef->whdij"
SIZES = {"r": 4, "k": 5, "s": 11, "a": 3, "b": 4, "c": 3, "e": 3, "f": 3}


@pytest.fixture(scope="module")
def pooled() -> np.ndarray:  # type: ignore[type-arg]
    y = np.load(EXAMPLES / "uber_pickups.npz")["Y"]
    return y.reshape(27, 24, 7, 25, 4, 25, 4).sum(axis=(4, 6))


def test_custom_structure_wins(pooled: np.ndarray) -> None:  # type: ignore[type-arg]
    template = NNEinFact(CUSTOM, max_iter=60, seed=0, restarts=2, threads=2)
    found = select([CP, TUCKER, CUSTOM], pooled, SIZES, template)
    assert [c.heldout_loss for c in found] == sorted(c.heldout_loss for c in found)
    assert found[0].model == CUSTOM
    assert max(c.parameters for c in found) < 1.2 * min(c.parameters for c in found)
    assert all(c.heldout_loss < 0.6 * c.null_heldout_loss for c in found)
    cells = {c.fitted.stats_.held_weight for c in found}
    assert len(cells) == 1  # scored on the same cells
    assert cells.pop() == pytest.approx(0.1 * pooled.size, rel=0.02)


def test_grid_of_ranks_and_errors() -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(5 * np.einsum("ir,jr->ij", rng.gamma(0.3, 1, (40, 3)), rng.gamma(0.3, 1, (50, 3))))
    template = NNEinFact("ir,jr->ij", {"r": 1}, holdout=0.2, max_iter=100, restarts=2)
    told: list[int] = []
    found = select(
        ["ir,jr->ij"], y, {"r": [1, 3, 25], "z": 4}, template, on_result=lambda c: told.append(c.sizes["r"])
    )
    assert told == [1, 3, 25]
    assert found[0].sizes == {"r": 3}
    with pytest.raises(InputError, match="no model"):
        select([], y, {}, template)
    with pytest.raises(InputError, match="not of the same observed letters"):
        select(["ir,jr->ij", "ir,kr->ik"], y, {"r": 2}, template)
    with pytest.raises(InputError, match="latent letter 'r'"):
        select(["ir,jr->ij"], y, {}, template)
