"""A slow, plain reading of the rules for edge lists in text, to compare the compiled parser with.

It shares nothing with the package: lines are decoded by Python, fields found character by character, numbers by a
regular expression and float().
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE | re.ASCII
)
HEADERS = [
    "source target",
    "src dst",
    "src dest",
    "from to",
    "fromid toid",
    "fromnode tonode",
    "fromnodeid tonodeid",
    "sourceid targetid",
    "sourcenode targetnode",
    "node1 node2",
    "rater ratee",
]


class RefusedError(Exception):
    """The text is not an edge list; `line` is where, None if it is no one line's fault."""

    def __init__(self, line: int | None, why: str) -> None:
        super().__init__(f"{line}: {why}")
        self.line = line


@dataclass
class Edges:
    rows: list[tuple[str, str, float | None, int]]
    header: tuple[str, ...] | None

    def numbered(self) -> tuple[list[int], list[int], list[str]]:
        names: dict[str, int] = {}
        pairs = [
            (names.setdefault(u, len(names)), names.setdefault(v, len(names))) for u, v, _, _ in self.rows
        ]
        return [u for u, _ in pairs], [v for _, v in pairs], list(names)


def parse(data: bytes, separators: str = ";, ", columns: tuple[str, ...] | None = None) -> Edges:
    lines = data_lines(data)
    votes = {s: beginning(lines, s) for s in separators}
    counts = {s: sum(len(fields) > 1 for _, fields in votes[s]) for s in separators}
    best = max(counts.values())
    separator = next(s for s in separators if counts[s] == best)
    first_rows = votes[separator]

    header = None
    if first_rows and len(first_rows[0][1]) >= 2:
        first = first_rows[0][1]
        width = len(first)
        chosen = choose(columns or ("1", "2", "3")[: min(width, 3)], first)
        if any(not c.isdigit() for c in columns or ()) or is_header(
            [fields for _, fields in first_rows], chosen
        ):
            header = tuple(first)
    else:
        width, chosen = 2, [0, 1]

    rows = []
    skip = header is not None
    for number, raw in lines:
        fields = split(decode(raw, number), separator, number)
        if skip:
            skip = False
            continue
        if len(fields) < 2 or len(fields) != width:
            raise RefusedError(number, f"{len(fields)} columns")
        u, v = fields[chosen[0]], fields[chosen[1]]
        if not u or not v:
            raise RefusedError(number, "empty id")
        value = None
        if len(chosen) == 3:
            text = fields[chosen[2]]
            if not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
                raise RefusedError(number, f"value {text!r}")
            value = float(text)
        rows.append((u, v, value, number))
    return Edges(rows, header)


def data_lines(data: bytes) -> list[tuple[int, bytes]]:
    """All lines but comments and blank ones; a line that cannot be told apart, being no text, is a data line."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise RefusedError(None, "UTF-16")
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    numbered = [(i, line.removesuffix(b"\r")) for i, line in enumerate(lines, 1)]
    return [
        (i, line)
        for i, line in numbered
        if not is_text(line) or line.strip(b" \t")[:1] not in (b"", b"#", b"%")
    ]


def is_text(line: bytes) -> bool:
    try:
        return not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", line.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def decode(line: bytes, number: int) -> str:
    if not is_text(line):
        raise RefusedError(number, "no text")
    return line.decode("utf-8")


def beginning(lines: list[tuple[int, bytes]], separator: str) -> list[tuple[int, list[str]]]:
    rows = []
    for number, raw in lines[:100]:
        try:
            rows.append((number, split(decode(raw, number), separator, number)))
        except RefusedError:
            break
    return rows


def choose(columns: tuple[str, ...], first: list[str]) -> list[int]:
    indices = []
    for column in columns:
        if column.isdigit():
            if not 1 <= int(column) <= len(first):
                raise RefusedError(None, f"no column {column}")
            indices.append(int(column) - 1)
        else:
            if first.count(column) != 1:
                raise RefusedError(None, f"no one column {column}")
            indices.append(first.index(column))
    if len(set(indices)) < len(indices):
        raise RefusedError(None, "a column twice")
    return indices


def is_header(rows: list[list[str]], chosen: list[int]) -> bool:
    first, *others = [[fields[i] for i in chosen if i < len(fields)] for fields in rows]
    if any(field == "" or NUMBER.fullmatch(field) for field in first):
        return False
    words = [re.sub(r"[\W_]", "", field).lower() for field in first[:2]]
    if " ".join(words) in HEADERS:
        return True
    if len(chosen) == 3:
        return any(NUMBER.fullmatch(other[2]) for other in others if len(other) == 3)
    return len(others) > 0 and all(NUMBER.fullmatch(field) for other in others for field in other)


def split(line: str, separator: str, number: int) -> list[str]:
    if separator == " ":
        return split_blanks(line, number)
    fields = []
    i = 0
    while True:
        while i < len(line) and line[i] in " \t" and line[i] != separator:
            i += 1
        if i < len(line) and line[i] == '"':
            field, i = take_quoted(line, i, number)
            while i < len(line) and line[i] in " \t" and line[i] != separator:
                i += 1
            if i < len(line) and line[i] != separator:
                raise RefusedError(number, "text after a quote")
        else:
            end = line.find(separator, i)
            end = len(line) if end < 0 else end
            field, i = line[i:end].rstrip(" \t"), end
        fields.append(field)
        if i == len(line):
            return fields
        i += 1


def split_blanks(line: str, number: int) -> list[str]:
    fields = []
    i = 0
    while i < len(line):
        if line[i] in " \t":
            i += 1
        elif line[i] == '"':
            field, i = take_quoted(line, i, number)
            if i < len(line) and line[i] not in " \t":
                raise RefusedError(number, "text after a quote")
            fields.append(field)
        else:
            begin = i
            while i < len(line) and line[i] not in " \t":
                i += 1
            fields.append(line[begin:i])
    return fields


def take_quoted(line: str, i: int, number: int) -> tuple[str, int]:
    field = ""
    i += 1
    while i < len(line):
        if line[i] != '"':
            field += line[i]
            i += 1
        elif line[i + 1 : i + 2] == '"':
            field += '"'
            i += 2
        else:
            return field, i + 1
    raise RefusedError(number, "a quote is not closed")
