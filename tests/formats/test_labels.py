"""Label files: what is written is read back, and what is wrong is named by line."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import InputError, Labels, Names, read_labels, write_labels

labels = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12
) | st.sampled_from(
    ["", " a", "a ", "#x", "%y", '"', 'a"b', '"a"', "a,b", "a;b", "a b", "node", "cluster", "\ufeffx"]
)


def read(text: str) -> Labels:
    return read_labels(io.BytesIO(text.encode()))


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(labels.filter(bool), labels, max_size=8))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, given: dict[str, str]) -> None:
    path = tmp_path_factory.getbasetemp() / "labels.tsv"
    write_labels(path, list(given), list(given.values()))
    found = read_labels(path)
    assert dict(zip(found.keys, found.values, strict=True)) == given
    assert found.keys == list(given)


def test_round_trip_of_what_looks_like_a_header(tmp_path: Path) -> None:
    write_labels(tmp_path / "l", ["node", "b"], ["cluster", "1"])
    assert read_labels(tmp_path / "l").keys == ["node", "b"]


def test_arrays_and_names(tmp_path: Path) -> None:
    write_labels(tmp_path / "l", Names.from_range(1, 3), np.array([2, 0, 2], np.int32))
    assert (tmp_path / "l").read_text() == "1\t2\n2\t0\n3\t2\n"
    with pytest.raises(ValueError, match="shorter"):
        write_labels(tmp_path / "l", ["a", "b"], [1])
    assert (tmp_path / "l").read_text() == "1\t2\n2\t0\n3\t2\n"


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\x1b[0m"])
def test_unwritable_names(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InputError, match="has a line break or control character"):
        write_labels(tmp_path / "l", [bad], [1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\tx\nb\ty\n", [1, 2]),
        ("# c\r\nNode_ID\tCluster\r\na\tx\r\n\r\nb\ty", [3, 5]),
        ("a,x\nb,y\n", [1, 2]),
        ("a;x\nb;y\n", [1, 2]),
        ("a  x\nb \t y\n", [1, 2]),
        ("\ufeffid label\na x\nb y\n", [2, 3]),
    ],
)
def test_dialects(text: str, lines: list[int]) -> None:
    found = read(text)
    assert (found.keys, found.values, found.lines.tolist()) == (["a", "b"], ["x", "y"], lines)
    assert len(found) == 2


def test_only_well_known_names_are_a_header() -> None:
    assert read("node\tsize\nb\t1\n").keys == ["node", "b"]
    assert read("node\tcluster\nb\t1\n").keys == ["b"]
    assert read("").keys == []


def test_names_with_blanks_in_a_tab_separated_file() -> None:
    assert read("New York\teast coast\nLos Angeles\twest coast\n").values == ["east coast", "west coast"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\t1\n# c\nb\t2\na\t3\n", "input:4: node 'a' has a label already, on line 1"),
        ("a\t1\nb\n", "input:2: expected 2 columns, got 1"),
        ("a\t1\nb\t2\t3\n", "input:2: expected 2 columns, got 3"),
        ("a\t1\n\t2\n", "input:2: empty node name"),
        ("a\n", "input:1: expected 2 columns, got 1"),
        ("a\t1\nb\0\t2\n", "input:2: NUL byte; this is not a text file"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert str(caught.value) == message
