"""A connection of the broker: plain sends and pulls are served by compiled code (``_rows_cy``), the rest here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litemq.broker.faces.remoting import pulls
from litemq.broker.faces.remoting._rows_cy import RowReceiver
from litemq.broker.faces.remoting._transaction_rows_cy import is_transactional
from litemq.errors import LiteMQError
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.wire.remoting.command import decode, encode_response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker
    from litemq.wire.remoting.server import Server


class BrokerConnection(RowReceiver, Connection):
    """A client of the broker."""

    def __init__(self, server: Server, broker: Broker) -> None:
        Connection.__init__(self, server)
        self._broker = broker
        self._transactions = broker.transaction_rows
        self._pulls = pulls.table(broker, self)
        self.set_up(broker.bench, self._pulls)
        self.on_lost.append(self._let_go)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or refuse it at a limit."""
        super().connection_made(transport)
        self.set_sender(self.peer)

    def _let_go(self, _connection: Connection) -> None:
        self._broker.puller.polls.drop(self)
        self._broker.bench.busy_poll.forget(self)
        self._pulls.clear()

    def serve_row(self, spans: Spans, row: int) -> int:
        """Serve a request that is not plain, and what follows it of transactions."""
        if is_transactional(spans, row):
            count = self._transactions.serve(spans, row, self._broker.bench.outbox)
            if count:
                return count
        self.serve(decode(spans.part(row, columns.FRAME_AT)))
        return 0

    def refuse_row(self, spans: Spans, row: int, error: LiteMQError) -> int:
        """Tell why a request is refused."""
        codec, opaque = spans.cell(row, columns.CODEC), spans.cell(row, columns.OPAQUE)
        self.write(encode_response(answer_to(error), opaque=opaque, codec=codec))
        return 0

    def hold(self, answers: bytes) -> int:
        """Send answers when the log is as durable as they promise."""
        broker = self._broker
        if answers:
            broker.durability.hold(broker.store.appended_end, self, answers, now_ms=broker.clock.monotonic_ms())
        else:
            broker.store.ask_flush()
        return 0

    def choke(self) -> int:
        """Read no more until the log is flushed."""
        self.server.choke(True)
        return 0
