"""Long work on the loop in slices, so that others have their turn."""

from __future__ import annotations

import asyncio

_SLICE_S = 0.002


class Turns:
    """Lets others have their turn after each slice of work."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + _SLICE_S

    async def take(self) -> None:
        """Go on at once, or after everybody else when the slice is used up."""
        if self._loop.time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._loop.time() + _SLICE_S
