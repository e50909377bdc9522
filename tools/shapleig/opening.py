"""Opening what a user names: a study that goes on if it was made alike, or a table that holds nothing but results."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from icml.formats.errors import InputError
from icml.tools.shapleig.coalition_text import Players
from icml.tools.shapleig.costs import parse_cost
from icml.tools.shapleig.criteria import Criterion
from icml.tools.shapleig.design import Settings, ShapleyDesign
from icml.tools.shapleig.results import read_result_table
from icml.tools.shapleig.semivalues import parse_semivalue
from icml.tools.shapleig.study import Study, differences, is_study, load_results, settings_object


@dataclass(frozen=True)
class Wish:
    """Settings as a user writes them.

    Args:
        index, criterion, noise, cost, candidates, seed: as `Settings` has them, but as text.
        given: the names of those that the user gave; the others are defaults, which an existing study need not have.
    """

    index: str
    criterion: Criterion
    noise: str
    cost: str | None
    candidates: int
    seed: int
    given: Collection[str]

    def settings(self, players: Players) -> Settings:
        """Of a new study of these players."""
        return Settings(
            index=parse_semivalue(self.index).name,
            criterion=self.criterion,
            learn_noise=self.noise == "learn",
            cost=None if self.cost is None else parse_cost(self.cost, len(players)),
            candidates=self.candidates,
            seed=self.seed,
        )

    def check(self, study: Study, players: Players | None) -> None:
        """Raises InputError if the study was made with other players, or other settings than were given."""
        wanted = settings_object(self.settings(study.players))
        found = differences(study, players, {k: v if k in self.given else None for k, v in wanted.items()})
        if found:
            raise InputError(f"was made with other settings: {'; '.join(found)}", study.name)


class Opened(NamedTuple):
    """What a report is about."""

    players: Players
    design: ShapleyDesign
    attempts: int


def resume(path: str, players: Players | None, wish: Wish) -> Study:
    """The study that is there.

    Raises:
        InputError: it was made otherwise.
    """
    study = Study(path)
    wish.check(study, players)
    return study


def read(path: str, wish: Wish) -> Opened:
    """From a study, or from a table of results."""
    if is_study(path):
        study = resume(path, None, wish)
        return Opened(study.players, study.design(), study.attempts())
    players, told = read_result_table(path)
    return Opened(players, load_results(players, wish.settings(players), told, path), len(told))
