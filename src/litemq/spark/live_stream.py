"""Streams read from brokers: offsets that Spark keeps in its checkpoint, and what a micro-batch takes of what is there.

    {"v":1,"s":{broker: log id},"t":{topic:{"id":{broker: incarnation},"q":{"broker/queue": next offset}}}}

Spark compares offsets as text, so keys are sorted, and where nothing is new the start itself is the end.  What a batch
reads follows from its two offsets: a batch that comes again after a crash reads the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from litemq.client.live_reads import LiveBroker, LiveQueue
from litemq.errors import LiteMQError
from litemq.spark.errors import DataLost
from litemq.spark.group_position import GroupPosition
from litemq.spark.live import FIRST_CONTACT_S, BrokerBackend, Lost, deal_with_loss
from litemq.spark.live_planning import look, partitions_of, start_offsets
from litemq.spark.live_reader import read_parts
from litemq.spark.offsets import Place, places_of
from litemq.spark.options import ReadOptions
from litemq.spark.python_worker import settle
from litemq.spark.ranges import QueueRange
from litemq.spark.schema import Column

if TYPE_CHECKING:
    import pyarrow as pa

_RENEW_S: Final = 20.0
_ROW_BYTES: Final = 1_024
"""What a message counts for when a range is split: the same whenever it is."""


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics of brokers batch by batch."""

    def __init__(self, options: ReadOptions, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._first: dict[str, Any] | None = None
        self._target: dict[Place, int] | None = None
        self._waiting_since: float | None = None
        self._held_at = 0.0
        self._hold_name = f"spark {uuid.uuid4().hex}"
        self._reported: set[Lost] = set()
        self._position: GroupPosition | None = None

    @property
    def _backend(self) -> BrokerBackend:
        return BrokerBackend(self._options.brokers, self._options)

    @property
    def _first_contact(self) -> BrokerBackend:
        return BrokerBackend(self._options.brokers, self._options, timeout_s=FIRST_CONTACT_S)

    # -- offsets ---------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the stream begins; Spark asks twice, and must hear the same."""
        if self._first is None:
            backend = self._first_contact
            wanted = look(backend, self._options)
            starts = start_offsets(backend, self._options, wanted.queues)
            places = {_place(queue): offset for queue, offset in starts.items()}
            self._first = _offset(places, wanted.brokers, wanted.incarnations())
        return self._first

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return one limit: Spark knows no two; ``latestOffset`` looks at all options."""
        options = self._options
        if options.max_offsets:
            return ReadMaxRows(options.max_offsets)
        if options.max_bytes:
            return ReadMaxBytes(options.max_bytes)
        if options.min_offsets:
            return ReadMinRows(options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Note where the queues end now: the run goes no further."""
        wanted = look(self._first_contact, self._options)
        self._target = {_place(queue): queue.max_offset for queue in wanted.queues}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the next batch ends."""
        self._find_group()
        backend = self._backend
        wanted = look(backend, self._options)
        _check_logs(start, wanted.brokers, self._options)
        before = places_of(start)
        queues = {_place(queue): queue for queue in wanted.queues}
        fresh = {place: queue.min_offset for place, queue in queues.items() if place not in before}
        news: dict[Place, int] = {}
        for place, begin in before.items():
            queue = queues.get(place)
            if queue is None:
                continue  # its broker is away, or the topic was deleted
            end = queue.max_offset if self._target is None else min(queue.max_offset, self._target.get(place, 0))
            if end > begin:
                news[place] = end
        self._hold(backend, before, queues)
        total = sum(end - before[place] for place, end in news.items())
        if not news or (self._target is None and not isinstance(limit, ReadAllAvailable) and self._waits(total)):
            news = {}
        if news and not isinstance(limit, ReadAllAvailable):
            news = self._limited(backend, before, queues, news)
        # A queue that is new is noted first, and read by the next batch: then its start, too, is in the checkpoint.
        found = _offset({**fresh, **before, **news}, wanted.brokers, wanted.incarnations(), start)
        return start if found["t"] == start["t"] else found

    def _waits(self, total: int) -> bool:
        """Return whether to wait for more messages."""
        options, now = self._options, time.monotonic()
        if total >= options.min_offsets:
            self._waiting_since = None
            return False
        since = self._waiting_since = now if self._waiting_since is None else self._waiting_since
        if (now - since) * 1000 < options.max_delay_ms:
            return True
        self._waiting_since = None
        return False

    def _limited(
        self, backend: BrokerBackend, before: dict[Place, int], queues: dict[Place, LiveQueue], news: dict[Place, int]
    ) -> dict[Place, int]:
        """Return the ends within the limits: every queue with news gets its share, one message at least."""
        options = self._options
        begins = {place: min(max(before[place], queues[place].min_offset), end) for place, end in news.items()}
        if options.max_offsets:
            total = sum(end - begins[place] for place, end in news.items())
            if total > options.max_offsets:
                news = {
                    place: begins[place] + max(1, (end - begins[place]) * options.max_offsets // total)
                    for place, end in news.items()
                }
        if options.max_bytes:
            sizes = {place: _bytes(queues[place], begins[place], end) for place, end in news.items()}
            total = sum(sizes.values())
            for place, end in news.items() if total > options.max_bytes else ():
                topic, broker, queue_id = place
                share = max(1, options.max_bytes * sizes[place] // total)
                news[place] = backend.live.bytes_end(broker, topic, queue_id, begins[place], end, max_bytes=share)
        return news

    # -- batches ---------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what the tasks of a batch read.

        Raises:
            DataLost: messages are gone, and ``onDataLoss`` is ``fail``.
        """
        backend = self._backend
        before, after = places_of(start), places_of(end)
        found = backend.look(tuple({topic for topic, _, _ in after}))
        lows = {_place(queue): queue for broker in found for topic in broker.topics for queue in topic.queues}
        ranges = []
        for (topic, broker, queue_id), stop in sorted(after.items()):
            place = (topic, broker, queue_id)
            queue = lows.get(place)
            begin = before.get(place, stop)  # a queue that was new in this batch has nothing in it yet
            low = queue.min_offset if queue is not None else begin
            if begin < min(low, stop):
                lost = Lost(topic, broker, queue_id, begin, min(low, stop), self._cause(start, found, topic, broker))
                if lost not in self._reported:
                    deal_with_loss(self._options, lost)
                    self._reported.add(lost)
                begin = lost.end
            if begin < stop:
                ranges.append(QueueRange(topic, broker, queue_id, begin, stop, (stop - begin) * _ROW_BYTES))
        formats = {one.name: one.format for one in found}
        return [InputPartition((parts, formats)) for parts in partitions_of(backend, self._options, ranges)]

    def _cause(self, start: Mapping[str, Any], found: Sequence[LiveBroker], topic: str, broker: str) -> str:
        was = start["t"].get(topic, {}).get("id", {}).get(broker)
        now = next((one.incarnation for each in found if each.name == broker for one in each.topics
                    if one.name == topic), was)  # fmt: skip
        return "removed by retention" if was == now else "the topic was deleted and made again"

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition."""
        if partition is None or partition.value is None:
            return
        settle()
        parts, formats = partition.value
        yield from read_parts(self._options, self._columns, parts, formats)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell ``consumerGroup`` how far the stream came.

        Spark calls it for a batch while it makes the next one, so the group is a batch behind, and stays so at the end
        of an ``availableNow``: ``LiteMQQueryListener`` tells at once.  Spark's checkpoint is the position.
        """
        if self._position is not None:
            self._position.tell(places_of(end))

    def _find_group(self) -> None:
        """Make ``consumerGroup`` when the stream is first asked for news: a name that cannot be shows at once."""
        if self._options.consumer_group and self._position is None:
            self._position = GroupPosition(self._options.brokers, self._options.consumer_group)

    def stop(self) -> None:
        """Do nothing: Spark does not always call it."""

    # -- holds -----------------------------------------------------------------------------------

    def _hold(self, backend: BrokerBackend, before: dict[Place, int], queues: dict[Place, LiveQueue]) -> None:
        """Have brokers keep what is not read yet, for as long as ``retentionHold`` says after the last trigger."""
        now = time.monotonic()
        lease_s = self._options.hold_ms / 1000
        if not lease_s or (self._held_at and now - self._held_at < min(_RENEW_S, lease_s / 3)):
            return
        self._held_at = now
        for broker in sorted({place[1] for place in before if place in queues}):
            mine = {(topic, queue_id): at for (topic, name, queue_id), at in before.items() if name == broker}
            try:
                backend.live.hold(broker, self._hold_name, mine, lease_s=lease_s, timeout=5.0)
            except LiteMQError:  # a broker that is away holds nothing; the next trigger asks again
                self._held_at = 0.0


def _place(queue: LiveQueue) -> Place:
    return queue.topic, queue.broker, queue.queue_id


def _bytes(queue: LiveQueue, begin: int, end: int) -> int:
    return max(1, queue.bytes // max(1, queue.max_offset - queue.min_offset)) * (end - begin)


def _offset(
    places: Mapping[Place, int],
    brokers: Sequence[LiveBroker],
    incarnations: Mapping[str, Mapping[str, str]],
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the offset that says this, with sorted keys; what ``before`` knows of brokers that are away stays."""
    logs = {**(before["s"] if before else {}), **{broker.name: broker.log_id for broker in brokers}}
    topics: dict[str, Any] = {}
    for (topic, broker, queue_id), at in sorted(places.items()):
        known = before["t"].get(topic, {}).get("id", {}) if before else {}
        ids = {**known, **incarnations.get(topic, {})}
        told = topics.setdefault(topic, {"id": dict(sorted(ids.items())), "q": {}})
        told["q"][f"{broker}/{queue_id}"] = at
    return {"s": dict(sorted(logs.items())), "t": topics, "v": 1}


def _check_logs(start: Mapping[str, Any], brokers: Sequence[LiveBroker], options: ReadOptions) -> None:
    """Refuse to go on over another log than the one that the offsets are of."""
    for broker in brokers:
        was = start["s"].get(broker.name, broker.log_id)
        if was != broker.log_id and options.on_data_loss == "fail":
            raise DataLost(
                f"the broker {broker.name} has another log ({broker.log_id}) than the checkpoint knows ({was}): its "
                "store was replaced; begin with a new checkpointLocation, or set onDataLoss to skip"
            )
