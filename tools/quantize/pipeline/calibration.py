"""Calibration: text of the user's domain, as sequences of tokens of one length.

Without such text the one shipped here is taken, about 770 kB of technical English: the Python language reference and
docstrings of the standard library (© Python Software Foundation, PSF-2.0), descriptions of data sets from scikit-learn
(BSD-3-Clause), the Declaration of Independence and the Constitution of the United States (public domain), in pieces of
a few thousand characters that take turns, so that any part of it is a mix.
"""

from __future__ import annotations

import hashlib
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.corpus import begin_token, encode
from icml.formats.errors import InputError
from icml.formats.source import Source, source_name

SHIPPED = Path(__file__).with_name("calibration.txt.xz")


@dataclass(frozen=True)
class Calibration:
    """What a model reads to be calibrated.

    Attributes:
        tokens: int64 [sequences, length].
        available: tokens of the whole text.
        source: where it comes from.
    """

    tokens: NDArray[np.int64]
    available: int
    source: str

    def digest(self) -> str:
        """Of the tokens."""
        content = repr(self.tokens.shape).encode() + np.ascontiguousarray(self.tokens, "<i8").tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def shipped_text() -> list[str]:
    """The text for those who give none."""
    return [lzma.decompress(SHIPPED.read_bytes()).decode()]


def calibrate(
    texts: list[str], tokenizer: Any, *, tokens: int, length: int, vocabulary: int, source: Source = "text"
) -> Calibration:
    """Cuts texts into sequences, spread evenly over all of them where there is more text than is wanted.

    Args:
        texts: the documents.
        tokenizer: of the model.
        tokens: how many to take, rounded up to whole sequences; fewer if the texts have no more.
        length: of a sequence.
        vocabulary: size of the model's.
        source: for messages.

    Raises:
        InputError: there is less than one sequence, or a token is not in the model's vocabulary.
    """
    name = source_name(source)
    ids = encode(tokenizer, texts).ids
    begin = begin_token(tokenizer)
    body = length - (begin is not None)
    if len(ids) < body:
        raise InputError(f"{len(ids)} tokens of text, less than one sequence of {length}", name)
    if ids.max(initial=0) >= vocabulary:
        raise InputError(f"token {ids.max()} is not in the model's vocabulary of {vocabulary}", name)
    there = len(ids) // body
    wanted = min(there, -(-tokens // length))
    chosen = [i * there // wanted for i in range(wanted)]
    rows = np.stack([ids[i * body : (i + 1) * body] for i in chosen])
    if begin is not None:
        rows = np.concatenate([np.full((wanted, 1), begin, np.int64), rows], axis=1)
    return Calibration(rows, len(ids), name)
