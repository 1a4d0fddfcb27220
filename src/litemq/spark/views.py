"""Small tables beside the messages: queues, topics, groups and segments, each made by one task.

The same columns whether files are read or brokers are asked; what one of them cannot tell is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from litemq.format import rows
from litemq.spark.errors import SchemaMismatch
from litemq.spark.files import FileBackend
from litemq.spark.group_offsets import kept_progress
from litemq.spark.options import ReadOptions, read_options
from litemq.spark.planning import Topics
from litemq.spark.ranges import QueueRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Row = dict[str, object]

_SPAN: Final = (
    *(("messages", "bigint"), ("bytes", "bigint")),
    *(("first_timestamp", "timestamp"), ("last_timestamp", "timestamp")),
)

COLUMNS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "queues": (
        *(("topic", "string"), ("broker", "string"), ("queue_id", "int")),
        *(("min_offset", "bigint"), ("max_offset", "bigint")),
        *_SPAN,
    ),
    "topics": (("topic", "string"), ("queues", "int"), *_SPAN),
    "groups": (
        *(("group", "string"), ("topic", "string"), ("broker", "string"), ("queue_id", "int")),
        *(("offset", "bigint"), ("max_offset", "bigint"), ("lag", "bigint")),
    ),
    "segments": (
        *(("segment", "string"), ("path", "string"), ("start", "bigint"), ("size", "bigint")),
        *(("written", "bigint"), ("format", "string")),
    ),
}
"""Name and type of the columns, by the name of the option ``view``."""


def ddl_of(view: str) -> str:
    """Return the schema of a view as Spark reads it."""
    return ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS[view])


def topics_of(queues: Iterable[Row]) -> list[Row]:
    """Return a row for each topic, from those of its queues."""
    found: dict[object, list[Row]] = {}
    for queue in queues:
        found.setdefault(queue["topic"], []).append(queue)
    return [
        {
            "topic": topic,
            "queues": len(mine),
            "messages": sum(_numbers(mine, "messages")),
            "bytes": sum(_numbers(mine, "bytes")),
            "first_timestamp": min(_numbers(mine, "first_timestamp"), default=None),
            "last_timestamp": max(_numbers(mine, "last_timestamp"), default=None),
        }
        for topic, mine in found.items()
    ]


def _numbers(queues: Iterable[Row], name: str) -> list[int]:
    return [value for queue in queues if isinstance(value := queue.get(name), int)]


# -- files ----------------------------------------------------------------------------------------------------------


def _queues(backend: FileBackend, options: ReadOptions) -> Iterator[Row]:
    topics = Topics(options)
    if not backend.trusted:
        yield from _walked_queues(backend, topics)
        return
    for queue in backend.bounds():
        if not topics.wants(queue.topic, queue.queue_id):
            continue
        entries = backend.queues()[queue.topic, queue.queue_id]
        ends = [entries.entry(at) for at in (queue.low, queue.high - 1)] if queue.low < queue.high else []
        times = [backend.stored_at(entry) for entry in ends]
        yield {
            "topic": queue.topic,
            "queue_id": queue.queue_id,
            "min_offset": queue.low,
            "max_offset": queue.high,
            "messages": queue.high - queue.low,
            "bytes": backend.bytes_of(QueueRange(queue.topic, "", queue.queue_id, queue.low, queue.high)),
            "first_timestamp": times[0] if times else None,
            "last_timestamp": times[1] if times else None,
        }


def _walked_queues(backend: FileBackend, topics: Topics) -> Iterator[Row]:
    """Find the queues of a log without entries by walking it."""
    found: dict[tuple[str, int], Row] = {}
    for batch in backend.log.batches():
        for row in range(batch.first, batch.count):
            at = row * rows.WIDTH
            start = batch.table[at + rows.TOPIC_AT]
            topic = str(batch.view[start : start + batch.table[at + rows.TOPIC_SIZE]], "utf-8")
            queue_id = batch.table[at + rows.QUEUE_ID]
            if not topics.wants(topic, queue_id) or batch.table[at + rows.STATUS] in (1, 3):
                continue
            offset, time = batch.table[at + rows.QUEUE_OFFSET], batch.table[at + rows.STORE_TIME]
            one = found.setdefault(
                (topic, queue_id),
                {"topic": topic, "queue_id": queue_id, "min_offset": offset, "first_timestamp": time}
                | {"messages": 0, "bytes": 0},
            )
            one["max_offset"] = offset + 1
            one["last_timestamp"] = time
            one["messages"] = int(str(one["messages"])) + 1
            one["bytes"] = int(str(one["bytes"])) + batch.table[at + rows.SIZE]
    yield from found.values()


def walked_topics(backend: FileBackend) -> set[str]:
    """Return the topics of a log without entries, all but the system's own."""
    return {str(row["topic"]) for row in _walked_queues(backend, Topics(read_options({"path": backend.path})))}


def _segments(backend: FileBackend, options: ReadOptions) -> Iterator[Row]:
    for stream in backend.log.files.streams:
        for segment in stream.segments:
            file = backend.log.fs.open(segment.path)
            try:
                size = file.size()
            finally:
                file.close()
            yield {
                "segment": segment.name,
                "path": str(segment.path),
                "start": None if stream.is_ordinal else segment.number,
                "size": size,
                "written": backend.size_of(segment),
                "format": backend.format.name if backend.format is not None else None,
            }


def _groups(backend: FileBackend, options: ReadOptions) -> Iterator[Row]:
    """Yield what groups have confirmed, as the store's snapshot of their progress says."""
    topics = Topics(options)
    ends = {(queue.topic, queue.queue_id): queue.high for queue in backend.bounds()}
    for group, progress in kept_progress(backend).items():
        for (topic, queue_id), offset in sorted(progress.items()):
            end = ends.get((topic, queue_id))
            if topics.wants(topic, queue_id):
                yield {
                    "group": group,
                    "topic": topic,
                    "queue_id": queue_id,
                    "offset": offset,
                    "max_offset": end,
                    "lag": None if end is None else max(0, end - offset),
                }


def _topics(backend: FileBackend, options: ReadOptions) -> Iterator[Row]:
    yield from topics_of(_queues(backend, options))


_OF_FILES: Final[dict[str, Callable[[FileBackend, ReadOptions], Iterator[Row]]]] = {
    "queues": _queues,
    "topics": _topics,
    "groups": _groups,
    "segments": _segments,
}


class ViewReader(DataSourceReader):
    """Reads one of the small tables."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        known = dict(COLUMNS[options.view])
        self._columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        for name, kind in self._columns:
            if known.get(name) != kind:
                raise SchemaMismatch(
                    f"view={options.view} has no column {name} of type {kind}; it has: {ddl_of(options.view)}"
                )

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from litemq.spark.codec import SIMPLE_TYPES

        found = list(self._rows())
        for row in found:
            for name, value in row.items():
                if name.endswith("_timestamp") and isinstance(value, int):
                    row[name] = value * 1000
        fields = [pa.field(name, SIMPLE_TYPES[kind]) for name, kind in self._columns]
        arrays = [pa.array([row.get(field.name) for row in found], field.type) for field in fields]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _rows(self) -> Iterator[Row]:
        options = self._options
        if not options.brokers:
            return _OF_FILES[options.view](FileBackend(options.path, options.format), options)
        from litemq.spark.live_views import OF_BROKERS

        wants_times = any(name.endswith("_timestamp") for name, _ in self._columns)
        return OF_BROKERS[options.view](options, wants_times)
