"""`run`: keeps a number of commands going, each for a coalition chosen with those under way in mind.

Until it is time to stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from icml.formats.errors import WorkError
from icml.tools.shapleig import execute
from icml.tools.shapleig.candidates import Coalition, mask_of
from icml.tools.shapleig.estimates import Stopping
from icml.tools.shapleig.results import Told
from icml.tools.shapleig.study import Study

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Campaign:
    """What `run` is to do.

    Args:
        template: the command, with fields for the coalition.
        budget: evaluations of the study altogether, failed ones and repeats included.
        jobs: commands at a time.
        stopping: rules that end it before the budget is used up.
        retry: evaluate once more what had failed before.
        keep_pending: leave coalitions that are pending at the start to whoever asked for them.
    """

    template: str
    budget: int
    jobs: int = 1
    stopping: Stopping = field(default_factory=Stopping)
    retry: bool = False
    keep_pending: bool = False

    def run(
        self,
        study: Study,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        on_progress: Callable[[dict[str, Any]], None] = lambda figures: None,
        on_failure: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Evaluates; returns why it ended: "budget", "complete", "tol", "stable-top" or "stopped".

        Raises:
            WorkError: every evaluation failed.
        """
        running: list[execute.Job] = []
        start = study.design()
        orphans = {**({} if self.keep_pending else start.pending), **(start.failed if self.retry else {})}
        reason: str | None = None
        try:
            while True:
                if should_stop():
                    return "stopped"
                self._collect(study, running, on_failure, on_progress)
                design = study.design()
                used = study.attempts()
                if reason is None and self.stopping.active and len(design.evaluations) > 1:
                    reason = self.stopping.reason(design.estimate, seed=study.settings.seed)
                while reason is None and len(running) < self.jobs:
                    if used + len(running) >= self.budget:
                        reason = "budget"
                    elif not self._start(study, running, orphans, used):
                        reason = "complete"
                if reason is not None and not running:
                    if not len(design.evaluations) and design.failed:
                        raise WorkError("all evaluations failed")
                    return reason
                self._wait(running, should_stop)
        finally:
            for job in running:
                job.end()

    def _start(
        self, study: Study, running: list[execute.Job], orphans: dict[Coalition, None], used: int
    ) -> bool:
        """Starts one more command, first for what an earlier run left behind; False if there is no coalition left."""
        if orphans:
            mask = mask_of(_take(orphans))
        else:
            following = study.ask(1)
            if not len(following):
                return False
            mask = following[0]
        running.append(execute.start(self.template, mask, study.players, used + len(running)))
        return True

    def _collect(
        self,
        study: Study,
        running: list[execute.Job],
        on_failure: Callable[[str], None],
        on_progress: Callable[[dict[str, Any]], None],
    ) -> None:
        """Tells the study about the commands that have ended."""
        for job in [job for job in running if job.finished()]:
            value, fault = job.result()
            study.tell([Told(job.mask, value, job.seconds(), 0)], study.name)
            running.remove(job)
            job.end()
            coalition = study.players.write(job.mask, "json")
            if value is None:
                on_failure(f"the evaluation of {coalition} failed: {fault}")
            on_progress({"coalition": coalition, "value": value, "seconds": job.seconds()})

    def _wait(self, running: list[execute.Job], should_stop: Callable[[], bool]) -> None:
        while running and not any(job.finished() for job in running) and not should_stop():
            time.sleep(_POLL_SECONDS)


def _take(orphans: dict[Coalition, None]) -> Coalition:
    key = next(iter(orphans))
    del orphans[key]
    return key
