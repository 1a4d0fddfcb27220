"""Reads one queue ahead: one pull at a time, as long as there is room for what it may bring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from litemq.client._message_cy import Message
from litemq.client.consumer_requests import Pulled, pull, pull_fields
from litemq.client.group_member import GroupMember
from litemq.client.routes import TopicQueue
from litemq.client.subscription import Subscription
from litemq.errors import Closed, LiteMQError, Unavailable

logger = logging.getLogger(__name__)

MAX_COUNT = 1024
MAX_SIZE = 4 << 20
"""What brokers give at most in one answer."""
_MIN_SIZE = 64 << 10
_MIN_SHARE = 32
_AGAIN_S = 1.0


class Sink(Protocol):
    """Takes what a reader finds."""

    def begun(self, offset: int) -> None:
        """Know where the queue is read from."""

    def take(self, messages: list[Message], after: int, size: int) -> None:
        """Take messages that were read; ``after`` is where the next ones begin."""

    def moved(self, offset: int) -> None:
        """Know that the queue is read from elsewhere now, and what was read before does not count any more."""


class QueueReader:
    """Reads one queue from ``find_start`` on; ``held`` messages count against its share of the prefetch."""

    def __init__(
        self,
        member: GroupMember,
        queue: TopicQueue,
        wanted: Subscription,
        sink: Sink,
        find_start: Callable[[], Awaitable[int]],
    ) -> None:
        self.queue = queue
        self.offset: int | None = None
        """Where the next pull begins."""
        self.is_paused = False
        self.is_full = False
        """Whether it waits for room, or for the end of a pause: ``look`` wakes it up."""
        self._taken_count = self._taken_bytes = 0
        self._freed_count = self._freed_bytes = 0
        self._member = member
        self._wanted = wanted
        self._sink = sink
        self._find_start = find_start
        self._room = asyncio.Event()
        self._count_limit = 0
        self._bytes_limit = 0
        self._pull_bytes = 0
        self._pull_count = 0
        self._fields: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._moves = 0

    def start(self) -> None:
        """Begin to read, if it does not yet."""
        if self._task is not None or self._is_stopped:
            return
        self._task = asyncio.create_task(self._run(), name=f"litemq-read-{self.queue.topic}-{self.queue.queue_id}")

    def stop(self) -> None:
        """Read no more."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def limit(self, count: int, size: int) -> None:
        """Hold at most so many messages and bytes; a single message always fits."""
        self._count_limit, self._bytes_limit = count, size
        pulls = min(MAX_COUNT, max(count // 2, 1))
        pull_bytes = min(MAX_SIZE, max(size // 2, _MIN_SIZE))
        if (pulls, pull_bytes) != (self._pull_count, self._pull_bytes):
            self._pull_count, self._pull_bytes = pulls, pull_bytes
            member = self._member
            self._fields = pull_fields(
                member.group, self.queue, self._wanted, version=member.version, count=pulls, size=pull_bytes
            )
        self.look()

    def look(self) -> None:
        """Look again whether there is room."""
        self._room.set()

    @property
    def held_count(self) -> int:
        """How many messages were read and are not released."""
        return self._taken_count - self._freed_count

    @property
    def held_bytes(self) -> int:
        """How many bytes they have."""
        return self._taken_bytes - self._freed_bytes

    def released(self, count: int) -> None:
        """Make room: so many messages are not held any more.  What they weigh is an average."""
        held = self.held_count
        if held > 0:
            self.freed(min(count, held), self.held_bytes * min(count, held) // held)
        self.look()

    def freed(self, count: int, size: int) -> None:
        """Hold so much less; unlike all else this may be called on any thread, one at a time."""
        self._freed_count += count
        self._freed_bytes += size

    def seek(self, offset: int) -> None:
        """Go on elsewhere; what is under way does not count any more."""
        self._moves += 1
        self.offset = offset
        self._freed_count, self._freed_bytes = self._taken_count, self._taken_bytes
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()  # it may wait for messages elsewhere
            self._task = None
            self.start()

    @property
    def _has_room(self) -> bool:
        if self.is_paused:
            return False
        count = self.held_count
        return count <= 0 or (
            count + self._pull_count <= self._count_limit and self.held_bytes + self._pull_bytes <= self._bytes_limit
        )

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except Closed:
                return
            except LiteMQError as error:
                await self._back_off(error)
            except Exception:
                logger.exception("reading failed: topic=%s queue=%d", self.queue.topic, self.queue.queue_id)
                await asyncio.sleep(_AGAIN_S)

    async def _step(self) -> None:
        if self.offset is None:
            moves = self._moves
            offset = await self._find_start()
            if moves == self._moves:  # nobody went elsewhere meanwhile
                self.offset = offset
                self._sink.begun(offset)
        self.is_full = True  # first, so that who frees something meanwhile knows that it is waited for
        while not self._has_room:
            self._room.clear()
            await self._room.wait()
        self.is_full = False
        moves = self._moves
        address = self._member.address(self.queue)
        assert self.offset is not None
        pulled = await pull(self._member.net, address, self._fields, self.offset, self.queue.broker)
        if moves == self._moves:
            self._taken(pulled)

    def _taken(self, pulled: Pulled) -> None:
        offset = self.offset
        assert offset is not None
        if pulled.kind == "moved":
            logger.info("queue moved: %s from=%d to=%d", self.queue, offset, pulled.after)
            self.offset = pulled.after
            if offset < pulled.after == pulled.low:  # what was to come is deleted, what is held is still good
                self._sink.take([], pulled.after, 0)
            else:
                self.seek(pulled.after)
                self._sink.moved(pulled.after)
            return
        self.offset = pulled.after
        self._taken_count += len(pulled.messages)
        self._taken_bytes += pulled.size
        if pulled.messages or pulled.after != offset:
            self._sink.take(pulled.messages, pulled.after, pulled.size)

    async def _back_off(self, error: LiteMQError) -> None:
        queue = self.queue
        told = f"cannot read queue {queue.queue_id} of {queue.topic} at {queue.broker}, trying on: {error}"
        self._member.warn(f"read {queue.broker}", told)
        self._member.suspect()
        wait = error.retry_after if isinstance(error, Unavailable) else None
        await asyncio.sleep(wait or _AGAIN_S)


def shares(count: int, size: int, queues: int) -> tuple[int, int]:
    """Return how many messages and bytes each of so many queues may hold, of a bound for all of them."""
    queues = max(queues, 1)
    return max(count // queues, min(count, _MIN_SHARE)), max(size // queues, min(size, _MIN_SIZE))
