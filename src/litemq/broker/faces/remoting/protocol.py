"""A connection of the broker: sends are taken in by compiled code, everything else by handlers.

Per socket read: the wire's kernel splits the frames into a table, the store's kernel appends runs of plain sends from
it, the wire's kernel encodes their answers from the same table; whatever is not plain is served one by one between
them, so that the order of a connection is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.wire.remoting.connection import Connection

if TYPE_CHECKING:
    from litemq.broker.broker import Broker
    from litemq.wire.remoting.server import Server


class BrokerConnection(Connection):
    """A client of the broker."""

    def __init__(self, server: Server, broker: Broker) -> None:
        super().__init__(server)
        self._broker = broker
        self.on_lost.append(self._drop_pulls)

    def _drop_pulls(self, _connection: Connection) -> None:
        self._broker.puller.polls.drop(self)
