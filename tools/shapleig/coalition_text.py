"""Coalitions as text: player names, bits or a JSON list; and the players' names themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import Mask

Form = Literal["names", "bits", "json"]
_NOT_A_NAME = {"value", "cost", "status", "asked_at"}


class Players:
    """The players of a study, in order.

    Args:
        names: at least two, all different, none empty and none with a line break.
        source: the file they come from, for errors.

    Raises:
        InputError: the names do not do.
    """

    def __init__(self, names: Sequence[str], source: str | None = None) -> None:
        if len(names) < 2:
            raise InputError(f"expected at least 2 players, got {len(names)}", source)
        self.names = tuple(names)
        self._index: dict[str, int] = {}
        for i, name in enumerate(self.names):
            if not name.strip() or any(ord(c) < 32 or c == "\x7f" for c in name):
                raise InputError(
                    f"player {i + 1} has the name {name!r}: empty, or with control characters", source
                )
            if name in _NOT_A_NAME:
                raise InputError(f"a player cannot be called {name!r}: a column of the study is", source)
            if name in self._index:
                raise InputError(f"player name {name!r} is there twice", source)
            self._index[name] = i

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Players) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def check_form(self, form: Form) -> None:
        """Raises InputError if coalitions of these players cannot be written so that they can be read back."""
        if form != "names":
            return
        for name in self.names:
            if re.search(r"[\s,]", name) or name[0] in "[\"'":
                raise InputError(
                    f"player name {name!r} has a blank, comma, quote or bracket that space-separated names cannot "
                    "hold; use --json or --bits"
                )

    def write(self, mask: Mask, form: Form) -> str:
        """The coalition (p,) as text."""
        if form == "bits":
            return bits(mask)
        members = [name for name, member in zip(self.names, mask.tolist(), strict=True) if member]
        if form == "json":
            return json.dumps(members, ensure_ascii=False)
        self.check_form(form)
        return " ".join(members)

    def read(self, text: str) -> Mask:
        """The coalition (p,) that any of the three forms says.

        Raises:
            InputError: an unknown or repeated name, a wrong number of bits, broken JSON.
        """
        text = text.strip()
        if text.startswith("["):
            return self._from_names(_json_names(text))
        if re.fullmatch(r"[01]{2,}", text) and text not in self._index:
            if len(text) != len(self):
                raise InputError(f"expected {len(self)} bits, got {len(text)}")
            return np.array([c == "1" for c in text])
        return self._from_names(text.split())

    def _from_names(self, names: Sequence[str]) -> Mask:
        mask = np.zeros(len(self), dtype=bool)
        for name in names:
            i = self._index.get(name)
            if i is None:
                raise InputError(f"unknown player {name!r}")
            if mask[i]:
                raise InputError(f"player {name!r} is there twice")
            mask[i] = True
        return mask


def bits(mask: Mask) -> str:
    """One character a player: 0 or 1."""
    return "".join("1" if member else "0" for member in mask.tolist())


def _json_names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not a JSON list of player names: {error.msg}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("expected a JSON list of player names")
    return names


def read_players(spec: str | None, count: int | None) -> Players:
    """Players from a file with one name a line, from "a,b,c", or "p1" .. "pN" from a count.

    Raises:
        InputError: neither or both are given, the file cannot be read, or the names do not do.
    """
    from icml.formats.source import read_source, source_name

    if (spec is None) == (count is None):
        raise InputError("expected the players: a file with one name a line, names a,b,c, or -n COUNT")
    if count is not None:
        return Players([f"p{i + 1}" for i in range(count)])
    assert spec is not None
    if "," in spec and "/" not in spec:
        return Players([name.strip() for name in spec.split(",")])
    content = read_source(spec)
    source = source_name(spec)
    try:
        text = bytes(content.data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", source) from error
    lines = (line.strip() for line in text.splitlines())
    return Players([line for line in lines if line and not line.startswith("#")], source)
