"""`icml doctor`: what is here, what is missing and what it would give; an error only if icml cannot work."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from importlib.util import find_spec

from icml.cli import doctor
from icml.cli.registry import TOOLS, Part


def _report(cli, **more) -> tuple[dict[str, object], int]:
    done = cli.run("doctor", "--json", **more)
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


def _part(report, name: str) -> dict[str, object]:
    return next(part for part in report["parts"] if part["name"] == name)


def test_the_report(cli) -> None:
    report, code = _report(cli)
    assert code == 0
    assert report["ok"] is True
    assert report["icml"] == version("icml-tools")
    assert report["python"] == platform.python_version()
    assert report["threads"] == min(limit for limit in report["cpu_limits"].values() if limit is not None)
    assert report["memory_bytes"]["machine"] > report["memory_bytes"]["available"] > 0
    assert _part(report, "numpy")["version"] == version("numpy")
    for tool in TOOLS:
        for part in tool.parts:
            assert _part(report, part.name)["state"] in {"ok", "missing"}
    assert (find_spec("torch") is None) == all(part["name"] != "torch" for part in report["parts"])
    assert {"name": "toy-show", "origin": "from toy-tools"} in report["plugins"]


def test_people_get_tables(cli) -> None:
    done = cli.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        f"icml      {version('icml-tools')}",
        "affinity",
        "GiB",
        "matplotlib",
        "toy-show",
        "kernel",
    ):
        assert words in done.stdout


def test_a_missing_optional_part_says_what_it_would_give_and_how_to_get_it(cli) -> None:
    (cli.folder / "sitecustomize.py").write_text(_HIDE.format(names={"pyarrow"}))
    report, code = _report(cli, env={"PYTHONPATH": f"{cli.folder}:{cli.env['PYTHONPATH']}"})
    assert code == 0
    part = _part(report, "pyarrow")
    assert part["state"] == "missing"
    assert part["note"] == "would give Parquet tables; get it with: pip install 'icml-tools[parquet]'"


def test_a_broken_required_part_is_an_error(cli) -> None:
    (cli.folder / "networkx.py").write_text("raise RuntimeError('half\\ninstalled')\n")
    done = cli.run("doctor", env={"PYTHONPATH": f"{cli.folder}:{cli.env['PYTHONPATH']}"})
    assert (done.returncode, done.stderr) == (1, "")
    assert "broken" in next(line for line in done.stdout.splitlines() if line.startswith("networkx "))
    assert "RuntimeError: half installed; " in done.stdout
    assert "icml does not work here" in done.stdout


def test_broken_optional_parts_are_no_error_and_torch_is_looked_at_where_installed(cli) -> None:
    (cli.folder / "matplotlib.py").write_text("import nothing_of_that_name\n")
    (cli.folder / "torch.py").write_text(_TORCH)
    report, code = _report(cli, env={"PYTHONPATH": f"{cli.folder}:{cli.env['PYTHONPATH']}"})
    assert code == 0
    assert report["ok"] is True
    assert _part(report, "matplotlib")["state"] == "broken"
    assert _part(report, "torch")["note"] == "CUDA 12.4: H200, H200"


def test_a_part_may_be_a_program_on_path() -> None:
    found = doctor.examine(Part("shell", "sh", "scripts", "apt install dash", kind="program"))
    assert found.state == "ok"
    assert found.note.endswith("/sh")
    missing = doctor.examine(
        Part("emulator", "qemu-of-no-name", "RISC-V runs", "apt install qemu", kind="program")
    )
    assert (missing.state, missing.note) == (
        "missing",
        "would give RISC-V runs; get it with: apt install qemu",
    )


def test_a_kernel_that_is_not_there_is_missing() -> None:
    part = Part("nothing", "icml.tools.nothing_of_that_name._kernel", "x", "y", kind="kernel", required=True)
    assert doctor.examine(part).state in {"missing", "broken"}


_HIDE = """
import importlib.abc, sys

class Hide(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hide())
"""

_TORCH = """
class version:
    cuda = "12.4"

class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda index: "H200")
"""
