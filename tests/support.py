"""What tests share: where the data is, and the program as a subprocess."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
EXAMPLES = ROOT / "examples"


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
