"""``litemq topic`` against a real name server and real brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running, until

from litemq.broker.broker import Broker
from litemq.cli.main import run
from litemq.config import BrokerConfig, NameserverConfig
from litemq.nameserver.server import NameServer
from litemq.wire.remoting.codes import Ask, Code


def _run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


@dataclass
class Cluster:
    """A name server, brokers by the last letter of their names, and the command."""

    server: str
    brokers: dict[str, tuple[Broker, Talk]]
    capture: pytest.CaptureFixture[bytes]

    async def told(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        """Give a command; return the objects that it prints."""
        out, err = await self.said(*arguments, "--json", status=status)
        assert not err
        return [json.loads(line) for line in out.splitlines()]

    async def said(self, *arguments: str, status: int = 0) -> tuple[str, str]:
        found = await asyncio.to_thread(run, ["topic", *arguments, "--name-server", self.server])
        out, err = (text.decode() for text in self.capture.readouterr())
        assert found == status, out + err
        return out, err

    def queues(self, topic: str = "T") -> dict[str, tuple[int, int]]:
        """Return (read, write) queues by broker, as the brokers have it."""
        found = {letter: broker.topics.find(topic) for letter, (broker, _) in self.brokers.items()}
        return {letter: (on.read_queues, on.write_queues) for letter, on in found.items() if on is not None}


@asynccontextmanager
async def cluster(data: Path, letters: str, capture: pytest.CaptureFixture[bytes]) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        server = NameServer(NameserverConfig(port=0))
        await server.start()
        stack.push_async_callback(server.close)
        address = f"127.0.0.1:{server.port}"
        brokers = {}
        for letter in letters:
            config = BrokerConfig(port=0, name=f"broker-{letter}", name_servers=(address,))
            brokers[letter] = await stack.enter_async_context(running(data / letter, config=config))
        await until(lambda: len(server.routes.brokers) == len(letters))
        yield Cluster(address, brokers, capture)


async def _commit(talk: Talk, group: str, queue: int, offset: int) -> None:
    await talk.pull("T", 0, queue=queue, group=group)
    ext = {"consumerGroup": group, "topic": "T", "queueId": str(queue), "commitOffset": str(offset)}
    assert (await talk.call(Ask.UPDATE_CONSUMER_OFFSET, ext)).code == Code.SUCCESS


def test_placement(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async def test() -> None:
        async with cluster(tmp_path, "abc", capfdbinary) as it:
            (told,) = await it.told("create", "T", "--queues", "8")
            brokers = {
                f"broker-{letter}": {"read": count, "write": count}
                for letter, count in zip("abc", (3, 3, 2), strict=True)
            }
            assert told == {"topic": "T", "brokers": brokers, "left": [], "dry_run": False}
            assert it.queues() == {"a": (3, 3), "b": (3, 3), "c": (2, 2)}
            await it.told("create", "X", "--queues", "4", "--placement", "exclusive:broker-b")
            assert it.queues("X") == {"b": (4, 4)}
            await it.told("create", "M", "--placement", "broker-c=4,broker-a=2", "--attribute", "retention.ms=5000")
            assert it.queues("M") == {"a": (2, 2), "c": (4, 4)}
            assert it.brokers["c"][0].topics.known("M").attributes == {"retention.ms": "5000"}
            await it.told("create", "O", "--ordered", "--placement", "exclusive:broker-a")
            assert it.brokers["a"][0].topics.known("O").is_ordered
            assert [one["topic"] for one in await it.told("list")] == ["M", "O", "T", "X"]
            everything = [one["topic"] for one in await it.told("list", "--all")]
            assert {"M", "T", "SELF_TEST_TOPIC", "broker-a"} <= {*everything}
            out, _ = await it.said("list")
            assert [line.split() for line in out.splitlines()][:3] == [
                ["TOPIC", "BROKER", "READ", "WRITE"],
                ["M", "broker-a", "2", "2"],
                ["M", "broker-c", "4", "4"],
            ]

    _run(test())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create", "T", "--placement", "exclusive:broker-x"), "broker-x"),
        (("create", "T", "--placement", "nowhere"), "nowhere"),
        (("create", "T", "--queues", "0"), "--queues"),
        (("create", "T", "--attribute", "x"), "NAME=VALUE"),
        (("create", "T", "--attribute", "retention.ms=soon"), "retention.ms"),
        (("create", "a b"), "' '"),
        (("create", "there"), "is there already"),
        (("alter", "missing", "--queues", "2"), "no topic 'missing'"),
        (("delete", "missing", "--yes"), "no topic 'missing'"),
        (("delete", "SELF_TEST_TOPIC", "--yes"), "broker's own"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: tuple[str, ...], words: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def test() -> None:
        async with cluster(tmp_path, "a", capfdbinary) as it:
            await it.told("create", "there")
            _, err = await it.said(*arguments, status=2)
            assert err.startswith("litemq: error: ")
            assert words in err
            assert err.count("\n") == 1
            assert [one["topic"] for one in await it.told("list")] == ["there"]

    _run(test())


def test_a_name_server_that_is_not_there(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["topic", "list", "--name-server", "127.0.0.1:1"]) == 2
    assert b"127.0.0.1:1 cannot be reached" in capfdbinary.readouterr().err
    assert run(["topic", "list", "--name-server", "nonsense"]) == 2
    assert b"'nonsense' must be HOST:PORT" in capfdbinary.readouterr().err


def test_the_second_name_server_is_asked_when_the_first_is_gone(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def test() -> None:
        async with cluster(tmp_path, "a", capfdbinary) as it:
            it.server = f"127.0.0.1:1;{it.server}"
            await it.told("create", "T", "--queues", "1")
            await it.told("delete", "T", "--yes")
            assert it.queues() == {}

    _run(test())


def test_growing_keeps_messages_and_shrinking_waits_for_readers(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def test() -> None:
        async with cluster(tmp_path, "a", capfdbinary) as it:
            broker, talk = it.brokers["a"]
            await it.told("create", "T", "--queues", "2", "--attribute", "retention.bytes=1000000")
            for queue in (0, 1):
                await talk.send("T", b"x", queue=queue)
            await it.told("alter", "T", "--queues", "6")
            assert it.queues() == {"a": (6, 6)}
            assert broker.topics.known("T").attributes == {"retention.bytes": "1000000"}
            assert [broker.offsets.greatest("T", queue) for queue in range(3)] == [1, 1, 0]
            # Queues that nobody ever used go at once.
            await it.told("alter", "T", "--queues", "3")
            assert it.queues() == {"a": (3, 3)}
            # Producers lose the others; nobody has read them.
            (told,) = await it.told("alter", "T", "--queues", "1", status=1)
            assert it.queues() == {"a": (2, 1)}
            assert told["left"] == [{"broker": "broker-a", "queue": 1, "group": "", "unread": 1}]
            for group in ("g1", "g2"):
                await _commit(talk, group, 1, 0)
            await _commit(talk, "g1", 1, 1)
            out, _ = await it.said("alter", "T", "--queues", "1", status=1)
            assert "left: queue 1 on broker-a: group g2 has 1 messages to read" in out
            await _commit(talk, "g2", 1, 1)
            await it.told("alter", "T", "--queues", "1")
            assert it.queues() == {"a": (1, 1)}
            # Read by all, but producers may know of the queue still: consumers lose it the next time.
            await it.told("alter", "T", "--queues", "2")
            (told,) = await it.told("alter", "T", "--queues", "1", status=1)
            assert told["left"] == [{"broker": "broker-a", "queue": 1, "group": "", "unread": 0}]
            assert it.queues() == {"a": (2, 1)}
            await it.told("alter", "T", "--queues", "1")
            assert it.queues() == {"a": (1, 1)}
            # A queue that comes back has its messages.
            await it.told("alter", "T", "--queues", "2")
            assert broker.offsets.greatest("T", 1) == 1
            assert (await talk.pull("T", 0, queue=1)).code == Code.SUCCESS
            await it.told("alter", "T", "--queues", "1", "--force")
            assert it.queues() == {"a": (1, 1)}

    _run(test())


def test_queues_move_only_when_told_to(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async def test() -> None:
        async with cluster(tmp_path, "ab", capfdbinary) as it:
            await it.told("create", "T", "--queues", "4", "--placement", "exclusive:broker-a")
            await it.told("alter", "T", "--queues", "6")
            assert it.queues() == {"a": (6, 6)}
            await it.brokers["a"][1].send("T", b"x", queue=5)
            (told,) = await it.told("rebalance", "T", status=1)
            assert it.queues() == {"a": (6, 3), "b": (3, 3)}
            assert told["left"] == [{"broker": "broker-a", "queue": 5, "group": "", "unread": 1}]
            await _commit(it.brokers["a"][1], "g", 5, 1)
            (told,) = await it.told("alter", "T", "--queues", "3", "--placement", "exclusive:broker-b")
            assert it.queues() == {"b": (3, 3)}
            (told,) = await it.told("list")
            assert told["brokers"] == {"broker-b": {"read": 3, "write": 3}}
            out, _ = await it.said("delete", "T", "--yes")
            assert "T is on no broker any more" in out
            assert it.queues() == {}

    _run(test())
