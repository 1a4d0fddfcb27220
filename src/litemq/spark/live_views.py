"""The small tables beside the messages, asked of running brokers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Final

from litemq.client.admin import Admin
from litemq.client.live_reads import LiveQueue
from litemq.errors import LiteMQError
from litemq.format import rows
from litemq.format._scan_cy import scan_apart
from litemq.format.record import FORMATS
from litemq.spark.live import BrokerBackend
from litemq.spark.live_planning import look, own_topics
from litemq.spark.options import ReadOptions
from litemq.spark.planning import Topics
from litemq.spark.views import Row, topics_of


def _queues(options: ReadOptions, wants_times: bool) -> Iterator[Row]:
    backend = BrokerBackend(options.brokers, options)
    hidden = frozenset() if Topics(options).named else own_topics(options.brokers)
    for queue in look(backend, options).queues:
        if queue.topic in hidden:
            continue
        is_empty = queue.min_offset >= queue.max_offset
        ends = () if is_empty or not wants_times else (queue.min_offset, queue.max_offset - 1)
        times = [_stored_at(backend, queue, offset) for offset in ends] or [None, None]
        yield {
            "topic": queue.topic,
            "broker": queue.broker,
            "queue_id": queue.queue_id,
            "min_offset": queue.min_offset,
            "max_offset": queue.max_offset,
            "messages": queue.max_offset - queue.min_offset,
            "bytes": queue.bytes,
            "first_timestamp": times[0],
            "last_timestamp": times[1],
        }


def _stored_at(backend: BrokerBackend, queue: LiveQueue, offset: int) -> int | None:
    """Return when a message was stored; None when it is gone by now, or damaged."""
    try:
        raw = backend.live.pull(queue.broker, queue.topic, queue.queue_id, offset, offset + 1, max_bytes=1)
    except LiteMQError:
        return None
    table: array[int] = rows.table(1)
    count, _, _ = scan_apart(FORMATS[raw.format].code, memoryview(raw.data), 0, len(raw.data), table)
    return table[rows.STORE_TIME] if count else None


def _topics(options: ReadOptions, wants_times: bool) -> Iterator[Row]:
    yield from topics_of(_queues(options, wants_times))


def _groups(options: ReadOptions, wants_times: bool) -> Iterator[Row]:
    topics = Topics(options)
    with Admin(options.brokers) as admin:
        for group in admin.groups():
            for queue in admin.lag(group.group).queues:
                if topics.wants(queue.topic, queue.queue_id):
                    yield {
                        "group": group.group,
                        "topic": queue.topic,
                        "broker": queue.broker,
                        "queue_id": queue.queue_id,
                        "offset": queue.offset,
                        "max_offset": queue.end,
                        "lag": queue.lag,
                    }


OF_BROKERS: Final[dict[str, Callable[[ReadOptions, bool], Iterator[Row]]]] = {
    "queues": _queues,
    "topics": _topics,
    "groups": _groups,
}
"""By the name of the option ``view``; ``segments`` are files, which brokers do not show."""
