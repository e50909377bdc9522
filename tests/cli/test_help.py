"""`icml --help` and `icml TOOL --help`: complete, drawn for people, and quick because they import next to nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from icml.cli.registry import BUILTINS, TOOLS

HEAVY = ("numpy", "scipy", "torch", "sklearn", "networkx", "matplotlib", "pyarrow")


def _imported(cli, *args: str) -> set[str]:
    """The modules that a run of the program imports."""
    done = cli.run(*args, python=("-X", "importtime"))
    assert done.returncode == 0, done.stderr
    return {
        line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")
    }


def test_help_lists_every_command_under_its_panel(cli) -> None:
    text = cli.run("--help").stdout
    for row in (*TOOLS, *BUILTINS):
        panel = text.index(f"─ {row.panel} ─")
        assert panel < text.index(f"│ {row.name} ") < text.index("╰", panel)
    assert " ".join(TOOLS[0].help.split()[:3]) in text
    for option in ("--version", "--install-completion", "--show-completion", "--debug", "--help"):
        assert f"│ {option} " in text


def test_help_lists_plugins_with_their_origin(cli) -> None:
    program = cli.add_executable("icml-on-path", "#!/bin/sh\n")
    (cli.bin / "icml-not-executable").write_text("")
    text = cli.run("--help", env={"COLUMNS": "400"}).stdout
    panel = text[text.index("─ Plug-ins ─") :]
    assert "toy-show" in panel
    assert "from toy-tools" in panel
    assert "on-path" in panel
    assert str(program) in panel or str(program)[:40] in panel
    assert "not-executable" not in text
    assert text.count("│ doctor ") == 1  # the plug-in of that name does not hide the built-in one


def test_help_fits_the_terminal_and_the_encoding(cli) -> None:
    wide = cli.run("--help", env={"COLUMNS": "60"}).stdout
    assert max(map(len, wide.splitlines())) == 60
    plain = cli.run("--help", env={"PYTHONIOENCODING": "ascii"})
    assert plain.returncode == 0
    assert plain.stdout.isascii()
    assert "+- Graphs" in plain.stdout


def test_help_is_not_coloured_in_a_pipe(cli) -> None:
    for args in (["--help"], ["toy-show", "--help"], []):
        done = cli.run(*args)
        assert "\x1b" not in done.stdout + done.stderr


def test_no_arguments_show_the_help_as_a_usage_error(cli) -> None:
    done = cli.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: icml [OPTIONS] TOOL [ARGS]..." in done.stderr


def test_version(cli) -> None:
    from importlib.metadata import version

    done = cli.run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"icml {version('icml-tools')}\n", "")


def test_group_help_imports_no_tool(cli) -> None:
    imported = _imported(cli, "--help")
    assert "typer" in imported  # the measurement works
    for module in (
        *HEAVY,
        "pydantic",
        "rich.markdown",
        "icml.cli.doctor",
        "toy_tools",
        *(t.module for t in TOOLS),
    ):
        assert module not in imported
    assert not any(module.startswith("icml.tools.") for module in imported)


@pytest.mark.parametrize("name", [row.name for row in (*TOOLS, *BUILTINS)])
def test_tool_help_imports_nothing_heavy(cli, name: str) -> None:
    imported = _imported(cli, name, "--help")
    assert "typer" in imported
    assert not imported & set(HEAVY)


def test_heavy_imports_would_be_seen(cli) -> None:
    assert "numpy" in _imported(cli, "toy-heavy")


def test_tool_help_shows_the_docstring_and_brackets_as_they_are(cli) -> None:
    done = cli.run("toy-show", "--help")
    assert done.returncode == 0
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert any(line.startswith("Usage: icml toy-show [OPTIONS]") for line in lines)
    assert "Show what the options [all of them] came to." in lines
    assert "The second paragraph is filled again." in lines
    assert "     icml toy-show graph.edges" in done.stdout.splitlines()
    assert "auto|cpu|cuda[:N]" in done.stdout
    assert "--debug" in done.stdout


def test_start_up_is_a_small_multiple_of_importing_typer(cli, tmp_path: Path) -> None:
    """User and system seconds, the least of several interleaved runs, in which other work hardly shows."""
    commands = {
        "bare": [sys.executable, "-c", "pass"],
        "typer": [sys.executable, "-c", "import typer"],
        "help": [sys.executable, "-m", "icml", "--help"],
        "tool help": [sys.executable, "-m", "icml", TOOLS[0].name, "--help"],
    }
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds: dict[str, float] = {}
    for repeat in range(6):
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if repeat > 0:  # the first one compiles
                seconds[name] = min(used, seconds.get(name, used))
    assert seconds["bare"] < seconds["typer"]  # the measurement works
    assert seconds["help"] < 3.0 * seconds["typer"]
    assert seconds["tool help"] < 3.0 * seconds["typer"]
