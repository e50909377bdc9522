"""What the documents promise is there: no gap left open, every link leads somewhere, every tool is presented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import ROOT

from icml.cli.registry import TOOLS, Tool
from icml.formats.edges import ALIASES, FORMATS

README, GUIDE, FIGURES = ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "bench" / "README.md"
PAGES = sorted((ROOT / "man").glob("*.[17]"))


def _outside_code(text: str) -> str:
    """Markdown without its fenced blocks, in which brackets are no links."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def _relative_links(document: Path) -> list[str]:
    links = re.findall(r"\[[^]]*\]\(([^)\s]+)\)", _outside_code(document.read_text()))
    return [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]


@pytest.mark.parametrize(
    "document", [README, GUIDE, FIGURES, *PAGES], ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_placeholder_is_left(document: Path) -> None:
    assert re.findall(r"@[A-Z][A-Z_]*@", document.read_text()) == []


@pytest.mark.parametrize(
    ("document", "link"),
    [(document, link) for document in (README, GUIDE) for link in _relative_links(document)],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_relative_links_lead_somewhere(document: Path, link: str) -> None:
    assert (document.parent / link).exists()


def test_links_are_found() -> None:
    """The test above has something to look at."""
    assert {"CONTRIBUTING.md", "bench/README.md", "man/icml-cclust-lb.1"} <= set(_relative_links(README))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_presented(tool: Tool) -> None:
    page = f"man/icml-{tool.name}.1"
    assert f"| [`{tool.name}`]({page}) |" in README.read_text(), "no row in the README's table"
    manual = (ROOT / "man" / "icml.1").read_text()
    assert f".It Cm {tool.name}\n" in manual, "not among the tools of icml(1)"
    assert f".Xr icml-{tool.name} 1" in manual.partition(".Sh SEE ALSO")[2], "not in SEE ALSO of icml(1)"
    assert (ROOT / page).is_file()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_is_measured(tool: Tool) -> None:
    package = tool.module.removesuffix(".command")
    scripts = [path for path in (ROOT / "bench").glob("*.py") if package in path.read_text()]
    assert scripts, f"no script in bench/ imports {package}"


def test_the_format_names_are_those_that_are_accepted() -> None:
    page = (ROOT / "man" / "icml-formats.7").read_text()
    section = re.search(r"^takes these names\.$(.*?)^\.El$", page, re.MULTILINE | re.DOTALL)
    assert section
    assert re.findall(r"^\.It Cm (\w+)$", section.group(1), re.MULTILINE) == list(FORMATS)
    assert set(re.findall(r"\w+", " ".join(re.findall(r"^\.Cm (.*)$", section.group(1), re.MULTILINE)))) == {
        *ALIASES
    }
    tool = (ROOT / "man" / "icml-cclust-lb.1").read_text()
    listed = re.search(r"^\.It Fl -format Ar FORMAT$.*?^\.Cm (.*?) \.$", tool, re.MULTILINE | re.DOTALL)
    assert listed
    assert listed.group(1).split(" , ") == list(FORMATS)
