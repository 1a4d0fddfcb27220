"""Offsets of a stream, version 1: which log, and of each queue the next offset to read.

    {"v": 1, "s": "<log id>", "t": {"orders": {"id": "<incarnation>", "q": {"0": 123}}}}

Spark compares offsets as text, so keys are always sorted.  ``q`` is by ``queue``, or ``broker/queue`` where there are
brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from litemq.spark.backend import Bounds
from litemq.spark.errors import BadOption
from litemq.spark.ranges import QueueRange

VERSION: Final = 1

Queue = tuple[str, str]
"""Topic, and queue as offsets name it."""

Place = tuple[str, str, int]
"""Topic, broker (empty for files) and queue id."""


@dataclass(slots=True)
class Offsets:
    """Next offsets of all queues."""

    log_id: str
    queues: dict[Queue, int] = field(default_factory=dict)
    incarnations: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps; the same offsets always give the same text."""
        topics: dict[str, Any] = {}
        for (topic, queue), offset in sorted(self.queues.items(), key=_order):
            one = topics.setdefault(topic, {"id": self.incarnations.get(topic, ""), "q": {}})
            one["q"][queue] = offset
        return {"s": self.log_id, "t": topics, "v": VERSION}


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets that a stream wants and that are gone."""

    topic: str
    queue: str
    start: int
    end: int
    cause: str

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue} offsets {self.start} to {self.end - 1}: {self.cause}"


def from_json(found: dict[str, Any]) -> Offsets:
    """Return the offsets that Spark kept.

    Raises:
        BadOption: they are of another version, or of something else.
    """
    if found.get("v") != VERSION or not isinstance(found.get("t"), dict):
        raise BadOption(
            f"the checkpoint holds offsets of version {found.get('v')!r}, this LiteMQ reads {VERSION}: "
            "use the LiteMQ that wrote it, or a new checkpointLocation"
        )
    answer = Offsets(str(found.get("s", "")))
    for topic, one in found["t"].items():
        answer.incarnations[topic] = one["id"]
        for queue, offset in one["q"].items():
            answer.queues[topic, queue] = int(offset)
    return answer


def places_of(offset: Mapping[str, Any]) -> dict[Place, int]:
    """Return the next offset of each queue that a stream's offset names, be it over files or brokers."""
    found = {}
    for topic, told in offset["t"].items():
        for name, at in told["q"].items():
            broker, _, queue_id = name.rpartition("/")
            found[topic, broker, int(queue_id)] = int(at)
    return found


def named(queue: Bounds) -> str:
    """Return how offsets name a queue."""
    return f"{queue.broker}/{queue.queue_id}" if queue.broker else str(queue.queue_id)


def losses(start: Offsets, now: Offsets, bounds: Iterable[Bounds]) -> list[Loss]:
    """Return what of the log behind ``start`` is gone."""
    if start.log_id != now.log_id:
        return [Loss("*", "*", 0, 0, f"another log: {now.log_id} where {start.log_id} was")]
    found = []
    there = {(queue.topic, named(queue)): queue for queue in bounds}
    for (topic, name), offset in sorted(start.queues.items()):
        queue = there.get((topic, name))
        before = start.incarnations.get(topic, "")
        if queue is None:
            found.append(Loss(topic, name, offset, offset, "the queue is gone: its topic was deleted"))
        elif before and queue.incarnation and before != queue.incarnation:
            found.append(Loss(topic, name, offset, max(offset, queue.low), "the topic was deleted and made anew"))
        elif offset < queue.low:
            found.append(Loss(topic, name, offset, queue.low, "retention removed them"))
        elif offset > queue.high:
            found.append(Loss(topic, name, queue.high, offset, "the log ends before them: a cut or an older copy"))
    return found


def ranges(start: Offsets, end: Offsets) -> list[QueueRange]:
    """Return what lies between two offsets, in order of topic, broker and queue: nothing else is asked, so that a
    batch that is repeated reads the same."""
    found = []
    for (topic, name), stop in sorted(end.queues.items(), key=_order):
        broker, _, queue = name.rpartition("/")
        begin = start.queues.get((topic, name), stop)
        if begin < stop:
            found.append(QueueRange(topic, broker, int(queue), begin, stop))
    return found


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Return ``end`` cut to about ``most`` messages behind ``start``, of each queue in proportion and at least one."""
    left = {queue: end.queues[queue] - start.queues.get(queue, 0) for queue in end.queues}
    total = sum(count for count in left.values() if count > 0)
    if total <= most:
        return end
    cut = Offsets(end.log_id, dict(end.queues), dict(end.incarnations))
    for queue, count in left.items():
        if count > 0:
            cut.queues[queue] = start.queues.get(queue, 0) + min(count, max(1, count * most // total))
    return cut


def _order(item: tuple[Queue, int]) -> tuple[str, str, int]:
    (topic, name), _ = item
    broker, _, queue = name.rpartition("/")
    return topic, broker, int(queue)
