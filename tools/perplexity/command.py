"""`icml perplexity`: loads one or two models, scores a text window by window, writes the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from icml.cli import options

if TYPE_CHECKING:
    from icml.cli.progress import Reporter
    from icml.tools.perplexity.report import Report

_TEXT, _COMPARISON = "Text", "Comparison"


def command(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="Model directory, also one that quantize made, or GGUF file.",
        ),
    ],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            callback=options.input_path,
            show_default=False,
            help="Text, or JSONL with a field text; - or, with a pipe, nothing: standard input.",
        ),
    ] = options.PIPED,
    *,
    window: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=2,
            show_default="1024, or what the model has if that is less",
            rich_help_panel=_TEXT,
            help="Positions the model sees at a time.",
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default="the window",
            rich_help_panel=_TEXT,
            help="Positions between windows; fewer give each token more context.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, rich_help_panel=_TEXT, help="Take only the first N tokens."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL",
            rich_help_panel=_COMPARISON,
            help="Model to compare with: divergence, agreement and difference, token by token.",
        ),
    ] = None,
    allow_pickle: options.AllowPickle = False,
    json: options.Json = False,
    output: options.Output = options.STDOUT,
    device: options.Device = "auto",
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    seed: options.Seed = 0,
    threads: options.Threads,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:
    """Measure how well the language model MODEL predicts TEXT: likelihood, perplexity, bits per byte.

    With --baseline also how far it has moved away from the model it was made from. Every figure has a 95 % interval.
    """
    from icml.cli.anytime import Anytime
    from icml.cli.progress import Reporter
    from icml.formats.huggingface import work_offline

    work_offline()
    from icml.tools.perplexity import perplexity

    report = Reporter("perplexity", quiet=quiet, verbose=verbose, progress=progress)
    with Anytime(time_limit=time_limit, trace=trace) as run, report.progress("loading") as line:

        def on_progress(state: dict[str, Any]) -> None:
            line.update(done=state["windows"], total=state["of"], text="scoring")
            run.record(state)

        found = perplexity(
            model, text, baseline=baseline, window=window, stride=stride, max_tokens=max_tokens, device=device,
            threads=threads, seed=seed, allow_pickle=allow_pickle, should_stop=run.should_stop,
            on_progress=on_progress, on_note=report.say,
        )  # fmt: skip
        _write(found, output, json)
        _say(found, report, run.elapsed())
        run.finish()


def _write(found: Report, output: str, json: bool) -> None:
    from icml.formats.output import atomic_output, write_json

    if json:
        write_json(output, found.to_json())
        return
    from icml.cli.progress import print_table

    rows = [(name, e.value, e.low, e.high) for name, e in (*found.rows(), *found.comparison_rows())]
    with atomic_output(output) as stream:
        print_table(["figure", "value", "low", "high"], rows, file=cast("TextIO", stream))


def _say(found: Report, report: Reporter, seconds: float) -> None:
    size = "" if found.bytes is None else f" ({found.bytes} bytes)"
    part = "" if found.complete else "; stopped there, the text goes on"
    report.say(f"{found.tokens} tokens{size} in {found.windows} windows of {found.window}{part}")
    if found.windows < 10:
        report.say(
            f"the intervals rest on {found.windows} windows and are rough; take more text or a shorter --window"
        )
    report.detail(f"{found.tokens / seconds:.0f} tokens a second, loading included")
