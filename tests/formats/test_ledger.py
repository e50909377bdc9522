"""The ledger: nothing appended is ever lost, whoever dies and however many write."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats.errors import InputError, WorkError
from icml.formats.ledger import TORN, Ledger


class Writer:
    """A process that appends `count` rows and reports each as soon as the ledger has it."""

    def __init__(self, path: Path, name: str, count: int) -> None:
        reader, report = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ledger = Ledger(path)
                for i in range(count):
                    ledger.append([f"{name},{i}," + "x" * 5000])
                    os.write(report, b"%d\n" % i)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(report)
        self.reports = os.fdopen(reader)

    def wait(self) -> int:
        self.reports.read()
        self.reports.close()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "ledger.csv"
    Ledger.create(target, ["# header", "a,b"])
    return target


def test_create_writes_the_lines_and_leaves_nothing_else(path: Path) -> None:
    assert path.read_bytes() == b"# header\na,b\n"
    assert os.listdir(path.parent) == [path.name]


def test_create_never_replaces_a_file(path: Path) -> None:
    with pytest.raises(InputError, match="there already"):
        Ledger.create(path, ["other"])
    assert path.read_bytes() == b"# header\na,b\n"
    assert os.listdir(path.parent) == [path.name]


def test_create_where_nothing_can_be_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        Ledger.create(tmp_path / "missing" / "ledger.csv", ["a"])


def test_create_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "ledger.csv"
    Ledger.create(target, ["a"])
    assert target.read_bytes() == b"a\n"
    with pytest.raises(InputError, match="there already"):
        Ledger.create(target, ["b"])
    assert os.listdir(tmp_path) == ["ledger.csv"]


@given(st.lists(st.text(st.characters(blacklist_characters="\r\n", codec="utf-8")), max_size=8))
@settings(max_examples=50, deadline=None)
def test_reads_back_what_was_appended(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    target = tmp_path_factory.mktemp("ledger") / "x"
    Ledger.create(target, ["start"])
    ledger = Ledger(target)
    ledger.append(lines)
    for line in lines:
        ledger.append([line])
    assert ledger.read() == ["start", *lines, *lines]


def test_a_line_break_inside_a_line_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="line break"):
        Ledger(path).append(["one\ntwo"])
    assert Ledger(path).read() == ["# header", "a,b"]


def test_a_missing_file_is_an_input_error(tmp_path: Path) -> None:
    for use in (Ledger(tmp_path / "none").read, lambda: Ledger(tmp_path / "none").append(["x"])):
        with pytest.raises(InputError, match="none: No such file"):
            use()


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_torn_last_line_becomes_a_comment_at_the_next_append(path: Path, cut: int) -> None:
    with path.open("a") as stream:
        stream.write("1,2.5,öé"[:cut])
    ledger = Ledger(path)
    assert ledger.read() == ["# header", "a,b"]
    ledger.append(["3,4"])
    assert ledger.read() == ["# header", "a,b", TORN + "1,2.5,öé"[:cut], "3,4"]


def test_a_line_torn_inside_a_character_is_repaired(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write("1,ö".encode()[:-1])
    ledger = Ledger(path)
    assert ledger.read() == ["# header", "a,b"]
    ledger.append(["3,4"])
    assert ledger.read()[2:] == [TORN + "1,\N{REPLACEMENT CHARACTER}", "3,4"]


def test_a_whole_line_without_its_line_feed_is_kept(path: Path) -> None:
    with path.open("a") as stream:
        stream.write("1,2")
    ledger = Ledger(path, complete=lambda line: line.count(",") == 1)
    assert ledger.read() == ["# header", "a,b", "1,2"]
    ledger.append(["3,4"])
    assert path.read_text() == "# header\na,b\n1,2\n3,4\n"


def test_line_ends_of_another_system(path: Path) -> None:
    path.write_bytes(b"# header\r\na,b\r\n1,2\r\n")
    assert Ledger(path).read() == ["# header", "a,b", "1,2"]


def test_a_lock_held_by_another_is_waited_for_and_then_given_up(path: Path) -> None:
    with path.open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        start = time.monotonic()
        with pytest.raises(WorkError, match=r"locked for 0\.2 s"):
            Ledger(path, timeout=0.2).append(["x"])
        assert 0.2 <= time.monotonic() - start < 5
        assert Ledger(path).read() == ["# header", "a,b"]
        fcntl.flock(other, fcntl.LOCK_UN)
    Ledger(path, timeout=0.2).append(["x"])


def test_a_full_disk_leaves_the_file_as_it_was(path: Path) -> None:
    script = (
        "import resource, signal, sys\n"
        "from icml.formats.ledger import Ledger\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "Ledger(sys.argv[1]).append(['y' * 5000])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    assert "WorkError" in done.stderr
    assert path.read_bytes() == b"# header\na,b\n"


def test_eight_writers_at_once_lose_nothing(path: Path) -> None:
    writers = [Writer(path, f"w{k}", 25) for k in range(8)]
    assert [process.wait() for process in writers] == [0] * 8
    rows = [line.split(",") for line in Ledger(path).read()[2:]]
    assert all(len(row[2]) == 5000 for row in rows)
    for k in range(8):
        assert [row[1] for row in rows if row[0] == f"w{k}"] == [str(i) for i in range(25)]


def test_a_killed_writer_loses_nothing_it_was_told_is_written(path: Path) -> None:
    rng = random.Random(0)
    told: list[str] = []
    for trial in range(40):
        process = Writer(path, f"t{trial}", 100_000)
        seen = [process.reports.readline() for _ in range(rng.randrange(1, 6))]
        time.sleep(rng.random() * 0.004)
        os.kill(process.pid, signal.SIGKILL)
        seen += process.reports.readlines()
        assert process.wait() == -signal.SIGKILL
        told += [f"t{trial},{line.strip()}" for line in seen if line.endswith("\n")]
    Ledger(path).append(["after"])
    lines = Ledger(path).read()
    whole = {
        line.rsplit(",", 1)[0] for line in lines if line.endswith("x" * 5000) and not line.startswith("#")
    }
    assert len(told) >= 40
    assert set(told) <= whole
    assert lines[-1] == "after"


def test_every_point_of_a_torn_write_and_of_a_torn_repair(tmp_path: Path) -> None:
    """Cuts an append at every byte, then the repair at every byte: the lines before are always there.

    Nothing false is.
    """
    target = tmp_path / "x"
    whole, row = "head\n1,10\n", "2,20"
    for cut in range(1, len(row) + 1):
        repaired = TORN + row[:cut] + "\n"
        for done in range(len(repaired) + 1):
            torn = row[:cut]
            target.write_text(whole + repaired[:done] + torn[done:])
            ledger = Ledger(target)
            ledger.append(["3,30"])
            lines = [line for line in ledger.read() if not line.startswith("#")]
            assert lines == ["head", "1,10", "3,30"], (cut, done)
