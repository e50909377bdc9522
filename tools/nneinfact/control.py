"""What makes a fit anytime: limits that end it between two pieces of work, and the state it can resume from."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from icml.formats.errors import InputError
from icml.tools.nneinfact.fit import State, Stopped


class Guard:
    """Ends the work when the time is up or the caller says so; at rest outside a `with` block.

    Attributes:
        deadline: on the monotonic clock, or None.
        stopped: whether it has ended the work.
    """

    def __init__(self, time_limit: float | None, should_stop: Callable[[], bool] | None) -> None:
        if time_limit is not None and not time_limit >= 0:
            raise InputError(f"the time limit must not be negative, got {time_limit}")
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.stopped = False
        self._should_stop = should_stop
        self._armed = False

    def __enter__(self) -> Guard:
        self._armed = True
        return self

    def __exit__(self, *_: object) -> None:
        self._armed = False

    def poll(self) -> None:
        """Raises `Stopped` if the work is to end."""
        if not self._armed:
            return
        over = self.deadline is not None and time.monotonic() >= self.deadline
        if over or (self._should_stop is not None and self._should_stop()):
            self.stopped = True
            raise Stopped


@dataclass
class Checkpoint:
    """A fit in progress.

    Attributes:
        restart: number of the restart under way.
        state: its state; None before it has begun.
        kept: the best of the finished restarts.
        fingerprint: of the data and options that the fit is of.
    """

    restart: int = 0
    state: State | None = None
    kept: State | None = None
    fingerprint: str = ""

    def claim(self, fingerprint: str) -> None:
        """Takes the checkpoint for a fit.

        Raises:
            InputError: it is of another one.
        """
        if self.fingerprint not in ("", fingerprint):
            raise InputError("the checkpoint is of other data, another model or other options")
        self.fingerprint = fingerprint

    def finished(self, state: State) -> Checkpoint:
        """The checkpoint after a restart has ended: the better of it and the one kept."""
        better = self.kept is None or quality(state) < quality(self.kept)
        return Checkpoint(self.restart + 1, None, state if better else self.kept, self.fingerprint)

    def arrays(self) -> dict[str, Any]:
        """As named arrays, for a file."""
        out: dict[str, Any] = {"restart": np.int64(self.restart), "fingerprint": np.str_(self.fingerprint)}
        for name, state in (("state", self.state), ("kept", self.kept)):
            if state is not None:
                out.update({f"{name}.{key}": value for key, value in _state_arrays(state).items()})
        return out

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Checkpoint:
        """From what `arrays` gave.

        Raises:
            InputError: something is missing, or not what it should be.
        """
        try:
            states = [
                _state_from({k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(name + ".")})
                if any(k.startswith(name + ".") for k in arrays)
                else None
                for name in ("state", "kept")
            ]
            found = cls(int(arrays["restart"]), states[0], states[1], str(arrays["fingerprint"]))
        except KeyError as error:
            raise InputError(f"the checkpoint lacks {error.args[0]!r}") from None
        except (ValueError, TypeError, OverflowError) as error:
            raise InputError(f"the checkpoint is damaged: {error}") from None
        if found.restart < 0 or not found.fingerprint or not all(s is None or _sound(s) for s in states):
            raise InputError("the checkpoint is damaged: its numbers do not fit together")
        return found


def quality(state: State) -> float:
    """What restarts are compared by: the best held-out loss where there is one, else the objective."""
    if not state.history:  # stopped before its start was evaluated
        return math.inf
    return state.held_losses[state.best_sweep] if state.held_losses else state.history[-1]


def _state_arrays(state: State) -> dict[str, Any]:
    out: dict[str, Any] = {
        "numbers": np.array([state.sweeps, state.best_sweep, state.rejected, len(state.factors)], np.int64),
        "omega": np.float64(state.omega),
        "reason": np.str_(state.reason),
        "history": np.array(state.history, np.float64),
        "losses": np.array(state.losses, np.float64),
        "held_losses": np.array(state.held_losses, np.float64),
    }
    out.update({f"factor_{i}": f for i, f in enumerate(state.factors)})
    out.update({f"best_{i}": f for i, f in enumerate(state.best)})
    out.update({f"average_{name}": f for name, f in state.averages.items()})
    return out


def _sound(state: State) -> bool:
    """Whether a descent can go on from a state that was read."""
    if state.history:
        evaluated = state.sweeps + 1
        lengths = {len(state.history), len(state.losses), len(state.held_losses) or evaluated}
        counted = lengths == {evaluated} and 0 <= state.best_sweep <= state.sweeps
    else:
        counted = state.sweeps == 0 and not state.losses and not state.held_losses
    best = len(state.best) == (len(state.factors) if state.held_losses else 0)
    numbers = (*state.factors, *state.best, *state.averages.values())
    return (
        counted
        and best
        and 0 < state.omega < 2
        and bool(np.isfinite(state.history).all())
        and all(np.isfinite(a).all() and a.min(initial=0) >= 0 for a in numbers)
    )


def _state_from(arrays: Mapping[str, Any]) -> State:
    sweeps, best_sweep, rejected, count = (int(n) for n in arrays["numbers"])
    return State(
        factors=[np.array(arrays[f"factor_{i}"], np.float64) for i in range(count)],
        omega=float(arrays["omega"]),
        sweeps=sweeps,
        history=[float(x) for x in arrays["history"]],
        losses=[float(x) for x in arrays["losses"]],
        held_losses=[float(x) for x in arrays["held_losses"]],
        best=[np.array(arrays[f"best_{i}"], np.float64) for i in range(count) if f"best_{i}" in arrays],
        best_sweep=best_sweep,
        rejected=rejected,
        reason=str(arrays["reason"]),
        averages={
            k.removeprefix("average_"): np.array(v) for k, v in arrays.items() if k.startswith("average_")
        },
    )
