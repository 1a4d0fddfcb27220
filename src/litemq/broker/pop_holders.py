"""Who holds messages by receipts: client ids as numbers of two bytes, which held messages can afford.

Only for people to look at, and only in memory: after a restart nobody knows who had what before, until it is handed
out again.  There are 65 535 numbers; when they are used up, those of clients that hold nothing any more are used anew,
and while all of them hold something, further clients are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from litemq.features.pop import PopQueue

_MOST = 0xFFFF
_MANY_AT_ONCE = 256
"""So many numbers must be free for another round: looking for them is a walk over all that is held."""


class PopHolders:
    """Numbers of client ids; 0: not known."""

    def __init__(
        self,
        queues: Callable[[], Iterable[tuple[object, PopQueue]]],
        *,
        most: int = _MOST,
        at_once: int = _MANY_AT_ONCE,
    ) -> None:
        self._queues = queues
        self._most = most
        self._at_once = at_once
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {0: ""}
        self._free: Iterator[int] = iter(range(1, most + 1))
        self._is_full = False

    def number(self, name: str) -> int:
        """Return the number of a client."""
        if not name:
            return 0
        found = self._numbers.get(name)
        return found if found is not None else self._new(name)

    def name(self, number: int) -> str:
        """Return the client of a number; empty when it is not known."""
        return self._names.get(number, "")

    def _new(self, name: str) -> int:
        if self._is_full:
            return 0
        number = next(self._free, 0) or self._freed()
        if number:
            self._numbers[name] = number
            self._names[number] = name
        return number

    def _freed(self) -> int:
        """Take back the numbers of those who hold nothing; return one of them."""
        used = {holder for _, queue in self._queues() for holder in queue.holders()}
        free = sorted(self._names.keys() - used - {0})
        for number in free:
            del self._numbers[self._names.pop(number)]
        self._free = iter(free)
        self._is_full = len(free) < self._at_once
        return next(self._free, 0)
