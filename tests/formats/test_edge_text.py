"""Edge lists in text: the compiled parser against a plain one, and the rules one by one."""

from __future__ import annotations

import io
import struct
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from icml.formats import EdgeList, InputError, _kernel, read_edges

from . import reference
from .documents import documents

FORMATS = {"auto": ";, ", "csv": ";,", "tsv": "\t", "edges": " "}


def read(data: bytes, **options: Any) -> EdgeList:
    return read_edges(io.BytesIO(data), **options)


def rows(edges: EdgeList) -> list[tuple[Any, ...]]:
    values = [None] * len(edges) if edges.value is None else edges.value.tolist()
    names, line = edges.names, edges.line
    assert line is not None
    return [
        (names[u], names[v], value, number)
        for u, v, value, number in zip(edges.u, edges.v, values, line.tolist(), strict=True)
    ]


def bits(value: float | None) -> bytes | None:
    """A float to the last bit: -0.0 is not 0.0."""
    return None if value is None else struct.pack("d", value)


def parse(
    data: bytes, separators: str, columns: tuple[str, ...] | None
) -> reference.Edges | reference.RefusedError:
    try:
        return reference.parse(data, separators, columns)
    except reference.RefusedError as refused:
        return refused


def assert_as_reference(data: bytes, format: str, columns: tuple[str, ...] | None) -> None:
    expected = parse(data, FORMATS[format], columns)
    if isinstance(expected, reference.RefusedError):
        with pytest.raises(InputError) as caught:
            read(data, format=format, columns=columns)
        assert expected.line in (None, caught.value.line), (str(caught.value), str(expected))
        return
    edges = read(data, format=format, columns=columns)
    u, v, names = expected.numbered()
    assert edges.u.tolist() == u
    assert edges.v.tolist() == v
    assert edges.names.to_list() == names
    assert edges.header == expected.header
    assert [(a, b, bits(x), i) for a, b, x, i in rows(edges)] == [
        (a, b, bits(x), i) for a, b, x, i in expected.rows
    ]


@settings(max_examples=400, deadline=None)
@given(documents(), st.sampled_from(list(FORMATS)))
@example(b"a b\n1 2\n", "auto")
@example(b'"a" "b" "c"\n"1" "x y" 2\n', "auto")
@example(b"1;2;0,5\n", "auto")
@example(b"\xef\xbb\xbf\xef\xbb\xbf1 2\n", "auto")
@example(b"1 2\r", "auto")
@example(b"1 2\r\r\n", "auto")
@example(b",,\n", "csv")
@example(b"\t\t\n1\t2\t3\n", "tsv")
@example(b"source,target,sign\n1,2,x\n", "auto")
def test_agrees_with_the_plain_parser(data: bytes, format: str) -> None:
    assert_as_reference(data, format, None)


@settings(max_examples=150, deadline=None)
@given(
    documents(),
    st.lists(
        st.sampled_from(["1", "2", "3", "4", "source", "target", "sign", "x", "z", "0"]),
        min_size=2,
        max_size=3,
    ),
)
def test_agrees_on_chosen_columns(data: bytes, columns: list[str]) -> None:
    assert_as_reference(data, "auto", tuple(columns))


@settings(max_examples=200, deadline=None)
@given(
    documents(),
    st.sampled_from(",; \t"),
    st.integers(2, 4),
    st.sampled_from([1, 2, 9, 40]),
    st.integers(1, 4),
)
def test_pieces_and_threads_change_nothing(
    data: bytes, separator: str, width: int, piece: int, threads: int
) -> None:
    def outcome(threads: int, piece_bytes: int) -> tuple[Any, ...]:
        value = 2 if width > 2 else None
        try:
            u, v, values, line, ids = _kernel.read_edges(
                data, 0, 1, separator, width, 0, 1, value, threads, piece_bytes
            )
        except _kernel.ParseError as error:
            return error.args
        names = (ids[0], ids[1].tolist()) if isinstance(ids, tuple) else ids.tolist()
        return u.tolist(), v.tolist(), None if values is None else values.tobytes(), line.tolist(), names

    assert outcome(threads, piece) == outcome(1, 1 << 30)


@pytest.mark.parametrize("kind", ["integers", "sparse", "strings", "late string", "late error"])
def test_many_threads_on_a_large_text(kind: str) -> None:
    rng = np.random.default_rng(5)
    ends = rng.integers(0, 30_000, (60_000, 2)).tolist()
    prefix = "user" if kind == "strings" else ""
    if kind == "integers":
        ends = [(a - 20_000, b) for a, b in ends]
    if kind == "sparse":
        ends = [((a - 20_000) << 40, b << 33) for a, b in ends]
    lines = [f"{prefix}{a},{prefix}{b},{a - b}" for a, b in ends]
    if kind == "late string":
        lines[-1] = "last,1,1"
    if kind == "late error":
        lines[50_000] = "1,2,x"
        lines[55_000] = "1,2"
    data = "\n".join(lines).encode()
    if kind == "late error":
        for threads in (1, 2, 5):
            with pytest.raises(InputError, match="input:50001: expected a number in column 3, got 'x'"):
                read(data, threads=threads)
        return
    expected = reference.parse(data)
    for threads in (1, 2, 5):
        edges = read(data, threads=threads)
        u, v, names = expected.numbered()
        assert edges.u.tolist() == u
        assert edges.v.tolist() == v
        assert edges.names.to_list() == names
        assert (edges.names.integers is not None) == (kind in ("integers", "sparse"))
        assert edges.value is not None
        assert edges.value.tolist() == [row[2] for row in expected.rows]


@pytest.mark.parametrize("spelling", ["{}", "node{}", "a name of more than twelve bytes {}"])
def test_ids_with_equal_hashes(spelling: str) -> None:
    """Among 400,000 ids about 19 pairs share the 32 bits of their hash that the tables keep."""
    names = [spelling.format(i * 2**40 if spelling == "{}" else i) for i in range(400_000)]
    lines = [f"{u},{v}" for u, v in zip(names[::2], names[1::2], strict=True)]
    assert read("\n".join(lines).encode()).names.to_list() == names


def test_types_and_shapes() -> None:
    edges = read(b"1 2 3.5\n")
    assert (edges.u.dtype, edges.v.dtype) == (np.int32, np.int32)
    assert edges.value is not None
    assert edges.value.dtype == np.float64
    assert edges.line is not None
    assert edges.line.dtype == np.int64
    assert len(edges) == 1
    for nothing in (b"", b"\n\n", b"# only a comment", b"\xef\xbb\xbf", b"source,target\n"):
        edges = read(nothing)
        assert len(edges) == len(edges.names) == 0
        assert edges.u.dtype == np.int32


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1 2\n\n# c\n3\n", "input:4: expected 2 or 3 columns, got 1"),
        (b"1 2 1\n3 4\n", "input:2: expected 3 columns, got 2"),
        (b"1 2\n3 4 1\n", "input:2: expected 2 columns, got 3"),
        (b"1 2 1 9\n3 4 1\n", "input:2: expected 4 columns, got 3"),
        (b"1 2 1\n3 4 abc\n", "input:2: expected a number in column 3, got 'abc'"),
        (b"1 2 abc\n3 4 1\n", "input:1: expected a number in column 3, got 'abc'"),
        (b"1 2 1\r\n3 4 nan\r\n", "input:2: expected a finite number in column 3, got 'nan'"),
        (b"1 2 1\n3 4 1e999\n", "input:2: expected a finite number in column 3, got '1e999'"),
        (b"1,2\n,4\n", "input:2: empty node id in column 1"),
        (b"1,2\n3,\n", "input:2: empty node id in column 2"),
        (b"1 2\ncaf\xe9 4\n", "input:2: byte 0xe9 is not UTF-8 text"),
        (b"1 2\n3 4\0\n", "input:2: NUL byte; this is not a text file"),
        (b"1 2\n3 \x1b4\n", "input:2: control character 0x1b; this is not a text file"),
        (b"1 2\n3 4\x7f\n", "input:2: control character 0x7f; this is not a text file"),
        (b"1 2\r3 4\r", "input:1: carriage return inside the line"),
        (b'1,2\n"a,b\n', "input:2: a quoted field does not end on its line"),
        (b'1,2\n"a"b,c\n', "input:2: text right after a closing quote"),
        (
            "1 2\n".encode("utf-16"),
            "input: this is UTF-16 text; convert it, e.g. with: iconv -f UTF-16 -t UTF-8",
        ),
        (
            b"1 2 1\n1 2 " + "é".encode() * 40 + b"\n",
            "input:2: expected a number in column 3, got '" + "é" * 20 + "…'",
        ),
    ],
)
def test_errors_name_the_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(data)
    assert str(caught.value) == message


def test_utf8_is_what_python_says_it_is() -> None:
    """Every first and second byte, followed by none to two bytes that continue a sequence."""

    def taken(data: bytes) -> bool:
        try:
            _kernel.read_edges(data, 0, 1, " ", 2, 0, 1, None)
        except _kernel.ParseError:
            return False
        return True

    for lead in range(0x80, 0x100):
        for second in range(0x70, 0x100):
            for tail in (b"", b"\x80", b"\xbf\x80"):
                sequence = bytes([lead, second]) + tail
                assert taken(b"1 a" + sequence) == reference.is_text(sequence), sequence


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("src", "when"), "input:2: no column 'when'; the columns are src, dst, sign"),
        (("1", "4"), "input:2: no column 4; there are columns 1 to 3"),
        (("0", "1"), "input:2: no column 0; there are columns 1 to 3"),
        (("src", "1"), "input: a column is chosen twice: src, 1"),
        (("src",), "expected 2 or 3 columns to be chosen, got 1"),
    ],
)
def test_unknown_columns_list_those_there_are(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(b"# c\nsrc,dst,sign\n1,2,-1\n", columns=columns)
    assert str(caught.value) == message


def test_other_unknown_columns() -> None:
    with pytest.raises(
        InputError, match="no column 'src'; there is no header line; choose by number, 1 to 2"
    ):
        read(b"1 2\n", columns=("src", "dst"))
    with pytest.raises(InputError, match="more than one column is called 'a'"):
        read(b"a,a,b\n1,2,3\n", columns=("a", "b"))
    with pytest.raises(InputError, match=r"unknown format 'xls'; there are auto, edges, csv"):
        read(b"", format="xls")


def test_columns_choose_and_order() -> None:
    data = b"when,dst,sign,src\n2001,b,-1,a\n2002,c,+1,b\n"
    assert rows(read(data, columns=("src", "dst", "sign"))) == [("a", "b", -1, 2), ("b", "c", 1, 3)]
    assert rows(read(data, columns=("4", "2"))) == [("a", "b", None, 2), ("b", "c", None, 3)]
    assert rows(read(data, columns=("src", "2", "1"))) == [("a", "b", 2001, 2), ("b", "c", 2002, 3)]


@pytest.mark.parametrize(
    ("data", "header"),
    [
        (b"a,b,w\n1,2,3\n", True),
        (b"a,b,w\nc,d,3\n", True),
        (b"Source Target\nann bob\n", True),
        (b"FromNodeId\tToNodeId\n0\t1\n", True),
        (b"left right\n0 1\n2 3\n", True),
        (b"ann bob\n0 1\ncid 3\n", False),
        (b"ann bob\n", False),
        (b"1,2,3\n4,5,6\n", False),
        (b"ann,bob,1\ncid,dan,2\n", False),
    ],
)
def test_header_detection(data: bytes, header: bool) -> None:
    edges = read(data)
    first = tuple(data.decode().split("\n")[0].replace("\t", ",").replace(" ", ",").split(","))
    assert edges.header == (first if header else None)
    assert len(edges) == data.count(b"\n") - header


def test_ids_come_back_as_given() -> None:
    spelled = [
        "7",
        "007",
        "+7",
        "-7",
        "7.0",
        "é",
        "a b",
        'q"q',
        "a,b",
        " x ",
        "#1",
        str(2**63 - 1),
        str(2**63),
    ]
    data = "\n".join('"' + name.replace('"', '""') + '",x' for name in spelled)
    edges = read(data.encode())
    assert [name for name in edges.names if name != "x"] == spelled
    assert read(b"9223372036854775807 -9223372036854775808\n").names.integers is not None
    assert read(b"9223372036854775808 1\n").names.integers is None
    assert read(b"-0 1\n").names.to_list() == ["-0", "1"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("snap.txt", b"# Nodes: 3 Edges: 2\n# FromNodeId\tToNodeId\n0\t1\n1\t2\n"),
        ("out.konect", b"% sym signed\n% 2 3 3\n0 1 \t1\t1082008561\n1 2\t-1\t1082008562\n"),
        ("graph.csv", b"0,1\n1,2\n"),
        ("graph.tsv", b"0\t1\n1\t2\n"),
        ("graph.tsv", b"0 1\n1 2\n"),
        ("graph.csv", b"0;1\n1;2\n"),
        ("graph.edges", b"0,1\n1,2\n"),
    ],
)
def test_dialects_by_name(tmp_path: Any, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    edges = read_edges(tmp_path / name)
    assert [(edges.names[u], edges.names[v]) for u, v in zip(edges.u, edges.v, strict=True)] == [
        ("0", "1"),
        ("1", "2"),
    ]
    assert edges.source == str(tmp_path / name)


def test_a_tsv_keeps_blanks_in_names(tmp_path: Any) -> None:
    (tmp_path / "g.tsv").write_text("New York\tLos Angeles\t3\nLos Angeles\tSan José\t-2\n")
    assert read_edges(tmp_path / "g.tsv").names.to_list() == ["New York", "Los Angeles", "San José"]


def test_far_faster_than_a_loop_in_python() -> None:
    """The one promise about speed that can be kept on a busy machine: a factor, in CPU time."""
    ends = np.random.default_rng(0).integers(0, 50_000, (200_000, 2)).tolist()
    data = "\n".join(f"{a} {b}" for a, b in ends).encode()

    def loop() -> None:
        names: dict[str, int] = {}
        for line in data.decode().splitlines():
            u, v = line.split()
            names.setdefault(u, len(names))
            names.setdefault(v, len(names))

    def cpu_seconds(work: Any) -> float:
        times = []
        for _ in range(3):
            start = time.process_time()
            work()
            times.append(time.process_time() - start)
        return min(times)

    assert cpu_seconds(loop) > 2 * cpu_seconds(lambda: read(data))
