"""The package as a whole: what importing it costs, and its behaviour in forked processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import icml.formats

HEAVY = "{'numpy', 'scipy', 'networkx', 'pyarrow', 'zstandard', 'sklearn'}"


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


@pytest.mark.parametrize(
    ("code", "imported"),
    [
        ("import icml.formats", "set()"),
        ("from icml.formats import InputError, atomic_output, write_json", "set()"),
        ("import io; from icml.formats import read_edges; read_edges(io.BytesIO(b'1 2'))", "{'numpy'}"),
    ],
)
def test_importing_is_cheap(code: str, imported: str) -> None:
    assert run(f"import sys; {code}; print({HEAVY} & set(sys.modules))") == imported


def test_every_public_name_is_there() -> None:
    for name in icml.formats.__all__:
        assert getattr(icml.formats, name).__doc__
    assert dir(icml.formats) == icml.formats.__all__
    assert not hasattr(icml.formats, "read_everything")


def test_reading_in_a_forked_child() -> None:
    """GNU's OpenMP hangs in a child of a process that has used it, unless the child is kept to one thread."""
    code = """
import io, os
from icml.formats import read_edges
data = b"".join(b"%d %d\\n" % (i, i + 1) for i in range(100_000))
assert len(read_edges(io.BytesIO(data), threads=2)) == 100_000
child = os.fork()
if child == 0:
    os._exit(0 if len(read_edges(io.BytesIO(data), threads=2)) == 100_000 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run(code) == "0"
