"""`icml shapleig`: makes studies, asks, tells, runs the user's command, reports."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icml.cli import options
from icml.formats.errors import InputError, WorkError

if TYPE_CHECKING:
    from icml.cli.progress import Reporter
    from icml.tools.shapleig.coalition_text import Form, Players
    from icml.tools.shapleig.design import ShapleyDesign
    from icml.tools.shapleig.opening import Wish
    from icml.tools.shapleig.study import Study

_STUDY, _CHOICE, _EVALUATION, _STOPPING, _OUTPUT = "Study", "Choice", "Evaluation", "Stopping", "Output"


class Action(StrEnum):
    """What to do."""

    INIT = "init"
    RUN = "run"
    ASK = "ask"
    TELL = "tell"
    REPORT = "report"
    STREAM = "stream"


class CriterionName(StrEnum):
    """Choices of --criterion."""

    AUTO = "auto"
    EIG = "eig"
    TRACE = "trace"
    VARIANCE = "variance"
    RANDOM = "random"


class NoiseMode(StrEnum):
    """Choices of --noise."""

    FIXED = "fixed"
    LEARN = "learn"


_MAKES = {Action.INIT, Action.RUN, Action.STREAM}
_APPLIES: dict[str, set[Action]] = {
    "results": {Action.TELL},
    "n": {*_MAKES, Action.ASK},
    "index": {*_MAKES, Action.REPORT},
    "criterion": _MAKES,
    "noise": {*_MAKES, Action.REPORT},
    "cost": _MAKES,
    "candidates": _MAKES,
    "seed": _MAKES,
    "exec_": {Action.RUN, Action.ASK},
    "budget": {Action.RUN, Action.STREAM},
    "jobs": {Action.RUN},
    "slurm": {Action.ASK},
    "retry": {Action.RUN, Action.ASK},
    "keep_pending": {Action.RUN},
    "tol": {Action.RUN, Action.STREAM, Action.REPORT},
    "stable_top": {Action.RUN, Action.STREAM, Action.REPORT},
    "time_limit": {Action.RUN, Action.STREAM},
    "trace": {Action.RUN},
    "bits": {Action.ASK, Action.STREAM},
    "json": {Action.RUN, Action.ASK, Action.REPORT, Action.STREAM},
    "plot": {Action.RUN, Action.REPORT},
    "compare": {Action.REPORT},
    "output": {*_MAKES, Action.ASK, Action.REPORT},
}
"""Which actions an option is for; what is not here is for all."""


def command(
    ctx: typer.Context,
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="init, run, ask, tell, report or stream.")],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAYERS|STUDY",
            show_default=False,
            help="init, run, stream: a file with one player a line, or a,b,c. ask, tell, report: the study.",
        ),
    ] = None,
    results: Annotated[
        str,
        typer.Argument(metavar="RESULTS", show_default=False, help="tell: lines COALITION,VALUE[,COST]; - is a pipe."),
    ] = options.PIPED,
    *,
    n: Annotated[
        int | None,
        typer.Option(
            "-n", metavar="INT", min=1, rich_help_panel=_STUDY,
            help="ask: how many coalitions (1); otherwise players p1 .. pN instead of PLAYERS.",
        ),
    ] = None,
    index: Annotated[
        str,
        typer.Option(metavar="INDEX", rich_help_panel=_STUDY, help="shapley, banzhaf, beta:A,B or binomial:Q."),
    ] = "shapley",
    noise: Annotated[
        NoiseMode, typer.Option(rich_help_panel=_STUDY, help="Take values as exact, or learn how noisy they are.")
    ] = NoiseMode.FIXED,
    criterion: Annotated[
        CriterionName, typer.Option(rich_help_panel=_CHOICE, help="How the next coalition is chosen.")
    ] = CriterionName.EIG,
    cost: Annotated[
        str | None,
        typer.Option(
            metavar="COST", rich_help_panel=_CHOICE, help="Prefer cheap coalitions: A+B*size, A+C1,C2,.. or measured."
        ),
    ] = None,
    candidates: Annotated[
        int,
        typer.Option(metavar="INT", min=2, rich_help_panel=_CHOICE, help="Coalitions looked at when not all can be."),
    ] = 2048,
    exec_: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="COMMAND", rich_help_panel=_EVALUATION,
            help="Shell command; fields {players} {bits} {json} {file} {index}; its last line is the value.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(metavar="INT", rich_help_panel=_STOPPING, help="Evaluations of the study altogether."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(metavar="INT", min=1, rich_help_panel=_EVALUATION, help="Commands at a time.")
    ] = 1,
    slurm: Annotated[
        str | None,
        typer.Option(
            metavar="OPTIONS", rich_help_panel=_EVALUATION, help="ask: write an sbatch array script that runs --exec."
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", rich_help_panel=_EVALUATION, help="Evaluate failed coalitions once more.")
    ] = False,
    keep_pending: Annotated[
        bool,
        typer.Option(
            "--keep-pending", rich_help_panel=_EVALUATION, help="run: leave pending coalitions to whoever asked."
        ),
    ] = False,
    tol: Annotated[
        str | None,
        typer.Option(
            metavar="X|X%", rich_help_panel=_STOPPING, help="Stop when intervals are within X, or X% of the largest."
        ),
    ] = None,
    stable_top: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, rich_help_panel=_STOPPING, help="Stop when the top K are sure (95 %)."),
    ] = None,
    bits: Annotated[bool, typer.Option("--bits", rich_help_panel=_OUTPUT, help="Write coalitions as 0110...")] = False,
    json: Annotated[
        bool,
        typer.Option("--json", rich_help_panel=_OUTPUT, help="Coalitions as JSON lists, the report as a JSON object."),
    ] = False,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", rich_help_panel=_OUTPUT, help="report: beside it, least squares from the same evaluations."
        ),
    ] = False,
    plot: options.Plot = None,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", parser=options.output_name, show_default=False, rich_help_panel=_OUTPUT,
            help="init, run, stream: the study, which is never replaced; otherwise the result.",
        ),
    ] = options.STDOUT,
    time_limit: options.TimeLimit = None,
    trace: options.Trace = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    progress: options.Progress = None,
) -> None:  # fmt: skip
    """Estimate Shapley values when one evaluation takes minutes: choose which coalition to evaluate next, and say when
    to stop.

    The study is a CSV file that only grows; it is the checkpoint, and many processes may tell it results at once.
    """
    given = {name for name in _APPLIES if _is_given(ctx, name)}
    for name in sorted(given):
        if action not in _APPLIES[name]:
            flag = next((opt for p in ctx.command.params if p.name == name for opt in p.opts), name)
            raise InputError(f"{flag} is not for '{action}'")
    from icml.cli.progress import Reporter
    from icml.tools.shapleig.criteria import parse_criterion
    from icml.tools.shapleig.estimates import Stopping
    from icml.tools.shapleig.opening import Wish

    call = _Call(
        action=action,
        source=source,
        results=results,
        n=n,
        wish=Wish(index, parse_criterion(criterion.value), noise.value, cost, candidates, seed, given),
        given=frozenset(given),
        template=exec_,
        budget=budget,
        jobs=jobs,
        slurm=slurm,
        retry=retry,
        keep_pending=keep_pending,
        stopping=Stopping.parse(tol, stable_top),
        form="bits" if bits else "json" if json else "names",
        json=json,
        compare=compare,
        plot=plot,
        output=output,
        time_limit=time_limit,
        trace=trace,
        reporter=Reporter("shapleig", quiet=quiet, verbose=verbose, progress=progress),
    )
    _ACTIONS[action](call)


@dataclass(frozen=True)
class _Call:
    """The command line, checked as far as it can be without reading anything."""

    action: Action
    source: str | None
    results: str
    n: int | None
    wish: Wish
    given: frozenset[str]
    template: str | None
    budget: int | None
    jobs: int
    slurm: str | None
    retry: bool
    keep_pending: bool
    stopping: Any
    form: Form
    json: bool
    compare: bool
    plot: Path | None
    output: str
    time_limit: float | None
    trace: Path | None
    reporter: Reporter

    def study(self) -> Study:
        """The study that the command line names."""
        from icml.tools.shapleig.study import Study

        if self.source is None:
            raise InputError(f"{self.action} needs a study")
        return Study(self.source)

    def made_or_resumed(self) -> Study:
        """The study in -o: a new one, or the one that is there if it was made alike."""
        from icml.tools.shapleig import opening

        if not Path(self.output).exists():
            return self.made()
        players = self.players() if self.source is not None or self.n is not None else None
        return opening.resume(self.output, players, self.wish)

    def made(self) -> Study:
        """A new study in -o."""
        from icml.tools.shapleig.study import Study

        if self.output == options.STDOUT:
            raise InputError(f"{self.action} needs a file to keep the study in: -o STUDY.csv")
        players = self.players()
        return Study.create(self.output, players, self.wish.settings(players))

    def players(self) -> Players:
        """The players that the command line names."""
        from icml.tools.shapleig.coalition_text import read_players

        return read_players(self.source, self.n)

    def checked_budget(self) -> int | None:
        """The budget, if there is one."""
        if self.budget is not None and self.budget < 3:
            raise InputError(f"expected a budget of at least 3 evaluations, got {self.budget}")
        return self.budget


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")


def _init(call: _Call) -> None:
    study = call.made()
    call.reporter.say(f"{call.output}: a study of {len(study.players)} players, none evaluated yet")


def _run(call: _Call) -> None:
    from icml.cli.anytime import Anytime
    from icml.tools.shapleig.campaign import Campaign
    from icml.tools.shapleig.execute import check_template

    budget = call.checked_budget()
    if call.template is None:
        raise InputError("run needs --exec COMMAND; without one, use ask and tell")
    if budget is None and not call.stopping.active:
        raise InputError("run needs to know when to stop: --budget, --tol or --stable-top")
    check_template(call.template)
    study = call.made_or_resumed()
    campaign = Campaign(
        call.template, budget or sys.maxsize, call.jobs, call.stopping, call.retry, call.keep_pending
    )
    with (
        Anytime(time_limit=call.time_limit, trace=call.trace) as run,
        call.reporter.progress("evaluating", total=budget) as line,
    ):
        done = 0

        def advance(figures: dict[str, Any]) -> None:
            nonlocal done
            done = study.attempts()
            line.update(done=done)
            run.record(figures, evaluations=done)

        reason = campaign.run(
            study, should_stop=run.should_stop, on_progress=advance, on_failure=call.reporter.warn
        )
        _conclude(call, study.design(), study.players, study.attempts(), reason, to=options.STDOUT)
        run.finish()


def _conclude(
    call: _Call,
    design: ShapleyDesign,
    players: Players,
    attempts: int,
    reason: str,
    *,
    to: str,
    always: bool = False,
) -> None:
    """What is left to say at the end of a run: figures for people, and JSON and picture if asked for."""
    from icml.formats.output import atomic_output, write_json
    from icml.tools.shapleig import report

    if not len(design.evaluations):
        if design.failed:
            raise WorkError("all evaluations failed")
        call.reporter.say("nothing was evaluated")
        return
    call.reporter.summary(report.summary(design, reason))
    _warn(call, design)
    if call.json:
        write_json(to, report.figures(players, design, attempts=attempts, stop_reason=reason))
    elif always:
        with atomic_output(to) as stream:
            stream.write(report.table(players, design.estimate))
    if call.plot is not None:
        _draw(call, design, players)


def _warn(call: _Call, design: ShapleyDesign) -> None:
    if design.estimate.constant and len(design.evaluations) > 1:
        call.reporter.warn("all values so far are equal: every player's value is reported as 0")


def _draw(call: _Call, design: ShapleyDesign, players: Players) -> None:
    from icml.tools.shapleig import report
    from icml.tools.shapleig.plot import plot

    assert call.plot is not None
    title = f"{design.settings.index} values after {len(design.evaluations)} evaluations"
    plot(report.lines(players, design.estimate), report.curve(design), call.plot, title=title)


def _ask(call: _Call) -> None:
    from icml.formats.output import atomic_output
    from icml.tools.shapleig.execute import check_template
    from icml.tools.shapleig.slurm import array_script, check_options

    if (call.slurm is None) != (call.template is None):
        raise InputError("ask takes --slurm and --exec together")
    study = call.study()
    if call.template is not None:
        check_template(call.template)
        check_options(call.slurm or "")
    else:
        study.players.check_form(call.form)
    first = study.attempts()
    chosen = study.ask(call.n or 1, retry=call.retry)
    if not len(chosen):
        call.reporter.say("there are no coalitions left to ask for")
    with atomic_output(call.output) as stream:
        if call.template is not None:
            stream.write(
                array_script(
                    chosen, study.players, call.template, study.name, options=call.slurm or "", index=first
                )
            )
        else:
            stream.writelines(study.players.write(mask, call.form) + "\n" for mask in chosen)


def _tell(call: _Call) -> None:
    from icml.formats.source import source_name
    from icml.tools.shapleig.results import read_results

    if call.results == options.PIPED and "results" not in call.given and sys.stdin.isatty():
        raise InputError("tell needs RESULTS: a file, or a pipe")
    study = call.study()
    told = read_results(call.results, study.players)
    new = study.tell(told, source_name(call.results))
    call.reporter.say(f"{study.name}: {new} new of {len(told)} told")


def _report(call: _Call) -> None:
    from icml.formats.output import atomic_output, write_json
    from icml.tools.shapleig import baseline, opening, report

    if call.source is None:
        raise InputError("report needs a study, or a table of results")
    players, design, attempts = opening.read(call.source, call.wish)
    if not len(design.evaluations):
        if design.failed:
            raise WorkError(f"{call.source}: all evaluations failed")
        raise InputError("holds no evaluations yet", call.source)
    other = baseline.least_squares(design) if call.compare else None
    _warn(call, design)
    reason = call.stopping.reason(design.estimate, seed=design.settings.seed)
    if call.json:
        write_json(
            call.output,
            report.figures(players, design, attempts=attempts, stop_reason=reason, baseline=other),
        )
    else:
        with atomic_output(call.output) as stream:
            stream.write(report.table(players, design.estimate, other))
        call.reporter.summary(report.summary(design, reason, other))
    if other is not None and other.wins:
        call.reporter.warn(
            "least squares predicts these evaluations better than the model does: trust it more"
        )
    if call.plot is not None:
        _draw(call, design, players)


def _stream(call: _Call) -> None:
    from icml.cli.anytime import Anytime
    from icml.tools.shapleig.stream import Memory, converse
    from icml.tools.shapleig.study import new_design

    budget = call.checked_budget()
    if call.output != options.STDOUT:
        record: Any = call.made_or_resumed()
        players = record.players
    else:
        players = call.players()
        record = Memory(new_design(players, call.wish.settings(players)))
    with Anytime(time_limit=call.time_limit) as run:
        reason = converse(
            record,
            players,
            sys.stdin,
            sys.stdout,
            form=call.form,
            budget=budget,
            stopping=call.stopping,
            should_stop=run.should_stop,
        )
        _conclude(call, record.design(), players, record.attempts(), reason, to=options.STDOUT, always=True)
        run.finish()


_ACTIONS = {
    Action.INIT: _init,
    Action.RUN: _run,
    Action.ASK: _ask,
    Action.TELL: _tell,
    Action.REPORT: _report,
    Action.STREAM: _stream,
}
