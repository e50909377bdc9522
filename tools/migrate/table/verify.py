"""Proves entries by measurement: the same inputs on the real source instruction set, on each target and in numpy.

Hashes of the results are compared; where two differ, the first differing element is found and named with its inputs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from icml.formats.errors import MissingError, WorkError
from icml.tools.migrate import emulator, toolchain
from icml.tools.migrate.table import load
from icml.tools.migrate.table.compare import against_lanes, first_difference, within_tolerance
from icml.tools.migrate.table.emit_c import digest as emitted_digest
from icml.tools.migrate.table.emit_c import header
from icml.tools.migrate.table.entry import Entry
from icml.tools.migrate.table.pool import digest, pools
from icml.tools.migrate.table.program import program
from icml.tools.migrate.targets import TARGETS, Target, source_flags

SHARD = 150
ROUNDS = 200
# Rounds of the numpy executor: every corner against itself, and few enough to hold the results in memory.
LANE_ROUNDS = 80
TIMEOUT = 600.0


@dataclass(frozen=True)
class Mismatch:
    """An intrinsic that does not compute the same somewhere.

    Attributes:
        name: the intrinsic.
        place: "rvv vlen 256", "lsx" or "lanes".
        detail: the first element that differs and what it was computed from.
    """

    name: str
    place: str
    detail: str


@dataclass
class Verification:
    """What a run of verification found."""

    isa: str
    rounds: int
    targets: tuple[str, ...] = ()
    places: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.mismatches

    @property
    def failed(self) -> set[str]:
        return {mismatch.name for mismatch in self.mismatches}


def verify(
    isa: str,
    targets: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    entries: Mapping[str, Entry] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Verification:
    """Runs entries of a table everywhere and compares.

    Args:
        isa: the table.
        targets: instruction sets to hold against the source.
        names: intrinsics; all by default.
        rounds: input sets per intrinsic and immediate.
        entries: replace the table's of the same names.
        on_progress: told of each part as it is finished.

    Raises:
        MissingError: a compiler or an emulator is missing.
        WorkError: a program does not compile or does not run.
    """
    table = load(isa)
    chosen = sorted(names if names is not None else table)
    replaced = dict(entries or {})
    shards = [
        [replaced.get(name) or table[name] for name in chosen[i : i + SHARD]]
        for i in range(0, len(chosen), SHARD)
    ]
    needed = [_source(isa), *(TARGETS[name] for name in targets)]
    for target in needed:
        trouble = emulator.problem(target)
        if trouble is not None:
            raise MissingError(*trouble)
    result = Verification(isa, rounds, tuple(targets), _places(targets), chosen)
    for found in toolchain.in_parallel(
        lambda shard: _Shard(isa, targets, shard, rounds).run(on_progress), shards
    ):
        result.mismatches += found
    return result


def _source(isa: str) -> Target:
    return TARGETS["neon"] if isa == "neon" else TARGETS["avx2"]


def _places(targets: Sequence[str]) -> list[str]:
    places = ["lanes"]
    for name in targets:
        vlens = TARGETS[name].vlens
        places += [f"{name} vlen {vlen}" for vlen in vlens] or [name]
    return places


def _place(target: Target, vlen: int | None) -> str:
    return f"{target.name} vlen {vlen}" if vlen else target.name


class _Shard:
    """Some entries, compiled and run everywhere."""

    def __init__(self, isa: str, targets: Sequence[str], entries: list[Entry], rounds: int) -> None:
        self.isa, self.targets, self.entries, self.rounds = isa, targets, entries, rounds
        self.stdin = b"".join(pools())

    def run(self, on_progress: Callable[[str], None] | None) -> list[Mismatch]:
        flags = ["-DICM_REAL", *source_flags(self.isa)]
        real, problem = self._build(_source(self.isa), self.entries, flags, own_header=False)
        if real is None:
            raise WorkError(f"verification with {self.isa}'s own header does not compile: {problem}")
        expected = self._hashes(real, _source(self.isa), None)
        found = self._against_lanes(real)
        for name in self.targets:
            target = TARGETS[name]
            built, failed = self._programs(target, self.entries)
            found += failed
            for vlen in target.vlens or (None,):
                for exe, entries in built:
                    found += self._compare(exe, entries, target, vlen, expected, real)
                if on_progress:
                    on_progress(f"{self.entries[0].name}..{self.entries[-1].name} on {_place(target, vlen)}")
        return found

    def _programs(
        self, target: Target, entries: list[Entry]
    ) -> tuple[list[tuple[Path, list[Entry]]], list[Mismatch]]:
        """Programs that compile; entries at which the compiler fails are found by halving."""
        exe, problem = self._build(target, entries, [], own_header=True)
        if exe is not None:
            return [(exe, entries)], []
        if len(entries) == 1:
            return [], [Mismatch(entries[0].name, target.name, f"does not compile: {problem}")]
        half = len(entries) // 2
        left, right = self._programs(target, entries[:half]), self._programs(target, entries[half:])
        return left[0] + right[0], left[1] + right[1]

    def _build(
        self, target: Target, entries: list[Entry], flags: list[str], *, own_header: bool
    ) -> tuple[Path | None, str]:
        sources = {"verify.c": program(entries, self.isa)}
        if own_header:
            own = {entry.name: entry for entry in entries}
            sources["icm_simd.h"] = header(own, self.isa, target.name, entries=own)
        result = toolchain.compile(sources, target, flags=["-w", *flags], timeout=TIMEOUT)
        first = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr[:300])
        return result.path, first

    def _output(self, exe: Path, target: Target, vlen: int | None, args: list[str]) -> bytes:
        """The program's output, kept by what determines it."""
        key = hashlib.sha256(f"{exe.name} {exe.parent.name} {vlen} {args} {digest()}".encode()).hexdigest()[
            :40
        ]
        kept = toolchain.cache_folder() / "runs" / key
        if kept.exists():
            return kept.read_bytes()
        run = emulator.run(exe, target, args, vlen=vlen, stdin=self.stdin, timeout=TIMEOUT)
        if not run.ok:
            reason = (
                "took too long"
                if run.rc is None
                else f"ended with {run.rc}: {run.stderr[-200:].decode(errors='replace').strip()}"
            )
            at = run.stdout.decode(errors="replace").split("\n")[-2:] if args[1:] == [] else []
            raise WorkError(f"verification on {target.name} {reason} after {' '.join(at)}".rstrip())
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_name(f"{key}.{id(run)}")
        temporary.write_bytes(run.stdout)
        temporary.replace(kept)
        return run.stdout

    def _hashes(self, exe: Path, target: Target, vlen: int | None) -> dict[str, str]:
        text = self._output(exe, target, vlen, [str(self.rounds)]).decode()
        return dict(line.split() for line in text.splitlines())

    def _compare(
        self,
        exe: Path,
        entries: list[Entry],
        target: Target,
        vlen: int | None,
        expected: dict[str, str],
        real: Path,
    ) -> list[Mismatch]:
        got = self._hashes(exe, target, vlen)
        place = _place(target, vlen)
        found = []
        for entry in entries:
            if got[entry.name] == expected[entry.name]:
                continue
            args = [str(min(self.rounds, 200)), entry.name]
            theirs = self._output(real, _source(self.isa), None, args)
            ours = self._output(exe, target, vlen, args)
            if entry.tolerance is not None and within_tolerance(entry, theirs, ours):
                continue
            found.append(Mismatch(entry.name, place, first_difference(entry, theirs, ours)))
        return found

    def _against_lanes(self, real: Path) -> list[Mismatch]:
        rounds = min(self.rounds, LANE_ROUNDS)
        data = self._output(real, _source(self.isa), None, [str(rounds), "-"])
        return [Mismatch(name, "lanes", detail) for name, detail in against_lanes(self.entries, data, rounds)]


def summary(results: Sequence[Verification]) -> dict[str, object]:
    """What a committed record of a full verification holds."""
    return {
        result.isa: {
            "table": load(result.isa).hash,
            "emitted": {name: emitted_digest(result.isa, name) for name in result.targets},
            "inputs": digest(),
            "compiler": toolchain.find_compiler().version,
            "rounds": result.rounds,
            "names": len(result.names),
            "places": result.places,
            "mismatches": [f"{m.name} on {m.place}" for m in result.mismatches],
        }
        for result in results
    }


def write_summary(results: Sequence[Verification], path: Path) -> None:
    path.write_text(json.dumps(summary(results), indent=2) + "\n")
