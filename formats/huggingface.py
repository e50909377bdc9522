"""The transformers library, asked for in one place: without its progress bars, and in programs without the network."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from icml.formats.errors import InputError, MissingError


def require_transformers(what: str) -> Any:
    """Imports transformers and torch, and returns the former.

    Args:
        what: what needs them, for the error message: "quantizing a model".

    Raises:
        MissingError: one of them is not installed.
    """
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        raise MissingError(
            f"{what} needs torch and transformers", "pip install 'icml-tools[quantize]'"
        ) from error
    return transformers


def work_offline() -> None:
    """For programs, before transformers is imported: nothing is looked up on the network, nothing advised."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


@contextlib.contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Within, transformers shows no progress and gives no advice."""
    logging = transformers.utils.logging
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def load_causal(transformers: Any, path: str, *, dtype: Any, name: str | None = None) -> Any:
    """The causal language model in a directory, ready to be run; nothing is looked up elsewhere.

    Args:
        transformers: the library.
        path: the directory.
        dtype: of the weights, a torch dtype or "auto".
        name: for messages, if not the path.

    Raises:
        InputError: it cannot be loaded, or lacks weights of its head.
    """
    with quiet(transformers):
        try:
            model, info = transformers.AutoModelForCausalLM.from_pretrained(
                path, dtype=dtype, local_files_only=True, output_loading_info=True
            )
        except (InputError, MemoryError):
            raise
        except Exception as error:  # of any kind, from the code of any architecture
            reason = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise InputError(f"transformers cannot load it: {reason}", name or path) from error
    if info["missing_keys"]:
        lacking = sorted(info["missing_keys"])[0]
        raise InputError(f"is not a causal language model: it has no {lacking}", name or path)
    return model.eval()


def model_class(transformers: Any, config: Any) -> Any:
    """The class that a configuration names as its architecture, or the plain one for its model type."""
    for name in config.architectures or []:
        found = getattr(transformers, name, None)
        if found is not None:
            return found
    return transformers.AutoModel
