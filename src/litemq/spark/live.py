"""Reading from brokers: ranges of queues, each asked of its own broker, record bytes as they are stored.

Picklable, and nothing is open in it: a process has one ``LiteMQ`` connection for each cluster, made when it is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from litemq.client.live_reads import LiveBroker, LiveQueue, LiveReader, RawRecords
from litemq.errors import UnknownTopic
from litemq.format import rows
from litemq.format._scan_cy import scan_apart
from litemq.format.record import FORMATS, LITEMQ, Format
from litemq.spark.backend import Bounds, Counters, Damaged, Rows
from litemq.spark.errors import DataLost
from litemq.spark.options import ReadOptions
from litemq.spark.ranges import NO_END, LogRange, QueueRange, Range

_PULL_BYTES: Final = 2 << 20
_ROWS: Final = 4_096
FIRST_CONTACT_S: Final = 5.0
"""For so long somebody who begins to read is kept waiting for brokers: the address may be wrong."""
PATIENCE_S: Final = 30.0
"""For so long a read that goes on waits for a broker to come back."""

_readers: dict[tuple[int, str, float], LiveReader] = {}


def reader_of(brokers: str, timeout_s: float = PATIENCE_S) -> LiveReader:
    """Return this process's connection to a cluster; a fork has one of its own."""
    key = (os.getpid(), brokers, timeout_s)
    if key not in _readers:
        _readers[key] = LiveReader(brokers, timeout=timeout_s)
    return _readers[key]


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of a queue that were wanted and are gone."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int
    cause: str

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue_id} offsets {self.start} to {self.end - 1} ({self.cause})"


def deal_with_loss(options: ReadOptions, lost: Lost) -> None:
    """Do as ``onDataLoss`` says.

    Raises:
        DataLost: it is ``fail``.
    """
    if options.on_data_loss == "fail":
        raise DataLost(
            f"{lost.end - lost.start} messages are gone: {lost}; set onDataLoss to skip or record to go on behind "
            "them, and retentionHold to keep what a stream has yet to read"
        )
    if options.on_data_loss == "record":
        line = {
            "topic": lost.topic,
            "broker": lost.broker,
            "queue": lost.queue_id,
            "from": lost.start,
            "to": lost.end,
            "count": lost.end - lost.start,
            "cause": lost.cause,
        }
        with Path(options.data_loss_log).open("a") as log:
            log.write(json.dumps(line) + "\n")


class BrokerBackend:
    """The queues of all brokers that a name server knows."""

    def __init__(self, brokers: str, options: ReadOptions, *, timeout_s: float = PATIENCE_S) -> None:
        self.brokers = brokers
        self._timeout_s = timeout_s
        self.path = brokers
        self._options = options
        self.counters = Counters()

    @property
    def live(self) -> LiveReader:
        """Return who asks the brokers."""
        return reader_of(self.brokers, self._timeout_s)

    @property
    def format(self) -> Format | None:
        """Return the format of the first broker's records."""
        names = sorted({one.format for one in self.live.bounds([])})
        return FORMATS[names[0]] if names else None

    @property
    def identity(self) -> str:
        """Return which logs these are."""
        return ",".join(f"{one.name}={one.log_id}" for one in self.live.bounds([]))

    def look(self, topics: tuple[str, ...] | None) -> list[LiveBroker]:
        """Return what brokers say of topics; of all topics of applications with None."""
        return self.live.bounds(topics)

    def bounds(self, topics: tuple[str, ...] | None = None) -> list[Bounds]:
        """Return all queues of topics; of all topics of applications with None."""
        return [
            Bounds(queue.topic, queue.broker, queue.queue_id, queue.min_offset, queue.max_offset, topic.incarnation)
            for broker in self.look(topics)
            for topic in broker.topics
            for queue in topic.queues
        ]

    def offset_at(self, queue: Bounds, time_ms: int) -> int:
        """Return the first offset stored at or after a time."""
        named = LiveQueue(queue.topic, queue.broker, queue.queue_id, queue.low, queue.high, 0)
        return self.live.offsets_at([(named, time_ms)])[0]

    def bytes_of(self, queue: QueueRange) -> int:
        """Return about how many bytes the records of a range have."""
        return queue.size

    def split(self, queue: QueueRange, max_bytes: int, max_records: int) -> list[QueueRange]:
        """Return the range in parts that follow each other."""
        count = queue.end - queue.start
        each = max(1, queue.size // max(1, count))
        step = max(1, max_bytes // each)
        if max_records:
            step = min(step, max_records)
        return [
            queue._replace(start=start, end=min(start + step, queue.end), size=each * min(step, queue.end - start))
            for start in range(queue.start, queue.end, step)
        ]

    def open(self, part: Range) -> Iterator[Rows | Damaged]:
        """Yield the records of a range of a queue.

        Raises:
            DataLost: some are gone, and ``onDataLoss`` is ``fail``.
        """
        assert not isinstance(part, LogRange)
        at = part.start
        while at < part.end:
            try:
                raw = self.live.pull(part.broker, part.topic, part.queue_id, at, part.end, max_bytes=_PULL_BYTES)
            except UnknownTopic:
                self._lose(part, at, part.end, "the topic was deleted")
                return
            self.counters.reads += 1
            self.counters.record_bytes += len(raw.data)
            if raw.next_offset > at:
                yield from self._rows(part, at, raw)
                at = raw.next_offset
            elif at < raw.min_offset:
                behind = min(raw.min_offset, part.end)
                self._lose(part, at, behind, "removed by retention")
                at = behind
            else:
                self._lose(part, at, part.end, f"the queue ends at {raw.max_offset}: its broker lost what was behind")
                return

    def _lose(self, part: QueueRange, start: int, end: int, cause: str) -> None:
        deal_with_loss(self._options, Lost(part.topic, part.broker, part.queue_id, start, end, cause))

    def _rows(self, part: QueueRange, expected: int, raw: RawRecords) -> Iterator[Rows | Damaged]:
        fmt = FORMATS[raw.format]
        view = memoryview(raw.data)
        at = 0
        missing = raw.next_offset - expected != raw.count
        one_by_one = bool(self._options.keys or self._options.tags)  # whoever looks at single records needs its base
        while at < len(view):
            table = rows.table(1 if one_by_one else min(_ROWS, raw.count))
            begin = at
            count, at, why = scan_apart(fmt.code, view, at, len(view), table)
            if missing:
                for row in range(count):
                    offset = table[row * rows.WIDTH + rows.QUEUE_OFFSET]
                    if offset > expected:
                        yield _gap(part, expected, offset)
                    expected = offset + 1
            if count:
                yield Rows(view, table, 0, count, table[rows.POSITION] - begin, NO_END)
            if why not in (rows.ROOM, rows.END):
                size = int.from_bytes(view[at : at + 4], "big") + (4 if fmt is LITEMQ else 0)
                reason = rows.REASONS.get(why, "no sound record")
                yield Damaged(-1, size, reason, f"queue {part.topic}/{part.broker}/{part.queue_id}")
                at += max(size, 64)
                expected += 1
        if missing and expected < raw.next_offset:
            yield _gap(part, expected, raw.next_offset)


def _gap(part: QueueRange, start: int, end: int) -> Damaged:
    reason = f"{end - start} damaged records from offset {start} on"
    return Damaged(-1, 0, reason, f"queue {part.topic}/{part.broker}/{part.queue_id}")
