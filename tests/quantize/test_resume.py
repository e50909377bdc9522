"""Runs that are cut short, run in parts or side by side end in the same bytes; a result is whole or absent."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from models import tiny_llama

pytest.importorskip("transformers")

from icml.formats.errors import InputError, WorkError
from icml.tools.quantize.options import Stopped
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.jobs import merge_shards
from icml.tools.quantize.pipeline.run import Shard
from icml.tools.quantize.pipeline.workspace import Workspace

from .small_models import content, quantize, write_text

BLOCKS = 4


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of several blocks, a text beside it."""
    folder = tmp_path_factory.mktemp("model")
    write_text(folder / "text.txt")
    return tiny_llama(folder / "m", hidden=32, layers=BLOCKS)


@pytest.fixture(scope="module")
def whole(model: Path) -> dict[str, str]:
    """What an undisturbed run makes."""
    quantize(model, model.parent / "whole")
    return content(model.parent / "whole")


class _Stop:
    """Asks for an end once so many blocks are done."""

    def __init__(self, blocks: int) -> None:
        self.blocks, self.done = blocks, 0
        self.control = Control(should_stop=lambda: self.done >= self.blocks, on_block=self._count)

    def _count(self, state: tuple[int, str, int]) -> None:
        self.done += 1


@pytest.mark.parametrize(
    "settings", [{}, {"hessian": "sequential"}, {"bits": 3.999}], ids=["once", "sequential", "budget"]
)
def test_a_stopped_run_goes_on(model: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    quantize(model, tmp_path / "whole", **settings)
    stop = _Stop(2)
    with pytest.raises(Stopped):
        quantize(model, tmp_path / "q", control=stop.control, **settings)
    assert not (tmp_path / "q").exists()
    with pytest.raises(InputError, match="an earlier run was not finished; --resume goes on with it"):
        quantize(model, tmp_path / "q", **settings)
    again = _Stop(BLOCKS + 1)
    quantize(model, tmp_path / "q", control=again.control, job={"resume": True}, **settings)
    assert again.done == BLOCKS - stop.done, "finished blocks are not done again"
    assert content(tmp_path / "q") == content(tmp_path / "whole")
    assert not (tmp_path / "q.partial").exists()


def test_a_workspace_of_another_plan_is_not_gone_on_with(model: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        quantize(model, tmp_path / "q", control=_Stop(1).control)
    others: dict[str, dict[str, Any]] = {
        "seed": {"seed": 1}, "skip": {"skip": "k_proj"}, "calibration": {"job": {"tokens": 512}},
    }  # fmt: skip
    for what, options in others.items():
        job = {"resume": True, **options.pop("job", {})}
        with pytest.raises(InputError, match=f"was begun with other {what}; --force begins anew"):
            quantize(model, tmp_path / "q", job=job, **options)
    quantize(model, tmp_path / "q", seed=1, job={"force": True})


def test_changed_weights_are_noticed(model: Path, tmp_path: Path, whole: dict[str, str]) -> None:
    """A block is done again if it, or one before it, is not what it was."""
    other = tiny_llama(tmp_path / "m", hidden=32, layers=BLOCKS, seed=9)
    write_text(tmp_path / "text.txt")
    with pytest.raises(Stopped):
        quantize(other, tmp_path / "whole", control=_Stop(3).control)
    os.rename(other, tmp_path / "old")
    os.symlink(model, tmp_path / "m")
    quantize(tmp_path / "m", tmp_path / "whole", job={"resume": True})
    assert content(tmp_path / "whole") == whole


def test_shards_in_any_order(model: Path, tmp_path: Path, whole: dict[str, str]) -> None:
    out = tmp_path / "whole"
    os.symlink(model, tmp_path / "m")
    write_text(tmp_path / "text.txt")
    shards: dict[str, Any] = {}
    for index in (2, 0):
        assert quantize(tmp_path / "m", out, threads=index + 1, job={"shard": Shard(index, 3)}) is None
    with pytest.raises(InputError, match=r"not finished yet: block 1$"):
        merge_shards(out)
    shards["shard"] = Shard(1, 3)
    quantize(tmp_path / "m", out, job=shards)
    summary = merge_shards(out)
    assert summary.blocks == BLOCKS
    assert content(out) == whole
    with pytest.raises(InputError, match="holds no quantization in progress"):
        merge_shards(out)


def test_shards_of_other_settings_do_not_mix(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "q", job={"shard": Shard(0, 2)})
    with pytest.raises(InputError, match=r"was begun with other .*method"):
        quantize(model, tmp_path / "q", method="gptq", protect=(), job={"shard": Shard(1, 2)})


def _command(model: Path, out: Path) -> list[str]:
    return [
        *(
            sys.executable,
            "-m",
            "icml",
            "quantize",
            str(model),
            "-o",
            str(out),
            "--effort",
            "fast",
            "--pool",
            "2",
        ),
        *(
            "--calib",
            str(model.parent / "text.txt"),
            "--calib-tokens",
            "1024",
            "--seqlen",
            "128",
            "--threads",
            "2",
        ),
    ]


def _start(model: Path, out: Path, *options: str, blocks: int = 1) -> subprocess.Popen[str]:
    """Starts the program and waits until so many blocks are done."""
    process = subprocess.Popen([*_command(model, out), *options], stderr=subprocess.PIPE, text=True)
    done = out.with_name(out.name + ".partial") / ".icml-quantize" / f"unit-{blocks:05d}.json"
    while not done.exists() and process.poll() is None:
        time.sleep(0.005)
    return process


def test_kill_and_signals(tmp_path: Path) -> None:
    """Killed in the middle, terminated later, and gone on with each time."""
    out = tmp_path / "out"
    tiny_llama(tmp_path / "m", layers=8)
    write_text(tmp_path / "text.txt")
    quantize(tmp_path / "m", tmp_path / "whole")
    whole = content(tmp_path / "whole")
    first = _start(tmp_path / "m", out)
    first.kill()
    first.communicate()
    assert not out.exists()
    second = _start(tmp_path / "m", out, "--resume", blocks=3)
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate(timeout=60)
    assert second.returncode == 143, said
    assert "--resume goes on with it" in said
    assert "Traceback" not in said
    quantize(tmp_path / "m", out, job={"resume": True})
    assert content(out) == whole


def _contend(out: Path, go: Any, results: Any) -> None:
    go.wait()
    try:
        with Workspace.begin(out, {"units": 1, "settings": {}}, join=False, force=False) as space:
            time.sleep(0.3)
            (space.folder / "config.json").write_text(json.dumps({"by": os.getpid()}))
            space.publish()
        results.put(os.getpid())
    except InputError as error:
        results.put(str(error))


def test_of_twenty_runs_at_once_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    go, results = context.Event(), context.Queue()
    processes = [context.Process(target=_contend, args=(tmp_path / "q", go, results)) for _ in range(20)]
    for process in processes:
        process.start()
    go.set()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    winners = [answer for answer in found if isinstance(answer, int)]
    assert len(winners) == 1
    assert json.loads((tmp_path / "q" / "config.json").read_text()) == {"by": winners[0]}
    assert not (tmp_path / "q.partial").exists()
    assert not (tmp_path / "q" / ".icml-quantize").exists()
    for answer in found:
        assert answer in winners or "another run is at work" in answer or "exists already" in answer, answer


def test_an_existing_result_stays_unless_forced(model: Path, tmp_path: Path) -> None:
    quantize(model, tmp_path / "q", method="rtn")
    before = content(tmp_path / "q")
    with pytest.raises(InputError, match="exists already; --force replaces it"):
        quantize(model, tmp_path / "q")
    assert content(tmp_path / "q") == before
    quantize(model, tmp_path / "q", method="gptq", job={"force": True})
    assert content(tmp_path / "q") != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q"]
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is no model, and not replaced even with --force"):
        quantize(model, tmp_path / "mine", job={"force": True})


def test_a_full_disk(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is done where that can be known, and where not, nothing half-written is left as a result."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, hard))
    try:
        with pytest.raises(WorkError, match="File too large"):
            quantize(model, tmp_path / "q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "q").exists()
    assert not list(tmp_path.rglob("*.tmp"))
    quantize(model, tmp_path / "q", job={"resume": True})
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"about \d+ MB are needed, the disk has 0 MB left"):
        quantize(model, tmp_path / "r")
    assert not (tmp_path / "r.partial").exists()
