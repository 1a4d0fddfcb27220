"""Both sides of the interoperability tests: the Java and Go clients by lines of JSON, and Python's consumers.

``java/Interop.java`` and ``go/interop.go`` answer to the same words; ``Peer`` speaks them.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.rocketmq import finish, until
from tests.clients.servers import Server

import litemq
from litemq.client._message_cy import OWN_PROPERTIES
from litemq.client.admin import Admin
from litemq.client.dead_letters import DeadLetter
from litemq.client.push import PushConsumer
from litemq.errors import Unavailable, UnknownTopic

PythonConsumer = Callable[..., PushConsumer]
"""Topic, handler, tags, and more arguments by name → a consumer of the test's group, to be started by ``with``."""

Told = tuple[bytes, str | None, tuple[str, ...], dict[str, str], str | None]


@dataclass(frozen=True, slots=True)
class Seen:
    """A message as the other client shows it to its application."""

    topic: str
    body: bytes
    raw_properties: dict[str, str]
    queue_id: int = -1
    queue_offset: int = -1
    size: int = 0
    attempt: int = 1
    message_id: str = ""
    offset_id: str = ""
    born_ms: int = 0
    is_good: bool = True
    """Whether its listener was content with it."""

    @property
    def tags(self) -> str | None:
        """The word that consumers filter by."""
        return self.raw_properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """Words by which it is found."""
        return tuple(self.raw_properties.get("KEYS", "").split())

    @property
    def sharding_key(self) -> str | None:
        """Messages with the same key are in one queue."""
        return self.raw_properties.get("__SHARDINGKEY")

    @property
    def properties(self) -> dict[str, str]:
        """The application's properties."""
        return {name: value for name, value in self.raw_properties.items() if name not in OWN_PROPERTIES}

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> Seen:
        """Return what a line of JSON tells."""
        return cls(
            shown.get("topic", ""),
            base64.b64decode(shown["body"] or ""),
            shown["properties"] or {},
            shown.get("queue", -1),
            shown.get("offset", -1),
            shown.get("size", 0),
            shown.get("attempt", 1),
            shown.get("id", ""),
            shown.get("offsetId", ""),
            shown.get("born", 0),
            shown.get("good", True),
        )


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the other client's message is, as it was told."""

    message_id: str
    broker: str
    queue_id: int
    queue_offset: int


def told(message: litemq.Message | Seen) -> Told:
    """Return what the application that sent a message said: body, tags, keys, properties, sharding key."""
    return message.body, message.tags, message.keys, dict(message.properties), message.sharding_key


class Peer:
    """The process of another language's client."""

    def __init__(self, language: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.language = language
        self._process = process
        self._log = log
        self._listeners = 0
        self._turn = threading.Lock()

    def call(self, op: str, **values: object) -> Any:  # noqa: ANN401 - whatever JSON it answers
        """Have it do something.

        Raises:
            PeerError: what went wrong there.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._turn:
            self._process.stdin.write(json.dumps({"op": op, **values}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        assert line, f"the {self.language} client ended: {self._log.read_text(errors='replace')[-2000:]}"
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer.get("ok")

    def send(self, *messages: litemq.Message, compression: str = "", selector: str = "java") -> list[Placed]:
        """Send messages of one topic, one by one; those with a sharding key to its queue.

        ``selector``: Java's hash of the key, or the client's ``own``.
        """
        values: dict[str, object] = {"topic": messages[0].topic, "selector": selector}
        if compression:
            values["compression"] = compression
        return [placed(each) for each in self.call("send", messages=[plain(each) for each in messages], **values)]

    def batch(self, *messages: litemq.Message) -> Placed:
        """Send messages of one topic as one request; return where the first is, with all ids."""
        return placed(self.call("batch", topic=messages[0].topic, messages=[plain(each) for each in messages]))

    def request(self, message: litemq.Message, seconds: float) -> Seen | None:
        """Send a request and return what answers it; None when that does not come."""
        answer = self.call("request", topic=message.topic, message=plain(message), ms=int(seconds * 1000))
        return None if answer is None else Seen.of(answer)

    @contextmanager
    def listening(self, topic: str, group: str, **how: object) -> Iterator[Listener]:
        """Run a push consumer.

        ``how``: ``tags``, ``ordered``, ``replies``, ``failing`` (body → how often), ``rejects`` (what fails is a dead
        letter), ``hashed`` (Java shares queues by consistent hash).
        """
        self._listeners += 1
        listener = Listener(self, f"listener-{self._listeners}", topic)
        listener.client_id = self.call("listen", name=listener.name, topic=topic, group=group, **how)
        yield listener
        listener.stop()

    def close(self) -> None:
        """End the process."""
        finish(self._process, 5)


class PeerError(Exception):
    """What the other client threw."""


def plain(message: litemq.Message) -> dict[str, object]:
    """Return a message as the other client's process reads it."""
    body, tags, keys, properties, key = told(message)
    found: dict[str, object] = {"body": base64.b64encode(body).decode(), "properties": properties}
    found |= {"tags": tags} if tags is not None else {}
    found |= {"keys": list(keys)} if keys else {}
    found |= {"key": key} if key is not None else {}
    return found


def placed(answer: Mapping[str, Any]) -> Placed:
    """Return where a message is."""
    return Placed(answer["id"], answer["broker"], answer["queue"], answer["offset"])


class Listener:
    """A push consumer of the other client."""

    def __init__(self, peer: Peer, name: str, topic: str) -> None:
        self.name = name
        self._peer = peer
        self._topic = topic
        self._got: list[Seen] = []
        self._is_stopped = False
        self.client_id: str | None = None
        """Java's; Go's client does not tell it."""

    @property
    def got(self) -> list[Seen]:
        """Return what it got until now, tries that failed, too."""
        if not self._is_stopped:
            self._got += [Seen.of(each) for each in self._peer.call("got", name=self.name, after=len(self._got))]
        return list(self._got)

    def queues(self) -> list[int]:
        """Return the queues that it has; Go's client does not tell."""
        found: list[int] = self._peer.call("queues", name=self.name, topic=self._topic)
        return found

    def stop(self) -> None:
        """Leave the group."""
        if not self._is_stopped:
            _ = self.got
            self._is_stopped = True
            self._peer.call("stop", name=self.name)


@dataclass(slots=True)
class Inbox:
    """A handler of Python's that keeps what it gets; the bodies in ``failing`` fail so often."""

    failing: dict[bytes, int] = field(default_factory=dict)
    got: list[litemq.Message] = field(default_factory=list)
    reply: Callable[[litemq.Message], None] | None = None
    _failed: Counter[bytes] = field(default_factory=Counter)

    def __call__(self, message: litemq.Message) -> None:
        """Take a message."""
        self.got.append(message)
        self._failed[message.body] += 1
        if self._failed[message.body] <= self.failing.get(message.body, 0):
            raise litemq.Retry("not yet", delay=0.5)
        if self.reply is not None:
            self.reply(message)


def make_topic(server: Server, name: str, queues: int) -> None:
    """Create a topic; a real RocketMQ listens before it registers."""

    def is_made() -> bool:
        try:
            admin.create_topic(name, queues)
        except Unavailable:
            return False
        return True

    with Admin(server.name_server) as admin:
        until(is_made, "no broker has registered")


def dead_letters(admin: Admin, group: str) -> list[DeadLetter]:
    """Return the dead letters of a group; there is no topic for them before the first one."""
    try:
        return list(admin.dead_letters(group))
    except UnknownTopic:
        return []


def eventually(is_so: Callable[[], object], what: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is so; ``what`` tells how it is instead."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"not within {seconds} s: {what()}"
        time.sleep(0.1)


def wait_for(count: int, box: Listener | Inbox, seconds: float = 60) -> list[Any]:
    """Wait until a consumer got so many messages; return them."""
    eventually(lambda: len(box.got) >= count, lambda: f"{len(box.got)} of {count} messages came: {box.got}", seconds)
    return list(box.got)
