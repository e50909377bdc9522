"""Certificates: what is written is read back and holds; nothing altered does, and nothing malformed gets through."""

from __future__ import annotations

import dataclasses
import io
import math
import zipfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb.bounds import CLIQUE, CYCLE, SCALE_BITS, STAR, Bound, Packing
from icml.tools.cclust_lb.certificate import Certificate, load_certificate, save_certificate, verify
from icml.tools.cclust_lb.packing import bound as compute_bound
from icml.tools.cclust_lb.problem import Problem, SignedGraph, merge_edges
from icml.tools.cclust_lb.proof import Rejected, prove

from .naive_checker import confirm

SCALE = 2**SCALE_BITS
PROBLEMS = list(Problem)
FIELDS = ("kind", "ptr", "elements", "rhs", "y", "pair_u", "pair_v")
HEADER = ("schema", "problem", "digest", "scale_bits", "lower", "lower_int", "checksum")


def sample_graph(problem: Problem, *, weighted: bool = False) -> SignedGraph:
    """Thirty nodes, enough of everything: triangles, longer cycles, K5s, stars."""
    rng = np.random.default_rng(7)
    pairs = [(a, b) for a in range(30) for b in range(a) if rng.random() < (0.9 if a < 7 else 0.2)]
    s = rng.choice([-1, 1], len(pairs), p=[0.3, 0.7]) if problem.signed else np.ones(len(pairs))
    if weighted:
        s = s * rng.uniform(0.5, 3, len(pairs))
    u, v = zip(*pairs, strict=True)
    return merge_edges(u, v, s, weights="abs")


@cache
def sample(problem: Problem, weighted: bool = False) -> tuple[SignedGraph, Bound]:
    graph = sample_graph(problem, weighted=weighted)
    found = compute_bound(graph, problem=problem)
    assert len(found.items) > 10
    return graph, found


def saved(claim: Bound | Certificate) -> bytes:
    file = io.BytesIO()
    save_certificate(file, claim)
    return file.getvalue()


def loaded(data: bytes) -> Certificate:
    return load_certificate(io.BytesIO(data))


def members(data: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return dict(archive)


def with_members(**arrays: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def altered(claim: Bound, **fields: Any) -> Bound:
    """The bound with some fields of it or of its packing replaced."""
    items = {name: value for name, value in fields.items() if name in (*FIELDS, "scale_bits")}
    rest = {name: value for name, value in fields.items() if name not in items}
    return dataclasses.replace(claim, items=dataclasses.replace(claim.items, **items), **rest)


def entry(array: NDArray[Any], index: int, value: int) -> NDArray[Any]:
    copy = array.copy()
    copy[index] = value
    return copy


# What is right holds


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_round_trip(problem: Problem, weighted: bool, tmp_path: Path) -> None:
    graph, found = sample(problem, weighted)
    path = tmp_path / "cert.npz"
    save_certificate(path, found)
    back = load_certificate(path)
    for name in FIELDS:
        stored = getattr(back.items, name)
        assert np.array_equal(stored, getattr(found.items, name))
        assert stored.dtype == getattr(found.items, name).dtype
    assert (back.problem, back.digest, back.lower, back.lower_int) == (
        problem,
        graph.digest(),
        found.lower,
        found.lower_int,
    )
    for claim in (found, back):
        checked = verify(claim, graph)
        assert checked.ok, checked.reason
        assert (checked.lower, checked.lower_int) == (found.lower, found.lower_int)
    assert (found.lower_int is None) == weighted
    assert saved(found) == path.read_bytes() == saved(back)


def test_the_bytes_depend_on_the_bound_alone() -> None:
    _, found = sample(Problem.CC)
    data = saved(found)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    strided = {name: np.repeat(getattr(found.items, name), 2)[::2] for name in FIELDS}
    assert saved(altered(found, **strided)) == data


def test_rows_do_as_well_as_a_graph() -> None:
    u, v, s = [0, 1, 2, 1], [1, 2, 0, 0], [1.0, 1.0, -1.0, 1.0]
    found = compute_bound(u, v, s)
    assert verify(found, u, v, s).ok
    assert not verify(found, u, v, [-1.0, 1.0, -1.0, -1.0]).ok
    with pytest.raises(InputError, match="v is missing"):
        verify(found, u)


def one_item(
    kind: int, elements: list[int], rhs: int, y: int = SCALE, pairs: list[tuple[int, int]] | None = None
) -> Packing:
    u, v = zip(*pairs, strict=True) if pairs else ((), ())
    return Packing(
        kind=np.array([kind], np.uint8),
        ptr=np.array([0, len(elements)]),
        elements=np.array(elements, np.int32),
        rhs=np.array([rhs]),
        y=np.array([y]),
        pair_u=np.array(u, np.int32),
        pair_v=np.array(v, np.int32),
    )


K5 = merge_edges(*zip(*[(a, b) for a in range(5) for b in range(a)], strict=True))
HOUSE = merge_edges([0, 1, 2, 3, 0], [1, 2, 3, 4, 4], [1, 1, 1, 1, -1])  # edges 01 04 12 23 34
STAR3 = merge_edges([0, 0, 0, 1], [1, 2, 3, 4])
BOWTIE = merge_edges([0, 1, 0, 2, 3, 2], [1, 2, 2, 3, 4, 4], [1, 1, -1, 1, 1, 1])  # triangles 012 and 234

VALID = {
    "cycle": (HOUSE, Problem.CC, one_item(CYCLE, [4, 2, 0, 1, 3], 1), 1),
    "odd cycle": (HOUSE, Problem.FRUSTRATION, one_item(CYCLE, [0, 1, 2, 3, 4], 1), 1),
    "touching cycles": (BOWTIE, Problem.CC, one_item(CYCLE, list(range(6)), 1), 1),
    "clique": (K5, Problem.MAXCUT, one_item(CLIQUE, list(range(10)), 4), 4),
    "star": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 2, 4, 6, 5], 2, pairs=[(1, 2), (2, 3), (1, 3)]),
        2,
    ),
    "wedge": (STAR3, Problem.CC_COMPLETE, one_item(STAR, [3, 0, 4], 1, pairs=[(0, 4)]), 1),
}


@pytest.mark.parametrize("name", VALID)
def test_each_kind_of_obstruction(name: str) -> None:
    graph, problem, items, worth = VALID[name]
    assert prove(items, graph, problem) == (worth, worth)


INVALID = {
    "two negative edges": (
        merge_edges([0, 1, 2, 0], [1, 2, 3, 3], [1, -1, 1, -1]),
        Problem.CC,
        one_item(CYCLE, [0, 1, 2, 3], 1),
        "item 0: cycle does not have exactly one negative edge",
    ),
    "even negative edges": (
        merge_edges([0, 1, 2, 0], [1, 2, 3, 3], [1, -1, 1, -1]),
        Problem.FRUSTRATION,
        one_item(CYCLE, [0, 1, 2, 3], 1),
        "even number of negative",
    ),
    "even cycle": (
        merge_edges([0, 1, 2, 0], [1, 2, 3, 3]),
        Problem.MAXCUT,
        one_item(CYCLE, [0, 1, 2, 3], 1),
        "even number of edges",
    ),
    "open path": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2], 1), "item 0: cycle does not close"),
    "edge twice": (HOUSE, Problem.CC, one_item(CYCLE, [1, 0, 0], 1), "holds an element twice"),
    "no edge": (HOUSE, Problem.CC, one_item(CYCLE, [], 1), "empty"),
    "no such edge": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2, 3, 5], 1), "item 0 holds element 5"),
    "negative number": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2, 3, -1], 1), "item 0 holds element -1"),
    "worth two": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2, 3, 4], 2), "rhs 1"),
    "too much": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2, 3, 4], 1, SCALE + 1), "add up to more"),
    "far too much": (HOUSE, Problem.CC, one_item(CYCLE, [0, 1, 2, 3, 4], 1, 2**63 - 1), "add up to more"),
    "negative amount": (
        HOUSE,
        Problem.CC,
        one_item(CYCLE, [0, 1, 2, 3, 4], 1, -1),
        "negative number of times",
    ),
    "wrong kind": (HOUSE, Problem.CC, one_item(CLIQUE, [0, 1, 2, 3, 4], 1), "kind that proves nothing"),
    "unknown kind": (HOUSE, Problem.CC, one_item(9, [0, 1, 2, 3, 4], 1), "kind that proves nothing"),
    "no clique": (K5, Problem.MAXCUT, one_item(CLIQUE, [0, 1, 2, 3], 1), "no clique has"),
    "clique with a wrong edge": (K5, Problem.MAXCUT, one_item(CLIQUE, [0, 1, 9], 1), "not complete"),
    "clique worth too much": (K5, Problem.MAXCUT, one_item(CLIQUE, list(range(10)), 5), "rhs 4"),
    "clique of even triangles": (
        merge_edges(
            *zip(*[(a, b) for a in range(4) for b in range(a)], strict=True), [-1, -1, -1, -1, -1, 1]
        ),
        Problem.FRUSTRATION,
        one_item(CLIQUE, list(range(6)), 2),
        "even number of negative",
    ),
    "pairs that are edges": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 1, pairs=[(0, 1)]),
        "pair 0 is an edge",
    ),
    "pair twice": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 1, pairs=[(1, 2), (2, 3), (1, 2)]),
        "pair 2 is listed before",
    ),
    "pair in the wrong order": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 1, pairs=[(2, 1)]),
        "pair 0 is not two nodes",
    ),
    "pair of nobody": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 1, pairs=[(1, 5)]),
        "pair 0 is not two nodes",
    ),
    "pair of others": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 1, pairs=[(1, 3)]),
        "lacks a pair between its leaves",
    ),
    "star of pairs": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 4, 5], 1, pairs=[(1, 2), (2, 3)]),
        "does not consist of 2 edges",
    ),
    "star without a centre": (
        merge_edges([0, 2], [1, 3]),
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 2], 1, pairs=[(0, 2)]),
        "has no centre",
    ),
    "star of four elements": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 2, 4], 1, pairs=[(1, 2)]),
        "no star has",
    ),
    "star worth too much": (
        STAR3,
        Problem.CC_COMPLETE,
        one_item(STAR, [0, 1, 4], 2, pairs=[(1, 2)]),
        "rhs 1",
    ),
    "pairs that do not count": (
        HOUSE,
        Problem.CC,
        one_item(CYCLE, [0, 1, 2, 3, 4], 1, pairs=[(0, 2)]),
        "missing pairs do not count",
    ),
    "plain graph for signs": (K5, Problem.CC, one_item(CYCLE, [0, 1, 4], 1), "no negative edge"),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_is_no_obstruction(name: str) -> None:
    graph, problem, items, reason = INVALID[name]
    with pytest.raises(Rejected, match=reason):
        prove(items, graph, problem)


def test_the_first_wrong_item_is_named() -> None:
    graph, found = sample(Problem.CC)
    rhs = found.items.rhs.copy()
    rhs[[5, 3, 9]] = 2
    assert "item 3:" in str(verify(altered(found, rhs=rhs), graph).reason)


def test_loads_are_summed_exactly() -> None:
    """Amounts whose sum is past 2^63, or differs from the weight in the last of 62 bits."""
    triangle = merge_edges([0, 1, 0], [1, 2, 2], [1, 1, -1])

    def packed(amounts: list[int], bits: int) -> Packing:
        k = len(amounts)
        return Packing(
            kind=np.zeros(k, np.uint8),
            ptr=np.arange(0, 3 * k + 1, 3),
            elements=np.tile(np.arange(3, dtype=np.int32), k),
            rhs=np.ones(k, np.int64),
            y=np.array(amounts),
            pair_u=np.empty(0, np.int32),
            pair_v=np.empty(0, np.int32),
            scale_bits=bits,
        )

    full = [2**61, 2**60, 2**60 - 1, 1]
    assert prove(packed(full, 62), triangle, Problem.CC) == (1.0, 1)
    for amounts in ([*full, 1], [2**62, 2**62, 2**62, 2**62], [2**63 - 1] * 2, [2**63 - 1, 1, 2**63 - 1, 1]):
        with pytest.raises(Rejected, match="add up to more"):
            prove(packed(amounts, 62), triangle, Problem.CC)
    lower, lower_int = prove(packed([2**60 + 1], 62), triangle, Problem.CC)
    assert Fraction(lower) <= Fraction(2**60 + 1, 2**62)
    assert lower_int == 1


def test_parts_are_rounded_up_one_by_one() -> None:
    """Three triangles, two of which share an edge: each part of 0.9 counts as 1."""
    graph = merge_edges([0, 1, 0, 1, 2, 4, 5, 4], [1, 2, 2, 3, 3, 5, 6, 6], [1, 1, -1, 1, -1, 1, 1, -1])
    number = {(int(a), int(b)): e for e, (a, b) in enumerate(zip(graph.u, graph.v, strict=True))}
    triangles = [[(0, 1), (1, 2), (0, 2)], [(1, 2), (1, 3), (2, 3)], [(4, 5), (5, 6), (4, 6)]]
    amounts = [int(0.5 * SCALE), int(0.4 * SCALE), int(0.9 * SCALE)]
    items = Packing(
        kind=np.zeros(3, np.uint8),
        ptr=np.array([0, 3, 6, 9]),
        elements=np.array([number[pair] for triangle in triangles for pair in triangle], np.int32),
        rhs=np.ones(3, np.int64),
        y=np.array(amounts),
        pair_u=np.empty(0, np.int32),
        pair_v=np.empty(0, np.int32),
    )
    assert prove(items, graph, Problem.CC) == (sum(amounts) / SCALE, 2)
    # An item that is packed zero times joins nothing.
    assert prove(dataclasses.replace(items, y=entry(items.y, 1, 0)), graph, Problem.CC)[1] == 2
    assert prove(dataclasses.replace(items, y=entry(items.y, 2, 0)), graph, Problem.CC)[1] == 1


# What is altered does not hold


ALTERATIONS: dict[str, Callable[[Bound], dict[str, Any]]] = {
    "digest": lambda b: {"digest": b.digest[::-1]},
    "lower up": lambda b: {"lower": math.nextafter(b.lower, math.inf)},
    "lower down": lambda b: {"lower": math.nextafter(b.lower, 0)},
    "lower nan": lambda b: {"lower": math.nan},
    "lower_int up": lambda b: {"lower_int": (b.lower_int or 0) + 1},
    "lower_int down": lambda b: {"lower_int": (b.lower_int or 0) - 1},
    "lower_int gone": lambda b: {"lower_int": None},
    "scale": lambda b: {"scale_bits": b.items.scale_bits + 1},
    "no scale": lambda b: {"scale_bits": 10**9},
    "y up": lambda b: {"y": b.items.y + 1},
    "y down": lambda b: {"y": np.maximum(b.items.y - 1, 0)},
    "y doubled": lambda b: {"y": 2 * b.items.y},
    "rhs": lambda b: {"rhs": b.items.rhs + 1},
    "kind": lambda b: {"kind": (b.items.kind + 1) % 3},
    "elements": lambda b: {"elements": b.items.elements[::-1].copy()},
    "item gone": lambda b: {
        "kind": b.items.kind[:-1],
        "rhs": b.items.rhs[:-1],
        "y": b.items.y[:-1],
        "ptr": b.items.ptr[:-1],
        "elements": b.items.elements[: b.items.ptr[-2]],
    },
    "item twice": lambda b: {
        "kind": np.append(b.items.kind, b.items.kind[-1]),
        "rhs": np.append(b.items.rhs, b.items.rhs[-1]),
        "y": np.append(b.items.y, b.items.y[-1]),
        "ptr": np.append(b.items.ptr, 2 * b.items.ptr[-1] - b.items.ptr[-2]),
        "elements": np.append(b.items.elements, b.items.elements[b.items.ptr[-2] :]),
    },
    "ptr": lambda b: {"ptr": entry(b.items.ptr, 1, int(b.items.ptr[1]) + 1)},
    "ptr back": lambda b: {"ptr": entry(b.items.ptr, 1, int(b.items.ptr[2]) + 1)},
    "ptr short": lambda b: {"ptr": b.items.ptr[:-1]},
    "y short": lambda b: {"y": b.items.y[:-1]},
    "y real": lambda b: {"y": b.items.y.astype(np.float64)},
    "y two-dimensional": lambda b: {"y": b.items.y[:, None]},
    "pairs uneven": lambda b: {"pair_u": np.append(b.items.pair_u, np.int32(0))},
}


@pytest.mark.parametrize("alteration", ALTERATIONS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_altered_bound_is_rejected(problem: Problem, alteration: str) -> None:
    graph, found = sample(problem)
    checked = verify(altered(found, **ALTERATIONS[alteration](found)), graph)
    assert not checked.ok
    assert checked.reason


@pytest.mark.parametrize("problem", PROBLEMS)
def test_another_graph_is_rejected(problem: Problem) -> None:
    graph, found = sample(problem)
    others = [
        dataclasses.replace(graph, n=graph.n + 1),
        dataclasses.replace(
            graph, u=graph.u[1:], v=graph.v[1:], weight=graph.weight[1:], negative=graph.negative[1:]
        ),
        dataclasses.replace(graph, weight=entry(graph.weight, 0, 2)),
        dataclasses.replace(graph, negative=entry(graph.negative, 3, not graph.negative[3])),
        dataclasses.replace(graph, v=entry(graph.v, -1, graph.v[-1] - 1)),
    ]
    for other in others:
        assert verify(found, other).reason == "it is for another graph"
        # Nor does it help to claim that it is for this one.
        forged = altered(found, digest=other.digest())
        if verify(forged, other).ok:  # then it does not speak of what was changed
            confirm(forged, other, problem)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_single_number_can_be_changed(data: st.DataObject) -> None:
    """Any entry of any array: the file does not hold; and if the bound in memory does, it still is a proof."""
    problem = data.draw(st.sampled_from(PROBLEMS))
    graph, found = sample(problem)
    name = data.draw(st.sampled_from([name for name in FIELDS if len(getattr(found.items, name))]))
    array = getattr(found.items, name)
    index = data.draw(st.integers(0, len(array) - 1))
    limits = np.iinfo(array.dtype)
    old = int(array[index])
    value = data.draw(
        st.one_of(
            st.integers(old - 3, old + 3), st.integers(0, 60), st.integers(int(limits.min), int(limits.max))
        )
    )
    assume(limits.min <= value <= limits.max)
    assume(value != old)
    changed = entry(array, index, value)

    in_memory = altered(found, **{name: changed})
    if verify(in_memory, graph).ok:
        confirm(in_memory, graph, problem)

    raw = {**members(saved(found)), name: changed}
    try:
        certificate = loaded(with_members(**raw))
    except InputError:
        return
    assert not verify(certificate, graph).ok


def test_a_weaker_but_valid_certificate_is_an_altered_one() -> None:
    """The problem is not part of what is proven about these items, but it is part of the checksum."""
    graph, found = sample(Problem.CC)
    raw = {**members(saved(found)), "problem": np.array("frustration")}
    assert "checksum" in str(verify(loaded(with_members(**raw)), graph).reason)
    reversed_items = np.concatenate(
        [
            found.items.elements[a:b][::-1]
            for a, b in zip(found.items.ptr[:-1], found.items.ptr[1:], strict=True)
        ]
    )
    raw = {**members(saved(found)), "elements": reversed_items}
    assert "checksum" in str(verify(loaded(with_members(**raw)), graph).reason)


# What is malformed is not read


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_no_byte_can_be_changed(data: st.DataObject) -> None:
    graph, found = sample(Problem.CC_COMPLETE)
    good = saved(found)
    bad = bytearray(good)
    index = data.draw(st.integers(0, len(good) - 1))
    bad[index] ^= data.draw(st.integers(1, 255))
    try:
        certificate = loaded(bytes(bad))
    except InputError:
        return
    # A byte of the zip container that nothing depends on, such as a time stamp.
    assert saved(certificate) == good or not verify(certificate, graph).ok


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_truncated_files(data: st.DataObject) -> None:
    good = saved(sample(Problem.CC)[1])
    with pytest.raises(InputError):
        loaded(good[: data.draw(st.integers(0, len(good) - 1))])


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes(data: bytes, zipped: bool) -> None:
    if zipped:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name in (*HEADER, *FIELDS):
                archive.writestr(f"{name}.npy", b"\x93NUMPY" + data)
        data = file.getvalue()
    with pytest.raises(InputError):
        loaded(data)


@pytest.mark.parametrize("name", [*HEADER, *FIELDS])
def test_malformed_members(name: str) -> None:
    good = members(saved(sample(Problem.CC)[1]))
    rest = {key: array for key, array in good.items() if key != name}
    wrong = [
        np.array([{"a": 1}], dtype=object),
        np.array(["x"] * 3),
        np.zeros((2, 2)),
        np.zeros(5, np.complex128),
        np.zeros(3, np.dtype([("a", "i4")])),
        good[name].astype(">f4") if good[name].dtype.kind in "iuf" else np.array(7),
        good[name][..., None],
    ]
    with pytest.raises(InputError, match="it holds"):
        loaded(with_members(**rest))
    with pytest.raises(InputError, match="it holds"):
        loaded(with_members(**good, more=np.zeros(1)))
    for array in wrong:
        with pytest.raises(InputError, match="not a certificate"):
            loaded(with_members(**rest, **{name: array}))


def test_other_wrong_files(tmp_path: Path) -> None:
    good = members(saved(sample(Problem.CC)[1]))
    compressed = io.BytesIO()
    np.savez_compressed(compressed, **good)  # type: ignore[arg-type]
    for data, message in (
        (compressed.getvalue(), "compressed"),
        (with_members(**{**good, "schema": np.array(2)}), "schema 2"),
        (with_members(**{**good, "problem": np.array("tsp")}), "tsp"),
        (with_members(**{**good, "lower_int": np.array([1, 2])}), "more than one"),
        (b"", "not a zip file"),
    ):
        with pytest.raises(InputError, match=message):
            loaded(data)
    with pytest.raises(InputError, match=r"none\.npz: No such file"):
        load_certificate(tmp_path / "none.npz")
    with pytest.raises(InputError):
        load_certificate(tmp_path)


def test_nothing_is_written_if_writing_fails(tmp_path: Path) -> None:
    with pytest.raises((InputError, OSError)):
        save_certificate(tmp_path / "no" / "such" / "folder.npz", sample(Problem.CC)[1])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ten_million_elements_take_seconds() -> None:
    import time

    k = 10_000_000 // 3
    graph, _ = sample(Problem.CC)
    items = compute_bound(graph, problem=Problem.CC, obstructions="triangle").items
    times = k // len(items) + 1
    many = Packing(
        kind=np.tile(items.kind, times),
        ptr=np.arange(0, 3 * len(items) * times + 1, 3),
        elements=np.tile(items.elements, times),
        rhs=np.tile(items.rhs, times),
        y=np.tile(items.y // times, times),
        pair_u=items.pair_u,
        pair_v=items.pair_v,
    )
    begin = time.process_time()
    prove(many, graph, Problem.CC)
    assert time.process_time() - begin < 20
