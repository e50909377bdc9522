"""CPUs and memory that a process may use: affinity, control groups of both versions, and the batch system."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from icml.cli import resources


def _tree(root: Path, files: dict[str, str]) -> tuple[Path, Path]:
    """A made-up /proc and /sys/fs/cgroup."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "proc", root / "cgroup"


def _limits(cli, words: str, **env: str) -> dict[str, object]:
    done = cli.shell(f"{words} icml doctor --json", **env)
    return json.loads(done.stdout)


QUOTAS = {
    "version 2": ({"proc/self/cgroup": "0::/job\n", "cgroup/job/cpu.max": "400000 100000\n"}, 4),
    "version 2, no quota": ({"proc/self/cgroup": "0::/job\n", "cgroup/job/cpu.max": "max 100000\n"}, None),
    "version 2, a group above": (
        {
            "proc/self/cgroup": "0::/user/job\n",
            "cgroup/user/job/cpu.max": "max 100000\n",
            "cgroup/user/cpu.max": "300000 100000\n",
        },
        3,
    ),
    "version 2, the strictest group": (
        {
            "proc/self/cgroup": "0::/user/job\n",
            "cgroup/user/job/cpu.max": "800000 100000\n",
            "cgroup/user/cpu.max": "200000 100000\n",
        },
        2,
    ),
    "in a container": ({"proc/self/cgroup": "0::/\n", "cgroup/cpu.max": "150000 100000\n"}, 1),
    "less than one CPU": ({"proc/self/cgroup": "0::/\n", "cgroup/cpu.max": "50000 100000\n"}, 1),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/x\n4:cpu,cpuacct:/job\n",
            "cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
            "cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "version 1, no quota": (
        {
            "proc/self/cgroup": "4:cpu:/\n",
            "cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "version 1 in a container that sees the host's path": (
        {
            "proc/self/cgroup": "4:cpu:/docker/0123\n",
            "cgroup/cpu/cpu.cfs_quota_us": "200000\n",
            "cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        2,
    ),
    "no control groups": ({"cgroup/x": ""}, None),
    "nonsense": ({"proc/self/cgroup": "0::/\n\nx\n", "cgroup/cpu.max": "1 0\n"}, None),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_cpu_quota(tmp_path: Path, case: str) -> None:
    files, expected = QUOTAS[case]
    assert resources.cpu_quota(*_tree(tmp_path, files)) == expected


def test_memory_limit(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/job\n0::/job\n",
        "cgroup/job/memory.max": "max\n",
        "cgroup/memory.max": "8000\n",
        "cgroup/memory/job/memory.limit_in_bytes": "6000\n",
    }
    assert resources.memory_limit(*_tree(tmp_path, files)) == 6000
    assert resources.memory_limit(tmp_path / "none", tmp_path / "none") is None


def test_affinity_limits_the_threads(cli) -> None:
    cpu = min(os.sched_getaffinity(0))
    report = _limits(cli, f"taskset -c {cpu}")
    assert report["cpu_limits"]["affinity"] == 1
    assert report["threads"] == 1


@pytest.mark.parametrize(
    ("name", "text", "limit"),
    [
        ("SLURM_CPUS_PER_TASK", "1", 1),
        ("OMP_NUM_THREADS", "1", 1),
        ("OMP_NUM_THREADS", "1,4", 1),
        ("OMP_NUM_THREADS", "0", None),
        ("OMP_NUM_THREADS", "many", None),
        ("SLURM_CPUS_PER_TASK", "-1", None),
    ],
)
def test_environment_limits_the_threads(monkeypatch, name: str, text: str, limit: int | None) -> None:
    for variable in ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    unlimited = resources.available_threads()
    monkeypatch.setenv(name, text)
    assert resources.cpu_limits()[name] == limit
    assert resources.available_threads() == (unlimited if limit is None else min(unlimited, limit))
