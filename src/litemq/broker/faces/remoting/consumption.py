"""Requests that ask or set how far groups have read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from litemq.broker.consumption import Place
from litemq.broker.meters import Window
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    async def stats(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group = fields.text(ext, "consumerGroup")
        wanted = [name for name in ext.get("topicList", "").split(";") if name]
        if ext.get("topic"):
            wanted = [ext["topic"]]
        return Response(body=stats_body(broker, group, await broker.consumption.places(group, wanted)))

    async def all_stats(_connection: Connection, request: Request) -> Response:
        return Response(body=await all_stats_body(broker, is_ordered=fields.truth(request.ext, "isOrder")))

    async def spans(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        topic = fields.text(ext, "topic")
        found = await broker.consumption.time_spans(fields.text(ext, "group"), topic)
        told = [
            {
                "consumeTimeStamp": span.read_ms,
                "delayTime": span.behind_ms,
                "maxTimeStamp": span.last_ms,
                "messageQueue": bodies.queue(topic, broker.config.name, span.queue_id),
                "minTimeStamp": span.first_ms,
            }
            for span in found
        ]
        return Response(body=bodies.dump({"consumeTimeSpanSet": told}))

    def reset(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        topic = fields.text(ext, "topic")
        offsets = broker.consumption.reset(
            fields.text(ext, "group"),
            topic,
            time_ms=fields.long(ext, "timestamp"),
            queue_id=fields.whole(ext, "queueId", -1),
            offset=fields.long(ext, "offset", -1),
        )
        rows = [(bodies.queue(topic, broker.config.name, queue_id), offset) for queue_id, offset in offsets.items()]
        return Response(body=bodies.with_queue_map("offsetTable", rows))

    def clone(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        broker.consumption.clone(fields.text(ext, "srcGroup"), fields.text(ext, "destGroup"), ext.get("topic", ""))
        return Response()

    return {
        Ask.GET_CONSUME_STATS: stats,
        Ask.GET_BROKER_CONSUME_STATS: all_stats,
        Ask.QUERY_CONSUME_TIME_SPAN: spans,
        Ask.INVOKE_BROKER_TO_RESET_OFFSET: reset,
        Ask.CLONE_GROUP_OFFSET: clone,
    }


def stats_body(broker: Broker, group: str, places: Iterable[Place]) -> bytes:
    """Return RocketMQ's object of how far a group has read."""
    rows = []
    topics = set()
    for place in places:
        topics.add(place.topic)
        offsets = {
            "brokerOffset": place.end,
            "consumerOffset": place.offset,
            "lastTimestamp": place.time_ms,
            "pullOffset": place.offset,
        }
        rows.append((bodies.queue(place.topic, broker.config.name, place.queue_id), offsets))
    return bodies.with_queue_map("offsetTable", rows, consumeTps=_per_s(broker, group, topics))


def _per_s(broker: Broker, group: str, topics: Iterable[str]) -> float:
    """Return how many messages a second a group got of topics."""
    now_ms = broker.clock.now_ms()
    total = 0.0
    for topic in topics:
        broker.statistics.look_at_group((group, topic), now_ms)
        meter = broker.statistics.gets.get((group, topic))
        total += meter.over(Window.MINUTE, now_ms).per_s if meter is not None else 0.0
    return total


async def all_stats_body(broker: Broker, *, is_ordered: bool) -> bytes:
    """Return RocketMQ's object of how far every group has read that consumes in order, or that does not."""
    rows = []
    behind = 0
    for group in broker.groups.all():
        if (group.config.get("consumeMessageOrderly") is True) != is_ordered:
            continue
        by_topic: dict[str, list[Place]] = {}
        for place in await broker.consumption.places(group.name):
            by_topic.setdefault(place.topic, []).append(place)
            behind += max(place.end - place.offset, 0)
        if by_topic:
            parts = [stats_body(broker, group.name, places) for places in by_topic.values()]
            rows.append(b"{%b:[%b]}" % (bodies.dump(group.name), b",".join(parts)))
    members = (bodies.dump(broker.address), b",".join(rows), behind)
    return b'{"brokerAddr":%b,"consumeStatsList":[%b],"totalDiff":%d,"totalInflightDiff":0}' % members
