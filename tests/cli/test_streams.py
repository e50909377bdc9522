"""Closed pipes end quietly, full disks and closed streams are one-line errors."""

from __future__ import annotations

import os

import pytest


def test_a_pipe_closed_while_writing_ends_quietly_like_a_filter(cli) -> None:
    done = cli.shell('icml toy-flood | head -n 1; echo "${PIPESTATUS[0]}"')
    assert done.stdout == "line 0\n141\n"
    assert done.stderr == ""


def test_a_pipe_closed_before_the_last_flush_ends_quietly(cli) -> None:
    done = cli.shell('icml --help | true; echo "${PIPESTATUS[0]}"; icml toy-flood --lines 1 | true')
    assert done.stdout == "141\n"
    assert done.stderr == ""


def test_the_help_can_be_cut_short(cli) -> None:
    done = cli.shell("icml --help | head -n 1")
    assert "Usage: icml" in done.stdout
    assert done.stderr == ""


def test_a_closed_pipe_is_quiet_without_buffering_too(cli) -> None:
    done = cli.shell('icml toy-flood | head -n 1; echo "${PIPESTATUS[0]}"', PYTHONUNBUFFERED="1")
    assert done.stdout == "line 0\n141\n"
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("command", ["--help", "--version", "toy-flood", "toy-flood --lines 1"])
def test_a_full_disk_is_one_line(cli, command: str) -> None:
    done = cli.shell(f"icml {command} >/dev/full")
    assert done.returncode == 1
    assert done.stderr.endswith(": No space left on device\n")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["--help", "--version", "toy-flood --lines 1", "toy-show --help"])
def test_output_to_a_closed_stdout_is_one_line(cli, command: str) -> None:
    done = cli.shell(f"icml {command} >&-")
    assert done.returncode == 1
    assert done.stderr.endswith("standard output: Bad file descriptor\n")
    assert done.stderr.count("\n") == 1


def test_a_closed_stdout_that_nothing_is_written_to_does_no_harm(cli) -> None:
    done = cli.shell("icml toy-flood --lines 0 >&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_opened_with_stdout_closed_is_not_taken_for_stdout(cli) -> None:
    done = cli.shell("icml toy-loop --steps 1 -o result.json >&-")
    assert done.returncode == 0
    assert (cli.folder / "result.json").read_text() == '{"best": 1, "stopped_by": null}'


def test_a_closed_stderr_swallows_messages(cli) -> None:
    done = cli.shell("icml toy-fail work 2>&-")
    assert (done.returncode, done.stdout) == (1, "before\n")


def test_a_broken_stderr_does_not_stop_the_work(cli) -> None:
    done = cli.shell('icml toy-talk 2>&1 >data | true; echo "${PIPESTATUS[0]}"')
    assert done.stdout == "0\n"
    assert "data 4" in (cli.folder / "data").read_text()


def test_a_closed_stdin_is_one_line_or_nothing(cli) -> None:
    assert cli.shell("icml --version <&-").returncode == 0
    assert cli.shell("icml toy-flood --lines 0 <&-").returncode == 0
