"""Subcommands that other people install: entry points `icml.tools`, and executables `icml-NAME` on PATH.

As with git, a built-in name always wins; then comes an entry point, then the first executable on PATH.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from icml.cli.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "icml.tools"
PREFIX = "icml-"


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed subcommand: either an entry point or an executable."""

    name: str
    entry_point: EntryPoint | None = None
    executable: str | None = None

    @property
    def origin(self) -> str:
        """Where it comes from, in a few words."""
        if self.entry_point is None:
            return str(self.executable)
        dist = self.entry_point.dist
        return f"from {dist.name}" if dist is not None else self.entry_point.value

    def load(self) -> Any:
        """Imports what the entry point names."""
        assert self.entry_point is not None
        try:
            return self.entry_point.load()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(f"plug-in {self.name!r} ({self.origin}) cannot be loaded: {reason}") from error

    def execute(self, arguments: list[str]) -> NoReturn:
        """Replaces this process by the executable, with the signal handling that it expects."""
        assert self.executable is not None
        sys.stdout.flush()
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        try:
            os.execv(self.executable, [self.executable, *arguments])
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.executable) from error


def find(name: str) -> Plugin | None:
    """The plug-in called `name`; nothing of it is imported."""
    if os.sep in name:
        return None
    entry_point = _entry_points().get(name)
    if entry_point is not None:
        return Plugin(name, entry_point=entry_point)
    executable = shutil.which(PREFIX + name)
    return Plugin(name, executable=executable) if executable else None


def installed() -> list[Plugin]:
    """Every plug-in by name, none of them imported or run."""
    found = {name: Plugin(name, executable=path) for name, path in _executables().items()}
    found.update((name, Plugin(name, entry_point=entry)) for name, entry in _entry_points().items())
    return [found[name] for name in sorted(found)]


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def _executables() -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in os.get_exec_path():
        try:
            with os.scandir(folder or os.curdir) as entries:
                names = [entry.name for entry in entries if entry.name.startswith(PREFIX)]
        except OSError:
            continue
        for name in sorted(names):
            path = Path(folder, name)
            if len(name) > len(PREFIX) and path.is_file() and os.access(path, os.X_OK):
                found.setdefault(name.removeprefix(PREFIX), str(path))
    return found
