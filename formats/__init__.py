"""Reading and writing what users hold: graphs, labels, tables and points, JSON.

Everything public is importable from here and loaded when it is first used: importing the package imports neither numpy
nor any other library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from icml.formats.edges import EdgeList, read_edges
    from icml.formats.errors import IcmlError, InputError, MissingError, WorkError
    from icml.formats.graphs import edges_from_networkx, edges_from_scipy, to_networkx, to_scipy
    from icml.formats.labels import Labels, read_labels, write_labels
    from icml.formats.names import Names
    from icml.formats.output import JsonLines, atomic_output, write_json
    from icml.formats.tables import Points, Table, read_points, read_table

__all__ = [
    "EdgeList",
    "IcmlError",
    "InputError",
    "JsonLines",
    "Labels",
    "MissingError",
    "Names",
    "Points",
    "Table",
    "WorkError",
    "atomic_output",
    "edges_from_networkx",
    "edges_from_scipy",
    "read_edges",
    "read_labels",
    "read_points",
    "read_table",
    "to_networkx",
    "to_scipy",
    "write_json",
    "write_labels",
]

_HOMES = {
    "edges": ("EdgeList", "read_edges"),
    "errors": ("IcmlError", "InputError", "MissingError", "WorkError"),
    "graphs": ("edges_from_networkx", "edges_from_scipy", "to_networkx", "to_scipy"),
    "labels": ("Labels", "read_labels", "write_labels"),
    "names": ("Names",),
    "output": ("JsonLines", "atomic_output", "write_json"),
    "tables": ("Points", "Table", "read_points", "read_table"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
