"""The command line as its users meet it."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support import Icml

from icml.tools.shapleig import exact_values
from icml.tools.shapleig.semivalues import SHAPLEY

from .oracles import random_game

COUNT = "echo {bits} | tr -cd 1 | wc -c"
NAMES = "rain,wind,sun,soil,slope"


def write_table(folder: Path, players: int, seed: int = 0) -> np.ndarray:
    """A game as a file `bits,value`, for commands to look up."""
    table = random_game(players, seed)
    rows = (
        f"{''.join(str(code >> i & 1) for i in range(players))},{value!r}"
        for code, value in enumerate(table.tolist())
    )
    (folder / "table.csv").write_text("\n".join(rows) + "\n")
    return table


LOOKUP = "grep '^{bits},' table.csv | cut -d, -f2"


def done_rows(path: Path) -> list[dict[str, str]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [row for row in csv.DictReader(lines) if row["status"] == "done"]


def test_run_and_report(icml: Icml) -> None:
    table = write_table(icml.folder, 5)
    icml("shapleig", "run", NAMES, "--exec", LOOKUP, "--budget", 32, "-o", "s.csv", "--jobs", 2)
    lines = icml("shapleig", "report", "s.csv").stdout.splitlines()
    assert lines[0] == "player\tvalue\tsd\tlow\thigh\trank"
    values = [float(line.split("\t")[1]) for line in lines[1:]]
    np.testing.assert_allclose(values, exact_values(table, SHAPLEY), rtol=1e-8)
    assert [line.split("\t")[0] for line in lines[1:]] == NAMES.split(",")
    assert sorted(line.split("\t")[5] for line in lines[1:]) == list("12345")


def test_json_report_has_the_documented_keys(icml: Icml) -> None:
    write_table(icml.folder, 4)
    done = icml("shapleig", "run", "-n", 4, "--exec", LOOKUP, "--budget", 9, "-o", "s.csv", "--json")
    result = json.loads(done.stdout)
    assert list(result) == [
        "index", "players", "evaluations", "budget_used", "pending", "failed", "cost", "sum", "v_empty", "v_full",
        "max_halfwidth", "calibration", "roughness", "noise", "exact", "criterion", "seed", "stop_reason",
    ]  # fmt: skip
    assert list(result["players"][0]) == ["name", "value", "sd", "low", "high", "rank", "lengthscale"]
    assert (result["evaluations"], result["budget_used"], result["stop_reason"]) == (9, 9, "budget")
    assert result["sum"] == pytest.approx(result["v_full"] - result["v_empty"], rel=1e-12)
    widest = max((player["high"] - player["low"]) / 2 for player in result["players"])
    assert result["max_halfwidth"] == pytest.approx(widest)
    again = json.loads(icml("shapleig", "report", "s.csv", "--json").stdout)
    assert again == {**result, "stop_reason": None}


@pytest.mark.parametrize("form", ["--bits", "--json", None])
def test_ask_and_tell_in_a_pipe(icml: Icml, form: str | None) -> None:
    icml("shapleig", "init", NAMES, "-o", "s.csv")
    for _ in range(2):
        asked = icml("shapleig", "ask", "s.csv", "-n", 4, *([form] if form else [])).stdout.splitlines()
        assert len(asked) == 4
        told = "".join(f"{coalition},{len(coalition)}\n" for coalition in asked)
        assert "4 new of 4" in icml("shapleig", "tell", "s.csv", stdin=told).stderr
    assert len(done_rows(icml.folder / "s.csv")) == 8


def test_tell_takes_files_tables_costs_and_failures(icml: Icml) -> None:
    icml("shapleig", "init", "a,b", "-o", "s.csv")
    (icml.folder / "lines.csv").write_text("# note\n,1\na b,2,30\n\nb,failed\n")
    icml("shapleig", "tell", "s.csv", "lines.csv")
    (icml.folder / "table.csv").write_bytes(b"\xef\xbb\xbfb,a,value\r\n0,1,7\r\n")
    icml("shapleig", "tell", "s.csv", "table.csv")
    rows = done_rows(icml.folder / "s.csv")
    assert [(row["a"], row["b"], row["value"], row["cost"]) for row in rows] == [
        ("0", "0", "1.0", ""), ("1", "1", "2.0", "30"), ("1", "0", "7.0", "")
    ]  # fmt: skip
    assert icml("shapleig", "ask", "s.csv", "-n", 3).stdout == ""
    assert icml("shapleig", "ask", "s.csv", "-n", 3, "--retry").stdout == "b\n"


def test_results_without_a_study_are_reported(icml: Icml) -> None:
    rows = "".join(f"{c & 1},{c >> 1 & 1},{3 * (c & 1) + (c >> 1 & 1)}\n" for c in range(4))
    (icml.folder / "old.csv").write_text("left,right,value\n" + rows)
    lines = icml("shapleig", "report", "old.csv").stdout.splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [["left", "3"], ["right", "1"]]
    banzhaf = json.loads(icml("shapleig", "report", "old.csv", "--index", "banzhaf", "--json").stdout)
    assert banzhaf["index"] == "banzhaf"
    assert icml("shapleig", "report", "-", stdin="left,right,value\n" + rows).stdout.splitlines() == lines


def results_table(path: Path, table: np.ndarray, codes: range) -> None:
    """A table of results with six players."""
    rows = (",".join([*f"{code:06b}"[::-1], repr(float(table[code]))]) + "\n" for code in codes)
    path.write_text("a,b,c,d,e,f,value\n" + "".join(rows))


def test_compare_shows_least_squares_and_says_when_it_is_better(icml: Icml) -> None:
    worth = np.arange(1.0, 7.0)
    additive = np.array([worth @ [code >> i & 1 for i in range(6)] for code in range(64)])
    results_table(icml.folder / "additive.csv", additive, range(0, 64, 3))
    plain = icml("shapleig", "report", "additive.csv")
    compared = icml("shapleig", "report", "additive.csv", "--compare")
    header, *lines = compared.stdout.splitlines()
    assert header.split("\t")[-1] == "least_squares"
    np.testing.assert_allclose([float(line.split("\t")[-1]) for line in lines], worth, rtol=1e-6)
    assert [line.rpartition("\t")[0] for line in (header, *lines)] == plain.stdout.splitlines()
    assert "least squares predicts these evaluations better" in compared.stderr
    assert "least squares" not in plain.stderr

    results_table(icml.folder / "game.csv", random_game(6, 1), range(0, 64, 2))
    done = icml("shapleig", "report", "game.csv", "--compare", "--json")
    assert "least squares predicts" not in done.stderr
    result = json.loads(done.stdout)
    assert list(result)[-1] == "compare"
    assert list(result["compare"]) == ["least_squares", "prediction_error", "least_squares_prediction_error"]
    assert len(result["compare"]["least_squares"]) == 6
    assert result["compare"]["prediction_error"] < result["compare"]["least_squares_prediction_error"]


def test_compare_does_not_advise_against_exact_values(icml: Icml) -> None:
    results_table(icml.folder / "all.csv", np.arange(64.0), range(64))
    done = icml("shapleig", "report", "all.csv", "--compare", "--json")
    assert "least squares predicts" not in done.stderr
    assert json.loads(done.stdout)["compare"]["prediction_error"] is None


def test_a_stream_asks_and_then_reports(icml: Icml) -> None:
    script = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-m', 'icml', 'shapleig', 'stream', 'a,b,c', '--bits', *sys.argv[1:]],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
        "for line in p.stdout:\n"
        "    if not line.startswith('? '): print(line, end=''); continue\n"
        "    p.stdin.write(f'{line.count(\"1\")} 2.5\\n'); p.stdin.flush()\n"
        "sys.exit(p.wait())\n"
    )
    (icml.folder / "client.py").write_text(script)
    run = [sys.executable, "client.py"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=icml.folder, timeout=60, check=True)
    assert [line.split("\t")[1] for line in done.stdout.splitlines()[1:]] == ["1", "1", "1"]
    subprocess.run(
        [*run, "--budget", "6", "-o", "s.csv"], capture_output=True, cwd=icml.folder, timeout=60, check=True
    )
    rows = done_rows(icml.folder / "s.csv")
    assert len(rows) == 6
    assert {row["cost"] for row in rows} == {"2.5"}


def test_a_stream_that_is_cut_off_reports_what_it_has(icml: Icml) -> None:
    done = icml("shapleig", "stream", "a,b", stdin="0\n3\n")
    assert done.stdout.startswith("?\n? a b\n? ")
    assert done.stdout.splitlines()[3].startswith("player\t")
    assert "end of input" in done.stderr


def test_a_killed_run_goes_on_where_it_was(icml: Icml) -> None:
    """kill -9 at a random moment, again and again: the coalitions are those of a run that nobody disturbed."""
    write_table(icml.folder, 5)
    command = ["shapleig", "run", NAMES, "--exec", f"sleep 0.05; {LOOKUP}", "--budget", "16", "-o"]
    icml(*command, "calm.csv")
    rng = random.Random(0)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-m", "icml", *command, "s.csv"], cwd=icml.folder)
        start = time.monotonic()
        before = (icml.folder / "s.csv").stat().st_size if (icml.folder / "s.csv").exists() else 0
        while time.monotonic() - start < 30 and process.poll() is None:
            size = (icml.folder / "s.csv").stat().st_size if (icml.folder / "s.csv").exists() else 0
            if size > before + 60:
                break
            time.sleep(0.01)
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
    icml(*command, "s.csv")
    columns = [*NAMES.split(","), "value"]
    rows, calm = (
        [[row[column] for column in columns] for row in done_rows(icml.folder / name)]
        for name in ("s.csv", "calm.csv")
    )
    assert rows == calm


def test_sigterm_ends_a_run_with_what_it_has(icml: Icml) -> None:
    command = [
        sys.executable,
        "-m",
        "icml",
        "shapleig",
        "run",
        "-n",
        "6",
        "--exec",
        "sleep 0.3; echo 1{bits}",
    ]
    command += ["--budget", "40", "-o", "s.csv", "--json", "--trace", "t.jsonl"]
    process = subprocess.Popen(
        command, cwd=icml.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    trace = icml.folder / "t.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (trace.exists() and trace.read_text().count("\n") >= 3):
        time.sleep(0.05)
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    result = json.loads(out)
    assert result["stop_reason"] == "stopped"
    assert result["evaluations"] >= 3
    assert len(done_rows(icml.folder / "s.csv")) == result["evaluations"]


def test_a_time_limit_ends_a_run(icml: Icml) -> None:
    start = time.monotonic()
    done = icml("shapleig", "run", "-n", 6, "--exec", "sleep 0.2; echo 1{bits}", "--budget", 1000, "-o", "s.csv",
                "--time-limit", 2, "--json")  # fmt: skip
    assert time.monotonic() - start < 20
    assert json.loads(done.stdout)["stop_reason"] == "stopped"


def test_the_same_seed_gives_the_same_study(icml: Icml) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        icml("shapleig", "run", "-n", 5, "--exec", COUNT, "--budget", 10, "-o", f"{name}.csv", "--seed", seed)
    rows = [[list(row.values())[:6] for row in done_rows(icml.folder / f"{name}.csv")] for name in "abc"]
    assert rows[0] == rows[1] != rows[2]
    reports = [icml("shapleig", "report", f"{name}.csv").stdout for name in "ab"]
    assert reports[0] == reports[1]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plots(icml: Icml, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    icml("shapleig", "run", NAMES, "--exec", COUNT, "--budget", 12, "-o", "s.csv")
    icml("shapleig", "report", "s.csv", "--plot", f"one.{suffix}")
    icml("shapleig", "report", "s.csv", "--plot", f"two.{suffix}")
    picture = (icml.folder / f"one.{suffix}").read_bytes()
    assert picture.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    assert picture == (icml.folder / f"two.{suffix}").read_bytes()
    if suffix == "svg":
        text = picture.decode()
        assert all(name in text for name in (*NAMES.split(","), "evaluations", "half-width"))


def slurm_script(icml: Icml) -> Path:
    """A script for four coalitions of players whose names need quoting."""
    (icml.folder / "players.txt").write_text("a b\n$HOME\nq'q\nplain\n")
    (icml.folder / "value.py").write_text(
        "import json, sys\nbits, text, path, index, *names = sys.argv[1:]\n"
        "assert names == json.loads(text) == open(path).read().splitlines(), sys.argv\n"
        "print('log line')\nprint(bits.count('1') + (0 if names != ['plain'] else 1 / 0))\n"
    )
    icml("shapleig", "init", "players.txt", "-o", "s t.csv")
    command = f"{sys.executable} {icml.folder / 'value.py'} {{bits}} {{json}} {{file}} {{index}} {{players}}"
    icml(
        "shapleig",
        "ask",
        "s t.csv",
        "-n",
        6,
        "--exec",
        command,
        "--slurm",
        "--time=1:00 --mem 1G",
        "-o",
        "job.sh",
    )
    return icml.folder / "job.sh"


def check_slurm_results(icml: Icml) -> None:
    lines = [line for line in (icml.folder / "s t.csv").read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.reader(lines))[1:]
    ended = {tuple(row[:4]): row for row in rows if row[6] in ("done", "failed")}
    assert len(ended) == 6
    for mask, row in ended.items():
        expected = ("failed", "") if mask == ("0", "0", "0", "1") else ("done", f"{mask.count('1')}.0")
        assert (row[6], row[4]) == expected


def test_the_slurm_script_works_task_by_task(icml: Icml) -> None:
    script = slurm_script(icml)
    text = script.read_text()
    assert text.splitlines()[:5] == [
        "#!/bin/bash", "#SBATCH --job-name=icml-shapleig", "#SBATCH --array=0-5", "#SBATCH --time=1:00",
        "#SBATCH --mem 1G",
    ]  # fmt: skip
    subprocess.run(["bash", "-n", script], check=True)
    other = icml.folder / "elsewhere"
    other.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tasks = [
        subprocess.Popen(
            ["bash", script],
            cwd=other,
            env={**os.environ, "PATH": path, "SLURM_ARRAY_TASK_ID": str(k)},
            stderr=subprocess.PIPE,
        )
        for k in range(6)
    ]
    for task in tasks:
        task.communicate(timeout=120)
        assert task.returncode == 0
    check_slurm_results(icml)
    bad = subprocess.run(
        ["bash", script], env={**os.environ, "SLURM_ARRAY_TASK_ID": "6"}, capture_output=True, check=False
    )
    assert bad.returncode == 2
    assert not os.listdir(other)


def test_the_slurm_script_works_under_slurm(icml: Icml) -> None:
    found = subprocess.run(["sh", "-c", "sinfo -h -o %T"], capture_output=True, text=True, check=False)
    if found.returncode != 0 or not any(word in found.stdout for word in ("idle", "mixed", "alloc")):
        pytest.skip("no Slurm here")
    script = slurm_script(icml)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["sbatch", "--wait", "--mem=0", script],
        check=True,
        cwd=icml.folder,
        env={**os.environ, "PATH": path},
        timeout=300,
    )
    check_slurm_results(icml)


BAD = [
    (["init", "a", "-o", "x.csv"], "a: No such file"),
    (["init", "a,a", "-o", "x.csv"], "'a' is there twice"),
    (["init", "a,value", "-o", "x.csv"], "cannot be called 'value'"),
    (["init", "one.txt", "-o", "x.csv"], "one.txt: expected at least 2 players, got 1"),
    (["init", "-n", "1", "-o", "x.csv"], "at least 2 players"),
    (["init", "a,b", "-n", "3", "-o", "x.csv"], "expected the players"),
    (["init", "a,b"], "-o STUDY.csv"),
    (["init", "a,b", "-o", "s.csv"], "s.csv: is there already"),
    (["init", "a,b", "-o", "x.csv", "--index", "core"], "unknown index"),
    (["init", "a,b", "-o", "x.csv", "--cost", "1,2,3"], "3 players' costs"),
    (["init", "a,b", "-o", "x.csv", "--budget", "5"], "--budget is not for 'init'"),
    (["run", "a,b,c", "-o", "s.csv", "--exec", "echo {bits}", "--budget", "2"], "budget of at least 3"),
    (["run", "a,b,c", "-o", "s.csv", "--exec", "echo 1", "--budget", "5"], "not told the coalition"),
    (["run", "a,b,c", "-o", "s.csv", "--exec", "echo {bits}"], "when to stop"),
    (["run", "a,b,c", "-o", "s.csv", "--budget", "5"], "--exec"),
    (
        ["run", "a,b,c", "-o", "s.csv", "--exec", "echo {bits}", "--budget", "5", "--seed", "1"],
        "its seed is 0, not 1",
    ),
    (["run", "a,b,d", "-o", "s.csv", "--exec", "echo {bits}", "--budget", "5"], "other players"),
    (
        ["run", "a,b,c", "-o", "s.csv", "--exec", "echo {bits}", "--budget", "5", "--noise", "learn"],
        "noise is 'fixed'",
    ),
    (
        ["run", "a,b,c", "-o", "s.csv", "--exec", "echo {bits}", "--budget", "5", "--tol", "5 of 7"],
        "tolerance '5 of 7'",
    ),
    (["ask", "old.csv"], "old.csv:1: is no study"),
    (["ask", "missing.csv"], "missing.csv: No such file"),
    (["ask", "blank.csv"], "use --json"),
    (["ask", "s.csv", "--slurm", "--mem=1"], "--slurm and --exec together"),
    (["ask", "s.csv", "--exec", "echo {bits}", "--slurm", "plainword"], "no sbatch option"),
    (["tell", "s.csv", "old.csv", "--seed", "1"], "--seed is not for 'tell'"),
    (["report", "empty.csv"], "empty.csv: holds no evaluations yet"),
    (["report", "broken.csv"], "broken.csv:4: expected 7 columns, got 2"),
    (["report", "old.csv", "--tol", "x"], "tolerance 'x'"),
    (["report", "short.csv"], "short.csv:3: expected 3 columns, got 2"),
    (["report", "two.csv"], "two.csv:2: expected 0 or 1 for player 'a', got '2'"),
    (["report", "s.csv", "--index", "banzhaf"], "its index is 'shapley'"),
    (["report", "old.csv", "--index", "beta:4,1", "--compare"], "--compare is for shapley and banzhaf"),
    (["ask", "s.csv", "--compare"], "--compare is not for 'ask'"),
    (["frobnicate"], "frobnicate"),
]


@pytest.fixture(scope="module")
def bad_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    icml = Icml(folder)
    for name, players in (("s", "a,b,c"), ("empty", "a,b,c"), ("broken", "a,b,c")):
        icml("shapleig", "init", players, "-o", f"{name}.csv")
    icml("shapleig", "tell", "s.csv", stdin=",1\na b c,2\na,3\n")
    (folder / "names.txt").write_text("a b\nc\n")
    icml("shapleig", "init", "names.txt", "-o", "blank.csv")
    with (folder / "broken.csv").open("a") as stream:
        stream.write("0,1\n")
    (folder / "one.txt").write_text("only\n")
    (folder / "old.csv").write_text("a,b,value\n0,0,1\n1,1,2\n")
    (folder / "short.csv").write_text("a,b,value\n0,0,1\n1,1\n")
    (folder / "two.csv").write_text("a,b,value\n2,0,1\n")
    return folder


class InProcess:
    """The program in this process: for the many short refusals."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, folder: Path, *args: str, stdin: str = "") -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        from icml.cli.main import run

        self._monkeypatch.chdir(folder)
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        handlers = {
            signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
        }
        try:
            code = run(["shapleig", *args])
        finally:
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
        out, err = self._capsys.readouterr()
        return code, out, err


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("args", "message"), BAD, ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else ""
)
def test_bad_usage_and_input(args: list[str], message: str, bad_folder: Path, program: InProcess) -> None:
    before = {path.name: path.read_bytes() for path in bad_folder.iterdir()}
    code, out, err = program(bad_folder, *args)
    assert (code, out) == (2, ""), err
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert {path.name: path.read_bytes() for path in bad_folder.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a z,1", "stdin:2: unknown player 'z'"),
        ("0101,1", "stdin:2: expected 3 bits, got 4"),
        ("a,nan", "stdin:2: a value must be a finite number, got 'nan'"),
        ("a,-inf", "stdin:2: a value must be a finite number"),
        ("b,x", "stdin:2: expected a number, got 'x'"),
        ("b", "stdin:2: expected coalition,value"),
        ("a,4", 'stdin:2: ["a"]: this coalition was told before with another value, 3.0, now 4.0'),
        ("b b,1", "stdin:2: player 'b' is there twice"),
        ('["b"', "stdin:2: not a JSON list"),
        ("b,1,-3", "stdin:2: "),
    ],
)
def test_bad_results(line: str, message: str, bad_folder: Path, program: InProcess) -> None:
    before = (bad_folder / "s.csv").read_bytes()
    code, _, err = program(bad_folder, "tell", "s.csv", stdin=f"b c,5\n{line}\n")
    assert code == 2
    assert message in err
    assert (bad_folder / "s.csv").read_bytes() == before


def test_failures_of_the_work(icml: Icml) -> None:
    done = icml("shapleig", "run", "a,b", "--exec", "exit 3 # {bits}", "--budget", 3, "-o", "s.csv", code=1)
    assert "all evaluations failed" in done.stderr
    assert "all evaluations failed" in icml("shapleig", "report", "s.csv", code=1).stderr
    icml("shapleig", "run", "a,b", "--exec", "echo 5 # {bits}", "--budget", 9, "-o", "t.csv")
    done = icml("shapleig", "report", "t.csv")
    assert "warning: all values so far are equal" in done.stderr
    assert [line.split("\t")[1] for line in done.stdout.splitlines()[1:]] == ["0", "0"]


def test_noise_learn_averages(icml: Icml) -> None:
    icml("shapleig", "init", "a,b", "-o", "s.csv", "--noise", "learn")
    told = "".join(
        f"{coalition},{value}\n" for coalition, value in (("", 0), ("a", 1), ("a", 3), ("b", 1), ("a b", 3))
    )
    icml("shapleig", "tell", "s.csv", stdin=told)
    result = json.loads(icml("shapleig", "report", "s.csv", "--json").stdout)
    assert (result["evaluations"], result["budget_used"]) == (4, 5)
    assert result["noise"] > 1e-3
    assert result["exact"] is False
