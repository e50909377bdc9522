"""A whole quantization: from a model's path to the finished directory, in one process or as one of several shards."""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icml.formats.corpus import load_tokenizer, read_texts
from icml.formats.errors import InputError
from icml.formats.gguf_model import convert_gguf, is_gguf
from icml.formats.huggingface import require_transformers
from icml.formats.model_dir import ModelDir, open_model
from icml.formats.source import Source
from icml.tools.quantize.pipeline.assemble import Summary, assemble, keep_side_files
from icml.tools.quantize.pipeline.bare import bare_tensors, run_bare
from icml.tools.quantize.pipeline.budget import check_budget
from icml.tools.quantize.pipeline.calibration import Calibration, calibrate, shipped_text
from icml.tools.quantize.pipeline.control import Control
from icml.tools.quantize.pipeline.run import Run, Shard
from icml.tools.quantize.pipeline.settings import Settings
from icml.tools.quantize.pipeline.skeleton import Skeleton, check_language_model, check_not_quantized
from icml.tools.quantize.pipeline.workspace import Workspace, check_out, check_space

NO_CALIBRATION = "none"
BLIND = "nothing is known of the inputs, and the error is about three times as large"
DEQUANTIZED = "they are dequantized, and its error adds to what is made here"
SHIPPED = "the text shipped with icml (technical English, PSF-2.0, BSD-3-Clause and public domain)"


@dataclass(frozen=True)
class Job:
    """What is asked for.

    Attributes:
        model: directory, safetensors or GGUF file.
        out: the directory to make.
        settings: how.
        calibration: text, JSONL or "-"; None for the text shipped here, "none" to go without.
        tokens, length: of the calibration.
        shard: part of the blocks.
        resume, force: go on with, or throw away, what an earlier run left.
        distill: steps of distillation at the end.
        allow_pickle: read weights that are pickles.
    """

    model: Path
    out: Path
    settings: Settings = field(default_factory=Settings)
    calibration: Source | None = None
    tokens: int = 32768
    length: int = 1024
    shard: Shard = field(default_factory=Shard)
    resume: bool = False
    force: bool = False
    distill: int = 0
    allow_pickle: bool = False


@contextmanager
def opened(path: Path, control: Control, *, allow_pickle: bool = False) -> Iterator[ModelDir]:
    """The model at a path; a GGUF file by way of a temporary directory."""
    if not (path.is_file() and is_gguf(path)):
        yield open_model(path, allow_pickle=allow_pickle)
        return
    with tempfile.TemporaryDirectory(prefix="icml-gguf-") as folder:
        stored = convert_gguf(path, folder)
        if stored not in ("F32", "F16", "BF16"):
            control.on_note(f"{path}: the weights are {stored}; {DEQUANTIZED}")
        yield open_model(folder)


def quantize_model(job: Job, control: Control | None = None) -> Summary | None:
    """Quantizes a model, or one shard of it.

    Returns:
        figures of the result; None if other shards are still to be done.

    Raises:
        InputError: the model, the calibration or the options cannot be used; `out` is untouched.
        MissingError: torch or transformers is not installed.
        Stopped: `control.should_stop` said so; what is finished stays beside `out`.
        WorkError: the disk is full.
    """
    control = control or Control()
    _check(job)
    with opened(job.model, control, allow_pickle=job.allow_pickle) as source:
        note = check_not_quantized(source)
        if note:
            control.on_note(note)
        if source.config is None:
            return _quantize_bare(job, source, control)
        skeleton = Skeleton.build(source)
        if skeleton.in_memory:
            control.on_note(
                "this architecture's weights are stored otherwise than used; the whole model is in memory"
            )
        _note_others(skeleton, control)
        calibration = _calibration(job, source, skeleton, control)
        _check_whole(job, skeleton, calibration)
        plan = _plan(
            job, len(skeleton.blocks) + 1, {name: skeleton.raw(name).shape for name in skeleton.homes}, source
        )
        if calibration is not None:
            plan["calibration"] = {"tokens": int(calibration.tokens.size), "digest": calibration.digest()}
        check_space(job.out, _need(job, skeleton))
        with _begin(job, plan) as space:
            if job.shard.index == 0:
                keep_side_files(source, space)
            Run(skeleton, job.settings, calibration, space, control, job.shard).execute()
            return None if job.shard.count > 1 else _finish(job, space, plan, skeleton, calibration, control)


def merge_shards(out: Path, *, force: bool = False) -> Summary:
    """Puts together what the jobs of an array have made.

    Raises:
        InputError: there is nothing, or not everything yet.
    """
    with Workspace.of(out, force=force) as (space, plan):
        summary = assemble(space, plan)
        space.publish()
        return summary


def _check(job: Job) -> None:
    settings = job.settings
    if job.shard.count > 1 and job.distill:
        raise InputError("--distill looks at the whole model and does not go with --shard")
    if job.shard.count > 1 and settings.act_bits == "mix":
        raise InputError("--act-bits mix looks at the whole model and does not go with --shard")
    if job.shard.count > 1 and settings.hessian == "sequential":
        raise InputError(
            "--hessian sequential needs the blocks before, quantized, and does not go with --shard"
        )
    needs = {"--hessian sequential": settings.hessian == "sequential", "--distill": job.distill > 0,
             "--act-bits": settings.act_bits != "16"}  # fmt: skip
    for option, needed in needs.items():
        if needed and job.calibration == NO_CALIBRATION:
            raise InputError(f"{option} needs calibration text")
    if job.distill and (settings.method != "proteus" or settings.act_bits != "16"):
        raise InputError("--distill is for proteus with --act-bits 16")
    if job.distill < 0:
        raise InputError("--distill takes a number of steps")
    if job.tokens < 1 or job.length < 2:
        raise InputError("calibration takes at least one token, in sequences of at least two")
    _check_places(job)


def _check_whole(job: Job, skeleton: Skeleton, calibration: Calibration | None) -> None:
    """What the model and the text must allow at the end, checked before the hours until then."""
    if job.settings.act_bits == "mix":
        check_language_model(skeleton, "--act-bits mix")
    if job.distill and calibration is not None:
        from icml.tools.quantize.pipeline.distill import check_distillable

        check_distillable(skeleton, calibration)


def _check_places(job: Job) -> None:
    """Before the model is even opened: no hours are spent on a result that cannot be put there."""
    if not job.model.exists():
        raise InputError("no such file or directory", os.fspath(job.model))
    model, out = job.model.resolve(), job.out.resolve()
    if model == out or model in out.parents or out in model.parents:
        raise InputError("lies inside the model's directory, or around it", os.fspath(job.out))
    if not job.out.name:
        raise InputError("is no name for a directory", os.fspath(job.out))
    check_out(job.out, force=job.force)
    check_space(job.out, 0)


def _calibration(job: Job, source: ModelDir, skeleton: Skeleton, control: Control) -> Calibration | None:
    if job.calibration == NO_CALIBRATION:
        control.on_note(f"no calibration: {BLIND}")
        return None
    texts = shipped_text() if job.calibration is None else read_texts(job.calibration)
    if job.calibration is None:
        control.on_note(f"calibrating on {SHIPPED}; --calib takes text of your own domain")
    config = skeleton.model.config.get_text_config()
    tokenizer = load_tokenizer(require_transformers("quantizing a model"), source.path)
    limits = (job.length, getattr(config, "max_position_embeddings", None), tokenizer.model_max_length)
    found = calibrate(
        texts, tokenizer, tokens=job.tokens, length=min(int(limit) for limit in limits if limit),
        vocabulary=int(config.vocab_size), source=SHIPPED if job.calibration is None else job.calibration,
    )  # fmt: skip
    widest = max(m.in_features for i in range(len(skeleton.blocks)) for m in skeleton.linears(i).values())
    if found.tokens.size < 2 * widest:
        control.on_note(
            f"{found.tokens.size} calibration tokens are few for inputs of {widest}: their Hessian has not full rank"
        )
    return found


def _note_others(skeleton: Skeleton, control: Control) -> None:
    """Says if much of the blocks is not in linears, as with experts that are one tensor of three dimensions."""
    inside = sum(
        math.prod(skeleton.raw(n).shape)
        for i in range(len(skeleton.blocks))
        for n in skeleton.block_tensors(i)
    )
    linear = sum(m.weight.numel() for i in range(len(skeleton.blocks)) for m in skeleton.linears(i).values())
    if linear < 0.9 * inside:
        control.on_note(
            f"{100 * (1 - linear / inside):.0f} % of the blocks' weights are not in linears and stay as they are"
        )


def _plan(job: Job, units: int, shapes: dict[str, tuple[int, ...]], source: ModelDir) -> dict[str, Any]:
    return {
        "version": 1,
        "units": units,
        "settings": job.settings.to_json(),
        "fractional": job.settings.fractional,
        "calibration": None,
        "parameters": sum(map(math.prod, shapes.values())),
        "bytes_in": sum(source[name].nbytes for name in source),
        "original": os.path.relpath(job.model.absolute(), job.out.absolute()),
    }


def _need(job: Job, skeleton: Skeleton) -> int:
    """Bytes on the disk, about.

    Raises:
        InputError: the budget of bits is too small for any choice.
    """
    settings = job.settings
    shapes = {f"{name}.weight": tuple(module.weight.shape) for i in range(len(skeleton.blocks))
              for name, module in skeleton.linears(i).items() if not settings.skips(name)}  # fmt: skip
    choices = {name: settings.choices(name.removesuffix(".weight")) for name in shapes}
    least = sum(settings.stored_bits(shape, choices[name][0]) for name, shape in shapes.items())
    weights = sum(map(math.prod, shapes.values()))
    if settings.fractional:
        check_budget(settings.bits, least / max(weights, 1))
        least = sum(
            settings.stored_bits(shape, bits) for name, shape in shapes.items() for bits in choices[name]
        )
        least += int(settings.bits * weights)
    others = sum(skeleton.raw(name).nbytes for name in skeleton.homes if name not in shapes)
    return (least // 8 + others) // job.shard.count


def _begin(job: Job, plan: dict[str, Any]) -> AbstractContextManager[Workspace]:
    shared = job.shard.count > 1
    return Workspace.begin(job.out, plan, join=job.resume or shared, force=job.force, shared=shared)


def _finish(
    job: Job,
    space: Workspace,
    plan: dict[str, Any],
    skeleton: Skeleton | None,
    calibration: Calibration | None,
    control: Control,
) -> Summary:
    summary = assemble(space, plan)
    if job.settings.act_bits == "mix" and skeleton is not None and calibration is not None:
        from icml.tools.quantize.pipeline.mixing import mix_activations

        mixture = mix_activations(space, skeleton, calibration, job.settings, control)
        summary = dataclasses.replace(summary, activations=dataclasses.asdict(mixture))
    if job.distill and skeleton is not None and calibration is not None:
        from icml.tools.quantize.pipeline.distill import Recipe, distill

        learnt = distill(space, skeleton, calibration, Recipe(job.distill, seed=job.settings.seed), control)
        summary = dataclasses.replace(
            summary, distilled=job.distill, divergence=(learnt.before, learnt.after)
        )
    space.publish()
    return summary


def _quantize_bare(job: Job, source: ModelDir, control: Control) -> Summary:
    settings = job.settings
    if job.calibration not in (None, NO_CALIBRATION):
        raise InputError("is tensors without a model, which no text can calibrate", source.name)
    if job.shard.count > 1 or settings.hessian == "sequential" or job.distill or settings.act_bits != "16":
        raise InputError(
            "is tensors without a model: --shard, --distill, --act-bits and --hessian sequential are not for it",
            source.name,
        )
    matrices = [name for name, matrix in bare_tensors(source, settings) if matrix]
    if not matrices:
        raise InputError("holds no matrix to quantize", source.name)
    control.on_note(f"tensors without a model: {BLIND}")
    plan = _plan(job, len(matrices) + 1, {name: source[name].shape for name in source}, source)
    check_space(job.out, int(plan["parameters"] * (9 if settings.fractional else settings.bits + 0.5) / 8))
    with _begin(job, plan) as space:
        keep_side_files(source, space)
        run_bare(source, settings, space, control)
        return _finish(job, space, plan, None, None, control)
