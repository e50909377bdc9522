"""From a name to a command: a registry row, an entry point or an executable becomes what typer can run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from icml.cli import plugins, registry
from icml.cli.errors import PluginError
from icml.cli.options import Debug

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


class ToolCommand(TyperCommand):
    """A command whose help has the layout of `icml --help`."""

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        from icml.cli.help import command_help

        formatter.write(command_help(self, ctx))


class ExternalCommand(TyperCommand):
    """An executable on PATH: it gets the words as they are, in place of this process."""

    def __init__(self, plugin: plugins.Plugin) -> None:
        super().__init__(plugin.name, short_help=plugin.origin, add_help_option=False)
        self.plugin = plugin

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        if parent is not None and not parent.resilient_parsing:
            self.plugin.execute(args)
        return super().make_context(info_name, [], parent, **extra)


def load(name: str) -> Command | None:
    """The command called `name`, its module imported; None if there is none."""
    tool = registry.find(name)
    if tool is not None:
        return build(name, importlib.import_module(tool.module).command)
    plugin = plugins.find(name)
    if plugin is None:
        return None
    if plugin.entry_point is None:
        return ExternalCommand(plugin)
    target = plugin.load()
    if isinstance(target, typer.Typer):
        command = get_command(target)
        command.name = name
        return command
    if not callable(target):
        raise PluginError(f"plug-in {name!r} ({plugin.origin}) is neither a function nor a typer.Typer")
    return build(name, target)


def build(name: str, function: Callable[..., Any]) -> TyperCommand:
    """The command that a function annotated for typer declares, and `--debug`, which every command has."""
    command = _declared(name, function)
    if not any("--debug" in parameter.opts for parameter in command.params):
        debug = _declared(name, _debug).params
        for parameter in debug:
            parameter.expose_value = False  # main.py looks for it before anything is parsed
        command.params.extend(debug)
    return command


def _declared(name: str, function: Callable[..., Any]) -> TyperCommand:
    app = typer.Typer(add_completion=False)
    app.command(name, cls=ToolCommand)(function)
    command = get_command(app)
    assert isinstance(command, TyperCommand)
    return command


def _debug(debug: Debug = False) -> None:
    """Declares the option."""
