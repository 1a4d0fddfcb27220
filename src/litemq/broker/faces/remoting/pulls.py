"""Requests that pull: what their headers say, and whether it is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from litemq.broker.faces.remoting._pulls_cy import COMMITS, HAS_SUBSCRIPTION, PARKS, PullTable, RemotingPull
from litemq.errors import NotSubscribed
from litemq.features.filters import Filter
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


class Wanted(NamedTuple):
    """What the header of a pull says, but for offsets."""

    group: str
    topic: str
    queue_id: int
    max_count: int
    max_bytes: int
    flag: int
    suspend_ms: int
    expression: str
    kind: str
    as_rocketmq: bool


def _of_request(request: Request) -> Wanted:
    """Read a header that Python decoded."""
    ext = request.ext
    return Wanted(
        fields.text(ext, "consumerGroup"),
        fields.text(ext, "topic"),
        fields.whole(ext, "queueId"),
        fields.whole(ext, "maxMsgNums", 0),
        fields.whole(ext, "maxMsgBytes", 0),
        fields.whole(ext, "sysFlag", 0),
        fields.long(ext, "suspendTimeoutMillis", 0),
        ext.get("subscription", ""),
        ext.get("expressionType", ""),
        ext.get("lmqFormat") != "litemq",
    )


def _of_row(spans: Spans, row: int) -> Wanted:
    """Read a header that the wire's kernel decoded."""
    cell = spans.cell
    return Wanted(
        spans.words(row, columns.GROUP_AT).decode(),
        spans.words(row, columns.TOPIC_AT).decode(),
        cell(row, columns.QUEUE_ID),
        cell(row, columns.MAX_COUNT),
        cell(row, columns.MAX_BYTES),
        cell(row, columns.SYS_FLAG),
        cell(row, columns.SUSPEND_MS),
        spans.words(row, columns.SUBSCRIPTION_AT).decode(),
        spans.words(row, columns.EXPRESSION_AT).decode(),
        cell(row, columns.RECORD_FORMAT) == 0,
    )


def table(broker: Broker, connection: Connection) -> PullTable:
    """Return the pulls of a connection."""
    return PullTable(broker.puller, broker.offsets, lambda spans, row: prepare(broker, connection, _of_row(spans, row)))


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def pull(connection: Connection, request: Request) -> None:
        wanted = _of_request(request)
        pull = prepare(broker, connection, wanted)
        pull.codec, pull.opaque = request.codec, request.opaque
        pull.offset = fields.long(request.ext, "queueOffset")
        if wanted.flag & COMMITS:
            committed = fields.long(request.ext, "commitOffset", 0)
            broker.offsets.commit(wanted.group, wanted.topic, wanted.queue_id, max(committed, 0))
        broker.puller.pull(pull)

    return {Ask.PULL_MESSAGE: pull, Ask.LITE_PULL_MESSAGE: pull}


def prepare(broker: Broker, connection: Connection, wanted: Wanted) -> RemotingPull:
    """Make the pull that a header asks for; raises what it is refused for."""
    group, topic, queue_id, flag = wanted.group, wanted.topic, wanted.queue_id, wanted.flag
    broker.puller.check(group, topic, queue_id)
    if flag & HAS_SUBSCRIPTION:
        accepted = broker.filters.of(wanted.expression, wanted.kind or "TAG")
    else:
        accepted = subscribed(broker, group, topic)
    pull = RemotingPull(
        connection,
        group,
        topic,
        queue_id,
        accepted,
        max_count=wanted.max_count,
        max_bytes=wanted.max_bytes,
        park_ms=wanted.suspend_ms if flag & PARKS else 0,
        as_rocketmq=wanted.as_rocketmq,
    )
    broker.puller.allow(pull)
    return pull


def subscribed(broker: Broker, group: str, topic: str) -> Filter:
    """Return the filter that a group's members gave in their heartbeats."""
    subscription = broker.clients.subscription(group, topic)
    if subscription is None:
        raise NotSubscribed(f"consumer group {group!r} has no member that subscribes to topic {topic!r}")
    return broker.filters.of(subscription.expression, subscription.kind)
