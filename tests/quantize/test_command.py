"""`icml quantize` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from models import tiny_llama
from support import Icml

pytest.importorskip("transformers")

from .small_models import configuration, write_text

FAST = ("--effort", "fast", "--pool", "1", "--seqlen", "128", "--calib-tokens", "512", "--threads", "2")
FIGURES = {
    *("bpw_linear", "bpw_total", "error_geomean", "linears", "blocks", "bytes_in", "bytes_out", "bits"),
    *("distilled", "divergence", "activations", "frontier", "seconds", "output"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, a text, and what became of the model without any option but for speed."""
    folder = tmp_path_factory.mktemp("quantize")
    tiny_llama(folder / "m", hidden=32)
    write_text(folder / "text.txt")
    return folder


@pytest.fixture(scope="module")
def made(folder: Path) -> subprocess.CompletedProcess[str]:
    return Icml(folder)("quantize", "--bits", "2", "m/", *FAST)


def test_it_just_works(folder: Path, made: subprocess.CompletedProcess[str]) -> None:
    assert made.stdout.startswith(f"{folder}/m-2bit: 14 linears at ")
    assert made.stdout.count("\n") == 1
    assert "calibrating on the text shipped with icml (technical English, PSF-2.0" in made.stderr
    assert (folder / "m-2bit" / "tokenizer.json").is_file()
    assert configuration(folder / "m-2bit")["original"] == "../m"
    assert not list(folder.glob("*.partial"))


def test_a_result_that_is_there_is_refused(folder: Path, made: object) -> None:
    done = Icml(folder)("quantize", "m", code=2)
    assert done.stdout == ""
    assert done.stderr == f"icml quantize: {folder}/m-2bit: exists already; --force replaces it\n"


def test_inspect(folder: Path, made: object) -> None:
    done = Icml(folder)("quantize", "--inspect", "m-2bit")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][:4] == ["module", "count", "shape", "bits"]
    assert ["v_proj", "2", "16x32", "4"] in [row[:4] for row in rows]
    assert ["embed_tokens", "1", "258x32", "8"] in [row[:4] for row in rows]
    found = json.loads(Icml(folder)("quantize", "--inspect", "m-2bit", "--json").stdout)
    assert (found["format"], found["bits"]) == ("proteus", 2.0)
    assert sum(kind["count"] for kind in found["kinds"] if kind["name"].endswith("_proj")) == 14


def test_dequantize(folder: Path, made: object) -> None:
    done = Icml(folder)("quantize", "--dequantize", "m-2bit", "-o", "plain")
    assert done.stdout.startswith("plain: ")
    assert "quantization_config" not in json.loads((folder / "plain" / "config.json").read_text())
    assert "needs -o DIR" in Icml(folder)("quantize", "--dequantize", "m-2bit", code=2).stderr
    assert "was not made by icml quantize" in Icml(folder)("quantize", "--inspect", "plain", code=2).stderr


def test_bench_finds_the_original(folder: Path, made: object) -> None:
    found = json.loads(Icml(folder)("quantize", "--bench", "m-2bit", "--json", "--threads", "1").stdout)
    assert found["quantized"] > 0
    assert found["ratio"] == pytest.approx(found["quantized"] / found["original"])


def test_a_pipe_and_json(folder: Path) -> None:
    text = (folder / "text.txt").read_text()
    done = Icml(folder)(
        "quantize", "m", *FAST, "--calib", "-", "--bits", "4", "--json", "--progress", stdin=text
    )
    figures = json.loads(done.stdout)
    assert set(figures) == FIGURES
    assert figures["output"] == f"{folder}/m-4bit"
    assert figures["bits"] == {"4": 14}
    assert "icml quantize: " in done.stderr
    assert "shipped" not in done.stderr


def test_the_time_limit_leaves_what_is_finished(folder: Path) -> None:
    run = ("quantize", "m", "-o", "late", *FAST, "--calib", "text.txt")
    done = Icml(folder)(*run, "--time-limit", "0.01", code=1)
    assert "--resume goes on" in done.stderr
    assert not (folder / "late").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m", "--bits", "7"], "expected 1 to 4 bits a weight, got 7"),
        (["m", "--protect", "v_proj"], "--protect takes REGEX:BITS with 1 to 4 bits, got 'v_proj'"),
        (["m", "--shard", "5/4"], "--shard takes I/N with I from 0 to N - 1, got '5/4'"),
        (["m", "--merge", "--bench"], "--merge and --bench are two things to do"),
        (["m", "--baseline", "m"], "--baseline goes with --bench"),
        (["nowhere"], "nowhere: no such file or directory"),
        (["--merge", "nothing"], "nothing.partial: holds no quantization in progress"),
    ],
)
def test_usage(folder: Path, arguments: list[str], message: str) -> None:
    done = Icml(folder)("quantize", *arguments, code=2)
    assert done.stderr == f"icml quantize: {message}\n"
    assert done.stdout == ""


def test_without_transformers(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise ImportError('not here')")
    done = Icml(folder)("quantize", "m", "-o", "none", code=3, env={"PYTHONPATH": str(tmp_path)})
    assert "needs torch and transformers; get it with: pip install 'icml-tools[quantize]'" in done.stderr
    assert not (folder / "none.partial").exists()


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, icml.tools.quantize.command; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
