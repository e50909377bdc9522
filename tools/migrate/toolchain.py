"""Compiles for the targets: `zig cc` from PyPI, or a compiler that the user names; results are kept by content.

A result is found again by a hash of source text, flags and compiler version, and used if every header it
included is unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from icml.formats.errors import MissingError
from icml.tools.migrate.targets import FLAGS, Target

T = TypeVar("T")
R = TypeVar("R")

# Compilers are started at most this many at a time: each takes a core and some hundred megabytes.
WORKERS = 2
_GET_ZIG = "pip install 'icml-tools[migrate]'"
_SUFFIXES = {"exe": "", "object": ".o", "assembly": ".s", "preprocessed": ".i"}
_MODES: dict[str, tuple[str, ...]] = {
    "exe": (),
    "object": ("-c",),
    "assembly": ("-S", "-g0"),
    "preprocessed": ("-E", "-P"),
}


@dataclass(frozen=True)
class Compiler:
    """A C and C++ compiler.

    Attributes:
        c: command that compiles C; C++ is compiled by its C++ twin.
        version: its own account, part of the key under which results are kept.
        zig: whether it takes zig's `-target` and `-mcpu`.
    """

    c: tuple[str, ...]
    version: str
    zig: bool

    def command(self, language: str) -> tuple[str, ...]:
        if language == "c":
            return self.c
        if self.zig:
            return (*self.c[:-1], "c++")
        head, *rest = self.c
        return (head.replace("gcc", "g++").replace("clang", "clang++"), *rest)


@dataclass(frozen=True)
class CompileResult:
    """What came of a compilation: `path` is the output in the cache, None if it failed."""

    ok: bool
    stderr: str
    path: Path | None
    cached: bool = False


def cache_folder() -> Path:
    """`$ICML_CACHE/migrate`, else `$XDG_CACHE_HOME/icml/migrate` or `~/.cache/icml/migrate`."""
    if "ICML_CACHE" in os.environ:
        return Path(os.environ["ICML_CACHE"]) / "migrate"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "icml" / "migrate"


@cache
def find_compiler(cc: str | None = None) -> Compiler:
    """zig from PyPI, or the compiler of a command such as "riscv64-linux-gnu-gcc -march=rv64gcv".

    Raises:
        MissingError: it is not here.
    """
    command = tuple(shlex.split(cc)) if cc else (sys.executable, "-m", "ziglang", "cc")
    if cc is None and not _has_zig():
        raise MissingError("compiling for another CPU needs zig's C compiler", _GET_ZIG)
    if shutil.which(command[0]) is None:
        raise MissingError(
            f"the compiler {command[0]} is not on PATH", "installing it, or dropping --cc to use zig's"
        )
    run = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, check=False, env=_environment()
    )
    if run.returncode:
        raise MissingError(f"{command[0]} --version failed", _GET_ZIG if cc is None else "a working compiler")
    return Compiler(command, run.stdout.splitlines()[0] + _zig_version() * (cc is None), cc is None)


def _has_zig() -> bool:
    from importlib.util import find_spec

    return find_spec("ziglang") is not None


def _zig_version() -> str:
    from importlib.metadata import version

    return f" (ziglang {version('ziglang')})"


def _environment() -> dict[str, str]:
    """zig keeps what it builds of the C library in its own cache: beside ours where the user placed ours."""
    environment = dict(os.environ)
    if "ICML_CACHE" in environment:
        environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache_folder().parent / "zig"))
    return environment


def compile(
    sources: Mapping[str, str] | Sequence[Path],
    target: Target,
    *,
    flags: Sequence[str] = (),
    mode: str = "exe",
    out: Path | None = None,
    timeout: float = 300,
    cc: str | None = None,
) -> CompileResult:
    """Compiles for a target.

    Args:
        sources: C and C++ files, or texts by file name; texts may include each other and are headers if named so.
        target: what to compile for.
        flags: after the target's own and the common ones.
        mode: "exe", "object", "assembly" or "preprocessed"; all but "exe" take one file.
        out: where to put a copy of the output.
        timeout: seconds.
        cc: another compiler's command.

    Raises:
        MissingError: the compiler is not here.
    """
    compiler = find_compiler(cc)
    with tempfile.TemporaryDirectory(prefix="icml-migrate-") as scratch:
        files = _files(sources, Path(scratch))
        job = _Job(compiler, target, files, (*FLAGS, *flags), mode, timeout, Path(scratch))
        result = job.run()
    if out is not None and result.path is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(result.path, out)
    return result


def _files(sources: Mapping[str, str] | Sequence[Path], scratch: Path) -> list[Path]:
    if not isinstance(sources, Mapping):
        return [Path(source) for source in sources]
    paths = []
    for name, text in sources.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix not in (".h", ".hpp"):
            paths.append(path)
    return paths


@dataclass(frozen=True)
class _Job:
    """One compilation and its place in the cache."""

    compiler: Compiler
    target: Target
    files: list[Path]
    flags: tuple[str, ...]
    mode: str
    timeout: float
    scratch: Path

    def run(self) -> CompileResult:
        folder = cache_folder() / "objects" / self._key()
        known = self._recall(folder)
        if known is not None:
            return known
        output = self.scratch / f"output{_SUFFIXES[self.mode]}"
        try:
            if self.mode == "assembly":
                self._start(self._command(output, only_depends=True))
            run = self._start(self._command(output))
        except subprocess.TimeoutExpired:
            return CompileResult(False, f"the compiler took more than {self.timeout:g} s", None)
        if run.returncode or not output.exists():
            return CompileResult(False, self._without_scratch(run.stderr), None)
        return self._keep(folder, output, self._without_scratch(run.stderr))

    def _start(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=self.timeout,
            env=_environment(),
            errors="replace",
        )

    def _language(self) -> str:
        return "c" if all(file.suffix in (".c", ".s", ".S") for file in self.files) else "c++"

    def _command(self, output: Path, *, only_depends: bool = False) -> list[str]:
        target = ["-target", self.target.triple, *self.target.flags] if self.compiler.zig else []
        flags = [flag for flag in self.flags if self.compiler.zig or flag != "-fno-sanitize=all"]
        if self.mode != "exe":
            flags = [flag for flag in flags if flag != "-static"]
        head = [*self.compiler.command(self._language()), *target]
        depends = ["-MF", str(self.scratch / "depends")]
        if only_depends:
            return [*head, *flags, "-M", *depends, *map(str, self.files)]
        # zig writes no assembly when it is asked for dependencies too.
        listing = [] if self.mode == "assembly" else ["-MD", *depends]
        libraries = ["-lm"] if self.mode == "exe" else []
        return [
            *head,
            *_MODES[self.mode],
            *flags,
            *listing,
            *map(str, self.files),
            "-o",
            str(output),
            *libraries,
        ]

    def _key(self) -> str:
        digest = hashlib.sha256()
        parts = [
            self.compiler.version,
            *self.compiler.c[1:],
            self.target.triple,
            *self.target.flags,
            self.mode,
        ]
        for part in (*parts, *self.flags):
            digest.update(part.encode() + b"\0")
        for file in self.files:
            # A text's own folder is new each time; a file's matters for what it includes.
            place = file.name if file.is_relative_to(self.scratch) else str(file.resolve())
            digest.update(place.encode() + b"\0" + file.read_bytes() + b"\0")
        return digest.hexdigest()[:40]

    def _recall(self, folder: Path) -> CompileResult | None:
        try:
            record = json.loads((folder / "record.json").read_text())
            if all(_digest(self._place(name)) == seen for name, seen in record["depends"].items()):
                return CompileResult(True, record["stderr"], folder / record["output"], cached=True)
        except (OSError, ValueError, KeyError):
            pass
        return None

    def _place(self, name: str) -> Path:
        return self.scratch / name[2:] if name.startswith("@/") else Path(name)

    def _keep(self, folder: Path, output: Path, stderr: str) -> CompileResult:
        """Files appear under their final names at once, so that parallel runs may share a cache."""
        folder.mkdir(parents=True, exist_ok=True)
        depends = {}
        for path in _dependencies(self.scratch / "depends"):
            name = f"@/{path.relative_to(self.scratch)}" if path.is_relative_to(self.scratch) else str(path)
            depends[name] = _digest(path)
        final = folder / f"{_digest(output)[:16]}{output.suffix}"
        _place_atomically(output, final)
        record = self.scratch / "record.json"
        record.write_text(json.dumps({"output": final.name, "stderr": stderr, "depends": depends}))
        _place_atomically(record, folder / "record.json")
        return CompileResult(True, stderr, final)

    def _without_scratch(self, text: str) -> str:
        return text.replace(f"{self.scratch}/", "")


def _place_atomically(source: Path, destination: Path) -> None:
    temporary = destination.with_name(f".{destination.name}.{os.getpid()}.{id(source)}")
    shutil.copy2(source, temporary)
    temporary.replace(destination)


def _dependencies(file: Path) -> list[Path]:
    """The files that make's rule in a dependency file names, those that still exist."""
    if not file.exists():
        return []
    words = shlex.split(file.read_text().replace("\\\n", " "))
    return [path for path in map(Path, words) if not path.name.endswith(":") and path.is_file()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """`work` on each item, a few at a time; it waits for subprocesses, so threads do."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, items))
