"""Kernel: the machine's clock, without a Python frame: whoever waits for an answer waits for it, too."""

from __future__ import annotations

import time

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.posix.time import CLOCK_REALTIME, clock_gettime, timespec


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.ccall
@cython.exceptval(check=False)
def wall_ms() -> cython.longlong:
    """Return wall-clock milliseconds since the epoch."""
    if cython.compiled:
        now = cython.declare(timespec)
        clock_gettime(CLOCK_REALTIME, cython.address(now))
        return now.tv_sec * cython.cast(cython.longlong, 1000) + now.tv_nsec // 1_000_000
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return time.time_ns() // 1_000_000
