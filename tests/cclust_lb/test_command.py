"""`icml cclust-lb` through real processes: what it writes and what it refuses; how it ends is in test_endings."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re

import numpy as np
import pytest
from support import ROOT, Icml

from .runs import GRAPHS, TRIANGLE, certify, grid, plain

# What it says


def documented_keys(part: str = "Sh JSON") -> list[str]:
    """The keys of a list of the page, in its order: `.It Va n , m , negative`."""
    page = (ROOT / "man" / "icml-cclust-lb.1").read_text()
    section = re.search(rf"^\.{re.escape(part)}$(.*?)^\.S[hs] ", page, re.MULTILINE | re.DOTALL)
    assert section, part
    return [
        key
        for item in re.findall(r"^\.It Va (.*)$", section.group(1), re.MULTILINE)
        for key in item.split(" , ")
    ]


def documented_parts(key: str) -> list[str]:
    """The keys of an object within: what stands in `.Va` lines under the item."""
    page = (ROOT / "man" / "icml-cclust-lb.1").read_text()
    item = re.search(rf"^\.It Va {key}$(.*?)^\.(?:It|El)\b", page, re.MULTILINE | re.DOTALL)
    assert item, key
    return re.findall(r"\w+", " ".join(re.findall(r"^\.Va (.*)$", item.group(1), re.MULTILINE)))


@pytest.mark.parametrize("problem", ["cc", "cc-complete", "frustration", "maxcut"])
def test_json_has_the_documented_keys_in_order(icml: Icml, problem: str) -> None:
    text = grid(5) if problem in ("cc", "frustration") else plain(grid(5))
    result = certify(icml, "-", "--problem", problem, "--blame", "3", "--heuristic-steps", "20", stdin=text)
    assert list(result) == documented_keys()
    assert list(result["dropped"]) == documented_parts("dropped")
    assert list(result["seconds"]) == documented_parts("seconds")
    assert all(list(edge) == documented_parts("blame") for edge in result["blame"])
    assert result["cut"] == (result["weight_total"] - result["cost"] if problem == "maxcut" else None)
    assert result["finished"] in ("converged", "target")
    without = certify(icml, "-", "--problem", problem, "--heuristic-steps", "20", stdin=text)
    assert list(without) == [key for key in documented_keys() if key != "blame"]


def test_figures_of_a_known_graph(icml: Icml) -> None:
    result = certify(icml, GRAPHS / "highlandtribes.csv.gz")
    assert (result["n"], result["m"], result["negative"]) == (16, 58, 29)
    assert (result["cost"], result["lower_bound_int"], result["optimal_proven"]) == (2, 2, True)


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


@pytest.mark.parametrize("problem", ["cc", "frustration", "maxcut", "cc-complete"])
def test_same_bytes_whatever_the_threads(icml: Icml, problem: str) -> None:
    signed = problem in ("cc", "frustration")
    (icml.folder / "g.txt").write_text(grid(12) if signed else plain(grid(12)))
    command = ["cclust-lb", "g.txt", "--problem", problem, "--heuristic-steps", "200"]
    command += ["--time-limit", "10m", "--heuristic-time", "10m", "--json", "-o", "r.json"]
    command += ["--certificate", "c.npz", "--out-clusters", "o.tsv"]
    outputs = []
    for threads in ("1", "2", "2"):
        icml(*command, "--threads", threads)
        result = json.loads((icml.folder / "r.json").read_text())
        assert result["finished"] in ("converged", "target")
        del result["seconds"]
        outputs.append((result, (icml.folder / "c.npz").read_bytes(), (icml.folder / "o.tsv").read_bytes()))
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize(
    "weights",
    [
        *(3 * (w,) for w in ("1e15", "1e18", "1e300", "1e-300", "1e-308")),
        ("1e15", "1", "3"),
        ("1e18", "1", "1e-3"),
        ("1e300", "1", "1e-300"),
        ("1e-308", "1e-300", "2e-308"),
    ],
    ids="-".join,
)
def test_huge_and_tiny_weights_are_certified_or_refused(icml: Icml, weights: tuple[str, str, str]) -> None:
    """Never a bound above the cost, a certificate that does not hold, or an internal error."""
    text = "a b {0}\nb c {1}\na c -{2}\nc d {1}\nb d -{0}\n".format(*weights)
    (icml.folder / "g.txt").write_text(text)
    common = ("g.txt", "--weights", "abs", "--json", "-q")
    done = icml("cclust-lb", *common, "--heuristic-steps", "50", "--certificate", "c.npz", code=None)
    if done.returncode:
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith("icml cclust-lb: g.txt: ")
        assert not (icml.folder / "c.npz").exists()
        return
    result = json.loads(done.stdout)
    assert 0 <= result["lower_bound"] <= result["cost"]
    assert (result["lower_bound_int"] or 0) <= result["cost"]
    verified = json.loads(icml("cclust-lb", *common, "--verify", "c.npz").stdout)
    assert (verified["holds"], verified["lower_bound"]) == (True, result["lower_bound"])


# Certificates


def test_certificate_holds_for_its_graph_and_no_other(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(8))
    certify(icml, "g.txt", "--certificate", "c.npz")
    good = icml("cclust-lb", "g.txt", "--verify", "c.npz")
    assert "holds" in good.stdout
    (icml.folder / "h.txt").write_text(grid(8, seed=1))
    done = icml("cclust-lb", "h.txt", "--verify", "c.npz", code=2)
    assert "c.npz: the certificate is for another graph" in done.stderr
    assert done.stdout == ""


def test_verify_takes_the_problem_of_the_certificate_and_refuses_another(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(grid(6))
    certify(icml, "g.txt", "--problem", "frustration", "--heuristic-steps", "20", "--certificate", "c.npz")
    found = json.loads(icml("cclust-lb", "g.txt", "--verify", "c.npz", "--json").stdout)
    assert list(found) == documented_keys("Ss With --verify")
    assert (found["holds"], found["problem"]) == (True, "frustration")
    same = icml("cclust-lb", "g.txt", "--verify", "c.npz", "--json", "--problem", "frustration")
    assert json.loads(same.stdout) == found
    for output in ([], ["-o", "found.json"]):
        other = icml("cclust-lb", "g.txt", "--verify", "c.npz", "--problem", "cc", "-q", *output, code=2)
        assert "frustration" in other.stderr
        assert (other.stdout, other.stderr.count("\n")) == ("", 1)
    assert not (icml.folder / "found.json").exists()


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
    ("a a 1\n", [], "g.txt: no edges left after dropping 1 self-loop\n"),
    ("a a\nb b\n", [], "g.txt: no edges left after dropping 2 self-loops\n"),
    ("a b 1e308\na b 1e308\nb a 1e308\n", ["--weights", "abs"], "more than a double can hold"),
    ("a b 1e308\nb c 1e308\n", ["--weights", "abs"], "the weights add up to inf: scale them down"),
    ("a b 1\nb c 1\n", ["--problem", "cc"], "did you mean the problem cc-complete or maxcut?"),
    ("a b 1\nb c 1\n", ["--problem", "frustration"], "all pairs agree"),
    (TRIANGLE, ["--problem", "maxcut"], "takes a plain graph, but 1 edge is negative"),
    (TRIANGLE, ["--problem", "cc-complete"], "did you mean the problem cc or frustration?"),
    (TRIANGLE, ["--obstructions", "star"], "star"),
    (TRIANGLE, ["--obstructions", "pentagram"], "pentagram"),
    (TRIANGLE, ["--columns", "src,dst"], "src"),
    (TRIANGLE, ["--columns", "src"], "--columns"),
    (TRIANGLE, ["--problem", "cut"], "--problem"),
    (TRIANGLE, ["--tol", "-1"], "--tol"),
    (TRIANGLE, ["--tol", "nan"], "--tol"),
    (TRIANGLE, ["--mu", "2"], "--mu"),
    (TRIANGLE, ["--mu", "0"], "--mu"),
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
    (TRIANGLE, ["--verify", "g.txt", "--clusters", "absent.tsv"], "--clusters"),
    (TRIANGLE, ["--verify", "g.txt", "--out-clusters", "o.tsv"], "--out-clusters"),
    (TRIANGLE, ["--verify", "g.txt", "--certificate", "c.npz"], "--certificate"),
    (TRIANGLE, ["--verify", "g.txt", "--plot", "p.svg"], "--plot"),
    (TRIANGLE, ["--verify", "g.txt", "--trace", "t.jsonl"], "--trace"),
    (TRIANGLE, ["--verify", "g.txt", "--heuristic", "ils"], "--heuristic"),
    (TRIANGLE, ["--heuristic", "none", "--out-clusters", "o.tsv"], "--out-clusters"),
    (TRIANGLE, ["--heuristic", "none", "--out-clusters", "-"], "--out-clusters"),
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
    ("option", "name"),
    [
        ("--out-clusters", "o.tsv"),
        ("--certificate", "c.npz"),
        ("--plot", "p.svg"),
        ("--trace", "t.jsonl"),
        ("-o", "r.txt"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_graph_is_read(
    icml: Icml, option: str, name: str
) -> None:
    """The graph is bad as well: whoever complains about it has read it first."""
    (icml.folder / "g.txt").write_text("a b 1\nc\n")
    done = icml("cclust-lb", "g.txt", option, f"nowhere/{name}", "-q", code=2)
    assert "nowhere" in done.stderr
    assert "g.txt" not in done.stderr
    if os.geteuid():  # root may write everywhere
        (icml.folder / "closed").mkdir(mode=0o500)
        assert "closed" in icml("cclust-lb", "g.txt", option, f"closed/{name}", "-q", code=2).stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "x", "--out-clusters", "x"],
        ["-o", "x", "--certificate", "x"],
        ["--out-clusters", "x", "--certificate", "x"],
        ["--out-clusters", "x", "--certificate", "./x"],
        ["-o", "link", "--certificate", "x"],
        ["-o", "g.txt"],
        ["--out-clusters", "g.txt"],
        ["--certificate", "g.txt"],
        ["--certificate", "../{folder}/g.txt"],
        ["-o", "alias.txt"],
        ["--trace", "x", "--certificate", "x"],
        ["--clusters", "mine.tsv", "--out-clusters", "mine.tsv"],
    ],
    ids=" ".join,
)
def test_outputs_that_would_overwrite_each_other_or_the_graph_are_refused(
    icml: Icml, options: list[str]
) -> None:
    (icml.folder / "g.txt").write_text(TRIANGLE)
    (icml.folder / "link").symlink_to("x")
    (icml.folder / "alias.txt").symlink_to("g.txt")
    (icml.folder / "mine.tsv").write_text("a\t1\nb\t1\nc\t1\n")
    before = sorted(path.name for path in icml.folder.iterdir())
    options = [option.format(folder=icml.folder.name) for option in options]
    done = icml("cclust-lb", "g.txt", *options, "-q", code=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert (icml.folder / "g.txt").read_text() == TRIANGLE
    assert sorted(path.name for path in icml.folder.iterdir()) == before


def test_a_failed_run_leaves_the_old_trace(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text("a b 1\nc\n")
    (icml.folder / "t.jsonl").write_text("old\n")
    icml("cclust-lb", "g.txt", "--trace", "t.jsonl", code=2)
    icml("cclust-lb", "absent.txt", "--trace", "t.jsonl", code=2)
    assert (icml.folder / "t.jsonl").read_text() == "old\n"
    (icml.folder / "g.txt").write_text(TRIANGLE)
    icml("cclust-lb", "g.txt", "--clusters", "absent.tsv", "--trace", "t.jsonl", code=2)
    icml("cclust-lb", "g.txt", "--problem", "maxcut", "--trace", "t.jsonl", code=2)
    assert (icml.folder / "t.jsonl").read_text() == "old\n"
    icml("cclust-lb", "g.txt", "--trace", "t.jsonl")
    assert all(json.loads(line) for line in (icml.folder / "t.jsonl").read_text().splitlines())


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


@pytest.mark.parametrize(("problem", "text"), [("frustration", TRIANGLE), ("maxcut", "a b\nb c\na c\n")])
def test_three_labels_are_too_many_for_two_clusters(icml: Icml, problem: str, text: str) -> None:
    (icml.folder / "labels.tsv").write_text("a\t1\nb\t2\nc\t3\n")
    done = icml("cclust-lb", "-", "--problem", problem, "--clusters", "labels.tsv", "-q", stdin=text, code=2)
    assert done.stderr.startswith("icml cclust-lb: labels.tsv: ")
    assert done.stderr.count("\n") == 1


def test_clusters_from_standard_input(icml: Icml) -> None:
    (icml.folder / "g.txt").write_text(TRIANGLE)
    assert certify(icml, "g.txt", "--clusters", "-", stdin="a\tx\nb\ty\nc\tz\n")["cost"] == 2
    icml("cclust-lb", "-", "--clusters", "-", stdin=TRIANGLE, code=2)


def test_given_clusters_may_be_written_without_a_heuristic(icml: Icml) -> None:
    (icml.folder / "mine.tsv").write_text("a\tx\nb\ty\nc\ty\n")
    certify(
        icml, "-", "--clusters", "mine.tsv", "--heuristic", "none", "--out-clusters", "o.tsv", stdin=TRIANGLE
    )
    assert certify(icml, "-", "--clusters", "o.tsv", stdin=TRIANGLE)["cost"] == 1


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
        gzip.compress(TRIANGLE.encode(), mtime=0),
    ],
)
def test_dialects_of_the_same_triangle(icml: Icml, data: bytes) -> None:
    result = certify(icml, "-", stdin=data)
    assert (result["n"], result["m"], result["cost"]) == (3, 3, 1)


def test_zero_bound_with_a_cost_has_no_ratio_and_says_why(icml: Icml) -> None:
    """A four-cycle with one minus: no bad triangle."""
    square = "a b 1\nb c 1\nc d 1\nd a -1\n"
    result = certify(icml, "-", "--obstructions", "triangle", "--heuristic-steps", "50", stdin=square)
    assert (result["lower_bound"], result["cost"], result["ratio_disagree"]) == (0, 1, None)
    assert "no obstruction" in result["note"]


def test_help_and_unknown_option(icml: Icml) -> None:
    done = icml("cclust-lb", "--help")
    assert "--obstructions" in done.stdout
    assert "--obstruction" in icml("cclust-lb", "--obstructon", "x", stdin=TRIANGLE, code=2).stderr
