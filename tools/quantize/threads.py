"""How many threads a call may use."""

from __future__ import annotations

import os


def thread_count(threads: int | None) -> int:
    """`threads`, or the CPUs this process may run on, or fewer if OMP_NUM_THREADS says so."""
    if threads is not None:
        return max(threads, 1)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cpus, int(limit)) if limit.isdigit() and int(limit) > 0 else cpus
