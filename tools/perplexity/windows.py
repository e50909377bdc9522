"""Which tokens a model sees, and which of them count: windows that overlap, every token scored once.

A window of W positions predicts W tokens: each the one that follows its position. Windows begin `stride` positions
apart, and each scores the tokens that none before it has, with at least W - stride tokens of context. A tokenizer that
puts a token before every text has it put before every window, so that the first token of the text is scored, too;
without one it is context only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Window:
    """One run of the model.

    Attributes:
        inputs: int64, what the model reads.
        targets: int64, the tokens to score; the last of them follows the last input.
    """

    inputs: NDArray[np.int64]
    targets: NDArray[np.int64]


def scored_tokens(count: int, begin: int | None) -> int:
    """How many of `count` tokens are scored."""
    return count if begin is not None else max(count - 1, 0)


def cut(ids: NDArray[np.int64], window: int, stride: int, begin: int | None = None) -> Iterator[Window]:
    """The windows over a run of tokens.

    Args:
        ids: the tokens.
        window: positions of the model to use, at least 1; the token put before a window takes one of them.
        stride: how far the windows are apart, 1 to `window`.
        begin: the token that is put before every window, if one is.
    """
    sequence = ids if begin is None else np.concatenate([np.array([begin], np.int64), ids])
    done = 1  # the first token of the sequence is never a target
    start = 0
    while done < len(sequence):
        stop = min(start + window, len(sequence) - 1)  # of the inputs
        inputs = sequence[start:stop]
        if begin is not None and start:
            inputs = np.concatenate([np.array([begin], np.int64), sequence[start + 1 : stop]])
        yield Window(inputs, sequence[done : stop + 1])
        done = stop + 1
        start += stride


def count_windows(tokens: int, window: int, stride: int, begin: int | None = None) -> int:
    """How many windows `cut` gives for so many tokens."""
    targets = scored_tokens(tokens, begin)
    return 0 if not targets else 1 + max(0, -(-(targets - window) // stride))
