"""Text for language models: what is a document, and how many bytes tokens stand for."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from icml.formats.corpus import encode, read_texts
from icml.formats.errors import InputError


def texts(data: bytes | str) -> list[str]:
    return read_texts(io.BytesIO(data.encode() if isinstance(data, str) else data))


def test_plain_text_is_one_document() -> None:
    assert texts("a\n\nb\r\n") == ["a\n\nb\r\n"]
    assert texts(gzip.compress("häß".encode())) == ["häß"]
    assert texts(b"\xef\xbb\xbfa") == ["a"]


def test_lines_of_json_are_documents() -> None:
    rows = [{"text": "one\u2028still one\x85"}, {"content": "two"}, {"text": "", "content": "not this"}]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    assert texts(lines + "\n\n") == ["one\u2028still one\x85", "two", ""]
    assert texts(lines.replace("\n", "\r\n")) == ["one\u2028still one\x85", "two", ""]


@pytest.mark.parametrize("text", ["{ not JSON }", "{}x", "{1}\n{2}", "{" * 100_000])
def test_text_that_begins_with_a_brace_is_text(text: str) -> None:
    assert texts(text) == [text]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "holds no text"),
        (b" \n\t", "holds no text"),
        (b"\0", "binary data"),
        (b"a\nb\n\xc3(", "input:3: not UTF-8 text"),
        (b'{"text": "a"}\n[1]', "input:2: no string called 'text' or 'content'"),
        (b'{"text": "a"}\n\n{"text": 1}', "input:3: no string"),
        (b'{"text": "a"}\n{', "input:2: not JSON"),
        (b'{"title": "a"}', "input:1: no string"),
        (b'{"text": " "}\n{"text": ""}', "holds no text"),
    ],
)
def test_what_is_no_text(data: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        texts(data)
    assert message in str(caught.value)


class Words:
    """A tokenizer of words, without the fast ones' knowledge of where they are."""

    eos_token_id = None

    def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
        return {"input_ids": [len(word) for word in text.split()]}


def test_a_tokenizer_that_does_not_say_where_its_tokens_are() -> None:
    found = encode(Words(), ["a bb", "ccc"], 2)
    assert found.ids.tolist() == [1, 2]
    assert found.bytes is None
    assert encode(Words(), []).ids.tolist() == []
