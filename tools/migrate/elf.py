"""Function symbols of ELF programs and objects: zig ships no `nm` (System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from icml.formats.errors import InputError

_SYMTAB, _FUNCTION = 2, 2
# Fields of a section header and of a symbol in 64-bit little-endian files.
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Symbol:
    """A function: where its code starts and how many bytes it has."""

    name: str
    address: int
    size: int


def functions(path: Path) -> list[Symbol]:
    """The functions that a file defines, by address.

    Raises:
        InputError: it is no 64-bit little-endian ELF file, or is cut short.
    """
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise InputError("not a 64-bit little-endian ELF file", str(path))
    try:
        found = [symbol for table in _tables(data) for symbol in table]
    except (struct.error, IndexError, ValueError):
        raise InputError("the ELF file is cut short", str(path)) from None
    return sorted(found, key=lambda symbol: (symbol.address, symbol.name))


def _tables(data: bytes) -> list[list[Symbol]]:
    start, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    sections = [_SECTION.unpack_from(data, start + i * size) for i in range(count)]
    tables = []
    for section in sections:
        if section[1] == _SYMTAB:
            names = sections[section[6]]
            text = data[names[4] : names[4] + names[5]]
            tables.append(_symbols(data[section[4] : section[4] + section[5]], text))
    return tables


def _symbols(table: bytes, names: bytes) -> list[Symbol]:
    result = []
    for name, info, _, section, address, size in _SYMBOL.iter_unpack(table):
        # Section 0 holds what other files define.
        if info & 15 == _FUNCTION and section:
            result.append(
                Symbol(names[name : names.index(b"\0", name)].decode(errors="replace"), address, size)
            )
    return result
