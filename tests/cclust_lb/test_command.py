"""`icml cclust-lb` through real processes: what it writes, what it refuses, how it ends."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support import DATA, Icml

GRAPHS = DATA / "cclust_lb"
TRIANGLE = "a b 1\nb c 1\na c -1\n"


def certify(icml: Icml, *args: str | Path, stdin: str | bytes | None = None) -> dict[str, object]:
    """The JSON object of a run."""
    done = icml("cclust-lb", *args, "--json", stdin=stdin)
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def grid(side: int, seed: int = 0) -> str:
    """A signed triangulated grid, large enough to keep the solver busy."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(side):
        for j in range(side):
            for di, dj in ((0, 1), (1, 0), (1, 1)):
                if i + di < side and j + dj < side:
                    sign = "-1" if rng.random() < 0.3 else "1"
                    lines.append(f"{i}.{j} {i + di}.{j + dj} {sign}\n")
    return "".join(lines)


# What it says


def test_json_has_the_documented_keys_in_order(icml: Icml) -> None:
    result = certify(icml, GRAPHS / "highlandtribes.csv.gz", "--blame", "3")
    assert list(result) == [
        *(
            "problem",
            "n",
            "m",
            "negative",
            "weight_total",
            "dropped",
            "lower_bound",
            "lower_bound_int",
            "lp_upper",
        ),
        *("gap", "finished", "cost", "ratio_disagree", "ratio_agree", "cut_ratio", "optimal_proven", "note"),
        *(
            "obstructions",
            "pool",
            "clusters",
            "heuristic_cost",
            "blame",
            "problem_chosen",
            "heuristic",
            "seconds",
        ),
        "seed",
    ]
    assert (result["n"], result["m"], result["negative"]) == (16, 58, 29)
    assert (result["cost"], result["lower_bound_int"], result["optimal_proven"]) == (2, 2, True)
    assert set(result["seconds"]) >= {"read", "enumerate", "solve", "cycles", "heuristic", "total"}


def test_table_goes_to_stdout_and_notes_to_stderr(icml: Icml) -> None:
    done = icml("cclust-lb", GRAPHS / "highlandtribes.csv.gz")
    assert re.search(r"^lower bound +2, so at least 2$", done.stdout, re.MULTILINE)
    assert "optimal" in done.stdout
    assert "problem: cc" in done.stderr
    assert icml("cclust-lb", GRAPHS / "highlandtribes.csv.gz", "-q").stderr == ""


@pytest.mark.parametrize(
    ("text", "problem", "cost"),
    [
        (TRIANGLE, "cc", 1),
        ("a b\nb c\n", "cc-complete", 1),
        ("a b 2\nb c 3\n", "cc-complete", 1),
        ("src,dst,sign\na,b,1\nb,c,1\na,c,-2.5\n", "cc", 1),
    ],
)
def test_auto_chooses_the_problem_by_the_signs(icml: Icml, text: str, problem: str, cost: int) -> None:
    result = certify(icml, "-", stdin=text)
    assert (result["problem"], result["problem_chosen"], result["cost"]) == (problem, "auto", cost)


def test_given_problem_is_not_called_auto(icml: Icml) -> None:
    result = certify(icml, "-", "--problem", "maxcut", stdin="a b\nb c\na c\n")
    assert (result["problem_chosen"], result["cost"], result["cut_ratio"]) == ("given", 1, 1)


def test_weights_abs_keeps_values(icml: Icml) -> None:
    text = "a b 5\nb c 4\na c -3\n"
    assert certify(icml, "-", "--weights", "abs", stdin=text)["lower_bound"] == 3
    assert certify(icml, "-", stdin=text)["lower_bound"] == 1


def test_merging_and_dropping_is_counted(icml: Icml) -> None:
    text = TRIANGLE + "c a -1\nd d 1\na d 1\nd a -1\n"
    result = certify(icml, "-", stdin=text)
    assert result["dropped"] == {"loops": 1, "zero_sum": 1}
    assert (result["n"], result["m"]) == (4, 3)
    assert certify(icml, "-", "--merge", "first", stdin=text)["m"] == 4


def test_clusters_are_audited(icml: Icml) -> None:
    (icml.folder / "mine.tsv").write_text("a\tx\nb\tx\nc\ty\n")
    result = certify(icml, "-", "--clusters", "mine.tsv", stdin=TRIANGLE)
    assert (result["cost"], result["clusters"], result["heuristic"], result["optimal_proven"]) == (
        1,
        2,
        None,
        True,
    )
    (icml.folder / "mine.tsv").write_text("a\tx\nb\ty\nc\tz\n")
    improved = certify(icml, "-", "--clusters", "mine.tsv", "--heuristic", "ils", stdin=TRIANGLE)
    assert (improved["cost"], improved["heuristic_cost"], improved["ratio_disagree"]) == (2, 1, 2)


def test_out_clusters_give_back_the_names_and_the_cost(icml: Icml) -> None:
    text = "Zoë 007 1\n007 7 1\nZoë 7 -1\n7 🐟 -3\n"
    first = certify(icml, "-", "--out-clusters", "out.tsv", stdin=text)
    rows = [line.split("\t") for line in (icml.folder / "out.tsv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["Zoë", "007", "7", "🐟"]
    again = certify(icml, "-", "--clusters", "out.tsv", stdin=text)
    assert again["cost"] == first["cost"]


def test_out_clusters_to_stdout_leaves_stdout_to_them(icml: Icml) -> None:
    done = icml("cclust-lb", "-", "--out-clusters", "-", stdin=TRIANGLE)
    assert len(done.stdout.splitlines()) == 3
    assert "lower bound" in done.stderr


def test_blame_names_the_edges_that_must_be_wrong(icml: Icml) -> None:
    """Two cliques of friends and one friendship across them, among 36 enmities."""
    lines = [f"{s}{i} {s}{j} 1" for s in "ab" for i in range(6) for j in range(i)]
    lines += [f"a{i} b{j} {1 if i == j == 0 else -1}" for i in range(6) for j in range(6)]
    result = certify(icml, "-", "--blame", "5", stdin="\n".join(lines) + "\n")
    assert result["optimal_proven"]
    assert [(edge["u"], edge["v"]) for edge in result["blame"]] == [("a0", "b0")]
    assert result["blame"][0]["cover"] > 0.9


def test_output_file_trace_and_plot(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(12))
    icml("cclust-lb", "g.txt", "--json", "-o", "r.json", "--trace", "t.jsonl", "--plot", "p.svg")
    result = json.loads((icml.folder / "r.json").read_text())
    trace = [json.loads(line) for line in (icml.folder / "t.jsonl").read_text().splitlines()]
    times = [entry["t"] for entry in trace]
    assert times == sorted(times)
    assert max(entry.get("lower", 0) for entry in trace) == pytest.approx(result["lower_bound"])
    assert min(entry["cost"] for entry in trace if "cost" in entry) == result["cost"]
    picture = (icml.folder / "p.svg").read_text()
    assert picture.rstrip().endswith("</svg>")
    assert "certified lower bound" in picture


def test_same_bytes_whatever_the_threads(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(20))
    outputs = []
    for threads in ("1", "2", "2"):
        icml(
            *(
                "cclust-lb",
                "g.txt",
                "--threads",
                threads,
                "--heuristic-steps",
                "200",
                "--heuristic-time",
                "10m",
            ),
            *(
                "--time-limit",
                "10m",
                "--json",
                "-o",
                "r.json",
                "--certificate",
                "c.npz",
                "--out-clusters",
                "o.tsv",
            ),
        )
        result = json.loads((icml.folder / "r.json").read_text())
        del result["seconds"]
        outputs.append((result, (icml.folder / "c.npz").read_bytes(), (icml.folder / "o.tsv").read_bytes()))
    assert outputs[0] == outputs[1] == outputs[2]


# Certificates


def test_certificate_holds_for_its_graph_and_no_other(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(8))
    certify(icml, "g.txt", "--certificate", "c.npz")
    good = icml("cclust-lb", "g.txt", "--verify", "c.npz")
    assert "holds" in good.stdout
    (icml.folder / "h.txt").write_text(grid(8, seed=1))
    assert (
        "c.npz: the certificate is for another graph"
        in icml("cclust-lb", "h.txt", "--verify", "c.npz", code=2).stderr
    )


def test_certificate_that_claims_too_much_does_not_hold(icml: Icml) -> None:
    """A forged claim with a correct checksum: only the recomputation can see it."""
    from icml.tools.cclust_lb.certificate import load_certificate, save_certificate

    (icml.folder / "g.txt").write_text(grid(6))
    certify(icml, "g.txt", "--certificate", "c.npz")
    honest = load_certificate(icml.folder / "c.npz")
    save_certificate(icml.folder / "forged.npz", dataclasses.replace(honest, lower=honest.lower + 1))
    done = icml("cclust-lb", "g.txt", "--verify", "forged.npz", "--json", code=1)
    assert json.loads(done.stdout)["holds"] is False
    assert "does not hold" in done.stderr


def test_damaged_certificates_are_refused(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(6))
    certify(icml, "g.txt", "--certificate", "c.npz")
    whole = (icml.folder / "c.npz").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(12):
        position = int(rng.integers(len(whole)))
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        (icml.folder / "d.npz").write_bytes(damaged)
        done = icml("cclust-lb", "g.txt", "--verify", "d.npz", code=None)
        if done.returncode == 0:  # the flipped bit is in a part of the archive that carries no data
            with np.load(icml.folder / "d.npz") as a, np.load(icml.folder / "c.npz") as b:
                assert sorted(a) == sorted(b)
                assert all(np.array_equal(a[key], b[key]) for key in b)
        else:
            assert done.returncode in (1, 2)
            assert len(done.stderr.splitlines()) <= 2
    (icml.folder / "d.npz").write_bytes(whole[: len(whole) // 2])
    assert icml("cclust-lb", "g.txt", "--verify", "d.npz", code=2).stderr.count("\n") <= 2


# Bad input: one line that names the place, exit 2, nothing written


BAD = [
    ("", [], "no edges"),
    ("# nothing\n\n", [], "no edges"),
    ("a b 1\nc\n", [], "g.txt:2: expected 2 or 3 columns, got 1"),
    ("a b 1\nb c x\n", [], "g.txt:2: expected a number in column 3, got 'x'"),
    ("a b 1\nb c nan\n", [], "g.txt:2"),
    ("a b 1\n# c\nb c inf\n", [], "g.txt:3"),
    ("a b 1\nb c 0\na c -1\n", ["--merge", "first"], "g.txt:2: weight 0"),
    ("a a 1\n", [], "no edges left after dropping 1 self-loops"),
    ("a b 1\nb c 1\n", ["--problem", "cc"], "did you mean --problem cc-complete or maxcut?"),
    ("a b 1\nb c 1\n", ["--problem", "frustration"], "all pairs agree"),
    (TRIANGLE, ["--problem", "maxcut"], "1 edges are negative"),
    (TRIANGLE, ["--problem", "cc-complete"], "did you mean --problem cc or frustration?"),
    (TRIANGLE, ["--obstructions", "star"], "star"),
    (TRIANGLE, ["--obstructions", "pentagram"], "pentagram"),
    (TRIANGLE, ["--columns", "src,dst"], "src"),
    (TRIANGLE, ["--columns", "src"], "--columns"),
    (TRIANGLE, ["--problem", "cut"], "--problem"),
    (TRIANGLE, ["--tol", "0"], "--tol"),
    (TRIANGLE, ["--tol", "nan"], "--tol"),
    (TRIANGLE, ["--mu", "2"], "--mu"),
    (TRIANGLE, ["--sweeps", "0"], "--sweeps"),
    (TRIANGLE, ["--star", "1"], "--star"),
    (TRIANGLE, ["--seed", "-1"], "--seed"),
    (TRIANGLE, ["--threads", "0"], "--threads"),
    (TRIANGLE, ["--time-limit", "soon"], "--time-limit"),
    (TRIANGLE, ["--plot", "picture.bmp"], "--plot"),
    (TRIANGLE, ["--plot", "nowhere/picture.svg"], "nowhere"),
    (TRIANGLE, ["--certificate", "nowhere/c.npz"], "nowhere"),
    (TRIANGLE, ["--clusters", "absent.tsv"], "absent.tsv"),
    (TRIANGLE, ["--verify", "absent.npz"], "absent.npz"),
    (TRIANGLE, ["--verify", "g.txt"], "g.txt"),
    (TRIANGLE, ["--verify", "g.txt", "--blame", "3"], "--blame"),
    (TRIANGLE, ["--out-clusters", "-", "--json"], "standard output"),
]


@pytest.mark.parametrize(("text", "options", "message"), BAD)
def test_bad_input_is_one_line_exit_2_and_no_output(
    icml: Icml, text: str, options: list[str], message: str
) -> None:
    (icml.folder / "g.txt").write_text(text)
    output = [] if "-" in options else ["-o", "out.txt"]
    done = icml("cclust-lb", "g.txt", *options, *output, "-q", code=2)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("icml cclust-lb: ")
    assert done.stdout == ""
    assert [path.name for path in icml.folder.iterdir()] == ["g.txt"]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("a\t1\nb\t1\n", "labels.tsv: no cluster for node 'c'"),
        ("a\t1\nb\t1\nc\t2\nd\t2\n", "labels.tsv:4: node 'd' is not in the graph"),
        ("a\t1\nb\t1\nc\t2\na\t2\n", "labels.tsv:4"),
        ("a\t1\nb\nc\t2\n", "labels.tsv:2"),
    ],
)
def test_labels_must_fit_the_graph(icml: Icml, labels: str, message: str) -> None:
    (icml.folder / "labels.tsv").write_text(labels)
    done = icml("cclust-lb", "-", "--clusters", "labels.tsv", "-q", stdin=TRIANGLE, code=2)
    assert message in done.stderr


def test_truncated_gzip(icml: Icml) -> None:
    whole = (GRAPHS / "bitcoinotc.csv.gz").read_bytes()
    (icml.folder / "t.gz").write_bytes(whole[: len(whole) // 2])
    done = icml("cclust-lb", "t.gz", "-o", "out.txt", code=2)
    assert "t.gz: truncated gzip" in done.stderr
    assert not (icml.folder / "out.txt").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfa b 1\nb c 1\na c -1\n",
        b"a b 1\r\nb c 1\r\na c -1\r\n",
        b"a,b,1\nb,c,1\na,c,-1",
        b"a;b;1\nb;c;1\na;c;-1\n",
        b"1000000000 2000000000 1\n2000000000 999999999999 1\n1000000000 999999999999 -1\n",
        "ä ö 1\nö ü 1\nä ü -1\n".encode(),
        gzip.compress(TRIANGLE.encode()),
    ],
)
def test_dialects_of_the_same_triangle(icml: Icml, data: bytes) -> None:
    result = certify(icml, "-", stdin=data)
    assert (result["n"], result["m"], result["cost"]) == (3, 3, 1)


def test_zero_bound_with_a_cost_has_no_ratio_and_says_why(icml: Icml) -> None:
    """A four-cycle with one minus: no bad triangle."""
    result = certify(icml, "-", "--obstructions", "triangle", stdin="a b 1\nb c 1\nc d 1\nd a -1\n")
    assert (result["lower_bound"], result["cost"], result["ratio_disagree"]) == (0, 1, None)
    assert "no obstruction" in result["note"]


# How it ends


def slow_run(folder: Path, *extra: str) -> subprocess.Popen[str]:
    """A run that would take minutes: a large triangulated grid, a tight tolerance, a long heuristic."""
    (folder / "g.txt").write_text(grid(120))
    command = [
        sys.executable,
        "-m",
        "icml",
        "cclust-lb",
        "g.txt",
        "--json",
        "-q",
        "--heuristic-time",
        "10m",
        *extra,
    ]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < deadline, "no progress in the trace"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 143), (signal.SIGINT, 130)]
)
def test_a_signal_leaves_a_valid_best_so_far(icml: Icml, number: signal.Signals, code: int) -> None:
    process = slow_run(icml.folder, "--certificate", "c.npz", "--out-clusters", "o.tsv", "--trace", "t.jsonl")
    wait_for_lines(icml.folder / "t.jsonl", 3)
    process.send_signal(number)
    asked = time.monotonic()
    stdout, stderr = process.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert (process.returncode, stderr) == (code, "")
    result = json.loads(stdout)
    assert 0 < result["lower_bound"] <= result["cost"]
    icml("cclust-lb", "g.txt", "--verify", "c.npz")
    audit = certify(icml, "g.txt", "--clusters", "o.tsv", "--time-limit", "1")
    assert audit["cost"] == result["cost"]


def test_time_limit_ends_in_time_with_exit_0(icml: Icml) -> None:
    start = time.monotonic()
    process = slow_run(icml.folder, "--time-limit", "2")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "")
    assert time.monotonic() - start < 8
    result = json.loads(stdout)
    assert 0 < result["lower_bound"] <= result["cost"]


def test_kill_9_while_running_leaves_the_old_output_whole(icml: Icml) -> None:
    (icml.folder / "out.json").write_text("old\n")
    process = slow_run(icml.folder, "-o", "out.json", "--trace", "t.jsonl")
    wait_for_lines(icml.folder / "t.jsonl", 2)
    process.kill()
    process.communicate()
    assert (icml.folder / "out.json").read_text() == "old\n"


def test_twenty_runs_at_once_in_one_folder(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(6))
    command = [
        sys.executable,
        "-m",
        "icml",
        "cclust-lb",
        "g.txt",
        "--json",
        "-o",
        "out.json",
        "--out-clusters",
        "o.tsv",
    ]
    command += ["--certificate", "c.npz", "--heuristic-steps", "50", "-q"]
    runs = [subprocess.Popen(command, cwd=icml.folder, stderr=subprocess.PIPE) for _ in range(20)]
    for run in runs:
        _, stderr = run.communicate(timeout=120)
        assert (run.returncode, stderr) == (0, b"")
    assert sorted(path.name for path in icml.folder.iterdir()) == ["c.npz", "g.txt", "o.tsv", "out.json"]
    assert json.loads((icml.folder / "out.json").read_text())["m"] == 85
    icml("cclust-lb", "g.txt", "--verify", "c.npz")


def test_closed_pipe_is_quiet(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(40))
    done = icml.shell("icml cclust-lb g.txt -q --out-clusters - --heuristic-steps 1 2>err.txt | head -1")
    assert len(done.stdout.splitlines()) == 1
    assert "rror" not in (icml.folder / "err.txt").read_text()


def test_full_disk_is_one_line(icml: Icml) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full on this system")
    done = icml.shell(f"printf '{TRIANGLE}' | icml cclust-lb - -q > /dev/full")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No space left on device" in done.stderr


def test_help_and_unknown_option(icml: Icml) -> None:
    done = icml("cclust-lb", "--help")
    assert "--obstructions" in done.stdout
    assert "--obstruction" in icml("cclust-lb", "--obstructon", "x", stdin=TRIANGLE, code=2).stderr
