"""A stand-in for a name server and a broker: says what a test wants, for what a real one does not do on demand.

It keeps nothing on disk and knows no queues beside one: where a real broker can be used, use that.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from litemq.client.net import LoopThread
from litemq.format import properties
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.server import Server

Answer = Response | Awaitable[Response | None] | None
BROKER = "stand-in"


class StandIn:
    """Notes every request; ``answers`` are asked first, by the request's code."""

    def __init__(self) -> None:
        self._thread = LoopThread("stand-in")
        self.requests: list[Request] = []
        self.answers: dict[int, Callable[[Request], Answer]] = {}
        self.clients: dict[str, Connection] = {}
        """Client id → connection."""
        self.topics = {"orders"}
        self.halves: list[Request] = []
        self._server = Server(dict.fromkeys(Ask, self._serve))
        self.port = asyncio.run_coroutine_threadsafe(self._server.listen("127.0.0.1", 0), self._thread.loop).result()
        self.address = f"127.0.0.1:{self.port}"

    def of(self, code: int) -> list[Request]:
        """Return the requests of a kind that came so far."""
        return [request for request in self.requests if request.code == code]

    def ask(self, code: int, ext: dict[str, str], body: bytes) -> None:
        """Ask every client."""
        for connection in list(self.clients.values()):
            self._thread.loop.call_soon_threadsafe(connection.notify, code, ext, body)

    def wake(self) -> None:
        """Have its loop look around: an event was set by another thread."""
        self._thread.loop.call_soon_threadsafe(lambda: None)

    def drop_connections(self) -> None:
        """Close every connection."""

        def drop() -> None:
            for connection in list(self._server.connections):
                connection.abort()

        self._thread.loop.call_soon_threadsafe(drop)

    def close(self) -> None:
        """End it."""
        asyncio.run_coroutine_threadsafe(self._server.close(), self._thread.loop).result()
        self._thread.stop()

    def _serve(self, connection: Connection, request: Request) -> Answer:
        self.requests.append(request)
        answer = self.answers.get(request.code)
        if answer is not None:
            return answer(request)
        match request.code:
            case Ask.HEART_BEAT:
                self.clients[json.loads(request.body)["clientID"]] = connection
            case Ask.GET_BROKER_CLUSTER_INFO:
                table = {BROKER: {"brokerName": BROKER, "brokerAddrs": {"0": self.address}}}
                return Response(body=json.dumps({"brokerAddrTable": table}).encode())
            case Ask.GET_ROUTEINFO_BY_TOPIC:
                return self._route(request.ext["topic"])
            case Ask.SEND_MESSAGE_V2:
                return self.send(request)
        return Response()

    def _route(self, topic: str) -> Response:
        if topic not in self.topics:
            return Response(Code.TOPIC_NOT_EXIST, remark="no such topic")
        queue = {"brokerName": BROKER, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
        broker = {"brokerName": BROKER, "brokerAddrs": {"0": self.address}}
        return Response(body=json.dumps({"queueDatas": [queue], "brokerDatas": [broker]}).encode())

    def send(self, request: Request) -> Response:
        """Take a half message, as it does by itself."""
        self.halves.append(request)
        number = len(self.halves)
        return Response(
            ext={"msgId": f"7F00000100002A9F{number * 1000:016X}", "queueId": "0", "queueOffset": str(number)}
        )


def record(topic: str, body: bytes, *, offset: int = 0, position: int = 0, reconsume: int = 0, **found: str) -> bytes:
    """Return a record as brokers send it; ``found`` are its properties."""
    text = properties.write(found.items())
    name = topic.encode()
    size = 91 + len(body) + len(name) + len(text)
    return b"".join(
        (
            struct.pack(">IIIIIqqI", size, 0xDAA320A7, 0, 0, 0, offset, position, 0),
            struct.pack(">q4sIq4sI", 1_700_000_000_000, b"\x7f\0\0\1", 1, 1_700_000_000_001, b"\x7f\0\0\1", 10911),
            struct.pack(">IqI", reconsume, 0, len(body)) + body,
            bytes((len(name),)) + name + struct.pack(">H", len(text)) + text,
        )
    )


@contextmanager
def standing_in() -> Iterator[StandIn]:
    """Yield a stand-in; it is ended behind it."""
    made = StandIn()
    try:
        yield made
    finally:
        made.close()
