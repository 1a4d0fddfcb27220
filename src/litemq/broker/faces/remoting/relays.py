"""Requests that the broker hands to a client, whose answer goes back to whoever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.errors import NotOnline
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    async def running_info(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, client_id = fields.text(ext, "consumerGroup"), fields.text(ext, "clientId")
        try:
            return await broker.relay.running_info(group, client_id, ext)
        except NotOnline as error:  # 206 would say that the whole group is not there
            return Response(Code.SYSTEM_ERROR, remark=str(error))

    async def consume(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group = fields.text(ext, "consumerGroup")
        try:
            return await broker.relay.consume(group, ext.get("clientId", ""), ext.get("msgId", ""), ext)
        except NotOnline as error:
            return Response(Code.SYSTEM_ERROR, remark=str(error))

    async def statuses(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, topic = fields.text(ext, "group"), fields.text(ext, "topic")
        found = await broker.relay.statuses(group, topic, ext.get("clientAddr", ""))
        members = b",".join(b"%b:%b" % (bodies.dump(client_id), table) for client_id, table in found.items())
        return Response(body=b'{"consumerTable":{%b}}' % members)

    return {
        Ask.GET_CONSUMER_RUNNING_INFO: running_info,
        Ask.CONSUME_MESSAGE_DIRECTLY: consume,
        Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: statuses,
    }
