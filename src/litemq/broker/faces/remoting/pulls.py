"""Requests that pull, and the bytes of their answers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from litemq.broker.pull import HEAD_ROOM, Pull, PullAnswer, Verdict
from litemq.errors import LiteMQError, NotSubscribed
from litemq.features.filters import Filter
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import BINARY, VERSION, Ask, Code
from litemq.wire.remoting.command import Request
from litemq.wire.remoting.connection import Connection, Handlers
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

COMMITS = 1
PARKS = 2
HAS_SUBSCRIPTION = 4

_CODES = {
    Verdict.FOUND: Code.SUCCESS,
    Verdict.NOTHING: Code.PULL_NOT_FOUND,
    Verdict.NO_MATCH: Code.PULL_RETRY_IMMEDIATELY,
    Verdict.MOVED: Code.PULL_OFFSET_MOVED,
}
_LENGTH = struct.Struct(">I")
_ITEM = struct.Struct(">H")


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def pull(connection: Connection, request: Request) -> None:
        ext = request.ext
        group, topic = fields.text(ext, "consumerGroup"), fields.text(ext, "topic")
        queue_id, flag = fields.whole(ext, "queueId"), fields.whole(ext, "sysFlag", 0)
        broker.puller.check(group, topic, queue_id)
        if flag & HAS_SUBSCRIPTION:
            wanted = broker.filters.of(ext.get("subscription", ""), ext.get("expressionType") or "TAG")
        else:
            wanted = subscribed(broker, group, topic)
        if flag & COMMITS:
            broker.offsets.commit(group, topic, queue_id, max(fields.long(ext, "commitOffset", 0), 0))

        def reply(answer: PullAnswer | LiteMQError) -> None:
            if isinstance(answer, PullAnswer):
                send_answer(connection, request.codec, request.opaque, answer)
            else:
                connection.answer(request, answer_to(answer))

        broker.puller.pull(
            Pull(
                group,
                topic,
                queue_id,
                fields.long(ext, "queueOffset"),
                fields.whole(ext, "maxMsgNums", 0),
                fields.whole(ext, "maxMsgBytes", 0),
                wanted,
                reply,
                connection,
                park_ms=fields.long(ext, "suspendTimeoutMillis", 0) if flag & PARKS else 0,
                as_rocketmq=ext.get("lmqFormat") != "litemq",
            )
        )

    return {Ask.PULL_MESSAGE: pull, Ask.LITE_PULL_MESSAGE: pull}


def subscribed(broker: Broker, group: str, topic: str) -> Filter:
    """Return the filter that a group's members gave in their heartbeats."""
    subscription = broker.clients.subscription(group, topic)
    if subscription is None:
        raise NotSubscribed(f"consumer group {group!r} has no member that subscribes to topic {topic!r}")
    return broker.filters.of(subscription.expression, subscription.kind)


def send_answer(connection: Connection, codec: int, opaque: int, answer: PullAnswer) -> None:
    """Write header and records as one buffer."""
    numbers = (answer.next_offset, answer.min_offset, answer.max_offset)
    header = (binary_header if codec == BINARY else json_header)(_CODES[answer.verdict], opaque, numbers)
    pulled = answer.pulled
    if pulled is None:
        connection.write(_words(codec, header, 0) + header)
        return
    buffer = pulled.buffer
    size = len(header) + 8
    if size > HEAD_ROOM:
        connection.write(b"".join((_words(codec, header, len(buffer) - HEAD_ROOM), header, buffer[HEAD_ROOM:])))
        return
    buffer[HEAD_ROOM - size : HEAD_ROOM] = _words(codec, header, len(buffer) - HEAD_ROOM) + header
    connection.write(memoryview(buffer)[HEAD_ROOM - size :])


def _words(codec: int, header: bytes, body_size: int) -> bytes:
    return _LENGTH.pack(4 + len(header) + body_size) + _LENGTH.pack(codec << 24 | len(header))


def json_header(code: int, opaque: int, numbers: tuple[int, int, int]) -> bytes:
    """Return the header of an answer to a pull; ``numbers`` are the next, the least and the greatest offset."""
    return (
        b'{"code":%d,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"},'
        b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    ) % (code, *numbers, opaque, VERSION)


def binary_header(code: int, opaque: int, numbers: tuple[int, int, int]) -> bytes:
    """Return the same as a binary header."""
    ext = [b"\0\x14suggestWhichBrokerId\0\0\0\x010"]
    for name, number in zip(_NAMES, numbers, strict=True):
        text = b"%d" % number
        ext.append(name + _LENGTH.pack(len(text)) + text)
    packed = b"".join(ext)
    return _HEAD.pack(code, 0, VERSION, opaque, 1, 0, len(packed)) + packed


_HEAD = struct.Struct(">hBhiiii")
_NAMES = tuple(_ITEM.pack(len(name)) + name for name in (b"nextBeginOffset", b"minOffset", b"maxOffset"))
