"""The folder in which a quantization grows: finished units of work stay, so that a run can go on after anything.

A unit is a block of the model, or the tensors outside the blocks. It is finished when the file that describes it is
there, which is written last. A lock keeps a second run out; the jobs of an array share it, each with its own units.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icml.formats.errors import InputError, WorkError
from icml.formats.model_dir import CONFIG, read_json
from icml.formats.output import write_json
from icml.formats.safetensors import RawTensor, SafetensorsFile, write_safetensors

WORK = ".icml-quantize"
"""The hidden folder, inside the one that becomes the result, for what is not part of it."""

PLAN, LOCK = "plan.json", "lock"
METADATA = {"format": "pt"}

REPORT = "quantize-report.jsonl"
"""Beside the weights: a line for each linear."""

_DISK_TROUBLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)


@dataclass(frozen=True)
class Workspace:
    """Attributes:
    out: where the result goes.
    folder: OUT.partial, which is renamed to it.
    units: how many there are: the blocks, then the rest.
    replace: what is at `out` may make way.
    """

    out: Path
    folder: Path
    units: int
    replace: bool = field(default=False, compare=False)

    @classmethod
    @contextlib.contextmanager
    def begin(
        cls, out: Path, plan: Mapping[str, Any], *, join: bool, force: bool, shared: bool = False
    ) -> Iterator[Workspace]:
        """Makes the folder, or goes on with the one that is there; within, it is nobody else's.

        Args:
            out: where the result goes.
            plan: what the work is: settings, digests, `units`; a workspace of another plan is not gone on with.
            join: go on with what is there.
            force: an `out` that is there will be replaced, and a workspace be emptied unless `join`.
            shared: other processes may work here too, on other units.

        Raises:
            InputError: the result, or another workspace, is there; or another run is at work; or the folder cannot be
                made.
            WorkError: the disk is full.
        """
        folder = partial_folder(out)
        check_out(out, force=force)
        with _locked(folder, make=True, shared=shared):
            check_out(out, force=force)  # again: whoever had the lock may have made it
            if not join and (folder / WORK / PLAN).is_file():
                if not force:
                    raise InputError(
                        "an earlier run was not finished; --resume goes on with it, --force begins anew",
                        os.fspath(folder),
                    )
                _empty(folder)
            _agree(folder, dict(plan), shared=shared)
            yield cls(out, folder, int(plan["units"]), force)

    @classmethod
    @contextlib.contextmanager
    def of(cls, out: Path, *, force: bool = False) -> Iterator[tuple[Workspace, dict[str, Any]]]:
        """The workspace that belongs to `out`, and its plan; within, it is nobody else's.

        Raises:
            InputError: there is none, or somebody is at work there.
        """
        folder = partial_folder(out)
        if not (folder / WORK / PLAN).is_file():
            raise InputError("holds no quantization in progress", os.fspath(folder))
        check_out(out, force=force)
        with _locked(folder, make=False, shared=False):
            plan = read_json(folder / WORK / PLAN)
            yield cls(out, folder, int(plan["units"]), force), plan

    @property
    def work(self) -> Path:
        """Where files go that are not part of the result."""
        return self.folder / WORK

    def weights_file(self, unit: int) -> Path:
        """Where a unit's tensors are in the result."""
        return self.folder / f"model-{unit + 1:05d}-of-{self.units:05d}.safetensors"

    def candidates_file(self, unit: int) -> Path:
        """Where a unit's tensors wait, in every number of bits, for a budget to choose."""
        return self.work / f"candidates-{unit + 1:05d}.safetensors"

    def _info_file(self, unit: int) -> Path:
        return self.work / f"unit-{unit + 1:05d}.json"

    def finished(self, unit: int, digest: str) -> dict[str, Any] | None:
        """What describes a unit, if it is finished and was made of the same input."""
        info = self.info(unit)
        return info if info is not None and info.get("digest") == digest else None

    def info(self, unit: int) -> dict[str, Any] | None:
        """What describes a unit, if it is finished."""
        return read_json(self._info_file(unit)) if self._info_file(unit).is_file() else None

    def unfinished(self) -> list[int]:
        """The units that are not."""
        return [unit for unit in range(self.units) if not self._info_file(unit).is_file()]

    def save(
        self, unit: int, tensors: Mapping[str, Any], info: dict[str, Any], *, candidates: bool = False
    ) -> None:
        """Writes a unit, and then that it is finished.

        Raises:
            WorkError: the disk is full.
        """
        with contextlib.suppress(FileNotFoundError):
            self._info_file(unit).unlink()
        write_safetensors(
            self.candidates_file(unit) if candidates else self.weights_file(unit), tensors, METADATA
        )
        write_json(self._info_file(unit), info)

    def tensors(self, unit: int) -> Mapping[str, RawTensor]:
        """A finished unit's tensors."""
        return SafetensorsFile(self.weights_file(unit))

    def candidates(self, unit: int) -> Mapping[str, RawTensor]:
        """A finished unit's tensors in every number of bits."""
        return SafetensorsFile(self.candidates_file(unit))

    def publish(self) -> None:
        """Gives the folder its name; an older result makes way.

        Raises:
            InputError: somebody else has put something there.
        """
        for leftover in self.folder.glob(".icml-*.tmp"):
            leftover.unlink(missing_ok=True)
        put_in_place(self.folder, self.out, replace=self.replace)
        shutil.rmtree(self.out / WORK, ignore_errors=True)


def partial_folder(out: Path) -> Path:
    """Where the result grows."""
    return out.with_name(out.name + ".partial")


def check_out(out: Path, *, force: bool) -> None:
    """Raises InputError if the result cannot go there: something is there, and not a model that may be replaced."""
    if not out.exists() and not out.is_symlink():
        return
    if not force:
        raise InputError("exists already; --force replaces it", os.fspath(out))
    if not out.is_dir() or not (out / CONFIG).is_file():
        raise InputError("is no model, and not replaced even with --force", os.fspath(out))


def put_in_place(folder: Path, out: Path, *, replace: bool) -> None:
    """Gives a finished folder the name `out`; with `replace`, a directory of that name makes way.

    Raises:
        InputError: something is there.
    """
    old = None
    if replace and out.exists():
        old = out.with_name(f".{out.name}.{os.urandom(6).hex()}.old")
        os.rename(out, old)
    try:
        os.rename(folder, out)
    except OSError as error:
        raise InputError(f"cannot become {out}: {error.strerror}", os.fspath(folder)) from error
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def check_space(out: Path, need: int) -> None:
    """Raises InputError if the disk has no room for `need` bytes."""
    folder = out.absolute().parent
    if not folder.is_dir():
        raise InputError("there is no such folder to write in", os.fspath(folder))
    free = shutil.disk_usage(folder).free
    if free < need:
        raise InputError(
            f"about {need / 1e6:.0f} MB are needed, the disk has {free / 1e6:.0f} MB left", os.fspath(out)
        )


@contextlib.contextmanager
def _locked(folder: Path, *, make: bool, shared: bool) -> Iterator[None]:
    """Within, the lock of a workspace is held, alone or with other sharers."""
    made = False
    try:
        if make:
            made = not folder.exists()
            (folder / WORK).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / WORK / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _trouble(error, folder) from error
    try:
        _take(descriptor, folder, shared=shared)
        try:
            yield
        finally:
            if made and not shared and folder.is_dir() and not (folder / WORK / PLAN).exists():
                shutil.rmtree(folder, ignore_errors=True)  # nothing was begun: leave nothing
    finally:
        os.close(descriptor)


def _take(descriptor: int, folder: Path, *, shared: bool) -> None:
    busy = InputError("another run is at work there", os.fspath(folder))
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise busy from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:  # a file system without locks: one has to take care oneself
            raise _trouble(error, folder) from error
    try:
        same = os.path.samestat(os.fstat(descriptor), os.stat(folder / WORK / LOCK))
    except OSError:
        same = False
    if not same:  # it has become a result meanwhile, or been emptied
        raise busy


def _trouble(error: OSError, folder: Path) -> InputError | WorkError:
    if error.errno in _DISK_TROUBLE:
        return WorkError(f"{folder}: {error.strerror}")
    return InputError(error.strerror or str(error), os.fspath(folder))


def _empty(folder: Path) -> None:
    """Removes what an earlier run has left, but not the lock, which is held."""
    (folder / WORK / PLAN).unlink(missing_ok=True)
    for path in [*folder.iterdir(), *(folder / WORK).iterdir()]:
        if path.name in (WORK, LOCK):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _agree(folder: Path, plan: dict[str, Any], *, shared: bool) -> None:
    """Writes the plan, or compares it with the one that is there."""
    path = folder / WORK / PLAN
    if not path.is_file():
        write_json(path, plan)
    different = _differences(plan, read_json(path))
    if different:
        how = "remove it, or give" if shared else "--force begins anew, or give"
        raise InputError(
            f"was begun with other {' and '.join(different)}; {how} another -o", os.fspath(folder)
        )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of what is not the same in two plans, of settings one by one."""
    names = sorted({*one, *other} - {"settings"})
    settings = one.get("settings", {}), other.get("settings", {})
    inner = sorted({*settings[0], *settings[1]})
    return [name for name in names if one.get(name) != other.get(name)] + [
        name for name in inner if settings[0].get(name) != settings[1].get(name)
    ]
