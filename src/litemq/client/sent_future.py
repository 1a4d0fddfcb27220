"""The future of a message on its way: a ``concurrent.futures.Future`` that costs little while nobody waits for it.

The standard one makes a lock, a condition and two lists for each message, and takes the lock five times.  This one
makes them when somebody waits, cancels or adds a callback; until then its state is one entry of its ``__dict__``,
which changes in single steps that no other thread can come between.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from typing import Any

from litemq.client._sends_cy import Sent

_making = threading.Lock()
_CONDITION = "_condition"


class SentFuture(Future[Sent]):
    """Tells where a message was stored; works with ``concurrent.futures.wait`` and ``asyncio.wrap_future``."""

    _state = PENDING
    _result: Any = None
    _exception: BaseException | None = None

    def __init__(self) -> None:
        """Make nothing: see ``__getattr__``."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the standard future keeps
        if name not in (_CONDITION, "_waiters", "_done_callbacks"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _making:
            if _CONDITION not in self.__dict__:
                self._waiters: list[Any] = []
                self._done_callbacks: list[Any] = []
                self._condition = threading.Condition()
        return self.__dict__[name]

    # Who waits makes the condition first and looks at the state then; who finishes sets the state first and looks for
    # a condition then.  So one of the two always sees the other.

    def done(self) -> bool:
        """Return whether it is known what became of the message."""
        return self._state in (FINISHED, CANCELLED, CANCELLED_AND_NOTIFIED)

    def result(self, timeout: float | None = None) -> Sent:
        """Return where the message is, wait for that if need be."""
        if self._state is FINISHED:
            if self._exception is not None:
                raise self._exception
            found: Sent = self._result
            return found
        return super().result(timeout)

    def cancel(self) -> bool:
        """Take the message back; False: it is on its way already."""
        mine = (
            CANCELLED[:-1] + CANCELLED[-1:]
        )  # equal to it, and nobody else's: so one of several who cancel is the first
        state = self.__dict__.setdefault("_state", mine)
        if state is not mine:
            return state in (CANCELLED, CANCELLED_AND_NOTIFIED)
        with self._condition:
            self._condition.notify_all()
        self._invoke_callbacks()
        return True

    def set_running_or_notify_cancel(self) -> bool:
        """Return whether the message is to be sent; it cannot be taken back any more then."""
        if self.__dict__.setdefault("_state", RUNNING) is RUNNING:
            return True
        with self._condition:
            self._state = CANCELLED_AND_NOTIFIED
            for waiter in self._waiters:
                waiter.add_cancelled(self)
        return False

    def set_result(self, result: Sent) -> None:
        """Tell where the message is."""
        self._result = result
        self._state = FINISHED
        if _CONDITION in self.__dict__:
            self.tell()

    def set_exception(self, exception: BaseException | None) -> None:
        """Tell what went wrong."""
        self._exception = exception
        self._state = FINISHED
        if _CONDITION in self.__dict__:
            self.tell()

    def tell(self) -> None:
        """Wake who waits for what is known now."""
        how = "add_result" if self._exception is None else "add_exception"
        with self._condition:
            for waiter in self._waiters:
                getattr(waiter, how)(self)
            self._condition.notify_all()
        self._invoke_callbacks()


__all__ = ["CancelledError", "SentFuture"]
