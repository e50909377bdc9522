"""What people are told: on standard error, silenced by -q, and never in the way of the data."""

from __future__ import annotations

import io
import os
import pty
import threading

from icml.cli.progress import print_table

DATA = "".join(f"data {i}\n" for i in range(5))
TABLE = "Figures\nname   value\nbound  12.5\na [b]  3\nnone   -\n"


def _on_a_terminal(cli, *args: str, **more) -> tuple[str, str, int]:
    """Runs with standard error on a terminal and standard output in a pipe; what each got."""
    controller, terminal = pty.openpty()
    seen: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(controller, 4096):
                seen.append(chunk)
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    process = cli.start(*args, stderr=terminal, **more)
    out, _ = process.communicate(timeout=60)
    os.close(terminal)
    reader.join(timeout=10)
    os.close(controller)
    return out, b"".join(seen).decode(), process.returncode


def test_notes_go_to_stderr_and_data_to_stdout(cli) -> None:
    done = cli.run("toy-talk")
    assert done.stdout == DATA + TABLE
    rounds = "".join(f"round {i}\n" for i in range(5))
    assert done.stderr == f"a note\nicml toy-talk: warning: a warning\nbound     12.5\nclusters  3\n{rounds}"


def test_quiet_leaves_warnings(cli) -> None:
    done = cli.run("toy-talk", "-q")
    assert done.stdout == DATA + TABLE
    assert done.stderr == "icml toy-talk: warning: a warning\n"


def test_verbose_adds_details(cli) -> None:
    assert "a note\na detail\n" in cli.run("toy-talk", "--verbose").stderr


def test_progress_in_a_log_is_a_line_now_and_then(cli) -> None:
    lines = cli.run("toy-talk", "-q", "--progress").stderr.splitlines()
    assert lines[1:] == ["icml toy-talk: packing 0%"]


def test_progress_on_a_terminal_leaves_stdout_alone(cli) -> None:
    out, err, code = _on_a_terminal(cli, "toy-talk", "--seconds", "0.15")
    assert code == 0
    assert out == DATA + TABLE
    assert "packing" in err
    assert "100%" in err
    assert "\x1b[" in err
    assert "round 4" in err


def test_no_progress_and_quiet_keep_the_terminal_still(cli) -> None:
    for option in ("--no-progress", "-q"):
        _, err, _ = _on_a_terminal(cli, "toy-talk", option, "--seconds", "0.02")
        assert "packing" not in err
        assert "\x1b" not in err


def test_no_color_is_respected(cli) -> None:
    _, err, _ = _on_a_terminal(cli, "toy-talk", "--seconds", "0.15", env={"NO_COLOR": "1"})
    assert "packing" in err
    assert "\x1b[38;" not in err
    assert "\x1b[3" not in err.replace("\x1b[?25", "")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_are_drawn_on_a_terminal(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = _Terminal()
    print_table(["name", "value"], [["a [b]", 1], ["c", 22]], title="Figures", file=terminal)
    text = terminal.getvalue()
    assert "\x1b[" in text
    assert "a [b]" in text
    assert "─" in text


def test_plain_tables_set_numbers_flush_right() -> None:
    plain = io.StringIO()
    print_table(["name", "count", "x"], [["a", 1, 0.5], ["bb", 100, 1234567.0], ["c", 22, 1 / 3]], file=plain)
    assert plain.getvalue() == (
        "name  count         x\na         1       0.5\nbb      100   1234567\nc        22  0.333333\n"
    )
