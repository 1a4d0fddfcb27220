"""The request that ends a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.half_log import Decision
from litemq.broker.transactions import Ending
from litemq.errors import BadField
from litemq.wire.remoting import fields
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

DECISIONS = {0: Decision.UNKNOWN, 8: Decision.COMMIT, 12: Decision.ROLLBACK}
"""What the field ``commitOrRollback`` says."""


def ending_of(ext: dict[str, str]) -> Ending:
    """Return what the fields of a request say."""
    wanted = fields.whole(ext, "commitOrRollback")
    decision = DECISIONS.get(wanted)
    if decision is None:
        raise BadField(f"the field commitOrRollback is {wanted}, it must be 8, 12 or 0")
    return Ending(
        fields.text(ext, "producerGroup"),
        fields.long(ext, "tranStateTableOffset"),
        fields.long(ext, "commitLogOffset"),
        fields.text(ext, "msgId"),
        decision,
    )


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def end(connection: Connection, request: Request) -> Response | None:
        appended = broker.transactions.end(ending_of(request.ext))
        # An end that is repeated promises no less: what it repeats may not be flushed yet.
        until = broker.store.appended_end if appended is None else appended.end
        return broker.answer_durable(connection, request, Response(), until)

    return {Ask.END_TRANSACTION: end}
