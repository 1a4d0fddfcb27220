"""Kernel: frames of sends with the binary header, batches, and what their answers become.

    frame       size u32, codec 1 and header size u32, header, body
    header      code i16, language u8, version i16, opaque i32, flag i32, remark i32 length, ext i32 length, ext
    ext         name i16 length, value i32 length, repeated; one-letter names, see ``wire/remoting``
    batch body  entries: size i32, magic i32, crc i32, flag i32, body i32 length, properties i16 length
"""

from __future__ import annotations

import os
import struct
from datetime import datetime

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import RecordTooLarge
from litemq.wire.remoting.codes import FLAG_ONEWAY, PYTHON, VERSION, Ask

if cython.compiled:
    from cython.cimports.litemq._clock_cy import wall_ms
    from cython.cimports.litemq.client._message_cy import Message
else:
    from litemq._clock_cy import wall_ms
    from litemq.client._message_cy import Message

MAX_PROPERTIES = 32_767
MAX_BODY = (1 << 24) - (1 << 17)
"""Bytes of a body that fits into a frame with its header; the broker's own limit is lower."""

_HEAD = struct.Struct(">IIhBhiiii")
_ENTRY = struct.Struct(">iiiii")
_NUMBER = struct.Struct(">i")
_NAME_AND_SIZE = struct.Struct(">hsi")
_MAX_PROPERTIES = cython.declare(cython.Py_ssize_t, MAX_PROPERTIES)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class Sent:
    """Where a message was stored.

    >>> import litemq
    >>> with litemq.Producer() as producer:
    ...     sent = producer.send("orders", b"17 apples")
    >>> sent.topic, sent.queue_offset >= 0
    ('orders', True)
    """

    if not cython.compiled:
        __slots__ = ("broker", "message_id", "offset_id", "queue_id", "queue_offset", "topic")

    def __init__(
        self, message_id: str, topic: str, broker: str, queue_id: int, queue_offset: int, offset_id: str = ""
    ) -> None:
        self.message_id = message_id
        self.topic = topic
        self.broker = broker
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.offset_id = offset_id

    def __repr__(self) -> str:
        where = f"{self.topic} {self.broker}/{self.queue_id}@{self.queue_offset}"
        return f"<Sent {self.message_id} {where}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sent):
            return NotImplemented
        return (self.message_id, self.broker, self.queue_id, self.queue_offset) == (
            other.message_id,
            other.broker,
            other.queue_id,
            other.queue_offset,
        )

    def __hash__(self) -> int:
        return hash(self.message_id)


class Ids:
    """Makes ids as RocketMQ's clients do: who, when in this month, the how-manieth."""

    def __init__(self) -> None:
        self._make_prefix()
        os.register_at_fork(after_in_child=self._make_prefix)

    def _make_prefix(self) -> None:
        # A random number stands for the address: several machines may share one behind a gateway.
        self.prefix = (os.urandom(4) + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)).hex().upper()
        self.count = int.from_bytes(os.urandom(2), "big")
        self.month_start = self.month_end = 0

    def next(self) -> str:
        """Return an id that no other message has."""
        now = wall_ms()
        if not self.month_start <= now < self.month_end:
            self._begin_month(now)
        self.count = (self.count + 1) & 0xFFFF
        return f"{self.prefix}{(now - self.month_start) & 0xFFFFFFFF:08X}{self.count:04X}"

    def _begin_month(self, now: int) -> None:
        today = datetime.fromtimestamp(now / 1000).astimezone()
        start = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (start.replace(day=28) + (datetime(1, 1, 5) - datetime(1, 1, 1))).replace(day=1)
        self.month_start = int(start.timestamp() * 1000)
        self.month_end = int(following.timestamp() * 1000)


IDS = Ids()


def properties_text(message: Message, message_id: str) -> bytes:
    """Return the properties as they travel, the message's id among them."""
    pairs = message.pairs
    text = f"UNIQ_KEY\x01{message_id}\x02WAIT\x01true\x02"
    if pairs:
        text = "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]) + text
    found = text.encode("utf-8", "replace")
    if len(found) > MAX_PROPERTIES:
        raise RecordTooLarge(what="the properties of a message", size=len(found), limit=MAX_PROPERTIES)
    return found


def field(name: str, value: str | bytes) -> bytes:
    """Return an ext field with a name of one letter."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _NAME_AND_SIZE.pack(1, name.encode(), len(data)) + data


def queue_fields(group: str, topic: str, queue_id: int, broker: str) -> bytes:
    """Return the fields of a send that are the same for all messages of a queue."""
    fixed = (("a", group), ("b", topic), ("c", "TBW102"), ("d", "4"), ("e", str(queue_id)), ("j", "0"), ("k", "false"))
    return b"".join(field(name, value) for name, value in (*fixed, ("n", broker)))


def send_frame(
    fields: bytes, opaque: int, message: Message, text: bytes, sys_flag: int, body: bytes, *, oneway: bool = False
) -> bytes:
    """Return the frame of one message; ``fields`` are its queue's."""
    ext = b"".join(
        (
            fields,
            field("f", str(sys_flag)),
            field("g", str(wall_ms())),
            field("h", str(message.flag)),
            field("i", text),
            field("m", "false"),
        )
    )
    return _frame(Ask.SEND_MESSAGE_V2, opaque, ext, body, oneway)


def batch_frame(fields: bytes, opaque: int, body: bytes, *, oneway: bool = False) -> bytes:
    """Return the frame of a batch; ``fields`` are its queue's."""
    ext = b"".join((fields, field("f", "0"), field("g", str(wall_ms())), field("h", "0"), field("m", "true")))
    return _frame(Ask.SEND_BATCH_MESSAGE, opaque, ext, body, oneway)


def batch_entry(body: bytes, flag: int, text: bytes) -> bytes:
    """Return one message of a batch."""
    size = _ENTRY.size + len(body) + 2 + len(text)
    return b"".join((_ENTRY.pack(size, 0, 0, flag, len(body)), body, len(text).to_bytes(2, "big"), text))


def _frame(code: int, opaque: int, ext: bytes, body: bytes, oneway: bool) -> bytes:
    header = 21 + len(ext)
    flag = FLAG_ONEWAY if oneway else 0
    head = _HEAD.pack(4 + header + len(body), 1 << 24 | header, code, PYTHON, VERSION, opaque, flag, 0, len(ext))
    return b"".join((head, ext, body))
