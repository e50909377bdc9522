"""What a test of `migrate` needs beside Python, with the reason it gives where that is missing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from icml.tools.migrate import emulator
from icml.tools.migrate.targets import TARGETS

needs_zig = pytest.mark.skipif(
    find_spec("ziglang") is None, reason="ziglang is not installed (extra `migrate`)"
)


def needs_run(*targets: str) -> pytest.MarkDecorator:
    """Programs of these targets can be built and run here."""
    troubles = [trouble[0] for name in targets if (trouble := emulator.problem(TARGETS[name])) is not None]
    if find_spec("ziglang") is None:
        troubles.insert(0, "ziglang is not installed (extra `migrate`)")
    return pytest.mark.skipif(bool(troubles), reason="; ".join(troubles))
