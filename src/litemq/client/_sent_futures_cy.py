"""Kernel: the futures of a whole request at once; what each of them does is told in ``sent_future``."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from concurrent.futures._base import FINISHED, RUNNING
from typing import Any

from litemq.client.sent_future import SentFuture

if cython.compiled:
    from cython.cimports.litemq.client._sends_cy import Outgoing
else:
    from litemq.client._sends_cy import Outgoing


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


def claim(outgoing: list[Outgoing]) -> list[Outgoing]:
    """Return the messages that nobody took back; their futures run."""
    one: Outgoing
    state: dict[str, Any]
    claimed: list[Outgoing] = []
    for one in outgoing:
        state = one.future.__dict__
        if state.setdefault("_state", RUNNING) is RUNNING or one.future.set_running_or_notify_cancel():
            claimed.append(one)
    return claimed


def finish(outgoing: list[Outgoing], found: list[Any]) -> None:
    """Tell futures where their messages are: ``found``, in the same order.

    Raises:
        ValueError: there are more or fewer; none is told.
    """
    one: Outgoing
    state: dict[str, Any]
    place: cython.Py_ssize_t = 0
    if len(found) != len(outgoing):
        raise ValueError(f"{len(outgoing)} messages were sent, {len(found)} were answered")
    for one in outgoing:
        if type(one.future) is SentFuture:
            state = one.future.__dict__
            state["_result"] = found[place]
            state["_state"] = FINISHED  # behind the result, and before the look: see ``sent_future``
            if "_condition" in state:
                one.future.tell()
        else:
            one.future.set_result(found[place])
        place += 1


def tally(outgoing: list[Outgoing]) -> tuple[int, dict[int, int]]:
    """Return the bytes of messages, and how many there are of each era."""
    one: Outgoing
    size: cython.Py_ssize_t = 0
    run: cython.Py_ssize_t = 0
    era: cython.Py_ssize_t = -1
    counts: dict[int, int] = {}
    for one in outgoing:
        size += one.size
        if one.era != era:
            if run > 0:
                counts[era] = counts.get(era, 0) + run
            era = one.era
            run = 0
        run += 1
    if run > 0:
        counts[era] = counts.get(era, 0) + run
    return size, counts
