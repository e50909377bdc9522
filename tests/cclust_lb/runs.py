"""What the tests of the command share: small inputs, and the JSON object of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from support import DATA, Icml

GRAPHS = DATA / "cclust_lb"
TRIANGLE = "a b 1\nb c 1\na c -1\n"


def certify(icml: Icml, *args: str | Path, stdin: str | bytes | None = None) -> dict[str, object]:
    """The JSON object of a run."""
    done = icml("cclust-lb", *args, "--json", stdin=stdin)
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def grid(side: int, seed: int = 0) -> str:
    """A signed triangulated grid, large enough to keep the solver busy."""
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(side):
        for j in range(side):
            for di, dj in ((0, 1), (1, 0), (1, 1)):
                if i + di < side and j + dj < side:
                    sign = "-1" if rng.random() < 0.3 else "1"
                    lines.append(f"{i}.{j} {i + di}.{j + dj} {sign}\n")
    return "".join(lines)


def path(nodes: int) -> str:
    """A path whose every third edge is negative: no triangle, nothing to prove, and a label for every node."""
    return "".join(f"node{i} node{i + 1} {-1 if i % 3 == 0 else 1}\n" for i in range(nodes - 1))


def plain(text: str) -> str:
    """The same edges without their signs."""
    return "".join(" ".join(line.split()[:2]) + "\n" for line in text.splitlines())
