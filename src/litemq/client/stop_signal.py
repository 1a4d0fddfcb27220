"""Waiting until somebody says that it is enough: Ctrl-C, SIGTERM, or a call from anywhere."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Is given once, by ``give`` or by a signal; may be waited for by any number of threads."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[None] = SimpleQueue()  # its put is safe in a signal handler, an event's set is not

    def give(self) -> None:
        """Let everybody go on who waits."""
        self._queue.put(None)

    def wait(self) -> None:
        """Wait for it; in the main thread signals count, and are put back to what they were behind it."""
        with self._signals():
            self._queue.get()
        self._queue.put(None)  # for the others who wait

    @contextmanager
    def _signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            self._queue.put(None)

        before = {number: signal.signal(number, on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
