"""The instruction sets kernels come from and go to, and how each is compiled for and run."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from icml.formats.errors import InputError


@dataclass(frozen=True)
class Target:
    """An instruction set.

    Attributes:
        name: as the command line says it.
        arch: the machine, as `uname -m` says it.
        triple: zig's and clang's name of the platform that programs are built for.
        flags: select the instruction set in `zig cc`.
        qemu: the user-mode emulator's name.
        cpu: its `-cpu`.
        vlens: vector lengths in bits that a result must not depend on; empty where the length is fixed.
        width: bytes of the vectors that code is written for.
        guards: macros by which libraries recognise the instruction set.
    """

    name: str
    arch: str
    triple: str
    flags: tuple[str, ...]
    qemu: str
    cpu: str
    vlens: tuple[int, ...] = ()
    width: int = 16
    guards: tuple[str, ...] = ()


# The source side of NEON needs every extension whose intrinsics the table has.
_NEON_CPU = "generic+v8_6a+fullfp16+fp16fml+dotprod+i8mm+bf16+rdm"
TARGETS = {
    target.name: target
    for target in (
        Target(
            "neon",
            "aarch64",
            "aarch64-linux-musl",
            (),
            "qemu-aarch64",
            "max",
            guards=("__ARM_NEON", "__ARM_NEON__", "__aarch64__"),
        ),
        Target(
            "rvv",
            "riscv64",
            "riscv64-linux-musl",
            ("-mcpu=baseline_rv64+v",),
            "qemu-riscv64",
            "max",
            vlens=(128, 256, 512),
            guards=("__riscv_v", "__riscv_vector"),
        ),
        # Without LASX: with it on, LLVM splits widening operations on 128-bit vectors into scalars.
        Target(
            "lsx",
            "loongarch64",
            "loongarch64-linux-musl",
            ("-mcpu=la464+lsx-lasx",),
            "qemu-loongarch64",
            "max",
            guards=("__loongarch_sx",),
        ),
        Target(
            "lasx",
            "loongarch64",
            "loongarch64-linux-musl",
            ("-mcpu=la464+lsx+lasx",),
            "qemu-loongarch64",
            "max",
            width=32,
            guards=("__loongarch_asx", "__loongarch_sx"),
        ),
        Target(
            "sse",
            "x86_64",
            "x86_64-linux-musl",
            ("-mcpu=x86_64_v2",),
            "qemu-x86_64",
            "max",
            guards=("__SSE2__", "__SSSE3__", "__SSE4_1__"),
        ),
        Target(
            "avx2",
            "x86_64",
            "x86_64-linux-musl",
            ("-mcpu=x86_64_v3",),
            "qemu-x86_64",
            "max",
            width=32,
            guards=("__AVX2__", "__AVX__", "__FMA__", "__F16C__"),
        ),
    )
}

# What a source ISA can be carried to.
REACHABLE = {
    "neon": ("rvv", "lsx", "lasx"),
    "sse": ("neon", "rvv", "lsx", "lasx"),
    "avx2": ("neon", "rvv", "lsx", "lasx"),
}

# Optimisation that kernels are shipped with; contraction would fuse what the source ISA rounds twice.
FLAGS = ("-static", "-O3", "-fno-sanitize=all", "-fomit-frame-pointer", "-ffp-contract=off")


def target(name: str) -> Target:
    """The target of that name.

    Raises:
        InputError: there is none.
    """
    if name not in TARGETS:
        raise InputError(f"unknown instruction set {name!r}; known are {', '.join(TARGETS)}")
    return TARGETS[name]


def source_flags(name: str) -> tuple[str, ...]:
    """Flags that let a program use every intrinsic of a source ISA that the table knows."""
    return (f"-mcpu={_NEON_CPU}",) if name == "neon" else TARGETS["avx2"].flags


def is_native(name: str) -> bool:
    """Whether this machine runs the target's programs without an emulator."""
    wanted = target(name)
    return platform.machine() in (wanted.arch, {"x86_64": "AMD64"}.get(wanted.arch)) and _has_features(name)


def _has_features(name: str) -> bool:
    if name != "avx2":
        return name in ("sse", "neon")
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        return False
    return {"avx2", "fma", "f16c"} <= set(flags)
