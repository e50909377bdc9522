"""What every test may use: the program as a subprocess, and the sanitized kernels in place of the installed ones."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import Icml

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


# A suite started in the background (`make test &` from a script) inherits an ignored SIGINT and would pass it on to
# the programs that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
