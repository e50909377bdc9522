"""How runs end: signals, limits, kills, closed pipes, and refusals."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support import Icml

from icml.tools.nneinfact import load_model

from .runs import MODEL, TRIPS, counts

SLOW = [
    "-k",
    "r=8",
    "--tol",
    "0",
    "--max-iter",
    "60",
    "--path",
    "dense",
    "--threads",
    "1",
    "--trace",
    "t.jsonl",
]


@pytest.fixture(scope="module")
def slow_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slow")
    np.save(folder / "y.npy", counts(1, (90, 80, 60)) + 0.5)
    return folder


@pytest.mark.parametrize(
    ("name", "options", "signals"),
    [
        ("kl", ["--holdout", "0.1", "--patience", "100"], [signal.SIGTERM, signal.SIGUSR1]),
        ("euclid", ["--loss", "euclidean"], [signal.SIGINT]),
        ("restarts", ["--restarts", "3", "--max-iter", "20"], [signal.SIGTERM]),
    ],
)
def test_a_stopped_fit_goes_on_to_the_same_bytes(
    slow_folder: Path, name: str, options: list[str], signals: list[signal.Signals]
) -> None:
    folder = slow_folder / name
    folder.mkdir()
    icml = Icml(folder)
    args = ["nneinfact", "fit", MODEL, "../y.npy", *SLOW, *options, "-q"]
    icml(*args, "-o", "calm.npz")
    trace = folder / "t.jsonl"
    for stop, signum in enumerate(signals):
        resume = ["--resume", "c.npz"] if stop else []
        command = [sys.executable, "-m", "icml", *args, *resume, "--checkpoint", "c.npz", "-o", "part.npz"]
        trace.write_text("")
        process = subprocess.Popen(command, cwd=folder)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and trace.read_text().count("\n") < 5 and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(signum)
        expected = 130 if signum == signal.SIGINT else 143
        assert process.wait(60) == expected, "it ended before it could be stopped"
        part = load_model(folder / "part.npz")
        assert 5 <= part.n_iter_ < 60
        assert part.history_[-1] < part.history_[0]
    icml(*args, "--resume", "c.npz", "-o", "resumed.npz")
    assert (folder / "resumed.npz").read_bytes() == (folder / "calm.npz").read_bytes()


def test_the_time_limit_ends_a_fit_with_a_checkpoint(slow_folder: Path) -> None:
    icml = Icml(slow_folder)
    args = ["nneinfact", "fit", MODEL, "y.npy", *SLOW[:4], "--max-iter", "100000", "--path", "dense"]
    done = icml(*args, "--time-limit", "1", "--checkpoint", "l.npz", "-o", "l.model.npz", "--json")
    result = json.loads(done.stdout)
    assert (result["reason"], result["converged"]) == ("stopped", False)
    assert "go on with --resume l.npz" in done.stderr
    again = icml(*args, "--time-limit", "0.5", "--resume", "l.npz", "-o", "l.model.npz", "--json")
    assert json.loads(again.stdout)["iterations"] > result["iterations"]
    other = icml(*args, "--loss", "euclidean", "--resume", "l.npz", "-o", "other.npz", code=2)
    assert "l.npz: the checkpoint is of other data, another model or other options" in other.stderr


def test_a_search_that_is_stopped_ranks_what_it_has(slow_folder: Path) -> None:
    icml = Icml(slow_folder)
    done = icml("nneinfact", "select", MODEL, "y.npy", "-k", "r=2:30:2", "--tol", "0", "--time-limit", "2",
                "--path", "dense", "--threads", "1")  # fmt: skip
    rows = done.stdout.splitlines()
    assert 2 <= len(rows) < 16
    assert "of 15 fits" in done.stderr


def test_a_fit_killed_while_writing_leaves_the_old_file(icml: Icml) -> None:
    """kill -9 at many moments around the end of the run: the output is the old one or the new one, whole."""
    np.save(icml.folder / "y.npy", counts())
    args = ["nneinfact", "fit", MODEL, "y.npy", "-k", "r=2", "--max-iter", "3", "-q", "-o", "m.npz"]
    icml(*args, "--seed", "1")
    old = (icml.folder / "m.npz").read_bytes()
    icml(*args, "--seed", "2")
    new = (icml.folder / "m.npz").read_bytes()
    assert old != new
    for delay in (0.4, 0.5, 0.6, 0.8):
        (icml.folder / "m.npz").write_bytes(old)
        process = subprocess.Popen([sys.executable, "-m", "icml", *args, "--seed", "2"], cwd=icml.folder)
        time.sleep(delay)
        process.kill()
        process.wait()
        assert (icml.folder / "m.npz").read_bytes() in (old, new)


def test_twenty_at_once(icml: Icml) -> None:
    (icml.folder / "trips.tsv").write_text(TRIPS)
    args = [sys.executable, "-m", "icml", "nneinfact", "fit", MODEL, "trips.tsv", "-k", "r=2", "-q", "-o"]
    runs = [subprocess.Popen([*args, f"m{i % 10}.npz"], cwd=icml.folder) for i in range(20)]
    assert [run.wait(120) for run in runs] == [0] * 20
    assert len({(icml.folder / f"m{i}.npz").read_bytes() for i in range(10)}) == 1
    assert sorted(p.name for p in icml.folder.iterdir()) == [*(f"m{i}.npz" for i in range(10)), "trips.tsv"]


def test_a_closed_pipe_is_quiet(icml: Icml) -> None:
    np.save(icml.folder / "y.npy", counts(0, (60, 50, 40)))
    icml("nneinfact", "fit", MODEL, "y.npy", "-k", "r=2", "--max-iter", "2", "-q", "-o", "m.npz")
    done = icml.shell("icml nneinfact predict m.npz | head -1; echo ${PIPESTATUS[0]}")
    assert done.stdout.splitlines() == ["u\tv\tt\tvalue", "141"]
    assert done.stderr == ""


def test_a_model_is_not_written_to_a_terminal(icml: Icml) -> None:
    (icml.folder / "trips.tsv").write_text(TRIPS)
    done = icml.shell(
        "script -qec \"icml nneinfact fit 'ur,vr,tr->uvt' trips.tsv -k r=2\" /dev/null < /dev/null"
    )
    if done.returncode == 127:
        pytest.skip("no script(1)")
    assert "binary output is not for a terminal" in done.stdout


BAD: list[tuple[list[str], str]] = [
    (["fit", MODEL, "y.npy", "-k", "r=2,u=3"], "letter 'u' has size 4 in the data but 3"),
    (["fit", "ur,vr->uv", "y.npy", "-k", "r=2"], "y.npy: the model 'ur,vr->uv' needs 2 axes (u, v), the data have 3"),
    (["fit", MODEL, "negative.npy", "-k", "r=2"], "negative.npy: cell (1, 2, 0) is negative: -3"),
    (["fit", MODEL, "negative.tsv", "-k", "r=2"], "negative.tsv:3: cell u=b, v=y, t=1 is negative: -2"),
    (["fit", MODEL, "inf.npy", "-k", "r=2"], "inf.npy: cell (0, 0, 1) is infinite"),
    (["fit", MODEL, "inf.tsv", "-k", "r=2"], "inf.tsv:2: cell u=1, v=1, t=0 is infinite: inf"),
    (["fit", MODEL, "nan.npy", "-k", "r=2", "--nan", "error"], "nan.npy: cell (2, 0, 0) is NaN"),
    (["fit", MODEL, "nan.tsv", "-k", "r=2", "--nan", "error"], "nan.tsv:1: cell u=0, v=0, t=0 is NaN"),
    (["fit", MODEL, "allnan.npy", "-k", "r=2"], "allnan.npy: no observed cell is left"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--loss", "is"], "y.npy: cell (0, 0, 0) is 0, where the divergence"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--holdout", "1.5"], "--holdout must lie between 0 and 1"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--mask", "none.npy"], "y.npy: no observed cell is left"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--mask", "flat.npy"], "flat.npy: the mask has shape (3,)"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--mask", "far.tsv"], "far.tsv:2: index 9 in column 2 (v) is outside"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--weights", "negative.npy"], "negative.npy: the weight of cell"),
    (
        ["fit", MODEL, "far.tsv", "-k", "r=2", "--shape", "4,3,2"],
        "far.tsv:2: index 9 in column 2 (v) is outside 0..2",
    ),
    (["fit", MODEL, "word.tsv", "-k", "r=2"], "word.tsv:2: expected a number in column 4, got 'many'"),
    (["fit", MODEL, "late.tsv", "-k", "r=2"], "late.tsv:103: expected an index in column 2 (v), as in the lines"),
    (["fit", MODEL, "short.tsv", "-k", "r=2"], "short.tsv:2: expected 4 columns, got 3"),
    (["fit", MODEL, "wide.tsv", "-k", "r=2"], "wide.tsv:1: expected 4 columns (u, v, t and the value), got 6"),
    (["fit", MODEL, "empty.tsv", "-k", "r=2"], "empty.tsv: holds no entries"),
    (["fit", MODEL, "zero.tns", "-k", "r=2"], "zero.tns:1: index 0 in column 1 (u); indices count from 1"),
    (["fit", MODEL, "cut.tsv.gz", "-k", "r=2"], "cut.tsv.gz: truncated gzip stream"),
    (["fit", MODEL, "cut.npy", "-k", "r=2"], "cut.npy: NPY file is not readable"),
    (["fit", MODEL, "missing.npy", "-k", "r=2"], "missing.npy: No such file"),
    (["fit", MODEL, "two.npz", "-k", "r=2"], "two.npz: several arrays with 3 axes; choose one by its key: a, b"),
    (["fit", MODEL, "two.npz", "-k", "r=2", "--key", "c"], "two.npz: no array 'c'; there are a, b"),
    (["fit", MODEL, "pickle.npy", "-k", "r=2"], "pickle.npy: NPY file is not readable"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--labels", "t=word.tsv"], "word.tsv: 3 labels for t, which has size 2"),
    (["fit", "ua,vb,tc,abcd->uvtd", "big.npy", "-k", "a=99,b=99,c=99", "--max-memory", "1"], "MiB allowed"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--labels", "t=blank.txt"], "blank.txt:2: no label"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--labels", "t=latin.txt"], "latin.txt:1: byte 0xfc is not UTF-8"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--labels", "t=twice.txt"], "twice.txt:2: label 'x' is there twice"),
    (["fit", MODEL, "y.tsv", "-k", "r=2", "--labels", "u=word.tsv"], "y.tsv:1: unknown u='a'"),
    (["fit", MODEL, "short.npz", "-k", "r=2"], "short.npz: axis u has 2 labels but size 4"),
    (["fit", MODEL, "sum.tsv", "-k", "r=2"], "sum.tsv: the values listed for cell (0, 0, 0) sum to infinity"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--columns", "1,2"], "y.npy: columns are chosen in tables"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--key", "Y"], "y.npy: an array is chosen by key"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--names", "u"], "y.npy: --names is for tables"),
    (["fit", MODEL, "y.npy", "-k", "r=" + "9" * 5000], "size of letter 'r' must be at most 2147483647, got 99999"),
    (["select", "models.txt", "y.npy", "-k", "r=1:99999999"], "names 99999999 sizes; at most 10000 are tried"),
    (["predict", "y.npy"], "y.npy"),
    (["predict", "m.npz", "--at", "stranger.tsv"], "stranger.tsv:2: unknown u='zoe'"),
    (["predict", "m.npz", "--at", "beyond.tsv"], "beyond.tsv:1: index 7 in column 3 (t) is outside 0..1"),
    (["transform", "m.npz", "stranger.tsv", "--free", "t"], "stranger.tsv:2: unknown u='zoe'"),
    (["select", "models.txt", "y.npy"], "latent letter 'r' of 'ur,vr,tr->uvt' has no size"),
    (["select", "badmodels.txt", "y.npy", "-k", "r=2"], "badmodels.txt:2: model 'nothing' has no single '->'"),
    (["select", "models.txt", "y.npy", "-k", "r=9:5"], "'r=9:5' names no sizes"),
]  # fmt: skip
"""Files that are not what they should be."""

REFUSED: list[tuple[list[str], str]] = [
    (["fit"], "fit needs a model string"),
    (["fit", "ur,vr->uvt", "y.npy", "-k", "r=2"], "no factor carries the output letter 't'"),
    (["fit", "ur,vrr,tr->uvt", "y.npy", "-k", "r=2"], "letter 'r' is repeated in 'vrr'"),
    (["fit", MODEL, "y.npy"], "latent letter 'r' of 'ur,vr,tr->uvt' has no size"),
    (["fit", MODEL, "y.npy", "-k", "r=0"], "expected LETTER=NUMBER such as r=10, got 'r=0'"),
    (["fit", MODEL, "y.npy", "-k", "r=2,q=3"], "-k gives a size for 'q'"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--loss", "l2"], "unknown loss 'l2'"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--alpha", "nan", "--beta", "0"], "alpha must be finite"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--alpha", "1"], "--alpha and --beta go together"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--joint", "--loss", "is"], "joint sweeps are for the Kullback"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--relax", "2"], "relax must be at least 1 and below 2"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--shape", "4,3"], "--shape takes 3 sizes"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--shape", "4,3,9"], "y.npy: axis t has size 2, not 9"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--names", "r"], "--names: 'r' is not an observed letter"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--max-memory", "1e-4"], "--max-memory"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--init", "y.npy"], "y.npy"),
    (["fit", MODEL, "y.npy", "-k", "r=3", "--init", "m.npz"], "init of factor 'ur' has shape (3, 2)"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--free", "u"], "--free is not for 'fit'"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--format", "npy"], "--format for 'fit' is npz or tsv, got 'npy'"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "--resume", "m.npz"], "m.npz: not a checkpoint of nneinfact"),
    (["fit", MODEL, "y.tsv", "-k", "r=2", "--minibatch", "2"], "minibatches are for dense data"),
    (["fit", MODEL, "y.npy", "-k", "r=2", "-o", "no/m.npz"], "there is no folder 'no'"),
    (["predict", "m.npz", "--slice", "u=zoe"], "the model knows no u='zoe'"),
    (["predict", "m.npz", "--slice", "r=0"], "'r' is not an observed letter"),
    (["predict", "m.npz", "--slice", "nonsense"], "expected LETTER=INDEX"),
    (["predict", "m.npz", "y.npy"], "DATA is not for 'predict'"),
    (["predict", "-", "--at", "-"], "MODEL and --at cannot both come from standard input"),
    (["transform", "m.npz", "y.tsv"], "transform needs --free"),
    (["transform", "m.npz", "y.tsv", "--free", "r"], "--free: 'r' is not an observed letter"),
    (["select", "empty.tsv", "y.npy", "-k", "r=2"], "empty.tsv: holds no model"),
    (["frobnicate"], "frobnicate"),
]  # fmt: skip
"""Command lines that are not what they should be."""


def write_bad_inputs(folder: Path) -> None:
    y = np.arange(24.0).reshape(4, 3, 2)
    y[0, 0, 1] = 0
    np.save(folder / "y.npy", y)
    for name, at, value in (
        ("negative", (1, 2, 0), -3),
        ("inf", (0, 0, 1), np.inf),
        ("nan", (2, 0, 0), np.nan),
    ):
        bad = y + 1
        bad[at] = value
        np.save(folder / f"{name}.npy", bad)
    np.save(folder / "allnan.npy", np.full((4, 3, 2), np.nan))
    np.save(folder / "none.npy", np.zeros((4, 3, 2), bool))
    np.save(folder / "flat.npy", np.ones(3, bool))
    np.save(folder / "big.npy", np.ones((40, 40, 40, 3), np.float32))
    np.save(folder / "pickle.npy", np.array([{}], object), allow_pickle=True)
    np.savez(folder / "two.npz", a=y, b=y)
    np.savez(folder / "short.npz", a=y, labels_u=np.array(["x", "y"]))
    (folder / "latin.txt").write_bytes("s\xfc\xdf\nx\n".encode("latin-1"))
    (folder / "cut.npy").write_bytes((folder / "y.npy").read_bytes()[:200])
    texts = {
        "negative.tsv": "u\tv\tt\tn\na\tx\t0\t1\nb\ty\t1\t-2\n", "inf.tsv": "0 0 0 1\n1 1 0 inf\n",
        "nan.tsv": "0,0,0,nan\n1,1,1,2\n", "far.tsv": "0 0 0 1\n0 9 0 1\n",
        "word.tsv": "0 0 0 1\n1 1 1 many\n2 2 2 1\n",
        "late.tsv": "# late\n" + "".join(f"{i} {i} {i} 1\n" for i in range(101)) + "5 x 5 1\n",
        "short.tsv": "0 0 0 1\n1 1 1\n", "wide.tsv": "0 0 0 0 0 1\n", "empty.tsv": "# nothing\n\n",
        "zero.tns": "0 1 1 2.0\n", "y.tsv": "a\tx\t0\t3\nb\ty\t1\t2\nc\tx\t1\t1\n",
        "blank.txt": "x\n\ny\n", "twice.txt": "x\nx\n", "sum.tsv": "0 0 0 1e308\n0 0 0 1e308\n1 1 1 1\n",
        "stranger.tsv": "a\tx\t0\nzoe\tx\t1\n",
        "beyond.tsv": "a\tx\t7\n", "models.txt": "ur,vr,tr->uvt\n", "badmodels.txt": "ur,vr,tr->uvt\nnothing\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    whole = gzip.compress(texts["late.tsv"].encode())
    (folder / "cut.tsv.gz").write_bytes(whole[: len(whole) // 2])
    Icml(folder)("nneinfact", "fit", MODEL, "y.tsv", "-k", "r=2", "-q", "-o", "m.npz")


@pytest.fixture(scope="module")
def bad_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    write_bad_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def refusals(bad_folder: Path) -> dict[int, tuple[int, str, str, bool]]:
    """Every bad command in a process of its own, a few at a time: exit code, both outputs, whether files changed."""
    folder = bad_folder
    before = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}

    def attempt(number: int) -> tuple[int, str, str, bool]:
        args, _ = BAD[number]
        output = [] if "-o" in args else ["-o", f"out{number}"]
        run = subprocess.run(
            [sys.executable, "-m", "icml", "nneinfact", *args, *output], cwd=folder, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        return run.returncode, run.stdout, run.stderr, (folder / f"out{number}").exists()

    with ThreadPoolExecutor(3) as pool:
        results = dict(enumerate(pool.map(attempt, range(len(BAD)))))
    assert {p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == before
    return results


@pytest.mark.parametrize("number", range(len(BAD)), ids=lambda i: " ".join(BAD[i][0])[:60])
def test_bad_input_is_one_line_and_exit_2(
    refusals: dict[int, tuple[int, str, str, bool]], number: int
) -> None:
    code, out, err, written = refusals[number]
    assert code == 2, err
    assert out == ""
    assert not written
    assert BAD[number][1] in err
    assert err.count("\n") == 1
    assert err.startswith("icml nneinfact: ")


@pytest.mark.parametrize(
    ("args", "message"), REFUSED, ids=lambda v: " ".join(v)[:60] if isinstance(v, list) else ""
)
def test_bad_usage_is_one_line_and_exit_2(
    bad_folder: Path,
    args: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process: starting one takes longer than refusing."""
    from icml.cli.main import run

    monkeypatch.chdir(bad_folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    try:
        code = run(["nneinfact", *args, *([] if "-o" in args else ["-o", "refused"])])
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
    out, err = capsys.readouterr()
    assert (code, out) == (2, ""), err
    assert message in err
    assert err.count("\n") == 1
    assert not (bad_folder / "refused").exists()
