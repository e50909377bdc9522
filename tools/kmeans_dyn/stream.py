"""Running a stream through a `DynamicKCenter`: updates go in, answers and scores come out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from icml.formats.errors import InputError
from icml.formats.tables import Points
from icml.tools.kmeans_dyn import _kernel
from icml.tools.kmeans_dyn.dynamic import CONFLICTS, DynamicKCenter, Result
from icml.tools.kmeans_dyn.layout import Layout
from icml.tools.kmeans_dyn.metrics import Floats

_BATCH = 4096  # rows of a table between looks at whether to stop


@dataclass(frozen=True)
class Schedule:
    """When to do what without being asked.

    Attributes:
        query_every, checkpoint_every: after so many updates; 0 for never.
        static: one build on everything at the end, and an answer from that alone.
    """

    query_every: int = 0
    checkpoint_every: int = 0
    static: bool = False

    @property
    def stride(self) -> int:
        """After how many updates at most something is due; 0 for never."""
        return math.gcd(self.query_every, self.checkpoint_every)


@dataclass(frozen=True)
class Sink:
    """Where things go.

    Attributes:
        result: takes an answer.
        score: takes what a scored point is given.
        checkpoint: saves the state to a path, or, given None, to the run's own.
        should_stop: whether to end now.
    """

    result: Callable[[Result], None]
    score: Callable[[dict[str, Any]], None]
    checkpoint: Callable[[str | None], None]
    should_stop: Callable[[], bool]


class StreamRun:
    """One stream on its way through a model."""

    def __init__(
        self, model: DynamicKCenter, sink: Sink, schedule: Schedule, *, on_conflict: str = "error"
    ) -> None:
        self._model = model
        self._sink = sink
        self._schedule = schedule
        self._conflict = on_conflict
        self._answers = 0
        self._answered_at = -1
        self.line = 0

    def run_lines(self, chunks: Iterable[bytes], layout: Layout, source: str) -> None:
        """Applies lines until they end or it is time to stop.

        Raises:
            InputError: a line is bad; what was before it has been applied and answered.
        """
        self._model.ids_are_text()
        reader = _kernel.Reader(
            layout.separator,
            self._model.window_time is not None,
            layout.implied,
            self._model.metric == "precomputed",
            layout.columns,
            CONFLICTS.index(self._conflict),
            layout.first_line,
        )
        reader.announce_every(self._schedule.stride)
        if self._model._structure is not None:
            reader.attach(self._model._structure)
        for chunk in chunks:
            if chunk:
                reader.push(chunk, False)
                self._work(reader, source)
            if self._sink.should_stop():
                return
        reader.push(b"", True)
        self._work(reader, source)

    def run_points(self, points: Points) -> None:
        """Inserts the rows of a table in order; rows without ids are numbered from 0."""
        n = len(points.x)
        ids: Any = np.arange(n) if points.ids is None else points.ids
        stride = self._schedule.stride
        structure = self._model.prepare(points.x.shape[1])
        begin = 0
        while begin < n and not self._sink.should_stop():
            room = stride - structure.updates % stride if stride else _BATCH
            end = min(n, begin + min(room, _BATCH))
            self._insert(ids[begin:end], points, begin, end)
            begin = end
            if stride and structure.updates % stride == 0:
                self._due()

    def finish(self, *, forced: bool) -> None:
        """At the end: the answer of a static run, or one if there was none, or if the end came early."""
        if self._schedule.static:
            self._model.rebuild()
        fresh = self._answered_at == self._model.updates
        if self._schedule.static or not self._answers or (forced and not fresh):
            self._answer()

    def _insert(self, ids: Any, points: Points, begin: int, end: int) -> None:
        try:
            self._model.insert(ids, points.x[begin:end], on_conflict=self._conflict)
        except InputError as error:
            line = None if points.line is None else int(points.line[begin])
            raise InputError(error.message, points.source, line) from None

    def _work(self, reader: _kernel.Reader, source: str) -> None:
        """Applies what the reader has, stopping for everything that has to be answered."""
        while True:
            try:
                event = reader.next()
            except _kernel.BadLine as error:
                message, line = error.args
                raise InputError(message, source, line) from None
            self.line = reader.line
            if event is None:
                return
            try:
                self._handle(reader, *event)
            except InputError as error:
                if error.source is not None:
                    raise
                raise InputError(error.message, source, event[1]) from None

    def _handle(
        self, reader: _kernel.Reader, kind: str, line: int, words: list[str], coordinates: Floats
    ) -> None:
        del line
        if kind == "needs_structure":
            reader.attach(self._model.prepare(len(coordinates)))
        elif kind == "due":
            self._due()
        elif self._schedule.static:
            raise InputError("with --static only insertions and deletions make sense")
        elif kind == "query":
            self._answer(*words)
        elif kind == "checkpoint":
            if len(words) != 1 or words[0] in ("", "-"):
                raise InputError("a checkpoint takes one file name")
            self._sink.checkpoint(words[0])
        elif kind == "score":
            self._score(words, coordinates)

    def _due(self) -> None:
        updates = self._model.updates
        if self._schedule.query_every and updates % self._schedule.query_every == 0:
            self._answer()
        if self._schedule.checkpoint_every and updates % self._schedule.checkpoint_every == 0:
            self._sink.checkpoint(None)

    def _answer(self, k: str | None = None, z: str | None = None) -> None:
        if k is not None and not k.isdecimal():
            raise InputError(f"k must be a number of centers, got {k!r}")
        result = self._model.query(None if k is None else int(k), z)
        self._answers += 1
        self._answered_at = result.updates
        self._sink.result(result)

    def _score(self, words: list[str], coordinates: Floats) -> None:
        if self._model.metric == "precomputed":
            if not words[0].isdecimal():
                raise InputError(f"id {words[0]!r} is not a row of the matrix")
            coordinates = np.array([float(words[0])])
        scores = self._model.score(coordinates[None, :])
        centers = self._model.latest_centers
        self._sink.score(
            {
                "t": self._model.updates,
                "id": words[0] if words else None,
                "score": float(scores.score[0]),
                "distance": float(scores.distance[0]),
                "center": str(centers[int(scores.center[0])]),
                "outlier": bool(scores.outlier[0]),
            }
        )
