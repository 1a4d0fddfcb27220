"""Reading whole ranges of queues from outside, for data jobs: bounds, splits, records as they are stored, leases.

Everything that looks at more than one message goes in small steps with turns between them, so that a job which reads
at full speed leaves the loop to everybody else after each.  What is not in memory is read by a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from litemq.broker.topics import Topics
from litemq.broker.turns import Turns
from litemq.clock import Clock
from litemq.config import LimitsConfig
from litemq.errors import BadField, Busy, NoPermission, UnknownTopic
from litemq.features.leases import Lease, Leases, LeasesFull, Queue
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull

STEP_BYTES = 256 << 10
"""Bytes of records between two turns: about 0.3 ms."""

_STEP_COUNT = 4_096
"""Entries between two turns, when only they are looked at."""

_SAMPLE = 32
"""Messages at each end of a queue that stand for the others when bytes are estimated."""

_AT_ONCE = 4
"""Raw pulls that are read at the same time; the others wait in line."""

_MAX_WAITING = 1_000

MAX_QUEUES = 10_000
"""Queues that one request may name."""


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """Where a queue begins and ends, and about how many bytes that are."""

    queue_id: int
    min_offset: int
    max_offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """A topic on this broker."""

    name: str
    incarnation: str
    queues: list[QueueBounds]


@dataclass(frozen=True, slots=True)
class RawSlice:
    """Records of a queue as they are stored, one behind the other: messages from an offset up to ``next_offset``.

    Fewer records than offsets: the others are damaged, or were never there.
    """

    data: bytes
    count: int
    next_offset: int
    min_offset: int
    max_offset: int


class LiveReads:
    """Answers data jobs of one broker."""

    def __init__(
        self, store: MessageStore, topics: Topics, limits: LimitsConfig, clock: Clock, *, cold: Executor
    ) -> None:
        self._store = store
        self._topics = topics
        self._clock = clock
        self._cold = cold
        self.limits = limits
        self.leases = Leases()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self.pulls = self.messages = self.bytes = self.refused = self.lost = 0

    # -- topics and queues -----------------------------------------------------------------------

    def _check(self, name: str) -> None:
        """Refuse what is not there or may not be read; LiteMQ's own topics may be, by name."""
        topic = self._topics.find(name)
        if topic is None:
            if not (name.startswith(RESERVED_TOPIC_PREFIX) and self._store.reader.queue_ids(name)):
                raise UnknownTopic(f"there is no topic {name!r} on this broker")
        elif not topic.is_readable:
            raise NoPermission(f"topic {name!r} may not be read: its permission is {topic.perm}")

    def _queue_ids(self, name: str) -> list[int]:
        topic = self._topics.find(name)
        there = range(topic.queue_count) if topic is not None else ()
        return sorted({*self._store.reader.queue_ids(name), *there})

    def public_topics(self, after: str) -> list[str]:
        """Return the names, behind ``after``, of topics with messages of applications."""
        return [topic.name for topic in self._topics.all() if topic.name > after and topic.is_readable]

    async def bounds(self, names: list[str]) -> list[TopicBounds]:
        """Return the bounds of topics; those that are not there are left out."""
        turns, found = Turns(), []
        for name in names:
            try:
                self._check(name)
            except (UnknownTopic, NoPermission):
                continue
            queues = []
            for queue_id in self._queue_ids(name):
                queues.append(self._bounds(name, queue_id))
                await turns.take()
            found.append(TopicBounds(name, self._store.tables.incarnations.get(name, ""), queues))
        return found

    def _bounds(self, topic: str, queue_id: int) -> QueueBounds:
        reader = self._store.reader
        low, high = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
        count = high - low
        first = reader.span(topic, queue_id, low, min(count, _SAMPLE))
        last = reader.span(topic, queue_id, max(high - _SAMPLE, low), _SAMPLE)
        seen = first.count + last.count
        return QueueBounds(queue_id, low, high, (first.bytes + last.bytes) * count // seen if seen else 0)

    async def offsets_at(self, wanted: list[tuple[str, int, int]]) -> list[int]:
        """Return for each topic, queue and time the first offset stored then or later, else the queue's end."""
        turns, found = Turns(), []
        for topic, queue_id, time_ms in wanted:
            self._check(topic)
            found.append(self._store.reader.offset_at_time(topic, queue_id, time_ms))
            await turns.take()
        return found

    async def split(
        self, topic: str, queue_id: int, first: int, end: int, *, every_bytes: int, most: int
    ) -> tuple[list[int], bool]:
        """Return offsets that part a range of a queue into pieces of at most so many stored bytes, and whether there
        are more behind ``most`` of them.

        A message that is larger makes a piece of its own.
        """
        self._check(topic)
        reader = self._store.reader
        cuts: list[int] = []
        at = max(first, reader.min_offset(topic, queue_id))
        end = min(end, reader.max_offset(topic, queue_id))
        size, count = 0, _STEP_COUNT
        while at < end:
            span = reader.span(topic, queue_id, at, min(count, end - at))
            if not span.count:
                break
            fits = size + span.bytes <= every_bytes
            if not fits and span.count > 1:
                count = span.count // 2
                continue
            if fits or not size:
                size, at = size + span.bytes, at + span.count
            if not fits and at < end:
                cuts.append(at)
                size, count = 0, _STEP_COUNT
                if len(cuts) == most:
                    return cuts, True
            await asyncio.sleep(0)
        return cuts, False

    # -- records ---------------------------------------------------------------------------------

    async def pull(self, topic: str, queue_id: int, first: int, end: int, *, max_bytes: int) -> RawSlice:
        """Return readable records of a queue from ``first`` on, before ``end``: at most ``max_bytes``, one at least.

        Raises:
            Busy: too many wait already.
        """
        self._check(topic)
        if self._waiting >= _MAX_WAITING:
            self.refused += 1
            raise Busy(f"{self._waiting} raw pulls wait already; try again in 1000 ms")
        self._waiting += 1
        try:
            async with self._slots:
                found = await self._read(topic, queue_id, first, end, min(max_bytes, self.limits.max_pull_bytes))
        finally:
            self._waiting -= 1
        self.pulls += 1
        self.messages += found.count
        self.bytes += len(found.data)
        return found

    async def _read(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> RawSlice:
        reader = self._store.reader
        tail = reader.queue(topic, queue_id)
        low, high = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
        parts: list[memoryview] = []
        at, count, size = first, 0, 0
        end = min(end, high)
        while tail is not None and low <= at < end and size < max_bytes:
            step = min(STEP_BYTES, max_bytes - size)
            wanted = end - at
            pulled = reader.pull_from(tail, at, None, wanted, step, wanted, 0, False)
            if isinstance(pulled, ColdPull):
                pulled = await asyncio.get_running_loop().run_in_executor(self._cold, pulled.finish)
            else:
                await asyncio.sleep(0)
            if pulled.next_offset <= at or (parts and size + pulled.size > max_bytes):
                break
            parts.append(memoryview(pulled.buffer))
            at, count, size = pulled.next_offset, count + pulled.count, size + pulled.size
        return RawSlice(b"".join(parts), count, at, low, high)

    # -- leases ----------------------------------------------------------------------------------

    async def hold(self, name: str, offsets: Mapping[Queue, int], *, lease_ms: int) -> tuple[Lease, dict[Queue, int]]:
        """Keep queues from offsets on for a while; return the lease, and where queues begin that begin later.

        A disk that is full goes over it, and so does a purge.

        Raises:
            Busy: there are too many leases.
        """
        reader, store, turns = self._store.reader, self._store, Turns()
        if lease_ms <= 0:
            raise BadField(f"the field leaseMs is {lease_ms}, it must be 1 or more")
        position, late = store.appended_end, {}
        for (topic, queue_id), offset in offsets.items():
            self._check(topic)
            low = reader.min_offset(topic, queue_id)
            if offset < low:
                late[(topic, queue_id)] = low
            span = reader.span(topic, queue_id, max(offset, low), 1)
            if span.count:
                position = min(position, span.position)
            await turns.take()
        now_ms = self._clock.now_ms()
        try:
            lease = self.leases.take(name, position, offsets, lease_ms=lease_ms, now_ms=now_ms)
        except LeasesFull:
            raise Busy(f"{len(self.leases)} readers hold messages already; try again in 60000 ms") from None
        store.hold(_hold_name(name), position, until_ms=lease.until_ms)
        self.lost += bool(late)
        return lease, late

    def release(self, name: str) -> bool:
        """Give a lease back; return whether there was one."""
        self._store.release(_hold_name(name))
        return self.leases.release(name)

    def tick(self, now_ms: int) -> None:
        """End the leases that nobody renewed."""
        if len(self.leases):
            self.leases.expire(now_ms)

    def report(self) -> dict[str, object]:
        """Return what the statistics tell."""
        leases = self.leases
        return {
            "pulls": self.pulls,
            "messages": self.messages,
            "bytes": self.bytes,
            "waiting": self._waiting,
            "refused": self.refused,
            "holds": list(self._holds()),
            "holdsTaken": leases.taken,
            "holdsRenewed": leases.renewed,
            "holdsReleased": leases.released,
            "holdsExpired": leases.expired,
            "holdsRefused": leases.refused,
            "holdsTooLate": self.lost,
        }

    def _holds(self) -> Iterator[dict[str, object]]:
        for lease in self.leases.held():
            yield {"name": lease.name, "position": lease.position, "untilMs": lease.until_ms}


def _hold_name(name: str) -> str:
    return f"reader {name}"
