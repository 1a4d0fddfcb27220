"""Requests that are answered by a message: who asks, and how the answer finds back."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
from typing import Final

from litemq.client._message_cy import OWN_PROPERTIES, Message
from litemq.client.answers import check
from litemq.client.net import LoopNet
from litemq.client.sending import SendCore, prepare
from litemq.errors import LiteMQError, NoAnswer
from litemq.format import properties
from litemq.format.compression import plain_body
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection

CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO: Final = "REPLY_TO_CLIENT"
_HEARTBEAT_S: Final = 20.0


def client_id(instance: str = "") -> str:
    """Return a name for this client: where it runs, and what tells it from others there."""
    try:
        host = socket.gethostbyname(socket.gethostname())
    except OSError:
        host = "127.0.0.1"
    return f"{host}@{instance or f'{os.getpid()}#{secrets.token_hex(4)}'}"


class Requester:
    """Sends requests and hands their answers to who waits; lives on an event loop.

    Brokers find the one who asked by its heartbeat, so it sends one to each broker before the first request.
    """

    def __init__(self, core: SendCore, group: str) -> None:
        """Ask by the loop's own connections; ``core`` must use them, too."""
        self._core = core
        self._group = group
        self._id = client_id()
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._known_to: set[str] = set()
        self._beats: asyncio.Task[None] | None = None

    async def request(self, message: Message, timeout: float) -> Message:
        """Send a message and return the one that answers it.

        Raises:
            NoAnswer: nobody answered in time.
        """
        loop = asyncio.get_running_loop()
        deadline = self._core.net.now() + timeout
        route, _ = await self._core.choose(message, deadline)
        await asyncio.gather(*(self._introduce(address) for address in route.addresses.values()))
        if self._beats is None:
            self._beats = loop.create_task(self._beat())
        number = secrets.token_hex(16)
        outgoing = prepare(message, self._core.settings)
        outgoing.text += properties.write(
            ((CORRELATION_ID, number), (REPLY_TO, self._id), ("TTL", str(int(timeout * 1000))))
        )
        future: asyncio.Future[Message] = loop.create_future()
        self._waiting[number] = future
        try:
            await self._core.deliver([outgoing], deadline)
            async with asyncio.timeout(max(0.001, deadline - self._core.net.now())):
                return await future
        except TimeoutError:
            raise NoAnswer(
                f"nobody answered the request to {message.topic!r} within {timeout:g} s; "
                "is a consumer there that calls reply()?"
            ) from None
        finally:
            del self._waiting[number]

    def on_reply(self, _connection: Connection, request: Request) -> Response:
        """Take an answer in."""
        found = properties.parse(request.ext.get("properties", "").encode())
        future = self._waiting.get(found.get(CORRELATION_ID, ""))
        if future is not None and not future.done():
            body = plain_body(request.body, int(request.ext.get("sysFlag") or 0))
            given = {name: value for name, value in found.items() if name not in OWN_PROPERTIES}
            future.set_result(
                Message(
                    request.ext.get("topic") or "reply",
                    body,
                    tags=found.get("TAGS"),
                    keys=found.get("KEYS", ""),
                    properties=given,
                )
            )
        return Response(Code.SUCCESS)

    def on_lost(self, address: str) -> None:
        """Introduce ourselves anew: a broker forgets whose connection ends."""
        self._known_to.discard(address)

    async def close(self) -> None:
        """End the heartbeats."""
        if self._beats is not None:
            self._beats.cancel()
            await asyncio.gather(self._beats, return_exceptions=True)

    async def _introduce(self, address: str) -> None:
        if address in self._known_to:
            return
        check(await self._core.net.call(address, self._heartbeat(), self._core.settings.timeout), address)
        self._known_to.add(address)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            for address in list(self._known_to):
                try:
                    check(await self._core.net.call(address, self._heartbeat(), 3.0), address)
                except LiteMQError:
                    self._known_to.discard(address)

    def _heartbeat(self) -> Request:
        body = {"clientID": self._id, "producerDataSet": [{"groupName": self._group}], "consumerDataSet": []}
        return Request(Ask.HEART_BEAT, {}, json.dumps(body).encode())


def make_net() -> tuple[LoopNet, list[Requester]]:
    """Return connections whose replies go to the requester that is put into the list."""
    holder: list[Requester] = []

    def on_reply(connection: Connection, request: Request) -> Response:
        return holder[0].on_reply(connection, request) if holder else Response(Code.SUCCESS)

    net = LoopNet(
        {Ask.PUSH_REPLY_MESSAGE_TO_CLIENT: on_reply}, lambda address: holder[0].on_lost(address) if holder else None
    )
    return net, holder
