"""How `icml cclust-lb` ends: by the clock, by signals, by kill -9, by closed pipes and full disks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support import Icml

from icml.tools.cclust_lb.certificate import load_certificate

from .runs import TRIANGLE, certify, grid, path


def slow_run(folder: Path, *extra: str) -> subprocess.Popen[str]:
    """A run that would take minutes: a large triangulated grid, a tight tolerance, a long heuristic."""
    (folder / "g.txt").write_text(grid(120))
    command = [
        sys.executable,
        "-m",
        "icml",
        "cclust-lb",
        "g.txt",
        "--json",
        "-q",
        "--heuristic-time",
        "10m",
        *extra,
    ]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline, "no progress in the trace"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 143), (signal.SIGINT, 130)]
)
def test_a_signal_leaves_a_valid_best_so_far(icml: Icml, number: signal.Signals, code: int) -> None:
    process = slow_run(icml.folder, "--certificate", "c.npz", "--out-clusters", "o.tsv", "--trace", "t.jsonl")
    wait_for_lines(icml.folder / "t.jsonl", 3)
    process.send_signal(number)
    asked = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert (process.returncode, stderr) == (code, "")
    result = json.loads(stdout)
    assert 0 < result["lower_bound"] <= result["cost"]
    icml("cclust-lb", "g.txt", "--verify", "c.npz")
    audit = certify(icml, "g.txt", "--clusters", "o.tsv", "--time-limit", "1")
    assert audit["cost"] == result["cost"]


def test_time_limit_ends_in_time_with_exit_0(icml: Icml) -> None:
    start = time.monotonic()
    process = slow_run(icml.folder, "--time-limit", "2")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert time.monotonic() - start < 8
    result = json.loads(stdout)
    assert 0 < result["lower_bound"] <= result["cost"]


def test_kill_9_while_running_leaves_the_old_output_whole(icml: Icml) -> None:
    (icml.folder / "out.json").write_text("old\n")
    process = slow_run(icml.folder, "-o", "out.json", "--trace", "t.jsonl")
    wait_for_lines(icml.folder / "t.jsonl", 2)
    process.kill()
    process.communicate()
    assert (icml.folder / "out.json").read_text() == "old\n"


def test_twenty_runs_at_once_in_one_folder(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(6))
    command = [
        sys.executable,
        "-m",
        "icml",
        "cclust-lb",
        "g.txt",
        "--json",
        "-o",
        "out.json",
        "--out-clusters",
        "o.tsv",
    ]
    command += ["--certificate", "c.npz", "--heuristic-steps", "50", "-q"]
    runs = [subprocess.Popen(command, cwd=icml.folder, stderr=subprocess.PIPE) for _ in range(20)]
    for run in runs:
        _, stderr = run.communicate(timeout=120)
        assert (run.returncode, stderr) == (0, b"")
    assert sorted(path.name for path in icml.folder.iterdir()) == ["c.npz", "g.txt", "o.tsv", "out.json"]
    assert json.loads((icml.folder / "out.json").read_text())["m"] == 85
    icml("cclust-lb", "g.txt", "--verify", "c.npz")


def test_closed_pipe_is_quiet(icml: Icml) -> None:
    """More labels than any pipe holds, so that the writer meets the closed end."""
    (icml.folder / "g.txt").write_text(path(200_000))
    options = "-q --heuristic local --heuristic-steps 1 --obstructions triangle --time-limit 20"
    done = icml.shell(
        f'icml cclust-lb g.txt {options} --out-clusters - 2>err.txt | head -1; echo "${{PIPESTATUS[@]}}"'
    )
    label, status = done.stdout.splitlines()
    assert label.startswith("node0\t")
    assert status == "141 0"
    assert (icml.folder / "err.txt").read_text() == ""
    whole = icml.shell(f"icml cclust-lb g.txt {options} --out-clusters - 2>/dev/null | wc -c")
    assert int(whole.stdout) > 2**20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_standard_input_is_read_ends_at_once(
    icml: Icml, number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "icml", "cclust-lb", "-", "-q", "-o", "out.txt", "--out-clusters", "o.tsv"],
        cwd=icml.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(
        b"a b 1\n" * 200_000
    )  # more than a pipe holds: once this is written, it is being read
    process.stdin.flush()
    process.send_signal(number)
    try:
        assert process.wait(timeout=15) == code
    finally:
        process.kill()
    assert process.stderr is not None
    assert process.stderr.read().count(b"\n") == 1
    assert list(icml.folder.iterdir()) == []
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_kill_9_around_the_writing_of_a_certificate_leaves_a_whole_one(icml: Icml) -> None:
    """Ten kills at random moments, ten as soon as the file that will replace the old one is seen."""
    rng = np.random.default_rng(0)
    (icml.folder / "g.txt").write_text(grid(40))
    command = [sys.executable, "-m", "icml", "cclust-lb", "g.txt", "-q", "--problem", "cc"]
    command += ["--heuristic", "louvain", "--heuristic-steps", "1", "--sweeps", "5", "--certificate", "c.npz"]
    begin = time.monotonic()
    subprocess.run(command, cwd=icml.folder, stdout=subprocess.DEVNULL, check=True)
    usual = time.monotonic() - begin
    killed = 0
    for attempt in range(20):
        before = len(os.listdir(icml.folder))
        process = subprocess.Popen(command, cwd=icml.folder, stdout=subprocess.DEVNULL)
        if attempt % 2:
            time.sleep(rng.uniform(0.3, 1.1) * usual)
        else:
            while process.poll() is None and len(os.listdir(icml.folder)) == before:
                time.sleep(0.0002)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        load_certificate(icml.folder / "c.npz")
    assert killed >= 5
    icml("cclust-lb", "g.txt", "--verify", "c.npz")


def test_full_disk_is_one_line(icml: Icml) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    done = icml.shell(f"printf '{TRIANGLE}' | icml cclust-lb - -q > /dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr
