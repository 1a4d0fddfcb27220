"""Replies to requests: handed to the producer that waits for them, on its own connection; never stored."""

from __future__ import annotations

from litemq.broker.members import Clients
from litemq.broker.messages import Sending
from litemq.clock import Clock
from litemq.errors import NoAnswer, NotOnline
from litemq.format import properties
from litemq.wire.remoting.codes import Ask, Code

REPLY_TO = "REPLY_TO_CLIENT"
_PUSHED = "PUSH_REPLY_TIME"
_CALL_S = 10.0


class Replies:
    """Hands replies on."""

    def __init__(self, clients: Clients, store_host: str, clock: Clock) -> None:
        self._clients = clients
        self._store_host = store_host
        self._clock = clock
        self.pushed = 0
        self.failed = 0

    async def push(self, sending: Sending, ext: dict[str, str]) -> None:
        """Hand a reply to the client that it names; ``ext`` are the fields of the send that brought it.

        Raises:
            NotOnline: it names none, or that client is not connected or did not take it.
        """
        try:
            await self._push(sending, ext)
        except NotOnline:
            self.failed += 1
            raise
        self.pushed += 1

    async def _push(self, sending: Sending, ext: dict[str, str]) -> None:
        client_id = sending.properties.get(REPLY_TO, "")
        if not client_id:
            raise NotOnline(f"reply message properties[{REPLY_TO}] is null")
        connection = self._clients.producer(client_id)
        if connection is None:
            raise NotOnline(f"push reply message fail, channel of <{client_id}> not found.")
        now = str(self._clock.now_ms())
        told = {**sending.properties, _PUSHED: now}
        asked = {
            "producerGroup": ext.get("producerGroup", ""),
            "topic": sending.topic,
            "defaultTopic": ext.get("defaultTopic", ""),
            "defaultTopicQueueNums": ext.get("defaultTopicQueueNums", "4"),
            "queueId": str(sending.queue_id),
            "sysFlag": str(sending.sys_flag),
            "bornTimestamp": str(sending.born_time),
            "flag": str(sending.flag),
            "properties": properties.write(told.items()).decode(),
            "reconsumeTimes": str(sending.reconsume_times),
            "unitMode": ext.get("unitMode", "false"),
            "bornHost": sending.born_host,
            "storeHost": self._store_host,
            "storeTimestamp": now,
        }
        try:
            answer = await connection.call(Ask.PUSH_REPLY_MESSAGE_TO_CLIENT, asked, sending.body, timeout_s=_CALL_S)
        except NoAnswer as error:
            raise NotOnline(f"push reply message to {client_id} fail.") from error
        if answer.code != Code.SUCCESS:
            raise NotOnline(f"push reply message to {client_id} fail.")
