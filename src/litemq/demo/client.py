"""A small client of the demo over the remoting protocol: what RocketMQ's clients ask for, in a few words.

LiteMQ's SDK takes its place when it is there.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from litemq.errors import NoAnswer
from litemq.format import properties, record
from litemq.types import Record
from litemq.wire.remoting import bodies
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

_TIMEOUT_S: Final = 10.0
_COMMITS, _PARKS, _HAS_SUBSCRIPTION = 1, 2, 4
_BATCH_HEAD: Final = struct.Struct(
    ">i"  # size
    "i"  # magic, not looked at
    "i"  # checksum, not looked at
    "i"  # flag
    "i"  # size of the body
)
_MASTER: Final = "0"


class Refused(Exception):
    """The broker answered with an error; the text is the broker's."""


class DemoClient:
    """Knows a name server, and through it the one broker that there is."""

    def __init__(self, name_server: str, group: str) -> None:
        self.group = group
        self._names = Client(name_server)
        self._broker: Client | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._names.close()
        if self._broker is not None:
            self._broker.close()

    async def broker(self) -> Client:
        """Return the broker; the name server is asked when it is not known yet."""
        if self._broker is None:
            answer = _checked(await self._names.call(Ask.GET_BROKER_CLUSTER_INFO, {}, timeout_s=_TIMEOUT_S))
            table = bodies.load(answer.body, "the cluster's table")["brokerAddrTable"]
            if not table:
                raise NoAnswer("no broker has registered with the name server yet")
            (found,) = table.values()
            self._broker = Client(found["brokerAddrs"][_MASTER])
        return self._broker

    async def _ask(
        self, code: Ask, ext: dict[str, str], body: bytes = b"", *, timeout_s: float = _TIMEOUT_S
    ) -> Response:
        return await (await self.broker()).call(code, ext, body, timeout_s=timeout_s)

    # -- producing -------------------------------------------------------------------------------

    async def create_topic(self, topic: str, queues: int) -> None:
        """Make a topic."""
        count = str(queues)
        ext = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": count, "writeQueueNums": count, "perm": "6"}
        _checked(await self._ask(Ask.UPDATE_AND_CREATE_TOPIC, {**ext, "topicFilterType": "SINGLE_TAG"}))

    async def send(self, topic: str, queue_id: int, body: bytes, found: Mapping[str, str]) -> None:
        """Send one message; returns when the broker has it."""
        text = properties.write(found.items()).decode()
        _checked(await self._ask(Ask.SEND_MESSAGE_V2, self._header(topic, queue_id, text), body))

    async def send_batch(self, topic: str, queue_id: int, messages: Sequence[tuple[bytes, Mapping[str, str]]]) -> None:
        """Send several messages in one request."""
        header = {**self._header(topic, queue_id, ""), "m": "true"}
        entries = b"".join(_entry(body, found) for body, found in messages)
        _checked(await self._ask(Ask.SEND_BATCH_MESSAGE, header, entries))

    def _header(self, topic: str, queue_id: int, text: str) -> dict[str, str]:
        now = str(time.time_ns() // 1_000_000)
        return {
            "a": self.group,
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue_id),
            "f": "0",
            "g": now,
            "h": "0",
            "i": text,
            "j": "0",
            "k": "false",
            "m": "false",
        }

    # -- consuming -------------------------------------------------------------------------------

    async def heartbeat(self, topic: str, wanted: str) -> None:
        """Join the group, with what it wants of a topic."""
        subscription = {"topic": topic, "subString": wanted, "expressionType": "TAG", "subVersion": 1}
        consumer = {
            "groupName": self.group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        beat = {"clientID": f"demo@{self.group}", "producerDataSet": [], "consumerDataSet": [consumer]}
        _checked(await self._ask(Ask.HEART_BEAT, {}, bodies.dump(beat)))

    async def pull(
        self, topic: str, queue_id: int, offset: int, *, wanted: str = "*", park_ms: int = 2_000
    ) -> tuple[list[Record], int]:
        """Return messages and the next offset; commits the one asked for, and waits for messages up to ``park_ms``."""
        ext = {
            "consumerGroup": self.group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": str(_COMMITS | _PARKS | _HAS_SUBSCRIPTION),
            "commitOffset": str(offset),
            "suspendTimeoutMillis": str(park_ms),
            "subscription": wanted,
            "expressionType": "TAG",
        }
        answer = await self._ask(Ask.PULL_MESSAGE, ext, timeout_s=_TIMEOUT_S + park_ms / 1000)
        if answer.code not in (Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED):
            _checked(answer)
        return list(_records(answer.body)), int(answer.ext["nextBeginOffset"])

    async def send_back(self, failed: Record, *, delay_level: int, max_times: int, error: str) -> None:
        """Ask for a message once more, after a delay; after ``max_times`` it becomes a dead letter."""
        ext = {
            "group": self.group,
            "offset": str(failed.position),
            "delayLevel": str(delay_level),
            "maxReconsumeTimes": str(max_times),
            "lmqError": error,
        }
        _checked(await self._ask(Ask.CONSUMER_SEND_MSG_BACK, ext))


def _checked(answer: Response) -> Response:
    if answer.code != Code.SUCCESS:
        raise Refused(answer.remark or f"the broker answered with code {answer.code}")
    return answer


def _entry(body: bytes, found: Mapping[str, str]) -> bytes:
    """Return one message of a batch."""
    text = properties.write(found.items())
    size = _BATCH_HEAD.size + len(body) + 2 + len(text)
    return b"".join((_BATCH_HEAD.pack(size, 0, 0, 0, len(body)), body, len(text).to_bytes(2, "big"), text))


def _records(body: bytes) -> Iterator[Record]:
    """Yield the messages of an answer to a pull: records of RocketMQ's format, one behind the other."""
    at = 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        position = int.from_bytes(body[at + 28 : at + 36], "big")
        found = record.decode(body[at : at + size], position, "rocketmq")
        if found is not None:
            yield found
        at += size
