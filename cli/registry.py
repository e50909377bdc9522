"""The table of subcommands: `icml --help` and completion read it, and import no tool.

To add a tool, add a row to `TOOLS`. Its module exposes one function `command`, annotated for typer, and
imports nothing heavy at its top level; it is imported only when the command runs or its help is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Part:
    """Something a tool stands on, for `icml doctor` to look at.

    Args:
        name: what people call it: a distribution, a program, or the tool whose kernel it is.
        module: the module to import; for a program, the executable to look for on PATH.
        gives: what it is for.
        how: the command that gets it.
        kind: an importable Python package, a compiled kernel of icml, or an executable.
        required: without it icml is broken; otherwise it is only missed by those who want what it gives.
    """

    name: str
    module: str
    gives: str
    how: str
    kind: Literal["package", "kernel", "program"] = "package"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A row of the table: `icml NAME` runs `MODULE.command`.

    Args:
        name: the subcommand.
        module: where its function `command` is.
        help: one line for `icml --help`.
        panel: the heading it stands under there.
        parts: what `icml doctor` should look at for it.
    """

    name: str
    module: str
    help: str
    panel: str
    parts: tuple[Part, ...] = ()


def kernel(tool: str, module: str) -> Part:
    """The compiled part of a tool."""
    return Part(
        tool, module, "the compiled part", "pip install --force-reinstall icml-tools", "kernel", required=True
    )


_LANGUAGE_MODELS = "pip install 'icml-tools[quantize]'"
_TRANSFORMERS = Part("transformers", "transformers", "language models", _LANGUAGE_MODELS)

TOOLS: tuple[Tool, ...] = (
    Tool(
        "cclust-lb",
        "icml.tools.cclust_lb.command",
        "Certify a clustering: lower bounds for correlation clustering and max-cut",
        panel="Graphs",
        parts=(kernel("cclust-lb", "icml.tools.cclust_lb._kernel"),),
    ),
    Tool(
        "shapleig",
        "icml.tools.shapleig.command",
        "Estimate Shapley values when one evaluation is expensive",
        panel="Explanation",
    ),
    Tool(
        "kcenter-dyn",
        "icml.tools.kmeans_dyn.command",
        "Keep k centers and the outliers of points that come and go, with a certified radius",
        panel="Clustering",
        parts=(kernel("kcenter-dyn", "icml.tools.kmeans_dyn._kernel"),),
    ),
    Tool(
        "nneinfact",
        "icml.tools.nneinfact.command",
        "Factorize a tensor into nonnegative parts along any einsum, under any divergence",
        panel="Factorization",
        parts=(kernel("nneinfact", "icml.tools.nneinfact._kernel"),),
    ),
    Tool(
        "quantize",
        "icml.tools.quantize.command",
        "Turn a language model's weights into 2-bit trellis codes or ternary digits, on a CPU",
        panel="Language models",
        parts=(
            kernel("quantize", "icml.tools.quantize._kernel"),
            _TRANSFORMERS,
            Part("gguf", "gguf", "models in GGUF files", _LANGUAGE_MODELS),
        ),
    ),
    Tool(
        "perplexity",
        "icml.tools.perplexity.command",
        "Measure a language model on a text, alone or beside the one it was made from",
        panel="Language models",
        parts=(_TRANSFORMERS,),
    ),
)

BUILTINS: tuple[Tool, ...] = (
    Tool("doctor", "icml.cli.doctor", "Show what is installed here and what is missing", panel="Program"),
)


def find(name: str) -> Tool | None:
    """The row called `name`."""
    return next((tool for tool in (*TOOLS, *BUILTINS) if tool.name == name), None)
