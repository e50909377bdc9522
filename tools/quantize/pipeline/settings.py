"""What a quantization is asked to do, checked before anything is read."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from icml.formats.errors import InputError
from icml.tools.quantize.linear import tensor_specs

EFFORTS = {"fast": 12, "normal": 14, "max": 16}
"""State bits of the trellis."""

METHODS = ("proteus", "twla", "gptq", "rtn")
DAMPING = {"proteus": 0.05, "twla": 0.01, "gptq": 0.01, "rtn": 0.01}
ROTATIONS = {
    "proteus": ("hadamard", "none"),
    "twla": ("both", "hadamard", "kotms", "none"),
    "gptq": ("none", "hadamard"),
    "rtn": ("none", "hadamard"),
}
"""What each method can turn its weights by; the first is the default."""

EMBEDDING, HEAD, TIED = "embedding", "head", "tied"
"""What the configuration calls the parts that stand for something else than a linear in a block."""

ALL_BITS = (1, 2, 3, 4)
HESSIANS = ("once", "sequential")
ACT_BITS = ("16", "8", "4", "mix")
MIXED_ACT_BITS = (2, 4, 6, 8)
"""What a block's activations can have when bits are mixed."""

V_PROJ = r"(^|\.)v_proj$"
"""Few weights and the largest errors: they get 4 bits unless somebody says otherwise."""


@dataclass(frozen=True)
class Protection:
    """Linears whose name matches get other bits than the rest."""

    pattern: str
    bits: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "REGEX:BITS".

        Raises:
            InputError: it is something else.
        """
        pattern, _, bits = text.rpartition(":")
        check_pattern(pattern, "--protect")
        if not pattern or not bits.isdigit() or int(bits) not in ALL_BITS:
            raise InputError(f"--protect takes REGEX:BITS with 1 to 4 bits, got {text!r}")
        return cls(pattern, int(bits))


def check_pattern(pattern: str, option: str) -> None:
    """Raises InputError if it is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise InputError(f"{option}: {pattern!r} is not a regular expression: {error}") from error


def check_generator(text: str) -> None:
    """Raises InputError if it is neither "auto", a family nor a generator such as mul32:83dcd12d."""
    from icml.tools.quantize.generators import FAMILIES, parse_generator

    if text not in ("auto", *FAMILIES):
        parse_generator(text)


@dataclass(frozen=True)
class Settings:
    """Everything that decides about the bits of the result; threads and shards do not.

    Attributes:
        method: "proteus", "twla", "gptq" or "rtn".
        bits: bits a weight; a fraction is a budget, for everything stored of the linears, spent one by one.
        effort: "fast", "normal" or "max".
        generator, pool: of the trellis code, see `quantize_linear`.
        group: columns that share a scale, for twla (default 128), gptq and rtn (64).
        rotate: None for the method's default.
        damping: part of the mean diagonal added to the Hessian's; None for the method's default.
        hessian: "once": from the original model; "sequential": from the quantized blocks before.
        act_bits: bits of activations, simulated: "16" leaves them as they are, "mix" chooses for each block.
        avg_act_bits: the most that mixed bits may be on average.
        head_bits, embed_bits: of the output and input embeddings, 8 or 16.
        skip: linears whose name matches stay as they are.
        protect: None for the default, v_proj at 4 bits.
        seed: of signs and rotations.
    """

    method: str = "proteus"
    bits: float = 2.0
    effort: str = "normal"
    generator: str = "auto"
    pool: int = 8
    group: int | None = None
    rotate: str | None = None
    damping: float | None = None
    hessian: str = "once"
    act_bits: str = "16"
    avg_act_bits: float = 4.0
    head_bits: int = 8
    embed_bits: int = 16
    skip: str | None = None
    protect: tuple[Protection, ...] | None = None
    seed: int = 0
    state_bits: int = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "state_bits", EFFORTS[self.effort])
        if self.rotate is None:
            object.__setattr__(self, "rotate", ROTATIONS[self.method][0])
        if self.group is None:
            object.__setattr__(self, "group", 128 if self.method == "twla" else 64)
        if self.damping is None:
            object.__setattr__(self, "damping", DAMPING[self.method])
        if self.protect is None:
            default = (Protection(V_PROJ, 4),)
            plain = self.method == "proteus" and not self.fractional and self.bits < 4
            object.__setattr__(self, "protect", default if plain else ())

    def _check(self) -> None:
        choices = {"method": METHODS, "effort": tuple(EFFORTS), "hessian": HESSIANS, "act_bits": ACT_BITS}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise InputError(f"expected {_option(name)} {', '.join(known)}, got {getattr(self, name)!r}")
        self._check_bits()
        if not MIXED_ACT_BITS[0] <= self.avg_act_bits <= MIXED_ACT_BITS[-1]:
            raise InputError(f"activations have 2 to 8 bits on average, not {self.avg_act_bits:g}")
        if self.rotate is not None and self.rotate not in ROTATIONS[self.method]:
            raise InputError(
                f"{self.method} rotates by {', '.join(ROTATIONS[self.method])}, not by {self.rotate!r}"
            )
        if self.damping is not None and not (math.isfinite(self.damping) and self.damping >= 0):
            raise InputError(f"the damping must not be negative, got {self.damping}")
        if self.group is not None and self.group < 1:
            raise InputError(f"a group has at least one column, got {self.group}")
        if self.method == "twla" and self.group is not None and self.group % 16:
            raise InputError(f"groups of twla are a multiple of 16 columns, got {self.group}")
        if self.pool < 1:
            raise InputError("at least one generator of the pool has to be tried")
        check_generator(self.generator)
        if self.skip is not None:
            check_pattern(self.skip, "--skip")

    def _check_bits(self) -> None:
        if not 1 <= self.bits <= 4:
            raise InputError(f"expected 1 to 4 bits a weight, got {self.bits:g}")
        if self.fractional and self.method != "proteus":
            raise InputError(f"a budget of {self.bits:g} bits is for proteus; {self.method} takes whole bits")
        if self.method == "twla" and self.bits != 2:
            raise InputError("twla is ternary; it takes no other bits")
        if self.fractional and self.hessian == "sequential":
            raise InputError("a budget of fractional bits needs --hessian once: it chooses at the end")
        for name in ("head_bits", "embed_bits"):
            if getattr(self, name) not in (8, 16):
                raise InputError(f"{_option(name)} takes 8 or 16, got {getattr(self, name)}")

    @property
    def fractional(self) -> bool:
        """Whether `bits` is a budget."""
        return self.bits != int(self.bits)

    def skips(self, name: str) -> bool:
        """Whether a linear stays as it is."""
        return self.skip is not None and re.search(self.skip, name) is not None

    def choices(self, name: str) -> tuple[int, ...]:
        """The bits that a linear is quantized at; more than one if the budget is to choose."""
        assert self.protect is not None
        for protection in self.protect:
            if re.search(protection.pattern, name):
                return (protection.bits,)
        if not self.fractional:
            return (int(self.bits),)
        return (1, 2, 3) if self.bits < 2 else (2, 3, 4)

    def input_options(self) -> dict[str, Any]:
        """Of `prepare_input`."""
        return {"rotate": self.rotate, "damp": self.damping}

    def linear_options(self, bits: int) -> dict[str, Any]:
        """Of `quantize_linear`."""
        if self.method == "proteus":
            generator: Any = self.generator
            if ":" in self.generator:
                from icml.tools.quantize.generators import parse_generator

                generator = parse_generator(self.generator)
            return {"bits": bits, "L": self.state_bits, "generator": generator, "pool": self.pool}
        if self.method == "twla":
            return {"group": self.group}
        return {"bits": bits, "group": self.group}

    def stored_bits(self, shape: tuple[int, ...], bits: int) -> int:
        """What is stored of a linear of that shape at `bits`, scales and rotations counted."""
        meta = {"method": self.method, "shape": list(shape), "bits": bits, "L": self.state_bits,
                "group": self.group, "rotate": self.rotate}  # fmt: skip
        return sum(
            8 * math.prod(size) * np.dtype(kind).itemsize for size, kind in tensor_specs(meta).values()
        )

    def to_json(self) -> dict[str, Any]:
        """As it is kept beside a quantization in progress."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def digest(self) -> str:
        """Of everything in it."""
        return hashlib.blake2b(
            json.dumps(self.to_json(), sort_keys=True).encode(), digest_size=16
        ).hexdigest()


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
