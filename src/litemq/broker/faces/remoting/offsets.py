"""Requests about offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def query(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, topic, queue_id = _place(ext)
        is_new_at_zero = ext.get("setZeroIfNotFound", "true").lower() != "false"
        offset = broker.offsets.committed(group, topic, queue_id, zero_if_new=is_new_at_zero)
        if offset is None:  # any other code makes a Java client refuse the queue
            return Response(Code.QUERY_NOT_FOUND, remark="the group has no offset for this queue yet")
        return Response(ext={"offset": str(offset)})

    def update(_connection: Connection, request: Request) -> Response:
        group, topic, queue_id = _place(request.ext)
        broker.offsets.commit_checked(group, topic, queue_id, fields.long(request.ext, "commitOffset"))
        return Response()

    def greatest(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        return _offset(broker.offsets.greatest(fields.text(ext, "topic"), fields.whole(ext, "queueId")))

    def least(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        return _offset(broker.offsets.least(fields.text(ext, "topic"), fields.whole(ext, "queueId")))

    def at_time(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        topic, queue_id = fields.text(ext, "topic"), fields.whole(ext, "queueId")
        broker.offsets.queue(topic, queue_id)
        is_upper = ext.get("boundaryType", "").upper() == "UPPER"
        found = broker.store.reader.search_offset(topic, queue_id, fields.long(ext, "timestamp"), upper=is_upper)
        return _offset(found)

    def earliest(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        topic, queue_id = fields.text(ext, "topic"), fields.whole(ext, "queueId")
        broker.offsets.queue(topic, queue_id)
        return Response(ext={"timestamp": str(broker.store.reader.earliest_store_time(topic, queue_id))})

    return {
        Ask.QUERY_CONSUMER_OFFSET: query,
        Ask.UPDATE_CONSUMER_OFFSET: update,
        Ask.GET_MAX_OFFSET: greatest,
        Ask.GET_MIN_OFFSET: least,
        Ask.SEARCH_OFFSET_BY_TIMESTAMP: at_time,
        Ask.GET_EARLIEST_MSG_STORETIME: earliest,
    }


def _place(ext: dict[str, str]) -> tuple[str, str, int]:
    return fields.text(ext, "consumerGroup"), fields.text(ext, "topic"), fields.whole(ext, "queueId")


def _offset(offset: int) -> Response:
    return Response(ext={"offset": str(offset)})
