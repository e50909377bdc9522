"""`icml quantize`: a model directory in, a smaller one that runs out; and what is asked of finished ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icml.cli import options
from icml.formats.errors import InputError

if TYPE_CHECKING:
    from icml.cli.anytime import Anytime
    from icml.cli.progress import Reporter
    from icml.tools.quantize.pipeline.assemble import Summary
    from icml.tools.quantize.pipeline.control import Control
    from icml.tools.quantize.pipeline.jobs import Job
    from icml.tools.quantize.pipeline.settings import Settings

_METHOD, _CALIBRATION, _RUN, _FINISHED = "Method", "Calibration", "Running", "Instead of quantizing"
_SUFFIXES = {"twla": "ternary", "gptq": "gptq", "rtn": "rtn"}


def command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="Model directory, safetensors or GGUF file; with --merge, --inspect and the like, what was made.",
        ),
    ],
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            show_default="MODEL-2bit beside MODEL, or the like",
            rich_help_panel=options.OUTPUT,
            help="Directory to make, whole or not at all.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", rich_help_panel=options.OUTPUT, help="Replace a model that is at OUT.")
    ] = False,
    json: options.Json = False,
    method: Annotated[
        str,
        typer.Option(metavar="proteus|twla|gptq|rtn", rich_help_panel=_METHOD, help="How weights are coded."),
    ] = "proteus",
    bits: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            show_default="2",
            rich_help_panel=_METHOD,
            help="Bits a weight, 1 to 4; a fraction is a budget, spent where it helps most.",
        ),
    ] = None,
    effort: Annotated[
        str,
        typer.Option(
            metavar="fast|normal|max",
            rich_help_panel=_METHOD,
            help="States of the trellis: 2^12, 2^14 or 2^16; the time grows with them.",
        ),
    ] = "normal",
    generator: Annotated[
        str,
        typer.Option(
            metavar="auto|mul32|mulx|mul16",
            rich_help_panel=_METHOD,
            help="Family of the code, or one of it: mul32:83dcd12d.",
        ),
    ] = "auto",
    pool: Annotated[
        int,
        typer.Option(metavar="N", min=1, rich_help_panel=_METHOD, help="Generators tried for each linear."),
    ] = 8,
    group: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default="128 for twla, 64 for gptq and rtn",
            rich_help_panel=_METHOD,
            help="Columns that share a scale.",
        ),
    ] = None,
    rotate: Annotated[
        str | None,
        typer.Option(
            metavar="hadamard|kotms|both|none",
            show_default="the method's best",
            rich_help_panel=_METHOD,
            help="Rotation that spreads outliers.",
        ),
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGEX:BITS",
            show_default="v_proj:4 for proteus with whole bits",
            rich_help_panel=_METHOD,
            help="Other bits for linears whose name matches; may be repeated; none protects nothing.",
        ),
    ] = None,
    skip: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX", rich_help_panel=_METHOD, help="Leave linears as they are whose name matches."
        ),
    ] = None,
    head_bits: Annotated[
        int, typer.Option(metavar="8|16", rich_help_panel=_METHOD, help="Bits of the output embedding.")
    ] = 8,
    embed_bits: Annotated[
        int,
        typer.Option(metavar="8|16", rich_help_panel=_METHOD, help="Bits of an input embedding of its own."),
    ] = 16,
    act_bits: Annotated[
        str,
        typer.Option(
            metavar="16|8|4|mix",
            rich_help_panel=_METHOD,
            help="Bits of activations, simulated; mix chooses by block.",
        ),
    ] = "16",
    avg_act_bits: Annotated[
        float,
        typer.Option(metavar="X", rich_help_panel=_METHOD, help="The most that mixed bits are on average."),
    ] = 4.0,
    distill: Annotated[
        int,
        typer.Option(
            metavar="STEPS",
            min=0,
            rich_help_panel=_METHOD,
            help="Train gains and norms for so many steps at the end.",
        ),
    ] = 0,
    damp: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            show_default="0.05 for proteus, else 0.01",
            rich_help_panel=_CALIBRATION,
            help="Part of its mean diagonal added to the Hessian.",
        ),
    ] = None,
    calib: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT|-|none",
            show_default="a text shipped with icml",
            rich_help_panel=_CALIBRATION,
            help="Text, or JSONL with a field text, of your domain; none goes without.",
        ),
    ] = None,
    calib_tokens: Annotated[
        int, typer.Option(metavar="N", min=1, rich_help_panel=_CALIBRATION, help="Tokens of it to read.")
    ] = 32768,
    seqlen: Annotated[
        int, typer.Option(metavar="N", min=2, rich_help_panel=_CALIBRATION, help="Tokens of a sequence.")
    ] = 1024,
    hessian: Annotated[
        str,
        typer.Option(
            metavar="once|sequential",
            rich_help_panel=_CALIBRATION,
            help="Measure inputs in the original model, or behind the blocks quantized so far.",
        ),
    ] = "once",
    allow_pickle: options.AllowPickle = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", rich_help_panel=_RUN, help="Go on with what an earlier run has finished."),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            rich_help_panel=_RUN,
            help="Do part I, from 0, of N of the blocks: one job of an array.",
        ),
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", rich_help_panel=_FINISHED, help="Put the shards of MODEL together.")
    ] = False,
    inspect: Annotated[
        bool, typer.Option("--inspect", rich_help_panel=_FINISHED, help="Say what MODEL consists of.")
    ] = False,
    dequantize: Annotated[
        bool,
        typer.Option(
            "--dequantize",
            rich_help_panel=_FINISHED,
            help="Write the plain 16-bit model that MODEL stands for to OUT.",
        ),
    ] = False,
    bench: Annotated[
        bool, typer.Option("--bench", rich_help_panel=_FINISHED, help="Measure how fast MODEL writes text.")
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            show_default="the model it was made from",
            rich_help_panel=_FINISHED,
            help="What --bench compares with.",
        ),
    ] = None,
    device: options.Device = "auto",
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:
    """Turn the weights of the language model MODEL into 2-bit trellis codes or ternary digits.

    OUT is a directory that transformers loads after `import icml.hf`. A run that was stopped goes on with --resume.
    """
    from icml.cli.anytime import Anytime
    from icml.cli.progress import Reporter
    from icml.formats.huggingface import work_offline

    work_offline()
    report = Reporter("quantize", quiet=quiet, verbose=verbose, progress=progress)
    action = _action(merge=merge, inspect=inspect, dequantize=dequantize, bench=bench)
    if baseline is not None and action != "bench":
        raise InputError("--baseline goes with --bench")
    with Anytime(time_limit=time_limit, trace=trace) as run:
        if action is None:
            from icml.tools.quantize.pipeline.settings import Settings

            settings = Settings(
                method=method, bits=2.0 if bits is None else bits, effort=effort, generator=generator, pool=pool,
                group=group, rotate=rotate, damping=damp, hessian=hessian, act_bits=act_bits,
                avg_act_bits=avg_act_bits, head_bits=head_bits, embed_bits=embed_bits, skip=skip,
                protect=_protections(protect), seed=seed,
            )  # fmt: skip
            job = _job(model, output or default_output(model, settings), settings, calib, shard)
            job = _replaced(
                job, tokens=calib_tokens, length=seqlen, resume=resume, force=force, distill=distill,
                allow_pickle=allow_pickle,
            )  # fmt: skip
            _quantize(job, run, report, threads, device, json)
        elif action == "merge":
            _merge(model, output, force, report, run, json)
        elif action == "inspect":
            _inspect(model, json)
        elif action == "dequantize":
            _dequantize(model, output, force, report, run, threads, json)
        else:
            _bench(model, baseline, run, report, threads, json)
        run.finish()


def default_output(model: Path, settings: Settings) -> Path:
    """Where the result goes if nobody says: SmolLM2 becomes SmolLM2-2bit beside it."""
    suffix = _SUFFIXES.get(settings.method, f"{settings.bits:g}bit")
    base = model.absolute()
    name = base.stem if base.suffix.lower() in (".safetensors", ".gguf") and not base.is_dir() else base.name
    return base.with_name(f"{name}-{suffix}")


def _action(**asked: bool) -> str | None:
    given = [name for name, wanted in asked.items() if wanted]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} are two things to do")
    return given[0] if given else None


def _protections(given: list[str] | None) -> Any:
    from icml.tools.quantize.pipeline.settings import Protection

    if not given:
        return None
    if given == ["none"]:
        return ()
    return tuple(Protection.parse(text) for text in given)


def _job(model: Path, output: Path, settings: Settings, calib: str | None, shard: str | None) -> Job:
    from icml.tools.quantize.pipeline.jobs import Job
    from icml.tools.quantize.pipeline.run import Shard

    return Job(model, output, settings, calib, shard=Shard() if shard is None else Shard.parse(shard))


def _replaced(job: Job, **changes: Any) -> Job:
    import dataclasses

    return dataclasses.replace(job, **changes)


def _quantize(job: Job, run: Anytime, report: Reporter, threads: int, device: str, json: bool) -> None:
    from icml.formats.errors import WorkError
    from icml.tools.quantize.options import Stopped
    from icml.tools.quantize.pipeline.jobs import quantize_model

    with report.progress("reading") as line:
        control = _control(run, report, line, threads, device)
        try:
            summary = quantize_model(job, control)
        except Stopped:
            report.say(f"stopped; what is finished is in {job.out}.partial, and --resume goes on with it")
            if run.interrupted is None:
                raise WorkError("the time limit came before the end; --resume goes on") from None
            return
    if summary is None:
        report.say(
            f"shard {job.shard.index} of {job.shard.count} is done; when all are: icml quantize --merge {job.out}"
        )
    else:
        _tell(summary, job.out, report, run, json)


def _control(run: Anytime, report: Reporter, line: Any, threads: int, device: str) -> Control:
    from icml.tools.quantize.pipeline.control import Control

    def on_linear(figures: dict[str, Any]) -> None:
        line.update(text=str(figures["layer"]))
        run.record(figures)
        report.detail(f"{figures['layer']}: {figures['bpw']:.3f} bits a weight, error {figures['error']:.4f}")

    def on_step(state: tuple[int, int, float]) -> None:
        done, total, divergence = state
        line.update(done=done, total=total, text=f"distilling, divergence {divergence:.4f}")
        run.record(step=done, divergence=divergence)

    return Control(
        threads=threads, device=_device(device), should_stop=run.should_stop, on_linear=on_linear, on_step=on_step,
        on_block=lambda state: line.update(done=state[0], total=state[2], text=state[1]),
        on_note=report.say,
    )  # fmt: skip


def _device(name: str) -> str:
    """Where the trellis is searched: "cpu" or a torch device."""
    if name == "cpu":
        return "cpu"
    from icml.formats.huggingface import require_transformers

    require_transformers("quantizing a model")
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if not torch.cuda.is_available():
        raise InputError(f"there is no device {name} here")
    return name


def _tell(summary: Summary, out: Path, report: Reporter, run: Anytime, json: bool) -> None:
    import dataclasses

    from icml.formats.output import write_json

    if json:
        figures = dataclasses.asdict(summary)
        figures["bits"] = {str(bits): count for bits, count in summary.bits.items()}
        figures |= {"seconds": round(run.elapsed(), 3), "output": str(out)}
        write_json("-", figures)
        return
    errors = "" if summary.error_geomean != summary.error_geomean else f", error {summary.error_geomean:.4f}"
    typer.echo(
        f"{out}: {summary.linears} linears at {summary.bpw_linear:.3f} bits a weight{errors}; "
        f"{summary.bytes_in / 1e6:.1f} MB became {summary.bytes_out / 1e6:.1f} MB in {run.elapsed():.0f} s"
    )
    for budget, error in summary.frontier:
        report.say(f"  a budget of {budget:.2f} bits would leave a mean error of {error:.4f}")
    if summary.divergence is not None:
        before, after = summary.divergence
        report.say(f"distilled: divergence on held-out text {before:.4f} before, {after:.4f} after")
    if summary.activations is not None:
        found = summary.activations
        report.say(
            f"activations: {sum(found['bits']) / len(found['bits']):.2f} bits on average, likelihood loss "
            f"{found['loss']:.4f} ({found['uniform']:.4f} with the same for all, {found['full']:.4f} with 8)"
        )


def _merge(out: Path, output: Path | None, force: bool, report: Reporter, run: Anytime, json: bool) -> None:
    from icml.tools.quantize.pipeline.jobs import merge_shards

    if output is not None:
        raise InputError("--merge OUT takes the place that the shards were given; it goes without -o")
    _tell(merge_shards(out, force=force), out, report, run, json)


def _inspect(path: Path, json: bool) -> None:
    import dataclasses

    from icml.cli.progress import print_table
    from icml.formats.output import write_json
    from icml.tools.quantize.pipeline.finished import Finished, kinds

    finished = Finished.open(path)
    found = kinds(finished)
    if json:
        asked = {key: value for key, value in finished.quantization.items() if key != "modules"}
        write_json("-", {**asked, "kinds": [dataclasses.asdict(kind) for kind in found]})
        return
    rows = [
        (k.name, k.count, f"{k.shape[0]}x{k.shape[1]}", "ternary" if k.bits is None else k.bits, round(k.bpw, 3),
         None if k.error is None else round(k.error, 5))
        for k in found
    ]  # fmt: skip
    print_table(["module", "count", "shape", "bits", "bits stored", "error"], rows)


def _dequantize(
    path: Path, output: Path | None, force: bool, report: Reporter, run: Anytime, threads: int, json: bool
) -> None:
    from icml.formats.output import write_json
    from icml.tools.quantize.pipeline.finished import Finished, dequantize

    if output is None:
        raise InputError("--dequantize needs -o DIR")
    finished = Finished.open(path)
    with report.progress("writing") as line:
        size = dequantize(finished, output, _control(run, report, line, threads, "cpu"), force=force)
    if json:
        write_json("-", {"output": str(output), "bytes_out": size, "seconds": round(run.elapsed(), 3)})
    else:
        typer.echo(f"{output}: {size / 1e6:.1f} MB")


def _bench(
    path: Path, baseline: Path | None, run: Anytime, report: Reporter, threads: int, json: bool
) -> None:
    import dataclasses

    from icml.formats.output import write_json
    from icml.tools.quantize.pipeline.finished import Finished
    from icml.tools.quantize.pipeline.generation import find_original, measure_speed

    finished = Finished.open(path)
    original = baseline or find_original(finished)
    if original is None:
        report.say("the model it was made from is not where it was; --baseline MODEL compares with one")
    with report.progress("writing text"):
        speed = measure_speed(path, original, threads=threads, should_stop=run.should_stop)
    if json:
        write_json("-", dataclasses.asdict(speed))
        return
    typer.echo(f"{path}: {speed.quantized:.1f} tokens a second")
    if speed.original is not None:
        typer.echo(f"{original}: {speed.original:.1f} tokens a second in float32; ratio {speed.ratio:.2f}")
    report.say(f"it wrote: {speed.text!r}")
