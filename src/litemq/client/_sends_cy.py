"""Kernel: frames of sends with the binary header, batches, and what their answers become.

frame       size u32, codec 1 and header size u32, header, body
header      code i16, language u8, version i16, opaque i32, flag i32, remark i32 length, ext i32 length, ext
ext         name i16 length, value i32 length, repeated; one-letter names, see ``wire/remoting``
batch body  entries: size i32, magic i32, crc i32, flag i32, body i32 length, properties i16 length
"""

from __future__ import annotations

import os
import struct
from datetime import datetime, timedelta
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

from litemq.errors import RecordTooLarge
from litemq.wire.remoting._entries_cy import entries
from litemq.wire.remoting.codes import FLAG_ONEWAY, PYTHON, VERSION, Ask
from litemq.wire.remoting.command import Response

if cython.compiled:
    from cython.cimports.libc.string import memcpy
    from cython.cimports.litemq._clock_cy import wall_ms
    from cython.cimports.litemq.client._message_cy import Message
    from cython.cimports.litemq.format._byte_order_h import copy, put16, put32, u16, u32
else:
    from litemq._clock_cy import wall_ms
    from litemq.client._message_cy import Message
    from litemq.format.byte_order import copy, put16, put32, u16, u32

MAX_PROPERTIES = 32_767
MAX_BODY = (1 << 24) - (1 << 17)
"""Bytes of a body that fits into a frame with its header; the broker's own limit is lower."""

_HEAD = struct.Struct(">IIhBhiiii")
_NAME_AND_SIZE = struct.Struct(">hsi")
_MASK = cython.declare(cython.longlong, 0xFFFFFFFF)
_DIGITS = cython.declare(bytes, b"0123456789ABCDEF")
_MOST = cython.declare(cython.Py_ssize_t, 4096)
"""Messages of one request."""
_ENTRY_SIZE = cython.declare(cython.Py_ssize_t, 22)
"""Bytes of a batch's entry beside body and properties."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.no_gc  # texts and numbers: never part of a cycle
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
        __slots__ = ("broker", "ids", "message_id", "place", "queue_id", "queue_offset", "topic")

    def __init__(
        self, message_id: str, topic: str, broker: str, queue_id: int, queue_offset: int, offset_id: str = ""
    ) -> None:
        self.message_id = message_id
        self.topic = topic
        self.broker = broker
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.ids = offset_id
        self.place = 0

    @property
    def offset_id(self) -> str:
        """Its place in the broker's log, as RocketMQ's tools name it.

        >>> with litemq.Producer() as producer:
        ...     len(producer.send("orders", b"17 apples").offset_id)
        32
        """
        ids = self.ids.split(",")
        return ids[self.place] if self.place < len(ids) else ""

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


@cython.cclass
class Ids:
    """Makes ids as RocketMQ's clients do: who, when in this month, the how-manieth."""

    if not cython.compiled:
        __slots__ = ("count", "month_end", "month_start", "prefix")

    def __init__(self) -> None:
        self.make_prefix()
        os.register_at_fork(after_in_child=self.make_prefix)

    def make_prefix(self) -> None:
        """Become another: a child of this process makes ids of its own."""
        # A random number stands for the address: several machines may share one behind a gateway.
        self.prefix = (os.urandom(4) + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)).hex().upper().encode()
        self.count = int.from_bytes(os.urandom(2), "big")
        self.month_start = self.month_end = 0

    @cython.ccall
    def next(self) -> str:
        """Return an id that no other message has."""
        now: cython.longlong = wall_ms()
        if now < self.month_start or now >= self.month_end:
            self._begin_month(now)
        self.count = (self.count + 1) & 0xFFFF
        since: cython.ulonglong = (now - self.month_start) & _MASK
        if cython.compiled:
            text = cython.declare(cython.char[32])
            prefix: cython.p_char = self.prefix
            memcpy(text, prefix, 20)
            number: cython.ulonglong = since << 16 | self.count
            i: cython.int
            for i in range(12):
                text[31 - i] = _DIGITS[(number >> (4 * i)) & 15]
            return text[:32].decode("ascii")
        else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
            return f"{self.prefix.decode()}{since:08X}{self.count:04X}"

    def _begin_month(self, now: cython.longlong) -> None:
        today = datetime.fromtimestamp(now / 1000).astimezone()
        start = today.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = (start.replace(day=28) + timedelta(days=4)).replace(day=1)
        self.month_start = int(start.timestamp() * 1000)
        self.month_end = int(following.timestamp() * 1000)


IDS = cython.declare(Ids, Ids())


@cython.no_gc  # a message, bytes and a text: never part of a cycle
@cython.cclass
class Outgoing:
    """A message on its way: what of it travels, made once for all tries.

    ``body`` is as it travels, compressed when ``sys_flag`` says so.  ``future``, ``deadline`` and ``era`` belong to
    who accepted it (``lanes``).
    """

    if not cython.compiled:
        __slots__ = ("body", "deadline", "era", "future", "message", "message_id", "size", "sys_flag", "text")

    def __init__(self, message: Message) -> None:
        self.message = message
        self.body = message.opened
        self.sys_flag = 0
        self.future: Any = None
        self.deadline = 0.0
        self.era = 0
        self.message_id = IDS.next()
        self.text = properties_text(message, self.message_id)
        self.size = len(self.body) + len(self.text) + _ENTRY_SIZE
        if len(self.body) > MAX_BODY:
            raise RecordTooLarge(what="the body of a message", size=len(self.body), limit=MAX_BODY)


@cython.ccall
def new_id() -> str:
    """Return an id that no other message has."""
    return IDS.next()


@cython.ccall
def properties_text(message: Message, message_id: str) -> bytes:
    """Return the properties as they travel, the message's id among them."""
    pairs = message.pairs
    text = "UNIQ_KEY\x01" + message_id + "\x02WAIT\x01true\x02"
    if pairs:
        text = "".join([f"{name}\x01{value}\x02" for name, value in pairs.items()]) + text
    found = text.encode("utf-8", "replace")
    if len(found) > MAX_PROPERTIES:
        raise RecordTooLarge(what="the properties of a message", size=len(found), limit=MAX_PROPERTIES)
    return found


def batch_body(outgoing: list[Outgoing]) -> bytearray:
    """Return the body of a batch."""
    one: Outgoing
    total: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    body_size: cython.Py_ssize_t
    text_size: cython.Py_ssize_t
    for one in outgoing:
        total += len(one.body) + len(one.text) + _ENTRY_SIZE
    data = bytearray(total)
    p: cython.p_uchar = data
    for one in outgoing:
        body_size = len(one.body)
        text_size = len(one.text)
        put32(p, at, body_size + text_size + _ENTRY_SIZE)
        put32(p, at + 12, one.message.flag)
        put32(p, at + 16, body_size)
        copy(p, at + 20, one.body, 0, body_size)
        at += 20 + body_size
        put16(p, at, text_size)
        copy(p, at + 2, one.text, 0, text_size)
        at += 2 + text_size
    return data


def field(name: str, value: str | bytes) -> bytes:
    """Return an ext field with a name of one letter."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return _NAME_AND_SIZE.pack(1, name.encode(), len(data)) + data


def queue_fields(group: str, topic: str, queue_id: int, broker: str) -> bytes:
    """Return the fields of a send that are the same for all messages of a queue."""
    fixed = (("a", group), ("b", topic), ("c", "TBW102"), ("d", "4"), ("e", str(queue_id)), ("j", "0"), ("k", "false"))
    return b"".join([field(name, value) for name, value in (*fixed, ("n", broker))])


_PLAIN = field("f", "0") + field("h", "0") + field("m", "false")
"""What a message says that is not compressed and has no flag."""


def send_frame(
    fields: bytes, opaque: int, message: Message, text: bytes, sys_flag: int, body: bytes, *, oneway: bool = False
) -> bytes:
    """Return the frame of one message; ``fields`` are its queue's."""
    about: bytes = _PLAIN
    if sys_flag or message.flag:
        about = field("f", str(sys_flag)) + field("h", str(message.flag)) + field("m", "false")
    born = b"%d" % wall_ms()
    ext = b"".join((fields, about, b"\0\x01g", size_word(len(born)), born, b"\0\x01i", size_word(len(text)), text))
    return _frame(Ask.SEND_MESSAGE_V2, opaque, ext, body, oneway)


@cython.cfunc
@cython.inline
def size_word(size: cython.Py_ssize_t) -> bytes:
    """Return a 32-bit size."""
    if cython.compiled:
        word = cython.declare(cython.uchar[4])
        word[0] = size >> 24 & 0xFF
        word[1] = size >> 16 & 0xFF
        word[2] = size >> 8 & 0xFF
        word[3] = size & 0xFF
        return cython.cast(cython.p_char, word)[:4]
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return size.to_bytes(4, "big")


def batch_frame(fields: bytes, opaque: int, body: bytes | bytearray, *, oneway: bool = False) -> bytes:
    """Return the frame of a batch; ``fields`` are its queue's."""
    ext = b"".join((fields, field("f", "0"), field("g", str(wall_ms())), field("h", "0"), field("m", "true")))
    return _frame(Ask.SEND_BATCH_MESSAGE, opaque, ext, body, oneway)


def _frame(code: int, opaque: int, ext: bytes, body: bytes | bytearray, oneway: bool) -> bytes:
    header = 21 + len(ext)
    flag = FLAG_ONEWAY if oneway else 0
    head = _HEAD.pack(4 + header + len(body), 1 << 24 | header, code, PYTHON, VERSION, opaque, flag, 0, len(ext))
    return b"".join((head, ext, body))


def sent_list(
    outgoing: list[Outgoing], topic: str, broker: str, queue_id: int, first_offset: int, offset_ids: str
) -> list[Sent]:
    """Return where the messages of one request are; ``offset_ids`` as its answer has them, commas between."""
    one: Outgoing
    sent: Sent
    found: list[Sent] = []
    queue: cython.longlong = queue_id
    offset: cython.longlong = first_offset
    place: cython.Py_ssize_t = 0
    for one in outgoing:
        sent = Sent.__new__(Sent)
        sent.message_id = one.message_id
        sent.topic = topic
        sent.broker = broker
        sent.queue_id = queue
        sent.queue_offset = offset + place
        sent.ids = offset_ids
        sent.place = place
        found.append(sent)
        place += 1
    return found


def plain_batch(messages: list[Any]) -> tuple[list[Outgoing], int] | None:
    """Return messages on their way and their size; None when they are not all new ones of one topic without keys."""
    message: object
    one: Message
    outgoing: Outgoing
    found: list[Outgoing] = []
    topic: str = ""
    size: cython.Py_ssize_t = 0
    for message in messages:
        if type(message) is not Message:
            return None
        one = message
        if not found:
            topic = one.topic
        if one.topic != topic or one.queue_offset >= 0 or "__SHARDINGKEY" in one.pairs:
            return None
        outgoing = Outgoing(one)
        size += outgoing.size
        found.append(outgoing)
    return found, size


def split_batches(outgoing: list[Outgoing], limit: int) -> list[list[Outgoing]]:
    """Return neighbours that fit into one request together; what is compressed travels alone."""
    one: Outgoing
    batches: list[list[Outgoing]] = []
    batch: list[Outgoing] = []
    most: cython.Py_ssize_t = limit
    size: cython.Py_ssize_t = 0
    for one in outgoing:
        if batch and (one.sys_flag != 0 or size == 0 or size + one.size > most or len(batch) >= _MOST):
            batches.append(batch)
            batch = []
            size = 0
        batch.append(one)
        size = 0 if one.sys_flag != 0 else size + one.size
    if batch:
        batches.append(batch)
    return batches


def has_sharding_keys(outgoing: list[Outgoing]) -> bool:
    """Return whether one of the messages chooses its queue by a key."""
    one: Outgoing
    for one in outgoing:
        if one.message.pairs and "__SHARDINGKEY" in one.message.pairs:
            return True
    return False


def plain_answer(data: bytes, end: cython.Py_ssize_t) -> Response | None:
    """Return the answer in the first ``end`` bytes when its header is binary; None: ``decode`` may know better.

    Raises:
        BadFrame: a field reaches beyond the header.
    """
    p: cython.p_uchar = data
    header: cython.Py_ssize_t
    remark: cython.Py_ssize_t
    ext: cython.Py_ssize_t
    if end > len(data) or end < 29 or p[4] != 1:
        return None
    header = u32(p, 4) & 0xFFFFFF
    remark = u32(p, 21)
    if header < 21 or 8 + header > end or remark > header - 21 or not p[20] & 1:
        return None
    ext = u32(p, 25 + remark)
    if ext != header - 21 - remark:
        return None
    text = data[25 : 25 + remark].decode("utf-8", "replace") if remark else None
    found = entries(data[29 + remark : 29 + remark + ext])
    return Response(u16(p, 8), found, data[8 + header : end], text, u32(p, 13), u16(p, 11))
