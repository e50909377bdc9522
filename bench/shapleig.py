"""shapleig against shapiq: one run prints every ratio that the man page quotes.

    python bench/shapleig.py [--peer-python PYTHON] [--seeds N] [--first-seed N] [SECTION ...]

Sections: accuracy, coverage, criteria, unseen, reference, overhead, large (default: all), and games, which
    makes the tables of tests/data/shapleig anew. The peers are those of shapiq >= 1.8 with its extras `shapleig`
    and `proxy`; it needs Python >= 3.12, so it may live in another environment, whose interpreter --peer-python
    names. Errors are mean squared errors relative to the mean squared value.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
GAMES = ROOT / "tests" / "data" / "shapleig" / "games.npz"
PEERS = (
    "KernelSHAP",
    "LeverageSHAP",
    "PermutationSamplingSV",
    "OddSHAP",
    "RegressionMSR",
    "ProxySHAP",
    "SVARM",
)
FRACTIONS = (2.4, 3.2, 4.8, 6.4, 9.6)
"""Budgets as multiples of the players: 24, 32, 48, 64, 96 for ten."""
TUNED_ON = ("fi0", "fi2", "fi4", "dv0", "dv2")
"""The half of the first ten games that the switch of --criterion auto was tuned on."""
HELD_OUT = ("fi1", "fi3", "dv1", "dv3", "dv4")


def load_games() -> dict[str, np.ndarray]:
    """Complete tables by name; bit i of the index = player i takes part."""
    with np.load(GAMES) as archive:
        return {name: archive[name] for name in archive.files}


def players_of(table: np.ndarray) -> int:
    """p of a table of 2^p values."""
    return len(table).bit_length() - 1


def budgets_of(table: np.ndarray) -> list[int]:
    """The budgets of a game."""
    return [int(share * players_of(table) + 0.5) for share in FRACTIONS]


def family(name: str) -> str:
    """The games' family: the letters of the name."""
    return name.rstrip("0123456789")


# -- ours --


def our_run(table: np.ndarray, criterion: str, seed: int, budgets: list[int]) -> Iterator[tuple[int, Any]]:
    """The estimate at each of the budgets of one run."""
    from icml.tools.shapleig import ShapleyDesign

    design = ShapleyDesign(players_of(table), criterion=criterion, seed=seed)
    codes = 1 << np.arange(design.n_players)
    while len(design.evaluations) < budgets[-1]:
        following = design.ask()
        design.tell(following, table[following @ codes])
        if len(design.evaluations) in budgets:
            yield len(design.evaluations), design.estimate


def relative_error(values: np.ndarray, truth: np.ndarray) -> float:
    """Mean squared error over the mean squared value."""
    return float(np.mean((values - truth) ** 2) / np.mean(truth**2))


def truth_of(table: np.ndarray) -> np.ndarray:
    """The exact Shapley values."""
    from icml.tools.shapleig import exact_values
    from icml.tools.shapleig.semivalues import SHAPLEY

    return exact_values(table, SHAPLEY)


def our_errors(table: np.ndarray, criterion: str, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Mean error and coverage of the 95 % intervals at each budget; what one section has run another need not."""
    return _our_errors(table.tobytes(), criterion, seeds)


@functools.cache
def _our_errors(values: bytes, criterion: str, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    table = np.frombuffer(values)
    truth, budgets = truth_of(table), budgets_of(table)
    errors, covered = [], []
    for seed in seeds:
        estimates = [estimate for _, estimate in our_run(table, criterion, seed, budgets)]
        errors.append([relative_error(e.values, truth) for e in estimates])
        covered.append([float(np.mean(np.abs(e.values - truth) <= e.halfwidth())) for e in estimates])
    return np.mean(errors, axis=0), np.mean(covered, axis=0)


# -- the peers, in their own interpreter --


def worker() -> None:
    """Answers requests, one JSON object a line, with shapiq, in the peers' interpreter."""
    warnings.filterwarnings("ignore")
    import shapiq.approximator as approximators

    for line in sys.stdin:
        request = json.loads(line)
        table = np.array(request["table"]) if "table" in request else None
        players = request["players"]
        answers = []
        game = smooth_game if table is None else functools.partial(look_up, table)
        start = time.process_time()
        for budget in request["budgets"]:
            estimator = make_peer(approximators, request["peer"], players, request["seed"])
            with contextlib.redirect_stdout(sys.stderr):
                result = estimator.approximate(budget, game)
            answers.append([float(result[(i,)]) for i in range(players)])
        print(json.dumps({"values": answers, "seconds": time.process_time() - start}), flush=True)


def make_peer(approximators: Any, name: str, players: int, seed: int) -> Any:
    """An estimator at its own defaults, but for pairing, which helps KernelSHAP and SVARM."""
    options: dict[str, Any] = {"random_state": seed}
    if name in ("KernelSHAP", "SVARM"):
        options["pairing_trick"] = True
    if name == "RegressionMSR":
        options["index"] = "SV"
    if name == "ProxySHAP":
        options.update(index="SV", max_order=1)
    if name == "ShaplEIG":
        options["show_progress"] = False
    return getattr(approximators, name)(players, **options)


def look_up(table: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The values of coalitions (n, p) in a complete table."""
    Z = np.atleast_2d(Z).astype(int)
    return table[Z @ (1 << np.arange(Z.shape[1]))]


def smooth_game(Z: np.ndarray) -> np.ndarray:
    """A game for any number of players, for timing: diminishing returns of unequal players, and some pairs."""
    Z = np.atleast_2d(Z).astype(float)
    strength = 1.0 / (1.0 + np.arange(Z.shape[1]) % 17)
    pairs = (Z[:, :-1] * Z[:, 1:]) @ strength[1:]
    return np.sqrt(Z @ strength) + 0.05 * pairs


class Peers:
    """shapiq in another interpreter."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request; returns `values` and CPU `seconds`."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def has_peer(python: str, name: str) -> bool:
    """Whether that interpreter finds the estimator."""
    command = [python, "-c", f"from shapiq.approximator import {name}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# -- sections --


def bench_accuracy(python: str, seeds: range) -> None:
    """Error at equal evaluations, by family, and the geometric mean of peer / ours over all games and budgets."""
    peers = Peers(python)
    games = load_games()
    ours = {name: our_errors(table, "eig", seeds)[0] for name, table in games.items()}
    theirs: dict[str, dict[str, np.ndarray]] = {}
    for peer in PEERS:
        theirs[peer] = {}
        for name, table in games.items():
            truth, budgets = truth_of(table), budgets_of(table)
            runs = [
                peers.ask(
                    peer=peer, players=players_of(table), table=table.tolist(), budgets=budgets, seed=seed
                )["values"]
                for seed in seeds
            ]
            theirs[peer][name] = np.mean(
                [[relative_error(np.array(v), truth) for v in run] for run in runs], axis=0
            )
    peers.close()
    print(
        f"\nerror by family, mean over games and {len(seeds)} seeds, at 2.4, 3.2, 4.8, 6.4, 9.6 evaluations a player"
    )
    rows = {"shapleig": ours, **theirs}
    for kind in dict.fromkeys(map(family, games)):
        for label, by_game in rows.items():
            mean = np.mean([errors for name, errors in by_game.items() if family(name) == kind], axis=0)
            print(f"  {kind:6s} {label:22s} " + " ".join(f"{x:9.5f}" for x in mean))
    print("\npeer / ours: at each budget (all games, ratio of means), geometric mean over games and budgets")
    for peer in PEERS:
        by_budget = np.mean(list(theirs[peer].values()), axis=0) / np.mean(list(ours.values()), axis=0)
        logs = [np.log(theirs[peer][name] / ours[name]) for name in games]
        print(
            f"  {peer:22s} "
            + " ".join(f"{x:7.2f}" for x in by_budget)
            + f"   geometric mean {np.exp(np.mean(logs)):.2f}x"
            f"   least family and budget {_least(theirs[peer], ours):.2f}x"
        )


def _least(theirs: dict[str, np.ndarray], ours: dict[str, np.ndarray]) -> float:
    kinds = dict.fromkeys(map(family, ours))
    means = [
        [np.mean([errors for name, errors in side.items() if family(name) == kind], axis=0) for kind in kinds]
        for side in (theirs, ours)
    ]
    return float(np.min(np.array(means[0]) / np.array(means[1])))


def bench_criteria(python: str, seeds: range) -> None:
    """The criteria on the games that `auto` was tuned on, on those held out, and on new families."""
    games = load_games()
    rest = [name for name in games if name not in (*TUNED_ON, *HELD_OUT)]
    groups = {"tuned on": TUNED_ON, "held out": HELD_OUT}
    groups |= {
        f"new: {kind}": tuple(n for n in rest if family(n) == kind)
        for kind in dict.fromkeys(map(family, rest))
    }
    print(
        f"\ngeometric mean of the error over games, {len(seeds)} seeds each, at 2.4 .. 9.6 evaluations a player; all"
    )
    for group, names in groups.items():
        for criterion in ("auto", "eig", "trace", "variance", "random"):
            errors = np.array([our_errors(games[name], criterion, seeds)[0] for name in names])
            by_budget = np.exp(np.log(errors).mean(axis=0))
            print(
                f"  {group:10s} {criterion:9s} "
                + " ".join(f"{x:8.5f}" for x in by_budget)
                + f"   {np.exp(np.log(errors).mean()):8.5f}"
            )


def bench_coverage(python: str, seeds: range) -> None:
    """How often the 95 % intervals hold the exact value."""
    print(
        f"\ncoverage of the 95 % intervals, {len(seeds)} seeds, at 2.4, 3.2, 4.8, 6.4, 9.6 evaluations a player"
    )
    covered = {name: our_errors(table, "eig", seeds)[1] for name, table in load_games().items()}
    groups = {kind: [n for n in covered if family(n) == kind] for kind in dict.fromkeys(map(family, covered))}
    for group, names in (groups | {"all": list(covered)}).items():
        mean = np.mean([covered[name] for name in names], axis=0)
        print(
            f"  {group:6s} " + " ".join(f"{x:5.3f}" for x in mean) + f"   from 3.2 on {mean[1:].mean():.3f}"
        )


REFERENCE = ("fi0", "dv0", "hpi0", "nn0", "local0")


def bench_reference(python: str, seeds: range) -> None:
    """Error at equal evaluations against the ShaplEIG of shapiq, one game a family, the first two seeds."""
    peers = Peers(python)
    games = {name: table for name, table in load_games().items() if name in REFERENCE}
    print("\nerror against shapiq's ShaplEIG, mean of two seeds, at 3.2 and 6.4 evaluations a player")
    logs = []
    for name in REFERENCE:
        table, truth, pair = games[name], truth_of(games[name]), seeds[:2]
        budgets = [budgets_of(table)[i] for i in (1, 3)]
        ours = our_errors(table, "eig", pair)[0]
        runs = [
            peers.ask(
                peer="ShaplEIG", players=players_of(table), table=table.tolist(), budgets=budgets, seed=seed
            )["values"]
            for seed in pair
        ]
        theirs = np.mean([[relative_error(np.array(v), truth) for v in run] for run in runs], axis=0)
        logs.append(np.log(theirs / ours[[1, 3]]))
        print(
            f"  {name:7s} ours {ours[1]:.5f} {ours[3]:.5f}   ShaplEIG {theirs[0]:.5f} {theirs[1]:.5f}",
            flush=True,
        )
    print("  ShaplEIG / ours, geometric mean: " + " ".join(f"{x:.2f}" for x in np.exp(np.mean(logs, axis=0))))
    peers.close()


def bench_overhead(python: str, seeds: range) -> None:
    """CPU seconds of the choice alone, ours against ShaplEIG of shapiq, interleaved, one thread."""
    peers = Peers(python)
    table = load_games()["fi0"]
    print("\noverhead against shapiq's ShaplEIG, CPU seconds, one thread, interleaved, medians")
    our_seconds(4, 10, 0, None)  # what is imported on first use is not counted for either side
    cases: list[tuple[int, int, int]] = [(10, 64, 3), (60, 75, 1), (100, 106, 1)]
    for players, budget, repeats in cases:
        ours, theirs = [], []
        for seed in range(repeats):
            request = {"table": table.tolist()} if players == 10 else {}
            theirs.append(
                peers.ask(peer="ShaplEIG", players=players, budgets=[budget], seed=seed, **request)["seconds"]
            )
            ours.append(our_seconds(players, budget, seed, table if players == 10 else None))
        a, b = statistics.median(ours), statistics.median(theirs)
        print(
            f"  {players:4d} players, {budget} evaluations: ours {a:.2f} s, ShaplEIG {b:.1f} s: {b / a:.0f}x less"
        )
    peers.close()


def our_seconds(players: int, budget: int, seed: int, table: np.ndarray | None) -> float:
    """CPU seconds of one whole run."""
    from icml.tools.shapleig import ShapleyDesign

    start = time.process_time()
    design = ShapleyDesign(players, criterion="eig", seed=seed)
    codes = 1 << np.arange(players) if table is not None else None
    while len(design.evaluations) < budget:
        following = design.ask()
        design.tell(following, table[following @ codes] if table is not None else smooth_game(following))
    design.values_  # noqa: B018
    return time.process_time() - start


def bench_unseen(python: str, seeds: range) -> None:
    """Criteria and coverage on three families of games beside those that the tool's constants did best on."""
    from shapleig_games import UNSEEN

    games = {f"{kind}{seed}": make(seed) for kind, make in UNSEEN.items() for seed in range(2)}
    print(
        f"\nunseen games, {len(seeds)} seeds, at 2.4 .. 9.6 evaluations a player: geometric mean of the error, coverage"
    )
    for kind in UNSEEN:
        for criterion in ("auto", "eig", "trace", "variance", "random"):
            results = [
                our_errors(table, criterion, seeds) for name, table in games.items() if family(name) == kind
            ]
            errors = np.exp(np.mean([np.log(e) for e, _ in results], axis=0))
            covered = np.mean([c for _, c in results], axis=0)
            print(
                f"  {kind:7s} {criterion:9s} "
                + " ".join(f"{x:8.5f}" for x in errors)
                + "   "
                + " ".join(f"{x:5.3f}" for x in covered)
            )


def bench_large(python: str, seeds: range) -> None:
    """What choosing costs with a thousand players: CPU seconds and memory; the first evaluations are random."""
    from resource import RUSAGE_SELF, getrusage

    from icml.tools.shapleig import ShapleyDesign
    from icml.tools.shapleig.candidates import sized_coalitions

    players, batch = 1000, 16
    print(f"\n{players} players, CPU seconds, one thread")
    for known in (1024, 2984):
        design = ShapleyDesign(players)
        rng = np.random.default_rng(0)
        first = np.vstack([design.ask(players + 1), sized_coalitions(rng, known - players - 1, players)])
        design.tell(first, smooth_game(first))
        steps = [time.process_time()]
        design.fitted  # noqa: B018
        steps.append(time.process_time())
        following = design.ask(batch)
        design.tell(following, smooth_game(following))
        steps.append(time.process_time())
        design.values_  # noqa: B018
        steps.append(time.process_time())
        fit, choice, values = np.diff(steps)
        print(
            f"  {known} evaluations: fit {fit:.1f} s, each of {batch} choices {choice / batch:.2f} s, "
            f"values {values:.1f} s; peak memory so far {getrusage(RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )


# -- making the games --


def make_games(python: str, seeds: range) -> None:
    """Every value of every game but dv0 .. dv4, which stay as shipped; some minutes."""
    from shapleig_games import SHIPPED

    tables = {name: table for name, table in load_games().items() if family(name) == "dv"}
    tables |= {
        f"{kind}{seed}": make(seed) for kind, (make, count) in SHIPPED.items() for seed in range(count)
    }
    np.savez_compressed(GAMES, **tables)


SECTIONS: dict[str, Callable[[str, range], None]] = {
    "accuracy": bench_accuracy,
    "coverage": bench_coverage,
    "criteria": bench_criteria,
    "unseen": bench_unseen,
    "reference": bench_reference,
    "overhead": bench_overhead,
    "large": bench_large,
    "games": make_games,
}
NEEDED = {"accuracy": "ProxySHAP", "reference": "ShaplEIG", "overhead": "ShaplEIG"}
"""The estimator without which a section is left out."""


def main() -> None:
    """Runs the sections asked for."""
    if "--worker" in sys.argv:
        worker()
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=[name for name in SECTIONS if name != "games"])
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"python {sys.version.split()[0]}, numpy {np.__version__}")
    for section in arguments.sections:
        if section in NEEDED and not has_peer(arguments.peer_python, NEEDED[section]):
            print(f"\n{section}: left out, {arguments.peer_python} has no shapiq with {NEEDED[section]}")
            continue
        SECTIONS[section](
            arguments.peer_python, range(arguments.first_seed, arguments.first_seed + arguments.seeds)
        )


if __name__ == "__main__":
    main()
