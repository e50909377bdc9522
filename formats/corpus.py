"""Text for a language model: documents out of a file, and the tokens that a model's own tokenizer makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.formats.huggingface import quiet
from icml.formats.source import Source, read_source


def read_texts(source: Source) -> list[str]:
    """The documents in a file: the whole of a text, or the field `text` (or `content`) of each line of JSONL.

    Raises:
        InputError: it is empty, not UTF-8 text, or a line of JSONL lacks the field.
    """
    content = read_source(source)
    if 0 in content.data:
        raise InputError("binary data, not text", content.name)
    try:
        text = content.data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8 text", content.name, line) from error
    documents = _documents(text, content.name) if text.lstrip().startswith("{") else [text]
    if not any(document.strip() for document in documents):
        raise InputError("holds no text", content.name)
    return documents


def _documents(text: str, name: str) -> list[str]:
    """Of JSONL; text that merely begins with a brace is taken as it is."""
    lines = text.split("\n")  # and not at the other line ends of Unicode, which JSON strings may hold
    try:
        first = json.loads(next(line for line in lines if line.strip()))
    except (ValueError, RecursionError):
        return [text]
    if not isinstance(first, dict):
        return [text]
    documents = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {error}", name, number) from error
        found = row.get("text", row.get("content")) if isinstance(row, dict) else None
        if not isinstance(found, str):
            raise InputError("no string called 'text' or 'content'", name, number)
        documents.append(found)
    return documents


def load_tokenizer(transformers: Any, path: str | Path) -> Any:
    """The tokenizer in a model directory.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    try:
        with quiet(transformers):
            return transformers.AutoTokenizer.from_pretrained(str(path), local_files_only=True)
    except Exception as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"has no tokenizer that transformers can read: {reason}", str(path)) from error


def begin_token(tokenizer: Any) -> int | None:
    """The token that the tokenizer puts before every text, if it does."""
    begin: int | None = tokenizer.bos_token_id
    ids = tokenizer("a")["input_ids"]
    return begin if begin is not None and ids and ids[0] == begin else None


@dataclass(frozen=True)
class Tokens:
    """Documents as one run of tokens, an end token between two if the tokenizer has one.

    Attributes:
        ids: int64.
        bytes: UTF-8 bytes of the text that they stand for; None if the tokenizer does not say what text a token is.
        first_bytes: those of the first token.
    """

    ids: NDArray[np.int64]
    bytes: int | None
    first_bytes: int | None


def encode(tokenizer: Any, texts: Sequence[str], limit: int | None = None) -> Tokens:
    """The tokens of all texts, or the first `limit` of them."""
    end = tokenizer.eos_token_id
    parts: list[NDArray[np.int64]] = []
    count, size, first = 0, 0, 0
    known = True
    for number, text in enumerate(texts):
        if limit is not None and count >= limit:
            break
        if number and end is not None:
            parts.append(np.array([end], np.int64))
            count += 1
        coded = tokenizer(text, add_special_tokens=False, verbose=False)
        whole = len(coded["input_ids"])
        kept = whole if limit is None else min(whole, limit - count)
        parts.append(np.asarray(coded["input_ids"][:kept], np.int64))
        known = known and bool(getattr(coded, "is_fast", False))
        if known:
            size += _bytes_of(text, coded, kept)
            first = _bytes_of(text, coded, 1) if not count and kept else first
        count += kept
    ids = np.concatenate([*parts, np.empty(0, np.int64)])
    return Tokens(ids, size if known else None, first if known else None)


def _bytes_of(text: str, coded: Any, count: int) -> int:
    """UTF-8 bytes of the text up to the end of its `count`th token; of all of it, if there are no more tokens."""
    if count == len(coded["input_ids"]):
        return len(text.encode())
    if not count:
        return 0
    span = coded.token_to_chars(count - 1)
    return 0 if span is None else len(text[: span.end].encode())
