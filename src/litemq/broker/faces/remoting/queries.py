"""Requests that look for single messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.errors import BadField, CorruptRecord
from litemq.features.filters import compile_filter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.features.heartbeat import Subscription
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

BY_ID = "_UNIQUE_KEY_QUERY"
_INDEX_TYPES = ("", "K", "U")


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def view(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        return Response(body=broker.queries.at(fields.long(ext, "offset"), ext.get("topic", "")))

    def query(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        kind = ext.get("indexType", "")
        if kind not in _INDEX_TYPES:
            raise BadField(f"the field indexType is {kind[:20]!r}, messages are found by K (key) or U (unique id) only")
        is_id = fields.truth(ext, BY_ID) or kind == "U"
        found = broker.queries.by_key(
            fields.text(ext, "topic"),
            fields.text(ext, "key"),
            is_id=is_id,
            begin_ms=fields.long(ext, "beginTimestamp", 0),
            end_ms=fields.long(ext, "endTimestamp", fields.INT64[1]),
            limit=fields.whole(ext, "maxNum", 0),
        )
        told = {
            "indexLastUpdateTimestamp": str(broker.clock.now_ms()),
            "indexLastUpdatePhyoffset": str(broker.store.readable_end),
        }
        if not found:
            return Response(Code.QUERY_NOT_FOUND, told, remark="can not find message, maybe time range not correct")
        return Response(ext=told, body=b"".join(found))

    def entries(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        topic, queue_id = fields.text(ext, "topic"), fields.whole(ext, "queueId")
        found = broker.queries.entries(topic, queue_id, fields.long(ext, "index", 0), fields.whole(ext, "count", 10))
        group = ext.get("consumerGroup", "")
        subscription = broker.clients.subscription(group, topic) if group else None
        rows = [
            {
                "eval": _passes(broker, subscription, topic, queue_id, found.first + index, entry.tag_hash),
                "physicOffset": entry.position,
                "physicSize": entry.size,
                "tagsCode": entry.tag_hash,
            }
            for index, entry in enumerate(found.entries)
        ]
        told: dict[str, object] = {
            "maxQueueIndex": found.max_offset,
            "minQueueIndex": found.min_offset,
            "queueData": rows,
        }
        if subscription is not None:
            told["subscriptionData"] = subscription_data(subscription)
        return Response(body=bodies.dump(told))

    return {
        Ask.VIEW_MESSAGE_BY_ID: view,
        Ask.QUERY_MESSAGE: query,
        Ask.QUERY_CONSUME_QUEUE: entries,
    }


def _passes(
    broker: Broker, subscription: Subscription | None, topic: str, queue_id: int, offset: int, tag_hash: int
) -> bool:
    """Return whether a group's filter lets a message pass."""
    if subscription is None:
        return True
    wanted = compile_filter(subscription.expression, subscription.kind)
    if not isinstance(wanted, SqlFilter):
        return wanted.hashes is None or tag_hash in wanted.hashes
    try:
        record = broker.store.reader.message_at(topic, queue_id, offset)
    except CorruptRecord:
        return False
    return record is not None and wanted.evaluate(record.properties)


def subscription_data(subscription: Subscription) -> dict[str, object]:
    """Return RocketMQ's object of a subscription."""
    return {
        "classFilterMode": subscription.class_filter,
        "codeSet": list(subscription.codes),
        "expressionType": subscription.kind,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": list(subscription.tags),
        "topic": subscription.topic,
    }
