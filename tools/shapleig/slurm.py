"""A Slurm job array that evaluates coalitions and tells the study, one array task a coalition."""

from __future__ import annotations

import os
import shlex

from icml.formats.errors import InputError
from icml.tools.shapleig import execute
from icml.tools.shapleig.candidates import Mask
from icml.tools.shapleig.coalition_text import Players, bits

_SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=icml-shapleig
#SBATCH --array=0-{last}
{options}# Evaluates {count} coalitions of {study_comment}; each task tells the study its value.
study={study}
players=$(mktemp) && output=$(mktemp) || exit 1
trap 'rm -f "$players" "$output"' EXIT
case ${{SLURM_ARRAY_TASK_ID:?run this with sbatch}} in
{cases}
*) echo "no such task: $SLURM_ARRAY_TASK_ID" >&2; exit 2;;
esac
started=$SECONDS
if evaluate >"$output"; then
    value=$(awk 'NF {{ line = $0 }} END {{ print line }}' "$output")
else
    value=failed
fi
case $value in (*[!0-9.eE+-]*|'') value=failed;; esac
tell() {{ printf '%s,%s,%s\\n' "$bits" "$1" $((SECONDS - started)) | {icml} shapleig tell "$study"; }}
tell "$value" || tell failed
"""


def array_script(
    masks: Mask,
    players: Players,
    template: str,
    study: str,
    *,
    options: str = "",
    icml: str = "icml",
    index: int = 0,
) -> str:
    """The text of an sbatch script.

    Args:
        masks: the coalitions, (n, p), already marked as pending.
        players: of the study.
        template: the command, with fields for the coalition.
        study: path of the study; written down as an absolute path.
        options: of sbatch, as on its command line.
        icml: the program as the compute nodes are to call it.
        index: number of the first coalition, for {index}.

    Raises:
        InputError: there is no coalition, or the options cannot be split.
    """
    if not len(masks):
        raise InputError("there are no coalitions left to evaluate")
    path = os.path.abspath(study)
    return _SCRIPT.format(
        last=len(masks) - 1,
        options="".join(f"#SBATCH {option}\n" for option in _options(options)),
        count=len(masks),
        study_comment=ascii(path)[1:-1],
        study=shlex.quote(path),
        cases="\n".join(
            _case(task, mask, players, template, index + task) for task, mask in enumerate(masks)
        ),
        icml=shlex.quote(icml),
    )


def check_options(text: str) -> None:
    """Raises InputError if the sbatch options cannot be written down."""
    _options(text)


def _case(task: int, mask: Mask, players: Players, template: str, index: int) -> str:
    """The branch of one task: the command as a shell function, so that its quoting stays the user's."""
    command = execute.fill(template, mask, players, index, "\0").replace(shlex.quote("\0"), '"$players"')
    members = [shlex.quote(name) for name, member in zip(players.names, mask.tolist(), strict=True) if member]
    listing = (
        f" printf '%s\\n' {' '.join(members)} >\"$players\";" if members and '"$players"' in command else ""
    )
    return f"{task}) bits={bits(mask)};{listing} evaluate() ( {command}\n);;"


def _options(text: str) -> list[str]:
    """One #SBATCH line an option; an option keeps the word that is its value."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"cannot split the sbatch options '{text}': {error}") from error
    options: list[str] = []
    for word in words:
        if "\n" in word:
            raise InputError("an sbatch option holds no line break")
        if word.startswith("-"):
            options.append(word if "=" not in word else _quoted(word))
        elif options and "=" not in options[-1] and " " not in options[-1]:
            options[-1] += f" {shlex.quote(word)}"
        else:
            raise InputError(f"'{word}' is no sbatch option")
    return options


def _quoted(word: str) -> str:
    name, _, value = word.partition("=")
    return f"{name}={shlex.quote(value)}"
