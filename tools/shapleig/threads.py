"""Linear algebra on one thread: the matrices are small, and the same study must give the same bytes on any machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


def single_threaded() -> AbstractContextManager[Any]:
    """BLAS uses one thread while the block runs."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - scipy brings a BLAS of its own, which the controller must find
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
