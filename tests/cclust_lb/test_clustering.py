"""The upper side: heuristics against brute force over all partitions, costs against a loop over all pairs."""

from __future__ import annotations

import gzip
import time
from functools import cache
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb.clustering import HEURISTICS, cluster, cost, disagreements, search
from icml.tools.cclust_lb.problem import Problem, SignedGraph, merge_edges

from .naive_checker import naive_cost
from .oracles import Instance, pairs

DATA = Path(__file__).parents[1] / "data" / "cclust_lb"
PROBLEMS = list(Problem)
FREE = [problem for problem in PROBLEMS if not problem.two_clusters]
TWO = [problem for problem in PROBLEMS if problem.two_clusters]


@cache
def real_graph(name: str) -> SignedGraph:
    """A graph of tests/data, its nodes numbered in order."""
    [path] = DATA.glob(f"{name}.*.gz")
    with gzip.open(path, "rt") as file:
        rows = [line.replace(",", " ").split() for line in file if line[0].isdigit()]
    _, ends = np.unique([[int(x) for x in row[:2]] for row in rows], return_inverse=True)
    u, v = ends.reshape(-1, 2).T
    return merge_edges(u, v, [float(row[2]) for row in rows] if len(rows[0]) > 2 else None)


@st.composite
def instances(draw: st.DrawFn, largest: int = 8, problem: Problem | None = None) -> Instance:
    """A small graph that the problem takes, with weights that are whole, binary fractions, or anything."""
    n = draw(st.integers(2, largest))
    problem = problem or draw(st.sampled_from(PROBLEMS))
    rows = draw(st.lists(st.sampled_from(pairs(n)), min_size=1, unique=True))
    weight = draw(
        st.sampled_from(
            (
                st.just(1.0),
                st.integers(1, 2**40).map(float),
                st.integers(1, 64).map(lambda k: k / 16),
                st.floats(0.1, 9.0),
            )
        )
    )
    values = [draw(weight) for _ in rows]
    if problem.signed:
        signs = draw(st.lists(st.sampled_from((-1, 1)), min_size=len(rows), max_size=len(rows)))
        signs[0] = -1
        values = [sign * value for sign, value in zip(signs, values, strict=True)]
    u, v = zip(*rows, strict=True)
    return Instance(merge_edges(u, v, values, n=n, weights="abs"), problem)


def fuzzy(graph: SignedGraph) -> float:
    """What sums of the graph's weights may be off by."""
    return (
        0.0 if np.all(graph.weight * 16 == np.rint(graph.weight * 16)) else 1e-9 * float(graph.weight.sum())
    )


def allowed(heuristic: str, problem: Problem) -> bool:
    return heuristic != "pivot" or not problem.two_clusters


def well_formed(labels: NDArray[np.int32], n: int) -> bool:
    """One label a node, 0..k-1 in order of first appearance."""
    values, first = np.unique(labels, return_index=True)
    in_order = bool(np.all(values == np.arange(len(values))) and np.all(np.diff(first) > 0))
    return labels.dtype == np.int32 and labels.shape == (n,) and in_order


# Against the definitions


@settings(deadline=None, max_examples=150)
@given(instances(), st.data())
def test_cost_is_the_sum_over_all_pairs(case: Instance, data: st.DataObject) -> None:
    graph, problem = case.graph, Problem(case.problem)
    most = 2 if problem.two_clusters else graph.n
    values = data.draw(st.lists(st.sampled_from(range(-7, most - 7)), min_size=graph.n, max_size=graph.n))
    labels = np.array(values)
    exact = naive_cost(graph, labels, problem)
    assert cost(graph, labels=labels, problem=problem) == pytest.approx(
        float(exact), rel=1e-12, abs=fuzzy(graph)
    )
    listed = float(graph.weight[disagreements(graph, labels=labels, problem=problem)].sum())
    missing = 0
    if problem is Problem.CC_COMPLETE:
        edges = set(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
        missing = sum(labels[a] == labels[b] for a, b in pairs(graph.n) if (a, b) not in edges)
    assert listed + missing == pytest.approx(float(exact), rel=1e-12, abs=fuzzy(graph))


def test_cost_is_exact_up_to_2_to_the_53() -> None:
    u, v = [0, 1, 0], [1, 2, 2]
    s = [2.0**52 - 1, 2.0**52, -1.0]
    assert cost(u, v, s, [0, 1, 2], "cc", weights="abs") == 2**53 - 1
    assert cost(u, v, s, [0, 0, 0], "cc", weights="abs") == 1


@settings(deadline=None, max_examples=120)
@given(instances(), st.sampled_from(HEURISTICS), st.integers(0, 5))
def test_no_heuristic_beats_brute_force(case: Instance, heuristic: str, seed: int) -> None:
    graph, problem = case.graph, Problem(case.problem)
    if not allowed(heuristic, problem):
        return
    labels = cluster(graph, problem=problem, seconds=None, steps=20, heuristic=heuristic, seed=seed)
    assert well_formed(labels, graph.n)
    best = case.optimum()
    reached = cost(graph, labels=labels, problem=problem)
    assert reached >= best - fuzzy(graph)
    if heuristic == "ils":
        labels = cluster(graph, problem=problem, seconds=None, steps=400, seed=seed)
        assert cost(graph, labels=labels, problem=problem) == pytest.approx(best, rel=1e-9, abs=fuzzy(graph))


@settings(deadline=None, max_examples=80)
@given(instances(largest=12), st.sampled_from(HEURISTICS), st.booleans())
def test_moves_add_up_to_the_cost(case: Instance, heuristic: str, given_start: bool) -> None:
    graph, problem = case.graph, Problem(case.problem)
    if not allowed(heuristic, problem):
        return
    start = np.arange(graph.n) % 2 if given_start else None
    labels, tracked, _ = search(graph, problem, None, steps=30, heuristic=heuristic, start=start)
    reached = cost(graph, labels=labels, problem=problem)
    assert tracked == pytest.approx(reached, rel=1e-12, abs=fuzzy(graph))


@pytest.mark.parametrize(
    ("name", "problem", "steps"),
    [
        ("bitcoinotc", Problem.CC, 3000),
        ("bitcoinotc", Problem.FRUSTRATION, 6),
        ("netscience", Problem.CC_COMPLETE, 5000),
        ("ca-HepPh", Problem.CC_COMPLETE, 300),
        ("ca-HepPh", Problem.MAXCUT, 2),
    ],
)
@pytest.mark.parametrize("scale", [1, 1 / 3])
def test_moves_add_up_to_the_cost_on_real_graphs(
    name: str, problem: Problem, steps: int, scale: float
) -> None:
    graph = real_graph(name)
    if scale != 1:
        weight = graph.weight * np.random.default_rng(1).uniform(scale, 1, graph.m)
        graph = SignedGraph(graph.n, graph.u, graph.v, weight, graph.negative)
    labels, tracked, done = search(graph, problem, None, steps=steps)
    reached = cost(graph, labels=labels, problem=problem)
    assert tracked == reached if scale == 1 else tracked == pytest.approx(reached, rel=1e-9)
    assert done == steps


@pytest.mark.parametrize("problem", FREE)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_no_move_of_a_node_helps(problem: Problem, heuristic: str) -> None:
    """What moves promise: no node wants to another cluster, or to be alone."""
    if heuristic == "pivot":
        return
    graph = real_graph("congress" if problem is Problem.CC else "dolphins")
    labels = cluster(graph, problem=problem, seconds=None, steps=50, heuristic=heuristic)
    reached = cost(graph, labels=labels, problem=problem)
    for x in range(graph.n):
        for c in range(labels.max() + 2):
            moved = labels.copy()
            moved[x] = c
            assert cost(graph, labels=moved, problem=problem) >= reached


@pytest.mark.parametrize("problem", TWO)
@pytest.mark.parametrize("heuristic", ["local", "louvain", "ils"])
def test_no_flip_of_a_node_helps(problem: Problem, heuristic: str) -> None:
    graph = real_graph("congress" if problem is Problem.FRUSTRATION else "polbooks")
    labels = cluster(graph, problem=problem, seconds=None, steps=3, heuristic=heuristic)
    reached = cost(graph, labels=labels, problem=problem)
    assert labels.max() == 1
    for x in range(graph.n):
        flipped = labels.copy()
        flipped[x] = 1 - flipped[x]
        assert cost(graph, labels=flipped, problem=problem) >= reached


# Known optima and peers

OPTIMA = [
    ("highlandtribes", "cc", 2),
    ("cloister", "cc", 25),
    ("congress", "cc", 18),
    ("bitcoinalpha", "cc", 720),
    ("bitcoinotc", "cc", 1052),
    ("highlandtribes", "frustration", 7),
    ("cloister", "frustration", 34),
    ("congress", "frustration", 18),
    ("bitcoinalpha", "frustration", 720),
    ("bitcoinotc", "frustration", 1073),
    ("football", "cc-complete", 273),
    ("dolphins", "cc-complete", 97),
    ("polbooks", "cc-complete", 303),
    ("jazz", "cc-complete", 1611),
    ("netscience", "cc-complete", 418),
]


@pytest.mark.parametrize(("name", "problem", "known"), OPTIMA)
def test_reaches_known_optima(name: str, problem: str, known: int) -> None:
    graph = real_graph(name)
    labels = cluster(graph, problem=problem, seconds=30, target=known)
    assert cost(graph, labels=labels, problem=problem) == known


BEST_KNOWN = [
    ("wikielections", "cc", 14475),
    ("twitterreferendum", "cc", 11466),
    ("ca-CondMat", "maxcut", 31643),
    ("ca-HepPh", "maxcut", 49864),
    ("ca-AstroPh", "maxcut", 79236),
    ("email-Enron", "maxcut", 62684),
    ("soc-brightkite", "maxcut", 60360),
    ("celegansneural", "cc-complete", 1766),
    ("ca-CondMat", "cc-complete", 56707),
    ("soc-brightkite", "cc-complete", 176181),
    ("email-Enron", "cc-complete", 151106),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "problem", "known"), BEST_KNOWN)
def test_reaches_the_best_known(name: str, problem: str, known: int) -> None:
    graph = real_graph(name)
    labels = cluster(graph, problem=problem, seconds=60, target=known)
    assert cost(graph, labels=labels, problem=problem) <= known


@pytest.mark.parametrize("name", ["dolphins", "polbooks"])
def test_maxcut_is_no_worse_than_one_exchange(name: str) -> None:
    graph = real_graph(name)
    peer = nx.Graph(zip(graph.u.tolist(), graph.v.tolist(), strict=True))
    best = max(nx.approximation.one_exchange(peer, seed=seed)[0] for seed in range(3))
    for heuristic, at_least in (("local", 0.9 * best), ("louvain", best)):
        labels = cluster(graph, problem="maxcut", seconds=None, steps=1, heuristic=heuristic)
        assert graph.m - cost(graph, labels=labels, problem="maxcut") >= at_least


def test_each_heuristic_is_at_least_as_good_as_the_simpler_one() -> None:
    graph = real_graph("bitcoinotc")
    reached = {
        heuristic: cost(graph, labels=cluster(graph, seconds=None, steps=2000, heuristic=heuristic))
        for heuristic in HEURISTICS
    }
    assert reached["ils"] <= reached["louvain"] <= reached["local"] <= reached["pivot"]


# Limits and determinism


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_steps_make_the_result_a_function_of_the_seed(problem: Problem, heuristic: str) -> None:
    if not allowed(heuristic, problem):
        return
    graph = real_graph("congress" if problem.signed else "jazz")

    def run(seed: int, threads: int) -> bytes:
        return cluster(
            graph, problem=problem, seconds=None, steps=40, heuristic=heuristic, seed=seed, threads=threads
        ).tobytes()

    assert run(3, 1) == run(3, 1) == run(3, 2)
    if problem is Problem.CC and heuristic in ("pivot", "local"):
        assert len({run(seed, 1) for seed in range(5)}) > 1


@pytest.mark.parametrize("problem", PROBLEMS)
def test_with_steps_the_clock_changes_nothing(problem: Problem) -> None:
    """A schedule that looks at the clock would be different in each of these runs."""
    graph = real_graph("bitcoinotc" if problem.signed else "ca-CondMat")
    limits = [(None, 1), (60.0, 1), (60.0, 2), (240.0, 1)]
    steps = 2 if problem.two_clusters else 300
    runs = {
        cluster(graph, problem=problem, seconds=seconds, steps=steps, seed=4, threads=threads).tobytes()
        for seconds, threads in limits
    }
    assert len(runs) == 1


@pytest.mark.parametrize("problem", TWO)
def test_without_steps_the_annealing_fits_the_clock(problem: Problem) -> None:
    """One run on this graph takes longer than it gets, and still cools down to where no flip helps."""
    rng = np.random.default_rng(2)
    u, v = rng.integers(100_000, size=(2, 400_000))
    sign = rng.choice([-1, 1], size=len(u)) if problem.signed else None
    graph = merge_edges(u, v, sign, n=100_000)
    reached = {
        name: cost(
            graph, problem=problem, labels=cluster(graph, problem=problem, seconds=1.5, heuristic=name)
        )
        for name in ("local", "louvain")
    }
    assert reached["louvain"] < 0.95 * reached["local"]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_more_threads_than_a_graph_can_use(problem: Problem) -> None:
    graph = real_graph("congress" if problem.signed else "jazz")
    assert well_formed(cluster(graph, problem=problem, seconds=0.1, threads=2**40), graph.n)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_without_clock_and_steps_it_ends(problem: Problem) -> None:
    graph = real_graph("cloister" if problem.signed else "dolphins")
    first, second = (cluster(graph, problem=problem, seconds=None) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    ("name", "problem"), [("wikielections", "cc"), ("ca-HepPh", "maxcut"), ("jazz", "cc-complete")]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_time_limit_holds(name: str, problem: str, threads: int) -> None:
    graph = real_graph(name)
    begin = time.monotonic()
    labels = cluster(graph, problem=problem, seconds=0.4, threads=threads)
    assert time.monotonic() - begin < 2
    assert well_formed(labels, graph.n)


@pytest.mark.parametrize("seconds", [0, -1.0])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_no_time_at_all_still_gives_a_clustering(problem: Problem, heuristic: str, seconds: float) -> None:
    if not allowed(heuristic, problem):
        return
    graph = real_graph("congress" if problem.signed else "jazz")
    labels = cluster(graph, problem=problem, seconds=seconds, heuristic=heuristic)
    assert well_formed(labels, graph.n)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_target_ends_the_search(problem: Problem) -> None:
    graph = real_graph("congress" if problem.signed else "polbooks")
    # Any clustering will do, so nothing is done beyond the first.
    _, _, steps = search(graph, problem, 60.0, target=float(graph.weight.sum()) + graph.n**2)
    assert steps == 0
    limit = 20 if problem.two_clusters else 4000
    _, reached, steps = search(graph, problem, None, steps=limit, target=0.0)
    assert steps == limit
    assert reached > 0
    labels, again, _ = search(graph, problem, 60.0, target=reached)
    assert again <= reached
    assert cost(graph, labels=labels, problem=problem) == again


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("heuristic", HEURISTICS)
def test_a_start_is_improved(problem: Problem, heuristic: str) -> None:
    if not allowed(heuristic, problem):
        return
    graph = real_graph("congress" if problem.signed else "polbooks")
    good = cluster(graph, problem=problem, seconds=None, steps=2000 if not problem.two_clusters else 20)
    least = cost(graph, labels=good, problem=problem)
    start = 5 - 3 * good.astype(np.int64)  # any numbers will do as labels
    for steps in (0, 10):
        kept = cluster(graph, problem=problem, seconds=None, steps=steps, heuristic=heuristic, start=start)
        assert cost(graph, labels=kept, problem=problem) <= least
    worse = np.arange(graph.n) % 2
    better = cluster(graph, problem=problem, seconds=None, steps=10, heuristic=heuristic, start=worse)
    assert cost(graph, labels=better, problem=problem) < cost(graph, labels=worse, problem=problem)


@pytest.mark.parametrize(
    ("name", "problem"), [("wikielections", "cc"), ("email-Enron", "cc-complete"), ("ca-HepPh", "maxcut")]
)
def test_should_stop_is_heeded_and_asked_often(name: str, problem: str) -> None:
    graph = real_graph(name)
    asked = [time.monotonic()]

    def stop() -> bool:
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 1

    labels = cluster(graph, problem=problem, seconds=60, should_stop=stop)
    assert time.monotonic() - asked[0] < 3
    assert well_formed(labels, graph.n)
    assert np.median(np.diff(asked)) < 0.2  # the median, as the machine may be busy


@pytest.mark.parametrize("threads", [1, 2])
def test_what_should_stop_raises_comes_through(threads: int) -> None:
    class Enough(Exception):
        pass

    def stop() -> bool:
        raise Enough

    for problem in ("cc", "frustration"):
        with pytest.raises(Enough):
            cluster(real_graph("bitcoinotc"), problem=problem, seconds=60, should_stop=stop, threads=threads)


def test_progress_tells_of_falling_costs() -> None:
    graph = real_graph("bitcoinotc")
    entries: list[dict[str, Any]] = []
    labels = cluster(graph, seconds=1.0, on_progress=entries.append)
    costs = [entry["cost"] for entry in entries]
    times = [entry["t"] for entry in entries]
    assert costs == sorted(costs, reverse=True)
    assert times == sorted(times)
    assert costs[-1] == cost(graph, labels=labels)


# Shapes that are easily forgotten


def test_disconnected_parts_and_lonely_nodes_are_not_put_together() -> None:
    graph = merge_edges([0, 1, 3, 3], [1, 2, 4, 0], [1, 1, 1, -1], n=7)
    labels = cluster(graph, seconds=None, steps=10)
    assert labels.tolist() == [0, 0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_one_edge(problem: Problem) -> None:
    graph = merge_edges([0], [1], [-1] if problem.signed else None)
    for heuristic in HEURISTICS:
        if allowed(heuristic, problem):
            labels = cluster(graph, problem=problem, seconds=None, heuristic=heuristic)
            assert cost(graph, labels=labels, problem=problem) == 0


def test_heavy_weights_decide() -> None:
    """Max-cut of a weighted pentagon leaves the lightest edge uncut, however small the others are."""
    for scale in (1e-9, 1.0, 1e12):
        s = np.array([5, 4, 1, 3, 2]) * scale
        labels = cluster([0, 1, 2, 3, 4], [1, 2, 3, 4, 0], s, "maxcut", None, weights="abs")
        assert labels[2] == labels[3]
        assert cost([0, 1, 2, 3, 4], [1, 2, 3, 4, 0], s, labels, "maxcut", weights="abs") == s[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heuristic": "magic"}, "heuristic must be one of"),
        ({"steps": -1}, "steps"),
        ({"threads": 0}, "threads"),
        ({"seconds": float("nan")}, "seconds"),
        ({"problem": "tsp"}, "problem must be one of"),
        ({"problem": "maxcut"}, "negative"),
        ({"problem": "frustration", "heuristic": "pivot"}, "pivot"),
        ({"problem": "frustration", "start": [0, 1, 2]}, "two clusters"),
        ({"start": [0, 1]}, "one per node"),
        ({"start": [0.5, 1, 2]}, "integers"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cluster([0, 1], [1, 2], [1, -1], **{"steps": 1, **arguments})


def test_bad_labels_of_cost() -> None:
    for labels, message in ((None, "missing"), ([0, 1], "one per node"), ([[0], [1], [2]], "one per node")):
        with pytest.raises(InputError, match=message):
            cost([0, 1], [1, 2], [1, -1], labels)
    with pytest.raises(InputError, match="v is missing"):
        cost([0, 1], labels=[0, 1])
    with pytest.raises(InputError, match="two clusters"):
        cost([0, 1], [1, 2], labels=[0, 1, 2], problem="maxcut")
