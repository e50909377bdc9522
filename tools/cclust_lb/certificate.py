"""Certificates: a lower bound and its packing as a file that anybody can check against the graph."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from icml.formats.errors import InputError
from icml.tools.cclust_lb.bounds import Bound, Packing
from icml.tools.cclust_lb.problem import Problem, SignedGraph, as_graph
from icml.tools.cclust_lb.proof import ARRAYS, Rejected, prove, shape_trouble

SCHEMA = 1
_TEXT, _INTEGER, _REAL = np.dtype("U"), np.dtype("<i8"), np.dtype("<f8")
_MEMBERS: dict[str, tuple[np.dtype[Any], int]] = {
    "schema": (_INTEGER, 0),
    "problem": (_TEXT, 0),
    "digest": (_TEXT, 0),
    "scale_bits": (_INTEGER, 0),
    "lower": (_REAL, 0),
    "lower_int": (_INTEGER, 1),  # empty for None
    "checksum": (_TEXT, 0),
    **{name: (dtype, 1) for name, dtype in ARRAYS.items()},
}
"""The arrays of the file in order: type and number of dimensions."""

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the zip format's earliest time
_MALFORMED: tuple[type[Exception], ...] = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    RuntimeError,
    MemoryError,
    OverflowError,
    SyntaxError,
    zipfile.BadZipFile,
)
"""What zipfile and numpy raise when bytes are wrong."""


@dataclass(frozen=True)
class Certificate:
    """A bound as a file states it; nothing here is proven before `verify` says so.

    Attributes:
        problem, digest, lower, lower_int, items: as in `Bound`.
        checksum: SHA-256 over all the rest.
    """

    problem: Problem
    digest: str
    lower: float
    lower_int: int | None
    items: Packing
    checksum: str


@dataclass(frozen=True)
class Verified:
    """What a check found.

    Attributes:
        ok: whether the certificate proves what it claims for this graph.
        reason: if not, the first thing that is wrong.
        lower, lower_int: the bound that the packing proves, worked out anew; None if it proves nothing.
    """

    ok: bool
    reason: str | None = None
    lower: float | None = None
    lower_int: int | None = None


def save_certificate(dest: str | Path | IO[bytes], bound: Bound | Certificate) -> None:
    """Writes a bound and its packing as NPZ; the same bound gives the same bytes.

    Args:
        dest: a path, "-" for standard output, or a binary file.
    """
    data = _serialise(bound)
    if isinstance(dest, str | Path):
        from icml.formats.output import atomic_output

        with atomic_output(dest, "wb") as file:
            file.write(data)
    else:
        dest.write(data)


def load_certificate(source: str | Path | IO[bytes]) -> Certificate:
    """Reads what `save_certificate` wrote.

    Raises:
        InputError: the file cannot be read or is not a certificate. A certificate with wrong contents loads.
    """
    name = str(source) if isinstance(source, str | Path) else getattr(source, "name", "certificate")
    try:
        data = Path(source).read_bytes() if isinstance(source, str | Path) else source.read()
    except OSError as error:
        raise InputError(error.strerror or str(error), name) from error
    try:
        members = _read_members(data)
    except _MALFORMED as error:
        raise InputError(f"not a certificate: {error}", name) from error
    try:
        return _from_members(members)
    except ValueError as error:
        raise InputError(f"not a certificate: {error}", name) from error


def verify(
    claim: Bound | Certificate,
    u: ArrayLike | SignedGraph,
    v: ArrayLike | None = None,
    s: ArrayLike | None = None,
    *,
    weights: str = "unit",
    merge: str = "sum",
) -> Verified:
    """Checks a bound against the graph, trusting neither, in exact integers.

    Args:
        claim: what `bound` returned or `load_certificate` read.
        u, v, s, weights, merge: the graph: a `SignedGraph` as `u`, or rows for `merge_edges`.

    Raises:
        InputError: the rows are no graph.
    """
    graph = as_graph(u, v, s, weights=weights, merge=merge)
    if claim.digest != graph.digest():
        return Verified(False, "it is for another graph")
    try:
        lower, lower_int = prove(claim.items, graph, claim.problem)
    except Rejected as rejected:
        return Verified(False, str(rejected))
    if claim.lower != lower or claim.lower_int != lower_int:
        stated = f"lower {claim.lower!r}, lower_int {claim.lower_int}"
        return Verified(False, f"it claims {stated} but proves {lower!r}, {lower_int}", lower, lower_int)
    if isinstance(claim, Certificate) and claim.checksum != _checksum(claim):
        return Verified(False, "the checksum does not fit: the file was altered", lower, lower_int)
    return Verified(True, None, lower, lower_int)


# The file


def _checksum(claim: Bound | Certificate) -> str:
    stated = [SCHEMA, str(claim.problem), claim.digest, int(claim.items.scale_bits)]
    stated += [float(claim.lower), None if claim.lower_int is None else int(claim.lower_int)]
    h = hashlib.sha256(repr(stated).encode())
    for name, dtype in ARRAYS.items():
        array: NDArray[Any] = np.ascontiguousarray(getattr(claim.items, name)).astype(dtype, copy=False)
        h.update(f"{name} {len(array)}\n".encode())
        h.update(array.data)
    return h.hexdigest()


def _serialise(claim: Bound | Certificate) -> bytes:
    members: dict[str, NDArray[Any]] = {
        "schema": np.array(SCHEMA, _INTEGER),
        "problem": np.array(str(claim.problem), "<U16"),
        "digest": np.array(claim.digest, "<U64"),
        "scale_bits": np.array(claim.items.scale_bits, _INTEGER),
        "lower": np.array(claim.lower, _REAL),
        "lower_int": np.array([] if claim.lower_int is None else [claim.lower_int], _INTEGER),
        "checksum": np.array(claim.checksum if isinstance(claim, Certificate) else _checksum(claim), "<U64"),
    }
    for name, dtype in ARRAYS.items():
        members[name] = np.ascontiguousarray(getattr(claim.items, name)).astype(dtype, copy=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in _MEMBERS:
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, members[name], version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _read_members(data: bytes) -> dict[str, NDArray[Any]]:
    members = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = sorted(info.filename for info in archive.infolist())
        if names != sorted(f"{name}.npy" for name in _MEMBERS):
            raise ValueError(f"it holds {', '.join(names) or 'nothing'}")
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:  # so that a small file cannot unpack to a huge one
                raise ValueError(f"{info.filename} is compressed")
            file = io.BytesIO(archive.read(info))
            members[info.filename.removesuffix(".npy")] = np.lib.format.read_array(file, allow_pickle=False)
            if file.read(1):
                raise ValueError(f"{info.filename} is longer than its array")
    return members


def _from_members(members: dict[str, NDArray[Any]]) -> Certificate:
    for name, (dtype, dimensions) in _MEMBERS.items():
        found = members[name]
        fits = found.dtype.kind == "U" if dtype == _TEXT else found.dtype == dtype
        if not fits or found.ndim != dimensions:
            raise ValueError(f"{name} is {found.dtype} {found.shape}")
    if int(members["schema"]) != SCHEMA:
        raise ValueError(f"schema {int(members['schema'])} is not known, only {SCHEMA}")
    if len(members["lower_int"]) > 1:
        raise ValueError("lower_int holds more than one number")
    items = Packing(**{name: members[name] for name in ARRAYS}, scale_bits=int(members["scale_bits"]))
    problem = str(members["problem"])
    if problem not in list(Problem):
        raise ValueError(f"the problem {problem!r} is not known")
    wrong = shape_trouble(items)
    if wrong:
        raise ValueError(wrong)
    return Certificate(
        problem=Problem(problem),
        digest=str(members["digest"]),
        lower=float(members["lower"]),
        lower_int=int(members["lower_int"][0]) if len(members["lower_int"]) else None,
        items=items,
        checksum=str(members["checksum"]),
    )
