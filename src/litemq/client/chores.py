"""Small tasks that nobody waits for until the end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any


class Chores:
    """Runs coroutines; ``finish`` waits for them, ``cancel`` does not."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()

    def do(self, chore: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin with a chore."""
        task = asyncio.create_task(chore)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def is_ending(self) -> bool:
        """Return whether somebody waits for the chores to end."""
        return self._ending.is_set()

    async def pause(self, seconds: float) -> None:
        """Wait, but not longer than until somebody waits for the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def finish(self, seconds: float) -> None:
        """Wait for what is under way."""
        self._ending.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=max(seconds, 0))

    def cancel(self) -> None:
        """End what is under way."""
        for task in list(self._tasks):
            task.cancel()
