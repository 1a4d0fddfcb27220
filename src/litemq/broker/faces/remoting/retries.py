"""The request that sends a message back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.retries import SentBack
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_KNOWS_MAX_TIMES = 121
"""Version from which on clients mean what they send as ``maxReconsumeTimes``."""


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def send_back(connection: Connection, request: Request) -> Response | None:
        ext = request.ext
        group = fields.text(ext, "group")
        most = fields.whole(ext, "maxReconsumeTimes", -1)
        appended = broker.retries.send_back(
            SentBack(
                group,
                fields.long(ext, "offset"),
                fields.whole(ext, "delayLevel", 0),
                most if most >= 0 and request.version >= _KNOWS_MAX_TIMES else None,
                broker.clients.client_id(connection, group),
                ext.get("lmqError", ""),
                ext.get("lmqStack", ""),
            )
        )
        if appended is None:
            return Response()
        return broker.answer_durable(connection, request, Response(), appended.end)

    return {Ask.CONSUMER_SEND_MSG_BACK: send_back}
