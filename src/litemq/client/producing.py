"""What producers of both faces share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Outgoing, Sent, plain_batch, split_batches
from litemq.client.hooks import Hooks
from litemq.client.net import Net
from litemq.client.queue_choice import Chooser, QueueChoice
from litemq.client.requests import Requester
from litemq.client.routes import Routes, name_servers
from litemq.client.sending import MAX_BATCH, SendCore, SendSettings, prepare
from litemq.client.values import check_count, seconds
from litemq.errors import Closed, InvalidRequest
from litemq.features.breaker import Breaker

GROUP: Final = "DEFAULT_PRODUCER"
BATCH_BYTES: Final = 256 << 10
BUFFER_BYTES: Final = 32 << 20


def make_breaker() -> Breaker:
    """Return what keeps calls from a broker: more than half failed, or took longer than a second, for 30 s."""
    return Breaker(failure_ratio=0.5, min_calls=10, open_s=30.0, slow_s=1.0)


def check_batching(linger: float, batch_bytes: int, buffer_bytes: int) -> None:
    """Refuse what ``send_async`` cannot work with.

    Raises:
        InvalidRequest: says what.
    """
    if linger < 0:
        raise InvalidRequest(f"linger is {linger}, it must be 0 seconds or more")
    check_count("batch_bytes", batch_bytes)
    check_count("buffer_bytes", buffer_bytes)


class Producing:
    """What both faces share: settings, the core, the message that is meant."""

    def __init__(
        self,
        net: Net,
        nameservers: str | Sequence[str] | None,
        settings: SendSettings,
        queue_choice: QueueChoice,
        breaker: Callable[[], Breaker],
        hooks: Hooks | None,
    ) -> None:
        if not callable(breaker):
            raise InvalidRequest(f"breaker must be a function that makes one, not {breaker!r}")
        if hooks is not None and not callable(getattr(hooks, "sending", None)):
            raise InvalidRequest(f"hooks must have a method sending(messages), which {hooks!r} has not")
        self.net = net
        self.settings = settings
        servers = name_servers(nameservers)
        chooser = Chooser(queue_choice)

        def make_core(net: Net) -> SendCore:
            return SendCore(net, Routes(net, servers, timeout=settings.timeout), settings, chooser, breaker, hooks)

        self.make_core = make_core
        self.core = self.make_core(net)
        self.is_closed = False

    def deadline(self, timeout: float | timedelta | None) -> float:
        """Return when a call that begins now must be done."""
        return time.monotonic() + (self.settings.timeout if timeout is None else seconds(timeout))

    def outgoing(self, message: Message) -> Outgoing:
        """Return a message on its way, after a look at everything that can be wrong with it here."""
        if self.is_closed:
            raise Closed("the producer is closed; make a new one")
        if not isinstance(message, Message):
            raise InvalidRequest(f"a message must be a litemq.Message, not {type(message).__name__}")
        self.core.check_topic(message.topic)
        if self.settings.compression is None and message.queue_offset < 0:
            return Outgoing(message)  # what ``prepare`` does with most
        return prepare(message, self.settings)

    def batches(self, messages: Iterable[Message], batch_bytes: int) -> list[list[Outgoing]]:
        """Return the requests that a batch takes."""
        given = messages if isinstance(messages, list) else list(messages)
        if self.settings.compression is None and not self.is_closed:
            found = plain_batch(given)
            if found is not None:
                outgoing, size = found
                if outgoing:
                    self.core.check_topic(outgoing[0].message.topic)
                return [outgoing] if 0 < size <= batch_bytes else split_batches(outgoing, batch_bytes)
        outgoing = [self.outgoing(message) for message in given]
        topics = {one.message.topic for one in outgoing}
        if len(topics) > 1:
            raise InvalidRequest(f"a batch goes to one topic, not to {', '.join(sorted(topics))}; send one for each")
        keys = {one.message.sharding_key for one in outgoing}
        if len(keys) > 1:
            raise InvalidRequest("messages of a batch go to one queue: they must have one sharding key, or none")
        if any(one.sys_flag for one in outgoing):  # a batch's entries cannot say that they are compressed
            for one in outgoing:
                one.sys_flag, one.body = 0, one.message.body
        return split_batches(outgoing, batch_bytes)


def message_of(
    topic: Message | str,
    body: bytes | bytearray | memoryview | None,
    tags: str | None,
    keys: str | Iterable[str],
    properties: Mapping[str, str] | None,
    sharding_key: str | None,
) -> Message:
    """Return the message that the arguments of a send mean."""
    if isinstance(topic, Message):
        if body is not None or tags is not None or keys or properties is not None or sharding_key is not None:
            raise InvalidRequest("give a Message, or a topic and a body, not both")
        return topic
    if body is None:
        raise InvalidRequest("a message needs a body: send(topic, body) or send(Message(topic, body))")
    return Message(topic, body, tags=tags, keys=keys, properties=properties, sharding_key=sharding_key)


async def send_batch(shared: Producing, messages: Iterable[Message], deadline: float) -> list[Sent]:
    """Send what a batch takes, all to one queue."""
    batches = shared.batches(messages, MAX_BATCH)
    if not batches:
        return []
    _, queue = await shared.core.choose(batches[0][0].message, deadline)
    found: list[Sent] = []
    for batch in batches:
        found += await shared.core.deliver(batch, deadline, queue)
    return found


async def close(requester: Requester, net: Net) -> None:
    """End what belongs to an event loop."""
    await requester.close()
    await net.close()
