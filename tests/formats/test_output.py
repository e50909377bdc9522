"""Output appears whole or not at all, whatever happens."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icml.formats import InputError, JsonLines, Names, WorkError, atomic_output, write_json

OLD = "old content\n"


def run(code: str, *args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    prelude = "import sys\nfrom icml.formats import *\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + code, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "out"
    path.write_text(OLD)
    return path


def test_replaces_only_at_the_end(old: Path) -> None:
    with atomic_output(old) as file:
        file.write("new é\n")
        file.flush()
        assert old.read_text() == OLD
    assert old.read_bytes() == "new é\n".encode()
    assert os.listdir(old.parent) == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_everything_as_it_was(old: Path, error: type[BaseException]) -> None:
    def fail(path: Path) -> None:
        with atomic_output(path, "wb") as file:
            file.write(b"x" * 1_000_000)
            raise error

    for path in (old, old.parent / "new"):
        with pytest.raises(error):
            fail(path)
    assert old.read_text() == OLD
    assert os.listdir(old.parent) == ["out"]


def test_sigkill_in_the_middle_of_a_write(old: Path) -> None:
    code = """
with atomic_output(sys.argv[1]) as file:
    while True:
        file.write("new\\n" * 100_000)
        file.flush()
        print("written", flush=True)
"""
    command = [sys.executable, "-c", "import sys\nfrom icml.formats import *\n" + code, str(old)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(3):
            writer.stdout.readline()
        writer.kill()
    assert writer.returncode == -signal.SIGKILL
    assert old.read_text() == OLD


def test_sigint_cleans_up(old: Path) -> None:
    code = """
import time
with atomic_output(sys.argv[1]) as file:
    file.write("new")
    print("in", flush=True)
    time.sleep(60)
"""
    command = [sys.executable, "-c", "import sys\nfrom icml.formats import *\n" + code, str(old)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.send_signal(signal.SIGINT)
    assert old.read_text() == OLD
    assert os.listdir(old.parent) == ["out"]


def test_twenty_writers_of_one_file(tmp_path: Path) -> None:
    code = """
for _ in range(4):
    with atomic_output(sys.argv[1]) as file:
        for _ in range(300):
            file.write(sys.argv[2] * 20 + "\\n")
            file.flush()
"""
    path = tmp_path / "out"
    command = [sys.executable, "-c", "import sys\nfrom icml.formats import *\n" + code, str(path)]
    writers = [subprocess.Popen([*command, chr(ord("a") + i)]) for i in range(20)]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        with contextlib.suppress(FileNotFoundError):
            seen.add(path.read_text())
        time.sleep(0.01)
    assert [writer.returncode for writer in writers] == [0] * 20
    seen.add(path.read_text())
    for content in seen:  # whole, and of one writer
        assert content == (content[:20] + "\n") * 300
        assert len(set(content[:20])) == 1
    assert os.listdir(tmp_path) == ["out"]


def test_content_is_on_the_disk_before_the_name_is(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the calls, which are all made: file synced, renamed, folder synced."""
    calls = []

    def spy(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any) -> Any:
            what = f"/proc/self/fd/{args[0]}" if name == "fsync" else args[1]
            calls.append((name, os.path.realpath(what)))
            return real(*args)

        monkeypatch.setattr(os, name, call)

    spy("fsync")
    spy("replace")
    with atomic_output(old) as file:
        file.write("new")
    assert [name for name, _ in calls] == ["fsync", "replace", "fsync"]
    assert calls[0][1].endswith(".tmp")
    assert calls[1][1] == str(old)
    assert calls[2][1] == str(old.parent)


def test_permissions(tmp_path: Path, old: Path) -> None:
    previous = os.umask(0o027)
    try:
        with atomic_output(tmp_path / "new") as file:
            file.write("x")
        old.chmod(0o604)
        with atomic_output(old) as file:
            file.write("x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE(old.stat().st_mode) == 0o604


def test_symbolic_links(tmp_path: Path, old: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link"
    link.symlink_to("../out")
    with atomic_output(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert old.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to("folder/target")
    with atomic_output(dangling) as file:
        file.write("there")
    assert (tmp_path / "folder" / "target").read_text() == "there"
    assert sorted(os.listdir(tmp_path / "folder")) == ["link", "target"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "No such file or directory"),
        ("none/out", "No such file or directory"),
        (".", "Is a directory"),
        ("folder", "Is a directory"),
        ("folder/", "Is a directory"),
        ("none/", "Is a directory"),
        ("out/x", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("a\0b", "embedded null byte"),
        ("x" * 300, "File name too long"),
    ],
)
def test_bad_destinations(old: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str) -> None:
    monkeypatch.chdir(old.parent)
    (old.parent / "folder").mkdir()
    (old.parent / "loop").symlink_to("loop")
    before = sorted(os.listdir())
    for write in (lambda: write_json(name, {}), lambda: JsonLines(name)):
        with pytest.raises(InputError) as caught:
            write()
        assert str(caught.value) == f"{name}: {reason}"
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be refused")
def test_read_only_files_and_folders(old: Path) -> None:
    code = """
import os
import json, icml.formats.output
os.setgid(65534); os.setuid(65534)
for name in sys.argv[1:]:
    try:
        write_json(name, 1)
    except InputError as error:
        print(error)
"""
    old.parent.chmod(0o777)
    old.chmod(0o444)
    (old.parent / "folder").mkdir(mode=0o755)
    new = old.parent / "folder" / "new"
    done = run(code, old, new)
    assert done.stdout == f"{old}: Permission denied\n{new}: Permission denied\n", done.stderr
    assert old.read_text() == OLD


def test_full_disk() -> None:
    for mode, data in (("w", "x"), ("wb", b"x")):
        with pytest.raises(WorkError) as caught, atomic_output("/dev/full", mode) as file:  # type: ignore[call-overload]
            file.write(data)
        assert str(caught.value) == "/dev/full: No space left on device"
    with pytest.raises(WorkError), JsonLines("/dev/full") as lines:
        lines.write(1)
    code = "import sys; from icml.formats import *\ntry: write_json('-', 1)\nexcept WorkError as e: sys.exit(str(e))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.stderr == "stdout: No space left on device\n"


@pytest.mark.parametrize("write", ["file.write(b'x' * 100_000)", "numpy.save(file, numpy.zeros(20_000))"])
def test_a_file_that_grows_too_large(old: Path, write: str) -> None:
    """The limit stands for a disk that fills while writing; numpy must not write past the file object."""
    code = f"""
import numpy, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    with atomic_output(sys.argv[1], "wb") as file:
        {write}
except WorkError as error:
    print(error)
"""
    done = run(code, old)
    assert done.stdout == f"{old}: File too large\n", done.stderr
    assert old.read_text() == OLD
    assert os.listdir(old.parent) == ["out"]


def test_numpy_files_round_trip(tmp_path: Path) -> None:
    for save, load in ((np.save, np.load), (np.savez, lambda path: np.load(path)["arr_0"])):
        with atomic_output(tmp_path / "array", "wb") as file:
            save(file, np.arange(1000))  # type: ignore[operator]
        assert load(tmp_path / "array").tolist() == list(range(1000))


def test_standard_output() -> None:
    code = "print('before')\nwith atomic_output({dest}, {mode!r}) as f: f.write({data})\nprint('after')"
    for dest in (None, "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        assert run(code.format(dest=repr(dest), mode="w", data="'é\\n'")).stdout == "before\né\nafter\n"
        assert run(code.format(dest=repr(dest), mode="wb", data="b'x\\n'")).stdout == "before\nx\nafter\n"
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    assert run("write_json(None, '\\xe9')", env=ascii_only).stdout == '"é"\n'


def test_dev_stdout_appends_where_the_shell_does(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n")
    code = "import sys; from icml.formats import *; write_json('/dev/stdout', 1)"
    subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "$1" >> {log}; echo last >> {log}', "sh", code], check=True
    )
    assert log.read_text() == "first\n1\nlast\n"


def test_nothing_more_goes_out_after_a_failure() -> None:
    done = run("with atomic_output('-') as f:\n    f.write('half')\n    raise ValueError")
    assert done.stdout == ""
    assert done.returncode == 1


def test_redirected_standard_output() -> None:
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        write_json("-", [1])
        with JsonLines(None) as lines:
            lines.write(2)
        with pytest.raises(InputError, match="binary output is not for a terminal"), atomic_output("-", "wb"):
            pass
    assert buffer.getvalue() == "[1]\n2\n"


def test_pipes_and_devices(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_json(pipe, {"a": 1})
        assert reader.communicate()[0] == b'{"a": 1}\n'
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    write_json("/dev/null", 1)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_closed_pipe() -> None:
    code = """
import sys
from icml.formats import write_json
try:
    write_json("-", ["x" * 100] * 10_000)
except BrokenPipeError:
    sys.exit(9)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.close()
    assert writer.returncode == 9


def test_binary_to_a_terminal_is_refused() -> None:
    master, slave = pty.openpty()
    code = """
for dest in ('-', '/dev/stdout', sys.argv[1]):
    try:
        with atomic_output(dest, 'wb') as file: file.write(b'x')
    except InputError as error: print(error, file=sys.stderr)
write_json('-', 1)
"""
    name = os.ttyname(slave)
    done = subprocess.run(
        [sys.executable, "-c", "import sys\nfrom icml.formats import *\n" + code, name],
        stdout=slave,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    reason = "binary output is not for a terminal; redirect it or name a file with -o"
    assert done.stderr.splitlines() == [f"{place}: {reason}" for place in ("stdout", "/dev/stdout", name)]
    assert os.read(master, 100) == b"1\r\n"
    os.close(slave)
    os.close(master)


def test_json_values(tmp_path: Path) -> None:
    value = {
        "z": np.float64("nan"),
        "a": np.int64(3),
        "b": [np.float32(0.5), math.inf, -math.inf],
        "é": np.bool_(True),
        "array": np.array([[1.0, np.nan]]),
        "tuple": (1, "x", None),
        "names": Names.from_range(1, 2),
        "big": 10**30,
        "path": "\udcff",
    }
    write_json(tmp_path / "out.json", value)
    text = (tmp_path / "out.json").read_text()
    assert json.loads(text) == {
        "z": None,
        "a": 3,
        "b": [0.5, None, None],
        "é": True,
        "array": [[1.0, None]],
        "tuple": [1, "x", None],
        "names": ["1", "2"],
        "big": 10**30,
        "path": "\udcff",
    }
    assert list(json.loads(text)) == list(value)
    assert text.count("\n") == 1
    write_json(tmp_path / "out.json", {"a": [1]}, indent=2)
    assert (tmp_path / "out.json").read_text() == '{\n  "a": [\n    1\n  ]\n}\n'
    for bad in (object(), {1: 2}, b"x", {"a": {1, 2}}):
        with pytest.raises(TypeError):
            write_json(tmp_path / "out.json", bad)
    assert json.loads((tmp_path / "out.json").read_text()) == {"a": [1]}


def test_json_lines_are_there_at_once(old: Path) -> None:
    with JsonLines(old) as log:
        assert old.read_text() == ""
        for i in range(3):
            log.write({"t": i, "cost": math.nan})
            assert [json.loads(line)["t"] for line in old.read_text().splitlines()] == list(range(i + 1))
    assert old.read_text().splitlines()[0] == '{"t": 0, "cost": null}'
    assert os.listdir(old.parent) == ["out"]


def test_two_logs_of_one_name_do_not_mix(tmp_path: Path) -> None:
    with JsonLines(tmp_path / "log") as first, JsonLines(tmp_path / "log") as second:
        first.write(1)
        second.write(2)
        first.write(1)
    assert (tmp_path / "log").read_text() == "2\n"
