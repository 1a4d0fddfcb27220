"""Requests that pull, and the bytes of their answers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from litemq.broker.pull import HEAD_ROOM, Pull, PullAnswer, Verdict
from litemq.errors import LiteMQError, NotSubscribed
from litemq.features.filters import Filter
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import BINARY, VERSION, Ask, Code
from litemq.wire.remoting.command import Request, encode_response
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


class Wanted(NamedTuple):
    """What the header of a pull says."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_count: int
    max_bytes: int
    flag: int
    commit_offset: int
    suspend_ms: int
    expression: str
    kind: str
    as_rocketmq: bool


def of_request(request: Request) -> Wanted:
    """Read a header that Python decoded."""
    ext = request.ext
    return Wanted(
        fields.text(ext, "consumerGroup"),
        fields.text(ext, "topic"),
        fields.whole(ext, "queueId"),
        fields.long(ext, "queueOffset"),
        fields.whole(ext, "maxMsgNums", 0),
        fields.whole(ext, "maxMsgBytes", 0),
        fields.whole(ext, "sysFlag", 0),
        fields.long(ext, "commitOffset", 0),
        fields.long(ext, "suspendTimeoutMillis", 0),
        ext.get("subscription", ""),
        ext.get("expressionType", ""),
        ext.get("lmqFormat") != "litemq",
    )


def of_row(spans: Spans, row: int) -> Wanted:
    """Read a header that the wire's kernel decoded."""
    cell = spans.cell
    return Wanted(
        spans.words(row, columns.GROUP_AT).decode(),
        spans.words(row, columns.TOPIC_AT).decode(),
        cell(row, columns.QUEUE_ID),
        cell(row, columns.OFFSET),
        cell(row, columns.MAX_COUNT),
        cell(row, columns.MAX_BYTES),
        cell(row, columns.SYS_FLAG),
        cell(row, columns.COMMIT_OFFSET),
        cell(row, columns.SUSPEND_MS),
        spans.words(row, columns.SUBSCRIPTION_AT).decode(),
        spans.words(row, columns.EXPRESSION_AT).decode(),
        cell(row, columns.RECORD_FORMAT) == 0,
    )


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def pull(connection: Connection, request: Request) -> None:
        serve(broker, connection, of_request(request), request.codec, request.opaque)

    return {Ask.PULL_MESSAGE: pull, Ask.LITE_PULL_MESSAGE: pull}


def serve(broker: Broker, connection: Connection, wanted: Wanted, codec: int, opaque: int) -> None:
    """Answer a pull now or later; raises what it is refused for."""
    group, topic, queue_id, flag = wanted.group, wanted.topic, wanted.queue_id, wanted.flag
    broker.puller.check(group, topic, queue_id)
    if flag & HAS_SUBSCRIPTION:
        accepted = broker.filters.of(wanted.expression, wanted.kind or "TAG")
    else:
        accepted = subscribed(broker, group, topic)
    if flag & COMMITS:
        broker.offsets.commit(group, topic, queue_id, max(wanted.commit_offset, 0))

    def reply(answer: PullAnswer | LiteMQError) -> None:
        if isinstance(answer, PullAnswer):
            send_answer(connection, codec, opaque, answer)
        else:
            connection.write(encode_response(answer_to(answer), opaque=opaque, codec=codec))

    broker.puller.pull(
        Pull(
            group,
            topic,
            queue_id,
            wanted.offset,
            wanted.max_count,
            wanted.max_bytes,
            accepted,
            reply,
            connection,
            park_ms=wanted.suspend_ms if flag & PARKS else 0,
            as_rocketmq=wanted.as_rocketmq,
        )
    )


def subscribed(broker: Broker, group: str, topic: str) -> Filter:
    """Return the filter that a group's members gave in their heartbeats."""
    subscription = broker.clients.subscription(group, topic)
    if subscription is None:
        raise NotSubscribed(f"consumer group {group!r} has no member that subscribes to topic {topic!r}")
    return broker.filters.of(subscription.expression, subscription.kind)


# -- answers ------------------------------------------------------------------------------------


def send_answer(connection: Connection, codec: int, opaque: int, answer: PullAnswer) -> None:
    """Write header and records as one buffer."""
    numbers = (answer.next_offset, answer.min_offset, answer.max_offset)
    header = (binary_header if codec == BINARY else json_header)(_CODES[answer.verdict], opaque, numbers)
    pulled = answer.pulled
    if pulled is None:
        connection.write(_WORDS.pack(4 + len(header), codec << 24 | len(header)) + header)
        return
    buffer = pulled.buffer
    start = HEAD_ROOM - len(header) - _WORDS.size
    _WORDS.pack_into(buffer, start, len(buffer) - start - 4, codec << 24 | len(header))
    buffer[start + _WORDS.size : HEAD_ROOM] = header
    connection.write(memoryview(buffer)[start:])


def json_header(code: int, opaque: int, numbers: tuple[int, int, int]) -> bytes:
    """Return the header of an answer to a pull; ``numbers`` are the next, the least and the greatest offset."""
    return (
        b'{"code":%d,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"},'
        b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    ) % (code, *numbers, opaque, VERSION)


def binary_header(code: int, opaque: int, numbers: tuple[int, int, int]) -> bytes:
    """Return the same as a binary header."""
    ext = [_SUGGESTED]
    for name, number in zip(_NAMES, numbers, strict=True):
        text = b"%d" % number
        ext.append(name + _LENGTH.pack(len(text)) + text)
    packed = b"".join(ext)
    return _HEAD.pack(code, 0, VERSION, opaque, 1, 0, len(packed)) + packed


_HEAD = struct.Struct(
    ">h"  # code
    "B"  # language
    "h"  # version
    "i"  # opaque
    "i"  # flag
    "i"  # length of the remark
    "i"  # length of the ext fields
)
_WORDS = struct.Struct(">II")
_LENGTH = struct.Struct(">I")
_KEY_LENGTH = struct.Struct(">H")
_SUGGESTED = b"\0\x14suggestWhichBrokerId\0\0\0\x010"
_NAMES = tuple(_KEY_LENGTH.pack(len(name)) + name for name in (b"nextBeginOffset", b"minOffset", b"maxOffset"))
