"""Reading edge lists, against peers: how many times the CPU and wall time of `read_edges` each of them takes.

    python bench/formats.py [--lines 5000000] [--slice 200000] [--repeats 3]

Every peer does what `read_edges` does: text to node numbers, values and names. The fast one (pyarrow.csv with its own
dictionary encoding) reads all lines, and also without numbering nodes; the slow ones read a slice, and are compared
with `read_edges` on that slice. All runs of a repeat follow one another; ratios are of medians over the repeats. CPU is
user plus system time of all threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from icml.formats import read_edges

Work = Callable[[], Any]

PEAK = """
import sys
from icml.formats import read_edges
read_edges(sys.argv[1])
status = open("/proc/self/status").read()
print(status.split("VmHWM:")[1].split()[0])
"""


def write_edges(path: Path, lines: int, prefix: str, separator: str, with_value: bool) -> None:
    """Random edges between a sixth as many nodes, half of their ends crowded on few of them."""
    rng = np.random.default_rng(0)
    nodes = max(2, lines // 6)
    with path.open("w") as file:
        for begin in range(0, lines, 500_000):
            count = min(500_000, lines - begin)
            u = rng.integers(0, nodes, count).tolist()
            v = (nodes * rng.random(count) ** 3).astype(int).tolist()
            s = rng.choice(["1", "-1"], count).tolist()
            for a, b, x in zip(u, v, s, strict=True):
                value = f"{separator}{x}" if with_value else ""
                file.write(f"{prefix}{a}{separator}{prefix}{b}{value}\n")


def head(path: Path, lines: int) -> Path:
    """A file with the first lines of another."""
    part = path.with_suffix(".head")
    with path.open() as whole, part.open("w") as file:
        for _, line in zip(range(lines), whole, strict=False):
            file.write(line)
    return part


def arrow_table(path: Path, separator: str) -> pa.Table:
    return pa_csv.read_csv(
        path,
        read_options=pa_csv.ReadOptions(autogenerate_column_names=True),
        parse_options=pa_csv.ParseOptions(delimiter=separator),
    )


def arrow_numbered(path: Path, separator: str) -> Any:
    """The table with both id columns dictionary-encoded together."""
    table = arrow_table(path, separator)
    ends = (
        pa.chunked_array(table.column(0).chunks + table.column(1).chunks).combine_chunks().dictionary_encode()
    )
    return ends.indices.to_numpy(), ends.dictionary, table


def dict_loop(path: Path, separator: str) -> Any:
    """What one writes without a library."""
    numbers: dict[str, int] = {}
    u, v, values = [], [], []
    with path.open() as file:
        for line in file:
            fields = line.split(separator)
            u.append(numbers.setdefault(fields[0].strip(), len(numbers)))
            v.append(numbers.setdefault(fields[1].strip(), len(numbers)))
            if len(fields) > 2:
                values.append(float(fields[2]))
    return np.array(u, np.int32), np.array(v, np.int32), np.array(values), list(numbers)


def numpy_loadtxt(path: Path, separator: str, integers: bool) -> Any:
    table = np.loadtxt(path, dtype=np.int64 if integers else "U16", delimiter=separator)
    return np.unique(table[:, :2], return_inverse=True), table


def networkx_edgelist(path: Path, separator: str, with_value: bool) -> Any:
    data: Any = (("weight", float),) if with_value else False
    return nx.read_edgelist(path, delimiter=separator, data=data, create_using=nx.MultiDiGraph)


def measure(work: Work) -> tuple[float, float]:
    """CPU and wall seconds."""
    before = os.times()
    work()
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    return cpu, after.elapsed - before.elapsed


def compare(title: str, ours: Work, peers: dict[str, Work], repeats: int) -> None:
    """Runs all in turn, `repeats` times, and prints the ratios of the medians."""
    works = {"read_edges": ours, **peers}
    ours()  # imports and the page cache
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            runs[name].append(measure(work))
    medians = {
        name: [statistics.median(column) for column in zip(*run, strict=True)] for name, run in runs.items()
    }
    cpu, wall = medians["read_edges"]
    print(f"{title}  (read_edges: {cpu:.2f} s CPU, {wall:.2f} s wall)")
    for name in peers:
        print(f"    {name:32} {medians[name][0] / cpu:6.2f} x CPU  {medians[name][1] / wall:6.2f} x wall")


def peak_memory(path: Path) -> float:
    """The peak resident memory of a process that reads `path`, as a multiple of the file's size."""
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024 / path.stat().st_size


def cases() -> Iterator[tuple[str, str, str, bool]]:
    """Title, id prefix, separator, whether there is a third column."""
    yield "u v, integer ids", "", " ", False
    yield "u,v,s, integer ids", "", ",", True
    yield "u,v,s, string ids", "user", ",", True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--slice", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"numpy {np.__version__}, pyarrow {pa.__version__}, networkx {nx.__version__}, Python {sys.version.split()[0]}"
    )
    print(f"{len(os.sched_getaffinity(0))} CPUs")
    with tempfile.TemporaryDirectory() as folder:
        for title, prefix, separator, with_value in cases():
            path = Path(folder) / "graph.txt"
            write_edges(path, options.lines, prefix, separator, with_value)
            fast: dict[str, Work] = {
                "pyarrow.csv, nodes numbered": lambda p=path, s=separator: arrow_numbered(p, s),
                "pyarrow.csv, table only": lambda p=path, s=separator: arrow_table(p, s),
            }
            compare(f"{title}, {options.lines} lines", lambda p=path: read_edges(p), fast, options.repeats)
            print(f"    peak memory {peak_memory(path):.1f} x the file")
            part = head(path, options.slice)
            slow: dict[str, Work] = {
                "dict loop in Python": lambda p=part, s=separator: dict_loop(p, s),
                "numpy.loadtxt + numpy.unique": lambda p=part, s=separator, i=not prefix: numpy_loadtxt(
                    p, s, i
                ),
                "networkx.read_edgelist": lambda p=part, s=separator, w=with_value: networkx_edgelist(
                    p, s, w
                ),
            }
            compare(f"{title}, {options.slice} lines", lambda p=part: read_edges(p), slow, options.repeats)


if __name__ == "__main__":
    main()
