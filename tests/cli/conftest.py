"""The program with toy plug-ins: entry points in a distribution made for the test, and executables on PATH."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ENTRY_POINTS = {
    "toy-show": "toy_tools:show",
    "toy-fail": "toy_tools:fail",
    "toy-flood": "toy_tools:flood",
    "toy-wait": "toy_tools:wait",
    "toy-loop": "toy_tools:loop",
    "toy-talk": "toy_tools:talk",
    "toy-heavy": "toy_tools:heavy",
    "toy-sub": "toy_tools:sub",
    "toy-gone": "module_that_is_gone:command",
    "toy-number": "toy_tools:_FAULTS",
    "doctor": "toy_tools:show",
}


class Cli:
    """Runs `icml` in an empty folder, with the toys installed and nobody ignoring Ctrl-C."""

    def __init__(self, folder: Path, site: Path, bin: Path) -> None:
        self.folder = folder
        self.bin = bin
        unwanted = ("PYTHONUNBUFFERED", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "OMP_NUM_THREADS")
        self.env = {
            **{name: value for name, value in os.environ.items() if name not in unwanted},
            "PYTHONPATH": os.pathsep.join([str(site), str(HERE), os.environ.get("PYTHONPATH", "")]).rstrip(
                ":"
            ),
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "xterm-256color",
        }

    def start(self, *args: str | Path, python: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
        """Starts `icml ARGS`; `python` goes before `-m icml`."""
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "cwd": self.folder,
            "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **more,
        }
        settings["env"] = {**self.env, **more.get("env", {})}
        return subprocess.Popen([sys.executable, *python, "-m", "icml", *map(str, args)], **settings)

    def start_until_ready(self, *args: str | Path, **more: Any) -> subprocess.Popen[str]:
        """Starts a toy and waits until it has said on standard error that it is ready."""
        process = self.start(*args, **more)
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        return process

    def run(
        self, *args: str | Path, input: str | None = None, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Runs `icml ARGS` to its end."""
        process = self.start(*args, **({"stdin": subprocess.PIPE} if input is not None else {}), **more)
        out, err = process.communicate(input, timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def error(self, *args: str | Path, code: int, **more: Any) -> str:
        """Runs `icml ARGS`, which must exit with `code`; the one line that it says on standard error."""
        done = self.run(*args, **more)
        assert done.returncode == code, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr.removesuffix("\n")

    def shell(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Runs a bash script with `icml` on PATH."""
        return subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**self.env, **env},
            timeout=60,
            check=False,
        )

    def add_executable(self, name: str, script: str) -> Path:
        """Puts a program on PATH."""
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)
        return path


@pytest.fixture
def cli(icml: Any, tmp_path: Path) -> Cli:
    """The program; it depends on `icml` so that the sanitizers' run leaves it out."""
    site, bin, folder = (tmp_path / name for name in ("site", "bin", "work"))
    info = site / "toy_tools-1.2.dist-info"
    for path in (info, bin, folder):
        path.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-tools\nVersion: 1.2\n")
    lines = (f"{name} = {target}\n" for name, target in ENTRY_POINTS.items())
    (info / "entry_points.txt").write_text("[icml.tools]\n" + "".join(lines))
    cli = Cli(folder, site, bin)
    cli.add_executable("icml", f'#!/bin/sh\nexec {sys.executable} -m icml "$@"\n')
    return cli
