"""Names: both representations behave as the list of strings they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import Names

integers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 50), unique=True, max_size=30)
strings = st.lists(st.text(max_size=6), unique=True, max_size=30)
queries = st.lists(
    st.text(max_size=3)
    | st.integers(-5, 60).map(str)
    | st.sampled_from(["007", "+7", " 7", "7 ", "٧", "9" * 5000, str(2**63)]),
    max_size=20,
)


def from_integers(ids: list[int]) -> tuple[Names, list[str]]:
    return Names.from_integers(np.array(ids, np.int64)), [str(i) for i in ids]


def from_strings(names: list[str]) -> tuple[Names, list[str]]:
    return Names.from_strings(names), names


def from_range(start: int, count: int) -> tuple[Names, list[str]]:
    return Names.from_range(start, count), [str(i) for i in range(start, start + count)]


any_names = (
    integers.map(from_integers)
    | strings.map(from_strings)
    | st.builds(from_range, st.integers(-3, 40), st.integers(0, 20))
)


@settings(max_examples=150, deadline=None)
@given(any_names, queries, st.integers(-40, 40), st.slices(30))
def test_like_a_list(pair: tuple[Names, list[str]], asked: list[str], index: int, part: slice) -> None:
    names, expected = pair
    assert len(names) == len(expected)
    assert names.to_list() == list(names) == expected
    assert names == expected
    assert names[part] == expected[part]
    if -len(expected) <= index < len(expected):
        assert names[index] == names[np.int64(index)] == expected[index]
    else:
        with pytest.raises(IndexError):
            names[index]
    positions = {name: i for i, name in enumerate(expected)}
    wanted = asked + expected[:5]
    found = names.lookup(wanted)
    assert found.dtype == np.int32
    assert found.tolist() == [positions.get(name, -1) for name in wanted]
    for name in wanted:
        assert (name in names) == (name in positions)
        if name in positions:
            assert names.index_of(name) == positions[name]
        else:
            with pytest.raises(KeyError):
                names.index_of(name)


def test_equality_and_repr() -> None:
    assert Names.from_range(1, 3) == Names.from_strings(["1", "2", "3"])
    assert Names.from_range(1, 3) != Names.from_range(1, 2)
    assert Names.from_range(1, 3) != 5
    assert repr(Names.from_range(1, 9)) == "<9 names: '1', '2', '3', …>"
    assert repr(Names.from_strings([])) == "<no names>"


def test_integers_stay_an_array() -> None:
    ids = Names.from_integers(np.array([5, 3], np.int64)).integers
    assert ids is not None
    assert ids.tolist() == [5, 3]
    assert Names.from_strings(["5", "3"]).integers is None
    assert len(Names.from_range(1, 2**31 - 1)) == 2**31 - 1  # no memory for each
