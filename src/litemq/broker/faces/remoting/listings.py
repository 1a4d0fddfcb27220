"""Requests that list transactions and what is held by receipts; LiteMQ's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.pop_listing import HeldMessage, held_page
from litemq.broker.transaction_listing import Listed, ended_page, pending_page
from litemq.errors import BadField
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_MOST = 1_000


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def transactions(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group, topic, most = ext.get("group", ""), ext.get("topic", ""), _count(request)
        if fields.truth(ext, "ended"):
            page = ended_page(broker.transactions, group=group, topic=topic, most=most)
        else:
            first = _from_0(request, "offset")
            page = pending_page(broker.transactions, group=group, topic=topic, first=first, most=most)
        told = {
            "transactions": [_transaction(one) for one in page.found],
            "nextOffset": page.next_offset,
            "pending": len(broker.transactions.pending),
        }
        return Response(body=bodies.dump(told))

    def in_flight(_connection: Connection, request: Request) -> Response:
        ext = request.ext
        group = broker.groups.known(fields.text(ext, "group")).name
        first = (ext.get("fromTopic", ""), _from_0(request, "fromQueue"), _from_0(request, "fromOffset"))
        topic, most = ext.get("topic", ""), _count(request)
        page = held_page(broker.store, broker.pops.states, group, topic=topic, first=first, most=most)
        told: dict[str, object] = {"messages": [_held(one) for one in page.found], "inFlight": page.count}
        if page.after is not None:
            told["next"] = dict(zip(("topic", "queue", "offset"), page.after, strict=True))
        return Response(body=bodies.dump(told))

    return {Ask.LITEMQ_TRANSACTIONS: transactions, Ask.LITEMQ_IN_FLIGHT: in_flight}


def _count(request: Request) -> int:
    most = fields.whole(request.ext, "maxNum", 100)
    if not 1 <= most <= _MOST:
        raise BadField(f"the field maxNum is {most}, it must be 1 to {_MOST}")
    return most


def _from_0(request: Request, name: str) -> int:
    value = fields.long(request.ext, name, 0)
    if value < 0:
        raise BadField(f"the field {name} is {value}, it must be 0 or more")
    return value


def _transaction(one: Listed) -> dict[str, object]:
    half = one.half
    return {
        "offset": one.offset,
        "messageId": half.message.message_id or "",
        "topic": half.topic,
        "queue": half.queue_id,
        "group": half.group,
        "keys": " ".join(half.message.keys),
        "storedAt": half.store_time,
        "state": one.state,
        "checks": one.checks,
        "nextCheckAt": one.next_check_ms,
    }


def _held(one: HeldMessage) -> dict[str, object]:
    held = one.held
    return {
        "topic": one.topic,
        "queue": one.queue_id,
        "offset": held.offset,
        "messageId": one.message_id,
        "consumer": one.consumer,
        "attempt": held.attempt,
        "handedOutAt": held.generation,
        "until": held.until_ms,
    }
