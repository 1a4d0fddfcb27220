"""LiteMQ's requests of batch transactions: stage, end, status, list, and the table of coordinators.

A refusal names its kind in the field ``reason``, as errors are called for programs: RocketMQ has no codes for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from litemq.broker.batch_transactions import Staging
from litemq.errors import BadBody, BadField, LiteMQError
from litemq.features.batch_parts import Key, Memory
from litemq.features.slots import Table
from litemq.format.batch_records import Winner, read_winners
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

Sync = Callable[[Connection, Request], Response | Awaitable[Response] | None]

_MAX_TOPICS = 1_000
_MAX_REASON = 1_000


def key_of(ext: dict[str, str]) -> Key:
    """Return the transaction that a request names."""
    return Key(fields.text(ext, "producerId"), fields.long(ext, "epoch"))


def winners_of(request: Request) -> tuple[Winner, ...]:
    """Return the winners that a body names."""
    if not request.body:
        return ()
    try:
        return read_winners(bodies.load(request.body, "an end").get("winners"))
    except ValueError as error:
        raise BadBody(f"the body of an end: {error}") from error


def named(handler: Sync) -> Sync:
    """Have refusals say their kind."""

    def refusal(error: LiteMQError) -> Response:
        answer = answer_to(error)
        return Response(answer.code, {"reason": error.code}, remark=answer.remark)

    async def later(answer: Awaitable[Response]) -> Response:
        try:
            return await answer
        except LiteMQError as error:
            return refusal(error)

    def asked(connection: Connection, request: Request) -> Response | Awaitable[Response] | None:
        try:
            answer = handler(connection, request)
        except LiteMQError as error:
            return refusal(error)
        return answer if answer is None or isinstance(answer, Response) else later(answer)

    return asked


def _from_0(ext: dict[str, str], name: str, default: int | None = None) -> int:
    value = fields.long(ext, name, default)
    if value < 0:
        raise BadField(f"the field {name} is {value}, it must be 0 or more")
    return value


def stage(broker: Broker, connection: Connection, request: Request) -> Response | Awaitable[Response] | None:
    """Keep rows."""
    ext = request.ext
    topics = tuple(fields.text(ext, "topics").split(","))
    if len(topics) > _MAX_TOPICS:
        raise BadField(f"the field topics names {len(topics)} topics, at most {_MAX_TOPICS} fit")
    staging = Staging(
        key_of(ext),
        _from_0(ext, "partition"),
        _from_0(ext, "attempt"),
        _from_0(ext, "sequence"),
        fields.text(ext, "coordinator"),
        topics,
        request.body,
        _from_0(ext, "bornTimestamp", broker.clock.now_ms()),
        connection.peer,
    )
    verdict, count = broker.batches.stage(staging)
    ext = {"state": verdict.value, "count": str(count)}
    told = broker.batches.ended_until(staging.key)
    if told > broker.store.flushed_end:
        return _durable(broker, told, ext)
    return broker.answer_durable(connection, request, Response(ext=ext), broker.store.appended_end)


def end(broker: Broker, request: Request) -> Awaitable[Response]:
    """Do what a decision says at once, and answer when that is on disk."""
    ext, key, batches = request.ext, key_of(request.ext), broker.batches
    match fields.text(ext, "decision"):
        case "prepare":
            return _durable(broker, batches.prepare(key, winners_of(request)), {"state": "prepared"})
        case "commit":
            known, until = batches.commit(key, winners_of(request), fields.text(ext, "coordinator"))
            return _durable(broker, until, _said(known))
        case "abort":
            reason = ext.get("reason") or "its producer said so"
            aborted, until = batches.abort(key, fields.text(ext, "coordinator"), reason[:_MAX_REASON])
            return _durable(broker, until, _said(aborted))
        case "drop":
            ended, until = batches.drop(key, fields.long(ext, "partition", -1), fields.long(ext, "attempt", -1))
            return _durable(broker, until, {"state": "open"} if ended is None else _said(ended))
        case other:
            raise BadField(f"the field decision is {other[:40]!r}, it must be prepare, commit, abort or drop")


def _said(known: Memory | None) -> dict[str, str]:
    state = "committed" if known is not None and known.is_committed else "aborted"
    return {"state": state, "rows": str(known.rows if known is not None else 0)}


async def _durable(broker: Broker, until: int, ext: dict[str, str], body: bytes = b"") -> Response:
    await broker.batches.durable(until)
    return Response(ext=ext, body=body)


def status(broker: Broker, request: Request) -> Response | Awaitable[Response]:
    """Tell what became of a transaction: a client, or a broker that holds rows."""
    ext, key, batches = request.ext, key_of(request.ext), broker.batches
    asker = ext.get("broker")
    if asker:
        told = batches.decided(key, asker, is_expired=fields.truth(ext, "expired"))
        return _durable(broker, broker.store.appended_end, {}, bodies.dump(told))
    table = batches.slots.table
    found = batches.core.state(key) | {
        "coordinator": table.broker_of(key.producer_id) if table is not None else None,
        "max_stage_bytes": batches.largest_stage,
    }
    return _durable(broker, batches.ended_until(key), {}, bodies.dump(found))


def slots(broker: Broker, request: Request) -> Response | Awaitable[Response]:
    """Tell the table of slots; keep the one that is offered unless there is one."""
    known = broker.batches.slots
    if not request.body:
        table = known.table
        return Response(body=bodies.dump({} if table is None else table.to_json()))
    try:
        offered = Table.from_json(bodies.load(request.body, "a table of slots"))
    except ValueError as error:
        raise BadBody(str(error)) from error
    kept = known.offer(offered)
    return _durable(broker, broker.store.appended_end, {}, bodies.dump(kept.to_json()))


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def listed(_connection: Connection, _request: Request) -> Response:
        return Response(body=bodies.dump({"transactions": broker.batches.listed()}))

    return {
        Ask.LITEMQ_STAGE: named(lambda connection, request: stage(broker, connection, request)),
        Ask.LITEMQ_END_BATCH: named(lambda _, request: end(broker, request)),
        Ask.LITEMQ_BATCH_STATUS: named(lambda _, request: status(broker, request)),
        Ask.LITEMQ_LIST_BATCHES: named(listed),
        Ask.LITEMQ_SLOTS: named(lambda _, request: slots(broker, request)),
    }
