"""A connection of the broker: plain sends are taken in by compiled code, everything else one by one.

Per socket read: the wire's kernel splits the frames into a table, the store's kernel appends runs of plain sends from
it, the wire's kernel encodes their answers from the same table; whatever is not plain is served between the runs, so
that the order of a connection is kept.  All answers to the plain sends of a read are one write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litemq.broker.faces.remoting import pulls
from litemq.errors import BadFrame, LiteMQError
from litemq.format import spans as columns
from litemq.format._spans_cy import Peer, Spans
from litemq.wire.remoting._answers_cy import sends
from litemq.wire.remoting._requests_cy import split
from litemq.wire.remoting.codes import MAX_FRAME_SIZE
from litemq.wire.remoting.command import decode, encode_response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.status import answer_to

if TYPE_CHECKING:
    from litemq.broker.broker import Broker
    from litemq.wire.remoting.server import Server


class BrokerConnection(Connection):
    """A client of the broker."""

    def __init__(self, server: Server, broker: Broker) -> None:
        super().__init__(server)
        self._broker = broker
        self._peer = Peer("0.0.0.0:0")
        self.on_lost.append(self._drop_pulls)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, or refuse it at a limit."""
        super().connection_made(transport)
        self._peer = Peer(self.peer)

    def _drop_pulls(self, _connection: Connection) -> None:
        self._broker.puller.polls.drop(self)

    def take(self, buffer: bytearray, size: int) -> int:
        """Serve the whole frames of ``buffer[:size]``; return how many bytes they take.

        Raises:
            BadFrame: the bytes are no frames.
        """
        spans = self._broker.spans
        spans.data = buffer
        spans.peer = self._peer
        at = 0
        while True:
            at += split(spans, at, size - at)
            if spans.count:
                self._serve_rows(spans)
            if spans.status != columns.FULL:
                break
        if spans.status == columns.BAD_FRAME:
            raise BadFrame(f"what follows is no frame of at most {MAX_FRAME_SIZE} bytes")
        return at

    def _serve_rows(self, spans: Spans) -> None:
        broker = self._broker
        store, out = broker.store, broker.outbox
        first, count = 0, spans.count
        stored = False
        refuses = broker.durability.is_full
        while first < count:
            try:
                done = first if refuses else store.append_rows(spans, first)
            except LiteMQError:
                done = first  # Python's way meets the same error, and tells the client
            if done > first:
                sends(spans, first, done, out)
                stored = True
            if done < count:
                self._serve_row(spans, done)
                done = spans.behind(done)
            first = done
        if stored:
            broker.stored(self)

    def _serve_row(self, spans: Spans, row: int) -> None:
        if spans.kind(row) != columns.PULL:
            self.serve(decode(spans.part(row, columns.FRAME_AT)))
            return
        codec, opaque = spans.cell(row, columns.CODEC), spans.cell(row, columns.OPAQUE)
        try:
            pulls.serve(self._broker, self, pulls.of_row(spans, row), codec, opaque)
        except LiteMQError as error:
            self.write(encode_response(answer_to(error), opaque=opaque, codec=codec))
