"""Which queues a job's source has, and from which offset to which."""

from __future__ import annotations

from collections.abc import Mapping

from litemq.spark.errors import BadOption
from litemq.spark.files import FileBackend
from litemq.spark.lake.archived import Queue
from litemq.spark.options import read_options
from litemq.spark.planning import Topics
from litemq.spark.ranges import NO_END


def queue_bounds(given: Mapping[str, str]) -> dict[Queue, tuple[int, int]]:
    """Return the first offset and the one behind the last of each queue that options of a read choose.

    A log without ConsumeQueues tells none.

    Raises:
        BadOption: a topic that is asked for by name is not there, or the options are wrong.
    """
    options = read_options(given)
    if options.brokers:
        from litemq.spark.live import BrokerBackend
        from litemq.spark.live_planning import look

        wanted = look(BrokerBackend(options.brokers, options), options).queues
        return {(one.topic, one.broker, one.queue_id): (one.min_offset, one.max_offset) for one in wanted}
    topics = Topics(options)
    backend = FileBackend(options.path, options.format)
    found = backend.bounds()
    bounds = {
        (one.topic, one.broker, one.queue_id): (one.low, one.high)
        for one in found
        if topics.wants(one.topic, one.queue_id)
    }
    missing = sorted(set(topics.named) - {topic for topic, _, _ in bounds})
    if missing and backend.trusted >= NO_END:
        there = ", ".join(sorted({one.topic for one in found})[:20]) or "none"
        raise BadOption(f"there is no topic {missing[0]!r} in {options.path}; topics are: {there}")
    return bounds
