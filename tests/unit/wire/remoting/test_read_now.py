"""Bytes that are read and written past the loop: in order, and nothing of the loop's is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from litemq import _plain
from litemq.wire.remoting import _receiver_cy

BUILDS = [_receiver_cy, _plain.load_plain("litemq.wire.remoting._receiver_cy")]


class FakeTransport:
    """Keeps what is written through it; the other end is a real socket."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.kept = b""
        self.closing = False
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def is_reading(self) -> bool:
        return self.reading

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def write(self, data: bytes) -> None:
        self.kept += bytes(data)

    def abort(self) -> None:
        self.closing = True


class Scene:
    """A connection that answers each read, and its peer."""

    def __init__(self, build: ModuleType) -> None:
        self.build = build
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.transport = FakeTransport(ours)
        self.answers: list[Any] = [b"answer"]
        self.taken: list[bytes] = []
        self.just_came: list[bool] = []
        shared = bytearray(build.READ_SIZE)
        scene = self

        class Answering(build.Receiver):  # type: ignore[misc, name-defined]
            def take(self, buffer: bytearray, size: int) -> int:
                scene.taken.append(bytes(buffer[:size]))
                scene.just_came.append(self.has_just_come)
                for answer in scene.answers:
                    self.write(answer)
                return size

        self.receiver: Any = Answering(shared, memoryview(shared))
        self.receiver.transport = self.transport
        self.receiver.descriptor = ours.fileno()
        self.others: list[Any] = []
        self._read_first = build.read_first

    def look(self) -> int:
        """Look at all connections."""
        found: int = self._read_first([*self.others, self.receiver], 3)
        return found


@pytest.fixture(params=BUILDS, ids=["here", "plain"])
def scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    made = Scene(request.param)
    yield made
    made.transport.end.close()
    made.peer.close()


def test_what_is_there_is_taken_and_answered_at_once(scene: Scene) -> None:
    assert scene.look() == 0
    scene.peer.sendall(b"request")
    scene.receiver.is_alive = False
    assert scene.look() == 1
    assert scene.taken == [b"request"]
    assert scene.receiver.is_alive
    assert scene.peer.recv(100) == b"answer"
    assert scene.transport.kept == b""


def test_who_is_served_knows_how_its_bytes_were_found(scene: Scene) -> None:
    scene.peer.sendall(b"request")
    scene.look()
    scene.receiver.get_buffer(-1)[:1] = b"x"
    scene.receiver.buffer_updated(1)  # as the loop does
    assert scene.just_came == [True, False]


def test_the_first_that_has_something_is_served(scene: Scene) -> None:
    silent = Scene(scene.build)
    scene.others = [silent.receiver]
    scene.peer.sendall(b"request")
    assert scene.look() == 1
    assert scene.taken == [b"request"]
    assert not silent.taken
    silent.peer.sendall(b"another")
    assert scene.look() == 1
    assert silent.taken == [b"another"]
    silent.transport.end.close()
    silent.peer.close()


@pytest.mark.parametrize("what", ["closing", "paused", "unfinished", "no socket", "gone"])
def test_the_loop_is_left_alone(scene: Scene, what: str) -> None:
    scene.peer.sendall(b"request")
    if what == "closing":
        scene.transport.closing = True
    elif what == "paused":
        scene.transport.reading = False
    elif what == "unfinished":
        scene.receiver.get_buffer(-1)[:1] = b"x"
        scene.receiver.take = lambda _buffer, _size: 0
        scene.receiver.buffer_updated(1)
    elif what == "no socket":
        scene.receiver.descriptor = -1
    else:
        scene.receiver.transport = None
    assert scene.look() == 0
    assert scene.transport.end.recv(100) == b"request"


def test_the_end_is_left_to_the_loop(scene: Scene) -> None:
    scene.peer.close()
    assert scene.look() == 0
    assert not scene.taken
    assert scene.transport.end.recv(100) == b""


def test_what_the_socket_does_not_take_goes_out_in_order(scene: Scene) -> None:
    large = bytes(range(256)) * 16384  # 4 MiB
    scene.answers = [b"first", large, b"third", memoryview(b"fourth")]
    scene.peer.sendall(b"request")
    assert scene.look() == 1
    expected = b"first" + large + b"thirdfourth"
    sent = len(expected) - len(scene.transport.kept)
    assert len(b"first") < sent < len(large)
    received = b""
    while len(received) < sent:
        received += scene.peer.recv(1 << 20)
    assert received + scene.transport.kept == expected


def test_answers_go_behind_what_the_loop_has_yet_to_send(scene: Scene) -> None:
    scene.transport.kept = b"before"
    scene.receiver.write(b"behind")
    assert scene.transport.kept == b"beforebehind"


@pytest.mark.parametrize("data", [b"answer", bytearray(b"answer"), memoryview(b"an answer")[3:]])
def test_answers_are_written_at_once(scene: Scene, data: bytes | bytearray | memoryview) -> None:
    scene.receiver.write(data)
    scene.receiver.write(b"")
    assert scene.peer.recv(100) == b"answer"
    assert scene.transport.kept == b""


def test_without_a_socket_answers_are_the_loops(scene: Scene) -> None:
    scene.receiver.descriptor = -1
    scene.receiver.write(b"answer")
    assert scene.transport.kept == b"answer"


def test_what_cannot_be_served_ends_the_connection(scene: Scene) -> None:
    scene.answers = [3.5]
    scene.transport.write = None  # type: ignore[assignment, method-assign]
    scene.peer.sendall(b"request")
    with pytest.raises(TypeError):
        scene.look()
    assert scene.transport.closing
