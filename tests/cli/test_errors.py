"""Whatever happens: one line on standard error, the documented exit code, and a traceback only with `--debug`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest

CASES = {
    "input": (2, "icml toy-fail: graph.edges:17: expected 2 or 3 columns, got 1"),
    "work": (1, "icml toy-fail: did not converge"),
    "missing": (
        3,
        "icml toy-fail: reading Parquet needs pyarrow; get it with: pip install 'icml-tools[parquet]'",
    ),
    "absent": (2, "icml toy-fail: absent.edges: No such file or directory"),
    "denied": (2, "icml toy-fail: secret.edges: Permission denied"),
    "folder": (2, "icml toy-fail: data: Is a directory"),
    "full": (1, "icml toy-fail: No space left on device"),
    "memory": (1, "icml toy-fail: out of memory: Unable to allocate 7.45 GiB"),
    "bug": (
        1,
        "icml toy-fail: internal error: TypeError: unsupported operand type(s); "
        "run again with --debug for the traceback",
    ),
    "usage": (
        2,
        "icml toy-fail: invalid value for '--a' / '--b': cannot be both (try 'icml toy-fail --help')",
    ),
    "interrupt": (130, "icml toy-fail: interrupted"),
    "exit-text": (1, "icml toy-fail: some text"),
    "abort": (1, "icml toy-fail: aborted"),
    "other-pipe": (1, "icml toy-fail: endpoint: Broken pipe"),
}


@pytest.mark.parametrize("kind", CASES)
def test_exception_becomes_a_line_and_a_code(cli, kind: str) -> None:
    code, line = CASES[kind]
    assert cli.error("toy-fail", kind, code=code) == line


def test_what_was_written_before_the_failure_arrives(cli) -> None:
    assert cli.run("toy-fail", "work").stdout == "before\n"


@pytest.mark.parametrize(("kind", "code"), [("exit", 7), ("typer-exit", 5)])
def test_an_exit_code_of_the_command_is_kept(cli, kind: str, code: int) -> None:
    done = cli.run("toy-fail", kind)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("words", [("--debug", "toy-fail", "bug"), ("toy-fail", "bug", "--debug")])
def test_debug_shows_the_traceback_before_and_after_the_name(cli, words: tuple[str, ...]) -> None:
    done = cli.run(*words)
    assert done.returncode == 1
    assert "Traceback (most recent call last):" in done.stderr
    assert "toy_tools.py" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("icml toy-fail: internal error: TypeError")


def test_debug_after_a_double_dash_is_an_argument(cli) -> None:
    done = cli.run("toy-fail", "--", "--debug")
    assert done.stderr == (
        "icml toy-fail: internal error: KeyError: '--debug'; run again with --debug for the traceback\n"
    )


USAGE = [
    (["--versio"], r"icml: no such option:? .*--versio.*--version.* \(try 'icml --help'\)"),
    (
        ["toy-show", "--sed", "1"],
        r"icml toy-show: no such option:? .*--sed.*--seed.* \(try 'icml toy-show --help'\)",
    ),
    (
        ["toy-show", "--seed"],
        r"icml toy-show: option '--seed' requires an argument \(try 'icml toy-show --help'\)",
    ),
    (
        ["toy-show", "a", "b"],
        r"icml toy-show: got unexpected extra argument.*b.* \(try 'icml toy-show --help'\)",
    ),
    (["toy-fail"], r"icml toy-fail: missing argument '(kind|KIND)' \(try 'icml toy-fail --help'\)"),
    (["--debug"], r"icml: missing command \(try 'icml --help'\)"),
]


@pytest.mark.parametrize(("words", "pattern"), USAGE)
def test_usage_errors_are_one_line(cli, words: list[str], pattern: str) -> None:
    """The exact words are those of the installed typer."""
    if "--debug" in words:
        done = cli.run(*words)
        assert done.returncode == 2
        line = done.stderr.splitlines()[-1]
    else:
        line = cli.error(*words, code=2)
    assert re.fullmatch(pattern, line), line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("doctr", "icml: no such tool: 'doctr'; did you mean 'doctor'?"),
        ("toy-shwo", "icml: no such tool: 'toy-shwo'; did you mean 'toy-show' or "),
        ("xyzzy", "icml: no such tool: 'xyzzy'; 'icml --help' lists the tools"),
        ("../bin/icml", "icml: no such tool: '../bin/icml'"),
    ],
)
def test_an_unknown_tool_is_a_usage_error_with_a_suggestion(cli, name: str, line: str) -> None:
    assert cli.error(name, code=2).startswith(line)


def test_a_control_character_in_a_message_does_not_reach_the_terminal(cli) -> None:
    line = cli.error("toy-show", "--output", "no\x1b[31m\n/file", code=2)
    assert "no\\x1b[31m /file: cannot write there" in line


def test_ctrl_c_during_the_run_is_130_and_sigterm_143_after_cleaning_up(cli) -> None:
    for signum, code, word in (
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGUSR1, 143, "terminated"),
    ):
        process = cli.start_until_ready("toy-wait")
        assert (cli.folder / "leftover.tmp").exists()
        process.send_signal(signum)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (code, f"icml toy-wait: {word}\n")
        assert not (cli.folder / "leftover.tmp").exists()


def test_a_signal_that_the_caller_ignores_stays_ignored(cli) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    process = cli.start_until_ready("toy-wait", "--seconds", "1", preexec_fn=ignore)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.communicate()


def test_the_console_script_and_the_module_are_the_same_program(cli) -> None:
    for command in (["icml", "toy-fail", "work"], [sys.executable, "-m", "icml", "toy-fail", "work"]):
        done = subprocess.run(command, env=cli.env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (1, "icml toy-fail: did not converge\n")
