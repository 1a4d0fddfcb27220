"""Threads that run handlers: a hop there costs a put into a queue, what is done comes back to the loop in groups."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

W = TypeVar("W")


class WorkerThreads(Generic[W]):
    """``run`` is called on a thread for each piece of work, then ``on_done`` on the loop for all that are done.

    ``run`` raises nothing: what went wrong is noted in the work.
    """

    def __init__(self, count: int, name: str, run: Callable[[W], None], on_done: Callable[[list[W]], None]) -> None:
        self._run = run
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._todo: SimpleQueue[W | None] = SimpleQueue()
        self._done: deque[W] = deque()
        self._is_told = False
        self._threads = [
            threading.Thread(target=self._main, name=f"{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, work: W) -> None:
        """Have a piece of work done."""
        self._todo.put(work)

    def has_current(self) -> bool:
        """Return whether the caller runs on one of these threads."""
        return threading.current_thread() in self._threads

    def stop(self) -> None:
        """End the threads when all work is done; ``join`` waits for it."""
        for _ in self._threads:
            self._todo.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the threads to end; return whether they did."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in self._threads)

    def _main(self) -> None:
        take = self._todo.get
        while True:
            work = take()
            if work is None:
                return
            self._run(work)
            self._done.append(work)
            del work
            if not self._is_told:  # whoever was told has not come yet, and will find this, too
                self._is_told = True
                with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                    self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._is_told = False
        done = self._done
        found = []
        with suppress(IndexError):
            while True:
                found.append(done.popleft())
        if found:
            self._on_done(found)
