"""What to read from brokers: topics and queues that the options choose, their ranges, and partitions of those."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from litemq.client.live_reads import LiveBroker, LiveQueue
from litemq.features.dead_letter import DLQ_PREFIX
from litemq.features.retry import RETRY_PREFIX
from litemq.spark.errors import BadOption
from litemq.spark.group_offsets import committed_by_group
from litemq.spark.live import BrokerBackend, Lost, deal_with_loss
from litemq.spark.options import EARLIEST, LATEST, Offsets, ReadOptions
from litemq.spark.planning import Topics
from litemq.spark.ranges import QueueRange, Range, grouped


@dataclass(frozen=True, slots=True)
class Wanted:
    """The queues of one look at the brokers."""

    brokers: tuple[LiveBroker, ...]
    queues: tuple[LiveQueue, ...]

    def incarnations(self) -> dict[str, dict[str, str]]:
        """Return topic → broker → incarnation."""
        chosen = {queue.topic for queue in self.queues}
        found: dict[str, dict[str, str]] = {}
        for broker in self.brokers:
            for topic in broker.topics:
                if topic.name in chosen:
                    found.setdefault(topic.name, {})[broker.name] = topic.incarnation
        return found


def look(backend: BrokerBackend, options: ReadOptions) -> Wanted:
    """Ask the brokers for the queues that options choose.

    Raises:
        BadOption: a topic that is asked for by name is nowhere.
    """
    topics = Topics(options)
    found = backend.look(topics.named or None)
    queues = [
        queue
        for broker in found
        for topic in broker.topics
        for queue in topic.queues
        if topics.wants(queue.topic, queue.queue_id)
    ]
    known = {queue.topic for queue in queues}
    for name in topics.named:
        if name not in known:
            there = sorted({topic.name for broker in backend.look(None) for topic in broker.topics if topic.queues})
            shown = ", ".join(name for name in there if topics_shown(name))[:400] or "none"
            raise BadOption(f"there is no topic {name!r} at {backend.brokers}; topics are: {shown}")
    return Wanted(tuple(found), tuple(sorted(queues, key=lambda one: (one.topic, one.broker, one.queue_id))))


def topics_shown(name: str) -> bool:
    """Return whether a topic is worth naming to somebody who named another one."""
    from litemq.spark.planning import is_reserved

    return not is_reserved(name) and not name.startswith("%")


def own_topics(brokers: str) -> frozenset[str]:
    """Return the topics that brokers have for themselves and for tools; retries and dead letters are none of them."""
    from litemq.client.admin import Admin  # not at the top: tasks come by here, too

    with Admin(brokers) as admin:
        every = admin.topics(system=True)
    return frozenset(
        one.topic for one in every if one.is_system and not one.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    )


def start_offsets(backend: BrokerBackend, options: ReadOptions, queues: Iterable[LiveQueue]) -> dict[LiveQueue, int]:
    """Return where each queue is read from."""
    wanted = list(queues)
    starts = _offsets(backend, options.starting, options.from_ms, wanted, EARLIEST, options.needs_time_match)
    if options.starting_group and options.from_ms is None:
        starts |= committed_by_group(backend, options.starting_group, wanted)
    return starts


def end_offsets(backend: BrokerBackend, options: ReadOptions, queues: Iterable[LiveQueue]) -> dict[LiveQueue, int]:
    """Return before which offset each queue is read."""
    return _offsets(backend, options.ending, options.to_ms, list(queues), LATEST, False)


def _offsets(
    backend: BrokerBackend,
    given: int | Offsets,
    time_ms: int | None,
    queues: list[LiveQueue],
    default: int,
    needs_match: bool,
) -> dict[LiveQueue, int]:
    if time_ms is not None:
        found = dict(zip(queues, backend.live.offsets_at([(queue, time_ms) for queue in queues]), strict=True))
        for queue, offset in found.items():
            if needs_match and offset == queue.max_offset > queue.min_offset:
                raise BadOption(
                    f"no message of {queue.topic}/{queue.broker}/{queue.queue_id} is as late as startingTimestamp; "
                    "choose an earlier one, or startingOffsetsByTimestampStrategy=latest"
                )
        return found
    return {queue: _stated(given, queue, default) for queue in queues}


def _stated(given: int | Offsets, queue: LiveQueue, default: int) -> int:
    if isinstance(given, int):
        offset = given
    else:  # what names a broker wins over what is said of that queue everywhere
        said = given.get(queue.topic, {})
        offset = said.get(f"{queue.broker}/{queue.queue_id}", said.get(queue.queue_id, default))
    return {EARLIEST: queue.min_offset, LATEST: queue.max_offset}.get(offset, offset)


def batch_ranges(backend: BrokerBackend, options: ReadOptions) -> list[QueueRange]:
    """Return what a batch reads.

    Raises:
        DataLost: offsets that were asked for by number are gone, and ``onDataLoss`` is ``fail``.
    """
    wanted = look(backend, options)
    starts, ends = start_offsets(backend, options, wanted.queues), end_offsets(backend, options, wanted.queues)
    found = []
    for queue in wanted.queues:
        start, end = starts[queue], min(ends[queue], queue.max_offset)
        if start < queue.min_offset and start < end:
            lost = min(queue.min_offset, end)
            deal_with_loss(
                options, Lost(queue.topic, queue.broker, queue.queue_id, start, lost, "removed by retention")
            )
            start = lost
        if start < end:
            found.append(sized(queue, start, end))
    return found


def sized(queue: LiveQueue, start: int, end: int) -> QueueRange:
    """Return a range of a queue with about as many bytes as it has."""
    each = max(1, queue.bytes // max(1, queue.max_offset - queue.min_offset))
    return QueueRange(queue.topic, queue.broker, queue.queue_id, start, end, each * (end - start))


def partitions_of(
    backend: BrokerBackend, options: ReadOptions, ranges: Iterable[QueueRange]
) -> list[tuple[Range, ...]]:
    """Return ranges as partitions: the same ranges always give the same ones."""
    every = list(ranges)
    size = options.max_partition_bytes
    if options.min_partitions > 1:
        size = max(1, min(size, -(-sum(part.size for part in every) // options.min_partitions)))
    parts: list[Range] = [piece for part in every for piece in backend.split(part, size, options.max_records)]
    if options.max_records:
        return [(part,) for part in parts]
    return grouped(parts, size, options.min_partitions)
