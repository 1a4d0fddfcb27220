"""How far a queue has been worked off: messages finish in any order, the committed offset never passes one of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable


class QueueProgress:
    """Knows which offsets of one queue were taken and not finished yet; they are taken in rising order.

    >>> progress = QueueProgress(7)
    >>> progress.took([7, 8, 9], behind=10)
    >>> progress.finished(8)
    >>> progress.offset
    7
    >>> progress.finished(7)
    >>> progress.offset
    9
    """

    def __init__(self, offset: int) -> None:
        self._behind = offset
        self._taken: deque[int] = deque()
        self._finished: set[int] = set()

    @property
    def offset(self) -> int:
        """Where somebody else would have to go on: the lowest offset that is not finished."""
        return self._taken[0] if self._taken else self._behind

    @property
    def open_count(self) -> int:
        """How many messages were taken and are not finished."""
        return len(self._taken) - len(self._finished)

    def took(self, offsets: Iterable[int], *, behind: int) -> None:
        """Note messages that were taken; ``behind`` is where the next ones begin, past those that a filter left out."""
        self._taken.extend(offsets)
        self._behind = max(self._behind, behind)

    def finished(self, offset: int) -> None:
        """Note that a message needs no more work."""
        taken = self._taken
        if not taken or taken[0] != offset:
            self._finished.add(offset)
            return
        taken.popleft()
        finished = self._finished
        while taken and taken[0] in finished:
            finished.discard(taken.popleft())
