"""What a client sent before it closed without reading its answers is served all the same."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
import uvloop

from litemq.wire.remoting.command import Request, Response, encode_request
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.server import Server

FIRST, LAST = 9001, 9002


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_requests_before_a_reset_are_served(loop: object) -> None:
    served: list[int] = []
    client = socket.socket()

    def first(connection: Connection, _request: Request) -> Response:
        # Now the peer sends more and closes with a reset: the answer cannot be written any more.
        client.sendall(b"".join(encode_request(Request(LAST, opaque=number)) for number in range(3)))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return Response()

    def last(_connection: Connection, request: Request) -> Response:
        served.append(request.opaque)
        return Response()

    async def test() -> None:
        server = Server({FIRST: first, LAST: last})
        port = await server.listen("127.0.0.1", 0)
        await asyncio.get_running_loop().run_in_executor(None, client.connect, ("127.0.0.1", port))
        client.sendall(encode_request(Request(FIRST)))
        try:
            async with asyncio.timeout(10):
                while len(served) < 3 or server.connections:  # noqa: ASYNC110 - the handlers know of no event
                    await asyncio.sleep(0.01)
        finally:
            await server.close()

    with asyncio.Runner(loop_factory=loop) as runner:  # type: ignore[arg-type] # one of two factories
        runner.run(test())
    assert served == [0, 1, 2]
