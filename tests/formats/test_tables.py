"""Tables and points: text against the csv module, binary formats, and errors by line and column."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icml.formats import InputError, Points, Table, _kernel, read_points, read_table


def table(data: bytes | str, **options: Any) -> Table:
    return read_table(io.BytesIO(data.encode() if isinstance(data, str) else data), **options)


def points(data: bytes | str, **options: Any) -> Points:
    return read_points(io.BytesIO(data.encode() if isinstance(data, str) else data), **options)


def plain(found: Table) -> dict[str, list[Any]]:
    return {
        name: column if isinstance(column, list) else column.tolist()
        for name, column in found.columns.items()
    }


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=5)
numbers = st.integers(-99, 99).map(str) | st.floats(-1e9, 1e9).map(repr)


@st.composite
def grids(draw: st.DrawFn) -> list[list[str]]:
    width = draw(st.integers(1, 4))
    kinds = [draw(st.sampled_from([cells, numbers])) for _ in range(width)]
    return [[draw(kind) for kind in kinds] for _ in range(draw(st.integers(1, 6)))]


@settings(max_examples=120, deadline=None)
@given(grids(), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_tables_as_the_csv_module_writes_them(grid: list[list[str]], quoting: Any) -> None:
    header = [f"column {i}" for i in range(len(grid[0]))]
    buffer = io.StringIO()
    csv.writer(buffer, quoting=quoting).writerows([header, *grid])
    # The csv module reads comments, blank lines and outer blanks as data; it also takes numbers for text.
    rows = [row for row in csv.reader(io.StringIO(buffer.getvalue())) if row]
    if len(header) == 1 and ";" in buffer.getvalue():  # the only separator that the lines show
        return
    if any(
        row[0][:1] in ("#", "%") or any(c != c.strip(" \t") for c in row) or "".join(row) == ""
        for row in rows
    ):
        return
    found = table(buffer.getvalue(), format="csv", header=True, nonfinite="allow")
    assert found.header == tuple(header)
    for i, name in enumerate(header):
        column = [row[i] for row in rows[1:]]
        given = found.columns[name]
        if isinstance(given, list):
            assert given == column
            assert any(cell and not _kernel.is_number(cell) for cell in column)
        else:
            expected = [float(cell) if cell else math.nan for cell in column]
            assert np.array_equal(given, expected, equal_nan=True)
    assert found.line is not None
    assert len(found.line) == len(rows) - 1


@settings(max_examples=100, deadline=None)
@given(
    grids(),
    st.text("gnts", min_size=1, max_size=4),
    st.sampled_from([1, 5, 30]),
    st.integers(1, 3),
    st.booleans(),
)
def test_pieces_and_threads_change_nothing(
    grid: list[list[str]], kinds: str, piece: int, threads: int, allow: bool
) -> None:
    data = "\n".join(";".join(row) for row in grid).encode()
    names = [""] * len(kinds)

    def outcome(threads: int, piece_bytes: int) -> Any:
        try:
            settled, numbers, texts, line = _kernel.read_columns(
                data, 0, 1, ";", kinds, names, allow, threads, piece_bytes
            )
        except _kernel.ParseError as error:
            return error.args
        return settled, None if numbers is None else numbers.tobytes(), texts, line.tolist()

    assert outcome(threads, piece) == outcome(1, 1 << 30)


def test_a_guess_does_not_look_beyond_the_first_fault() -> None:
    """Whether column 1 is text shows only after line 3, which is at fault; so it is a number, and line 2 is wrong."""
    data = b"1;1\n;1\n1\nx;1\n"
    for piece in (1, 5, 8, 100):
        with pytest.raises(_kernel.ParseError) as caught:
            _kernel.read_columns(data, 0, 1, ";", "gg", ["", ""], False, 2, piece)
        assert caught.value.args == ("empty cell in column 1", 2)


def test_table_columns() -> None:
    found = table("id,name,x\n007,ann,1.5\n8,,-2e3\n")
    assert plain(found) == {"id": [7, 8], "name": ["ann", ""], "x": [1.5, -2000]}
    assert found.header == ("id", "name", "x")
    assert found.line is not None
    assert found.line.tolist() == [2, 3]
    assert plain(table("id,name,x\n007,ann,1.5\n", text=["id"]))["id"] == ["007"]
    assert plain(table("id,name,x\n007,ann,1.5\n", text=["3"]))["x"] == ["1.5"]
    assert plain(table("1 2\n3 4\n")) == {"1": [1, 3], "2": [2, 4]}
    assert plain(table("a\tb c\nd\te, f\n")) == {"a": ["d"], "b c": ["e, f"]}
    assert plain(table("a\tb\n", header=False)) == {"1": ["a"], "2": ["b"]}
    assert plain(table("1,2\n3,4\n", header=True)) == {"1": [3], "2": [4]}
    assert plain(table(",b\n1,2\n")) == {"1": [1], "b": [2]}
    assert plain(table("")) == {}
    assert plain(table("a,b\n")) == {"a": [], "b": []}


def test_late_text_makes_a_text_column() -> None:
    found = table("\n".join([*map(str, range(1000)), "x"]), threads=2)
    assert found.columns["1"] == [*map(str, range(1000)), "x"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("x,y\n1,2\n3\n", {}, "input:3: expected 2 columns, got 1"),
        ("x,y\n1,2\n3,4,5\n", {}, "input:3: expected 2 columns, got 3"),
        ("x\n1\n2,3\n", {"format": "csv"}, "input:3: expected 1 column, got 2"),
        ("x,y\n1,2\n3,nan\n", {}, "input:3: expected a finite number in column 2 (y), got 'nan'"),
        ("x,y\n1,2\n,4\n", {}, "input:3: empty cell in column 1 (x)"),
        ("1,2\n3,inf\n", {}, "input:2: expected a finite number in column 2, got 'inf'"),
        ("x,x\n1,2\n", {}, "input: more than one column is called 'x'"),
        ("x,y\n1,2\n", {"text": ["z"]}, "input: no column 'z'; the columns are x, y"),
        ("x,y\n1,\xff\0\n", {}, "input:2: NUL byte; this is not a text file"),
        (
            "x,y\n",
            {"format": "xls"},
            "unknown format 'xls'; there are auto, text, csv, tsv, parquet, npy, npz",
        ),
    ],
)
def test_table_errors(data: str, options: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        table(data, **options)
    assert str(caught.value) == message


def test_points_columns() -> None:
    found = points("name,x,y\nann,1,2\nbob,3,4\n", id_column="name")
    assert found.x.tolist() == [[1, 2], [3, 4]]
    assert found.x.flags.c_contiguous
    assert found.ids == ["ann", "bob"]
    assert found.header == ("x", "y")
    swapped = points("name,x,y\nann,1,2\n", columns=["y", "x"], id_column="1")
    assert (swapped.x.tolist(), swapped.ids, swapped.header) == ([[2, 1]], ["ann"], ("y", "x"))
    assert points("1 2\n3 4\n", columns=["2", "2"]).x.tolist() == [[2, 2], [4, 4]]
    assert points("x\n1\n2\n").x.shape == (2, 1)
    assert points("a,1\nb,2\n", id_column="1").ids == ["a", "b"]
    assert points("7,1\n8,2\n", id_column="1").ids == ["7", "8"]
    assert points("").x.shape == (0, 0)
    assert points("x,y\n").x.shape == (0, 2)
    loose = points("x,y\n1,\nnan,inf\n", nonfinite="allow").x
    assert np.array_equal(loose, [[1, np.nan], [np.nan, np.inf]], equal_nan=True)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("lat,lon\n1,2\n3,abc\n", {}, "input:3: expected a number in column 2 (lon), got 'abc'"),
        ("1,2\n\n# c\n3,x\n", {}, "input:4: expected a number in column 2, got 'x'"),
        ("1,2\n3,nan\n", {}, "input:2: expected a finite number in column 2, got 'nan'"),
        ("1,2\n3,\n", {}, "input:2: empty cell in column 2"),
        ("1 2\n3\n", {}, "input:2: expected 2 columns, got 1"),
        ("a,b\n1,2\n", {"columns": ["c"]}, "input:1: no column 'c'; the columns are a, b"),
        ("a,b\n1,2\n", {"id_column": "3"}, "input:1: no column 3; there are columns 1 to 2"),
        (
            "1,2\n",
            {"columns": ["x"]},
            "input:1: no column 'x'; there is no header line; choose by number, 1 to 2",
        ),
        ('"1\n', {}, "input:1: a quoted field does not end on its line"),
    ],
)
def test_points_errors(data: str, options: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        points(data, **options)
    assert str(caught.value) == message


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2), max_size=9)
)
def test_points_to_the_last_bit(rows: list[list[float]]) -> None:
    x = np.array(rows).reshape(-1, 2)
    text = "\n".join(",".join(map(repr, row)) for row in x.tolist())
    assert points(text).x.reshape(-1, 2).tobytes() == x.tobytes()


def saved(save: Any, *args: Any, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *args, **arrays)
    return buffer.getvalue()


def test_numpy_files() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert points(saved(np.save, x)).x.tolist() == x.tolist()
    assert points(saved(np.save, x[:, ::-1].T)).x.shape == (2, 3)
    assert points(saved(np.save, np.arange(3))).x.tolist() == [[0], [1], [2]]
    assert points(saved(np.save, np.empty((0, 4)))).x.shape == (0, 4)
    assert points(saved(np.savez, anything=x)).x.tolist() == x.tolist()
    assert points(saved(np.savez, x=x, other=np.ones(5))).x.tolist() == x.tolist()
    by_column = saved(np.savez, lat=x[:, 0], lon=x[:, 1], name=np.array(["a", "b", "c"]))
    found = points(by_column, id_column="name", columns=["lon", "lat"])
    assert (found.x.tolist(), found.ids, found.header) == (
        x[:, ::-1].tolist(),
        ["a", "b", "c"],
        ("lon", "lat"),
    )
    assert plain(table(by_column)) == {"lat": [0, 2, 4], "lon": [1, 3, 5], "name": ["a", "b", "c"]}
    assert points(saved(np.save, x), columns=["2"]).x.tolist() == [[1], [3], [5]]
    assert points(saved(np.save, x), id_column="1").ids == ["0", "2", "4"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            saved(np.save, np.array([[1, np.nan]])),
            "input: expected a finite number in column '2', row 1, got nan",
        ),
        (saved(np.save, np.array([[1, 2j]])), "input: the array must hold real numbers, not complex128"),
        (saved(np.save, np.array(["a"])), "input: the array must hold real numbers, not <U1"),
        (saved(np.save, np.array(1.0)), "input: the array must have one or two dimensions, not 0"),
        (saved(np.save, np.ones((2, 2, 2))), "input: the array must have one or two dimensions, not 3"),
        (saved(np.savez, a=np.ones(2), b=np.ones(3)), "input: array 'b' is no column: its shape is (3,)"),
        (
            saved(np.savez, a=np.ones(2), b=np.array(["x", "y"])),
            "input: column 'b' must hold numbers, not strings",
        ),
        (saved(np.save, np.array([{}])), "input: NPY file is not readable: "),
        (saved(np.save, np.ones((4, 4)))[:-3], "input: NPY file is not readable: "),
    ],
)
def test_numpy_file_errors(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        points(data)
    assert str(caught.value).startswith(message)


def test_parquet_tables() -> None:
    buffer = io.BytesIO()
    columns = {"n": ["a", None], "x": [1, 2], "y": pa.array([1.5, None]), "z": pa.array([True, False])}
    pq.write_table(pa.table(columns), buffer)
    data = buffer.getvalue()
    with pytest.raises(InputError, match="expected a finite number in column 'y', row 2, got nan"):
        table(data)
    found = table(data, nonfinite="allow", text=["x"])
    assert found.columns["n"] == ["a", ""]
    assert found.columns["x"] == ["1", "2"]
    assert np.array_equal(found.columns["y"], [1.5, np.nan], equal_nan=True)
    assert found.header == ("n", "x", "y", "z")
    chosen = points(data, columns=["z", "x"], id_column="n")
    assert (chosen.x.tolist(), chosen.ids) == ([[1, 1], [0, 2]], ["a", ""])
    with pytest.raises(InputError, match="no column 'w'; the columns are n, x, y, z"):
        points(data, columns=["w"])
