"""Small tables beside the messages: queues, segments and groups of a store, each made by one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from litemq.format import rows
from litemq.spark.errors import SchemaMismatch
from litemq.spark.files import FileBackend
from litemq.spark.options import ReadOptions
from litemq.spark.planning import Topics
from litemq.store import snapshot
from litemq.store.layout import Paths

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class View:
    """A small table: its columns, and what makes its rows."""

    columns: tuple[tuple[str, str], ...]
    rows: Callable[[FileBackend, ReadOptions], Iterator[Row]]

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)


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
                {"topic": topic, "queue_id": queue_id, "min_offset": offset, "messages": 0, "first_timestamp": time},
            )
            one["max_offset"] = offset + 1
            one["last_timestamp"] = time
            one["messages"] = int(str(one["messages"])) + 1
    yield from found.values()


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
    store = backend.log.store
    table = snapshot.read(backend.log.fs, Paths(store).progress) if store is not None else None
    ends = {(queue.topic, queue.queue_id): queue.high for queue in backend.bounds()}
    offsets = table.get("offsetTable") if table else None
    for name, queues in sorted(offsets.items()) if isinstance(offsets, dict) else ():
        topic, _, group = name.partition("@")
        for queue, offset in sorted(queues.items()) if isinstance(queues, dict) else ():
            end = ends.get((topic, int(queue)))
            if not isinstance(offset, int):
                continue
            yield {
                "group": group,
                "topic": topic,
                "queue_id": int(queue),
                "offset": offset,
                "max_offset": end,
                "lag": None if end is None else max(0, end - offset),
            }


VIEWS: Final = {
    "queues": View(
        (
            *(("topic", "string"), ("queue_id", "int"), ("min_offset", "bigint"), ("max_offset", "bigint")),
            *(("messages", "bigint"), ("first_timestamp", "timestamp"), ("last_timestamp", "timestamp")),
        ),
        _queues,
    ),
    "segments": View(
        (
            *(("segment", "string"), ("path", "string"), ("start", "bigint"), ("size", "bigint")),
            *(("written", "bigint"), ("format", "string")),
        ),
        _segments,
    ),
    "groups": View(
        (
            *(("group", "string"), ("topic", "string"), ("queue_id", "int"), ("offset", "bigint")),
            *(("max_offset", "bigint"), ("lag", "bigint")),
        ),
        _groups,
    ),
}
"""By the name of the option ``view``."""


class ViewReader(DataSourceReader):
    """Reads one of the small tables."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        known = dict(VIEWS[options.view].columns)
        self._columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        for name, kind in self._columns:
            if known.get(name) != kind:
                raise SchemaMismatch(
                    f"view={options.view} has no column {name} of type {kind}; it has: {VIEWS[options.view].ddl}"
                )

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from litemq.spark.codec import SIMPLE_TYPES

        backend = FileBackend(self._options.path, self._options.format)
        found = list(VIEWS[self._options.view].rows(backend, self._options))
        for row in found:
            for name, value in row.items():
                if name.endswith("_timestamp") and isinstance(value, int):
                    row[name] = value * 1000
        fields = [pa.field(name, SIMPLE_TYPES[kind]) for name, kind in self._columns]
        arrays = [pa.array([row.get(field.name) for row in found], field.type) for field in fields]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
