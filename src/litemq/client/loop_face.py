"""The blocking face of what works in the background: its core runs on an event loop, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from litemq.client.net import LoopThread
from litemq.errors import Closed, InvalidRequest

T = TypeVar("T")


class LoopFace:
    """Runs coroutines of a core on the loop and waits for them; the thread begins with the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: LoopThread | None = None
        self._pid = os.getpid()
        self._is_over = False
        self._lock = threading.Lock()

    def _do(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of the core, and return what it returns."""
        try:
            loop = self._loop()
            if self._is_on_loop:
                raise InvalidRequest("a coroutine called a blocking method of its own consumer; use litemq.aio")
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _leave_to_others(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine of the core without waiting for it."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop())

    def _loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if not self._is_own_process:
                raise Closed("this was made before the process forked; make a new one in the child")
            if self._is_over:
                raise Closed("it is closed; make a new one")
            if self._thread is None:
                self._thread = LoopThread(self._name)
            return self._thread.loop

    @property
    def _is_own_process(self) -> bool:
        """Return whether it was made by this process, not by one that forked."""
        return self._pid == os.getpid()

    @property
    def _is_on_loop(self) -> bool:
        """Return whether the caller runs on the loop's thread."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return self._thread is not None and running is self._thread.loop

    def _end(self) -> None:
        """End the loop and its thread; nothing can be done any more."""
        with self._lock:
            self._is_over = True
            thread, self._thread = self._thread, None
        if thread is not None and self._is_own_process:
            thread.stop()
