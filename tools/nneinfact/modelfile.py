"""The model file: an NPZ of plain arrays that numpy alone can open, the same bytes for the same model.

factor_0, factor_1, … are the factors; model, letters, sizes, alpha, beta say what they mean; loss, heldout_loss,
null_loss, history, … how well they fit; labels_w holds the names along letter w. A checkpoint is such a file too.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from icml.formats.errors import InputError
from icml.tools.nneinfact.control import Checkpoint
from icml.tools.nneinfact.estimator import NNEinFact
from icml.tools.nneinfact.model import Model

Dest = str | Path | BinaryIO | None
Source = str | Path | BinaryIO
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
CHECKPOINT = "nneinfact checkpoint 1"


def save_model(dest: Dest, fitted: NNEinFact) -> None:
    """Writes a fitted model.

    Args:
        dest: a path, "-" or None for standard output, or a binary file.
    """
    write_arrays(dest, model_arrays(fitted))


def load_model(source: Source) -> NNEinFact:
    """Reads a fitted model back.

    Raises:
        InputError: the file cannot be read, is no model file, or its factors do not fit its model string.
    """
    arrays, name = read_arrays(source)
    missing = next((key for key in ("model", "alpha", "beta", "factor_0") if key not in arrays), None)
    if missing is not None:
        raise InputError(f"not a model file: it has no array {missing!r}", name)
    try:
        return _from_arrays(arrays)
    except KeyError as error:
        raise InputError(f"not a model file: it has no array {error.args[0]!r}", name) from error
    except (InputError, ValueError, TypeError, OverflowError) as error:
        raise InputError(f"not a model file: {getattr(error, 'message', error)}", name) from error


def save_checkpoint(dest: Dest, checkpoint: Checkpoint) -> None:
    """Writes the state of a fit."""
    write_arrays(dest, {"format": np.array(CHECKPOINT), **checkpoint.arrays()})


def load_checkpoint(source: Source) -> Checkpoint:
    """Reads the state of a fit.

    Raises:
        InputError: the file cannot be read or is no checkpoint.
    """
    arrays, name = read_arrays(source)
    if str(arrays.get("format", "")) != CHECKPOINT:
        raise InputError("not a checkpoint of nneinfact", name)
    try:
        return Checkpoint.from_arrays(arrays)
    except InputError as error:
        raise InputError(error.message, name) from error


def model_arrays(fitted: NNEinFact) -> dict[str, NDArray[Any]]:
    """The arrays of a model file."""
    model = Model.parse(fitted.model)
    sizes = fitted.all_sizes()
    out: dict[str, Any] = {f"factor_{i}": f for i, f in enumerate(fitted.factors_)}
    out |= {
        "model": np.str_(model.text),
        "letters": np.array(list(model.letters)),
        "sizes": np.array([sizes[c] for c in model.letters], np.int64),
        "alpha": np.float64(fitted.alpha),
        "beta": np.float64(fitted.beta),
        "seed": np.int64(fitted.seed),
        "iterations": np.int64(fitted.n_iter_),
        "converged": np.bool_(fitted.converged_),
        "loss": np.float64(fitted.loss_),
        "heldout_loss": _number(fitted.heldout_loss_),
        "null_loss": np.float64(fitted.null_loss_),
        "null_heldout_loss": _number(fitted.null_heldout_loss_),
        "history": np.array(fitted.history_, np.float64),
        "heldout_history": np.array(fitted.heldout_history_, np.float64),
    }
    out |= {
        f"labels_{c}": np.array(names, dtype=np.str_) for c, names in sorted((fitted.labels or {}).items())
    }
    return {name: np.asarray(value) for name, value in out.items()}


def write_arrays(dest: Dest, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes an uncompressed NPZ without times, whole or not at all."""
    from icml.formats.output import atomic_output

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(array).reshape(np.shape(array)), allow_pickle=False
            )
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", FIXED_TIME), member.getvalue())
    if dest is None or isinstance(dest, str | Path):
        with atomic_output(dest, "wb") as file:
            file.write(buffer.getvalue())
    else:
        dest.write(buffer.getvalue())


def read_arrays(source: Source) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays of an NPZ and its name."""
    from icml.formats.arrays import load_npz
    from icml.formats.source import read_source

    content = read_source(source)
    return load_npz(content), content.name


def _from_arrays(arrays: Mapping[str, NDArray[Any]]) -> NNEinFact:
    model = Model.parse(str(arrays["model"]))
    factors = [_factor(arrays[f"factor_{i}"], letters) for i, letters in enumerate(model.factors)]
    sizes: dict[str, int] = {}
    for letters, factor in zip(model.factors, factors, strict=True):
        if factor.ndim != len(letters):
            raise InputError(f"factor {letters!r} has {factor.ndim} axes")
        for c, n in zip(letters, factor.shape, strict=True):
            if sizes.setdefault(c, n) != n:
                raise InputError(f"letter {c!r} has sizes {sizes[c]} and {n}")
    labels = {k.removeprefix("labels_"): v for k, v in arrays.items() if k.startswith("labels_")}
    for c, names in labels.items():
        if c not in model.output:
            raise InputError(f"it has labels for {c!r}, which is no observed letter")
        if names.shape != (sizes[c],) or names.dtype.kind != "U" or len(set(names.tolist())) < sizes[c]:
            raise InputError(f"the labels for {c!r} must be {sizes[c]} distinct strings")
    fitted = NNEinFact(
        model.text,
        {c: sizes[c] for c in model.latent},
        alpha=float(arrays["alpha"]),
        beta=float(arrays["beta"]),
        seed=int(arrays.get("seed", np.int64(0))),
        labels={c: names.tolist() for c, names in labels.items()} or None,
    )
    fitted.factors_ = factors
    fitted.n_iter_ = int(arrays.get("iterations", np.int64(0)))
    fitted.converged_ = bool(arrays.get("converged", np.bool_(False)))
    for name in ("loss", "null_loss"):
        setattr(fitted, name + "_", float(arrays.get(name, np.float64("nan"))))
    for name in ("heldout_loss", "null_heldout_loss"):
        value = float(arrays.get(name, np.float64("nan")))
        setattr(fitted, name + "_", None if np.isnan(value) else value)
    for name in ("history", "heldout_history"):
        setattr(fitted, name + "_", [float(x) for x in arrays.get(name, np.empty(0))])
    return fitted


def _factor(array: NDArray[Any], letters: str) -> NDArray[np.float64]:
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise InputError(f"factor {letters!r} holds no real numbers")
    factor = np.array(array, np.float64)
    if not np.isfinite(factor).all() or factor.min() < 0:
        raise InputError(f"factor {letters!r} holds values that are negative or not finite")
    return factor


def _number(value: float | None) -> np.float64:
    return np.float64("nan" if value is None else value)
