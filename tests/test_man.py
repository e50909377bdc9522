"""The manual: pages are lint-clean, say what the commands declare, and their examples run."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from models import tiny_llama
from support import EXAMPLES, ROOT, Icml

MAN = ROOT / "man"
LANGUAGE_MODELS = ("icml-quantize.1", "icml-perplexity.1")
PAGES = sorted(MAN.glob("*.[17]"))
LINTERS = (["mandoc", "-Tlint", "-Wwarning"], ["groff", "-ww", "-mdoc", "-Tutf8", "-z"])


def _tool_pages() -> list[str]:
    from icml.cli.registry import TOOLS

    return [tool.name for tool in TOOLS]


def _declared_options(name: str) -> set[str]:
    """Every option string of a command, taken from the command object itself."""
    from icml.cli.commands import load

    command = load(name)
    assert command is not None
    return {
        flag
        for parameter in command.params
        if parameter.param_type_name == "option"
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }


def _page_options(text: str) -> set[str]:
    """Every option that the OPTIONS section lists as an item: `.It Fl o , Fl -output Ar FILE`."""
    section = re.search(r"^\.Sh OPTIONS$(.*?)^\.Sh ", text, re.MULTILINE | re.DOTALL)
    assert section, "no OPTIONS section"
    flags: set[str] = set()
    for item in re.findall(r"^\.It (Fl .*)$", section.group(1), re.MULTILINE):
        flags.update("-" + flag for flag in re.findall(r"Fl (\S+)", item))
    return flags


def _examples(text: str) -> list[str]:
    """The commands of the EXAMPLES section: lines of literal blocks that begin with `$ `, backslashes unescaped."""
    section = re.search(r"^\.Sh EXAMPLES$(.*?)^\.Sh ", text, re.MULTILINE | re.DOTALL)
    if not section:
        return []
    plain = (
        section.group(1).replace("\\e\n", "\\\n").replace("\\e", "\\").replace("\\&", "").replace("\\-", "-")
    )
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", plain, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_lint_clean(page: Path) -> None:
    """By every linter that is here; `make check` sets ICML_REQUIRE_LINTER, and then one has to be."""
    commands = [[*command, str(page)] for command in LINTERS if shutil.which(command[0])]
    if not commands:
        assert not os.environ.get("ICML_REQUIRE_LINTER"), "install mandoc or groff to check the manual"
        pytest.skip("neither mandoc nor groff is installed")
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_pages_are_plain_text_with_the_expected_sections() -> None:
    assert {page.name for page in PAGES} >= {
        "icml.1",
        "icml-formats.7",
        *(f"icml-{n}.1" for n in _tool_pages()),
    }
    for page in PAGES:
        text = page.read_text()
        assert text.startswith('.\\"') or text.startswith(".Dd"), page
        for section in ("NAME", "DESCRIPTION", "SEE ALSO"):
            assert f".Sh {section}\n" in text, (page, section)
        assert all(len(line) <= 130 for line in text.splitlines() if not line.startswith("$ ")), page


@pytest.mark.parametrize("name", _tool_pages())
def test_options_section_equals_the_declaration(name: str) -> None:
    assert _page_options((MAN / f"icml-{name}.1").read_text()) == _declared_options(name) | {"--help"}


def _all_examples() -> list[tuple[str, str]]:
    return [(page.name, example) for page in PAGES for example in _examples(page.read_text())]


@pytest.mark.parametrize(("page", "example"), _all_examples())
def test_example_runs(page: str, example: str, icml: Icml) -> None:
    """Each example starts from a folder that holds the shipped inputs."""
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, icml.folder / path.name)
    _make_example_inputs(icml.folder)
    if page in LANGUAGE_MODELS:
        _make_language_model(icml.folder)
    done = icml.shell(example, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def _make_example_inputs(folder: Path) -> None:
    """What the pages take for granted beside the shipped graphs: a clustering, and an uncompressed copy."""
    with gzip.open(EXAMPLES / "bitcoinotc.csv.gz", "rt") as stream:
        rows = stream.read()
    (folder / "trust.csv").write_text(rows)
    nodes = dict.fromkeys(name for row in rows.split() for name in row.split(",")[:2])
    (folder / "mine.tsv").write_text("".join(f"{node}\t0\n" for node in nodes))


def _make_language_model(folder: Path) -> None:
    """A tiny one, and texts to calibrate it and to measure it on."""
    pytest.importorskip("transformers")
    tiny_llama(folder / "model")
    text = (ROOT / "README.md").read_bytes() + (ROOT / "CONTRIBUTING.md").read_bytes()
    (folder / "mine.txt").write_bytes(text)
    (folder / "mine.txt.gz").write_bytes(gzip.compress(text, mtime=0))
    (folder / "heldout.txt").write_bytes((ROOT / "CHANGELOG.md").read_bytes()[:3000])


def test_every_page_has_an_example_that_runs() -> None:
    with_examples = {page for page, _ in _all_examples()}
    assert {f"icml-{name}.1" for name in _tool_pages()} <= with_examples
