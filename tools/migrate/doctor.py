"""What migrating needs beside Python, what of it is here, and how to get the rest on this system."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

from icml.formats.errors import MissingError
from icml.tools.migrate import emulator, toolchain
from icml.tools.migrate.targets import TARGETS, Target, is_native, source_flags

_HELLO = "int main(void) { return 0; }\n"


@dataclass(frozen=True)
class Finding:
    """One thing that is needed.

    Attributes:
        what: the thing.
        ok: whether it is here and good enough.
        detail: its version, or what is wrong with it.
        how: how to get it; empty when it is here.
    """

    what: str
    ok: bool
    detail: str
    how: str = ""


def examine(cc: str | None = None) -> list[Finding]:
    """The compiler, the parsers and the emulators."""
    return [_compiler(cc), _parsers(), *(_emulator(target) for target in _emulated())]


def warm(targets: Iterable[str] = (), cc: str | None = None) -> list[tuple[str, float]]:
    """Links a program for each target, the first of which builds the C library; seconds per target.

    Raises:
        MissingError: the compiler is missing.
    """
    names = tuple(targets) or tuple(TARGETS)
    taken = []
    for name in names:
        for flags in {(), source_flags(name) if name == "neon" else ()}:
            start = time.monotonic()
            result = toolchain.compile({"warm.c": _HELLO}, TARGETS[name], flags=flags, cc=cc, timeout=900)
            if not result.ok:
                raise MissingError(
                    f"no program can be built for {name}: {result.stderr.strip()[:200]}", "another --cc"
                )
            taken.append((name, time.monotonic() - start))
    return taken


def _emulated() -> list[Target]:
    """One target per machine that this one is not."""
    seen: dict[str, Target] = {}
    for target in TARGETS.values():
        if not is_native(target.name):
            seen.setdefault(target.arch, target)
    return list(seen.values())


def _compiler(cc: str | None) -> Finding:
    try:
        found = toolchain.find_compiler(cc)
    except MissingError as error:
        return Finding("C compiler", False, error.what, error.how)
    return Finding("C compiler", True, found.version)


def _parsers() -> Finding:
    from importlib.util import find_spec

    missing = [
        name for name in ("tree_sitter", "tree_sitter_c", "tree_sitter_cpp") if find_spec(name) is None
    ]
    if missing:
        return Finding(
            "parsers", False, f"missing: {', '.join(missing)}", "pip install 'icml-tools[migrate]'"
        )
    return Finding("parsers", True, "tree-sitter for C and C++")


def _emulator(target: Target) -> Finding:
    trouble = emulator.problem(target)
    if trouble is not None:
        return Finding(target.qemu, False, trouble[0], how_to_get_qemu())
    found = emulator.find(target)
    assert found is not None
    return Finding(target.qemu, True, ".".join(map(str, found.version)))


def how_to_get_qemu() -> str:
    """Steps for this system: Debian 12 needs the backport, for its own QEMU 7.2 lacks LSX."""
    name, version = _system()
    root = os.geteuid() == 0
    sudo = "" if root else "sudo "
    if name == "debian" and version == "12":
        steps = (
            f"echo 'deb http://deb.debian.org/debian bookworm-backports main' | {sudo}tee "
            f"/etc/apt/sources.list.d/backports.list && {sudo}apt-get update && "
            f"{sudo}apt-get install -t bookworm-backports qemu-user"
        )
        package = "qemu-user/bookworm-backports"
    else:
        steps = f"{sudo}apt-get install qemu-user"
        package = "qemu-user"
    if root:
        return steps
    return f"{steps}; without root: apt-get download {package}, dpkg -x it to a folder, and put its usr/bin on PATH"


def _system() -> tuple[str, str]:
    """Distribution and version, by /etc/os-release."""
    values = {}
    try:
        with open("/etc/os-release") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                values[key] = value.strip('"')
    except OSError:
        pass
    return values.get("ID", ""), values.get("VERSION_ID", "")
