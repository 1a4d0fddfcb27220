"""A message as the store takes it: every field that any record format can hold.

Plain Python with slots; ``_message_cy.pxd`` gives the compiled kernels direct access to the fields.
"""

from __future__ import annotations

NO_HOST = "0.0.0.0:0"
EMPTY: dict[str, str] = {}


class Message:
    """What a producer hands over; treat it as a value (the compiled build enforces that).

    ``body`` is as stored: compressed when ``sys_flag`` says so.  ``sys_flag`` is RocketMQ's; None derives it from
    ``status`` and the hosts.  Times are milliseconds since the epoch.
    """

    __slots__ = (
        "body",
        "born_host",
        "born_time",
        "broadcast",
        "consume_end_time",
        "consume_start_time",
        "delay_time",
        "flag",
        "keys",
        "message_id",
        "prepared_offset",
        "priority",
        "properties",
        "queue_id",
        "reconsume_times",
        "reliability",
        "sharding_key",
        "status",
        "sys_flag",
        "tags",
        "topic",
        "transaction_id",
        "type",
    )

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        message_id: str = "",
        tags: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
        properties: dict[str, str] = EMPTY,
        type: int = 0,  # noqa: A002 - the format's own name of the field
        priority: int = 0,
        reliability: int = 0,
        delay_time: int = 0,
        transaction_id: str = "",
        status: int = 0,
        sharding_key: str = "",
        broadcast: bool = False,
        born_time: int = 0,
        born_host: str = NO_HOST,
        flag: int = 0,
        sys_flag: int | None = None,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        consume_start_time: int = 0,
        consume_end_time: int = 0,
    ) -> None:
        self.topic = topic
        self.body = body
        self.queue_id = queue_id
        self.message_id = message_id
        self.tags = tags
        self.keys = keys
        self.properties = properties
        self.type = type
        self.priority = priority
        self.reliability = reliability
        self.delay_time = delay_time
        self.transaction_id = transaction_id
        self.status = status
        self.sharding_key = sharding_key
        self.broadcast = broadcast
        self.born_time = born_time
        self.born_host = born_host
        self.flag = flag
        self.sys_flag = sys_flag
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.consume_start_time = consume_start_time
        self.consume_end_time = consume_end_time

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Message.__slots__)

    def __hash__(self) -> int:
        return hash((self.topic, self.queue_id, self.message_id, self.body))

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.body[:40]!r}, queue_id={self.queue_id}, message_id={self.message_id!r})"


class Appended:
    """Where a message went.  ``end`` is the position behind its record: flush to it to make the record durable."""

    __slots__ = ("end", "position", "queue_offset", "store_time")

    def __init__(self, position: int, end: int, queue_offset: int, store_time: int) -> None:
        self.position = position
        self.end = end
        self.queue_offset = queue_offset
        self.store_time = store_time

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Appended):
            return NotImplemented
        return self.position == other.position and self.end == other.end and self.queue_offset == other.queue_offset

    def __hash__(self) -> int:
        return hash((self.position, self.queue_offset))

    def __repr__(self) -> str:
        return f"Appended(position={self.position}, end={self.end}, queue_offset={self.queue_offset})"
