"""Runs programs of another CPU under QEMU's user mode, or directly where this machine is that CPU.

QEMU's user mode passes system calls through: it is no sandbox.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from icml.formats.errors import InputError, MissingError
from icml.tools.migrate.targets import Target, is_native

# LSX came with this version; what is older loads LoongArch programs and stops at the first vector.
OLDEST_FOR_LSX = (8, 1)


@dataclass(frozen=True)
class RunResult:
    """A finished run; `rc` is None where it was stopped at its time limit."""

    rc: int | None
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.rc == 0


@dataclass(frozen=True)
class Emulator:
    path: str
    version: tuple[int, ...]


@cache
def find(target: Target) -> Emulator | None:
    """The target's emulator, or None if there is none on PATH."""
    for name in (target.qemu, f"{target.qemu}-static"):
        path = shutil.which(name)
        if path is None:
            continue
        text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", text)
        if match:
            return Emulator(path, tuple(int(part) for part in match.groups() if part))
    return None


def problem(target: Target) -> tuple[str, str] | None:
    """Why the target's programs cannot be run here and what to do about it; None if they can."""
    if is_native(target.name):
        return None
    emulator = find(target)
    how = "icml migrate doctor says how on this system; on Debian 13: apt-get install qemu-user"
    if emulator is None:
        return f"running {target.arch} programs needs {target.qemu}", how
    if target.arch == "loongarch64" and emulator.version < OLDEST_FOR_LSX:
        version = ".".join(map(str, emulator.version))
        return f"{target.qemu} {version} has no LSX; 8.1 or newer has", how
    return None


def command(exe: Path, target: Target, args: Sequence[str] = (), *, vlen: int | None = None) -> list[str]:
    """The command that runs a program of the target.

    Raises:
        MissingError: its emulator is missing or too old.
        InputError: a vector length for a target that has one alone.
    """
    if vlen is not None and vlen not in target.vlens:
        raise InputError(f"{target.name} does not run at a vector length of {vlen} bits")
    if is_native(target.name):
        return [str(exe), *args]
    trouble = problem(target)
    if trouble is not None:
        raise MissingError(*trouble)
    emulator = find(target)
    assert emulator is not None
    cpu = target.cpu
    if target.vlens:
        cpu = f"{target.cpu},v=true,vlen={vlen or target.vlens[0]}"
    return [emulator.path, "-cpu", cpu, str(exe), *args]


def run(
    exe: Path,
    target: Target,
    args: Sequence[str] = (),
    *,
    vlen: int | None = None,
    stdin: bytes | None = None,
    timeout: float = 10,
) -> RunResult:
    """Runs a program and collects what it writes.

    Raises:
        MissingError: the emulator is missing or too old.
    """
    try:
        done = subprocess.run(
            command(exe, target, args, vlen=vlen),
            input=stdin or b"",
            capture_output=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as stopped:
        return RunResult(None, stopped.stdout or b"", stopped.stderr or b"")
    return RunResult(done.returncode, done.stdout, done.stderr)
