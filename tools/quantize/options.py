"""What each method can be told, and its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from icml.formats.errors import InputError, WorkError
from icml.tools.quantize.generators import FAMILIES, Generator

Seed = int | tuple[int, ...]
ROTATIONS = ("hadamard", "kotms", "both", "none")


class Stopped(WorkError):
    """The caller's `should_stop` said so."""


@dataclass(frozen=True)
class Common:
    """What every method understands.

    Attributes:
        rotate: the input's rotation: `hadamard`, `none`, or for `twla` also `kotms` (learned) and `both`.
        damp: added to the Hessian's diagonal, relative to its mean.
        seed: of everything drawn.
        threads: None for all there are; the result does not depend on it.
        should_stop: polled between pieces of work; ends with `Stopped`.
    """

    rotate: str = "none"
    damp: float = 0.01
    seed: Seed = 0
    threads: int | None = None
    should_stop: Callable[[], bool] | None = None

    rotations: ClassVar[tuple[str, ...]] = ("none", "hadamard")

    def __post_init__(self) -> None:
        if self.rotate not in self.rotations:
            raise InputError(f"rotate is one of {', '.join(self.rotations)}, not {self.rotate}")
        if not 0 <= self.damp < 1e3:
            raise InputError(f"damping is a small positive number, not {self.damp:g}")

    def poll(self) -> None:
        if self.should_stop is not None and self.should_stop():
            raise Stopped("stopped")


@dataclass(frozen=True)
class ProteusOptions(Common):
    """Trellis-coded weights.

    Attributes:
        bits: K, 1..4 bits a weight.
        L: bits of a trellis state, K+1..16; 12, 14 and 16 are what the pool was measured at.
        generator: a `Generator`, or `auto` or a family: the best of the pool on a sample of the layer.
        pool: so many of the pool are tried.
        scale: of the trellis against the weights' root mean square; feedback widens what is quantized, so above 1 is
            better; `auto` tries four on a sample of rows.
        tail: `full` or `window`, see `TrellisCode.encode`.
        costs: `auto`, `uint8` or `uint16`, see `TrellisCode.encode`.
        device: where the trellis is searched: `cpu` or a torch device.
    """

    rotate: str = "hadamard"
    damp: float = 0.05
    bits: int = 2
    L: int = 14
    generator: str | Generator = "auto"
    pool: int = 8
    scale: float | str = 1.03
    tail: str = "full"
    costs: str = "auto"
    device: str = "cpu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 4:
            raise InputError(f"proteus has 1 to 4 bits a weight, not {self.bits}")
        if not self.bits < self.L <= 16:
            raise InputError(f"at {self.bits} bits a weight L is {self.bits + 1} to 16, not {self.L}")
        if isinstance(self.generator, str) and self.generator not in ("auto", *FAMILIES):
            raise InputError(f"generator is auto, {', '.join(FAMILIES)} or a Generator, not {self.generator}")
        if self.pool < 1:
            raise InputError("at least one generator of the pool has to be tried")
        if self.scale != "auto" and not (isinstance(self.scale, int | float) and 0.1 < self.scale < 10):
            raise InputError(f"scale is auto or a number near 1, not {self.scale}")


@dataclass(frozen=True)
class TwlaOptions(Common):
    """Ternary weights.

    Attributes:
        group: columns that share a row's scale and mean, a multiple of 16.
        walks: passes over a group's columns, each with scales fitted to the signs of the one before.
        kotms_steps: steps of learning the Kronecker rotation.
    """

    rotate: str = "both"
    group: int = 128
    walks: int = 4
    kotms_steps: int = 25

    rotations: ClassVar[tuple[str, ...]] = ROTATIONS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group < 16 or self.group % 16:
            raise InputError(f"groups are a multiple of 16 columns, not {self.group}")
        if self.walks < 1 or self.kotms_steps < 0:
            raise InputError("at least one walk, and no negative number of steps")


@dataclass(frozen=True)
class ScalarOptions(Common):
    """Uniform grids by group: `gptq` and `rtn`.

    Attributes:
        bits: 1..8 a weight.
        group: columns that share a row's scale and zero.
        clip: shrink each grid to where its squared error is least, instead of minimum to maximum.
    """

    bits: int = 2
    group: int = 64
    clip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bits <= 8:
            raise InputError(f"a grid has 1 to 8 bits a weight, not {self.bits}")
        if self.group < 1:
            raise InputError("a group has at least one column")


OPTIONS: dict[str, type[ProteusOptions] | type[TwlaOptions] | type[ScalarOptions]] = {
    "proteus": ProteusOptions,
    "twla": TwlaOptions,
    "gptq": ScalarOptions,
    "rtn": ScalarOptions,
}


def options_for(method: str, given: Mapping[str, Any]) -> ProteusOptions | TwlaOptions | ScalarOptions:
    """The method's options; names it does not know are refused."""
    if method not in OPTIONS:
        raise InputError(f"no such method: {method}; there are {', '.join(OPTIONS)}")
    kind = OPTIONS[method]
    known = [f.name for f in fields(kind)]
    for name in given:
        if name not in known:
            raise InputError(f"{method} has no option {name}; it has {', '.join(known)}")
    return kind(**given)
