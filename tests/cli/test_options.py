"""The shared options: parsed and checked before any work, with the same words in every tool."""

from __future__ import annotations

import json
import os
import pty
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icml.cli import options
from icml.formats.errors import InputError


def _values(cli, *args: str | Path, **more) -> dict[str, object]:
    done = cli.run("toy-show", *args, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_defaults(cli) -> None:
    values = _values(cli, env={"OMP_NUM_THREADS": "1"})
    assert values == {
        "source": "-",
        "format": "auto",
        "output": "-",
        "as_json": False,
        "plot": None,
        "seed": 0,
        "threads": 1,
        "device": "auto",
        "time_limit": None,
        "trace": None,
        "checkpoint": None,
        "resume": False,
        "quiet": False,
        "verbose": False,
        "progress": None,
    }


def test_values(cli) -> None:
    (cli.folder / "state").touch()
    words = (
        "in.edges --format tsv -o out.json --json --plot p.svg --seed 18446744073709551615 --threads 3 --device cuda:1 "
        "--time-limit 1.5m --trace t.jsonl --checkpoint state --resume -q -v --no-progress"
    )
    values = _values(cli, *words.split())
    assert values == {
        "source": "in.edges",
        "format": "tsv",
        "output": "out.json",
        "as_json": True,
        "plot": "p.svg",
        "seed": 2**64 - 1,
        "threads": 3,
        "device": "cuda:1",
        "time_limit": 90.0,
        "trace": "t.jsonl",
        "checkpoint": "state",
        "resume": True,
        "quiet": True,
        "verbose": True,
        "progress": False,
    }


BAD = {
    "--seed": [
        ("-1", "expected an integer from 0 to 18446744073709551615, got '-1'"),
        ("x", "got 'x'"),
        ("1.5", ""),
    ],
    "--threads": [("0", "expected an integer from 1 to 65536, got '0'"), ("many", "got 'many'")],
    "--device": [("gpu", "expected auto, cpu, cuda or cuda:N, got 'gpu'"), ("cuda:", "got 'cuda:'")],
    "--plot": [
        ("p.gif", "expected a name ending in .png, .svg or .pdf, got 'p.gif'"),
        ("no/p.png", "no folder 'no'"),
    ],
    "--time-limit": [
        ("soon", "expected a time such as 90, 90s, 10m or 2h, got 'soon'"),
        ("-1", "got '-1'"),
        ("nan", "got 'nan'"),
        ("inf", "got 'inf'"),
        ("9" * 400, "expected a time"),
    ],
    "--output": [
        ("no/such/file", "there is no folder 'no/such'"),
        (".", "it is a folder"),
        ("", "expected a file name"),
    ],
    "--trace": [("no/t.jsonl", "there is no folder 'no'"), ("-", "expected a file name")],
    "--checkpoint": [("no/state", "there is no folder 'no'")],
}


@pytest.mark.parametrize(
    ("option", "value", "words"), [(o, v, w) for o, cases in BAD.items() for v, w in cases]
)
def test_a_bad_value_is_one_line(cli, option: str, value: str, words: str) -> None:
    line = cli.error("toy-show", option, value, code=2)
    assert line.startswith("icml toy-show: invalid value for ")
    assert option in line
    assert words in line
    assert line.endswith("(try 'icml toy-show --help')")


def test_resume_needs_a_checkpoint_that_exists(cli) -> None:
    assert cli.error("toy-show", "--resume", code=2) == "icml toy-show: --resume needs --checkpoint FILE"
    line = cli.error("toy-show", "--resume", "--checkpoint", "state", code=2)
    assert line == "icml toy-show: state: no checkpoint to resume from"


def test_an_input_left_out_is_a_pipe_but_an_error_at_a_terminal(cli) -> None:
    assert _values(cli, input="1 2\n")["source"] == "-"
    controller, terminal = pty.openpty()
    try:
        done = cli.run("toy-show", stdin=terminal)
        assert done.returncode == 2
        assert "no file given and nothing piped in" in done.stderr
        assert _values(cli, "-", stdin=terminal)["source"] == "-"  # typed on purpose
    finally:
        os.close(terminal)
        os.close(controller)


@given(st.floats(min_value=0, max_value=1e6), st.sampled_from(["", "s", "m", "h"]))
def test_durations_are_read_in_their_unit(amount: float, unit: str) -> None:
    text = f"{amount:.6f}{unit}"
    assert options.parse_duration(text) == pytest.approx(
        float(f"{amount:.6f}") * {"m": 60, "h": 3600}.get(unit, 1)
    )


@given(st.integers())
def test_integers_are_accepted_within_their_bounds_only(value: int) -> None:
    parse = options.integer(-5, 5)
    if -5 <= value <= 5:
        assert parse(str(value)) == value
    else:
        with pytest.raises(Exception, match="from -5 to 5"):
            parse(str(value))


def test_check_writable_accepts_what_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "link").symlink_to(tmp_path / "old")
    for path in ("-", "new", "old", "link", "/dev/null"):
        options.check_writable(tmp_path / path if path != "-" else path)


@pytest.mark.parametrize("name", ["no/file", "dir", "dir/", "new/", "dangling"])
def test_check_writable_refuses_what_cannot(tmp_path: Path, name: str) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "file")
    with pytest.raises(InputError) as caught:
        options.check_writable(f"{tmp_path}/{name}")
    assert caught.value.source == f"{tmp_path}/{name}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_check_writable_refuses_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match="no permission"):
            options.check_writable(tmp_path / "file")
    finally:
        tmp_path.chmod(0o700)
