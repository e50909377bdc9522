"""How a run is watched and stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from icml.tools.quantize.options import Stopped


def _nobody(_: Any) -> None:
    pass


@dataclass(frozen=True)
class Control:
    """What a run may use, whom it tells what, and when it is to end.

    Attributes:
        threads: to compute with; they do not change the result.
        device: where the trellis is searched, "cpu" or a torch device.
        should_stop: polled; the run then raises `Stopped`, what is finished staying on the disk.
        on_block: told (finished blocks, name of the block that was finished, blocks in all).
        on_linear: told each line of the report.
        on_step: told (steps done, of how many, divergence so far) while distilling.
        on_note: told what somebody may want to know.
    """

    threads: int = 1
    device: str = "cpu"
    should_stop: Callable[[], bool] = lambda: False
    on_block: Callable[[tuple[int, str, int]], None] = _nobody
    on_linear: Callable[[dict[str, Any]], None] = _nobody
    on_step: Callable[[tuple[int, int, float]], None] = _nobody
    on_note: Callable[[str], None] = _nobody

    def poll(self) -> None:
        """Raises Stopped if somebody wants an end."""
        if self.should_stop():
            raise Stopped("stopped")
