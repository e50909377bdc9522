"""The command line as its users meet it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import EXAMPLES, Icml

from icml.tools.nneinfact import NNEinFact, load_model, select
from icml.tools.nneinfact.losses import divergence

from .runs import MODEL, TRIPS, counts

UBER = EXAMPLES / "uber_pickups.npz"
USERS = ["ann", "bob", "tab\there", "böb"]


def fit_trips(icml: Icml, *more: str | Path) -> subprocess.CompletedProcess[str]:
    """Fits the trips into m.npz."""
    (icml.folder / "trips.tsv").write_text(TRIPS)
    return icml("nneinfact", "fit", MODEL, "trips.tsv", "-k", "r=2", "-o", "m.npz", *more)


def table(icml: Icml, *args: str | Path, **more: Any) -> list[list[str]]:
    """The lines that a command prints, split."""
    return list(csv.reader(io.StringIO(icml("nneinfact", *args, **more).stdout), delimiter="\t"))


def test_labels_go_through_fit_and_predict(icml: Icml) -> None:
    done = fit_trips(icml)
    assert "1 repeated cells were summed" in done.stderr
    with np.load(icml.folder / "m.npz", allow_pickle=False) as file:
        assert file["labels_u"].tolist() == USERS
        assert file["labels_v"].tolist() == ["x", "y", "z z"]
        assert "labels_t" not in file
        whole = np.einsum(str(file["model"]), *(file[f"factor_{i}"] for i in range(3)))
    rows = table(icml, "predict", "m.npz")
    assert rows[0] == ["u", "v", "t", "value"]
    np.testing.assert_allclose([float(row[3]) for row in rows[1:]], whole.ravel(), rtol=1e-8)
    (icml.folder / "at.tsv").write_text('v\tt\tu\nz z\t2\t"tab\there"\nx\t0\tann\n')
    assert icml("nneinfact", "predict", "m.npz", "--at", "at.tsv").stdout == (
        f'u\tv\tt\tvalue\n"tab\there"\tz z\t2\t{whole[2, 2, 2]:.9g}\nann\tx\t0\t{whole[0, 0, 0]:.9g}\n'
    )
    icml("nneinfact", "predict", "m.npz", "--at", "at.tsv", "--format", "npy", "-o", "at.npy")
    np.testing.assert_allclose(np.load(icml.folder / "at.npy"), [whole[2, 2, 2], whole[0, 0, 0]], rtol=1e-12)
    part = table(icml, "predict", "m.npz", "--slice", "u=böb,t=2")
    assert [row[:3] for row in part[1:]] == [["böb", name, "2"] for name in ("x", "y", "z z")]
    np.testing.assert_allclose([float(row[3]) for row in part[1:]], whole[3, :, 2], rtol=1e-8)
    icml("nneinfact", "predict", "m.npz", "--slice", "v=z z", "--format", "npy", "-o", "slice.npy")
    np.testing.assert_allclose(np.load(icml.folder / "slice.npy"), whole[:, 2, :], rtol=1e-12)


def test_a_prediction_is_data_again(icml: Icml) -> None:
    fit_trips(icml)
    again = icml.shell(
        "icml nneinfact predict m.npz | icml nneinfact fit 'ur,vr,tr->uvt' - -k r=2 -q --max-iter 3 | "
        "icml nneinfact predict - --slice t=0"
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert [line.split("\t")[0] for line in again.stdout.splitlines()[1::3]] == ["ann", "bob", '"tab', "böb"]


def test_fit_and_predict_in_a_pipe(icml: Icml) -> None:
    """The pipeline of the manual: compressed table in, model through the pipe, best cells out."""
    rng = np.random.default_rng(0)
    rows = [f"u{a}\tv{b}\t{c}\t{1 + a % 3}" for a, b, c in rng.integers(0, (9, 8, 7), (300, 3)).tolist()]
    (icml.folder / "t.tsv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    (icml.folder / "pairs.tsv").write_text("u3\tv2\t1\nu1\tv7\t6\nu8\tv0\t0\n")
    done = icml.shell(
        "gzip -dc t.tsv.gz | icml nneinfact fit 'ur,vr,tr->uvt' - -k r=4 --loss kl -q | "
        "icml nneinfact predict - --at pairs.tsv | sort -k4,4gr | head -2"
    )
    assert done.returncode == 0, done.stderr
    values = [float(line.split("\t")[3]) for line in done.stdout.splitlines()]
    assert len(values) == 2
    assert values[0] >= values[1] > 0


def test_json_has_the_documented_keys(icml: Icml) -> None:
    y = counts()
    np.save(icml.folder / "y.npy", y)
    args = [
        "nneinfact",
        "fit",
        MODEL,
        "y.npy",
        "-k",
        "r=3",
        "--holdout",
        "0.1",
        "--seed",
        "3",
        "--max-iter",
        "40",
    ]
    result = json.loads(icml(*args, "--json", "-o", "m.npz").stdout)
    assert list(result) == [
        "model", "sizes", "alpha", "beta", "parameters", "cells", "nnz", "density", "missing", "loss", "heldout_loss",
        "null_loss", "null_heldout_loss", "iterations", "best_iteration", "converged", "reason", "path", "device",
        "dtype", "passes", "seconds", "seconds_per_pass", "seed",
    ]  # fmt: skip
    assert (result["cells"], result["nnz"], result["parameters"]) == (y.size, np.count_nonzero(y), 3 * 28)
    want = NNEinFact(MODEL, "r=3", holdout=0.1, seed=3, max_iter=40).fit(y)
    assert (result["loss"], result["heldout_loss"]) == (want.loss_, want.heldout_loss_)
    saved = load_model(icml.folder / "m.npz")
    for a, b in zip(saved.factors_, want.factors_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_same_bytes_from_every_container(icml: Icml) -> None:
    """One tensor as NPY, NPZ, table, FROSTT file, Parquet, through a pipe, with one thread and with two."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    y = counts()
    index, values = np.array(np.nonzero(y)), y[y != 0]
    folder = icml.folder
    np.save(folder / "y.npy", y)
    np.savez_compressed(folder / "y.npz", other=np.ones(3), Y=y.astype(np.int32))
    (folder / "y.npy.gz").write_bytes(gzip.compress((folder / "y.npy").read_bytes()))
    rows = np.random.default_rng(1).permutation(len(values))
    lines = [",".join(map(str, index[:, e])) + f",{values[e]:g}" for e in rows]
    (folder / "y.csv").write_bytes(b"\xef\xbb\xbf# note\r\n" + "\r\n".join(lines).encode())
    ones = [" ".join(map(str, index[:, e] + 1)) + f" {values[e]:g}" for e in rows]
    (folder / "y.tns").write_text("\n".join(ones) + "\n")
    columns = {c: index[i] for i, c in enumerate("uvt")}
    pq.write_table(pa.table({"count": values, **columns}), folder / "y.parquet")
    models = {}
    for name, threads in (
        ("y.npy", 1),
        ("y.npz", 2),
        ("y.npy.gz", 2),
        ("y.csv", 1),
        ("y.tns", 2),
        ("y.parquet", 2),
    ):
        icml("nneinfact", "fit", MODEL, name, "-k", "r=2", "--shape", "12,9,7", "--path", "sparse", "--max-iter", 5,
             "--threads", str(threads), "-o", "m.npz", "-q")  # fmt: skip
        models[name] = (folder / "m.npz").read_bytes()
    piped = icml.shell(
        "cat y.csv | icml nneinfact fit 'ur, vr, tr -> uvt' -k r=2 --shape 12,9,? --path sparse --max-iter 5 -q > p.npz"
    )
    assert piped.returncode == 0, piped.stderr
    models["pipe"] = (folder / "p.npz").read_bytes()
    assert len(set(models.values())) == 1, {name: hash(model) for name, model in models.items()}


def test_masks_weights_and_missing_cells(icml: Icml) -> None:
    y = counts()
    mask = np.random.default_rng(1).random(y.shape) < 0.8
    weights = np.random.default_rng(2).random(y.shape)
    folder = icml.folder
    np.save(folder / "y.npy", y)
    np.save(folder / "holes.npy", np.where(mask, y, np.nan))
    np.save(folder / "mask.npy", mask)
    np.save(folder / "w.npy", weights)
    hidden = ["\t".join(map(str, cell)) for cell in np.argwhere(~mask)]
    (folder / "mask.tsv").write_text("\n".join(hidden) + "\n")
    args = ["-k", "r=2", "--max-iter", "6", "--path", "dense", "-o", "m.npz"]
    models = []
    for more in (["y.npy", "--mask", "mask.npy"], ["y.npy", "--mask", "mask.tsv"], ["holes.npy"]):
        done = icml("nneinfact", "fit", MODEL, *more, *args)
        models.append(load_model(folder / "m.npz"))
    assert f"{np.count_nonzero(~mask)} NaN cells are taken as missing" in done.stderr
    want = NNEinFact(MODEL, "r=2", max_iter=6, path="dense").fit(y, mask=mask)
    for model in models:
        assert model.loss_ == want.loss_
        np.testing.assert_array_equal(model.reconstruct(), want.reconstruct())
    icml("nneinfact", "fit", MODEL, "y.npy", "--weights", "w.npy", "--mask", "mask.npy", *args)
    weighted = NNEinFact(MODEL, "r=2", max_iter=6, path="dense").fit(y, mask=mask, weights=weights)
    assert load_model(folder / "m.npz").loss_ == weighted.loss_ != want.loss_


def test_a_masked_table_by_label(icml: Icml) -> None:
    (icml.folder / "hide.tsv").write_text("ann\ty\t2\nböb\tx\t1\n")
    shown = json.loads(fit_trips(icml, "--mask", "hide.tsv", "--json").stdout)
    assert (shown["cells"], shown["missing"]) == (36, 2)


def test_integer_names_columns_and_label_files(icml: Icml) -> None:
    (icml.folder / "t.csv").write_text("when,who,amount,what\n2,7001,1.5,9\n0,7003,2,3\n1,7001,4,3\n")
    (icml.folder / "days.txt").write_text("mon\ntue\nwed\n")
    icml("nneinfact", "fit", MODEL, "t.csv", "-k", "r=1", "--columns", "who,what,when,amount", "--names", "uv",
         "--labels", "t=days.txt", "-o", "m.npz")  # fmt: skip
    model = load_model(icml.folder / "m.npz")
    assert model.labels == {"u": ["7001", "7003"], "v": ["9", "3"], "t": ["mon", "tue", "wed"]}
    assert len(table(icml, "predict", "m.npz", "--slice", "u=7003,t=wed")) == 3


def test_a_label_file_orders_the_names_of_a_table(icml: Icml) -> None:
    """It never renames them; and a file's line ends, byte-order mark and separators within a name do not count."""
    (icml.folder / "t.tsv").write_text("a\tb\tn\nmon\t0\t5\nt\u2028ue\t1\t1\nsun\t1\t9\n")
    (icml.folder / "days.txt").write_bytes("\ufeffsun\r\nmon\r\nt\u2028ue\r\nwed\r\n\r\n".encode())
    icml("nneinfact", "fit", "ar,br->ab", "t.tsv", "-k", "r=2", "--labels", "a=days.txt", "-o", "m.npz")
    model = load_model(icml.folder / "m.npz")
    assert model.labels == {"a": ["sun", "mon", "t\u2028ue", "wed"]}
    np.testing.assert_allclose(model.reconstruct(), [[0, 9], [5, 0], [0, 1], [0, 0]], atol=0.01)
    (icml.folder / "i.tsv").write_text("a\tb\tn\n1\t0\t5\n0\t1\t9\n")
    (icml.folder / "two.txt").write_text("wed\nmon\n")
    icml("nneinfact", "transform", "m.npz", "i.tsv", "--free", "b", "--labels", "a=two.txt", "-o", "n.npz")
    assert load_model(icml.folder / "n.npz").labels == model.labels


def test_a_slice_may_be_a_single_cell(icml: Icml) -> None:
    fit_trips(icml)
    rows = table(icml, "predict", "m.npz", "--slice", "u=ann,v=x,t=0")
    assert rows[1][:3] == ["ann", "x", "0"]
    value = load_model(icml.folder / "m.npz").predict([[0], [0], [0]])[0]
    assert float(rows[1][3]) == pytest.approx(value, rel=1e-8)


def test_extreme_options_give_no_warnings_of_numpy(icml: Icml) -> None:
    done = fit_trips(icml, "--prior-shape", "1e300", "--max-iter", "3")
    assert "Warning" not in done.stderr
    assert "no cell was held out" in fit_trips(icml, "--holdout", "1e-9").stderr


def test_a_start_from_a_model_follows_the_labels(icml: Icml) -> None:
    fit_trips(icml, "--max-iter", "4", "--tol", "0", "--raw-scale")
    lines = TRIPS.splitlines()
    (icml.folder / "turned.tsv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    one, two = (
        json.loads(
            icml(
                "nneinfact", "fit", MODEL, name, "-k", "r=2", "--init", "m.npz", "--max-iter", "0", "--json"
            ).stdout
        )
        for name in ("trips.tsv", "turned.tsv")
    )
    assert (
        one["loss"]
        == pytest.approx(two["loss"], rel=1e-6)
        == pytest.approx(load_model(icml.folder / "m.npz").loss_)
    )


def test_transform_folds_in_by_label(icml: Icml) -> None:
    fit_trips(icml)
    (icml.folder / "new.tsv").write_text("eve\tz z\t2\t8\nann\tx\t0\t4\n")
    args = ["transform", "m.npz", "new.tsv", "--free", "u", "-o", "n.npz", "--json"]
    result = json.loads(icml("nneinfact", *args).stdout)
    old, new = load_model(icml.folder / "m.npz"), load_model(icml.folder / "n.npz")
    assert new.labels == {"u": ["eve", "ann"], "v": ["x", "y", "z z"]}
    for i in (1, 2):
        np.testing.assert_array_equal(new.factors_[i], old.factors_[i])
    y = np.zeros((2, 3, 3))
    y[0, 2, 2], y[1, 0, 0] = 8, 4
    assert (
        result["loss"]
        == pytest.approx(divergence(y, new.reconstruct()).mean(), rel=1e-9)
        == pytest.approx(new.loss_)
    )
    assert result["loss"] < 0.9 * result["null_loss"]
    assert table(icml, "predict", "n.npz", "--slice", "u=eve")[1][:2] == ["eve", "x"]


def test_factors_as_a_table(icml: Icml) -> None:
    fit_trips(icml)
    model = load_model(icml.folder / "m.npz")
    rows = table(icml, "fit", MODEL, "trips.tsv", "-k", "r=2", "--format", "tsv", "-q")
    assert [row[0] for row in rows] == ["ur"] * 8 + ["vr"] * 6 + ["tr"] * 6
    assert rows[2][:3] == ["ur", "u=bob", "r=0"]
    np.testing.assert_allclose(
        [float(row[3]) for row in rows], np.concatenate([f.ravel() for f in model.factors_]), rtol=1e-8
    )


def test_select_ranks_by_heldout_loss(icml: Icml) -> None:
    y = counts()
    np.save(icml.folder / "y.npy", y)
    models = "# two of them\nur,vr,tr->uvt\n\nur,vtr -> uvt   # rows against the rest\n"
    args = ["select", "-", "y.npy", "-k", "r=2:4:2", "--holdout", "0.2", "--max-iter", "30", "--seed", "1"]
    rows = table(icml, *args, stdin=models)
    assert rows[0] == [
        "rank", "model", "sizes", "parameters", "heldout_loss", "heldout_null_loss", "loss", "iterations"
    ]  # fmt: skip
    want = select(
        ["ur,vr,tr->uvt", "ur,vtr->uvt"], y, {"r": [2, 4]},
        NNEinFact("ur,vr,tr->uvt", holdout=0.2, max_iter=30, seed=1),
    )  # fmt: skip
    assert [(row[1], row[2]) for row in rows[1:]] == [(c.model, f"r={c.sizes['r']}") for c in want]
    losses = [float(row[4]) for row in rows[1:]]
    assert losses == sorted(losses)
    assert losses == pytest.approx([c.heldout_loss for c in want], rel=1e-8)
    (icml.folder / "models.txt").write_text(models)
    args[1] = "models.txt"
    shown = json.loads(icml("nneinfact", *args, "--json").stdout)
    assert [m["heldout_loss"] for m in shown["models"]] == [c.heldout_loss for c in want]
    assert list(shown["models"][0]) == [
        "rank", "model", "sizes", "parameters", "heldout_loss", "heldout_null_loss", "loss", "iterations", "seconds"
    ]  # fmt: skip


def test_the_uber_model_of_the_manual(icml: Icml) -> None:
    """The custom structure beats CP at the same rank on held-out cells."""
    (icml.folder / "models.txt").write_text("wr,hr,dr,ir,jr->whdij\nwr,hr,dr,ikr,jkr->whdij\n")
    rows = table(
        icml,
        "select",
        "models.txt",
        UBER,
        "-k",
        "r=6,k=3",
        "--path",
        "sparse",
        "--max-iter",
        "8",
        "--labels",
        "d=days_of_week",
    )
    assert rows[1][1] == "wr,hr,dr,ikr,jkr->whdij"
    assert float(rows[1][4]) < float(rows[2][4]) < float(rows[2][5])


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plots(icml: Icml, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    np.save(icml.folder / "y.npy", counts())
    args = [
        "nneinfact",
        "fit",
        "ur,vs,trs->uvt",
        "y.npy",
        "-k",
        "r=2,s=5",
        "--holdout",
        "0.1",
        "--max-iter",
        "5",
        "-q",
    ]
    (icml.folder / "v.txt").write_text("".join(f"v$_{i}$\n" for i in range(9)))
    icml(*args, "-o", "m.npz", "--labels", "v=v.txt", "--plot", f"one.{suffix}")
    picture = (icml.folder / f"one.{suffix}").read_bytes()
    assert picture.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    if suffix == "svg":
        icml(*args, "-o", "m.npz", "--labels", "v=v.txt", "--plot", "two.svg")
        assert picture == (icml.folder / "two.svg").read_bytes()
        text = picture.decode()
        for word in (
            "factor ur",
            "factor vs",
            "not drawn: trs",
            "iteration",
            "held-out cells",
            "r=1",
            "v$_3$",
            "weight",
        ):
            assert word in text, word


def test_verbose_tells_the_plan(icml: Icml) -> None:
    done = fit_trips(icml, "-v")
    assert re.search(
        r"^plan: sparse, .*: 1 x \d+ x \d+ cells, rank 2, .* multiply-adds and .* MiB a pass$",
        done.stderr,
        re.M,
    )
    assert "path: sparse on cpu, float32" in done.stderr


def test_two_processes_share_the_data(icml: Icml) -> None:
    """As torchrun starts them: the first writes what one process alone would have, to the order of sums."""
    pytest.importorskip("torch")
    np.save(icml.folder / "y.npy", counts())
    args = [
        "nneinfact",
        "fit",
        MODEL,
        "y.npy",
        "-k",
        "r=2",
        "--holdout",
        "0.1",
        "--max-iter",
        "8",
        "--dtype",
        "float64",
    ]
    icml(*args, "-o", "one.npz")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {
        **os.environ,
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "icml", *args, "-o", "two.npz", "--json"], cwd=icml.folder, text=True,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert json.loads(outputs[0][0])["iterations"] == 8
    assert outputs[1] == ("", "")
    one, two = load_model(icml.folder / "one.npz"), load_model(icml.folder / "two.npz")
    np.testing.assert_allclose(two.history_, one.history_, rtol=1e-10)
    np.testing.assert_allclose(two.reconstruct(), one.reconstruct(), rtol=1e-8)


def test_a_fully_masked_slice_is_listed(icml: Icml) -> None:
    y = counts()
    mask = np.ones(y.shape, bool)
    mask[:, 4] = False
    np.save(icml.folder / "y.npy", y)
    np.save(icml.folder / "mask.npy", mask)
    done = icml(
        "nneinfact",
        "fit",
        MODEL,
        "y.npy",
        "-k",
        "r=2",
        "--mask",
        "mask.npy",
        "--max-iter",
        "2",
        "-o",
        "m.npz",
    )
    assert "no observed cell in the slices v=4" in done.stderr
