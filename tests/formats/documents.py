"""Edge lists in text as hypothesis draws them: mostly right, in every spelling, sometimes with one thing wrong."""

from __future__ import annotations

from hypothesis import strategies as st

BLANK_RUNS = st.text(" \t", min_size=1, max_size=3)

integers = st.integers(-(2**63), 2**63 - 1).map(str) | st.integers(0, 30).map(str)
odd_integers = st.sampled_from(
    [
        "007",
        "-0",
        "+7",
        "00",
        str(2**63),
        str(-(2**63) - 1),
        "9" * 19,
        "9" * 30,
        "1.0",
        "1e3",
        "-",
        "--1",
        "٣",
    ]
)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
plain_words = st.text("abcxyzéß€😀_.-", min_size=1, max_size=16)
ids = integers | plain_words | odd_integers | words
values = (
    st.sampled_from(
        ["1", "-1", "+1", "0", "-0", "-1.5e3", ".5", "5.", "1e-400", "4.9e-324", "+.5E-3", "0.1", "1E22"]
    )
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.integers(-(10**25), 10**25).map(str)
)
bad_values = st.sampled_from(
    [
        "abc",
        "",
        "nan",
        "-inf",
        "Infinity",
        "1e400",
        "0x1",
        "1_0",
        "1,5",
        "+-1",
        "+ 1",
        "1e",
        ".",
        "e5",
        "nan(1)",
        "¹",
    ]
)
line_ends = st.sampled_from([b"\n", b"\n", b"\r\n"])
non_data = st.sampled_from(["", " ", "\t", "# a, comment", "%x 1 2 3", ' \t# "open', "#"])
bad_lines = st.sampled_from(
    [
        b"a",
        b"1 2 3 4 5 6",
        b'"a',
        b'"a"b,c,1',
        b"\xff\xfe",
        b"a\0b",
        b"a\rb 1",
        b"\xc3",
        b"\xed\xa0\x80 1",
        b"\x7f",
        b",,",
    ]
)
headers = st.sampled_from(
    [["source", "target", "sign"], ["From_ID", "to id", "w"], ["x", "y", "z"], ["node", "7", "s"]]
)


@st.composite
def fields(draw: st.DrawFn, text: str, separator: str) -> str:
    """`text` as a field, quoted if it must be, or just so."""
    must = (
        text == ""
        or text[0] == '"'
        or text.strip(" \t") != text
        or (separator == " " and any(c in " \t" for c in text))
        or (separator != " " and separator in text)
    )
    if must or draw(st.integers(0, 9)) == 0:
        return '"' + text.replace('"', '""') + '"'
    return text


@st.composite
def lines(draw: st.DrawFn, cells: list[str], separator: str) -> str:
    spelled = [draw(fields(cell, separator)) for cell in cells]
    if separator == " ":
        line = "".join(cell + draw(BLANK_RUNS) for cell in spelled)
        return line if draw(st.booleans()) else line.rstrip(" \t")
    padding = st.sampled_from(["", "", "", " ", "  "] + ([] if separator == "\t" else ["\t"]))
    return separator.join(draw(padding) + cell + draw(padding) for cell in spelled)


@st.composite
def documents(draw: st.DrawFn, separators: str = ",; \t") -> bytes:
    """The bytes of an edge list, or of something close to one."""
    separator = draw(st.sampled_from(separators))
    width = draw(st.sampled_from([2, 3, 3, 4]))
    id_kind = draw(st.sampled_from([integers, ids, plain_words]))
    rows: list[list[str]] = []
    if draw(st.integers(0, 3)) == 0:
        rows.append([*draw(headers), "extra"][:width])
    for _ in range(draw(st.integers(0, 12))):
        value = draw(bad_values) if draw(st.integers(0, 60)) == 0 else draw(values)
        rows.append([draw(id_kind), draw(id_kind), value, draw(words)][:width])
    out = [draw(lines(row, separator)).encode() for row in rows]
    for _ in range(draw(st.integers(0, 3))):
        out.insert(draw(st.integers(0, len(out))), draw(non_data).encode())
    if draw(st.integers(0, 5)) == 0:
        out.insert(draw(st.integers(0, len(out))), draw(bad_lines))
    text = b"".join(line + draw(line_ends) for line in out)
    if draw(st.integers(0, 4)) == 0:
        text = text.rstrip(b"\r\n")
    return (b"\xef\xbb\xbf" if draw(st.integers(0, 4)) == 0 else b"") + text
