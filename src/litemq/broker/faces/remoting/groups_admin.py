"""Requests that make, alter, delete and list consumer groups, and ask who is in them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litemq.broker.faces.remoting.queries import subscription_data
from litemq.broker.faces.remoting.topics_admin import object_of, objects
from litemq.errors import NotOnline
from litemq.features.groups import Member
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""
    return {**_settings(broker), **_members(broker)}


def _settings(broker: Broker) -> Handlers:
    def put(_connection: Connection, request: Request) -> Response:
        broker.admin.put_group(bodies.load(request.body, "a consumer group"))
        return Response()

    async def put_list(_connection: Connection, request: Request) -> Response:
        for config in objects(request, "groupConfigList"):
            broker.admin.put_group(config)
            await asyncio.sleep(0)
        return Response()

    async def table(_connection: Connection, _request: Request) -> Response:
        version = bodies.dump(broker.version.to_json())
        groups = await object_of(broker.groups.all(), lambda group: (group.name, group.config))
        told = b'{"dataVersion":%b,"forbiddenTable":{},"subscriptionGroupTable":%b}' % (version, groups)
        return Response(body=told)

    def config(_connection: Connection, request: Request) -> Response:
        return Response(body=bodies.dump(broker.groups.known(fields.text(request.ext, "group")).config))

    def delete(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        name = fields.text(ext, "groupName")
        with_progress = fields.truth(ext, "cleanOffset") or fields.truth(ext, "removeOffset")
        broker.groups.delete(name, with_progress=with_progress)
        broker.statistics.forget_group(name)
        return Response()

    return {
        Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: put,
        Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: put_list,
        Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: table,
        Ask.GET_SUBSCRIPTIONGROUP_CONFIG: config,
        Ask.DELETE_SUBSCRIPTIONGROUP: delete,
    }


def _members(broker: Broker) -> Handlers:
    def consumers(_connection: Connection, request: Request) -> Response:
        name = fields.text(request.ext, "consumerGroup")
        group = broker.clients.membership.consumer_group(name)
        if group is None:
            raise NotOnline(f"the consumer group[{name}] not online")  # tools look for code 206
        told = {
            "connectionSet": [connection_of(member) for member in group.members],
            "consumeFromWhere": group.from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": {topic: subscription_data(found) for topic, found in group.subscriptions.items()},
        }
        return Response(body=bodies.dump(told))

    def producers(_connection: Connection, request: Request) -> Response:
        name = fields.text(request.ext, "producerGroup")
        members = broker.clients.membership.producers(name)
        if not members:
            return Response(Code.SYSTEM_ERROR, remark=f"the producer group[{name}] not exist")
        return Response(body=bodies.dump({"connectionSet": [connection_of(member) for member in members]}))

    def all_producers(_connection: Connection, _request: Request) -> Response:
        shift = broker.clock.now_ms() - broker.clock.monotonic_ms()
        told = {
            group: [
                {
                    "clientId": member.client_id,
                    "language": member.language,
                    "lastUpdateTimestamp": member.seen_ms + shift,
                    "remoteIP": _address(member),
                    "version": member.version,
                }
                for member in members
            ]
            for group, members in broker.clients.membership.producer_groups().items()
        }
        return Response(body=bodies.dump({"data": told}))

    return {
        Ask.GET_CONSUMER_CONNECTION_LIST: consumers,
        Ask.GET_PRODUCER_CONNECTION_LIST: producers,
        Ask.GET_ALL_PRODUCER_INFO: all_producers,
    }


def connection_of(member: Member) -> dict[str, object]:
    """Return RocketMQ's object of a client's connection."""
    return {
        "clientAddr": _address(member),
        "clientId": member.client_id,
        "language": member.language,
        "version": member.version,
    }


def _address(member: Member) -> str:
    return member.connection.peer if isinstance(member.connection, Connection) else ""
