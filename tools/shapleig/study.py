"""A study as a file: settings in a comment, then a CSV row for everything asked or told; the file is the checkpoint.

The file only grows (`icml.formats.ledger`). A coalition's state is what its last row says: asked (pending),
told (done) or failed. Choosing takes long and is done without the lock; when it is time to write down what was
chosen, and another process has been told or has asked in between, the choice is made anew.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np

from icml.formats.errors import InputError
from icml.formats.ledger import Ledger
from icml.tools.shapleig.candidates import Mask
from icml.tools.shapleig.coalition_text import Players
from icml.tools.shapleig.costs import CostModel
from icml.tools.shapleig.criteria import parse_criterion
from icml.tools.shapleig.design import Settings, ShapleyDesign
from icml.tools.shapleig.hyperparameters import MapFit
from icml.tools.shapleig.results import Told, parse_value

Status = Literal["done", "pending", "failed"]
_TITLE = "# icml shapleig study 1"
_SETTINGS = "# settings "
_COLUMNS = ("value", "cost", "status", "asked_at")
_STATUSES = ("done", "pending", "failed")
_ATTEMPTS = 8


@dataclass(frozen=True)
class Row:
    """One row of the file.

    Args:
        mask: the coalition, (p,).
        value: None unless done.
        cost: NaN if not known.
        status: what the row says.
        line: of the file, from 1.
    """

    mask: Mask
    value: float | None
    cost: float
    status: Status
    line: int


class Study:
    """A study that exists.

    Args:
        path: the file.
        timeout: seconds to wait for other processes to let go of it.

    Raises:
        InputError: it cannot be read, or is no study.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self.name = os.fspath(path)
        self._ledger = Ledger(path, complete=_is_complete, timeout=timeout)
        lines = self._ledger.read()
        self.settings = _read_settings(lines, self.name)
        self.players = self._read_header(lines)
        self._fit = MapFit(
            learn_noise=self.settings.learn_noise
        )  # rows never change, so its memory stays true

    @classmethod
    def create(cls, path: str | os.PathLike[str], players: Players, settings: Settings) -> Study:
        """Makes a new study; never replaces a file.

        Raises:
            InputError: the file is there already, or cannot be made.
        """
        header = _csv_line([*players.names, *_COLUMNS])
        Ledger.create(path, [_TITLE, _SETTINGS + json.dumps(settings_object(settings)), header])
        return cls(path)

    def rows(self) -> list[Row]:
        """Everything asked and told, in order."""
        return self._parse(self._ledger.read())

    def attempts(self) -> int:
        """Evaluations that have ended, failed ones and repeats included."""
        return sum(row.status != "pending" for row in self.rows())

    def design(self) -> ShapleyDesign:
        """The study in memory, as it is now."""
        return self._load(self.rows())

    def ask(self, n: int, *, retry: bool = False) -> Mask:
        """Chooses the next coalitions and writes them down as pending, (m, p) with m <= n."""
        chosen: Mask = np.empty((0, len(self.players)), dtype=bool)
        lines = self._ledger.read()
        for attempt in range(_ATTEMPTS):
            chosen = self._load(self._parse(lines)).ask(n, retry=retry)
            with self._ledger.locked() as locked:
                now = locked.read()
                if (
                    now != lines and attempt + 1 == _ATTEMPTS
                ):  # never a moment of rest: choose with the lock held
                    chosen = self._load(self._parse(now)).ask(n, retry=retry)
                    now = lines
                if now == lines:
                    locked.append([self._line(mask, None, math.nan, "pending") for mask in chosen])
                    return chosen
                lines = now
        return chosen

    def tell(self, told: Sequence[Told], source: str) -> int:
        """Adds results, all or none; returns how many of them the study did not know.

        Raises:
            InputError: one contradicts what the study or an earlier line says; the line is named.
        """
        with self._ledger.locked() as locked:
            design = self._load(self._parse(locked.read()))
            lines = []
            for item in told:
                done = design.evaluations
                before = len(done), done.version
                apply(design, self.players, item, source)
                if item.value is None or before != (len(done), done.version):
                    status: Status = "failed" if item.value is None else "done"
                    lines.append(self._line(item.mask, item.value, item.cost, status))
            locked.append(lines)
        return len(lines)

    def _load(self, rows: Sequence[Row]) -> ShapleyDesign:
        design = new_design(self.players, self.settings, fit=self._fit)
        for row in rows:
            if row.status == "pending":
                design.mark_pending(row.mask)
            else:
                apply(design, self.players, Told(row.mask, row.value, row.cost, row.line), self.name)
        return design

    def _line(self, mask: Mask, value: float | None, cost: float, status: Status) -> str:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        cells = ["1" if member else "0" for member in mask.tolist()]
        cells += [
            "" if value is None else repr(value),
            "" if math.isnan(cost) else f"{cost:.6g}",
            status,
            stamp,
        ]
        return ",".join(cells)

    def _read_header(self, lines: Sequence[str]) -> Players:
        for number, line in enumerate(lines, 1):
            if not line.startswith("#"):
                header = next(csv.reader([line]))
                if tuple(header[-len(_COLUMNS) :]) != _COLUMNS:
                    raise InputError(
                        f"expected columns for the players, then {','.join(_COLUMNS)}", self.name, number
                    )
                return Players(header[: -len(_COLUMNS)], self.name)
        raise InputError("has no header line", self.name)

    def _parse(self, lines: Sequence[str]) -> list[Row]:
        rows = []
        header_seen = False
        for number, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            if not header_seen:
                header_seen = True
                continue
            rows.append(self._parse_row(line, number))
        return rows

    def _parse_row(self, line: str, number: int) -> Row:
        fields = [field.strip() for field in line.split(",")]
        players = len(self.players)
        if len(fields) != players + len(_COLUMNS):
            raise InputError(
                f"expected {players + len(_COLUMNS)} columns, got {len(fields)}", self.name, number
            )
        if not set(fields[:players]) <= {"0", "1"}:
            raise InputError("expected 0 or 1 for every player", self.name, number)
        value, cost, status = fields[players : players + 3]
        if status not in _STATUSES:
            raise InputError(f"unknown status {status!r}: expected {', '.join(_STATUSES)}", self.name, number)
        try:
            return Row(
                np.array([field == "1" for field in fields[:players]]),
                parse_value(value) if status == "done" else None,
                parse_value(cost) if cost else math.nan,
                status,  # type: ignore[arg-type]
                number,
            )
        except InputError as error:
            raise InputError(error.message, self.name, number) from error


def new_design(players: Players, settings: Settings, *, fit: MapFit | None = None) -> ShapleyDesign:
    """A design without evaluations."""
    return ShapleyDesign(
        len(players),
        settings.index,
        settings.criterion,
        settings.seed,
        noise="learn" if settings.learn_noise else "fixed",
        cost=settings.cost,
        candidates=settings.candidates,
        fit=fit,
    )


def load_results(players: Players, settings: Settings, told: Sequence[Told], source: str) -> ShapleyDesign:
    """A design from results alone.

    Raises:
        InputError: two of them contradict each other; the line is named.
    """
    design = new_design(players, settings)
    for item in told:
        apply(design, players, item, source)
    return design


def apply(design: ShapleyDesign, players: Players, item: Told, source: str) -> None:
    """Tells a design one result; an error names the coalition, the source and the line."""
    if item.value is None:
        design.mark_failed(item.mask)
        return
    try:
        design.tell(item.mask, item.value, item.cost)
    except InputError as error:
        raise InputError(
            f"{players.write(item.mask, 'json')}: {error.message}", source, item.line or None
        ) from error


def is_study(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as a study does."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_TITLE)) == _TITLE.encode()
    except OSError:
        return False


def differences(old: Study, players: Players | None, settings: dict[str, object]) -> list[str]:
    """In which of the given settings a study differs, as "the seed is 0, not 1"; what is None was not given."""
    found = []
    if players is not None and players != old.players:
        found.append(f"it has other players ({len(old.players)}: {', '.join(old.players.names[:4])}, …)")
    have = settings_object(old.settings)
    for key, value in settings.items():
        if value is not None and have[key] != value:
            found.append(f"its {key.replace('_', ' ')} is {have[key]!r}, not {value!r}")
    return found


def settings_object(settings: Settings) -> dict[str, object]:
    """The settings as the file's comment holds them."""
    plain = asdict(settings)
    plain["noise"] = "learn" if plain.pop("learn_noise") else "fixed"
    plain["cost"] = (
        None if settings.cost is None else {"base": settings.cost.base, "parts": settings.cost.parts}
    )
    return json.loads(json.dumps(plain))  # type: ignore[no-any-return]  # tuples become lists, as in a file


def _read_settings(lines: Sequence[str], name: str) -> Settings:
    if not lines or lines[0] != _TITLE:
        raise InputError(
            f"is no study: its first line is not '{_TITLE}'; icml shapleig init makes one", name, 1
        )
    if len(lines) < 2 or not lines[1].startswith(_SETTINGS):
        raise InputError(f"expected '{_SETTINGS}{{...}}'", name, 2)
    try:
        plain = json.loads(lines[1].removeprefix(_SETTINGS))
        cost = plain["cost"]
        settings = Settings(
            index=str(plain["index"]),
            criterion=parse_criterion(plain["criterion"]),
            learn_noise={"learn": True, "fixed": False}[plain["noise"]],
            cost=None if cost is None else CostModel(cost["base"], cost["parts"] and tuple(cost["parts"])),
            candidates=int(plain["candidates"]),
            seed=int(plain["seed"]),
        )
        settings.semivalue  # noqa: B018 - raises if there is no such index
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read the settings: {error}", name, 2) from error
    return settings


def _is_complete(line: str) -> bool:
    """Whether a row that lacks its line feed is whole: everything up to the status is there.

    So the value is not cut short.
    """
    if line.startswith("#"):
        return False
    fields = line.split(",")
    return len(fields) > len(_COLUMNS) and fields[-2] in _STATUSES and len(fields[-1]) in (0, 20)


def _csv_line(fields: Sequence[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(fields)
    return buffer.getvalue()
