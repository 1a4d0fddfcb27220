"""Questions that operators ask a client through the broker."""

from __future__ import annotations

import asyncio

from litemq.broker.members import Clients
from litemq.broker.query import Queries
from litemq.errors import BadBody, NoAnswer, NotOnline
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Response
from litemq.wire.remoting.connection import Connection

_CALL_S = 10.0
_STATUS_S = 3.0
"""Tools wait 5 s for the answers of all members together."""

_OLDEST_VERSION = 62
"""Clients below 3.1.8 do not know these questions."""


class Relay:
    """Hands questions to clients, and their answers back."""

    def __init__(self, clients: Clients, queries: Queries, broker_name: str) -> None:
        self._clients = clients
        self._queries = queries
        self._broker_name = broker_name

    async def running_info(self, group: str, client_id: str, ext: dict[str, str]) -> Response:
        """Ask a consumer how it does.

        Raises:
            NotOnline: it is not connected, or too old.
            NoAnswer: it did not answer in time.
        """
        return await self._call(self._consumer(group, client_id), Ask.GET_CONSUMER_RUNNING_INFO, ext, b"")

    async def consume(self, group: str, client_id: str, message_id: str, ext: dict[str, str]) -> Response:
        """Let a consumer consume one message now; without a client id any of the group."""
        body = self._queries.by_id(message_id, ext.get("topic", "")) if message_id else b""
        connection = self._consumer(group, client_id)
        asked = {**ext, "brokerName": self._broker_name}
        return await self._call(connection, Ask.CONSUME_MESSAGE_DIRECTLY, asked, body)

    async def statuses(self, group: str, topic: str, client_id: str) -> dict[str, bytes]:
        """Return what members say of their offsets in a topic: client → map from queues, as they wrote it.

        Those that do not answer in time are left out.

        Raises:
            NotOnline: nobody is there to be asked.
        """
        wanted = [client_id] if client_id else self._clients.membership.client_ids(group)
        members = {member: self._clients.consumer(group, member) for member in wanted}
        asked = {member: connection for member, connection in members.items() if connection is not None}
        if not asked:
            raise NotOnline(f"no consumer of group {group!r} is online")
        ext = {"topic": topic, "group": group}
        answers = await asyncio.gather(
            *(
                connection.call(Ask.GET_CONSUMER_STATUS_FROM_CLIENT, ext, timeout_s=_STATUS_S)
                for connection in asked.values()
            ),
            return_exceptions=True,
        )
        found: dict[str, bytes] = {}
        for member, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Response) and answer.code == 0:
                found[member] = _table_of(answer.body)
        return found

    def _consumer(self, group: str, client_id: str) -> Connection:
        if not client_id:
            client_id = next(iter(self._clients.membership.client_ids(group)), "")
        connection = self._clients.consumer(group, client_id)
        if connection is None:
            raise NotOnline(f"The Consumer <{group}> <{client_id}> not online")
        if connection.version < _OLDEST_VERSION:
            raise NotOnline(f"The Consumer <{client_id}> Version <{connection.version}> too low to be asked")
        return connection

    async def _call(self, connection: Connection, code: int, ext: dict[str, str], body: bytes) -> Response:
        try:
            answer = await connection.call(code, ext, body, timeout_s=_CALL_S)
        except NoAnswer as error:
            raise NoAnswer(f"consumer {connection.peer}: {error}") from error
        return Response(answer.code, answer.ext, answer.body, answer.remark)


def _table_of(body: bytes) -> bytes:
    try:
        return bodies.raw_member(body, "messageQueueTable") or b"{}"
    except BadBody:
        return b"{}"
