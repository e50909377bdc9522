"""The guide's example is a real plug-in: installed as the guide says, it runs."""

from __future__ import annotations

import json
import os
import re

from support import ROOT, Icml


def test_the_example_of_the_guide_runs_as_a_plugin(icml: Icml) -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    source = re.search(r"<!-- example: command.py -->\n```python\n(.*?)```", guide, re.DOTALL)
    entry = re.search(r'```toml\n\[project\.entry-points\."icml\.tools"\]\n(.*?)```', guide, re.DOTALL)
    assert source
    assert entry
    site = icml.folder / "site"
    (site / "yourpackage").mkdir(parents=True)
    (site / "yourpackage" / "__init__.py").touch()
    (site / "yourpackage" / "command.py").write_text(source.group(1))
    info = site / "yourpackage-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: yourpackage\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[icml.tools]\n" + entry.group(1).replace('"', ""))
    env = {"PYTHONPATH": f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = icml("edge-count", "-", stdin="a b\nb c\n", env=env)
    assert json.loads(done.stdout) == {"edges": 2, "nodes": 3}
    assert "edge-count" in icml("--help", env=env).stdout
    assert "Count the edges" in icml("edge-count", "--help", env=env).stdout
    assert icml("edge-count", "absent.txt", env=env, code=2).stderr.startswith(
        "icml edge-count: absent.txt: "
    )
