"""Structure search: the planted structure is found, and the held-out losses are what they say they are."""

from __future__ import annotations

import numpy as np
import pytest
from support import EXAMPLES

from icml.formats.errors import InputError
from icml.tools.nneinfact import NNEinFact, divergence, select
from icml.tools.nneinfact.cells import draw_cells

CUSTOM, CP, TUCKER = "wr,hr,dr,ikr,jkr->whdij", "ws,hs,ds,is,js->whdij", "wa,hb,dc,ie,jf,abcef->whdij"


def test_uber_pickups_pooled() -> None:
    """27 x 24 x 7 x 25 x 25 counts of Uber pickups in New York, three structures, one set of held-out cells."""
    y = np.load(EXAMPLES / "uber_pickups.npz")["Y"].reshape(27, 24, 7, 25, 4, 25, 4).sum(axis=(4, 6))
    sizes = {"r": 4, "k": 5, "s": 11, "a": 3, "b": 4, "c": 3, "e": 3, "f": 3}
    template = NNEinFact(CUSTOM, max_iter=15, seed=7, threads=2)
    found = select([CP, TUCKER, CUSTOM], y, sizes, template)
    assert {c.model for c in found} == {CP, TUCKER, CUSTOM}
    assert [c.heldout_loss for c in found] == sorted(c.heldout_loss for c in found)
    held = np.concatenate(list(draw_cells(y.size, 0.1, 7)))
    train = np.ones(y.size, bool)
    train[held] = False
    constant = divergence(y.ravel()[held], y.ravel()[train].mean()).mean()
    for c in found:
        cells = divergence(y, c.fitted.reconstruct()).ravel()
        assert c.heldout_loss == pytest.approx(cells[held].mean(), rel=1e-8)
        assert c.loss == pytest.approx(cells[train].mean(), rel=1e-8)
        assert c.null_heldout_loss == pytest.approx(constant, rel=1e-8)
        assert c.heldout_loss < 0.05 * c.null_heldout_loss
    # With 3,000,000 cells for 1,200 parameters, held-out and observed losses are alike.
    assert all(abs(c.heldout_loss / c.loss - 1) < 0.1 for c in found)


def test_planted_structure_wins() -> None:
    """Data whose space factors depend on the temporal class: the model that says so beats CP of as many parameters."""
    rng = np.random.default_rng(0)
    shapes = {"wr": (10, 3), "hr": (8, 3), "ikr": (9, 4, 3), "jkr": (9, 4, 3)}
    factors = [rng.gamma(0.3, 1.0, shape) for shape in shapes.values()]
    custom = ",".join(shapes) + "->whij"
    y = rng.poisson(40 * np.einsum(custom, *factors))
    template = NNEinFact(custom, max_iter=150, restarts=3, holdout=0.2)
    cp = "ws,hs,is,js->whij"
    found = select([cp, custom], y, {"r": 3, "k": 4, "s": 8}, template)
    parameters = {c.model: c.parameters for c in found}
    assert parameters == {custom: 270, cp: 288}
    assert found[0].model == custom
    assert found[0].heldout_loss < 0.9 * found[1].heldout_loss


def test_a_search_that_is_stopped_between_two_fits_begins_no_other() -> None:
    y = np.random.default_rng(0).poisson(3.0, (20, 20))
    found: list[int] = []
    template = NNEinFact("ir,jr->ij", max_iter=3, restarts=2, should_stop=lambda: len(found) == 2)
    ranked = select(
        ["ir,jr->ij"], y, {"r": [1, 2, 3, 4]}, template, on_result=lambda c: found.append(c.iterations)
    )
    assert len(ranked) == 2
    assert not any(c.fitted.stopped_ for c in ranked)


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
