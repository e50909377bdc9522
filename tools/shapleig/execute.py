"""Running the user's command for a coalition: what is put in, and what is taken out."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from icml.formats.errors import InputError
from icml.tools.shapleig.candidates import Mask
from icml.tools.shapleig.coalition_text import Players, bits

FIELDS = ("players", "bits", "json", "index", "file")
_FIELD = re.compile(r"\{(" + "|".join(FIELDS) + r")\}")
_GRACE_SECONDS = 5.0


def check_template(template: str) -> None:
    """Raises InputError if a command would not be told the coalition."""
    if not re.search(r"\{(players|bits|json|file)\}", template):
        raise InputError(
            "the command needs one of {players}, {bits}, {json} or {file}: it is not told the coalition"
        )


def fill(template: str, mask: Mask, players: Players, index: int, file: str) -> str:
    """The shell command for a coalition; every field is quoted for the shell, braces that are no field stay."""
    members = [name for name, member in zip(players.names, mask.tolist(), strict=True) if member]
    texts = {
        "players": " ".join(map(shlex.quote, members)),
        "bits": bits(mask),
        "json": shlex.quote(json.dumps(members, ensure_ascii=False)),
        "index": str(index),
        "file": shlex.quote(file),
    }
    return _FIELD.sub(lambda match: texts[match[1]], template)


def last_number(output: str) -> float | None:
    """The number on the last line that is not blank; None if there is none or it is not finite."""
    lines = [line for line in output.splitlines() if line.strip()]
    try:
        value = float(lines[-1]) if lines else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(eq=False)
class Job:
    """A command under way.

    Args:
        mask: the coalition it evaluates, (p,).
        process: the shell that runs it, leader of its own process group.
        output: where its standard output goes.
        file: the file with the players' names, None if the command has no {file}.
        started: when, on the monotonic clock.
    """

    mask: Mask
    process: subprocess.Popen[bytes]
    output: Path
    file: Path | None
    started: float = field(default_factory=time.monotonic)

    def finished(self) -> bool:
        """Whether the command has ended."""
        return self.process.poll() is not None

    def result(self) -> tuple[float | None, str]:
        """The value, or None and why there is none."""
        output = self.output.read_text(encoding="utf-8", errors="replace")
        code = self.process.returncode
        if code:
            return None, f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        value = last_number(output)
        return value, "" if value is not None else "the last line of its output is no finite number"

    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.started

    def end(self) -> None:
        """Ends the command and all it started, if it is still there, and removes its files."""
        if not self.finished():
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_GRACE_SECONDS)
            self._signal(signal.SIGKILL)
            self.process.wait()
        for path in (self.output, self.file):
            if path is not None:
                path.unlink(missing_ok=True)

    def _signal(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signum)


def start(template: str, mask: Mask, players: Players, index: int) -> Job:
    """Starts the command for a coalition; its standard error is ours, its standard input empty."""
    descriptor, name = tempfile.mkstemp(prefix="icml-shapleig-", suffix=".out")
    file = _players_file(mask, players) if "{file}" in template else None
    command = fill(template, mask, players, index, str(file or ""))
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=descriptor, start_new_session=True
        )
    finally:
        os.close(descriptor)
    return Job(mask, process, Path(name), file)


def _players_file(mask: Mask, players: Players) -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="icml-shapleig-", suffix=".txt", delete=False) as stream:
        stream.writelines(players.names[i] + "\n" for i in np.flatnonzero(mask))
    return Path(stream.name)
