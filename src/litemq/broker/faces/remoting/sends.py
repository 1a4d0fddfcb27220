"""Requests that send: one message, a batch; for those that the compiled path leaves to Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.messages import REGION, Sending
from litemq.broker.send import Wish
from litemq.format import message_id, properties
from litemq.types import Appended, Message
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_LETTERS = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}
"""What the short header of version 2 calls the fields."""


def spelled_out(ext: dict[str, str]) -> dict[str, str]:
    """Return the fields of a short header under their long names."""
    return {_LETTERS.get(name, name): value for name, value in ext.items()}


def sending_of(connection: Connection, request: Request, ext: dict[str, str]) -> Sending:
    """Return what a send's header and body say."""
    return Sending(
        topic=fields.text(ext, "topic"),
        queue_id=fields.whole(ext, "queueId"),
        body=request.body,
        properties=properties.parse(ext.get("properties", "").encode("utf-8", "replace")),
        born_time=fields.long(ext, "bornTimestamp", 0),
        born_host=connection.peer,
        flag=fields.whole(ext, "flag", 0),
        sys_flag=fields.whole(ext, "sysFlag", 0),
        reconsume_times=fields.whole(ext, "reconsumeTimes", 0),
    )


def wish_of(ext: dict[str, str], client_id: str = "") -> Wish:
    """Return who sends, and how it wants a missing topic to be made."""
    most = fields.whole(ext, "maxReconsumeTimes", -1)
    return Wish(
        group=ext.get("producerGroup", ""),
        template=ext.get("defaultTopic", ""),
        template_queues=fields.whole(ext, "defaultTopicQueueNums", 4),
        client_id=client_id,
        max_reconsume_times=most if most >= 0 else None,
    )


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def send_v1(connection: Connection, request: Request) -> Response | None:
        return send(connection, request, request.ext)

    def send_v2(connection: Connection, request: Request) -> Response | None:
        return send(connection, request, spelled_out(request.ext))

    def send(connection: Connection, request: Request, ext: dict[str, str]) -> Response | None:
        client_id = broker.clients.producer_id(connection) if broker.send_limits.has_rates else ""
        sending, wish = sending_of(connection, request, ext), wish_of(ext, client_id)
        if fields.truth(ext, "batch"):
            messages, appended = broker.sender.send_batch(sending, wish)
            found = answer(broker, messages[0], appended, None)
        else:
            message, one = broker.sender.send(sending, wish)
            appended = [one]
            found = answer(broker, message, appended, message.message_id)
        return broker.answer_durable(connection, request, found, appended[-1].end)

    return {Ask.SEND_MESSAGE: send_v1, Ask.SEND_MESSAGE_V2: send_v2, Ask.SEND_BATCH_MESSAGE: send_v2}


def answer(broker: Broker, first: Message, appended: list[Appended], unique_id: str | None) -> Response:
    """Return the answer to a send that was stored; ``first`` is its only message, or the first of a batch."""
    ext = {
        "msgId": ",".join(message_id.offset_id(broker.store_host, item.position) for item in appended),
        "queueId": str(first.queue_id),
        "queueOffset": str(appended[0].queue_offset),
        "MSG_REGION": REGION,
        "TRACE_ON": "true",
    }
    if unique_id is not None:
        ext["transactionId"] = unique_id
    return Response(ext=ext)
