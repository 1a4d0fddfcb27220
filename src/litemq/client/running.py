"""One implementation, two faces: coroutines that wait for the network, run by an event loop or by the caller.

The core of the SDK is written as coroutines over a ``Net``.  Over ``LoopNet`` they wait as coroutines do.  Over
``BlockingNet`` every wait happens inside of the call, so that they never hand control back: ``run`` drives such a
coroutine to its end on the caller's thread, without a loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def run(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that waits inside of its calls, and return what it returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine of the blocking face waited for an event loop: please report this")


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """Return the blocking form of a core's method, for a class whose ``_core`` is that core."""
    name = method.__name__

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: ANN401 - any face
        coroutine: Coroutine[Any, Any, R] = getattr(self._core, name)(*args, **kwargs)
        return run(coroutine)

    functools.update_wrapper(call, method)
    return call
