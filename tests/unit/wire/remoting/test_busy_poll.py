"""When a loop stays awake for the next request, and when it sleeps."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from litemq import _plain
from litemq.wire.remoting import _busy_poll_cy
from litemq.wire.remoting._busy_poll_cy import SOURCES, STREAK
from litemq.wire.remoting._receiver_cy import Receiver

BUILDS = [_busy_poll_cy, _plain.load_plain("litemq.wire.remoting._busy_poll_cy")]
LIMIT_US = 100


class FakeLoop:
    """Keeps what is called soon."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> bool:
        """Run what was called soon; return whether there was anything: else a loop would sleep."""
        due, self.soon = self.soon, []
        for callback in due:
            callback()
        return bool(due)


class FakeConnection(Receiver):
    """Counts how often it is looked at."""

    def __init__(self) -> None:
        super().__init__(bytearray(1), memoryview(bytearray(1)))
        self.looks = 0

    def may_read_now(self) -> bool:
        self.looks += 1
        return False


class Scene:
    """A loop, a clock and what is tested."""

    def __init__(self, build: ModuleType, limit_us: int = LIMIT_US) -> None:
        self.now_us = 1000
        self.loop = FakeLoop()
        self.connection = FakeConnection()
        self.poll: Any = build.BusyPoll(self.loop, limit_us, lambda: self.now_us * 1000)

    def requests(
        self, number: int, gap_us: int, count: int = 1, connections: tuple[FakeConnection, ...] | None = None
    ) -> None:
        """Let reads come, each of ``count`` requests, from one connection after the other."""
        connections = connections or (self.connection,)
        for i in range(number):
            self.now_us += gap_us
            self.poll.note(count, connections[i % len(connections)])


@pytest.fixture(params=BUILDS, ids=["here", "plain"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(request.param)


def test_a_streak_of_single_requests_keeps_the_loop_awake_until_none_comes(scene: Scene) -> None:
    scene.requests(1, 500_000)
    scene.requests(STREAK - 1, 30)
    assert not scene.loop.soon
    scene.requests(1, 30)
    assert scene.poll.is_awake
    for _ in range(8):
        scene.now_us += 10
        assert scene.loop.turn()
    assert scene.poll.is_awake
    scene.requests(1, LIMIT_US - 80)  # just in time
    scene.now_us += LIMIT_US
    assert scene.loop.turn()
    scene.now_us += 1
    assert scene.loop.turn()
    assert not scene.poll.is_awake
    assert not scene.loop.turn()
    assert scene.poll.turns == 10


@pytest.mark.parametrize(
    ("gap_us", "count"), [(5, 1), (LIMIT_US + 1, 1), (30, 2), (30, 0)], ids=["fast", "rare", "pipelined", "partial"]
)
def test_other_requests_never_do(scene: Scene, gap_us: int, count: int) -> None:
    scene.requests(10 * STREAK, gap_us, count)
    assert not scene.loop.soon


def test_requests_that_follow_at_once_change_nothing(scene: Scene) -> None:
    scene.requests(2 * STREAK, 30)
    scene.requests(STREAK, 5)
    scene.loop.turn()
    assert scene.poll.is_awake


@pytest.mark.parametrize(("gap_us", "count"), [(LIMIT_US + 1, 1), (30, 2)])
def test_one_other_request_ends_a_streak(scene: Scene, gap_us: int, count: int) -> None:
    scene.requests(2 * STREAK, 30)
    assert scene.poll.is_awake
    scene.requests(1, gap_us, count)
    scene.loop.turn()
    assert not scene.poll.is_awake
    scene.requests(STREAK - 1, 30)
    assert not scene.poll.is_awake


@pytest.mark.parametrize("build", BUILDS, ids=["here", "plain"])
def test_it_can_be_switched_off(build: ModuleType) -> None:
    scene = Scene(build, limit_us=0)
    scene.requests(10 * STREAK, 30)
    assert not scene.loop.soon


def test_the_sockets_of_few_connections_are_looked_at(scene: Scene) -> None:
    few = tuple(FakeConnection() for _ in range(SOURCES))
    scene.requests(3 * STREAK, 30, connections=few)
    for _ in range(5):
        scene.loop.turn()
    assert [connection.looks for connection in few] == [5] * SOURCES
    scene.requests(3 * STREAK, 30, connections=(*few, scene.connection))
    scene.loop.turn()
    assert scene.poll.is_awake
    assert [connection.looks for connection in few] == [5] * SOURCES, "one too many: the loop looks at all"
    scene.requests(3 * STREAK, 30)
    scene.loop.turn()
    assert scene.connection.looks == 1


def test_connections_are_forgotten_when_the_loop_sleeps(scene: Scene) -> None:
    scene.requests(2 * STREAK, 30)
    scene.now_us += LIMIT_US + 1
    assert scene.loop.turn()
    before = scene.connection.looks
    scene.requests(2 * STREAK, 30, connections=(FakeConnection(),))
    assert scene.loop.turn()
    assert scene.connection.looks == before


def test_a_lost_connection_is_let_go(scene: Scene) -> None:
    other = FakeConnection()
    scene.requests(2 * STREAK, 30, connections=(scene.connection, other))
    scene.poll.forget(scene.connection)
    scene.poll.forget(scene.connection)
    scene.loop.turn()
    assert (scene.connection.looks, other.looks) == (0, 1)


def test_a_look_that_fails_ends_nothing(scene: Scene) -> None:
    class Broken(FakeConnection):
        def may_read_now(self) -> bool:
            raise ValueError("broken")

    scene.requests(2 * STREAK, 30, connections=(Broken(),))
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            scene.loop.turn()
    assert scene.poll.is_awake
