"""Requests by which clients say who they are, and learn who else is in their group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.errors import BadBody
from litemq.features.heartbeat import parse_heartbeat
from litemq.features.ordering import Queue
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def heartbeat(connection: Connection, request: Request) -> Response:
        beat = parse_heartbeat(bodies.load(request.body, "a heartbeat"))
        broker.clients.heartbeat(connection, beat)
        return Response()

    def unregister(connection: Connection, request: Request) -> Response:
        ext = request.ext
        broker.clients.unregister(
            connection,
            fields.text(ext, "clientID"),
            producer_group=ext.get("producerGroup", ""),
            consumer_group=ext.get("consumerGroup", ""),
        )
        return Response()

    def members(_connection: Connection, request: Request) -> Response:
        group = fields.text(request.ext, "consumerGroup")
        found = broker.clients.membership.client_ids(group)
        if not found:
            return Response(Code.SYSTEM_ERROR, remark=f"no consumer of group {group!r} is online")
        return Response(body=bodies.dump({"consumerIdList": list(found)}))

    def lock(_connection: Connection, request: Request) -> Response:
        group, client, queues = _lock_request(request)
        granted = broker.locks.lock(group, client, queues, now_ms=broker.clock.monotonic_ms())
        held = [queues[queue] for queue in queues if queue in granted]
        return Response(body=bodies.dump({"lockOKMQSet": held}))

    def unlock(_connection: Connection, request: Request) -> Response:
        group, client, queues = _lock_request(request)
        broker.locks.unlock(group, client, queues)
        return Response()

    def check_client(_connection: Connection, request: Request) -> Response:
        read = bodies.load(request.body, "a client's configuration")
        data = read.get("subscriptionData")
        if isinstance(data, dict):
            broker.filters.of(str(data.get("subString") or ""), str(data.get("expressionType") or "TAG"))
        return Response()

    return {
        **_assignment(broker),
        Ask.HEART_BEAT: heartbeat,
        Ask.UNREGISTER_CLIENT: unregister,
        Ask.GET_CONSUMER_LIST_BY_GROUP: members,
        Ask.LOCK_BATCH_MQ: lock,
        Ask.UNLOCK_BATCH_MQ: unlock,
        Ask.CHECK_CLIENT_CONFIG: check_client,
    }


def _assignment(broker: Broker) -> Handlers:
    async def assign(_connection: Connection, request: Request) -> Response:
        read = bodies.load(request.body, "a question for queues")
        names = {name: str(read.get(name) or "") for name in ("consumerGroup", "topic", "clientId")}
        group, topic = fields.text(names, "consumerGroup"), fields.text(names, "topic")
        found = await broker.assignment.queues_for(
            group,
            topic,
            fields.text(names, "clientId"),
            strategy=str(read.get("strategyName") or "AVG"),
            model=str(read.get("messageModel") or "CLUSTERING"),
        )
        mode = broker.assignment.mode(group, topic)[0]
        queues = [{"messageQueue": bodies.queue(*queue), "mode": mode} for queue in found]
        return Response(body=bodies.dump({"messageQueueAssignments": queues}))

    def set_mode(_connection: Connection, request: Request) -> Response:
        read = bodies.load(request.body, "a mode of asking for messages")
        names = {name: str(read.get(name) or "") for name in ("consumerGroup", "topic", "mode")}
        share = read.get("popShareQueueNum", 0)
        broker.assignment.set_mode(
            fields.text(names, "consumerGroup"),
            fields.text(names, "topic"),
            fields.text(names, "mode"),
            share if isinstance(share, int) else 0,
        )
        return Response()

    return {Ask.QUERY_ASSIGNMENT: assign, Ask.SET_MESSAGE_REQUEST_MODE: set_mode}


def _lock_request(request: Request) -> tuple[str, str, dict[Queue, object]]:
    """Return group, client and queues; each queue with the object that names it, which the answer echoes."""
    read = bodies.load(request.body, "a lock request")
    group, client, wanted = read.get("consumerGroup"), read.get("clientId"), read.get("mqSet")
    if not isinstance(group, str) or not isinstance(client, str) or not isinstance(wanted, list):
        raise BadBody("a lock request names consumerGroup, clientId and mqSet")
    queues: dict[Queue, object] = {}
    for item in wanted:
        topic = item.get("topic") if isinstance(item, dict) else None
        queue_id = item.get("queueId") if isinstance(item, dict) else None
        if not isinstance(topic, str) or not isinstance(queue_id, int):
            raise BadBody("every queue of a lock request has a topic and a queueId")
        queues[(topic, queue_id)] = item
    return group, client, queues
