"""Where a fit computes: the CPU kernels, or torch on a GPU.

Whether there is a GPU is asked of the operating system first, so that torch is not imported where it is of no use.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from icml.formats.errors import InputError, MissingError

TORCH_CPU = "torch-cpu"
"""Torch on the CPU: the same code as on a GPU, for tests."""
WORTH = 2e8
"""Cells, or entries, times rank from which `auto` takes a GPU; below, importing torch takes longer than a fit."""
_GPU_FILES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_INSTALL = "pip install torch"


def choose_device(wanted: str, work: float, local_rank: int = 0) -> str:
    """The device of a fit: "cpu", a CUDA device such as "cuda:0", or "torch-cpu".

    Args:
        wanted: "auto", "cpu", "cuda", "cuda:N" or "torch-cpu".
        work: cells, or listed entries, times rank.
        local_rank: number of this process on its machine; processes take GPUs in turn.

    Raises:
        InputError: no such kind of device.
        MissingError: a GPU, or torch, was asked for and is not here.
    """
    if wanted == "auto":
        return _automatic(local_rank) if work >= WORTH and gpu_in_sight() else "cpu"
    if wanted == "cpu":
        return "cpu"
    kind, _, number = wanted.partition(":")
    if wanted != TORCH_CPU and (kind != "cuda" or (number and not number.isdecimal())):
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {wanted!r}")
    if find_spec("torch") is None:
        raise MissingError(f"device {wanted} needs torch", _INSTALL)
    if wanted == TORCH_CPU:
        return wanted
    gpus = cuda_devices()
    if gpus == 0:
        raise MissingError(f"device {wanted} needs a GPU that torch can use", "--device cpu")
    if number and int(number) >= gpus:
        raise MissingError(f"device {wanted} is not here", f"--device cuda:0 to cuda:{gpus - 1}")
    return f"cuda:{int(number) if number else local_rank % gpus}"


def gpu_in_sight() -> bool:
    """Whether this machine has a GPU's driver and torch is installed; imports nothing."""
    return "torch" in sys.modules or (
        any(Path(file).exists() for file in _GPU_FILES) and find_spec("torch") is not None
    )


def cuda_devices() -> int:
    """How many GPUs torch can use; imports torch."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _automatic(local_rank: int) -> str:
    gpus = cuda_devices()
    return f"cuda:{local_rank % gpus}" if gpus else "cpu"
