"""Replies that consumers send to the producers of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.faces.remoting.sends import sending_of, spelled_out
from litemq.broker.messages import REGION
from litemq.errors import NotOnline
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    async def reply(connection: Connection, request: Request, ext: dict[str, str]) -> Response:
        sending = sending_of(connection, request, ext)
        told = {"MSG_REGION": REGION, "TRACE_ON": "true"}
        try:
            await broker.replies.push(sending, ext)
        except NotOnline as error:
            return Response(Code.SYSTEM_ERROR, told, remark=str(error))
        return Response(ext={"msgId": "0", "queueId": str(sending.queue_id), "queueOffset": "0", **told})

    async def reply_v1(connection: Connection, request: Request) -> Response:
        return await reply(connection, request, request.ext)

    async def reply_v2(connection: Connection, request: Request) -> Response:
        return await reply(connection, request, spelled_out(request.ext))

    return {Ask.SEND_REPLY_MESSAGE: reply_v1, Ask.SEND_REPLY_MESSAGE_V2: reply_v2}
