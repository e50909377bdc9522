"""What every test may use: the program as a subprocess, and the sanitized kernels in place of the installed ones."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(__file__).resolve().parent / "data"
EXAMPLES = ROOT / "examples"
SANITIZED = os.environ.get("ICML_KERNELS")


def _load_kernels(folder: Path) -> None:
    """Imports `FOLDER/x/y/_kernel*.so` as `icml.x.y._kernel` before anything else can import the installed one."""
    for library in sorted(folder.glob("**/_kernel*.so")):
        name = ".".join(("icml", *library.parent.relative_to(folder).parts, "_kernel"))
        spec = importlib.util.spec_from_file_location(name, library)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)


if SANITIZED:
    _load_kernels(Path(SANITIZED))


class Icml:
    """Runs `icml` in a folder as a user would and returns the finished process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self,
        *args: str | Path,
        stdin: str | bytes | None = None,
        code: int | None = 0,
        env: dict[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Runs `icml ARGS`; `code` is the exit status the test insists on, None for any."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        raw = subprocess.run(
            [sys.executable, "-m", "icml", *map(str, args)],
            input=data if data is not None else b"",
            capture_output=True,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            timeout=timeout,
            check=False,
        )
        done = subprocess.CompletedProcess(raw.args, raw.returncode, raw.stdout.decode(), raw.stderr.decode())
        assert "Traceback" not in done.stderr or "--debug" in args, done.stderr
        assert code is None or done.returncode == code, (
            f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def shell(self, line: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs a shell line with `icml` on PATH."""
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
            timeout=timeout,
            check=False,
        )


@pytest.fixture
def icml(tmp_path: Path) -> Icml:
    """The program, run in an empty folder."""
    return Icml(tmp_path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under the sanitizers only in-process tests say anything: subprocesses load the installed kernels."""
    if not SANITIZED:
        return
    kept: Sequence[pytest.Item] = [item for item in items if "icml" not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
