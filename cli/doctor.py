"""`icml doctor`: what is installed, what is missing and would give what, and what a process may use here."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from icml.cli import plugins, registry, resources
from icml.cli.errors import ExitCode, one_line
from icml.cli.options import Json
from icml.cli.progress import print_table
from icml.cli.registry import Part


def _package(name: str, module: str, gives: str) -> Part:
    return Part(name, module, gives, "pip install icml-tools", required=True)


PARTS = (
    _package("numpy", "numpy", "arrays"),
    _package("scipy", "scipy", "sparse matrices"),
    _package("networkx", "networkx", "graphs of other programs"),
    _package("scikit-learn", "sklearn", "estimators to compare with"),
    _package("zstandard", "zstandard", "zstd-compressed inputs"),
    registry.kernel("formats", "icml.formats._kernel"),
    Part("matplotlib", "matplotlib", "pictures (--plot)", "pip install 'icml-tools[plot]'"),
    Part("pyarrow", "pyarrow", "Parquet tables", "pip install 'icml-tools[parquet]'"),
)
"""What the program as a whole stands on; a tool declares its own parts in its row of the registry."""

State = Literal["ok", "missing", "broken"]

SIMD_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx2", "bmi1", "bmi2", "fma", "movbe"}),
    ("x86-64-v2", {"sse4_1", "sse4_2", "ssse3", "popcnt"}),
    ("aarch64 SVE", {"sve"}),
    ("aarch64 NEON", {"asimd"}),
)
"""The vector instructions that a processor's flags amount to, best first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of looking for a part."""

    name: str
    kind: str
    state: State
    required: bool
    version: str | None
    note: str


def examine(part: Part) -> Finding:
    """Looks for a part, and imports it: only that tells whether it works."""
    if part.kind == "program":
        path = shutil.which(part.module)
        return _finding(part, "ok" if path else "missing", None, path or _how(part))
    if not _is_present(part.module):
        return _finding(part, "missing", None, _how(part))
    try:
        module = importlib.import_module(part.module)
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        return _finding(part, "broken", _version(part), f"{reason}; {_how(part)}")
    return _finding(part, "ok", _version(part), _note(part, module))


def _finding(part: Part, state: State, version: str | None, note: str) -> Finding:
    return Finding(part.name, part.kind, state, part.required, version, note)


def _how(part: Part) -> str:
    return f"would give {part.gives}; get it with: {part.how}"


def _is_present(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        return error.name is not None and not module.startswith(error.name)  # something else is missing
    except Exception:  # the package it is in is broken; importing it says how
        return True


def _version(part: Part) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("icml-tools" if part.kind == "kernel" else part.name)
    except PackageNotFoundError:
        return None


def _note(part: Part, module: Any) -> str:
    """What the part gives; for a kernel that has a function `simd`, the vector instructions it uses here."""
    simd = getattr(module, "simd", None) if part.kind == "kernel" else None
    return f"{part.gives}, {simd()}" if callable(simd) else part.gives


def _torch() -> list[Finding]:
    """PyTorch, which no tool requires, with the GPUs it sees; nothing where it is not installed."""
    part = Part("torch", "torch", "GPUs (--device)", "pip install torch")
    if not _is_present("torch"):
        return []
    found = examine(part)
    if found.state != "ok":
        return [found]
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return [_finding(part, "ok", found.version, "no CUDA device")]
    names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return [_finding(part, "ok", found.version, f"CUDA {torch.version.cuda}: {names}")]


def diagnose() -> dict[str, Any]:
    """Everything that `icml doctor` tells, ready for JSON."""
    from importlib.metadata import version

    tools = (*registry.TOOLS, *registry.BUILTINS)
    parts = dict.fromkeys((*PARTS, *(part for tool in tools for part in tool.parts)))
    findings = [*map(examine, parts), *_torch()]
    return {
        "icml": version("icml-tools"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "simd": _simd_level(),
        "threads": resources.available_threads(),
        "cpu_limits": resources.cpu_limits(),
        "memory_bytes": resources.memory_limits(),
        "parts": [asdict(finding) for finding in findings],
        "plugins": [{"name": plugin.name, "origin": plugin.origin} for plugin in plugins.installed()],
        "ok": all(finding.state == "ok" for finding in findings if finding.required),
    }


def _simd_level() -> str:
    flags = _cpu_flags()
    return next((name for name, needed in SIMD_LEVELS if needed <= flags), "unknown")


def _cpu_flags() -> set[str]:
    try:
        lines = (resources.PROC / "cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    fields = (line.partition(":") for line in lines)
    return next(
        (set(flags.split()) for name, _, flags in fields if name.strip() in ("flags", "Features")), set()
    )


def command(json: Json = False) -> None:
    """Show what is installed here, what is missing and what it would give, and what a process may use.

    The exit code is 1 if a part is broken or missing that icml cannot do without, else 0.
    """
    report = diagnose()
    if json:
        from icml.formats.output import write_json

        write_json("-", report)
    else:
        _show(report)
    if not report["ok"]:
        raise SystemExit(int(ExitCode.FAILED))


def _show(report: dict[str, Any]) -> None:
    for name in ("icml", "python", "platform"):
        sys.stdout.write(f"{name:<10}{report[name]}\n")
    cpus = f"{report['threads']} to use: {_limits(report['cpu_limits'].items())}; {report['simd']}"
    sys.stdout.write(f"{'CPUs':<10}{cpus}\n")
    memory = ((name, _gib(size)) for name, size in report["memory_bytes"].items())
    sys.stdout.write(f"{'memory':<10}{_limits(memory)}\n\n")
    rows = [[p["name"], p["kind"], p["state"], p["version"], p["note"]] for p in report["parts"]]
    print_table(["part", "kind", "state", "version", "note"], rows)
    if report["plugins"]:
        sys.stdout.write("\n")
        print_table(["plug-in", "origin"], [[p["name"], p["origin"]] for p in report["plugins"]])
    if not report["ok"]:
        sys.stdout.write("\nicml does not work here: a part that it needs is missing or broken\n")


def _limits(limits: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {limit}" if limit is not None else f"no {name}" for name, limit in limits)


def _gib(size: int | None) -> str | None:
    return None if size is None else f"{size / 2**30:.1f} GiB"
