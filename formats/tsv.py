"""Tab-separated text as every reader of icml takes it back: which fields need quotes, and which cannot be written."""

from __future__ import annotations

import re

from icml.formats.errors import InputError

# What a field must be quoted for: a tab, blanks at an end, a quote, comment sign or byte-order mark at its
# beginning, or nothing in it.
_NEEDS_QUOTES = re.compile(r'\A["#%\ufeff]|\A[ \t]|[ \t]\Z|\t|\A\Z')
# What the text formats have no way to say.
_UNWRITABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def tsv_field(text: str, where: str) -> str:
    """`text` as a field of a line.

    Args:
        text: what the field holds.
        where: the output's name, for the error.

    Raises:
        InputError: a line break or control character.
    """
    if _UNWRITABLE.search(text):
        raise InputError(
            f"{text!r} has a line break or control character, which a text file cannot hold", where
        )
    if _NEEDS_QUOTES.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text
