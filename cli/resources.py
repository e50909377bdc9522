"""What this process may use of the machine: what hardware, container and batch system leave it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
_MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")


def available_threads() -> int:
    """How many CPUs this process may use: the default of `--threads`."""
    return max(1, min(limit for limit in cpu_limits().values() if limit is not None))


def cpu_limits() -> dict[str, int | None]:
    """Each thing that can limit the number of CPUs, with its limit; None where it sets none."""
    return {
        "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "cgroup quota": cpu_quota(),
        "SLURM_CPUS_PER_TASK": _from_environment("SLURM_CPUS_PER_TASK"),
        "OMP_NUM_THREADS": _from_environment("OMP_NUM_THREADS"),
    }


def memory_limits() -> dict[str, int | None]:
    """Bytes of memory: the machine's, those free for use, the control group's limit; None: not known."""
    machine = _meminfo(PROC)
    limit = memory_limit()
    return {
        "machine": machine.get("MemTotal"),
        "available": machine.get("MemAvailable"),
        "cgroup limit": limit if limit is not None and limit < machine.get("MemTotal", 2**60) else None,
    }


def cpu_quota(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """The CPU quota of the control groups (version 1 or 2) that this process is in; None without one.

    In whole CPUs, at least 1. A fraction is rounded down: one thread more would spend its time throttled.
    """
    quotas = [_quota_of(folder) for folder in _control_groups("cpu", proc, cgroups)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_of(folder: Path) -> int | None:
    words = _words(folder / "cpu.max")
    if not words:
        words = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
    if len(words) == 2 and all(word.isdigit() and int(word) > 0 for word in words):  # neither "max" nor -1
        return max(1, int(words[0]) // int(words[1]))
    return None


def memory_limit(proc: Path = PROC, cgroups: Path = CGROUPS) -> int | None:
    """The memory limit, in bytes, of the control groups this process is in; None without one."""
    words = [
        _words(folder / name) for folder in _control_groups("memory", proc, cgroups) for name in _MEMORY_FILES
    ]
    return min((int(word[0]) for word in words if word and word[0].isdigit()), default=None)


def _control_groups(controller: str, proc: Path, cgroups: Path) -> Iterator[Path]:
    """The control group of this process for a resource, and those it lies in, which limit it too."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if hierarchy == "0":
            mounts = [cgroups, cgroups / "unified"]
        elif controller in controllers.split(","):
            mounts = [cgroups / controllers, cgroups / controller]
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for mount in mounts:
            yield from (mount / group for group in (inside, *inside.parents))


def _words(file: Path) -> list[str]:
    """The words of a small file; none if it cannot be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []


def _meminfo(proc: Path) -> dict[str, int]:
    """`/proc/meminfo` in bytes."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return {}
    fields = (line.replace(":", " ").split() for line in lines)
    return {field[0]: int(field[1]) * 1024 for field in fields if len(field) == 3 and field[1].isdigit()}


def _from_environment(name: str) -> int | None:
    """A positive count; of OpenMP's list, one number for each level of nesting, the first."""
    text = os.environ.get(name, "").split(",")[0].strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None
