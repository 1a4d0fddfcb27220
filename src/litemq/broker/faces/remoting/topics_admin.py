"""Requests that make, alter, delete and list topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from litemq.broker.admin import TopicWish, parse_attributes
from litemq.broker.faces.remoting.queries import subscription_data
from litemq.broker.meters import Window
from litemq.errors import BadBody
from litemq.format.config_json import JsonObject
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

T = TypeVar("T")

MAX_LIST = 10_000
"""Topics or groups of one request."""

_AT_ONCE = 250


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""
    return {**_settings(broker), **_lists(broker), **_status(broker)}


def _settings(broker: Broker) -> Handlers:
    async def put(_connection: Connection, request: Request) -> Response:
        broker.admin.put_topic(wish_of(request.ext))
        await broker.announced()  # whoever asks a name server next must find it
        return Response()

    async def put_list(_connection: Connection, request: Request) -> Response:
        configs = objects(request, "topicConfigList")
        wishes = [broker.admin.wish_from(config) for config in configs]
        for wish in wishes:
            broker.admin.check_own(wish.name)
        for wish in wishes:
            broker.admin.put_topic(wish)
            await asyncio.sleep(0)
        await broker.announced()
        return Response()

    async def delete(_connection: Connection, request: Request) -> Response:
        broker.admin.delete_topic(fields.text(request.ext, "topic"))
        await broker.announced()
        return Response()

    def clean(_connection: Connection, _request: Request) -> Response:
        broker.store.retain()  # files of queues and of topics that are gone follow those of the log
        return Response()

    return {
        Ask.UPDATE_AND_CREATE_TOPIC: put,
        Ask.UPDATE_AND_CREATE_TOPIC_LIST: put_list,
        Ask.DELETE_TOPIC_IN_BROKER: delete,
        Ask.CLEAN_EXPIRED_CONSUMEQUEUE: clean,
        Ask.CLEAN_UNUSED_TOPIC: clean,
        Ask.DELETE_EXPIRED_COMMITLOG: clean,
    }


def _lists(broker: Broker) -> Handlers:
    async def table(_connection: Connection, _request: Request) -> Response:
        version = bodies.dump(broker.version.to_json())
        topics = await object_of(broker.topics.all(), lambda topic: (topic.name, topic.to_json()))
        return Response(body=b'{"dataVersion":%b,"topicConfigTable":%b}' % (version, topics))

    def config(_connection: Connection, request: Request) -> Response:
        return Response(body=bodies.dump(broker.topics.known(fields.text(request.ext, "topic")).to_json()))

    def system(_connection: Connection, _request: Request) -> Response:
        names = [topic.name for topic in broker.topics.all() if broker.topics.is_system(topic.name)]
        return Response(body=bodies.dump({"topicList": names}))

    return {
        Ask.GET_ALL_TOPIC_CONFIG: table,
        Ask.GET_TOPIC_CONFIG: config,
        Ask.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system,
    }


def _status(broker: Broker) -> Handlers:
    async def status(_connection: Connection, request: Request) -> Response:
        name = fields.text(request.ext, "topic")
        topic = broker.topics.known(name)
        reader = broker.store.reader
        rows = []
        for queue_id in range(topic.queue_count):
            low, high = reader.min_offset(name, queue_id), reader.max_offset(name, queue_id)
            newest = broker.consumption.store_time(name, queue_id, high - 1) if high > low else 0
            offsets = {"lastUpdateTimestamp": newest, "maxOffset": high, "minOffset": low}
            rows.append((bodies.queue(name, broker.config.name, queue_id), offsets))
            if queue_id % 64 == 63:
                await asyncio.sleep(0)
        now_ms = broker.clock.now_ms()
        broker.statistics.look_at(name, now_ms)
        meter = broker.statistics.puts.get(name)
        per_s = meter.over(Window.MINUTE, now_ms).per_s if meter is not None else 0.0
        return Response(body=bodies.with_queue_map("offsetTable", rows, topicPutTps=per_s))

    def consumed_by(_connection: Connection, request: Request) -> Response:
        groups = broker.consumption.groups_of(fields.text(request.ext, "topic"))
        return Response(body=bodies.dump({"groupList": groups}))

    def consumed_topics(_connection: Connection, request: Request) -> Response:
        topics = broker.consumption.topics_of(fields.text(request.ext, "group"))
        return Response(body=bodies.dump({"topicList": topics}))

    def subscription(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, topic = fields.text(ext, "group"), ext.get("topic", "")
        told: dict[str, object] = {"group": group, "topic": topic}
        found = broker.clients.subscription(group, topic)
        if found is not None:
            told["subscriptionData"] = subscription_data(found)
        return Response(body=bodies.dump(told))

    return {
        Ask.GET_TOPIC_STATS_INFO: status,
        Ask.QUERY_TOPIC_CONSUME_BY_WHO: consumed_by,
        Ask.QUERY_TOPICS_BY_CONSUMER: consumed_topics,
        Ask.QUERY_SUBSCRIPTION_BY_CONSUMER: subscription,
    }


def wish_of(ext: dict[str, str]) -> TopicWish:
    """Return what a request wants of a topic; without attributes those that it has stay."""
    attributes = ext.get("attributes", "")
    return TopicWish(
        fields.text(ext, "topic"),
        read_queues=fields.whole(ext, "readQueueNums"),
        write_queues=fields.whole(ext, "writeQueueNums"),
        perm=fields.whole(ext, "perm"),
        filter_type=ext.get("topicFilterType", ""),
        sys_flag=fields.whole(ext, "topicSysFlag", 0),
        is_ordered=fields.truth(ext, "order"),
        attributes=parse_attributes(attributes) if attributes else None,
        at_once=fields.truth(ext, "force"),
    )


async def object_of(items: Sequence[T], pair: Callable[[T], tuple[str, object]]) -> bytes:
    """Return a JSON object of many members, of which ``pair`` gives name and value, in steps that stop nobody."""
    parts = []
    for at in range(0, len(items), _AT_ONCE):
        parts.append(bodies.dump(dict(pair(item) for item in items[at : at + _AT_ONCE]))[1:-1])
        await asyncio.sleep(0)
    return b"{%b}" % b",".join(parts)


def objects(request: Request, name: str) -> list[JsonObject]:
    """Return the objects of a list in a request's body."""
    found = bodies.load(request.body, "a list of settings").get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise BadBody(f"the body has no list {name} of objects")
    if len(found) > MAX_LIST:
        raise BadBody(f"{len(found)} objects in {name} are too many, at most {MAX_LIST} are taken")
    return found
