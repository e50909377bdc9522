"""`icml perplexity` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from models import tiny_llama
from support import Icml

pytest.importorskip("transformers")

TEXT = "All work and no play makes Jack a dull boy. " * 40
KEYS = [
    *("model", "text", "tokens", "bytes", "windows", "window", "stride", "complete", "nll", "nll_interval"),
    *("ppl", "ppl_interval", "bits_per_byte", "bits_per_byte_interval"),
]
COMPARED = [
    "baseline",
    *(
        name + end
        for name in ("baseline_nll", "baseline_ppl", "nll_difference", "kl", "top1_agreement")
        for end in ("", "_interval")
    ),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("m") / "tiny")


def test_figures_as_a_table(icml: Icml, model: Path) -> None:
    (icml.folder / "t.txt").write_text(TEXT)
    done = icml("perplexity", model, "t.txt", "--baseline", model)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["figure", "value", "low", "high"]
    assert [line.split()[0] for line in lines[1:]] == [
        "nll", "ppl", "bits_per_byte", "baseline_nll", "baseline_ppl", "nll_difference", "kl", "top1_agreement",
    ]  # fmt: skip
    assert f"{len(TEXT) - 1} tokens ({len(TEXT) - 1} bytes) in 7 windows of 256" in done.stderr
    assert "7 windows and are rough" in done.stderr


def test_json_of_standard_input_into_a_file(icml: Icml, model: Path) -> None:
    """The same from text and from JSONL, but for the token between two documents; and the same bytes each time."""
    piped = icml("perplexity", model, "--json", "-q", "--baseline", model, stdin=TEXT)
    assert piped.stderr == ""
    found = json.loads(piped.stdout)
    assert list(found) == KEYS + COMPARED
    assert (found["text"], found["kl"], found["top1_agreement"]) == ("stdin", 0, 1)
    assert found["ppl_interval"][0] < found["ppl"] < found["ppl_interval"][1]
    again = icml("perplexity", model, "-", "--json", "--baseline", model, "-o", "out.json", stdin=TEXT)
    assert again.stdout == ""
    assert (icml.folder / "out.json").read_text() == piped.stdout
    rows = "".join(json.dumps({"text": part}) + "\n" for part in (TEXT[:500], TEXT[500:]))
    jsonl = json.loads(icml("perplexity", model, "--json", stdin=rows).stdout)
    assert list(jsonl) == KEYS
    assert jsonl["tokens"] == found["tokens"] + 1
    assert jsonl["bytes"] == found["bytes"]


def test_refusals_are_one_line(icml: Icml, model: Path) -> None:
    for args, message in [
        ((model, "absent.txt"), "absent.txt: No such file or directory"),
        ((model, "--window", "1000"), "the window of 1000 is longer than the 256 positions it has"),
        ((model, "--window", "1"), "window"),
    ]:
        done = icml("perplexity", *args, stdin=TEXT, code=2)
        assert message in done.stderr
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) <= 5


def test_a_signal_ends_it_with_what_there_is(model: Path, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TEXT * 400)
    command = [sys.executable, "-m", "icml", "perplexity", model, "t.txt", "--json", "--trace", "trace.jsonl"]
    process = subprocess.Popen(
        [*map(str, command), "--window", "32"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        trace = tmp_path / "trace.jsonl"
        if trace.exists() and trace.read_text().count("\n") >= 3:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 143
    found = json.loads(out)
    assert found["complete"] is False
    assert found["windows"] >= 3
    assert found["tokens"] == 32 * found["windows"]
    assert "stopped there" in err
    last = json.loads((tmp_path / "trace.jsonl").read_text().splitlines()[-1])
    assert (last["windows"], last["tokens"]) == (found["windows"], found["tokens"])


def test_help_imports_no_numpy(icml: Icml) -> None:
    code = (
        "import sys; from icml.cli.commands import load; load('perplexity')\n"
        "print([m for m in ('numpy', 'torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
