"""The request that purges messages; LiteMQ's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    async def purge(connection: Connection, request: Request) -> Response | None:
        ext = request.ext
        firsts, appended = await broker.topic_retention.purge(
            fields.text(ext, "topic"),
            queue_id=fields.whole(ext, "queueId") if "queueId" in ext else None,
            before_offset=fields.long(ext, "beforeOffset") if "beforeOffset" in ext else None,
            before_ms=fields.long(ext, "beforeTime") if "beforeTime" in ext else None,
        )
        answer = Response(body=bodies.dump({"minOffsets": {str(queue): first for queue, first in firsts.items()}}))
        if appended is None:
            return answer
        return broker.answer_durable(connection, request, answer, appended.end)

    return {Ask.LITEMQ_PURGE_TOPIC: purge}
