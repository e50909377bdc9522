"""Evaluations as users hold them: lines `coalition,value[,cost]`, or a table with a 0/1 column for every player."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from icml.formats.errors import InputError
from icml.formats.source import Source, read_source, source_name
from icml.tools.shapleig.candidates import Mask
from icml.tools.shapleig.coalition_text import Players

FAILED = "failed"
_OTHER_COLUMNS = ("value", "cost", "status", "asked_at")


@dataclass(frozen=True)
class Told:
    """One line of results.

    Args:
        mask: the coalition, (p,).
        value: None if its evaluation failed.
        cost: NaN if not given.
        line: of the input, from 1.
    """

    mask: Mask
    value: float | None
    cost: float
    line: int


def read_lines(source: Source) -> tuple[list[tuple[int, str]], str]:
    """The lines with their numbers, without comments and blank ones, and the name of the source."""
    name = source_name(source)
    try:
        text = bytes(read_source(source).data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("is not UTF-8 text", name) from error
    numbered = enumerate(text.split("\n"), 1)
    kept = ((number, line.rstrip("\r")) for number, line in numbered)
    return [(number, line) for number, line in kept if line.strip() and not line.startswith("#")], name


def read_results(source: Source, players: Players) -> list[Told]:
    """What is to be told to a study of these players.

    Raises:
        InputError: naming the line, if one cannot be read.
    """
    lines, name = read_lines(source)
    if lines and "value" in (header := _fields(lines[0][1])) and set(players.names) <= set(header):
        return list(_table_rows(lines, players, name))
    return [_told(line, number, players, name) for number, line in lines]


def read_result_table(source: Source) -> tuple[Players, list[Told]]:
    """A table that stands for itself: its columns but for value, cost, status, asked_at are the players.

    Raises:
        InputError: there is no header with a value column, or a line cannot be read.
    """
    lines, name = read_lines(source)
    if not lines:
        raise InputError("holds no evaluations", name)
    header = _fields(lines[0][1])
    if "value" not in header:
        raise InputError("expected a header line with the players' names and value", name, lines[0][0])
    players = Players([column for column in header if column not in _OTHER_COLUMNS], name)
    return players, list(_table_rows(lines, players, name))


def parse_value(text: str) -> float:
    """A finite number.

    Raises:
        InputError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"expected a number, got {text.strip()!r}") from None
    if not math.isfinite(value):
        raise InputError(f"a value must be a finite number, got {text.strip()!r}")
    return value


def _fields(line: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line]))]


def _told(line: str, number: int, players: Players, source: str) -> Told:
    try:
        coalition, fields = _split(line)
        value = None if fields[0] == FAILED else parse_value(fields[0])
        cost = parse_value(fields[1]) if len(fields) == 2 and fields[1] else math.nan
        return Told(players.read(coalition), value, cost, number)
    except InputError as error:
        raise InputError(error.message, source, number) from error


def _split(line: str) -> tuple[str, list[str]]:
    """The coalition, and the one or two fields after it."""
    if line.lstrip().startswith("["):
        text = line.lstrip()
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except json.JSONDecodeError as error:
            raise InputError(f"not a JSON list of player names: {error.msg}") from error
        coalition, rest = text[:end], text[end:].strip()
        fields = rest[1:].split(",") if rest.startswith(",") else []
    else:
        coalition, *fields = next(csv.reader([line]))
    fields = [field.strip() for field in fields]
    if len(fields) not in (1, 2):
        raise InputError(f"expected coalition,value or coalition,value,cost, got {line.strip()!r}")
    return coalition, fields


def _table_rows(lines: Sequence[tuple[int, str]], players: Players, source: str) -> Iterator[Told]:
    header = _fields(lines[0][1])
    if len(set(header)) != len(header):
        twice = next(column for column in header if header.count(column) > 1)
        raise InputError(f"column {twice!r} is there twice", source, lines[0][0])
    places = [header.index(name) for name in players.names]
    column = {name: header.index(name) if name in header else None for name in _OTHER_COLUMNS}
    for number, line in lines[1:]:
        fields = _fields(line)
        if len(fields) != len(header):
            raise InputError(f"expected {len(header)} columns, got {len(fields)}", source, number)
        mask = _mask([fields[place] for place in places], players, source, number)
        value_text, cost_text, status = (
            fields[place] if (place := column[name]) is not None else ""
            for name in ("value", "cost", "status")
        )
        if status == "pending":
            continue
        try:
            value = None if status == FAILED else parse_value(value_text)
            yield Told(mask, value, parse_value(cost_text) if cost_text else math.nan, number)
        except InputError as error:
            raise InputError(error.message, source, number) from error


def _mask(cells: Sequence[str], players: Players, source: str, number: int) -> Mask:
    for name, cell in zip(players.names, cells, strict=True):
        if cell not in ("0", "1"):
            raise InputError(f"expected 0 or 1 for player {name!r}, got {cell!r}", source, number)
    return np.array([cell == "1" for cell in cells])
