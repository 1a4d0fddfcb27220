"""Kernel: a message as applications see it, and how a pull's answer becomes messages.

What is rarely looked at is decoded when it is: properties, times, ids.  The body is copied out of the answer at once,
so that a message that is kept does not keep an answer of a megabyte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp

from litemq.errors import BadBody, InvalidRequest, ReservedName
from litemq.features.retry import RETRY_PREFIX, RETRY_TOPIC
from litemq.format import names
from litemq.format.compression import DoesNotDecompress, plain_body
from litemq.format.message_id import offset_id
from litemq.format.properties import can_hold, parse

OWN_PROPERTIES = frozenset(
    {
        *(names.TAGS, names.KEYS, names.UNIQ_KEY, names.SHARDING_KEY, "WAIT", "MSG_REGION", "TRACE_ON", "CLUSTER"),
        *("DELAY", "TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID", RETRY_TOPIC, "ORIGIN_MESSAGE_ID", "MIN_OFFSET"),
        *("MAX_OFFSET", "CONSUME_START_TIME", "RECONSUME_TIME", "MAX_RECONSUME_TIMES", "MSG_TYPE", "CORRELATION_ID"),
        *("REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "POP_CK", "1ST_POP_TIME", "POP_CK_OFFSET"),
        *("INSTANCE_ID", "REDRIVEN_FROM", "TRANSFER_FLAG", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC"),
        *("TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS", "__transactionId__", *names.INTERNAL),
    }
)
"""Names that are not the application's: brokers and clients speak to each other by them."""

_MIN_SIZE = cython.declare(cython.Py_ssize_t, 91)
_PERCENT = cython.declare(cython.uint, 0x25)
_LONG_TOPIC = cython.declare(cython.uint, 0xAB)
"""Last byte of the magic of records whose topic has a length of two bytes."""


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.annotation_typing(False)  # the compiler's own checks speak words of their own
@cython.no_gc  # texts, bytes and a dict of texts: never part of a cycle
@cython.cclass
class Message:
    """What is sent, or what was received; never changes.

    >>> message = Message("orders", b"17 apples", tags="paid", keys="o-17", properties={"region": "eu"})
    >>> message.topic, message.tags, message.keys, message.properties["region"]
    ('orders', 'paid', ('o-17',), 'eu')
    >>> message.text()
    '17 apples'

    A received one also has ``broker``, ``queue_id``, ``queue_offset`` and ``group``: where it was, and for whom.

    Args:
        topic: where it goes.
        body: bytes; text must be encoded first.
        tags: one word that consumers filter by.
        keys: words by which the message is found again (``litemq message query``); one or several.
        properties: names and values, texts, of the application's own.
        sharding_key: messages with the same key go to the same queue, in order.

    Raises:
        InvalidRequest: something that a message cannot hold.
    """

    if not cython.compiled:
        __slots__ = (
            *("born_ms", "broker", "flag", "group", "opened", "pairs", "position", "queue_id", "queue_offset"),
            *("raw", "reconsume_times", "store_host", "stored", "stored_ms", "sys_flag", "topic"),
        )

    def __init__(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        sharding_key: str | None = None,
    ) -> None:
        if type(body) is not bytes:
            if not isinstance(body, bytes | bytearray | memoryview):
                raise InvalidRequest(f"a body must be bytes, not {type(body).__name__}; encode text: body.encode()")
            body = bytes(body)
        if type(topic) is not str or not topic:
            raise InvalidRequest(f"the topic of a message must be a text that is not empty, not {topic!r}")
        self.topic = topic
        self.stored = body
        self.opened: bytes | None = body
        self.raw = b""
        self.sys_flag = 0
        self.flag = 0
        self.queue_id = -1
        self.queue_offset = -1
        self.position = -1
        self.born_ms = 0
        self.stored_ms = 0
        self.reconsume_times = 0
        self.store_host = b""
        self.broker = ""
        self.group = ""
        pairs: dict[str, str] = {}
        if properties is not None:
            if not isinstance(properties, Mapping):
                raise InvalidRequest(f"properties must map names to values, not {properties!r}")
            for name, value in properties.items():
                check_pair(name, value)
                if name in OWN_PROPERTIES:
                    raise ReservedName(f"the property {name} is LiteMQ's own; choose another name")
                pairs[name] = value
        if tags is not None:
            check_pair("tags", tags)
            if tags == "*" or "|" in tags or " " in tags:
                raise InvalidRequest(f"the tag {tags!r} cannot be asked for: a tag is one word without | and not *")
            pairs["TAGS"] = tags
        if keys:
            joined = keys if isinstance(keys, str) else joined_keys(keys)
            check_pair("keys", joined)
            pairs["KEYS"] = joined
        if sharding_key is not None:
            check_pair("sharding_key", sharding_key)
            pairs["__SHARDINGKEY"] = sharding_key
        self.pairs: dict[str, str] | None = pairs

    # -- what it says ----------------------------------------------------------------------------

    @property
    def body(self) -> bytes:
        """Its bytes, decompressed.

        Raises:
            BadBody: they are not what the record says they are.
        """
        if self.opened is None:
            try:
                self.opened = plain_body(self.stored, self.sys_flag)
            except DoesNotDecompress as error:
                raise BadBody(f"the body of {self.message_id} in {self.topic} {error}") from error
        return self.opened

    @property
    def raw_properties(self) -> Mapping[str, str]:
        """All properties as they are stored, those of LiteMQ and RocketMQ, too."""
        return MappingProxyType(pairs_of(self))

    @property
    def properties(self) -> Mapping[str, str]:
        """The application's properties."""
        return MappingProxyType({name: value for name, value in pairs_of(self).items() if name not in OWN_PROPERTIES})

    @property
    def tags(self) -> str | None:
        """The word that consumers filter by."""
        return pairs_of(self).get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """Words by which it is found."""
        return tuple(pairs_of(self).get("KEYS", "").split())

    @property
    def sharding_key(self) -> str | None:
        """Messages with the same key are in one queue, in order."""
        return pairs_of(self).get("__SHARDINGKEY")

    def json(self) -> Any:  # noqa: ANN401 - whatever the sender put in
        """Return what the body says as JSON.

        >>> Message("t", b'{"amount": 3}').json()
        {'amount': 3}
        """
        return json.loads(self.body)

    def text(self, encoding: str = "utf-8") -> str:
        """Return the body as text.

        >>> Message("t", "naïve".encode()).text()
        'naïve'
        """
        return self.body.decode(encoding)

    # -- what is known of a received one -----------------------------------------------------------

    @property
    def message_id(self) -> str:
        """Its id: the sender's, else its place in the log; empty before it was sent."""
        found = pairs_of(self).get("UNIQ_KEY")
        return found if found else self.offset_id

    @property
    def offset_id(self) -> str:
        """Its place in the log of its broker, as RocketMQ's tools name it; empty before it was stored."""
        return offset_id(self.store_host, self.position) if self.store_host else ""

    @property
    def born_at(self) -> datetime:
        """When it was sent."""
        return datetime.fromtimestamp(self.born_ms / 1000.0, UTC)

    @property
    def stored_at(self) -> datetime:
        """When the broker stored it."""
        return datetime.fromtimestamp(self.stored_ms / 1000.0, UTC)

    @property
    def attempt(self) -> int:
        """The how-manieth delivery this is, from 1."""
        return self.reconsume_times + 1

    # -- as a value --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        where = f" {self.broker}/{self.queue_id}@{self.queue_offset}" if self.queue_offset >= 0 else ""
        shown = self.stored if len(self.stored) <= 40 else self.stored[:40] + b"..."
        return f"<Message {self.topic}{where} {shown!r}>"


@cython.cfunc
def pairs_of(message: Message) -> dict:  # type: ignore[type-arg] # the compiler wants it bare
    """Return the message's properties, decoded when they are first asked for."""
    if message.pairs is None:
        message.pairs = parse(message.raw)
    pairs: dict[str, str] = message.pairs
    return pairs


def joined_keys(keys: Iterable[str]) -> str:
    """Return several keys as they are stored."""
    found = list(keys)
    for key in found:
        if type(key) is not str:
            raise InvalidRequest(f"the keys of a message are texts, not {key!r}")
    return " ".join(found)


@cython.annotation_typing(False)
def check_pair(name: str, value: str) -> None:
    """Refuse a property that cannot be stored."""
    if type(name) is not str or type(value) is not str:
        raise InvalidRequest(f"property {name!r} is {value!r}: names and values must be texts")
    if not can_hold(name, value):
        raise InvalidRequest(f"property {name!r} is {value!r}: it must not be empty, nor hold the characters 1 and 2")
    if not (name.isascii() and value.isascii()):
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            raise InvalidRequest(f"property {name!r} is {value!r}: it has no UTF-8 form") from None


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def be32(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.uint:
    """Return a 32-bit number."""
    a: cython.uint = p[at]
    b: cython.uint = p[at + 1]
    c: cython.uint = p[at + 2]
    d: cython.uint = p[at + 3]
    return a << 24 | b << 16 | c << 8 | d


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def be64(p: cython.p_uchar, at: cython.Py_ssize_t) -> cython.longlong:
    """Return a signed 64-bit number."""
    high: cython.ulonglong = be32(p, at)
    low: cython.ulonglong = be32(p, at + 4)
    if cython.compiled:
        return cython.cast(cython.longlong, high << 32 | low)
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        value = high << 32 | low
        return value - (1 << 64) if value >= 1 << 63 else value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def same(p: cython.p_uchar, at: cython.Py_ssize_t, known: bytes, size: cython.Py_ssize_t) -> cython.bint:
    """Return whether ``known`` stands at a place."""
    if cython.compiled:
        q: cython.p_char = known
        return memcmp(p + at, q, size) == 0
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return p[at : at + size] == known


@cython.cfunc
@cython.inline
def part(p: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> bytes:
    """Return a copy of some bytes."""
    if cython.compiled:
        return cython.cast(cython.p_char, p)[at : at + size]
    else:  # noqa: RET505 - the branch that is not compiled must not be seen by the compiler
        return bytes(p[at : at + size])


def decode_messages(
    body: bytes, start: int = 0, *, broker: str = "", group: str = "", topic: str = ""
) -> list[Message]:
    """Return the messages of an answer, records in RocketMQ's layout from ``start`` on.

    ``topic`` is what most of them belong to: its text is used again.  Retries get the topic that they were sent to.
    A record whose sizes do not agree ends the
    list with an error; what stands before it is lost with it, as nothing says where the next begins.

    Raises:
        BadBody: a record that is none.
    """
    found: list[Message] = []
    p: cython.p_uchar = body
    end: cython.Py_ssize_t = len(body)
    at: cython.Py_ssize_t = start
    size: cython.Py_ssize_t
    o: cython.Py_ssize_t
    body_size: cython.Py_ssize_t
    topic_size: cython.Py_ssize_t
    text_size: cython.Py_ssize_t
    flags: cython.uint
    known: bytes = topic.encode()
    known_size: cython.Py_ssize_t = len(known)
    host: bytes = b""
    host_size: cython.Py_ssize_t
    message: Message
    while at < end:
        if end - at < _MIN_SIZE:
            raise BadBody(f"{end - at} bytes behind the last record of an answer")
        size = be32(p, at)
        flags = be32(p, at + 36)
        o = at + 56 + (12 if flags & 0x10 else 0)
        if size > end - at or size < _MIN_SIZE:
            raise BadBody(f"a record of {size} bytes where {end - at} are left")
        message = Message.__new__(Message)
        message.queue_id = be32(p, at + 12)
        message.flag = be32(p, at + 16)
        message.queue_offset = be64(p, at + 20)
        message.position = be64(p, at + 28)
        message.sys_flag = flags
        message.born_ms = be64(p, at + 40)
        message.stored_ms = be64(p, o)
        o += 8
        host_size = 20 if flags & 0x20 else 8
        if o + host_size + 16 > at + size:
            raise BadBody(f"a record of {size} bytes is too short for its hosts")
        if len(host) != host_size or not same(p, o, host, host_size):
            host = part(p, o, host_size)
        message.store_host = host
        o += host_size
        message.reconsume_times = be32(p, o)
        body_size = be32(p, o + 12)
        o += 16
        if o + body_size + 3 > at + size:
            raise BadBody(f"a body of {body_size} bytes in a record of {size}")
        message.stored = part(p, o, body_size)
        message.opened = None if flags & 1 else message.stored
        o += body_size
        topic_size = p[o]
        o += 1
        if p[at + 7] == _LONG_TOPIC:
            topic_size = topic_size << 8 | p[o]
            o += 1
        if o + topic_size + 2 > at + size:
            raise BadBody(f"a topic of {topic_size} bytes in a record of {size}")
        if topic_size == known_size and same(p, o, known, known_size):
            message.topic = topic
        else:
            message.topic = part(p, o, topic_size).decode("utf-8", "replace")
        o += topic_size
        text_size = p[o] << 8 | p[o + 1]
        o += 2
        if o + text_size > at + size:
            raise BadBody(f"properties of {text_size} bytes in a record of {size}")
        message.raw = part(p, o, text_size)
        message.pairs = None
        message.broker = broker
        message.group = group
        if p[o - 2 - topic_size] == _PERCENT and message.topic.startswith(RETRY_PREFIX):
            message.topic = pairs_of(message).get(RETRY_TOPIC) or message.topic
        found.append(message)
        at += size
    return found
