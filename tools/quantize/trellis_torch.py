"""The Viterbi search in torch, for a batch of tiles at once; the same bits as the compiled one.

Predecessors are a reshape and successors a repeat, so nothing is gathered on the way forward. The predecessor rides in
the low bits of the cost, which makes the lowest of equals win.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from icml.tools.quantize.trellis import TrellisCode

REFINEMENT_PLACES = (4, 2, 6, 1, 5, 3, 7)  # eighths of the ring
BATCH = 2**27  # states times tiles times steps whose decisions are held at once


def search(
    code: TrellisCode, tiles: NDArray[np.float32], window: int, refinements: int, narrow: bool, device: str
) -> NDArray[np.uint16]:
    """States [N, T] of the closed paths for tiles [N, T]; arguments as `TrellisCode.search` resolves them."""
    step = max(1, BATCH // (2 ** (code.L - code.K) * tiles.shape[1]))
    parts = [
        _search(code, tiles[i : i + step], window, refinements, narrow, device)
        for i in range(0, len(tiles), step)
    ]
    return np.concatenate(parts) if parts else np.empty(tiles.shape, np.uint16)


def _search(
    code: TrellisCode, tiles: NDArray[np.float32], window: int, refinements: int, narrow: bool, device: str
) -> NDArray[np.uint16]:
    one, edge = (2.0**10, 4096.0) if narrow else (2.0**13, 32767.0)
    x = torch.round(torch.from_numpy(tiles).to(device) * one).clamp(-edge, edge).to(torch.int32)
    value = code.level_value[code.level] if narrow else code.q13
    values = torch.from_numpy(value.astype(np.int32)).to(device)
    most = 255 if narrow else 65535
    window = min(window, x.shape[1] // 2)
    turned = torch.roll(x, window, 1)[:, : 2 * window]
    seam = _run(turned, values, code, most, None)[:, window] >> code.K
    states = _run(x, values, code, most, seam)
    tail, costs = "window" if 2 * window < x.shape[1] else "full", "uint8" if narrow else "uint16"
    for i in (
        torch.nonzero(states[:, 0] >> code.K != seam).flatten().tolist()
    ):  # saturation let it leave the ring
        closed = code.search(tiles[i : i + 1], tail=tail, costs=costs)[0]
        states[i] = torch.from_numpy(closed.astype(np.int64)).to(states)
    for eighths in REFINEMENT_PLACES[:refinements]:
        place = eighths * x.shape[1] // 8
        seam = states[:, place] >> code.K
        better = _run(torch.roll(x, -place, 1), values, code, most, seam)
        held = better[:, :1] >> code.K == seam[:, None]
        states = torch.where(held, torch.roll(better, place, 1), states)
    return states.cpu().numpy().astype(np.uint16)


def _run(
    x: torch.Tensor, values: torch.Tensor, code: TrellisCode, most: int, seam: torch.Tensor | None
) -> torch.Tensor:
    """States [N, T] of the best paths; `seam`, the bits before the first and of the last weight, or None: free ends."""
    count, length = x.shape
    ways, groups = 2**code.K, 2 ** (code.L - code.K)
    cost = _distance(x[:, :1], values, most)
    if seam is not None:
        group = torch.arange(groups * ways, device=x.device) >> code.K
        cost = torch.where(group == seam[:, None], cost, most)
    floor = cost.new_zeros(count, 1)
    decisions = []
    for t in range(1, length):
        keyed = (
            cost.view(count, ways, groups) * ways
            + torch.arange(ways, device=x.device, dtype=torch.int32)[:, None]
        )
        least = keyed.amin(1)
        decisions.append((least & (ways - 1)).to(torch.uint8))
        minimum = (least >> code.K) if t % 2 == 0 else ((least >> code.K) - floor).clamp_min(0)
        floor = minimum.amin(1, keepdim=True)
        cost = (minimum.repeat_interleave(ways, 1) + _distance(x[:, t : t + 1], values, most)).clamp_max(most)
    return _trace(cost, decisions, code, seam)


def _distance(x: torch.Tensor, values: torch.Tensor, most: int) -> torch.Tensor:
    d = (x - values).clamp(-32768, 32767)
    return ((d * d + 2**14) >> 15).clamp_max(most)


def _trace(
    cost: torch.Tensor, decisions: list[torch.Tensor], code: TrellisCode, seam: torch.Tensor | None
) -> torch.Tensor:
    ways, groups = 2**code.K, 2 ** (code.L - code.K)
    state_number = torch.arange(ways * groups, device=cost.device)
    key = cost.to(torch.int64) * (ways * groups) + state_number
    if seam is not None:
        key = torch.where(state_number % groups == seam[:, None], key, 2**62)
    state = key.argmin(1, keepdim=True)
    states = [state]
    for decision in reversed(decisions):
        group = state >> code.K
        state = decision.gather(1, group).to(torch.int64) * groups + group
        states.append(state)
    return torch.cat(states[::-1], 1)
