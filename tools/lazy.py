"""A tool's API names, imported on first use, so that `icml TOOL --help` imports neither the method nor numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def attach(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A module `__getattr__` for the package's `__init__`.

    Args:
        package: the package's `__name__`.
        homes: for each public name the submodule it is in; no name may be that of a submodule.
    """

    def __getattr__(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return __getattr__
