"""Labels of nodes, such as a clustering: lines `node<TAB>label`.

The separator is a tab if that splits the lines best, else a semicolon, comma or run of blanks. The first line is a
header if its fields are well-known names (node and cluster, id and label, …).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from icml.formats.errors import InputError
from icml.formats.output import Destination, atomic_output
from icml.formats.source import Source, read_source
from icml.formats.tsv import tsv_field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CANDIDATES = ("\t", ";", ",", " ")
_KEY_NAMES = {"node", "nodeid", "id", "vertex", "name", "key", "item", "element"}
_VALUE_NAMES = {
    "cluster",
    "clusterid",
    "label",
    "community",
    "group",
    "class",
    "part",
    "partition",
    "block",
    "side",
}


@dataclass(frozen=True, eq=False)
class Labels:
    """One label each for some nodes, in the order of the input.

    Attributes:
        keys: the nodes' names, distinct.
        values: their labels, as spelled in the input.
        lines: int64 (n,), the 1-based line of each.
        source: the input's name for messages.
    """

    keys: list[str]
    values: list[str]
    lines: NDArray[np.int64]
    source: str

    def __len__(self) -> int:
        return len(self.keys)


def read_labels(source: Source) -> Labels:
    """Reads labels from a path, "-" for standard input, or a binary file object; compression is undone.

    Raises:
        InputError: the input cannot be read; a line has not exactly two fields, or an empty node name; or a node comes
            twice, with both lines in the message.
    """
    from icml.formats import _kernel
    from icml.formats.dialect import located, sample

    content = read_source(source)
    beginning = sample(content, _CANDIDATES)
    start, first_line = 0, 1
    if beginning.rows and _is_header(beginning.rows[0].fields):
        start, first_line = beginning.rows[0].end, beginning.rows[0].line + 1
    with located(content.name):
        _, _, (keys, values), lines = _kernel.read_columns(
            content.data, start, first_line, beginning.separator, "tt", ["", ""]
        )
    seen: dict[str, int] = {}
    for i, key in enumerate(keys):
        if key == "":
            raise InputError("empty node name", content.name, int(lines[i]))
        if seen.setdefault(key, i) != i:
            message = f"node '{key}' has a label already, on line {lines[seen[key]]}"
            raise InputError(message, content.name, int(lines[i]))
    return Labels(keys, values, lines, content.name)


def _is_header(fields: Sequence[str]) -> bool:
    from icml.formats.dialect import fold

    return len(fields) == 2 and fold(fields[0]) in _KEY_NAMES and fold(fields[1]) in _VALUE_NAMES


def write_labels(dest: Destination, names: Sequence[str] | Iterable[str], labels: Iterable[object]) -> None:
    """Writes lines `node<TAB>label`, which read_labels gives back as they are.

    Args:
        dest: a path, or "-" or None for standard output; written whole or not at all.
        names: the nodes' names, distinct.
        labels: one a node; an array of integers is written in decimal.

    Raises:
        InputError: a name or label has a line break or control character, or `dest` cannot be written to.
        WorkError: writing failed, e.g. on a full disk.
        ValueError: there are more names than labels or the other way round.
    """
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    where = "stdout" if dest is None or dest == "-" else os.fspath(dest)
    with atomic_output(dest) as file:
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            if i == 0 and _is_header((name, str(value))):
                file.write("node\tcluster\n")  # lest the first node be taken for a header
            file.write(f"{tsv_field(name, where)}\t{tsv_field(str(value), where)}\n")
