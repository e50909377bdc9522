"""The text of `--help`, for the group and for a tool alike: usage, prose, and panels of two columns.

Typer's own renderer reads brackets in help texts as markup and imports a Markdown parser; this one does
neither, and fits in the start-up time that `icml --help` is allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from typer._click import Command, Context, Parameter
    from typer.core import TyperGroup

    from icml.cli.registry import Tool

MAX_WIDTH = 100
Rows = list[tuple[str, str]]


def group_help(group: TyperGroup, ctx: Context, rows: Iterable[Tool]) -> str:
    """The help of the program: the subcommands by panel, then its own options."""
    panels: dict[str, Rows] = {}
    for row in rows:
        panels.setdefault(row.panel, []).append((row.name, row.help))
    own = [entry for entries in _parameter_panels(group, ctx).values() for entry in entries]
    return _render(group, ctx, {**panels, "Options": own})


def command_help(command: Command, ctx: Context) -> str:
    """The help of a tool: its arguments, then its options by panel."""
    return _render(command, ctx, _parameter_panels(command, ctx))


def _parameter_panels(command: Command, ctx: Context) -> dict[str, Rows]:
    panels: dict[str, Rows] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        is_argument = parameter.param_type_name == "argument"
        name = _argument_name(parameter) if is_argument else record[0]
        panel = getattr(parameter, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
        if "--help" in parameter.opts:
            panel = list(panels)[-1]
        panels.setdefault(panel, []).append((name, " ".join(record[1].split())))
    return {title: rows for title, rows in panels.items() if rows}


def _argument_name(parameter: Parameter) -> str:
    return (parameter.metavar or str(parameter.name).upper()) + ("..." if parameter.nargs == -1 else "")


def _render(command: Command, ctx: Context, panels: dict[str, Rows]) -> str:
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, MAX_WIDTH)
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    with console.capture() as capture:
        console.print(Padding(Text.assemble(("Usage: ", "yellow"), (usage, "bold")), (0, 1)))
        for paragraph in _paragraphs(command.help):
            console.print(Padding(paragraph, (1, 1, 0, 1)))
        console.print()
        width = max((len(name) for rows in panels.values() for name, _ in rows), default=0)
        for title, rows in panels.items():
            console.print(_panel(title, rows, min(width, console.width * 3 // 8)))
        for paragraph in _paragraphs(command.epilog):
            console.print(Padding(paragraph, (1, 1, 0, 1)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _panel(title: str, rows: Rows, name_width: int) -> Panel:
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(style="bold cyan", width=name_width)
    table.add_column(ratio=1)
    for name, text in rows:
        table.add_row(Text(name), Text(text))
    return Panel(table, title=Text(title), title_align="left", border_style="dim")


def _paragraphs(text: str | None) -> list[Text]:
    """Prose is refilled; a paragraph whose lines are indented, such as an example, is kept as it is."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return [
        Text(paragraph if paragraph.startswith(" ") else " ".join(paragraph.split()))
        for paragraph in paragraphs
        if paragraph.strip()
    ]
