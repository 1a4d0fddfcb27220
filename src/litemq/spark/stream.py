"""The streaming reader over store files: what each micro-batch reads is said by its offsets alone.

One object lives beside the driver and keeps state between triggers; another is pickled to executors.  ``commit`` and
``stop`` do nothing: Spark does not call them reliably.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from litemq.spark import offsets
from litemq.spark.backend import Bounds
from litemq.spark.codec import Filter
from litemq.spark.errors import BadOption, DataLost
from litemq.spark.files import FileBackend
from litemq.spark.offsets import Loss, Offsets
from litemq.spark.options import LATEST, ReadOptions
from litemq.spark.planning import Topics, no_topic, resolved
from litemq.spark.python_worker import settle
from litemq.spark.ranges import QueueRange, grouped
from litemq.spark.reading import Task, read_ranges
from litemq.spark.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)


class LiteMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a store as it grows."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._first: dict[str, Any] | None = None
        self._last_available: dict[str, Any] | None = None
        self._waiting_since: float | None = None
        self._warned = False

    # -- offsets ---------------------------------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return one limit: all of them are looked at in ``latestOffset``."""
        return ReadMaxRows(self._options.max_offsets) if self._options.max_offsets else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the log ends: later messages are left to the next run."""
        now, _ = self._now()
        self._last_available = now.to_json()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where to start, the same every time: Spark asks twice."""
        if self._first is None:
            now, bounds = self._now()
            self._check_named(bounds)
            starts = self._starts(bounds)
            now.queues = {(q.topic, offsets.named(q)): starts[q.topic, q.queue_id] for q in bounds}
            self._first = now.to_json()
            logger.warning("litemq stream over %s starts at %s", self._options.path, json.dumps(self._first["t"]))
        return self._first

    def _check_named(self, bounds: list[Bounds]) -> None:
        """Refuse topics that a stream would wait for in vain."""
        backend = self._backend()
        known = {queue.topic for queue in bounds}
        unknown = [topic for topic in Topics(self._options).named if topic not in known] if backend.trusted else []
        for topic in unknown:
            if topic in backend.batch_topics():
                raise BadOption(
                    f"{topic!r} is of RocketMQ's type BatchCQ and has no ConsumeQueues, by which a stream goes; "
                    "read it with spark.read"
                )
            raise BadOption(no_topic(topic, backend.path, (queue.topic for queue in backend.bounds())))

    def _starts(self, bounds: list[Bounds]) -> dict[tuple[str, int], int]:
        options, backend = self._options, self._backend()
        if options.starting == LATEST and options.from_ms is None and not options.starting_group:
            return {(queue.topic, queue.queue_id): queue.high for queue in bounds}
        found = resolved(backend, options, bounds)
        return {
            (queue.topic, queue.queue_id): max(found[queue.topic, queue.queue_id][0], queue.low) for queue in bounds
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends: what is there, within the limits; ``start`` itself when nothing is new."""
        before = offsets.from_json(start)
        now, bounds = self._now()
        before = self._deal_with_losses(before, now, bounds)
        if self._last_available is not None:
            target = offsets.from_json(self._last_available).queues
            now.queues = {queue: min(end, target.get(queue, 0)) for queue, end in now.queues.items()}
        # New queues begin at their first message; one that a stream is ahead of waits.
        lows = {(queue.topic, offsets.named(queue)): queue.low for queue in bounds}
        for queue in now.queues:
            before.queues.setdefault(queue, lows.get(queue, 0))
            now.queues[queue] = max(now.queues[queue], before.queues[queue])
        if self._must_wait(before, now):
            return start
        if not isinstance(limit, ReadAllAvailable) or self._last_available is not None:
            now = self._within_limits(before, now)
        found = now.to_json()
        return start if _text(found) == _text(start) else found

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the log ends, for Spark's progress reports."""
        return self._now()[0].to_json()

    def _now(self) -> tuple[Offsets, list[Bounds]]:
        view = self._options.view
        if view != "messages":  # here, for an error of the constructor is covered by one of PySpark's
            raise BadOption(f"view={view} cannot be read as a stream; leave view out, or use spark.read")
        backend = self._backend()
        if not backend.trusted and backend.format is not None:
            raise BadOption(
                f"{self._options.path} has no ConsumeQueues, by which a stream goes; run: litemq store rebuild"
            )
        if backend.is_live and not self._warned:
            self._warned = True
            logger.warning(
                "%s is being written: a stream over its files sees what is flushed (at most some 500 ms late)",
                self._options.path,
            )
        topics = Topics(self._options)
        bounds = [queue for queue in backend.bounds() if topics.wants(queue.topic, queue.queue_id)]
        found = Offsets(backend.identity)
        for queue in bounds:
            found.queues[queue.topic, offsets.named(queue)] = queue.high
            found.incarnations[queue.topic] = queue.incarnation
        return found, bounds

    def _backend(self) -> FileBackend:
        """Return a fresh look at the store: it may have grown."""
        return FileBackend(self._options.path, self._options.format)

    def _must_wait(self, before: Offsets, now: Offsets) -> bool:
        if not self._options.min_offsets or self._last_available is not None:
            return False
        new = sum(max(0, now.queues[queue] - before.queues[queue]) for queue in now.queues)
        if new >= self._options.min_offsets or new == 0:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        if (time.monotonic() - self._waiting_since) * 1000 >= self._options.max_delay_ms:
            self._waiting_since = None
            return False
        return True

    def _within_limits(self, before: Offsets, now: Offsets) -> Offsets:
        if self._options.max_offsets:
            now = offsets.limited(before, now, self._options.max_offsets)
        if self._options.max_bytes:
            backend = self._backend()
            parts = offsets.ranges(before, now)
            total = sum(backend.bytes_of(part) for part in parts)
            count = sum(part.end - part.start for part in parts)
            if total > self._options.max_bytes:
                now = offsets.limited(before, now, max(1, count * self._options.max_bytes // total))
        return now

    # -- losses ----------------------------------------------------------------------------------------------------

    def _deal_with_losses(self, before: Offsets, now: Offsets, bounds: list[Bounds]) -> Offsets:
        found = offsets.losses(before, now, bounds)
        if not found:
            return before
        said = "; ".join(str(loss) for loss in found[:10])
        if self._options.on_data_loss == "fail":
            raise DataLost(
                f"{said}; set onDataLoss to skip or record to go on without them, "
                "or a new checkpointLocation to start anew"
            )
        if self._options.on_data_loss == "record":
            self._record(found)
        logger.warning("litemq stream goes on without lost messages: %s", said)
        if before.log_id != now.log_id:
            return Offsets(now.log_id)
        return Offsets(before.log_id, _moved(before, found, bounds), before.incarnations)

    def _record(self, found: list[Loss]) -> None:
        with Path(self._options.data_loss_log).open("a") as out:
            for loss in found:
                line = {"topic": loss.topic, "queue": loss.queue, "from": loss.start, "to": loss.end}
                out.write(json.dumps({**line, "count": loss.end - loss.start, "cause": loss.cause}) + "\n")

    # -- reading ---------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        backend = self._backend()
        options = self._options
        last = offsets.from_json(end)
        first = offsets.from_json(start)
        lows = {(queue.topic, offsets.named(queue)): queue.low for queue in backend.bounds()}
        for queue in last.queues:
            # New since ``start``, or lost in between and dealt with: from the first message that is there.
            low = lows.get(queue, 0)
            first.queues[queue] = max(low, first.queues.get(queue, low)) if first.log_id == last.log_id else low
        parts: list[QueueRange] = []
        for part in offsets.ranges(first, last):
            sized = part._replace(size=backend.bytes_of(part))
            parts += backend.split(sized, options.max_partition_bytes, options.max_records)
        only = Filter(is_placed_only=True, keys=frozenset(options.keys), tags=frozenset(options.tags))
        groups = grouped(parts, options.max_partition_bytes, options.min_partitions)
        return [InputPartition(Task(group, only)) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition is None or partition.value is None:
            return
        settle()
        yield from read_ranges(self._backend(), self._options, self._columns, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark's checkpoint is the only truth."""

    def stop(self) -> None:
        """Do nothing: nothing is held."""


def _moved(before: Offsets, found: list[Loss], bounds: list[Bounds]) -> dict[tuple[str, str], int]:
    """Return the offsets that are there, nearest to those that a stream wanted."""
    there = {(queue.topic, offsets.named(queue)): queue for queue in bounds}
    moved = dict(before.queues)
    for loss in found:
        queue = there.get((loss.topic, loss.queue))
        if queue is None:
            moved.pop((loss.topic, loss.queue), None)
        else:
            moved[loss.topic, loss.queue] = min(max(loss.end, queue.low), queue.high)
    return moved


def _text(found: dict[str, Any]) -> str:
    return json.dumps(found, sort_keys=True)
