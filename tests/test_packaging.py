"""What is installed, and what an sdist and a wheel hold."""

from __future__ import annotations

import importlib.resources
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_distribution_declares_the_program_and_its_version() -> None:
    installed = distribution("icml-tools")
    assert installed.version == PROJECT["version"]
    assert [(e.name, e.value) for e in installed.entry_points if e.group == "console_scripts"] == [
        ("icml", "icml.cli.main:main")
    ]


@pytest.mark.parametrize("package", ["icml.cli", "icml.formats", "icml.hf", "icml.tools"])
def test_packages_are_typed(package: str) -> None:
    assert importlib.resources.files(package).joinpath("py.typed").is_file()


def test_nothing_but_icml_is_importable_from_the_wheel() -> None:
    """A module called `tools` or `formats` in site-packages would shadow other people's."""
    code = (
        "import importlib.util as u; print([n for n in ('cli', 'formats', 'hf', 'tools') if u.find_spec(n)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_sdist_builds_a_wheel_in_isolation_that_runs(tmp_path: Path) -> None:
    """From a clean sdist, in a fresh environment, as a packager would."""
    constraints = ROOT / "constraints.txt"
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", constraints]
    subprocess.run([*pip, "build"], check=True)
    subprocess.run([python, "-m", "build", "--sdist", "--outdir", tmp_path, ROOT], check=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CMakeLists.txt", "tools/cclust_lb/_kernel.cpp", "man/icml.1"} <= names
    assert not any(name.startswith((".venv", "build/", ".git/")) for name in names)
    subprocess.run([*pip, sdist], check=True)
    (venv / "g.txt").write_text("a b 1\nb c 1\na c -1\n")
    done = subprocess.run(
        [venv / "bin" / "icml", "cclust-lb", "g.txt"], cwd=venv, capture_output=True, text=True, check=True
    )
    assert "optimal" in done.stdout
    assert (venv / "share" / "man" / "man1" / "icml-cclust-lb.1").is_file()


@pytest.mark.slow
def test_the_wheel_holds_code_and_no_sources(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
        cwd=tmp_path,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert any(name.startswith("icml/tools/cclust_lb/_kernel") for name in names)
    assert {"icml/__main__.py", "icml/hf/__init__.py", "icml/hf/py.typed"} <= set(names)
    assert not [name for name in names if name.endswith((".cpp", ".hpp"))]
    top = {name.split("/", 1)[0] for name in names}
    assert all(name == "icml" or name.startswith("icml_tools-") for name in top)
