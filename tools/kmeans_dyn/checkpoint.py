"""Checkpoints: the whole state of a `DynamicKCenter` in an NPZ file; a resumed run equals an uninterrupted one."""

from __future__ import annotations

import hashlib
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from icml.formats.arrays import load_npz
from icml.formats.errors import InputError
from icml.formats.output import atomic_output
from icml.formats.source import read_source, source_name

if TYPE_CHECKING:
    from icml.tools.kmeans_dyn.dynamic import DynamicKCenter

FORMAT = "icml kcenter-dyn checkpoint"
VERSION = 1
_META, _STATE = "meta", "state_"


def save(model: DynamicKCenter, destination: str | Path | BinaryIO) -> None:
    """Writes the model's state; the same state gives the same bytes."""
    arrays: dict[str, Any] = {}
    meta: dict[str, Any] = {"format": FORMAT, "version": VERSION, **_identity(model)}
    structure, latest = model._structure, model._latest
    meta["dimension"] = None if structure is None else model.dimension
    meta["integers"] = model._integers
    meta["latest"] = (
        None if latest is None else {"ids": latest.ids, "radius": latest.radius, "updates": latest.updates}
    )
    if latest is not None:
        arrays["latest_words"] = latest.words
    if structure is not None:
        arrays |= {_STATE + name: values for name, values in structure.save().items()}
    arrays[_META] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), np.uint8)
    with (
        atomic_output(destination, "wb")
        if isinstance(destination, str | Path)
        else nullcontext(destination) as stream
    ):
        np.savez(stream, **arrays)


def load(model: DynamicKCenter, source: str | Path | BinaryIO) -> None:
    """Puts a saved state into a model without points.

    Raises:
        InputError: the file is damaged, of another version, or was made with another k, metric, dtype, dimension or
            matrix.
    """
    name = source_name(source)
    if len(model) or model.updates:
        raise InputError("a checkpoint goes into a model without points")
    arrays = load_npz(read_source(source))
    meta = _meta(arrays, name)
    for key, value in _identity(model).items():
        if meta.get(key) != value:
            raise InputError(f"made with {key} {meta.get(key)}, not {value}", name)
    if meta["dimension"] is None:
        return
    state = {key.removeprefix(_STATE): arrays[key] for key in arrays if key.startswith(_STATE)}
    try:
        model.prepare(int(meta["dimension"])).load(state)
        model._integers = bool(meta["integers"])
        model._latest = _latest(meta, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the checkpoint does not fit: {error}", name) from None


def _identity(model: DynamicKCenter) -> dict[str, Any]:
    """What a run that goes on must have in common with the one before."""
    matrix = model.matrix
    digest = None if matrix is None else hashlib.blake2b(matrix.tobytes(), digest_size=16).hexdigest()
    return {"k": model.k, "metric": model.metric, "dtype": model.dtype, "matrix": digest}


def _latest(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    from icml.tools.kmeans_dyn.dynamic import _Latest

    latest = meta["latest"]
    if latest is None:
        return None
    words = np.ascontiguousarray(arrays["latest_words"], np.float64)
    if words.ndim != 2 or len(words) != len(latest["ids"]) or not np.isfinite(words).all():
        raise ValueError("damaged checkpoint: latest_words")
    return _Latest(list(latest["ids"]), words, float(latest["radius"]), int(latest["updates"]))


def _meta(arrays: dict[str, NDArray[Any]], name: str) -> dict[str, Any]:
    try:
        meta: dict[str, Any] = json.loads(arrays[_META].tobytes())
        if meta["format"] != FORMAT:
            raise ValueError
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InputError("not a checkpoint of kcenter-dyn", name) from None
    if meta.get("version") != VERSION:
        raise InputError(f"a checkpoint of version {meta.get('version')}; this program reads {VERSION}", name)
    return {"dtype": "float64"} | meta  # as all were before there was a choice
