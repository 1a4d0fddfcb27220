"""Requests of data jobs: bounds, offsets at times, splits, raw records, holds; LiteMQ's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from litemq.broker.live_reads import MAX_QUEUES
from litemq.errors import BadBody, BadField
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_MAX_TOPICS = 1_000
_MAX_CUTS = 1_000
_MAX_NAME = 255
_PULL_BYTES = 1 << 20


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""
    live = broker.live_reads

    async def bounds(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        most = _within(ext, "maxNum", 100, 1, _MAX_TOPICS)
        if request.body:
            names = _list(request, "topics", lambda name: isinstance(name, str), "names", _MAX_TOPICS)
            rest: list[str] = []
        else:
            names = live.public_topics(ext.get("fromTopic", ""))
            names, rest = names[:most], names[most:]
        told: dict[str, Any] = {
            "broker": broker.config.name,
            "logId": broker.store.tables.log_id,
            "format": broker.store.format,
            "topics": [
                {
                    "name": topic.name,
                    "incarnation": topic.incarnation,
                    "queues": [[one.queue_id, one.min_offset, one.max_offset, one.bytes] for one in topic.queues],
                }
                for topic in await live.bounds(names)
            ],
        }
        if rest:
            told["next"] = names[-1]
        return Response(body=bodies.dump(told))

    async def offsets_at(_connection: Connection, request: Request) -> Response:
        rows = _list(request, "queues", _is_queue_and_number, "[topic, queue, time]", MAX_QUEUES)
        found = await live.offsets_at([(topic, queue_id, time_ms) for topic, queue_id, time_ms in rows])
        return Response(body=bodies.dump({"offsets": found}))

    async def split(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        cuts, has_more = await live.split(
            fields.text(ext, "topic"),
            _within(ext, "queueId", None, 0, fields.INT32[1]),
            _within(ext, "fromOffset", 0, 0, fields.INT64[1]),
            _within(ext, "toOffset", fields.INT64[1], 0, fields.INT64[1]),
            every_bytes=_within(ext, "everyBytes", None, 1, fields.INT64[1]),
            most=_within(ext, "maxNum", _MAX_CUTS, 1, _MAX_CUTS),
        )
        return Response(body=bodies.dump({"cuts": cuts, "more": has_more}))

    async def pull(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        found = await live.pull(
            fields.text(ext, "topic"),
            _within(ext, "queueId", None, 0, fields.INT32[1]),
            _within(ext, "fromOffset", None, 0, fields.INT64[1]),
            _within(ext, "toOffset", fields.INT64[1], 0, fields.INT64[1]),
            max_bytes=_within(ext, "maxBytes", _PULL_BYTES, 1, fields.INT64[1]),
        )
        told = {
            "count": str(found.count),
            "nextOffset": str(found.next_offset),
            "minOffset": str(found.min_offset),
            "maxOffset": str(found.max_offset),
            "format": broker.store.format,
        }
        return Response(ext=told, body=found.data)

    async def hold(_connection: Connection, request: Request) -> Response:
        name = fields.text(request.ext, "name")
        if len(name) > _MAX_NAME:
            raise BadField(f"the field name has {len(name)} characters, at most {_MAX_NAME} fit")
        if fields.truth(request.ext, "release"):
            return Response(body=bodies.dump({"released": live.release(name)}))
        rows = _list(request, "queues", _is_queue_and_number, "[topic, queue, offset]", MAX_QUEUES)
        lease, late = await live.hold(
            name,
            {(topic, queue_id): offset for topic, queue_id, offset in rows},
            lease_ms=fields.long(request.ext, "leaseMs"),
        )
        told = {
            "position": lease.position,
            "untilMs": lease.until_ms,
            "late": [[topic, queue_id, low] for (topic, queue_id), low in late.items()],
        }
        return Response(body=bodies.dump(told))

    return {
        Ask.LITEMQ_BOUNDS: bounds,
        Ask.LITEMQ_OFFSETS_AT: offsets_at,
        Ask.LITEMQ_RAW_PULL: pull,
        Ask.LITEMQ_SPLIT: split,
        Ask.LITEMQ_HOLD: hold,
    }


def _within(ext: dict[str, str], name: str, default: int | None, low: int, high: int) -> int:
    value = fields.long(ext, name, default)
    if not low <= value <= high:
        raise BadField(f"the field {name} is {value}, it must be {low} to {high}")
    return value


def _list(request: Request, name: str, is_one: Callable[[Any], bool], what: str, most: int) -> list[Any]:
    """Return the list of this name in a body."""
    found = bodies.load(request.body, "the request").get(name)
    if not isinstance(found, list) or not all(map(is_one, found)):
        raise BadBody(f"the body needs a list {name} of {what}")
    if len(found) > most:
        raise BadBody(f"the body names {len(found)} {name}, at most {most} fit into one request")
    return found


def _is_queue_and_number(row: object) -> bool:
    return (
        isinstance(row, list)
        and len(row) == 3
        and isinstance(row[0], str)
        and type(row[1]) is int
        and 0 <= row[1] <= fields.INT32[1]
        and type(row[2]) is int
        and 0 <= row[2] <= fields.INT64[1]
    )
