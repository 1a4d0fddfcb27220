"""The native load tool against a broker that tells the truth, and against ones that do not."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import pytest
from benchmarks import native
from benchmarks.wire import Client

from litemq.wire.remoting.command import Request, Response, decode, encode_response

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

SEND, MAX_OFFSET, PULL = 310, 30, 11
Change = Callable[[Request, Response], Response | None]


def _truth(_: Request, response: Response) -> Response:
    return response


@dataclass
class FakeBroker:
    """Keeps messages in memory, one thread per connection; ``change`` makes it lie."""

    change: Change = _truth
    queues: dict[int, list[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._arrived = threading.Condition()
        self._is_over = False
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._arrived:
            self._arrived.notify_all()
        for thread in self._threads:
            thread.join()

    def cpu_s(self) -> float:
        return 0.0

    def sync_calls(self) -> int:
        return 0

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        lock, parked = threading.Lock(), list[threading.Thread]()
        with connection, connection.makefile("rb") as file:
            for frame in _frames(file.read):
                request = decode(frame)
                assert isinstance(request, Request)
                if request.code == PULL:  # it may park, and must not hold up the others
                    parked.append(threading.Thread(target=self._reply, args=(connection, lock, request)))
                    parked[-1].start()
                else:
                    self._reply(connection, lock, request)
            with self._arrived:
                self._arrived.notify_all()
            for thread in parked:
                thread.join()

    def _reply(self, connection: socket.socket, lock: threading.Lock, request: Request) -> None:
        response = self.change(request, self._answer(request))
        if response is not None:
            frame = encode_response(response, opaque=response.opaque or request.opaque, codec=request.codec)
            with lock, contextlib.suppress(OSError):  # the tool may have gone
                connection.sendall(frame)

    def _answer(self, request: Request) -> Response:
        with self._arrived:
            if request.code == SEND:
                queue = self.queues.setdefault(int(request.ext["e"]), [])
                queue.append(request.body)
                self._arrived.notify_all()
                return Response(ext={"queueId": request.ext["e"], "queueOffset": str(len(queue) - 1), "msgId": "7F"})
            queue = self.queues.setdefault(int(request.ext["queueId"]), [])
            if request.code == MAX_OFFSET:
                return Response(ext={"offset": str(len(queue))})
            offset = int(request.ext["queueOffset"])
            if int(request.ext["sysFlag"]) & 2:
                self._arrived.wait_for(lambda: len(queue) > offset or self._is_over, 3)
            found = queue[offset : offset + int(request.ext["maxMsgNums"])]
            ext = {"nextBeginOffset": str(offset + len(found)), "minOffset": "0", "maxOffset": str(len(queue))}
            body = b"".join(_record(offset + i, message) for i, message in enumerate(found))
            return Response(0 if found else 19, {**ext, "suggestWhichBrokerId": "0"}, body)


def _frames(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while True:
        try:
            size = read(4)
        except ConnectionResetError:  # the tool left with answers unread
            return
        if len(size) < 4:
            return
        yield size + read(int.from_bytes(size, "big"))


def _record(offset: int, body: bytes) -> bytes:
    middle = struct.pack(">IIIQQIQ8sQ8sIQI", 0, 0, 0, offset, 0, 0, 0, b"", 0, b"", 0, 0, len(body))
    rest = middle + body + b"\x01t" + b"\x00\x00"
    return struct.pack(">II", 8 + len(rest), 0xDAA320A7) + rest


def send(broker: FakeBroker, **options: object) -> native.Found:
    return native.run(broker, "send", port=broker.port, topic="t", queues=4, connections=2, window=8, **options)


@pytest.mark.parametrize("header", ["json", "binary"])
def test_send_and_consume_what_was_sent(header: str) -> None:
    with FakeBroker() as broker:
        found = send(broker, count=2000, header=header, body=64)
        assert (found["sent"], found["answered"], found["bad"], found["refused"]) == (2000, 2000, 0, 0)
        assert [len(broker.queues[queue]) for queue in range(4)] == [500] * 4
        assert {len(body) for queue in broker.queues.values() for body in queue} == {64}
        read = native.run(broker, "consume", port=broker.port, topic="t", queues=4, header=header, **{"from": "0,100"})
        assert (read["measured"], read["bad"]) == (1900, 0)


def _without_offset(request: Request, response: Response) -> Response:
    del request
    return Response(ext={name: value for name, value in response.ext.items() if name != "queueOffset"})


def _to_nobody(_: Request, response: Response) -> Response:
    response.opaque = 7
    return response


@pytest.mark.parametrize("header", ["json", "binary"])
@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (_without_offset, "bad"),
        (lambda _, __: Response(1, remark="no"), "refused"),
    ],
)
def test_send_counts_bad_answers(change: Change, wrong: str, header: str) -> None:
    with FakeBroker(change) as broker:
        found = send(broker, count=100, header=header)
        assert found[wrong] == 100
        assert found["answered"] == 0


def test_send_notices_answers_to_nobody() -> None:
    with FakeBroker(lambda r, a: _to_nobody(r, a) if r.opaque % 10 == 0 else a) as broker:
        found = send(broker, seconds=0.2, warm=0, drain=0.2)
        assert found["bad"] > 0
        assert found["unanswered"] > 0


def test_consume_notices_gaps() -> None:
    def skip(request: Request, response: Response) -> Response:
        if request.code == PULL and response.body:
            size = int.from_bytes(response.body[:4], "big")
            response.body = response.body[size:]
        return response

    with FakeBroker(skip) as broker:
        send(broker, count=400)
        found = native.run(broker, "consume", port=broker.port, topic="t", queues=4)
        assert found["bad"] > 0


@pytest.mark.parametrize("header", ["json", "binary"])
def test_end_to_end_delivers_all_in_time(header: str) -> None:
    with FakeBroker() as broker:
        send(broker, count=40)  # an older backlog is not its business
        found = _end_to_end(broker, header=header)
        assert (found["lost"], found["duplicates"], found["bad"], found["out_of_order"]) == (0, 0, 0, 0)
        assert found["answered"] == found["sent"] == 600
        assert 0 < found["p50_us"] <= found["p99_us"] <= found["max_us"]


def test_end_to_end_notices_doubles() -> None:
    def twice(request: Request, response: Response) -> Response:
        if request.code == PULL:
            response.body *= 2
        return response

    with FakeBroker(twice) as broker:
        assert _end_to_end(broker)["duplicates"] == 600


def test_end_to_end_charges_a_pause_to_all_that_were_due() -> None:
    pause = threading.Event()

    def slow(request: Request, response: Response) -> Response:
        if request.code == SEND and request.body.startswith(b"%016x" % 300):
            pause.wait(0.2)
        return response

    with FakeBroker(slow) as broker:
        found = _end_to_end(broker)
        assert found["max_us"] > 150_000
        assert found["p90_us"] > 10_000  # a hundred of the 500 were due in those 200 ms


def _end_to_end(broker: FakeBroker, **options: object) -> native.Found:
    more = {"rate": 500, "warm": 0.2, "seconds": 1, "body": 32, **options}
    return native.run(broker, "e2e", port=broker.port, topic="t", queues=2, **more)


def test_a_lost_connection_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with FakeBroker() as broker, pytest.raises(native.LoadFailed, match="connect"):
        native.run(broker, "send", port=port, topic="t")


def test_unknown_option_is_an_error() -> None:
    with FakeBroker() as broker, pytest.raises(native.LoadFailed, match="--windows"):
        native.run(broker, "send", port=broker.port, topic="t", windows=3)


def test_the_tiny_client_pipelines() -> None:
    with FakeBroker() as broker, Client(broker.port) as client:
        places = [("t", number % 3) for number in range(300)]
        assert client.send_all(places, b"x") == 300
        assert client.ends("t", 3) == [100, 100, 100]
