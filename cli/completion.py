"""Completion in bash, zsh and fish: typer's scripts and installers, with the shell named or detected."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from icml.formats.errors import InputError

if TYPE_CHECKING:
    from typer._click import Context
    from typer.core import TyperGroup

SHELLS = ("bash", "zsh", "fish")
_WORDS = "icml.cli.words"


def answer(group: TyperGroup, program: str, variable: str) -> None:
    """Answers the shell's script, which asks through the environment; on a failure there is no completion."""
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    try:
        group.main(prog_name=program, complete_var=variable)
    except Exception as error:
        raise SystemExit(1) from error


def remember(ctx: Context, words: Sequence[str]) -> None:
    """Keeps the words of the command line: `--install-completion` may have a shell after it, or not."""
    ctx.meta[_WORDS] = list(words)


def install(ctx: typer.Context, value: bool) -> None:
    """`--install-completion [SHELL]`."""
    if not value or ctx.resilient_parsing:
        return
    from typer.completion import install as install_script  # type: ignore[attr-defined]

    program = str(ctx.info_name)
    shell, path = install_script(shell=_shell(ctx, "--install-completion"), prog_name=program)
    sys.stderr.write(f"completion for {shell} is in {path}; it works in the next shell you start\n")
    raise typer.Exit


def show(ctx: typer.Context, value: bool) -> None:
    """`--show-completion [SHELL]`."""
    if not value or ctx.resilient_parsing:
        return
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    program = str(ctx.info_name)
    variable = f"_{program}_COMPLETE".upper()
    shell = _shell(ctx, "--show-completion")
    sys.stdout.write(get_completion_script(prog_name=program, complete_var=variable, shell=shell) + "\n")
    raise typer.Exit


def _shell(ctx: typer.Context, option: str) -> str:
    words: list[str] = ctx.meta[_WORDS]
    named = words[words.index(option) + 1 :][:1] if option in words else []
    shell = named[0] if named and not named[0].startswith("-") else _running_shell()
    if shell not in SHELLS:
        choices = "|".join(SHELLS)
        said = f"completion for {shell!r} is not supported" if shell else "cannot tell which shell this is"
        raise InputError(f"{said}; try: {ctx.info_name} {option} {choices}")
    return shell


def _running_shell() -> str:
    """The shell that started this process, or else the user's login shell; "" if neither is known."""
    try:
        from shellingham import detect_shell  # type: ignore[import-untyped]

        return str(detect_shell()[0])
    except Exception:
        return os.path.basename(os.environ.get("SHELL", ""))
