"""kcenter-dyn against its peers: one run prints every ratio that the man page quotes.

    python bench/kmeans_dyn.py [SECTION ...]

Sections: updates, text, ladder, recompute, query, size, ratio, quality, storage (default: all). Times are CPU seconds
of this process, one thread, or of its child; medians of interleaved repeats.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from icml.tools.kmeans_dyn import DynamicKCenter, audit, greedy_disks
from icml.tools.kmeans_dyn._kernel import RadiusLadder
from icml.tools.kmeans_dyn.auditing import exact_radius
from icml.tools.kmeans_dyn.baselines import farthest_first, kmeans_radius
from icml.tools.kmeans_dyn.metrics import distances

ROOT = Path(__file__).resolve().parent.parent
BATCH = 1000
Floats = NDArray[np.float64]


def source(k: int, d: int, scale: float = 1e9, seed: int = 7) -> Callable[[int, float], Floats]:
    """Draws n points of k clusters, a share of them outliers up to `scale` away."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 100

    def draw(n: int, share: float) -> Floats:
        x = centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))
        far = rng.random(n) < share
        direction = rng.normal(size=(int(far.sum()), d))
        x[far] = direction * 10 ** (2 + rng.random((len(direction), 1)) * (np.log10(scale) - 2))
        return x

    return draw


class Window:
    """A model with a sliding window of points, fed in batches."""

    def __init__(
        self,
        n: int,
        d: int,
        k: int,
        z: int,
        *,
        scale: float = 1e9,
        schedule: str = "lazy",
        dtype: str = "float64",
    ) -> None:
        self.draw, self.share, self.size = source(k, d, scale), 0.8 * z / n, n
        self.model = DynamicKCenter(k, z, schedule=schedule, seed=1, dtype=dtype)
        self.next = 0
        self.insert(self.draw(n, self.share))

    def insert(self, x: Floats) -> None:
        for begin in range(0, len(x), BATCH):
            rows = x[begin : begin + BATCH]
            self.model.insert(np.arange(self.next, self.next + len(rows)), rows)
            self.next += len(rows)

    def seconds_a_pair(self, count: int) -> float:
        """CPU seconds for one insertion and one deletion, over `count` of them."""
        x = self.draw(count, self.share)
        ids = [
            np.arange(b, b + BATCH)
            for b in range(self.next - self.size, self.next - self.size + count, BATCH)
        ]
        start = time.process_time()
        for begin, gone in zip(range(0, count, BATCH), ids, strict=True):
            self.model.delete(gone)
            self.insert(x[begin : begin + BATCH])
        return (time.process_time() - start) / count


def bench_updates() -> None:
    """In-process updates, 10-d, window of 50,000, k = 20, z = 100."""
    windows = {schedule: Window(50_000, 10, 20, 100, schedule=schedule) for schedule in ("lazy", "strict")}
    times: dict[str, list[float]] = {schedule: [] for schedule in windows}
    for _ in range(5):
        for schedule, window in windows.items():
            times[schedule].append(window.seconds_a_pair(100_000 if schedule == "lazy" else 20_000))
    print("\nupdates in process (stationary, d = 10, window 50,000, k = 20, z = 100)")
    for schedule, seconds in times.items():
        print(f"  {schedule:7s} {2 / statistics.median(seconds):12,.0f} updates/s")


def bench_text() -> None:
    """The same stream as text on standard input of the program."""
    draw, lines = source(20, 10), 300_000
    x = draw(lines, 80 / 50_000)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file, tempfile.NamedTemporaryFile("w") as empty:
        for i, row in enumerate(x):
            file.write(f"+ {i} {' '.join(f'{v:.6g}' for v in row)}\n")
            if i >= 50_000:
                file.write(f"- {i - 50_000}\n")
        file.flush()
        empty.write("+ 0 1 2 3 4 5 6 7 8 9 10\n")
        empty.flush()
        updates = 2 * lines - 50_000
        seconds = []
        for _ in range(3):
            overhead, full = _child_seconds(empty.name), _child_seconds(file.name)
            seconds.append(full - overhead)
    print("\nupdates from text on standard input (start of the program not counted)")
    print(f"  {updates / statistics.median(seconds):12,.0f} updates/s")


def _child_seconds(path: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [
        sys.executable,
        "-m",
        "icml",
        "kcenter-dyn",
        "-",
        "-k",
        "20",
        "-z",
        "100",
        "-q",
        "--threads",
        "1",
    ]
    with open(path, "rb") as stream:
        subprocess.run(command, stdin=stream, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench_ladder() -> None:
    """A ladder of radius guesses on the same sliding window, in the same C++, with and without charging deletions."""
    print("\nradius-guess ladder (Chan et al. 2018, k + z + 1 centers a guess) on the same stream, CPU time")
    n, count = 50_000, 2000
    for eps in (0.2, 0.1):
        window, draw = Window(n, 10, 20, 100), source(20, 10)
        ladder = RadiusLadder(10, 20, 100, eps, 0.1, 1e9)
        ladder.insert(0, draw(n, 0.0016))
        ladder.recluster(n)
        ours, inserting, both = [], [], []
        for turn in range(3):
            ours.append(window.seconds_a_pair(50_000))
            x, first = draw(count, 0.0016), turn * count
            start = time.process_time()
            ladder.erase(first, count)
            middle = time.process_time()
            ladder.insert(first, x)
            end = time.process_time()
            inserting.append((end - middle) / count)
            both.append((end - start) / count)
        a, b, c = map(statistics.median, (ours, inserting, both))
        print(
            f"  eps {eps}: {ladder.guesses} guesses, {2 / c:,.0f} updates/s against {2 / a:,.0f}: {c / a:.0f}x faster; "
            f"{b / a:.1f}x if the ladder's deletions were free"
        )


def bench_recompute() -> None:
    """An update against computing everything anew: this tool's own static build, and the random-pick greedy."""
    window = Window(50_000, 10, 20, 100)
    x = np.asarray(window.model.live()[1])
    rng = np.random.default_rng(0)
    update, build, greedy = [], [], []
    for _ in range(3):
        update.append(window.seconds_a_pair(50_000) / 2)
        start = time.process_time()
        window.model.rebuild()
        window.model.query()
        build.append(time.process_time() - start)
        start = time.process_time()
        farthest_first("euclidean", x, 20, 120, rng=rng)
        greedy.append(time.process_time() - start)
    once = statistics.median(update)
    print("\nan update against recomputation, n = 50,000")
    print(f"  static build and query   {statistics.median(build) / once:12,.0f}x")
    print(f"  random-pick greedy, once {statistics.median(greedy) / once:12,.0f}x (numpy)")


def bench_query() -> None:
    """Answers on a sliding window, a new one after every 1000 updates."""
    print("\nanswers (window 50,000, z = 100, every 1000 updates; the first, then median and worst of 20)")
    for k, d in ((20, 10), (20, 54), (100, 10), (100, 54)):
        window = Window(50_000, d, k, 100)
        start = time.process_time()
        window.model.query()
        first = 1e3 * (time.process_time() - start)
        seconds, size = [], 0
        for _ in range(20):
            window.seconds_a_pair(1000)
            start = time.process_time()
            size = window.model.query().coreset
            seconds.append(time.process_time() - start)
        median, worst = 1e3 * statistics.median(seconds), 1e3 * max(seconds)
        print(
            f"  k = {k:3d}, d = {d:2d}: {first:7.1f} ms, {median:7.1f} ms, worst {worst:7.1f} ms (coreset {size})"
        )


def bench_size() -> None:
    """Cost of an update from 1e4 to 1e6 live points."""
    sizes = (10_000, 100_000, 1_000_000)
    windows = {n: Window(n, 10, 20, 100) for n in sizes}
    times: dict[int, list[float]] = {n: [] for n in sizes}
    for _ in range(7):
        for n, window in windows.items():
            times[n].append(window.seconds_a_pair(50_000 if n > 10_000 else 10_000))
    medians = {n: statistics.median(seconds) for n, seconds in times.items()}
    print("\nupdates against the number of live points (d = 10, k = 20, z = 100)")
    for n, seconds in medians.items():
        ratio = seconds / medians[sizes[0]]
        print(f"  n = {n:9,d}: {ratio:.2f} of the cost at {sizes[0]:,d} ({2 / seconds:,.0f} updates/s)")


def bench_ratio() -> None:
    """Cost, layers and radius against the ratio of distances."""
    scales = (1e3, 1e6, 1e9, 1e12)
    windows = {scale: Window(50_000, 10, 20, 100, scale=scale) for scale in scales}
    times: dict[float, list[float]] = {scale: [] for scale in scales}
    for _ in range(5):
        for scale, window in windows.items():
            times[scale].append(window.seconds_a_pair(50_000))
    print("\noutliers up to 1e3 ... 1e12 away")
    first = statistics.median(times[scales[0]])
    for scale, window in windows.items():
        result = window.model.query()
        exact = audit(window.model, result, bound=False).radius
        guesses = RadiusLadder(10, 20, 100, 0.2, 0.1, scale).guesses
        print(
            f"  {scale:.0e}: cost {statistics.median(times[scale]) / first:.2f}, layers {result.layers}, "
            f"coreset {result.coreset}, radius {exact:.3f}; a ladder has {guesses} guesses"
        )


def bench_quality() -> None:
    """Exact radii, the same number of points discarded, relative to greedy disks and polish on all points."""
    from sklearn.datasets import load_digits

    with gzip.open(ROOT / "examples" / "kcenter-cities.csv.gz", "rt") as stream:
        rows = list(csv.DictReader(stream))
    places = np.array([[float(row["lat"]), float(row["lon"])] for row in rows])
    places = places[np.random.default_rng(5).choice(len(places), 3000, replace=False)]
    digits = load_digits().data.astype(float)
    print("\nexact radius over that of greedy disks on all points (5 seeds: mean, worst; certified: mean)")
    for name, metric, x, k, z in (
        ("planted 10 clusters", "euclidean", source(10, 5)(2000, 0.008), 10, 20),
        ("digits", "euclidean", digits, 10, 30),
        ("digits", "euclidean", digits, 30, 50),
        ("cities", "haversine", places, 20, 30),
        ("cities", "haversine", places, 50, 30),
    ):
        _compare_quality(name, metric, x, k, z)


def _compare_quality(name: str, metric: str, x: Floats, k: int, z: int) -> None:
    d = distances(metric, x, x)
    d = np.maximum(d, d.T)
    np.fill_diagonal(d, 0)
    allowed = int(1.2 * z)
    peer = exact_radius(d[:, greedy_disks(d, None, k, allowed).centers].min(axis=1), allowed)
    ours, certified, gonzalez, picks, means = [], [], [], [], []
    for seed in range(5):
        model = DynamicKCenter(k, z, metric=metric, seed=seed)
        model.insert(np.arange(len(x)), x)
        model.rebuild()
        result = model.query()
        ours.append(audit(model, result, bound=False).radius / peer)
        certified.append(result.radius / peer)
        rng = np.random.default_rng(seed)
        gonzalez.append(exact_radius(farthest_first(metric, x, k, 0, rng=rng), allowed) / peer)
        picks.append(
            min(exact_radius(farthest_first(metric, x, k, allowed, rng=rng), allowed) for _ in range(5))
            / peer
        )
        if metric == "euclidean":
            means.append(kmeans_radius(x, k, allowed, seed) / peer)
    line = f"  {name:20s} k = {k}: {np.mean(ours):.3f}, {max(ours):.3f}; certified {np.mean(certified):.2f}; "
    line += f"Gonzalez {np.mean(gonzalez):.3g}; random-pick greedy, 5 restarts {np.mean(picks):.3g}"
    print(line + (f"; MiniBatchKMeans {np.mean(means):.3g}" if means else ""), flush=True)


def bench_storage() -> None:
    """float32 against float64: updates, answers, memory."""
    print("\nfloat32 over float64 (window 20,000, k = 20, z = 100, medians of 9): CPU time and memory")
    for d in (10, 54, 128, 768):
        windows = {dtype: Window(20_000, d, 20, 100, dtype=dtype) for dtype in ("float32", "float64")}
        update: dict[str, list[float]] = {dtype: [] for dtype in windows}
        answer: dict[str, list[float]] = {dtype: [] for dtype in windows}
        for _ in range(9):
            for dtype, window in windows.items():
                update[dtype].append(window.seconds_a_pair(200_000 // d // BATCH * BATCH + BATCH))
                start = time.process_time()
                window.model.query()
                answer[dtype].append(time.process_time() - start)
        updates, answers = (
            statistics.median(times["float32"]) / statistics.median(times["float64"])
            for times in (update, answer)
        )
        single, double = (_resident(d, dtype) for dtype in windows)
        line = f"  d = {d:3d}: updates {updates:.2f}, answers {answers:.2f}, memory {single / double:.2f}"
        print(f"{line} ({double:.0f} bytes a point in float64)", flush=True)


_FILL = """
import sys
import numpy as np
from icml.tools.kmeans_dyn import DynamicKCenter
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
d, dtype = int(sys.argv[1]), sys.argv[2]
x = np.random.default_rng(0).normal(size=(1000, d))
model = DynamicKCenter(20, 100, dtype=dtype)
model.insert(range(1000), x)
before = resident()
for begin in range(1000, 50_000, 1000):
    model.insert(range(begin, begin + 1000), x)
print((resident() - before) / 49_000)
"""


def _resident(d: int, dtype: str) -> float:
    """Bytes that a further point takes, in a process of its own."""
    return float(subprocess.check_output([sys.executable, "-c", _FILL, str(d), dtype]))


SECTIONS = {
    "updates": bench_updates,
    "text": bench_text,
    "ladder": bench_ladder,
    "recompute": bench_recompute,
    "query": bench_query,
    "size": bench_size,
    "ratio": bench_ratio,
    "quality": bench_quality,
    "storage": bench_storage,
}


def main() -> None:
    """Runs the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "section", nargs="*", choices=[*SECTIONS, []], help="what to measure; default: everything"
    )
    chosen = parser.parse_args().section or list(SECTIONS)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in chosen:
        SECTIONS[name]()
        sys.stdout.flush()


if __name__ == "__main__":
    main()
