"""Record batches on their way to brokers: each row becomes a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from litemq.client._message_cy import OWN_PROPERTIES, Message
from litemq.errors import InvalidRequest
from litemq.spark.write_options import COLUMNS, WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

Row = Message | tuple[Message, int]

_MOST_BYTES: Final = 4 << 20


def rows_of(batches: Iterable[pa.RecordBatch], options: WriteOptions) -> Iterator[Row]:
    """Yield the messages of rows, with the number of their queue where a row names one.

    Raises:
        InvalidRequest: a row has no body or topic, or something that no message can hold.
    """
    for batch in batches:
        for some in _handful(batch):
            yield from _rows(some, options)


def _handful(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts that are not large: their rows are copied, and Spark puts up to 64 MiB into a batch."""
    if batch.num_rows > 1 and batch.nbytes > _MOST_BYTES:
        half = batch.num_rows // 2
        yield from _handful(batch.slice(0, half))
        yield from _handful(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _rows(batch: pa.RecordBatch, options: WriteOptions) -> Iterator[Row]:
    there = batch.schema.names
    count = batch.num_rows

    def column(*names: str) -> list[Any] | None:
        name = next((name for name in names if name in there), None)
        return None if name is None else _plain(batch.column(name))

    bodies = column("body", "value")
    assert bodies is not None  # the schema was checked
    if bodies and isinstance(next((body for body in bodies if body is not None), None), str):
        bodies = [None if body is None else body.encode() for body in bodies]
    if None in bodies:
        raise InvalidRequest("a row has no body: it is null; fill it: coalesce(body, X'')")
    topics = [options.topic] * count if options.topic else column("topic")
    assert topics is not None
    if None in topics:
        raise InvalidRequest("a row has no topic: it is null; filter such rows out, or .option('topic', …)")
    tags = column("tags")
    keys = column("keys", "key")
    shards = column("sharding_key")
    queues = column("queue_id", "partition")
    properties = _properties(batch, column("properties", "headers"), options)
    if tags is keys is shards is queues is properties is None:
        yield from map(Message, topics, bodies)
        return
    nothing = [None] * count
    keys = nothing if keys is None else _keys(keys)
    rows = zip(topics, bodies, tags or nothing, keys, properties or nothing, shards or nothing, strict=True)
    messages = (
        Message(topic, body, tags=tag or None, keys=key or (), properties=found, sharding_key=shard)
        for topic, body, tag, key, found, shard in rows
    )
    if queues is None:
        yield from messages
    else:
        for message, queue in zip(messages, queues, strict=True):
            yield message if queue is None else (message, queue)


def _plain(values: pa.Array) -> list[Any]:
    found: list[Any] = values.to_pylist()
    return found


def _keys(keys: list[Any]) -> list[Any]:
    """Return keys as texts; Kafka's are bytes."""
    return [key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key for key in keys]


def _properties(batch: pa.RecordBatch, given: list[Any] | None, options: WriteOptions) -> list[dict[str, str]] | None:
    extra = [name for name in batch.schema.names if name not in COLUMNS] if options.keeps_extra else []
    if given is None and not extra:
        return None
    found = [_own(pairs) for pairs in given] if given is not None else [{} for _ in range(batch.num_rows)]
    for name in extra:
        for row, value in zip(found, _texts(batch.column(name)), strict=True):
            if value is not None:
                row[name] = value
    return found


def _own(pairs: Any) -> dict[str, str]:  # noqa: ANN401 - as Arrow gives a map, or Kafka's headers
    """Return the application's properties: what brokers say by properties does not travel on."""
    answer = {}
    for pair in pairs or ():
        name, value = (pair["key"], pair["value"]) if isinstance(pair, dict) else pair
        if name is not None and value is not None and name not in OWN_PROPERTIES:
            answer[name] = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return answer


def _texts(values: pa.Array) -> list[str | None]:
    import pyarrow as pa

    found: list[str | None] = values.cast(pa.string()).to_pylist()
    return found


def with_ids(rows: Iterable[Row], name: str, make: Callable[[int], str]) -> Iterator[Row]:
    """Give each row a property by which consumers know it again when it comes twice."""
    for number, row in enumerate(rows):
        message, queue = row if isinstance(row, tuple) else (row, None)
        marked = Message(
            message.topic,
            message.body,
            tags=message.tags,
            keys=message.keys,
            properties={**message.properties, name: make(number)},
            sharding_key=message.sharding_key,
        )
        yield marked if queue is None else (marked, queue)
