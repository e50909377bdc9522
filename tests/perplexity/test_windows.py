"""Windows: every token scored once, after at least the context that was promised."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.tools.perplexity.windows import count_windows, cut, scored_tokens

BEGIN = 999


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 60), st.integers(2, 12), st.integers(1, 12), st.sampled_from([None, BEGIN]))
def test_every_token_is_scored_once_and_after_its_context(
    count: int, window: int, stride: int, begin: int | None
) -> None:
    stride = min(stride, window)
    ids = np.arange(count)  # so that a token tells where it stands
    pieces = list(cut(ids, window, stride, begin))
    targets = [int(t) for piece in pieces for t in piece.targets]
    assert targets == list(range(0 if begin is not None else 1, count))
    assert len(targets) == scored_tokens(count, begin)
    assert len(pieces) == count_windows(count, window, stride, begin)
    for number, piece in enumerate(pieces):
        inputs = piece.inputs.tolist()
        assert 1 <= len(inputs) <= window
        assert len(piece.targets) <= len(inputs)
        if begin is not None:
            assert inputs[0] == BEGIN
        rest = inputs if begin is None else inputs[1:]
        assert rest == list(range(rest[0], rest[0] + len(rest))) if rest else True
        assert not rest or piece.targets[-1] == rest[-1] + 1
        if number:
            assert len(inputs) - len(piece.targets) == window - stride or piece is pieces[-1]
            assert len(inputs) - len(piece.targets) >= window - stride


def test_a_text_that_fits_is_one_window() -> None:
    (piece,) = cut(np.array([5, 6, 7]), 8, 8)
    assert piece.inputs.tolist() == [5, 6]
    assert piece.targets.tolist() == [6, 7]
    (piece,) = cut(np.array([5, 6, 7]), 8, 8, BEGIN)
    assert piece.inputs.tolist() == [BEGIN, 5, 6]
    assert piece.targets.tolist() == [5, 6, 7]
