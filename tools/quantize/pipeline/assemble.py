"""From finished units to the result: bits chosen under a budget, index, configuration, report; then the rename."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icml.formats.errors import InputError
from icml.formats.model_dir import CONFIG, INDEX, ModelDir, read_json
from icml.formats.output import atomic_output, write_json
from icml.formats.safetensors import RawTensor, SafetensorsFile, write_safetensors
from icml.tools.quantize.pipeline.budget import Offer
from icml.tools.quantize.pipeline.settings import TIED
from icml.tools.quantize.pipeline.workspace import METADATA, REPORT, Workspace

SIDE = "side"
SOURCE_CONFIG = "config.json"


@dataclass(frozen=True)
class Summary:
    """Figures of a finished quantization.

    Attributes:
        bpw_linear: bits a weight of the quantized linears, everything stored of them counted.
        bpw_total: bits a parameter of the whole model.
        error_geomean: geometric mean of the linears' relative errors.
        linears, blocks: how many.
        bytes_in, bytes_out: of the weight files.
        bits: how many linears have how many bits.
        distilled: steps of distillation.
        divergence: from the original before and after them, on calibration held out; nats a token.
        activations: bits chosen for each block's, and the likelihoods with these and other choices.
        frontier: with fractional bits, the mean error that other budgets would give.
    """

    bpw_linear: float
    bpw_total: float
    error_geomean: float
    linears: int
    blocks: int
    bytes_in: int
    bytes_out: int
    bits: dict[int, int]
    distilled: int = 0
    divergence: tuple[float, float] | None = None
    activations: dict[str, Any] | None = None
    frontier: list[tuple[float, float]] = field(default_factory=list)


def keep_side_files(source: ModelDir, space: Workspace) -> None:
    """Copies tokenizer, configuration and the like into the workspace; they wait there for the end."""
    folder = space.work / SIDE
    folder.mkdir(exist_ok=True)
    write_json(folder / SOURCE_CONFIG, source.config or {})
    for path in source.side_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with atomic_output(folder / path, "wb") as stream:
            stream.write((source.path / path).read_bytes())


def assemble(space: Workspace, plan: Mapping[str, Any]) -> Summary:
    """Puts the result together in the workspace, all of whose units must be finished.

    Raises:
        InputError: units are missing, or no choice of bits keeps the budget.
    """
    missing = space.unfinished()
    if missing:
        names = ", ".join(_unit_name(unit, space.units) for unit in missing[:20])
        more = f" and {len(missing) - 20} more" if len(missing) > 20 else ""
        raise InputError(f"not finished yet: {names}{more}", os.fspath(space.folder))
    infos = [space.info(unit) or {} for unit in range(space.units)]
    frontier: list[tuple[float, float]] = []
    if plan["fractional"]:
        offer = Offer.of([line for info in infos for line in info["report"]])
        chosen, frontier = offer.choose(plan["settings"]["bits"]), offer.frontier()
        infos = [_pick(space, unit, info, chosen) for unit, info in enumerate(infos)]
    modules = {name: meta for info in infos for name, meta in info["modules"].items()}
    report = [line for info in infos for line in info["report"]]
    write_index(space)
    _write_config(space, plan, modules)
    with atomic_output(space.folder / REPORT) as stream:
        stream.writelines(json.dumps(line) + "\n" for line in report)
    side = space.work / SIDE
    shutil.copytree(
        side, space.folder, dirs_exist_ok=True,
        ignore=lambda folder, _: {SOURCE_CONFIG} if folder == os.fspath(side) else set(),
    )  # fmt: skip
    return _summarize(space, report, plan, sum(info["weights"] for info in infos), frontier)


def _unit_name(unit: int, units: int) -> str:
    return "the rest" if unit == units - 1 else f"block {unit}"


def _pick(space: Workspace, unit: int, info: dict[str, Any], chosen: Mapping[str, int]) -> dict[str, Any]:
    """Writes a unit's file out of its candidates, and describes it."""
    if unit == space.units - 1:
        return info
    modules = {}
    tensors: dict[str, RawTensor] = {}
    candidates = space.candidates(unit)
    for key in candidates:
        name, at, rest = key.rpartition("@")
        if not at:
            tensors[key] = candidates[key]
            continue
        bits, _, suffix = rest.partition(".")
        if chosen[name] == int(bits):
            tensors[f"{name}.{suffix}"] = candidates[key]
    for key, meta in info["modules"].items():
        name, _, bits = key.rpartition("@")
        if chosen[name] == int(bits):
            modules[name] = meta
    write_safetensors(space.weights_file(unit), tensors, METADATA)
    report = [line for line in info["report"] if chosen[line["layer"]] == line["bits"]]
    return {**info, "modules": modules, "report": report}


def write_index(space: Workspace) -> None:
    """Says for each tensor in which file it is."""
    places, size = {}, 0
    for unit in range(space.units):
        file = SafetensorsFile(space.weights_file(unit))
        for name in file:
            places[name] = space.weights_file(unit).name
            size += file[name].nbytes
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(places.items()))}
    write_json(space.folder / INDEX, index, indent=2)


def _write_config(space: Workspace, plan: Mapping[str, Any], modules: dict[str, dict[str, Any]]) -> None:
    config = read_json(space.work / SIDE / SOURCE_CONFIG)
    if any(meta.get("role") == TIED for meta in modules.values()):
        config["tie_word_embeddings"] = False  # they are, by the quantized modules
    settings = plan["settings"]
    config["quantization_config"] = {
        "quant_method": "icml",
        "version": 1,
        "format": settings["method"],
        "bits": settings["bits"],
        "original": plan["original"],
        "settings": {**settings, "calibration": plan["calibration"]},
        "modules": modules,
    }
    write_json(space.folder / CONFIG, config, indent=2)


def _summarize(
    space: Workspace,
    report: list[dict[str, Any]],
    plan: Mapping[str, Any],
    weights: int,
    frontier: list[tuple[float, float]],
) -> Summary:
    """The figures of a result."""
    stored = sum(line["bpw"] * math.prod(line["shape"]) for line in report)
    files = sum(space.weights_file(unit).stat().st_size for unit in range(space.units))
    errors = [max(float(line["error"]), 1e-30) for line in report if line["error"] is not None]
    bits: dict[int, int] = {}
    for line in report:
        bits[line["bits"]] = bits.get(line["bits"], 0) + 1
    return Summary(
        bpw_linear=stored / weights if weights else math.nan,
        bpw_total=8 * files / plan["parameters"] if plan["parameters"] else math.nan,
        error_geomean=math.exp(sum(map(math.log, errors)) / len(errors)) if errors else math.nan,
        linears=len(report),
        blocks=int(plan["units"]) - 1,
        bytes_in=int(plan["bytes_in"]),
        bytes_out=files,
        bits=dict(sorted(bits.items())),
        frontier=frontier,
    )
