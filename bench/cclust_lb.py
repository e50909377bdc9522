"""cclust-lb against its peers: one run prints every ratio that the man page quotes.

    python bench/cclust_lb.py [--data DIR] [SECTION ...]

Sections: startup, gk, highs, anytime, synthetic, quality; default all. HiGHS is given two minutes a graph, then the
ratio printed is a lower limit (`--full`: as long as it takes, several CPU minutes for wikielections). Times are CPU
seconds of this process unless a line says wall.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from icml.formats.edges import read_edges
from icml.tools.cclust_lb import bound, cluster, cost
from icml.tools.cclust_lb.problem import SignedGraph, merge_edges

ROOT = Path(__file__).resolve().parent.parent
SIGNED = (
    "highlandtribes",
    "cloister",
    "congress",
    "bitcoinalpha",
    "bitcoinotc",
    "wikielections",
    "twitterreferendum",
)


def find(name: str, folders: list[Path]) -> Path:
    """The data file called NAME.csv.gz or NAME.edges.gz."""
    for folder in folders:
        for suffix in (".csv.gz", ".edges.gz"):
            if (folder / (name + suffix)).exists():
                return folder / (name + suffix)
    sys.exit(f"{name}: not found in {', '.join(map(str, folders))}")


def load(path: Path) -> SignedGraph:
    """A shipped graph, merged as the command does by default."""
    edges = read_edges(path)
    return merge_edges(edges.u, edges.v, edges.value, n=len(edges.names))


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process that the work takes, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def bad_triangles(graph: SignedGraph) -> np.ndarray:
    """Edge numbers (k, 3) of the triangles with exactly one negative edge, by sparse intersection of neighbourhoods."""
    ends: list[dict[int, int]] = [{} for _ in range(graph.n)]
    for e, (a, b) in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True)):
        ends[a][b] = e
        ends[b][a] = e
    negative = graph.negative.tolist()
    rows = []
    for e, (a, b) in enumerate(zip(graph.u.tolist(), graph.v.tolist(), strict=True)):
        small, large = (ends[a], ends[b]) if len(ends[a]) < len(ends[b]) else (ends[b], ends[a])
        for c, f in small.items():
            g = large.get(c)
            if g is not None and c > b and negative[e] + negative[f] + negative[g] == 1:
                rows.append((e, f, g))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def bench_highs(names: list[str], folders: list[Path], limit: float) -> None:
    """Triangle cover LP: entropic ascent at the default tolerance against scipy's HiGHS on the same triangles."""
    import scipy
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    print(f"\ntriangle bound against HiGHS (scipy {scipy.__version__}), CPU seconds")
    for name in names:
        graph = load(find(name, folders))
        triangles = bad_triangles(graph)
        k = len(triangles)
        matrix = csr_matrix(
            (-np.ones(3 * k), triangles.ravel(), np.arange(0, 3 * k + 1, 3)), shape=(k, graph.m)
        )
        before = median_cpu(partial(bound, graph, obstructions="triangle"))
        solve = partial(linprog, graph.weight, matrix, -np.ones(k), bounds=(0, None), method="highs")
        peer, lp = cpu(partial(solve, options={"time_limit": limit}))
        after = median_cpu(partial(bound, graph, obstructions="triangle"))
        seconds, result = (before[0] + after[0]) / 2, after[1]
        optimum = (
            f"LP {lp.fun:.2f}, gap {100 * (lp.fun / result.lower - 1):.2f} %"
            if lp.status == 0
            else "LP not reached"
        )
        more = "" if lp.status == 0 else "more than "
        print(
            f"  {name:18s} {k:7d} triangles: {result.lower:.2f} (own gap {100 * result.gap:.2f} %; {optimum}) "
            f"in {seconds:.3f} s against {peer:.1f} s: {more}{peer / seconds:.0f}x faster"
        )


def bench_gk(names: list[str], folders: list[Path]) -> None:
    """The two engines on the same pool, at equal bounds: what each needs for the bound the other's run ends with."""
    print("\nentropic ascent against Garg-Koenemann (Fleischer) on triangles, CPU seconds to an equal bound")
    for name in names:
        graph = load(find(name, folders))
        reached = bound(graph, obstructions="triangle").lower
        target = 0.999 * reached
        ours, theirs = [], []
        for _ in range(3):
            ours.append(to_target(graph, "entropic", target))
            theirs.append(to_target(graph, "gk", target))
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        print(
            f"  {name:18s} {target:.2f} after {statistics.median(ours):.3f} s "
            f"against {statistics.median(theirs):.3f} s: {ratio:.1f}x faster"
        )


def to_target(graph: SignedGraph, engine: str, target: float) -> float:
    """CPU seconds until a certified bound of at least the target; infinite if it is not reached in a minute."""
    start = time.process_time()
    reached: list[float] = []

    def note(entry: dict[str, Any]) -> None:
        if entry["lower"] >= target and not reached:
            reached.append(time.process_time() - start)

    bound(
        graph,
        obstructions="triangle",
        engine=engine,
        tol=1e-6,
        time_limit=60,
        on_progress=note,
        should_stop=lambda: bool(reached),
    )
    return reached[0] if reached else float("inf")


def median_cpu(work: Callable[[], Any], runs: int = 3) -> tuple[float, Any]:
    """Median CPU seconds of a few runs, and the last result."""
    results = [cpu(work) for _ in range(runs)]
    return statistics.median(t for t, _ in results), results[-1][1]


def bench_anytime(folders: list[Path]) -> None:
    """Wall seconds after which the full bound has passed a mark."""
    print("\nfull bound, wall seconds to a mark")
    for name, mark, limit in (
        ("bitcoinalpha", 719.001, 20.0),
        ("bitcoinotc", 1051.001, 20.0),
        ("wikielections", 14450.0, 30.0),
        ("twitterreferendum", 11457.0, 60.0),
    ):
        graph = load(find(name, folders))
        times = []
        for _ in range(3):
            result = bound(graph, time_limit=limit, threads=2)
            times.append(next((entry["t"] for entry in result.trace if entry["lower"] >= mark), float("inf")))
        print(
            f"  {name:18s} >= {mark:9.2f} after {statistics.median(times):6.2f} s (of {sorted(times)[0]:.2f}"
            f"-{sorted(times)[-1]:.2f}); at the end {result.lower:.2f}, at least {result.lower_int}, "
            f"{result.trace[-1]['t']:.1f} s"
        )


def synthetic(edges: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A graph of overlapping groups of 6 to 30 people on a heavy-tailed background, 15 % of the edges negative."""
    rng = np.random.default_rng(seed)
    n = edges // 8
    popularity = rng.zipf(2.2, n).clip(max=2000).astype(float)
    chance = np.cumsum(popularity / popularity.sum())
    background = int(edges * 0.45)
    a = [np.searchsorted(chance, rng.random(background))]
    b = [rng.integers(0, n, background)]
    total = background
    while total < edges * 1.02:
        sizes = rng.integers(6, 31, 2000)
        for size in sizes.tolist():
            members = rng.integers(0, n, size)
            i, j = np.triu_indices(size, 1)
            kept = rng.random(len(i)) < 0.6
            a.append(members[i[kept]])
            b.append(members[j[kept]])
            total += int(kept.sum())
            if total >= edges * 1.02:
                break
    u, v = np.concatenate(a), np.concatenate(b)
    key = np.unique(np.minimum(u, v) * np.int64(n) + np.maximum(u, v))
    key = rng.permutation(key[key // n != key % n])[:edges]
    return key // n, key % n, np.where(rng.random(len(key)) < 0.15, -1, 1)


def bench_synthetic(sizes: tuple[int, ...]) -> None:
    """Whole process on large graphs: seconds, peak memory, the share of reading, the growth."""
    print("\ntriangles of large synthetic graphs, whole process")
    walls: list[float] = []
    cpus: list[float] = []
    users: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            u, v, s = synthetic(size)
            path = Path(folder) / f"{size}.edges"
            np.savetxt(path, np.column_stack((u, v, s)), fmt="%d")
            command = [sys.executable, "-m", "icml", "cclust-lb", str(path), "--obstructions", "triangle"]
            command += ["--heuristic", "none", "--json", "-q"]
            start = time.perf_counter()
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(command, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            walls.append(time.perf_counter() - start)
            result = json.loads(done.stdout)
            peak = after.ru_maxrss / 1e6  # the largest child so far, and this one is the largest
            users.append(after.ru_utime - before.ru_utime)
            cpus.append(users[-1] + after.ru_stime - before.ru_stime)
            print(
                f"  {result['m']:9d} edges, {result['pool']:9d} obstructions: {cpus[-1]:.1f} s CPU, "
                f"{walls[-1]:.1f} s wall, {peak:.2f} GB, "
                f"bound {result['lower_bound']:.0f} gap {100 * result['gap']:.2f} %, "
                f"reading {100 * result['seconds']['read'] / walls[-1]:.0f} % of the whole"
            )
            path.unlink()
    if len(walls) > 1:
        print(
            f"  growth: {cpus[-1] / cpus[0]:.2f}x the CPU time, {users[-1] / users[0]:.2f}x of it in user mode, "
            f"for {sizes[-1] / sizes[0]:.1f}x the edges"
        )


def bench_startup() -> None:
    """Whole-process start, wall seconds, medians of nine, interleaved."""
    print("\nstart-up, wall seconds (median of 9, interleaved)")
    u, v, s = synthetic(100)
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.edges"
        np.savetxt(small, np.column_stack((u, v, s)), fmt="%d")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "python -c 'import typer'": [sys.executable, "-c", "import typer"],
            "icml --help": [sys.executable, "-m", "icml", "--help"],
            "icml cclust-lb --help": [sys.executable, "-m", "icml", "cclust-lb", "--help"],
            "icml cclust-lb (100 edges)": [sys.executable, "-m", "icml", "cclust-lb", str(small), "-q"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(9):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                times[name].append(time.perf_counter() - start)
    for name, values in times.items():
        print(f"  {name:28s} {statistics.median(values):.3f}")


def bench_quality(folders: list[Path]) -> None:
    """The paper's claim and what longer cycles add: certified ratios over the seven signed graphs."""
    print("\ncertified ratios, unit weights (paper, triangles, its own seven graphs: mean 1.97 and 0.94)")
    titles = ("cost", "triangles", "ratio", "agree", "all", "ratio", "agree")
    print(f"  {'graph':18s} " + " ".join(f"{title:>9s}" for title in titles))
    rows = []
    for name in SIGNED:
        graph = load(find(name, folders))
        full = bound(graph, time_limit=60)
        only = bound(graph, obstructions="triangle")
        labels = cluster(graph, seconds=15, target=full.lower_int)
        value = cost(graph, labels=labels)
        total = float(graph.weight.sum())
        row = [value / (only.lower_int or 1), (total - value) / (total - only.lower)]
        row += [value / (full.lower_int or 1), (total - value) / (total - (full.lower_int or 0))]
        rows.append(row)
        print(
            f"  {name:18s} {value:9.0f} {only.lower:9.2f} {row[0]:9.3f} {row[1]:9.4f} {full.lower:9.2f} "
            f"{row[2]:9.5f} {row[3]:9.6f}{'  optimal' if row[2] == 1 else ''}"
        )
    means = np.mean(rows, axis=0)
    print(
        f"  {'mean':18s} {'':7s} {'':10s} {means[0]:7.3f} {means[1]:7.4f} {'':10s} {means[2]:8.5f} {means[3]:8.6f}"
    )


def main() -> None:
    """Runs the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", default=["startup", "gk", "highs", "anytime", "synthetic", "quality"]
    )
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--full", action="store_true", help="let HiGHS run to its end")
    arguments = parser.parse_args()
    folders = [*arguments.data, ROOT / "examples", ROOT / "tests" / "data" / "cclust_lb"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}, {peak:.2f} GB at the start")
    highs = ["bitcoinalpha", "bitcoinotc", "wikielections"]
    runs: dict[str, Callable[[], None]] = {
        "startup": bench_startup,
        "gk": lambda: bench_gk(["bitcoinotc", "wikielections", "twitterreferendum"], folders),
        "highs": lambda: bench_highs(highs, folders, 1e9 if arguments.full else 120.0),
        "anytime": lambda: bench_anytime(folders),
        "synthetic": lambda: bench_synthetic((2_200_000, 4_400_000)),
        "quality": lambda: bench_quality(folders),
    }
    for section in arguments.sections:
        runs[section]()


if __name__ == "__main__":
    main()
