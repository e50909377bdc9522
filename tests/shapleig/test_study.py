"""The study file: what was told is never lost, whoever dies and however many tell at once.

And a restart goes on as if nothing was.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from icml.formats.errors import InputError, WorkError
from icml.tools.shapleig import ShapleyDesign, Study
from icml.tools.shapleig.campaign import Campaign
from icml.tools.shapleig.coalition_text import Players
from icml.tools.shapleig.costs import CostModel
from icml.tools.shapleig.design import Settings
from icml.tools.shapleig.estimates import Stopping
from icml.tools.shapleig.results import Told

from .oracles import coalitions, random_game

COUNT = "echo {bits} | tr -cd 1 | wc -c"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.create(tmp_path / "study.csv", Players(["a", "b", "c", "d", "e"]), Settings())


def told(mask: np.ndarray, value: float | None, cost: float = float("nan")) -> Told:
    return Told(mask, value, cost, 1)


def rows_of(path: Path) -> list[list[str]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.reader(lines))[1:]


def test_settings_and_players_come_back(tmp_path: Path) -> None:
    settings = Settings("beta:4,1", "trace", True, CostModel(1.5, (1.0, 2.0)), 128, 2**64 - 1)
    names = ['with "quotes"', "with, comma"]
    Study.create(tmp_path / "s.csv", Players(names), settings)
    again = Study(tmp_path / "s.csv")
    assert again.settings == settings
    assert again.players.names == tuple(names)


def test_asking_marks_as_pending_and_telling_ends_that(study: Study) -> None:
    chosen = study.ask(3)
    assert len(study.design().pending) == 3
    assert study.ask(1)[0].tolist() not in chosen.tolist()
    assert study.tell([told(chosen[0], 1.5, 2.0), told(chosen[1], None)], "stdin") == 2
    design = study.design()
    assert len(design.pending) == 2
    assert len(design.failed) == 1
    assert design.evaluations.values.tolist() == [1.5]
    assert design.evaluations.costs.tolist() == [2.0]
    assert study.attempts() == 2


def test_telling_the_same_again_changes_nothing(study: Study, tmp_path: Path) -> None:
    chosen = study.ask(1)
    study.tell([told(chosen[0], 1.5)], "stdin")
    before = (tmp_path / "study.csv").read_bytes()
    assert study.tell([told(chosen[0], 1.5)], "stdin") == 0
    assert (tmp_path / "study.csv").read_bytes() == before


def test_a_contradiction_tells_nothing_at_all(study: Study, tmp_path: Path) -> None:
    Z = coalitions(5)
    study.tell([told(Z[3], 1.0)], "stdin")
    before = (tmp_path / "study.csv").read_bytes()
    with pytest.raises(InputError, match=r'results:1: \["a", "b"\]: .*1\.0, now 2\.0'):
        study.tell([told(Z[4], 5.0), told(Z[3], 2.0)], "results")
    assert (tmp_path / "study.csv").read_bytes() == before


def test_a_restart_at_any_point_asks_for_the_same_next_coalition(study: Study, tmp_path: Path) -> None:
    table = random_game(5, 0)
    for _ in range(12):
        following = study.ask(1)
        content = (tmp_path / "study.csv").read_text().splitlines(keepends=True)
        (tmp_path / "copy.csv").write_text("".join(content[:-1]))  # as if killed before the row was written
        np.testing.assert_array_equal(Study(tmp_path / "copy.csv").ask(1), following)
        study.tell([told(following[0], float(table[following[0] @ (1 << np.arange(5))]))], "stdin")


def test_a_row_torn_at_any_byte_is_not_told_and_spoils_nothing(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "study.csv"
    Z = coalitions(5)
    study.tell([told(Z[1], 0.25)], "stdin")
    whole = path.read_bytes()
    study.tell([told(Z[2], 1234.5678, 9.5)], "stdin")
    full = path.read_bytes()
    row = full[len(whole) :]
    for cut in range(len(row)):
        path.write_bytes(whole + row[:cut])
        again = Study(path)
        seen = again.design().evaluations.values.tolist()
        # With nothing or everything of the time stamp the row counts: its value is not cut short.
        counts = cut in (row.index(b"done,") + 5, len(row) - 1)
        assert seen == ([0.25, 1234.5678] if counts else [0.25]), row[:cut]
        again.tell([told(Z[4], 7.0)], "stdin")
        assert again.design().evaluations.values.tolist() == [*seen, 7.0]


def test_a_last_row_from_an_editor_without_line_feed_counts(study: Study, tmp_path: Path) -> None:
    with (tmp_path / "study.csv").open("a") as stream:
        stream.write("1,0,0,0,0,3.25,,done,")
    assert study.design().evaluations.values.tolist() == [3.25]
    study.tell([told(coalitions(5)[2], 1.0)], "stdin")
    assert study.design().evaluations.values.tolist() == [3.25, 1.0]


TELLER = """
import sys
from icml.tools.shapleig import Study
from icml.tools.shapleig.results import Told
import numpy as np
study, first = Study(sys.argv[1]), int(sys.argv[2])
for code in range(first, first + 12):
    mask = (code >> np.arange(7)) & 1 == 1
    study.tell([Told(mask, code / 7, float("nan"), 1)], "x")
    print(code, flush=True)
"""


def teller(path: Path, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TELLER, str(path), str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_eight_tellers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    study = Study.create(path, Players([f"p{i}" for i in range(7)]), Settings())
    tellers = [teller(path, 12 * k) for k in range(8)]
    for process in tellers:
        process.communicate(timeout=120)
        assert process.returncode == 0
    evaluations = study.design().evaluations
    codes = evaluations.masks @ (1 << np.arange(7))
    assert sorted(codes.tolist()) == list(range(96))
    np.testing.assert_array_equal(evaluations.values, codes / 7)


def test_two_that_ask_at_once_get_different_coalitions(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    study = Study.create(path, Players([f"p{i}" for i in range(6)]), Settings())
    code = "import sys\nfrom icml.tools.shapleig import Study\ns = Study(sys.argv[1])\nfor _ in range(6): s.ask(1)"
    askers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    assert [process.wait(120) for process in askers] == [0, 0]
    rows = [tuple(row[:6]) for row in rows_of(path)]
    assert len(rows) == len(set(rows)) == 12
    assert len(study.design().pending) == 12


def test_killed_tellers_lose_nothing_they_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    study = Study.create(path, Players([f"p{i}" for i in range(7)]), Settings())
    reported: set[int] = set()
    rng = random.Random(1)
    for k in range(4):
        process = teller(path, 12 * k)
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(rng.randrange(1, 9))]
        process.send_signal(signal.SIGKILL)
        seen += process.stdout.readlines()
        process.wait()
        reported |= {int(line) for line in seen if line.endswith("\n")}
    evaluations = study.design().evaluations
    assert reported
    assert reported <= set((evaluations.masks @ (1 << np.arange(7))).tolist())


def test_a_run_evaluates_until_the_budget(study: Study) -> None:
    assert Campaign(COUNT, budget=10).run(study) == "budget"
    design = study.design()
    assert len(design.evaluations) == 10
    np.testing.assert_array_equal(design.evaluations.values, design.evaluations.masks.sum(axis=1))
    assert not design.pending
    assert (design.evaluations.costs >= 0).all()


def test_one_job_asks_what_the_design_asks(study: Study) -> None:
    Campaign(COUNT, budget=14).run(study)
    design = ShapleyDesign(5)
    for mask in study.design().evaluations.masks:
        np.testing.assert_array_equal(design.ask()[0], mask)
        design.tell(mask, mask.sum())


def test_jobs_run_at_the_same_time(study: Study) -> None:
    start = time.monotonic()
    assert Campaign("sleep 1; echo 1{bits}", budget=8, jobs=8).run(study) == "budget"
    assert time.monotonic() - start < 7
    assert len(study.design().evaluations) == 8


def test_jobs_may_end_in_any_order(study: Study) -> None:
    template = "case {bits} in 00000) sleep 2;; esac; echo 1{bits}"
    assert Campaign(template, budget=7, jobs=3).run(study) == "budget"
    masks = study.design().evaluations.masks
    assert len(masks) == 7
    assert masks[0].any()


def test_failures_are_recorded_and_count(study: Study) -> None:
    faults: list[str] = []
    template = "case {bits} in 1*) exit 3;; 01*) echo nothing;; *) echo {index}; esac"
    assert Campaign(template, budget=32).run(study, on_failure=faults.append) == "budget"
    design = study.design()
    assert len(design.failed) == 24
    assert len(design.evaluations) == 8
    assert sum("exit status 3" in fault for fault in faults) == 16
    assert sum("no finite number" in fault for fault in faults) == 8


def test_retry_evaluates_each_failure_once_more(study: Study) -> None:
    Campaign("case {bits} in 1*) exit 3;; *) echo 1; esac", budget=10).run(study)
    failed = len(study.design().failed)
    assert failed > 2
    assert Campaign("exit 4 # {bits}", budget=10 + failed - 1, retry=True).run(study) == "budget"
    assert len(study.design().failed) == failed
    assert Campaign("echo 1{bits}", budget=10 + 2 * failed, retry=True).run(study) == "budget"
    assert not study.design().failed
    assert len(study.design().evaluations) >= 10


def test_all_failed(study: Study) -> None:
    with pytest.raises(WorkError, match="all evaluations failed"):
        Campaign("exit 1 {bits}", budget=3).run(study)


def test_a_run_ends_when_all_coalitions_are_known(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s.csv", Players(["a", "b"]), Settings())
    assert Campaign(COUNT, budget=50, jobs=3).run(study) == "complete"
    assert study.design().values_.tolist() == [1.0, 1.0]


def test_a_run_ends_when_it_is_sure_enough(study: Study) -> None:
    stopping = Stopping.parse("90%")
    assert Campaign(COUNT, budget=32, stopping=stopping).run(study) == "tol"
    design = study.design()
    assert len(design.evaluations) < 32
    assert design.estimate.halfwidth().max() <= 0.9 * np.abs(design.values_).max()


def test_what_a_killed_run_left_pending_is_evaluated_first(study: Study) -> None:
    left = study.ask(2)
    Campaign(COUNT, budget=4, keep_pending=True).run(study)
    assert len(study.design().pending) == 2
    assert not any((study.design().evaluations.masks == mask).all(axis=1).any() for mask in left)
    Campaign(COUNT, budget=6).run(study)
    assert not study.design().pending
    np.testing.assert_array_equal(study.design().evaluations.masks[-2:], left)


def test_stopping_ends_the_commands_and_all_they_started(study: Study, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    template = f"(sleep 3; touch {marker}) & sleep 30; echo {{bits}}"
    start = time.monotonic()
    stop_at = start + 1.5
    reason = Campaign(template, budget=9, jobs=2).run(study, should_stop=lambda: time.monotonic() > stop_at)
    assert reason == "stopped"
    assert time.monotonic() - start < 20
    time.sleep(3)
    assert not marker.exists()
    assert len(study.design().pending) == 2


def test_fields_are_quoted_for_the_shell(tmp_path: Path) -> None:
    players = Players(["a b", "$HOME", "q'q"])
    study = Study.create(tmp_path / "s.csv", players, Settings())
    script = tmp_path / "check.py"
    script.write_text(
        "import json, sys\n"
        "bits, text, path, *names = sys.argv[1:]\n"
        "assert names == json.loads(text) == open(path).read().splitlines(), sys.argv\n"
        "assert [n in names for n in ['a b', '$HOME', \"q'q\"]] == [c == '1' for c in bits]\n"
        "print('seen', '{}', file=sys.stderr)\nprint(len(names))\n"
    )
    template = f"{sys.executable} {script} {{bits}} {{json}} {{file}} {{players}} | awk '{{print $1}}'"
    assert Campaign(template, budget=8).run(study) == "budget"
    assert study.design().values_.tolist() == [1.0, 1.0, 1.0]
    assert sorted(os.listdir(tmp_path)) == ["check.py", "s.csv"]
