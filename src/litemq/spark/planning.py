"""What to read: from options and what the backend has, the ranges of a batch and the rows that count in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from litemq.features.dead_letter import DLQ_PREFIX
from litemq.format.names import RESERVED_TOPIC_PREFIX, SCHEDULE_TOPIC
from litemq.spark.backend import Bounds, Chosen
from litemq.spark.codec import Filter
from litemq.spark.errors import BadOption, readable
from litemq.spark.files import FileBackend
from litemq.spark.group_offsets import kept_by_group
from litemq.spark.log_cuts import places
from litemq.spark.options import EARLIEST, LATEST, Offsets, ReadOptions, Selection
from litemq.spark.ranges import NO_END, LogRange, QueueRange, Range, cut, grouped, step_of

_SCAN_SHARE: Final = 0.3
"""A larger part of the log than this is walked: its records lie close to each other."""

_SYSTEM: Final = re.compile(rf"{RESERVED_TOPIC_PREFIX}|{SCHEDULE_TOPIC}$|RMQ_SYS_|rmq_sys_")


def is_reserved(topic: str) -> bool:
    """Return whether a topic is the system's own: read only when it is asked for by name."""
    return _SYSTEM.match(topic) is not None


@dataclass(frozen=True, slots=True)
class Topics:
    """Which topics and queues are wanted."""

    options: ReadOptions

    def wants(self, topic: str, queue_id: int) -> bool:
        """Return whether a queue is among those that the options choose."""
        selection = self.options.selection
        if self.options.view == "dlq" and not topic.startswith(DLQ_PREFIX):
            return False
        if selection.topics:
            return topic in selection.topics
        if selection.queues:
            return queue_id in dict(selection.queues).get(topic, ())
        if selection.pattern:
            return re.fullmatch(selection.pattern, topic) is not None and not is_reserved(topic)
        return not is_reserved(topic)

    def wants_some(self, topic: str) -> bool:
        """Return whether some queue of a topic may be wanted."""
        return topic in self.named or (not self.named and self.wants(topic, 0))

    @property
    def is_everything(self) -> bool:
        """Whether all messages of all topics are asked for."""
        options = self.options
        limits = (
            options.starting != EARLIEST,
            options.starting_group,
            options.ending != LATEST,
            options.from_ms,
            options.to_ms,
        )
        return options.selection == Selection() and options.view == "messages" and not any(limits)

    @property
    def named(self) -> tuple[str, ...]:
        """The topics that are asked for by name."""
        return self.options.selection.topics or tuple(topic for topic, _ in self.options.selection.queues)


class Chooser:
    """Says for each queue in a log range which of its records count; picklable."""

    def __init__(
        self,
        topics: Topics,
        bounds: dict[tuple[str, int], tuple[int, int]],
        dead_below: dict[str, int],
        min_offsets: dict[str, dict[int, int]],
    ) -> None:
        self._topics = topics
        self._bounds = bounds
        self._dead_below = dead_below
        self._min_offsets = min_offsets

    def __call__(self, topic: bytes, queue_id: int) -> Chosen | None:
        name = topic.decode("utf-8", "surrogateescape")
        if not self._topics.wants(name, queue_id):
            return None
        low, high = self._bounds.get((name, queue_id)) or stated(self._topics.options, name, queue_id)
        least = self._min_offsets.get(name, {}).get(queue_id)
        return Chosen(low if least is None else max(low, least), high, self._dead_below.get(name, -NO_END))


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions of a batch, and what counts of their rows."""

    partitions: list[tuple[Range, ...]]
    chooser: Chooser | None
    from_ms: int | None
    to_ms: int | None

    def filter(self, options: ReadOptions) -> Filter:
        """Return which rows of a range count."""
        found = Filter(
            choose=self.chooser,
            is_placed_only=options.is_committed_only,
            keys=frozenset(options.keys),
            tags=frozenset(options.tags),
        )
        if self.from_ms is not None:
            found.from_ms = self.from_ms
        if self.to_ms is not None:
            found.to_ms = self.to_ms
        return found


def plan(backend: FileBackend, options: ReadOptions) -> Plan:
    """Return what to read.

    Raises:
        BadOption: a topic or queue that is not there, or offsets where nothing says them.
        Unreadable: a file of the store cannot be read.
    """
    with readable(backend.path):
        return _planned(backend, options)


def _planned(backend: FileBackend, options: ReadOptions) -> Plan:
    topics = Topics(options)
    bounds = backend.bounds()
    wanted = {(queue.topic, queue.queue_id): queue for queue in bounds if topics.wants(queue.topic, queue.queue_id)}
    _check_named(backend, topics, bounds)
    limits = resolved(backend, options, list(wanted.values()))
    deletions = backend.deletions() if options.is_committed_only else None
    chooser = Chooser(
        topics,
        limits,
        deletions.dead_below if deletions else {},
        deletions.min_offsets if deletions else {},
    )
    queues = _queue_ranges(backend, options, topics, wanted, limits)
    if queues is not None:
        parts: list[Range] = [
            part for queue in queues for part in backend.split(queue, options.max_partition_bytes, options.max_records)
        ]
        if backend.trusted < backend.end:
            size = max(0, backend.first_position + backend.log_bytes() - backend.trusted)
            parts.append(LogRange(0, backend.trusted, backend.end, size))
    else:
        parts = log_ranges(backend, options, topics)
    groups = grouped(parts, options.max_partition_bytes, options.min_partitions)
    return Plan(groups, chooser, options.from_ms, options.to_ms)


def log_ranges(backend: FileBackend, options: ReadOptions, topics: Topics) -> list[Range]:
    """Return the whole log in parts."""
    total = backend.log_bytes()
    step = step_of(total, options.max_partition_bytes, options.min_partitions)
    found: list[Range] = []
    for number, stream in enumerate(backend.log.files.streams):
        if stream.topic and not topics.wants(stream.topic, stream.queue_id):
            continue
        first = stream.named_start
        size = sum(backend.size_of(segment) for segment in stream.segments)
        found += cut(number, places(backend, number, step), first, first + size, backend.end)
    return found


def resolved(
    backend: FileBackend, options: ReadOptions, queues: list[Bounds]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return for each queue from which offset to before which it is read.

    Raises:
        BadOption: offsets or times that no queue of the store can tell.
    """
    group = kept_by_group(backend, options.starting_group) if options.starting_group else {}
    found: dict[tuple[str, int], tuple[int, int]] = {}
    untold = _without_entries(backend, Topics(options))
    if untold and _asks_latest(options.starting, {(queue.topic, queue.queue_id) for queue in queues}):
        raise BadOption(f"startingOffsets=latest needs ConsumeQueues, which {untold}")
    for (topic, queue_id), offset in group.items():
        found[topic, queue_id] = (offset, stated(options, topic, queue_id)[1])
    for queue in queues:
        low, high = stated(options, queue.topic, queue.queue_id)
        low = group.get((queue.topic, queue.queue_id), low)
        if options.from_ms is not None:
            low = backend.offset_at(queue, options.from_ms)
            if low == queue.high and queue.low < queue.high and options.needs_time_match:
                raise BadOption(
                    f"no message of {queue.topic}/{queue.queue_id} is as late as startingTimestamp; choose an earlier "
                    "one, or startingOffsetsByTimestampStrategy=latest"
                )
        if options.to_ms is not None:
            high = backend.offset_at(queue, options.to_ms)
        found[queue.topic, queue.queue_id] = (queue.high if low == NO_END else low, queue.low if high < 0 else high)
    return found


def stated(options: ReadOptions, topic: str, queue_id: int) -> tuple[int, int]:
    """Return from which offset to before which a queue is read, as far as options say it without a look at the queue.

    What entries do not lead to, behind the last of them or between, is read too where the log is walked.
    """
    low = _stated(options.starting, topic, queue_id, EARLIEST)
    high = _stated(options.ending, topic, queue_id, LATEST)
    return {EARLIEST: -NO_END, LATEST: NO_END}.get(low, low), {EARLIEST: -NO_END, LATEST: NO_END}.get(high, high)


def _asks_latest(starting: int | Offsets, known: set[tuple[str, int]]) -> bool:
    """Return whether the end of a queue of which nobody knows it is where to start."""
    if isinstance(starting, int):
        return starting == LATEST
    places = ((topic, queue, offset) for topic, queues in starting.items() for queue, offset in queues.items())
    return any(offset == LATEST and (topic, queue) not in known for topic, queue, offset in places)


def _without_entries(backend: FileBackend, topics: Topics) -> str:
    """Return what is read without queue entries, in words; nothing when there is no such thing."""
    if backend.format is None:
        return ""
    if not backend.trusted:
        return "this log has not; run: litemq store rebuild"
    batch = [topic for topic in sorted(backend.batch_topics()) if topics.wants_some(topic)]
    return f"{batch[0]!r}, of RocketMQ's type BatchCQ, has not; choose other topics, or offsets" if batch else ""


def _stated(given: int | Offsets, topic: str, queue_id: int, default: int) -> int:
    return given if isinstance(given, int) else given.get(topic, {}).get(queue_id, default)


def _queue_ranges(
    backend: FileBackend,
    options: ReadOptions,
    topics: Topics,
    wanted: dict[tuple[str, int], Bounds],
    limits: dict[tuple[str, int], tuple[int, int]],
) -> list[QueueRange] | None:
    """Return what to read by queue entries; None when walking the log is the way."""
    if not backend.trusted or not options.is_committed_only or topics.is_everything:
        return None
    if any(topics.wants_some(topic) for topic in backend.batch_topics()):
        return None
    found = []
    total = 0
    for (topic, queue_id), queue in wanted.items():
        low, high = limits[topic, queue_id]
        part = QueueRange(topic, "", queue_id, max(low, queue.low), min(high, queue.high))
        if part.start < part.end:
            part = part._replace(size=backend.bytes_of(part))
            total += part.size
            found.append(part)
    return found if total <= _SCAN_SHARE * backend.known_bytes() else None


def _check_named(backend: FileBackend, topics: Topics, bounds: list[Bounds]) -> None:
    if backend.trusted < NO_END or not topics.named:
        return
    known = {queue.topic for queue in bounds}
    for topic in topics.named:
        if topic not in known and topic not in backend.batch_topics():
            raise BadOption(no_topic(topic, backend.path, known))


def no_topic(topic: str, path: str, known: Iterable[str]) -> str:
    """Return the text for a topic that is not there."""
    shown = ", ".join(sorted({name for name in known if not is_reserved(name)})[:20]) or "none"
    return f"there is no topic {topic!r} in {path}; topics are: {shown}"
