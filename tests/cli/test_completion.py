"""Completion as the shells do it: the emitted script, sourced in a real shell, completes tools, options and files."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

from icml.cli.registry import TOOLS

SHELLS = ("bash", "zsh", "fish")


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


def _bash_replies(cli, *words: str) -> list[str]:
    """What bash would offer for the last word: COMPREPLY after its completion function has run."""
    quoted = " ".join(f"'{word}'" for word in words)
    done = cli.shell(
        'source /dev/stdin <<<"$(icml --show-completion bash)"\n'
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
        "$(complete -p icml | sed 's/.*-F \\([^ ]*\\).*/\\1/') icml\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_emitted(cli, shell: str) -> None:
    done = cli.run("--show-completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"complete_{shell}" in done.stdout
    assert "_ICML_COMPLETE" in done.stdout


@needs("bash")
def test_bash_completes_tools_and_plugins(cli) -> None:
    cli.add_executable("icml-toy-path", "#!/bin/sh\n")
    everything = _bash_replies(cli, "icml", "")
    assert {tool.name for tool in TOOLS} | {"doctor", "toy-show", "toy-path"} <= set(everything)
    assert _bash_replies(cli, "icml", "doc") == ["doctor"]
    assert _bash_replies(cli, "icml", "xyzzy") == []


@needs("bash")
def test_bash_completes_options(cli) -> None:
    assert _bash_replies(cli, "icml", "--ver") == ["--version"]
    assert _bash_replies(cli, "icml", "toy-show", "--th") == ["--threads"]
    assert _bash_replies(cli, "icml", "toy-show", "in.edges", "--che") == ["--checkpoint"]
    assert "--debug" in _bash_replies(cli, "icml", "--debug", "toy-show", "--")


@needs("bash")
def test_bash_leaves_files_and_the_words_of_executables_to_the_shell(cli) -> None:
    cli.add_executable("icml-toy-path", "#!/bin/sh\necho must not run >&2\n")
    assert _bash_replies(cli, "icml", "toy-show", "gra") == []
    assert _bash_replies(cli, "icml", "toy-show", "--output", "gra") == []
    assert _bash_replies(cli, "icml", "toy-path", "gra") == []


def test_completing_a_name_imports_no_tool(cli) -> None:
    request = {"_ICML_COMPLETE": "complete_bash", "COMP_WORDS": "icml\n", "COMP_CWORD": "1"}
    done = cli.run(python=("-X", "importtime"), env=request)
    imported = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"numpy", "pydantic", "toy_tools", *(tool.module for tool in TOOLS)}
    assert "doctor" in done.stdout.split()


def test_a_failure_while_completing_is_silent(cli) -> None:
    request = {"_ICML_COMPLETE": "complete_bash", "COMP_WORDS": "icml\ntoy-gone\n--", "COMP_CWORD": "2"}
    done = cli.run(env=request)
    assert (done.stdout, done.stderr) == ("", "")


def _type(cli, command: list[str], keys: list[bytes], until: bytes) -> str:
    """Types at a real shell on a terminal, one piece after the other, and returns what it shows up to `until`."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=cli.folder,
        env={**cli.env, "PS1": "READY> ", "PROMPT": "READY> ", "TERM": "dumb", "COLUMNS": "1000"},
        start_new_session=True,
    )
    os.close(terminal)
    seen = b""
    deadline = time.monotonic() + 40
    try:
        for piece in keys:
            os.write(controller, piece)
        while until not in seen and time.monotonic() < deadline:
            if select.select([controller], [], [], 0.2)[0]:
                seen += os.read(controller, 4096)
    except OSError:
        pass
    finally:
        process.kill()
        process.wait()
        os.close(controller)
    return seen.decode(errors="replace")


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in ("bash", "zsh")])
def test_a_tool_an_option_and_a_file_complete_at_the_keyboard(cli, shell: str) -> None:
    (cli.folder / "graph.edges").touch()
    if shell == "bash":
        command = ["bash", "--norc", "--noprofile", "-i"]
        setup = b'source /dev/stdin <<<"$(icml --show-completion bash)"\n'
    else:
        command = ["zsh", "-f", "-i"]
        setup = b'autoload -Uz compinit && compinit -u -D && eval "$(icml --show-completion zsh)"\n'
    line = b"icml toy-sho\t--verb\tgra\t; echo fin''ished\n"
    text = _type(cli, command, [setup, line], until=b"finished")
    assert '"source": "graph.edges"' in text
    assert '"verbose": true' in text


@needs("fish")
def test_fish_completes_tools_options_and_files(cli) -> None:
    (cli.folder / "graph.edges").touch()

    def complete(words: str) -> str:
        script = f"icml --show-completion fish | source; complete -C '{words}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            cwd=cli.folder,
            env=cli.env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout

    assert complete("icml doc").split("\t")[0] == "doctor"
    assert complete("icml toy-show --thr").split("\t")[0] == "--threads"
    assert "graph.edges" in complete("icml toy-show gra")


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/icml.sh"),
        ("zsh", ".zfunc/_icml"),
        ("fish", ".config/fish/completions/icml.fish"),
    ],
)
def test_install_for_a_named_shell(cli, shell: str, file: str) -> None:
    done = cli.run("--install-completion", shell)
    assert (done.returncode, done.stdout) == (0, "")
    assert file in done.stderr
    assert f"complete_{shell}" in (cli.folder / file).read_text()


@needs("bash")
def test_install_detects_the_shell_it_is_called_from(cli) -> None:
    done = cli.shell("icml --install-completion; true", SHELL="/bin/unknown")
    assert done.returncode == 0
    assert (cli.folder / ".bash_completions" / "icml.sh").exists()
    assert (cli.folder / ".bashrc").exists()


@needs("bash")
def test_an_installed_completion_works_in_the_next_shell(cli) -> None:
    assert cli.run("--install-completion", "bash").returncode == 0
    text = _type(cli, ["bash", "-i"], [b"icml toy-flo\t --lines 1; echo fin''ished\n"], until=b"finished")
    assert "line 0" in text


def test_an_unknown_shell_is_a_usage_error(cli) -> None:
    for option in ("--install-completion", "--show-completion"):
        line = cli.error(option, "tcsh", code=2)
        assert line == f"icml: completion for 'tcsh' is not supported; try: icml {option} bash|zsh|fish"


def test_a_home_that_cannot_be_written_is_one_line(cli) -> None:
    (cli.folder / "file").touch()
    line = cli.error("--install-completion", "fish", code=2, env={"HOME": str(cli.folder / "file")})
    assert "Not a directory" in line
