"""From a model's path and a text to a report, window by window: never more than one window's logits are in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from icml.formats.corpus import encode, read_texts
from icml.formats.errors import InputError, WorkError
from icml.formats.source import Source, source_name
from icml.tools.perplexity.models import LoadedModel, load_model, pick_device
from icml.tools.perplexity.report import Estimate, Report, Sums, conclude
from icml.tools.perplexity.scoring import Stopped, score, stoppable
from icml.tools.perplexity.windows import count_windows, cut, scored_tokens

WINDOW = 1024
"""Positions, where the model has so many."""

_UNKNOWN = Estimate(math.nan)


def perplexity(
    model: str | Path,
    text: Source | Sequence[str],
    *,
    baseline: str | Path | None = None,
    window: int | None = None,
    stride: int | None = None,
    max_tokens: int | None = None,
    device: str = "cpu",
    threads: int | None = None,
    seed: int = 0,
    allow_pickle: bool = False,
    should_stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[dict[str, Any]], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
) -> Report:
    """Measures a causal language model on a text.

    Args:
        model: a model directory (also one that `icml quantize` made) or a GGUF file.
        text: a path to text or JSONL, "-", an open binary file; or a list of documents.
        baseline: the model to compare with, which must have the same tokenizer.
        window: positions of a window; 1024, or what the model has if that is less.
        stride: how far windows are apart; the window's length. Less gives every token more context, and takes longer.
        max_tokens: measure only the first so many tokens of the text.
        device: where to compute: "cpu", "auto", "cuda", "cuda:1".
        threads: torch's threads while this runs; None leaves them as they are.
        seed: of the bootstrap.
        allow_pickle: read weights that are pickles.
        should_stop: asked before every block of the model; if true, the windows done so far are the result.
        on_progress: told after every window: windows, of (how many there are), tokens, nll so far.
        on_note: told what somebody may want to know.

    Raises:
        InputError: the model, the baseline or the text cannot be used, with the reason.
        MissingError: torch or transformers is not installed.
        WorkError: stopped before the first window was done.
    """
    _check_arguments(window, stride, max_tokens)
    name, texts = _documents(text)
    place = pick_device(device)
    ours = load_model(model, place, allow_pickle=allow_pickle, on_note=on_note)
    window, stride = _lengths(ours, window, stride)
    begin = ours.begin
    tokens = encode(ours.tokenizer, texts, max_tokens)
    _check_tokens(ours, tokens.ids, name)
    theirs = None
    if baseline is not None:
        theirs = load_model(baseline, place, allow_pickle=allow_pickle, on_note=on_note)
        _check_match(ours, theirs, window, texts, max_tokens, tokens.ids)
    count = count_windows(len(tokens.ids), window, stride, begin)
    sums = Sums()
    with torch_threads(threads), ExitStack() as stack:
        for each in (ours, theirs):
            if each is not None:
                stack.enter_context(stoppable(each.module, should_stop))
        for piece in cut(tokens.ids, window, stride, begin):
            try:
                sums.add(**score(ours, theirs, piece, place))
            except Stopped:
                break
            done = sums.total("tokens")
            on_progress(
                {"windows": len(sums), "of": count, "tokens": int(done), "nll": sums.total("nll") / done}
            )
    if not len(sums):
        raise WorkError("stopped before the first window was done")
    scored = int(sums.total("tokens"))
    complete = scored == scored_tokens(len(tokens.ids), begin)
    if not complete:
        tokens = encode(ours.tokenizer, texts, scored + (begin is None))
    size = tokens.bytes
    if size is not None and begin is None:
        size -= tokens.first_bytes or 0
    report = Report(
        ours.name, name, scored, size, len(sums), window, stride, _UNKNOWN, _UNKNOWN, None, complete=complete
    )
    return conclude(report, sums, None if theirs is None else theirs.name, seed)


def _check_arguments(window: int | None, stride: int | None, max_tokens: int | None) -> None:
    if window is not None and window < 2:
        raise InputError(f"a window has at least 2 positions, got {window}")
    if stride is not None and stride < 1:
        raise InputError(f"windows are at least 1 position apart, got {stride}")
    if max_tokens is not None and max_tokens < 2:
        raise InputError(f"at least 2 tokens are needed, got {max_tokens}")


def _documents(text: Source | Sequence[str]) -> tuple[str, list[str]]:
    if isinstance(text, Sequence) and not isinstance(text, str):
        documents = list(text)
        if not any(document.strip() for document in documents):
            raise InputError("holds no text", "text")
        return "text", documents
    return source_name(text), read_texts(text)


def _lengths(model: LoadedModel, window: int | None, stride: int | None) -> tuple[int, int]:
    """Window and stride, checked against the model."""
    longest = model.longest
    if window is None:
        window = WINDOW if longest is None else min(WINDOW, longest)
    elif longest is not None and window > longest:
        raise InputError(f"the window of {window} is longer than the {longest} positions it has", model.name)
    stride = window if stride is None else stride
    if stride > window:
        raise InputError(f"windows of {window} that are {stride} apart leave tokens out")
    return window, stride


def _check_tokens(model: LoadedModel, ids: Any, text: str) -> None:
    if scored_tokens(len(ids), model.begin) < 1 or len(ids) < 2:
        raise InputError(f"{len(ids)} tokens of text are too few to measure anything", text)
    if int(ids.max()) >= model.vocabulary:
        raise InputError(
            f"its tokenizer makes token {int(ids.max())}, its vocabulary has {model.vocabulary}", model.name
        )


def _check_match(
    model: LoadedModel, baseline: LoadedModel, window: int, texts: list[str], limit: int | None, ids: Any
) -> None:
    """Raises InputError unless both models read the same tokens."""
    if baseline.vocabulary != model.vocabulary:
        raise InputError(
            f"has a vocabulary of {baseline.vocabulary}, {model.name} one of {model.vocabulary}",
            baseline.name,
        )
    if baseline.longest is not None and window > baseline.longest:
        raise InputError(
            f"the window of {window} is longer than the {baseline.longest} positions it has", baseline.name
        )
    same = baseline.begin == model.begin and np.array_equal(encode(baseline.tokenizer, texts, limit).ids, ids)
    if not same:
        raise InputError(f"its tokenizer cuts the text otherwise than that of {model.name}", baseline.name)


@contextmanager
def torch_threads(threads: int | None) -> Any:
    """Within, torch computes with so many threads."""
    import torch

    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
