"""`stream`: a conversation over two pipes, one coalition out, one number in, for a value function in any language.

A line that begins with "? " is a coalition; the answer is a line `VALUE`, `VALUE COST` or `failed`. After the
last answer, or when the input ends, the report follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TextIO

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import Mask, mask_of
from icml.tools.shapleig.coalition_text import Form, Players
from icml.tools.shapleig.design import ShapleyDesign
from icml.tools.shapleig.estimates import Stopping
from icml.tools.shapleig.results import FAILED, Told, parse_value
from icml.tools.shapleig.study import Study


class Record(Protocol):
    """Where the conversation is kept."""

    def design(self) -> ShapleyDesign: ...
    def attempts(self) -> int: ...
    def ask(self, n: int) -> Mask: ...
    def tell(self, told: list[Told], source: str) -> int: ...


class Memory:
    """A record that lasts as long as the process."""

    def __init__(self, design: ShapleyDesign) -> None:
        self._design = design
        self._attempts = 0

    def design(self) -> ShapleyDesign:
        return self._design

    def attempts(self) -> int:
        return self._attempts

    def ask(self, n: int) -> Mask:
        chosen = self._design.ask(n)
        self._design.mark_pending(chosen)
        return chosen

    def tell(self, told: list[Told], source: str) -> int:
        for item in told:
            self._attempts += 1
            if item.value is None:
                self._design.mark_failed(item.mask)
            else:
                self._design.tell(item.mask, item.value, item.cost)
        return len(told)


def converse(
    record: Record | Study,
    players: Players,
    answers: TextIO,
    questions: TextIO,
    *,
    form: Form,
    budget: int | None,
    stopping: Stopping,
    should_stop: Callable[[], bool] = lambda: False,
) -> str:
    """Asks until it is time to stop; returns why.

    The reasons are "budget", "complete", "tol", "stable-top", "stopped" and "end of input".

    Raises:
        InputError: an answer cannot be read; its line is named.
    """
    players.check_form(form)
    waiting = [mask_of(key) for key in record.design().pending]
    number = 0
    while True:
        design = record.design()
        if should_stop():
            return "stopped"
        if budget is not None and record.attempts() >= budget:
            return "budget"
        if stopping.active and len(design.evaluations) > 1:
            reason = stopping.reason(design.estimate, seed=design.settings.seed)
            if reason:
                return reason
        following = waiting[:1] or list(record.ask(1))
        if not following:
            return "complete"
        del waiting[:1]
        questions.write(f"? {players.write(following[0], form)}".rstrip() + "\n")
        questions.flush()
        number += 1
        answer = answers.readline()
        if not answer:
            return "end of input"
        value, cost = _read_answer(answer, number)
        record.tell([Told(following[0], value, cost, number)], "stdin")


def _read_answer(line: str, number: int) -> tuple[float | None, float]:
    words = line.split()
    try:
        if len(words) not in (1, 2):
            raise InputError(f"expected VALUE, VALUE COST or {FAILED}, got {line.strip()!r}")
        value = None if words[0] == FAILED else parse_value(words[0])
        return value, parse_value(words[1]) if len(words) == 2 else math.nan
    except InputError as error:
        raise InputError(error.message, "stdin", number) from error
