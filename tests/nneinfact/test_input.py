"""Bad input: refused with the cell or the letter named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.cells import CellBits, boxes, draw_cells


def matrix(**cells: float) -> Any:
    """A 3 x 4 matrix of ones with some cells, named as in c12=5.0, changed."""
    y = np.ones((3, 4))
    for name, value in cells.items():
        y[int(name[1]), int(name[2])] = value
    return y


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (matrix(c12=-2.0), {}, r"cell \(1, 2\) is negative: -2"),
        (matrix(c12=np.inf), {}, r"cell \(1, 2\) is infinite"),
        (
            matrix(c20=0.0),
            {"loss": "is"},
            r"cell \(2, 0\) is 0, where the divergence .* is infinite; mask the zeros",
        ),
        (matrix(c20=0.0), {"alpha": -1.0, "beta": 3.0}, r"cell \(2, 0\) is 0"),
        (matrix(c01=np.nan), {"nan": "error"}, r"cell \(0, 1\) is NaN"),
        (np.full((3, 4), np.nan), {}, "no observed cell is left"),
        (np.ones((3, 4, 2)), {}, "has 2 letters, the data have 3 axes"),
        (np.ones((3, 0)), {}, "no cells"),
        (np.ones((3, 4), complex), {}, "must be real numbers"),
        (np.array([["a"]]), {}, "must be real numbers"),
        (matrix(), {"holdout": 0.0}, "held-out fraction"),
        (matrix(), {"holdout": 1.0}, "held-out fraction"),
        (matrix(), {"alpha": np.nan}, "alpha must be finite"),
        (matrix(), {"beta": np.inf}, "beta must be finite"),
        (matrix(), {"restarts": 0}, "restarts"),
        (matrix(), {"max_iter": -1}, "max_iter"),
        (matrix(), {"tol": -1.0}, "tol"),
        (matrix(), {"patience": 0}, "patience"),
        (matrix(), {"relax": 2.0}, "relax"),
        (matrix(), {"sweep": "both"}, "sweep"),
        (matrix(), {"dtype": "float16"}, "dtype"),
        (matrix(), {"path": "gpu"}, "path"),
        (matrix(), {"path": "sparse", "beta": 0.5}, "sparse path needs"),
        (matrix(), {"threads": 0}, "threads"),
        (matrix(), {"time_limit": -1.0}, "time limit"),
        (matrix(), {"max_memory": 10.0}, "more than the .* MiB allowed"),
        (matrix(), {"nan": "drop"}, "nan must be"),
        (matrix(), {"loss": "l2"}, "unknown loss"),
        (matrix(), {"labels": {"i": ["a", "b"]}}, "letter 'i' has 2 labels but size 3"),
        (matrix(), {"labels": {"r": ["a", "b"]}}, "not an observed letter"),
        (matrix(), {"minibatch": 0}, "minibatch"),
    ],
)
def test_data_and_options(y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NNEinFact("ir,jr->ij", "r=2", **options).fit(y)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask": np.ones((4, 3), bool)}, r"mask has shape \(4, 3\), the data \(3, 4\)"),
        ({"mask": np.zeros((3, 4), bool)}, "no observed cell is left"),
        ({"mask": np.full((3, 4), 2)}, "mask must hold only"),
        ({"weights": np.ones((3, 3))}, r"weights of shape \(3, 3\) do not fit"),
        ({"weights": -np.ones((3, 4))}, r"weight of cell \(0, 0\) is -1"),
        ({"weights": np.full((3, 4), np.nan)}, r"weight of cell \(0, 0\) is nan"),
        ({"weights": np.zeros((3, 4))}, "no observed cell is left"),
        ({"init": [np.ones((3, 2))]}, "init has 1 factors, the model 2"),
        ({"init": [np.ones((3, 2)), np.ones((4, 3))]}, r"init of factor 'jr' has shape \(4, 3\)"),
        ({"init": [np.ones((3, 2)), -np.ones((4, 2))]}, "init of factor 'jr' must be finite"),
    ],
)
def test_masks_weights_and_starts(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        NNEinFact("ir,jr->ij", "r=2").fit(matrix(), **arguments)


@pytest.mark.parametrize(
    ("coords", "values", "arguments", "message"),
    [
        ([[0, 3], [0, 0]], [1, 1], {}, "entry 1: index 3 on axis 0 is outside 0..2"),
        ([[0, -1], [0, 0]], [1, 1], {}, "entry 1: index -1 on axis 0"),
        ([[0, 1], [0, 0]], [1, -1], {}, r"cell \(1, 0\) is negative"),
        ([[0, 1], [0, 0]], [1], {}, "2 coordinates but 1 values"),
        ([[0.5, 1], [0, 0]], [1, 1], {}, "must be whole numbers"),
        ([[0, 1]], [1, 1], {}, r"must have shape \(2, entries\)"),
        ([[0, 1], [0, 0]], [1, 1], {"mask": [[0], [9]]}, "index 9 on axis 1"),
        ([[0, 1], [0, 0]], [np.nan, 1], {"nan": "error"}, r"cell \(0, 0\) is NaN"),
        ([[0, 1], [0, 0]], [1, 1], {"loss": "is"}, r"cell \(0, 1\) is 0"),
    ],
)
def test_sparse_entries(coords: Any, values: Any, arguments: dict[str, Any], message: str) -> None:
    options = {k: v for k, v in arguments.items() if k != "mask"}
    with pytest.raises(InputError, match=message):
        NNEinFact("ir,jr->ij", "r=1", **options).fit(
            (np.array(coords), np.array(values, float), (3, 4)), arguments.get("mask")
        )


def test_weights_that_leave_only_rounding_are_no_weight() -> None:
    weights = np.zeros((3, 4))
    weights[0] = [0.1, 0.2, 0.3, 0.7]
    missing = np.array([[0, 0, 0, 0], [3, 2, 1, 0]])
    listed = (np.array([[1], [1]]), np.array([2.0]), (3, 4))
    with pytest.raises(InputError, match="no observed cell is left"):
        NNEinFact("ir,jr->ij", "r=1").fit(listed, mask=missing, weights=weights)


def test_notes_say_what_was_done() -> None:
    y = matrix(c01=np.nan, c11=np.nan)
    fitted = NNEinFact("ir,jr->ij", "r=2", max_iter=2).fit(y)
    assert fitted.notes_ == ["2 NaN cells are taken as missing"]
    assert fitted.stats_.weight == 10
    twice = (np.array([[0, 0, 1], [1, 1, 2]]), np.array([2.0, 3.0, 1.0]), (3, 4))
    summed = NNEinFact("ir,jr->ij", "r=2", max_iter=2).fit(twice)
    assert summed.notes_ == ["1 repeated cells were summed"]
    assert summed.stats_.sum == 6
    mask = np.ones((3, 4), bool)
    mask[:, 2] = False
    for data in (matrix(), (np.array(np.nonzero(matrix())), np.ones(12), (3, 4))):
        empty = NNEinFact("ir,jr->ij", "r=2", max_iter=2).fit(data, mask=mask)
        assert empty.notes_ == ["no observed cell in the slices j=2: their factor rows keep their start"]


def test_masked_arrays_and_garbage_under_the_mask() -> None:
    y = matrix(c00=5.0)
    hidden = np.ma.masked_array(matrix(c00=-7.0), mask=matrix(c00=0.0) == 0)
    garbage = [matrix(c00=bad) for bad in (-7.0, np.nan, np.inf)]
    mask = np.ones((3, 4), bool)
    mask[0, 0] = False
    want = NNEinFact("ir,jr->ij", "r=2", max_iter=20).fit(y, mask=mask)
    for got in [NNEinFact("ir,jr->ij", "r=2", max_iter=20).fit(hidden)] + [
        NNEinFact("ir,jr->ij", "r=2", max_iter=20).fit(g, mask=mask) for g in garbage
    ]:
        np.testing.assert_array_equal(got.reconstruct(), want.reconstruct())


def test_holdout_draws_cells_zeros_included() -> None:
    y = np.where(np.random.default_rng(0).random((200, 300)) < 0.02, 1.0, 0.0)
    dense = NNEinFact("ir,jr->ij", "r=1").load(y, holdout=0.1)
    sparse = NNEinFact("ir,jr->ij", "r=1").load((np.array(np.nonzero(y)), y[y != 0], y.shape), holdout=0.1)
    assert dense.stats.held_weight == sparse.stats.held_weight == pytest.approx(6000, rel=0.1)
    held = sparse.excluded
    np.testing.assert_array_equal(np.flatnonzero(dense.held.get(0, y.size)), held)
    assert y.ravel()[held].mean() == pytest.approx(0.02, abs=0.01)
    other = np.concatenate(list(draw_cells(y.size, 0.1, 1)))
    assert not np.array_equal(other, held)


def test_boxes_and_bits() -> None:
    for most in (1, 7, 20, 1000):
        met = np.zeros((3, 4, 5), int)
        at = 0
        for box in boxes((3, 4, 5), most):
            assert box.start == at
            at = box.stop
            met[box.slices] += 1
            assert met.reshape(-1)[box.start : box.stop].sum() == box.stop - box.start <= max(most, 1)
        assert (met == 1).all()
    bits, flags = CellBits(1000), np.random.default_rng(0).random(1000) < 0.3
    for start in range(0, 1000, 37):
        bits.put(start, flags[start : start + 37])
    np.testing.assert_array_equal(bits.get(0, 1000), flags)
    np.testing.assert_array_equal(bits.get(13, 900), flags[13:900])
    assert bits.count() == flags.sum()
    flags[::6] = False
    bits.remove_cells(np.arange(0, 1000, 6))
    np.testing.assert_array_equal(bits.get(0, 1000), flags)
    flags[3:903] = False
    bits.clear(3, np.ones(900, bool))
    np.testing.assert_array_equal(bits.get(0, 1000), flags)
    flags[[5, 903, 999]] = True
    bits.set_cells(np.array([5, 903, 999]))
    np.testing.assert_array_equal(bits.get(0, 1000), flags)
