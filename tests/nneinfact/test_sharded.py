"""One fit by two real processes (gloo, started by torchrun) gives what one process gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icml.formats.errors import InputError, MissingError
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.cells import Part
from icml.tools.nneinfact.sharded import even_part, part_by_entries, ranks_from_environment, shared_axis
from icml.tools.nneinfact.sparse_data import load_sparse

from .sharded_fits import MODEL, REFUSED, SIZES, cases, counts, listed, refusals

pytest.importorskip("torch.distributed", reason="torch is not installed")
SCRIPT = Path(__file__).with_name("sharded_fits.py")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PATH": os.environ.get("PATH", "")}


def torchrun(processes: int, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.run(
        [sys.executable, *launcher, *command],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **ENVIRONMENT},
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Results of all cases by one process and by two."""
    alone, shared = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("shared")
    for folder in (alone, shared):
        np.save(folder / "y.npy", counts())
    subprocess.run([sys.executable, str(SCRIPT), str(alone)], check=True, timeout=300)
    (shared / "single.checkpoint").write_bytes((alone / "single.checkpoint").read_bytes())
    done = torchrun(2, str(SCRIPT), str(shared))
    assert done.returncode == 0, done.stderr
    return alone, shared


def names() -> Iterator[str]:
    """The names of all cases, without running any."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "y.npy", counts())
        yield from [name for name, _ in cases(Path(folder), None)]


@pytest.mark.parametrize("name", list(names()))
def test_same_as_one_process(name: str, folders: tuple[Path, Path]) -> None:
    one = np.load(folders[0] / f"{name}.0.npz")
    parts = [np.load(folders[1] / f"{name}.{rank}.npz") for rank in range(2)]
    assert set(one.files) == set(parts[0].files)
    single = name == "float32"
    for key in one.files:
        np.testing.assert_array_equal(
            parts[0][key], parts[1][key]
        )  # to the last bit: the ranks never part ways
        if key == "words":
            np.testing.assert_array_equal(parts[0][key], one[key])
        elif key.startswith("factor_"):
            np.testing.assert_allclose(
                parts[0][key], one[key], rtol=1e-4 if single else 1e-9, atol=1e-5 if single else 1e-10
            )
        else:
            np.testing.assert_allclose(parts[0][key], one[key], rtol=1e-5 if single else 1e-10)


def test_what_is_wrong_in_one_part_is_said_by_all(folders: tuple[Path, Path]) -> None:
    one, *parts = (
        json.loads((folder / f"{REFUSED}.{rank}.json").read_text())
        for folder, rank in ((folders[0], 0), (folders[1], 0), (folders[1], 1))
    )
    assert parts == [one, one]
    assert list(one) == [name for name, _ in refusals(None)]
    assert one["last"] == ["cell (8, 4, 7, 10) is infinite", 2]
    assert one["weights"] == ["the weight of cell (8, 4, 7, 10) is -1.0", 2]


@pytest.mark.parametrize("name", ["stop 0", "stop 1", "limit"])
def test_one_process_that_stops_stops_all(name: str, folders: tuple[Path, Path]) -> None:
    parts = [np.load(folders[1] / f"{name}.{rank}.npz") for rank in range(2)]
    assert all("stopped" in part["words"] for part in parts)
    for key in parts[0].files:
        np.testing.assert_array_equal(parts[0][key], parts[1][key])
    history = parts[0]["history"]
    assert len(history) > 5
    assert parts[0]["numbers"][0] == pytest.approx(history[-1], rel=1e-6)


def test_the_command_under_torchrun(tmp_path: Path) -> None:
    """`torchrun -m icml nneinfact fit`: one summary, one model file, the model of a single process."""
    np.save(tmp_path / "y.npy", counts())
    arguments = ["nneinfact", "fit", MODEL, "y.npy", "-k", SIZES, "--max-iter", "8", "--tol", "0", "--json"]
    arguments += ["--holdout", "0.2", "--dtype", "float64", "--trace", "trace.jsonl", "-o"]
    alone = subprocess.run(
        [sys.executable, "-m", "icml", *arguments, "one.npz"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    line_count = len((tmp_path / "trace.jsonl").read_text().splitlines())
    done = torchrun(2, "-m", "icml", *arguments, "two.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == line_count
    assert json.loads(done.stdout)["loss"] == pytest.approx(json.loads(alone.stdout)["loss"], rel=1e-10)
    one, two = (np.load(tmp_path / name) for name in ("one.npz", "two.npz"))
    assert one.files == two.files
    for key in (k for k in one.files if k.startswith(("factor", "history", "heldout"))):
        np.testing.assert_allclose(two[key], one[key], rtol=1e-9)
    bad = counts()
    bad[8, 4, 7, 10] = -1
    np.save(tmp_path / "y.npy", bad)
    refused = torchrun(2, "-m", "icml", *arguments, "bad.npz", cwd=tmp_path)
    said = {line for line in refused.stderr.splitlines() if line.startswith("icml nneinfact: ")}
    # torchrun ends the others when one has failed, and who is still about to end says that he was told to.
    said.discard("icml nneinfact: terminated")
    assert said == {"icml nneinfact: y.npy: cell (8, 4, 7, 10) is negative: -1.0"}, refused.stderr
    assert "exitcode  : 2" in refused.stderr
    assert not (tmp_path / "bad.npz").exists()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of mapped pages")
def test_reads_only_its_rows(tmp_path: Path) -> None:
    """Of a mapped file each process looks at its own rows and no page of the others'."""
    script = r"""
import re, sys
from pathlib import Path
import numpy as np
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.sharded import ranks_from_environment

ranks = ranks_from_environment()
folder = Path(sys.argv[1])
y = np.load(folder / "y.npy", mmap_mode="r")
data = NNEinFact("ar,br,cr->abc", "r=2", ranks=ranks).load(y, holdout=0.1)
low = data.array.__array_interface__["data"][0] - y.__array_interface__["data"][0]
pages = re.search(r"y[.]npy\nSize: .*?\nRss: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.S)
read = int(pages[1]) * 1024 / y.nbytes
text = f"{low // y[0].nbytes} {len(data.array)} {data.stats.cells == y.size} {0.4 < read < 0.6}"
(folder / f"read.{ranks.rank}").write_text(text)
"""
    np.save(tmp_path / "y.npy", np.ones((40, 100, 1000)))
    (tmp_path / "script.py").write_text(script)
    done = torchrun(2, str(tmp_path / "script.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / f"read.{r}").read_text() for r in range(2)] == ["0 20 True True", "20 20 True True"]


def test_a_process_that_dies_ends_the_others(tmp_path: Path) -> None:
    script = f"""
import os
from icml.formats.errors import WorkError
from icml.tools.nneinfact import NNEinFact
from icml.tools.nneinfact.sharded import ranks_from_environment
import numpy as np
ranks = ranks_from_environment()

def after(told):
    if ranks.rank == 1 and told["iteration"] == 3:
        os._exit(0)
try:
    NNEinFact({MODEL!r}, {SIZES!r}, tol=0, ranks=ranks, on_progress=after).fit(np.ones((9, 5, 8, 11)))
except WorkError as error:
    print("said:", error)
os._exit(0)
"""
    (tmp_path / "script.py").write_text(script)
    done = torchrun(2, str(tmp_path / "script.py"))
    assert "said: another process of this run has ended" in done.stdout, done.stderr


class Alone:
    """Stands for rank `rank` of `size` where nothing is sent."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_parts_cover_the_data_once(size: int) -> None:
    shape = (4, 23, 7)
    ranks: list[Any] = [Alone(r, size) for r in range(size)]
    y = counts(shape)
    y[:, 5:] = 0  # nearly all entries in a few rows
    d = NNEinFact("ir,jr,kr->ijk", "r=2")._divergence
    data = load_sparse(*listed(y), d)
    for parts in ([even_part(shape, r) for r in ranks], [part_by_entries(data, r) for r in ranks]):
        assert {p.axis for p in parts} == {0 if size == 1 else 1}
        assert [p.start for p in parts] == [0, *(p.stop for p in parts[:-1])]
        assert parts[-1].stop == shape[parts[0].axis]
        assert all(p.stop > p.start for p in parts)
    for part in parts:
        cut = data.cut(part)
        full = np.zeros(part.shape)
        full.reshape(-1)[cut.flat] = cut.values
        np.testing.assert_array_equal(full, y[part.slices])
    if size <= 3:
        shares = [len(data.cut(p).flat) / len(data.flat) for p in parts]
        assert max(shares) < 1.6 / size


def test_axis_to_share_out() -> None:
    assert shared_axis((27, 24, 7, 100, 100), 2) == 0
    assert shared_axis((27, 24, 7, 100, 100), 8) == 3  # fewer than four weeks each
    assert shared_axis((5, 3), 4) == 0
    with pytest.raises(InputError, match="cannot be shared out to 6 processes"):
        shared_axis((5, 3), 6)


def test_numbers_of_cells() -> None:
    part = Part((4, 5, 6), 1, 2, 4)
    whole = np.arange(120).reshape(4, 5, 6)
    mine = whole[part.slices].reshape(-1)
    np.testing.assert_array_equal(np.flatnonzero(part.inside(np.arange(120))), mine)
    np.testing.assert_array_equal(part.to_part(mine), np.arange(48))
    assert part.cell_name(13) == "(1, 2, 1)"
    assert not part.is_whole
    assert Part.everything((4, 5)).is_whole


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert ranks_from_environment() is None
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert ranks_from_environment() is None
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="RANK and MASTER_ADDR and MASTER_PORT are not set"):
        ranks_from_environment()
    for name, value in (("RANK", "2"), ("MASTER_ADDR", "localhost"), ("MASTER_PORT", "1")):
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match="RANK is 2, of WORLD_SIZE 2"):
        ranks_from_environment()
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(InputError, match="RANK must be a whole number"):
        ranks_from_environment()
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingError, match="needs torch") as raised:
        ranks_from_environment()
    assert raised.value.exit_code == 3


def test_minibatches_are_for_one_process() -> None:
    with pytest.raises(InputError, match="single process"):
        NNEinFact(MODEL, SIZES, minibatch=2, ranks=Alone(0, 2))  # type: ignore[arg-type]
