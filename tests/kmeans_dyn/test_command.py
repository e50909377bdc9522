"""`icml kcenter-dyn` as a user runs it: the line protocol, tables, windows, checkpoints, pipes, bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import EXAMPLES, Icml

from icml.formats.errors import InputError
from icml.formats.source import Content
from icml.tools.kmeans_dyn import DynamicKCenter
from icml.tools.kmeans_dyn.layout import Columns, find_layout
from icml.tools.kmeans_dyn.stream import Schedule, Sink, StreamRun

KEYS = [
    *("t", "n", "k", "z", "radius", "opt_lower", "centers", "coords", "sizes"),
    *("outliers", "outlier_ids", "layers", "coreset", "recourse", "seconds", "note"),
]


def _answers(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _without_time(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in answer.items() if key != "seconds"} for answer in answers]


def _stream(n: int = 3000, d: int = 3, window: int = 1000, seed: int = 0) -> str:
    """Insertions with the deletions of a sliding window."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    lines = []
    for i, row in enumerate(x):
        lines.append(f"+ p{i} {' '.join(map(repr, row.tolist()))}")
        if i >= window:
            lines.append(f"- p{i - window}")
    return "\n".join(lines) + "\n"


def test_protocol(icml: Icml) -> None:
    lines = [
        "# five places, one far away",
        "+ a 0 0",
        "+ b 1 0",
        "+ c 10 0",
        "+ d 11 0",
        "+ far 1e9 0",
        "?",
        "@ 0 5",
        "- far",
        "? 1 1",
    ]
    done = icml("kcenter-dyn", "-", "-k", "2", "-z", "1", "--list-outliers", "-q", stdin="\n".join(lines))
    first, score, second = _answers(done.stdout)
    assert list(first) == KEYS
    assert (first["t"], first["n"], first["k"], first["z"]) == (5, 5, 2, 1)
    assert first["radius"] == pytest.approx(1)
    assert first["outlier_ids"] == ["far"]
    assert sorted(first["sizes"]) == [2, 2]
    assert set(first["centers"]) <= {"a", "b", "c", "d"}
    assert 0 < first["opt_lower"] <= 1
    assert score["distance"] == pytest.approx(5)
    assert score["score"] == pytest.approx(5)
    assert (score["outlier"], score["t"]) == (True, 5)
    assert (second["t"], second["n"], second["k"]) == (6, 4, 1)
    assert done.stderr == ""


@pytest.mark.parametrize("separator", [" ", ",", "\t", ";"])
def test_separators_line_ends_and_compression(icml: Icml, separator: str) -> None:
    text = _stream(300) + "?\n"
    expected = icml("kcenter-dyn", "-k", "3", "-z", "1%", "-q", stdin=text).stdout
    other = "\ufeff" + text.replace(" ", separator).replace("\n", "\r\n")
    found = icml("kcenter-dyn", "-k", "3", "-z", "1%", "-q", stdin=gzip.compress(other.encode())).stdout
    assert _without_time(_answers(found)) == _without_time(_answers(expected))


def test_windows_by_count_imply_deletions(icml: Icml) -> None:
    explicit = _stream(3000, window=1000)
    implied = "\n".join(line[2:] for line in explicit.splitlines() if line[0] == "+") + "\n"
    options = ("-k", "3", "-z", "5", "-q")
    a = _answers(icml("kcenter-dyn", "-", *options, stdin=explicit).stdout)[-1]
    b = _answers(
        icml("kcenter-dyn", "-", *options, "--window", "1000", "--query-every", "500", stdin=implied).stdout
    )
    assert [answer["t"] for answer in b] == [500, 1000, 1500, 2000, 2500, 3000]
    assert [answer["n"] for answer in b] == [500, 1000, 1000, 1000, 1000, 1000]
    assert (a["n"], a["t"]) == (1000, 5000)
    assert b[-1]["radius"] == pytest.approx(a["radius"], rel=0.5)


def test_windows_by_time(icml: Icml) -> None:
    lines = ["0 a 1", "5 b 2", "9 c 3", "10 d 4", "7 late 5", "? ", "30 e 9", "?"]
    done = icml("kcenter-dyn", "-", "-k", "9", "-z", "0", "--window-time", "10", "-q", stdin="\n".join(lines))
    first, second = _answers(done.stdout)
    assert sorted(first["centers"]) == ["b", "c", "d", "late"]
    assert second["centers"] == ["e"]


def test_table_with_a_header(icml: Icml) -> None:
    rows = "op,id,x,y\n+,a,0,0\n+,b,1,0\n+,c,9,9\n?,,,\n-,c,,\n?,,1,\n"
    first, second = _answers(icml("kcenter-dyn", "-", "-k", "2", "-z", "0", "-q", stdin=rows).stdout)
    assert (first["n"], second["n"], second["k"]) == (3, 2, 1)
    (icml.folder / "t.csv").write_text("name,y,x,weight\nn1,1,2,9\nn2,3,4,9\n")
    done = icml("kcenter-dyn", "t.csv", "-k", "2", "-z", "0", "-q", "--columns", "x,y", "--id-column", "name")
    answer = _answers(done.stdout)[0]
    assert dict(zip(answer["centers"], answer["coords"], strict=True)) == {"n1": [2, 1], "n2": [4, 3]}
    (icml.folder / "u.csv").write_text("x,y\n1,2\n3,4\n")
    assert sorted(
        _answers(icml("kcenter-dyn", "u.csv", "-k", "2", "-z", "0", "-q").stdout)[0]["centers"]
    ) == ["0", "1"]


def test_static_cities_and_picture(icml: Icml) -> None:
    done = icml(
        "kcenter-dyn",
        EXAMPLES / "kcenter-cities.csv.gz",
        "--static",
        *("-k", "20", "-z", "300", "--metric", "haversine", "--list-outliers"),
        *("--audit", "-o", "stores.jsonl", "--plot", "radius.svg"),
    )
    assert done.stdout == ""
    (answer,) = _answers((icml.folder / "stores.jsonl").read_text())
    assert answer["n"] == 34_006
    assert answer["outliers"] == len(answer["outlier_ids"]) <= 360
    assert answer["audit"]["holds"]
    assert answer["audit"]["radius"] <= answer["radius"] < 2500
    assert "radius (km)" in (icml.folder / "radius.svg").read_text()
    assert "live points" in done.stderr


@pytest.mark.parametrize("kind", ["npy", "parquet", "csv"])
def test_binary_and_text_tables_give_the_same(icml: Icml, kind: str) -> None:
    x = np.random.default_rng(1).normal(size=(5000, 4))
    path = icml.folder / f"points.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "csv":
        path.write_text("a,b,c,d\n" + "".join(",".join(map(repr, row)) + "\n" for row in x.tolist()))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({f"x{i}": x[:, i] for i in range(4)}), path)
    done = icml("kcenter-dyn", path, "-k", "5", "-z", "0.1%", "--query-every", "1000", "-q")
    whole = icml("kcenter-dyn", path, "-k", "5", "-z", "0.1%", "--static", "-q")
    model = DynamicKCenter(5, "0.1%")
    expected = []
    for begin in range(0, 5000, 1000):
        model.insert(range(begin, begin + 1000), x[begin : begin + 1000])
        expected.append((begin + 1000, model.query().radius))
    assert [(answer["t"], answer["radius"]) for answer in _answers(done.stdout)] == expected
    model = DynamicKCenter(5, "0.1%")
    model.insert(range(5000), x)
    model.rebuild()
    assert [answer["radius"] for answer in _answers(whole.stdout)] == [model.query().radius]


def test_precomputed_distances(icml: Icml) -> None:
    x = np.array([0.0, 1.0, 2.0, 50.0, 51.0, 52.0, 1000.0])
    np.save(icml.folder / "d.npy", np.abs(x[:, None] - x[None]))
    lines = "\n".join([*(f"+ {i}" for i in range(7)), "?", "@ 6", "- 6", "?"])
    done = icml(
        "kcenter-dyn",
        "-",
        *("-k", "2", "-z", "1", "--metric", "precomputed", "--matrix", "d.npy", "-q"),
        stdin=lines,
    )
    first, score, second = _answers(done.stdout)
    assert sorted(first["centers"]) == ["1", "4"]
    assert first["radius"] == pytest.approx(1)
    assert (score["id"], score["distance"], score["outlier"]) == ("6", 949.0, True)
    assert second["n"] == 6


def test_checkpoint_and_resume_equal_one_run(icml: Icml) -> None:
    lines = _stream(4000).splitlines()
    options = ("-k", "4", "-z", "8", "--query-every", "500", "--sticky", "0.1", "-q")
    whole = icml("kcenter-dyn", "-", *options, stdin="\n".join(lines) + "\n").stdout
    half = 3000
    first = icml("kcenter-dyn", "-", *options, "--checkpoint", "a.npz", stdin="\n".join(lines[:half]) + "\n")
    second = icml(
        "kcenter-dyn",
        "-",
        *options,
        *("--resume", "a.npz", "--checkpoint", "b.npz", "--checkpoint-every", "700"),
        stdin="\n".join(lines[half:]) + "\n",
    )
    assert _without_time(_answers(first.stdout + second.stdout)) == _without_time(_answers(whole))
    icml("kcenter-dyn", "-", *options, "--checkpoint", "c.npz", stdin="\n".join(lines) + "\n")
    assert (icml.folder / "b.npz").read_bytes() == (icml.folder / "c.npz").read_bytes()


def test_float32_answers_as_float64_does_for_rounded_points(icml: Icml) -> None:
    text = _stream(2500)
    rounded = "\n".join(
        " ".join([*fields[:2], *(repr(float(np.float32(x))) for x in fields[2:])])
        for fields in map(str.split, text.splitlines())
    )
    options = ("kcenter-dyn", "-", "-k", "4", "-z", "8", "--query-every", "700", "--audit", "-q")
    single = icml(*options, "--dtype", "float32", "--checkpoint", "a.npz", stdin=text + "@ 0.1 0.2 0.3\n")
    double = icml(
        *options, stdin=rounded + "\n@ 0.10000000149011612 0.20000000298023224 0.30000001192092896\n"
    )
    assert len(double.stdout.splitlines()) > 3
    assert _without_time(_answers(single.stdout)) == _without_time(_answers(double.stdout))
    icml(*options, "--dtype", "float32", "--resume", "a.npz", stdin="+ new 0.1 0.2 0.3\n?\n")


def test_a_checkpoint_asked_for_by_the_stream(icml: Icml) -> None:
    text = "+ a 1\n+ b 2\n= state.npz\n+ c 3\n?\n"
    icml("kcenter-dyn", "-k", "1", "-z", "0", "-q", stdin=text)
    done = icml("kcenter-dyn", "-k", "1", "-z", "0", "-q", "--resume", "state.npz", stdin="?\n")
    assert _answers(done.stdout)[0]["n"] == 2


def test_output_is_the_same_for_any_number_of_threads(icml: Icml) -> None:
    text = _stream(2000)
    found = [
        icml(
            *("kcenter-dyn", "-k", "5", "-z", "10", "--query-every", "400", "-q"),
            *("--threads", str(threads)),
            stdin=text,
        ).stdout
        for threads in (1, 2)
    ]
    assert _without_time(_answers(found[0])) == _without_time(_answers(found[1]))


def test_compare_says_who_is_better(icml: Icml) -> None:
    text = _stream(1500) + "+ far 1e7 1e7 1e7\n?\n"
    answer = _answers(icml("kcenter-dyn", "-k", "4", "-z", "10", "--compare", "-q", stdin=text).stdout)[0]
    assert set(answer["compare"]) == {"icml", "gonzalez", "random_greedy", "minibatch_kmeans"}
    assert 0 < answer["compare"]["icml"] <= answer["radius"]


def _popen(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "icml", "kcenter-dyn", "-", "-k", "2", "-z", "0", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ,
    )


def test_answers_come_while_the_stream_goes_on(icml: Icml) -> None:
    with _popen(icml.folder, "-q") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(f"+ {number} {number}\n?\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["n"] == number + 1
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_state_even_while_nothing_arrives(
    icml: Icml, signum: signal.Signals, code: int
) -> None:
    with _popen(icml.folder, "--checkpoint", "state.npz") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("+ a 1\n+ b 5\n?\n+ c 9\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signum)
        last = json.loads(process.stdout.readline())
        assert process.wait(30) == code
        assert process.stderr is not None
        assert "stopped after line 4; state saved in state.npz" in process.stderr.read()
    assert last["n"] == 3, "the best so far"
    done = icml("kcenter-dyn", "-k", "2", "-z", "0", "-q", "--resume", "state.npz", stdin="?\n")
    assert _answers(done.stdout)[0]["n"] == 3


def test_the_time_limit_ends_with_an_answer(icml: Icml) -> None:
    with _popen(icml.folder, "-q", "--time-limit", "1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("+ a 1\n+ b 5\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["n"] == 2
        assert process.wait(30) == 0


def test_a_closed_pipe_ends_quietly(icml: Icml) -> None:
    (icml.folder / "s.txt").write_text(_stream(20_000))
    done = icml.shell("icml kcenter-dyn s.txt -k 2 -z 0 --query-every 10 -q | head -n 1")
    assert done.stderr == ""
    assert json.loads(done.stdout)["t"] == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("+ a 1 2\n+ b 1\n", "stdin:2: expected 2 coordinates, got 1"),
        ("+ a 1 2\n\n# c\n+ b 1 x\n", "stdin:4: a coordinate is no number: 'x'"),
        ("+ a 0,5\n", "stdin:1: a coordinate is no number: '0,5'"),
        ("id,x,name\na,1,Paris\n", "stdin:2: a coordinate is no number: 'Paris'; --columns chooses others"),
        ("+ a 1\n= -\n", "stdin:2: a checkpoint takes one file name"),
        ("+ a 1\n= a b\n", "stdin:2: a checkpoint takes one path"),
        ("+ a 1\n? 0\n", "stdin:2: k of a query must be from 1 to 2, got 0"),
        ("+ a 1\n" + "+ b" + " 1" * (1 << 23) + "0", "stdin:2: the line is longer than 16 MiB"),
        ("+ a 1 2\n+ b nan 2\n", "stdin:2: a coordinate is not a finite number: 'nan'"),
        ("+ a 1 2\n+ b inf 2\n", "stdin:2: a coordinate is not a finite number"),
        ("+ a 1e300 2\n", "stdin:1: a coordinate is beyond 1e30"),
        ("+ a 1 2\n+ a 1 3\n", "stdin:2: id 'a' is there already"),
        ("+ a 1 2\n- b\n", "stdin:2: id 'b' is not there"),
        ("- b\n", "stdin:1: id 'b' is not there"),
        ("+ a 1 2\n* b 1 2\n", "stdin:2: unknown operation '*'"),
        ("+ a 1 2\nb 1 2\n", "stdin:2: unknown operation 'b'"),
        ("+ a 1 2\n- \n", "stdin:2: a deletion takes one id"),
        ("+\n", "stdin:1: an insertion needs an id"),
        ("+ a\n", "stdin:1: an insertion needs coordinates"),
        ("+ a 1\n? 9\n", "stdin:2: k of a query must be from 1 to 2, got 9"),
        ("+ a 1\n? x\n", "stdin:2: k must be a number"),
        ("+ a 1\n? 1 -3\n", "stdin:2: z must be a number"),
        ("+ a 1\n? 1 1 1\n", "stdin:2: a query takes k and z or nothing"),
        ("+ a 1\n@ 1 2\n", "stdin:2: expected 1 coordinates, got 2"),
        ("@ 1 2\n", "stdin:1: there are no centers"),
        ("+ a 1\n= no/such/folder.npz\n", "folder"),
        ("+ a 1\n+ b \x00\n", "stdin:2: NUL byte"),
    ],
)
def test_bad_lines(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        _feed(text)
    assert message in str(caught.value)


def _feed(text: str) -> None:
    """Runs a stream without the program around it."""
    model = DynamicKCenter(2, 1)

    def save(path: str | None) -> None:
        assert path is not None
        model.save(path)

    run = StreamRun(model, Sink(lambda _: None, lambda _: None, save, lambda: False), Schedule())
    head = Content(bytearray(text.encode()), "stdin", "")
    layout = find_layout(head, Columns(), "euclidean", timed=False)
    run.run_lines([text.encode()[layout.skip :]], layout, "stdin")


def test_input_without_line_ends_does_not_fill_memory(icml: Icml) -> None:
    done = icml("kcenter-dyn", "-k", "1", "-z", "0", stdin=bytes(40 << 20), code=2)
    assert done.stderr == "icml kcenter-dyn: stdin: a line is longer than 16 MiB; is this text?\n"


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        *(("+ a 0,5", " "), ("+\ta b\t0,5", "\t"), ("+,a b,0.5", ","), ("+;a;0,5", ";"), ("+ , a , 1", ",")),
        *(("# c\n\n  + a 1;5", " "), ("?", " "), ("?\n\n?\n+,a,1", ","), ("- a,b", " "), ("= a,b.npz", " ")),
    ],
)
def test_the_operation_tells_the_separator(line: str, separator: str) -> None:
    head = Content(bytearray(f"{line}\n".encode()), "stdin", "")
    layout = find_layout(head, Columns(), "euclidean", timed=False)
    assert (layout.separator, layout.implied, layout.columns) == (separator, False, [])


@pytest.mark.parametrize("text", ["a 0,5\nb 1,5\n", "a 1 -0,5\n", "t 1\t0,25\n"])
def test_a_decimal_comma_is_no_separator(icml: Icml, text: str) -> None:
    done = icml("kcenter-dyn", "-k", "1", "-z", "0", stdin=text, code=2)
    assert done.stderr.startswith("icml kcenter-dyn: stdin:1: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    "text", ["Route 66,5\nMain Street,7\n", "0,5\n1,7\n", "a 1,2.5\n", "+,Route 66,5\n", "Route 66,5,1\n"]
)
def test_a_comma_that_separates(icml: Icml, text: str) -> None:
    first = _answers(icml("kcenter-dyn", "-k", "2", "-z", "0", "-q", stdin=text).stdout)[0]
    assert first["centers"][0] in ("Route 66", "0", "a 1")


@pytest.mark.parametrize("plotted", [False, True])
def test_answers_are_remembered_for_a_picture_only(tmp_path: Path, plotted: bool) -> None:
    from icml.cli.progress import Reporter
    from icml.tools.kmeans_dyn.command import _Writer

    model = DynamicKCenter(1, 0)
    model.insert([1], [[0.0]])
    with Reporter("kcenter-dyn", quiet=True).progress("reading") as line:
        writer = _Writer(model, str(tmp_path / "o"), False, False, False, None, plotted, line)
        with writer:
            for _ in range(3):
                writer.result(model.query())
    assert (writer.answers, len(writer.history)) == (3, 3 * plotted)


def test_a_bad_line_ends_the_program_with_one_line(icml: Icml) -> None:
    done = icml("kcenter-dyn", "-k", "2", "-z", "1", stdin="+ a 1 2\n+ b 1\n", code=2)
    assert done.stderr == "icml kcenter-dyn: stdin:2: expected 2 coordinates, got 1\n"
    assert done.stdout == ""


def test_answers_before_a_bad_line_stay(icml: Icml) -> None:
    done = icml("kcenter-dyn", "-k", "2", "-z", "0", stdin="+ a 1\n?\n+ a 2\n", code=2)
    assert len(_answers(done.stdout)) == 1


def test_conflicts_can_be_skipped_or_replaced(icml: Icml) -> None:
    text = "+ a 1\n+ a 2\n- zz\n?\n"
    for policy, place in (("skip", 1.0), ("replace", 2.0)):
        done = icml("kcenter-dyn", "-k", "1", "-z", "0", "-q", "--on-conflict", policy, stdin=text)
        assert _answers(done.stdout)[0]["coords"] == [[place]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-k", "0", "-z", "1"), "k must be"),
        (("-k", "2", "-z", "-1"), "z must be"),
        (("-k", "2", "-z", "1", "--eps", "0"), "eps must be in (0, 1]"),
        (("-k", "2", "-z", "1", "--metric", "precomputed"), "go together"),
        (("-k", "2", "-z", "1", "--checkpoint-every", "5"), "needs --checkpoint"),
        (("-k", "2", "-z", "1", "--static", "--query-every", "5"), "--static answers once"),
        (("-k", "2", "-z", "1", "--resume", "none.npz"), "No such file"),
        (("-k", "2", "-z", "1", "--window", "5", "--window-time", "3"), "either by count or by time"),
        (("-k", "2", "-z", "1", "--metric", "haversine", "--dim", "3"), "haversine takes 2"),
        (("-k", "2", "-z", "1", "--metric", "haversine", "--dtype", "float32"), "not with haversine"),
        (("-k", "2", "-z", "1", "--dtype", "float16"), "float16"),
        (("-z", "1"), "missing option"),
    ],
)
def test_bad_options(icml: Icml, options: tuple[str, ...], message: str) -> None:
    done = icml("kcenter-dyn", *options, stdin="+ a 1\n", code=2)
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("metric", "line", "message"),
    [
        ("cosine", "+ a 0 0", "stdin:1: a zero vector has no direction"),
        ("haversine", "+ a 95 0", "stdin:1: a latitude is beyond 90 degrees"),
        ("hamming", "+ a 0 2", "stdin:1: hamming takes coordinates 0 and 1 only"),
    ],
)
def test_points_that_the_metric_does_not_have(icml: Icml, metric: str, line: str, message: str) -> None:
    done = icml("kcenter-dyn", "-k", "2", "-z", "0", "--metric", metric, stdin=line + "\n", code=2)
    assert message in done.stderr


def test_bad_matrices(icml: Icml) -> None:
    for matrix, message in (
        (np.zeros((2, 3)), "square"),
        (np.array([[0.0, -1], [-1, 0]]), "negative"),
        (np.array([[0.0, 1], [2, 0]]), "not symmetric"),
    ):
        np.save(icml.folder / "d.npy", matrix)
        done = icml(
            *("kcenter-dyn", "-k", "1", "-z", "0", "--metric", "precomputed", "--matrix", "d.npy"),
            stdin="+ 0\n",
            code=2,
        )
        assert f"d.npy: {message}" in done.stderr or message in done.stderr
    np.save(icml.folder / "d.npy", np.zeros((2, 2)))
    done = icml(
        *("kcenter-dyn", "-k", "1", "-z", "0", "--metric", "precomputed", "--matrix", "d.npy"),
        stdin="+ 2\n",
        code=2,
    )
    assert "stdin:1: id '2' is not a row of the matrix" in done.stderr


def test_resume_refuses_another_problem(icml: Icml) -> None:
    icml("kcenter-dyn", "-k", "2", "-z", "0", "-q", "--checkpoint", "s.npz", stdin="+ a 1 2\n")
    for options, message in (
        (("-k", "3"), "made with k 2, not 3"),
        (("-k", "2", "--metric", "cosine"), "made with metric euclidean, not cosine"),
        (("-k", "2", "--dim", "3"), "expected 3 coordinates, got 2"),
        (("-k", "2", "--dtype", "float32"), "made with dtype float64, not float32"),
    ):
        done = icml("kcenter-dyn", *options, "-z", "0", "--resume", "s.npz", stdin="?\n", code=2)
        assert message in done.stderr


def test_empty_input(icml: Icml) -> None:
    answer = _answers(icml("kcenter-dyn", "-k", "2", "-z", "0", "-q", stdin="# nothing\n").stdout)[0]
    assert (answer["n"], answer["radius"], answer["note"]) == (0, 0, "there are no points")
