"""The time in which a push consumer has a queue: what was read and waits, what is being handled, what is finished."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from litemq.client._message_cy import Message
from litemq.client.queue_progress import QueueProgress
from litemq.client.queue_reader import QueueReader
from litemq.client.routes import TopicQueue


class Work:
    """Messages of one queue that are handled one batch after the other; ``done`` of them were, ``error`` ended it."""

    __slots__ = ("done", "error", "is_probe", "messages", "progress", "tenure")

    def __init__(self, tenure: Tenure, messages: list[Message], progress: QueueProgress) -> None:
        self.tenure = tenure
        self.messages = messages
        self.progress = progress
        self.done = 0
        self.error: BaseException | None = None
        self.is_probe = False


class Tenure:
    """One queue of a push consumer.  It belongs to the loop; threads look at ``is_ended`` and ``locked_until``."""

    def __init__(
        self, queue: TopicQueue, on_ready: Callable[[Tenure], None], on_placed: Callable[[Tenure], None]
    ) -> None:
        self.queue = queue
        self.reader: QueueReader | None = None
        self.progress: QueueProgress | None = None
        """None until it is known where the queue is read from."""
        self.waiting: deque[Message] = deque()
        self.unheld = 0
        """Messages that are finished, of which the reader does not know yet."""
        self.running = 0
        """Pieces of work under way."""
        self.committed: int | None = None
        """What was last said of the group's offset; None: nothing yet."""
        self.is_ended = False
        self.is_revoked = False
        """Whether somebody else has the queue now."""
        self.left = asyncio.Event()
        """Set when it is ended and nothing of it is being handled any more."""
        self.locked_until = float("inf")
        self.held_until = 0.0
        """An ordered queue waits so long after a failure."""
        self.attempts = 0
        """How often the first waiting message has failed here."""
        self._on_ready = on_ready
        self._on_placed = on_placed

    # -- what its reader tells ---------------------------------------------------------------------

    def begun(self, offset: int) -> None:
        """Know where the queue is read from."""
        self.progress = QueueProgress(offset)
        self._on_placed(self)

    def take(self, messages: list[Message], after: int, _size: int) -> None:
        """Take messages that were read."""
        if self.is_ended or self.progress is None:
            return
        self.progress.took([message.queue_offset for message in messages], behind=after)
        self.waiting.extend(messages)
        if messages:
            self._on_ready(self)

    def moved(self, offset: int) -> None:
        """Forget what was read: the queue goes on elsewhere."""
        self.waiting.clear()
        self.attempts = self.unheld = 0
        self.progress = QueueProgress(offset)
        self._on_placed(self)

    def go(self, offset: int) -> None:
        """Read from elsewhere, because somebody says so."""
        if self.reader is not None:
            self.reader.seek(offset)
        self.moved(offset)

    # -- what is done ------------------------------------------------------------------------------

    def next_work(self, most: int) -> Work | None:
        """Return up to so many of the messages that wait."""
        waiting, progress = self.waiting, self.progress
        if not waiting or progress is None:
            return None
        if len(waiting) <= most:
            messages = list(waiting)
            waiting.clear()
        else:
            messages = [waiting.popleft() for _ in range(most)]
        self.running += 1
        return Work(self, messages, progress)

    def finished(self, work: Work, messages: list[Message]) -> None:
        """Note that messages need no more work."""
        progress = work.progress
        for message in messages:
            progress.finished(message.queue_offset)
        if progress is self.progress:
            self.unheld += len(messages)

    def release(self) -> None:
        """Make room for what was finished since the last time."""
        count, self.unheld = self.unheld, 0
        if count and self.reader is not None:
            self.reader.released(count)

    def again(self, work: Work, messages: list[Message]) -> None:
        """Put messages back to where they were."""
        if work.progress is self.progress and not self.is_ended:
            self.waiting.extendleft(reversed(messages))

    @property
    def offset(self) -> int | None:
        """How far the queue is worked off."""
        return self.progress.offset if self.progress is not None else None

    def end(self) -> None:
        """Read no more, and forget what waits."""
        self.is_ended = True
        if self.reader is not None:
            self.reader.stop()
        self.waiting.clear()
        if not self.running:
            self.left.set()
