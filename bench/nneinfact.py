"""nneinfact against its peers: one run prints every ratio that the man page quotes.

    python bench/nneinfact.py [--quick] [SECTION ...]

Sections: dense, sparse, euclid, matrix, memory, limits, adam, select; default all. Data: examples/uber_pickups.npz,
45.36 million cells, 0.63 % of them not zero. Peers: the method as the paper writes it in torch and opt_einsum, with
one dense model tensor per factor; tensorly; scikit-learn. Times are CPU seconds of all threads of this process,
interleaved, medians of repeats; --threads (default 2) holds for everyone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "uber_pickups.npz"
SIZES = {"r": 10, "k": 6}


def threads_of(arguments: Sequence[str]) -> str:
    """The value of --threads, needed before numpy and torch are imported."""
    return arguments[arguments.index("--threads") + 1] if "--threads" in arguments[:-1] else "2"


for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, threads_of(sys.argv))
import numpy as np  # noqa: E402
from nneinfact_peers import CUSTOM, Adam, Factors, Reference, mean_divergence  # noqa: E402

from icml.tools.nneinfact import Model, NNEinFact, divergence, select  # noqa: E402
from icml.tools.nneinfact.cells import draw_cells  # noqa: E402
from icml.tools.nneinfact.engine import Engine  # noqa: E402
from icml.tools.nneinfact.engines import Setup, make_engine  # noqa: E402
from icml.tools.nneinfact.fit import Descent, Options, State, start  # noqa: E402
from icml.tools.nneinfact.losses import Divergence  # noqa: E402

THREADS = int(os.environ["OMP_NUM_THREADS"])


def uber() -> np.ndarray:
    """Counts by week, hour, day of week, latitude and longitude, as the methods take them: float32."""
    return np.load(DATA)["Y"].astype(np.float32)


def pooled(y: np.ndarray) -> np.ndarray:
    """The same on a map of 25 x 25 cells."""
    return np.ascontiguousarray(y.reshape(27, 24, 7, 25, 4, 25, 4).sum(axis=(4, 6)))


def cpu(work: Callable[[], Any]) -> float:
    """CPU seconds of this process that the work takes."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def interleaved(works: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each work, all of them in every round."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(cpu(work))
    return {name: statistics.median(seconds) for name, seconds in times.items()}


class Ours:
    """A fit of this project that can be carried on a few sweeps at a time.

    Args:
        factors: the start; seeded by default.
    """

    def __init__(
        self,
        model: str,
        sizes: dict[str, int],
        y: Any,
        pair: tuple[float, float] = (1, 0),
        *,
        path: str = "auto",
        sweep: str = "block",
        factors: Factors | None = None,
    ) -> None:
        self.model, d = Model.parse(model), Divergence(*pair)
        data = NNEinFact(model, sizes, *pair).load(y)
        setup = Setup(self.model, d, sizes, "float32", path, THREADS)
        self.engine: Engine = make_engine(setup, data, lambda: None)
        given = factors if factors is not None else start(self.model, self.engine, (0, 0))
        self.start = [f.copy() for f in given]
        self.state = State([f.copy() for f in given])
        self._sweep = sweep
        self.go_on(0)

    def go_on(self, sweeps: int) -> None:
        """Plain sweeps, without over-relaxation; a pass more than they take, to begin with."""
        last = self.state.sweeps + sweeps
        options = Options(max_iter=last, tol=0, relax=1, sweep=self._sweep)
        self.state.reason = ""
        Descent(self.engine, options, range(len(self.model.factors))).run(self.state)
        assert self.state.sweeps == last, self.state.reason


def flat_start() -> Factors:
    """Any factors of the custom model."""
    sizes = {**dict(zip("whdij", (27, 24, 7, 100, 100), strict=True)), **SIZES}
    model = Model.parse(CUSTOM)
    return [np.full(model.shape(i, sizes), 0.1) for i in range(len(model.factors))]


def bench_dense(quick: bool) -> None:
    """Dense sweeps with the same updates from the same start."""
    import opt_einsum
    import torch

    y = uber()
    print(
        f"\ndense {CUSTOM}, r=10, k=6, against torch {torch.__version__} + opt_einsum {opt_einsum.__version__}"
    )
    print("  CPU seconds of a sweep of five updates, and the loss after the same sweeps")
    for name, pair in (("KL", (1.0, 0.0)), ("(0.7, 0.5)", (0.7, 0.5)))[: 1 if quick else 2]:
        ours = Ours(CUSTOM, SIZES, y, pair, path="dense")
        reference = Reference(CUSTOM, y, ours.start, pair)
        sweeps = 1 if quick else 2
        times = interleaved({"ours": partial(ours.go_on, 2), "reference": reference.sweep}, sweeps)
        ahead, behind = ours.state.losses[sweeps], reference.loss()
        print(
            f"  {name:10s} {times['ours'] / 2:.3f} against {times['reference']:.2f}: "
            f"{times['reference'] / times['ours'] * 2:.1f}x; loss {ahead:.6f} and {behind:.6f} after {sweeps} sweeps",
            flush=True,
        )


def bench_sparse(quick: bool) -> None:
    """The sparse path on the same tensor: block and joint sweeps, and how many passes they need."""
    y = uber()
    block, joint = (Ours(CUSTOM, SIZES, y, path="sparse", sweep=s) for s in ("block", "joint"))
    reference = Reference(CUSTOM, y, block.start, (1, 0))
    works = {"block": partial(block.go_on, 5), "joint": partial(joint.go_on, 5), "reference": reference.sweep}
    times = interleaved(works, 1 if quick else 2)
    print(f"\nsparse KL on the same tensor ({np.count_nonzero(y)} entries), CPU seconds of a sweep")
    for name in ("block", "joint"):
        print(
            f"  {name}: {times[name] / 5:.4f} against {times['reference']:.2f}: "
            f"{times['reference'] / times[name] * 5:.0f}x"
        )
    if quick:
        return
    block.go_on(60 - block.state.sweeps)
    target = block.state.losses[60]
    joint.go_on(300 - joint.state.sweeps)
    sooner = next(i for i, loss in enumerate(joint.state.losses) if loss <= target)
    print(
        f"  loss {target:.5f} after 60 block sweeps of 5 passes, after {sooner} joint ones of 1: {300 / sooner:.1f}x"
    )


def bench_euclid(quick: bool) -> None:
    """CP under the Euclidean loss against tensorly's multiplicative updates."""
    import tensorly
    from tensorly.decomposition import non_negative_parafac

    y = uber()
    cp, few, more = "wr,hr,dr,ir,jr->whdij", 2, 5
    coordinates = (np.array(np.nonzero(y)), y[y != 0], y.shape)

    def tensorly_sweeps(count: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            non_negative_parafac(
                tensorly.tensor(y), 10, n_iter_max=count, init="random", tol=0, random_state=0
            )

    dense = Ours(cp, {"r": 10}, y, (1, 1), path="dense")
    listed = Ours(cp, {"r": 10}, coordinates, (1, 1))
    works = {
        "dense": partial(dense.go_on, 3),
        "COO": partial(listed.go_on, 30),
        "few": partial(tensorly_sweeps, few),
        "more": partial(tensorly_sweeps, more),
    }
    times = interleaved(works, 1 if quick else 3)
    peer = (times["more"] - times["few"]) / (more - few)
    print(
        f"\nEuclidean CP, r=10, against tensorly {tensorly.__version__} non_negative_parafac, CPU seconds of a sweep"
    )
    for name, count in (("dense", 3), ("COO", 30)):
        own = times[name] / count
        print(f"  from {name}: {own:.4f} against {peer:.3f}: {peer / own:.1f}x")


def bench_matrix(quick: bool) -> None:
    """KL factorization of a CSR matrix against scikit-learn's multiplicative updates."""
    import scipy.sparse
    import sklearn
    from sklearn.decomposition import NMF

    matrix = scipy.sparse.csr_matrix(uber().reshape(27 * 24 * 7, -1))
    rng = np.random.default_rng(0)
    w, h = (rng.gamma(1.0, 1.0, shape).astype(np.float32) * 0.1 + 0.01 for shape in ((4536, 10), (10, 10000)))

    def peer(count: int) -> float:
        model = NMF(
            10,
            init="custom",
            solver="mu",
            beta_loss="kullback-leibler",
            max_iter=count,
            tol=0,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            left = model.fit_transform(matrix, W=w.copy(), H=h.copy())
        x = left @ model.components_
        return mean_divergence(matrix.toarray(), x, Divergence(1, 0))

    ours = Ours("pr,qr->pq", {"r": 10}, matrix, factors=[w.astype(float), h.T.astype(float)])
    few, more, own = 5, 45, 80
    works = {"few": partial(peer, few), "more": partial(peer, more), "ours": partial(ours.go_on, own)}
    times = interleaved(works, 1 if quick else 3)
    sklearn_sweep, our_sweep = (times["more"] - times["few"]) / (more - few), times["ours"] / own
    print(
        f"\nKL of a {matrix.shape[0]} x {matrix.shape[1]} CSR matrix, r=10, "
        f"against scikit-learn {sklearn.__version__} NMF(mu)"
    )
    print(
        f"  CPU seconds of a sweep {our_sweep:.5f} against {sklearn_sweep:.4f}: {sklearn_sweep / our_sweep:.1f}x; "
        f"loss after 45 sweeps {ours.state.losses[45]:.6f} and {peer(45):.6f}"
    )


MEMORY = """
import re, sys
sys.argv = ["bench"]
sys.path.insert(0, {folder!r})
import nneinfact as bench, numpy as np
from icml.tools.nneinfact import NNEinFact
# Not ru_maxrss: a child begins with its parent's.
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
y = np.empty((27, 24, 7, 100, 100), np.float32)
rng = np.random.default_rng(0)
for part in y: part[:] = rng.poisson(0.1, part.shape)
def fit(y, **options):
    return NNEinFact(bench.CUSTOM, bench.SIZES, max_iter=1, threads=2, path="dense", **options).fit(y)
fit(y[:2, :2, :2])
before = peak()
{work}
print((peak() - before) / y.nbytes)
"""


def bench_memory(quick: bool) -> None:
    """Peak memory beyond the data, as a share of the data, in a process of its own."""
    print("\npeak memory of a dense fit beyond the 181 MB of data, as a share of them")
    works = {
        "KL": "fit(y)",
        "(0.7, 0.5), a tenth held out": "fit(y, alpha=0.7, beta=0.5, holdout=0.1)",
        "torch + opt_einsum, KL": "bench.Reference(bench.CUSTOM, y, bench.flat_start(), (1, 0)).sweep()",
    }
    for name, work in list(works.items())[: 2 if quick else 3]:
        script = MEMORY.format(folder=str(ROOT / "bench"), work=work)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        print(f"  {name:30s} {100 * float(done.stdout):6.1f} %", flush=True)


def bench_limits(quick: bool) -> None:
    """What the dense pass makes of the machine: bytes read and multiply-adds, against what is possible."""
    big = np.ones(50_000_000, np.float32)
    square = np.ones((1500, 1500), np.float32)
    y = uber()
    passes = {
        "KL, custom model": Ours(CUSTOM, SIZES, y, path="dense"),
        "KL, CP, s=10": Ours("ws,hs,ds,is,js->whdij", {"s": 10}, y, path="dense"),
        "Euclid, CP, s=10": Ours("ws,hs,ds,is,js->whdij", {"s": 10}, y, (1, 1), path="dense"),
    }
    before = {name: one.engine.passes for name, one in passes.items()}
    works: dict[str, Callable[[], Any]] = {
        "read": lambda: [np.dot(big, big) for _ in range(5)],
        "product": lambda: square @ square,
    }
    works |= {name: partial(one.go_on, 1) for name, one in passes.items()}
    repeats = 1 if quick else 3
    times = interleaved(works, repeats)
    read, product = 10 * big.nbytes / 2 / times["read"] / 1e9, 1500**3 / times["product"] / 1e9
    print("\nthe dense pass against the machine, by CPU second")
    print(f"  the machine: {read:.1f} GB read (dot product), {product:.0f} G multiply-adds (sgemm)")
    for name, one in passes.items():
        count = (one.engine.passes - before[name]) / repeats
        rank = one.engine.plan.rank
        euclid = one.engine.kernel.divergence.beta == 1
        multiply_adds = y.size * rank * (1 if euclid else 2 + 1 / count)
        gigabytes, gigas = (count * amount / times[name] / 1e9 for amount in (y.nbytes, multiply_adds))
        print(
            f"  {name:26s} {gigabytes:5.2f} GB ({100 * gigabytes / read:.0f} %), "
            f"{gigas:5.1f} G multiply-adds ({100 * gigas / product:.0f} %); {count:.0f} passes"
        )


def bench_adam(quick: bool) -> None:
    """Held-out loss at equal CPU time: multiplicative updates against gradient descent on the same model."""
    budget = 5.0 if quick else 15.0
    y = pooled(uber())
    held = np.concatenate(list(draw_cells(y.size, 0.1, 0)))
    seen = np.ones(y.size, bool)
    seen[held] = False
    seen = seen.reshape(y.shape)
    model, sizes = Model.parse(CUSTOM), {**dict(zip("whdij", y.shape, strict=True)), **SIZES}
    rng = np.random.default_rng(0)
    begin = [rng.gamma(1.0, 1.0, model.shape(i, sizes)) + 0.05 for i in range(len(model.factors))]
    level = (y[seen].mean() / np.einsum(model.text, *begin, optimize=True).mean()) ** (1 / len(begin))
    begin = [f * level for f in begin]
    curves = {"this project": our_curve(y, begin, budget)}
    curves["plain torch MU"] = torch_curve(Reference(CUSTOM, y, begin, (1, 0), seen), y, seen, budget)
    for rate in (0.3, 0.1, 0.03):
        curves[f"softplus-Adam, rate {rate}"] = torch_curve(Adam(y, begin, seen, rate), y, seen, budget)
    print(f"\n{CUSTOM} on the map of 25 x 25 cells, KL, a tenth held out: {budget:.0f} CPU seconds for each")
    best = min(curve[-1][1] for name, curve in curves.items() if "Adam" in name)
    for name, curve in curves.items():
        early = [loss for seconds, loss in curve if seconds <= budget / 4]
        reached = next((f"after {seconds:.2f} s" for seconds, loss in curve if loss <= best), "never")
        print(
            f"  {name:24s} held-out loss {early[-1] if early else np.nan:.4f} after {budget / 4:.0f} s, "
            f"{curve[-1][1]:.4f} at the end; what Adam ends with: {reached}",
            flush=True,
        )


Curve = list[tuple[float, float]]


def our_curve(y: np.ndarray, begin: Factors, budget: float) -> Curve:
    """CPU seconds and held-out loss as a fit goes on."""
    curve: Curve = []
    began = time.process_time()

    def note(told: dict[str, Any]) -> None:
        curve.append((time.process_time() - began, told["heldout_loss"]))

    NNEinFact(
        CUSTOM, SIZES, holdout=0.1, seed=0, tol=0, max_iter=10**6, patience=10**6, threads=THREADS,
        on_progress=note, should_stop=lambda: time.process_time() - began >= budget,
    ).fit(y, init=begin)  # fmt: skip
    return curve


def torch_curve(method: Any, y: np.ndarray, seen: np.ndarray, budget: float) -> Curve:
    """The same of a method of torch; the evaluations are not counted."""
    curve: Curve = []
    spent, held = 0.0, ~seen
    while spent < budget:
        spent += cpu(method.sweep)
        curve.append((spent, float(divergence(y[held], method.values().detach().numpy()[held]).mean())))
    return curve


STRUCTURES = {
    "CP": ("ws,hs,ds,is,js->whdij", {"s": 33}, {"s": 49}),
    "Tucker": (
        "wa,hb,dc,ie,jf,abcef->whdij",
        {"a": 3, "b": 6, "c": 3, "e": 7, "f": 7},
        {"a": 3, "b": 6, "c": 3, "e": 13, "f": 13},
    ),
    "space by class": (CUSTOM, {"r": 10, "k": 6}, {"r": 10, "k": 6}),
    "days, mixed places": ("wdr,hr,rk,ik,jk->whdij", {"r": 12, "k": 15}, {"r": 16, "k": 42}),
}
"""Models, and latent sizes that give all of them as many parameters on the small map and on the full one."""


def bench_select(quick: bool) -> None:
    """Held-out loss of structures with about the same number of parameters, on the same cells."""
    small = pooled(uber())
    print("\nheld-out loss at equal numbers of parameters, a share of the cells (zeros too) held out")
    runs = [("kl", seed, small, 1, 0.1) for seed in range(1 if quick else 3)]
    if not quick:
        runs += [("hellinger", 0, small, 1, 0.1), ("euclidean", 0, small, 1, 0.1), ("kl", 0, uber(), 2, 0.03)]
    for loss, seed, y, which, share in runs:
        losses = {}
        for name, (model, *sizes) in STRUCTURES.items():
            template = NNEinFact(
                model, {}, loss=loss, seed=seed, holdout=share, max_iter=150, patience=50, threads=THREADS
            )
            (found,) = select([model], y, sizes[which - 1], template)
            losses[name] = (found.heldout_loss, found.parameters)
        cp, tucker = losses["CP"][0], losses["Tucker"][0]
        print(f"  {loss}, {y.shape[3]} x {y.shape[4]} map, seed {seed}")
        for name, (held, parameters) in losses.items():
            print(
                f"    {name:18s} {parameters:6d} parameters: {held:9.5f}, {100 * (held / cp - 1):+6.1f} % of CP, "
                f"{100 * (held / tucker - 1):+6.1f} % of Tucker",
                flush=True,
            )


SECTIONS: dict[str, Callable[[bool], None]] = {
    "dense": bench_dense,
    "sparse": bench_sparse,
    "euclid": bench_euclid,
    "matrix": bench_matrix,
    "memory": bench_memory,
    "limits": bench_limits,
    "adam": bench_adam,
    "select": bench_select,
}


def main() -> None:
    """Runs the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "section", nargs="*", choices=[*SECTIONS, []], help="what to measure; default: everything"
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and not the longest comparisons")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}, {THREADS} threads")
    for section in arguments.section or SECTIONS:
        SECTIONS[section](arguments.quick)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
