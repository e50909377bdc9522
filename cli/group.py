"""The group `icml`: it knows its subcommands by name, and imports one only when that one is asked for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from icml.cli import commands, completion, plugins, registry
from icml.cli.errors import ExitCode
from icml.cli.options import Debug
from icml.formats.errors import InputError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

PLUGIN_PANEL = "Plug-ins"


class LazyGroup(TyperGroup):
    """A group over the registry and the installed plug-ins."""

    def list_commands(self, ctx: Context) -> list[str]:
        return [row.name for row in self.rows()]

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command; or, while completing, when only its name and help are asked for, an empty one."""
        if ctx.resilient_parsing:
            row = next((row for row in self.rows() if row.name == cmd_name), None)
            return TyperCommand(row.name, short_help=row.help) if row else None
        return commands.load(cmd_name)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        name = args[0]
        ctx.invoked_subcommand = name  # from here on errors are this tool's
        command = commands.load(name)
        if command is None and not ctx.resilient_parsing:
            ctx.invoked_subcommand = None
            raise InputError(self._unknown(name))
        return (name if command else None), command, args[1:]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(ExitCode.USAGE)
        completion.remember(ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        from icml.cli.help import group_help

        formatter.write(group_help(self, ctx, self.rows()))

    def rows(self) -> list[registry.Tool]:
        """Every subcommand there is, in the order of the help; a plug-in is called by what it comes from."""
        rows = [*registry.TOOLS, *registry.BUILTINS]
        taken = {row.name for row in rows}
        for plugin in plugins.installed():
            if plugin.name not in taken:
                rows.append(registry.Tool(plugin.name, "", plugin.origin, PLUGIN_PANEL))
        return rows

    def _unknown(self, name: str) -> str:
        from difflib import get_close_matches

        close = get_close_matches(name, [row.name for row in self.rows()], n=3)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "'icml --help' lists the tools"
        return f"no such tool: {name!r}; {hint}"


def build_group(program: str) -> TyperGroup:
    """The group, as typer builds it from the options that stand before a tool's name."""
    app = typer.Typer(
        name=program,
        cls=LazyGroup,
        add_completion=False,
        add_help_option=False,  # typer's own, when not given, makes it import pydantic: half of the start-up time
        subcommand_metavar="TOOL [ARGS]...",
        callback=_options,
        help="Published machine-learning methods as Unix tools: one subcommand each, files in, files out.",
        epilog="'icml TOOL --help' tells about one tool, 'man icml-TOOL' everything.",
    )
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    return group


def _show_help(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        sys.stdout.write(ctx.get_help() + "\n")
        raise typer.Exit


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        sys.stdout.write(f"icml {version('icml-tools')}\n")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            callback=completion.install,
            is_eager=True,
            help="Set up completion for this shell, or the one named after it: bash, zsh or fish.",
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            callback=completion.show,
            is_eager=True,
            help="Show the completion script instead of installing it.",
        ),
    ] = False,
    debug: Debug = False,
    help: Annotated[
        bool,
        typer.Option("--help", callback=_show_help, is_eager=True, help="Show this message and exit."),
    ] = False,
) -> None:
    """Declares the options that stand before a tool's name."""
