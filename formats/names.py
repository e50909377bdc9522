"""Node names: a sequence of strings that stays compact when every name is an integer.

Names come from input as strings and go back to output as given. A graph of ten million nodes would need about a
gigabyte as a list of `str`; here integer names are one array (or just a range), others one block of UTF-8 text.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray


class Names(Sequence[str]):
    """An immutable sequence of distinct strings; make one with `from_integers`, `from_range` or `from_strings`.

    `names[i]` is a `str`, a slice a list of them. Two Names, or Names and a list or tuple, are equal when they hold the
    same strings in the same order.
    """

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def from_integers(ids: NDArray[np.int64]) -> Names:
        """Names that are the decimal spelling of `ids`, int64 of shape (n,), distinct."""
        return _IntegerNames(ids)

    @staticmethod
    def from_range(start: int, count: int) -> Names:
        """The names str(start), …, str(start + count - 1)."""
        return _IntegerNames(range(start, start + count))

    @staticmethod
    def from_strings(names: Iterable[str]) -> Names:
        """The given strings, which must be distinct."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        return _StringNames(b"".join(encoded), ends)

    @staticmethod
    def from_utf8(text: bytes, ends: NDArray[np.int64]) -> Names:
        """Names lying one after the other in `text`; `ends`, int64 of shape (n,), says where each one ends."""
        return _StringNames(text, ends)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.take(range(*index.indices(len(self))))
        i = index.__index__()
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {len(self)} names, none with index {i}")
        return self._get(i % len(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Names | list | tuple):
            return NotImplemented
        return len(self) == len(other) and self.to_list() == list(other)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3])) + (", …" if len(self) > 3 else "")
        return f"<{len(self)} names: {shown}>" if len(self) else "<no names>"

    def take(self, indices: Iterable[int]) -> list[str]:
        """The names at `indices`, each of which lies in 0 … len - 1."""
        return [self._get(int(i)) for i in indices]

    def index_of(self, name: str) -> int:
        """The index of `name`.

        Raises:
            KeyError: there is no such name.
        """
        i = self._find(name)
        if i < 0:
            raise KeyError(name)
        return i

    def lookup(self, names: Iterable[str]) -> NDArray[np.int32]:
        """The index of each of `names`, -1 for one that is unknown: int32 of shape (len(names),)."""
        return np.fromiter(map(self._find, names), np.int32)

    @property
    def integers(self) -> NDArray[np.int64] | None:
        """The names as int64 of shape (n,) if they are stored as integers, else None."""
        return None

    @abstractmethod
    def to_list(self) -> list[str]:
        """All names as `str`."""

    @abstractmethod
    def _get(self, i: int) -> str:
        """The name at 0 <= i < len."""

    @abstractmethod
    def _find(self, name: str) -> int:
        """The index of `name`, -1 for an unknown one."""


class _IntegerNames(Names):
    def __init__(self, ids: NDArray[np.int64] | range) -> None:
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def integers(self) -> NDArray[np.int64]:
        return np.asarray(self._ids, np.int64)

    def to_list(self) -> list[str]:
        return list(map(str, self._ids if isinstance(self._ids, range) else self._ids.tolist()))

    def _get(self, i: int) -> str:
        return str(self._ids[i])

    def lookup(self, names: Iterable[str]) -> NDArray[np.int32]:
        parsed = [_canonical(name) for name in names]
        known = np.array([value is not None for value in parsed], bool)
        values = np.array([0 if value is None else value for value in parsed], np.int64)
        if isinstance(self._ids, range):
            found = values - self._ids.start
            known &= (found >= 0) & (found < len(self._ids))
        elif len(self._ids):
            order, ids = self._sorted
            place = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
            known &= ids[place] == values
            found = order[place]
        else:
            found, known = values, np.zeros(len(values), bool)
        return np.where(known, found, -1).astype(np.int32)

    def _find(self, name: str) -> int:
        return int(self.lookup([name])[0])

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        ids = self.integers
        order = np.argsort(ids)
        return order, ids[order]


def _canonical(name: str) -> int | None:
    """The int64 that `name` spells canonically, so not "007" and not "+7"."""
    try:
        value = int(name)
    except ValueError:
        return None
    return value if str(value) == name and -(1 << 63) <= value < 1 << 63 else None


class _StringNames(Names):
    def __init__(self, text: bytes, ends: NDArray[np.int64]) -> None:
        self._text = text
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def to_list(self) -> list[str]:
        ends = self._ends.tolist()
        spans = zip([0, *ends], ends, strict=False)
        if self._text.isascii():  # one character is one byte
            text = self._text.decode("ascii")
            return [text[begin:end] for begin, end in spans]
        return [self._text[begin:end].decode("utf-8", "surrogatepass") for begin, end in spans]

    def _get(self, i: int) -> str:
        begin = self._ends[i - 1] if i else 0
        return self._text[begin : self._ends[i]].decode("utf-8", "surrogatepass")

    def _find(self, name: str) -> int:
        return self._positions.get(name, -1)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.to_list())}
