"""The core of producers: one message or batch goes to a broker and is answered, whatever that takes.

    choose a queue → send → answered: done
                          → refused for good: error
                          → refused for now, not reached, no answer: again, elsewhere if there is another broker

One deadline holds over all of it.  A message that was sent and not answered may be stored: sending it again may
store it twice, with the same id.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import lz4.frame

from litemq.client._message_cy import Message, check_pair
from litemq.client._sends_cy import Outgoing, Sent, batch_body, batch_frame, queue_fields, sent_list
from litemq.client._sends_cy import send_frame as frame_of
from litemq.client.answers import error_of
from litemq.client.hooks import Hooks
from litemq.client.names import check_name
from litemq.client.net import Net
from litemq.client.queue_choice import Chooser
from litemq.client.routes import Route, Routes, TopicQueue
from litemq.errors import InvalidRequest, LiteMQError, NoAnswer, OutcomeUnknown, RecordTooLarge, Unavailable
from litemq.features.breaker import Breaker
from litemq.format import properties
from litemq.wire.remoting.codes import MAX_BATCH_SIZE, Code
from litemq.wire.remoting.command import Response

Compression = Literal["lz4", "zstd", "zlib"]

_COMPRESSED: Final = {"lz4": 0x101, "zstd": 0x201, "zlib": 0x301}
_STORED: Final = frozenset({Code.SUCCESS, Code.FLUSH_DISK_TIMEOUT, 11, 12})
"""A message is stored, if not as safely as was asked for (10 to 12)."""
_AGAIN: Final = frozenset(
    {Code.SYSTEM_ERROR, Code.SYSTEM_BUSY, Code.SERVICE_NOT_AVAILABLE, Code.TOPIC_NOT_EXIST, Code.NO_PERMISSION}
)
"""Refusals that another broker, or the same a little later, may not repeat."""
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5
_NAMELESS_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class SendSettings:
    """How a producer sends."""

    group: str = "DEFAULT_PRODUCER"
    timeout: float = 3.0
    retries: int = 2
    compression: Compression | None = None
    compress_over: int = 4096

    def __post_init__(self) -> None:
        check_name("group", self.group)
        if self.timeout <= 0:
            raise InvalidRequest(f"timeout is {self.timeout}, it must be above 0 seconds")
        retries: object = self.retries
        if not isinstance(retries, int) or retries < 0:
            raise InvalidRequest(f"retries is {retries!r}, it must be a whole number from 0 on")
        if self.compression is not None and self.compression not in _COMPRESSED:
            raise InvalidRequest(f"compression is {self.compression!r}; choose lz4, zstd or zlib")


def prepare(message: Message, settings: SendSettings) -> Outgoing:
    """Return a message on its way."""
    if message.queue_offset >= 0:  # one that was received: what is the application's goes on
        message = Message(
            message.topic,
            message.body,
            tags=message.tags,
            keys=message.keys,
            properties=message.properties,
            sharding_key=message.sharding_key,
        )
    outgoing = Outgoing(message)
    if settings.compression is not None and len(outgoing.body) > settings.compress_over:
        outgoing.sys_flag = _COMPRESSED[settings.compression]
        outgoing.body = _compress(outgoing.body, settings.compression)
    return outgoing


def _compress(body: bytes, how: Compression) -> bytes:
    if how == "lz4":
        compressed: bytes = lz4.frame.compress(body)
        return compressed
    if how == "zlib":
        return zlib.compress(body, 5)
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore] # Python 3.14
    except ModuleNotFoundError:
        from backports import zstd
    found: bytes = zstd.compress(body)
    return found


class _QueueGone(Unavailable):
    """A topic became smaller, and what was asked for is not there any more."""


class SendCore:
    """Sends, and keeps what it learns: routes, breakers, latencies."""

    def __init__(
        self,
        net: Net,
        routes: Routes,
        settings: SendSettings,
        chooser: Chooser,
        make_breaker: Callable[[], Breaker],
        hooks: Hooks | None,
    ) -> None:
        self.net = net
        self.routes = routes
        self.settings = settings
        self.chooser = chooser
        self._make_breaker = make_breaker
        self._hooks = hooks
        self._breakers: dict[str, Breaker] = {}
        self._fields: dict[TopicQueue, bytes] = {}
        self._checked: set[str] = set()

    def check_topic(self, topic: str) -> None:
        """Refuse a topic that no broker takes."""
        if topic not in self._checked:
            check_name("topic", topic)
            if len(self._checked) > 10_000:
                self._checked.clear()
            self._checked.add(topic)

    def may_use(self, broker: str) -> bool:
        """Return whether a broker's breaker lets a call through."""
        breaker = self._breakers.get(broker)
        return breaker is None or breaker.may(self.net.now())

    async def choose(self, message: Message, deadline: float, avoid: str = "") -> tuple[Route, TopicQueue]:
        """Return a message's queue.

        Raises:
            UnknownTopic: there is none, and none would be made.
            Unavailable: no broker may be used now.
        """
        self.check_topic(message.topic)
        route = self.routes.fresh(message.topic)
        if route is None:
            route = await self.routes.find_for_send(message.topic, timeout=deadline - self.net.now())
        if not route.writable:
            raise Unavailable(
                f"no broker takes messages for the topic {message.topic!r}; look at litemq cluster health"
            )
        all_work = all(breaker.state == "closed" for breaker in self._breakers.values())
        queue = self.chooser.choose(message, route.writable, None if all_work else self.may_use, avoid)
        if queue is None:
            error = Unavailable(
                f"every broker of the topic {message.topic!r} failed too often; it is tried again in a while: "
                "look at litemq cluster health"
            )
            error.retry_after = max(breaker.open_s for breaker in self._breakers.values())
            raise error
        return route, queue

    async def deliver(self, outgoing: list[Outgoing], deadline: float, queue: TopicQueue | None = None) -> list[Sent]:
        """Send messages of one topic, to one queue, as one request; return where they are, in order.

        Raises:
            OutcomeUnknown: they may be stored.
            Unavailable: they are not.
            InvalidRequest: they never will be.
        """
        if self._hooks is None:
            return await self._deliver(outgoing, deadline, queue)
        with self._hooks.sending([one.message for one in outgoing]) as added:
            for name, value in added.items():
                check_pair(name, value)
            text = properties.write(added.items())
            for one in outgoing:
                one.text += text
            return await self._deliver(outgoing, deadline, queue)

    async def _deliver(self, outgoing: list[Outgoing], deadline: float, queue: TopicQueue | None) -> list[Sent]:
        first = outgoing[0].message
        tries, pause, avoid = 0, _FIRST_PAUSE_S, ""
        unknown: LiteMQError | None = None
        while True:
            try:
                route, chosen = await self.choose(first, deadline, avoid)
            except NoAnswer:  # no name server; whoever has a wrong address is told before the time is over
                if self.net.now() + min(_NAMELESS_S, self.settings.timeout / 3) >= deadline:
                    raise
                await self.net.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
                continue
            if queue is not None and tries == 0 and queue.broker in route.addresses:
                chosen = queue
            found = await self._try(route, chosen, outgoing, deadline)
            if not isinstance(found, LiteMQError):
                return found
            if isinstance(found, _QueueGone) and self.net.now() < deadline:
                continue  # nothing failed, and the route is new
            if isinstance(found, OutcomeUnknown):
                unknown = found
            tries += not isinstance(found, NoAnswer)  # what was not sent can be tried as long as there is time
            has_others = len(route.addresses) > 1
            is_last = tries > self.settings.retries or self.net.now() + pause >= deadline
            if has_others or is_last:  # a single broker that starts anew is waited for, not given up
                self._breaker(chosen.broker).failed(self.net.now())
            if is_last:
                raise unknown or found
            avoid = chosen.broker if has_others else ""
            await self.net.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _try(
        self, route: Route, queue: TopicQueue, outgoing: list[Outgoing], deadline: float
    ) -> list[Sent] | LiteMQError:
        """Send once; return where the messages are, or an error after which another try may do better."""
        breaker = self._breaker(queue.broker)
        began = self.net.now()
        breaker.allows(began)
        try:
            answer = await self._ask(route, queue, outgoing, max(deadline - began, 0.001))
        except (NoAnswer, OutcomeUnknown) as error:
            self.routes.forget(queue.topic)
            return error
        took = self.net.now() - began
        self.chooser.answered(queue.broker, took)
        if answer.code in _STORED:
            breaker.succeeded(began + took, took)
            return self._sent(queue, outgoing, answer)
        refusal = _explained(error_of(answer, route.addresses[queue.broker]))
        if answer.code not in _AGAIN:
            breaker.succeeded(began + took, took)  # it works; what it was asked for was wrong
            if answer.code == Code.INVALID_PARAMETER and await self._is_gone(queue, deadline):
                return _QueueGone(str(refusal))
            raise refusal
        if answer.code in (Code.TOPIC_NOT_EXIST, Code.NO_PERMISSION):
            self.routes.forget(queue.topic)
        return refusal

    async def _is_gone(self, queue: TopicQueue, deadline: float) -> bool:
        """Return whether a topic has lost a queue since its route was asked for; the new one is known then."""
        try:
            timeout = max(deadline - self.net.now(), 0.001)
            return queue not in (await self.routes.find_for_send(queue.topic, fresh=True, timeout=timeout)).writable
        except LiteMQError:
            return False

    async def deliver_oneway(self, outgoing: Outgoing, deadline: float) -> None:
        """Send a message and wait for no answer."""
        route, queue = await self.choose(outgoing.message, deadline)
        fields = self._fields_of(queue)

        def frame(opaque: int) -> bytes:
            return frame_of(
                fields, opaque, outgoing.message, outgoing.text, outgoing.sys_flag, outgoing.body, oneway=True
            )

        await self.net.post(route.addresses[queue.broker], frame)

    async def _ask(self, route: Route, queue: TopicQueue, outgoing: list[Outgoing], timeout: float) -> Response:
        fields = self._fields_of(queue)
        if len(outgoing) == 1:
            (one,) = outgoing

            def frame(opaque: int) -> bytes:
                return frame_of(fields, opaque, one.message, one.text, one.sys_flag, one.body)
        else:
            body = batch_body(outgoing)

            def frame(opaque: int) -> bytes:
                return batch_frame(fields, opaque, body)

        return await self.net.exchange(route.addresses[queue.broker], frame, timeout)

    def _fields_of(self, queue: TopicQueue) -> bytes:
        fields = self._fields.get(queue)
        if fields is None:
            if len(self._fields) > 10_000:
                self._fields.clear()
            fields = queue_fields(self.settings.group, queue.topic, queue.queue_id, queue.broker)
            self._fields[queue] = fields
        return fields

    def _breaker(self, broker: str) -> Breaker:
        breaker = self._breakers.get(broker)
        if breaker is None:
            breaker = self._breakers[broker] = self._make_breaker()
        return breaker

    def _sent(self, queue: TopicQueue, outgoing: list[Outgoing], answer: Response) -> list[Sent]:
        offset = int(answer.ext.get("queueOffset") or -1)
        number = int(answer.ext.get("queueId") or queue.queue_id)
        return sent_list(outgoing, queue.topic, queue.broker, number, offset, answer.ext.get("msgId") or "")


def _explained(error: LiteMQError) -> LiteMQError:
    """Say what to do where the server's words leave that open."""
    text = str(error)
    if "fit" in text and "bytes" in text:
        kind = type(error) if not isinstance(error, RecordTooLarge) else InvalidRequest
        with contextlib.suppress(TypeError):
            return kind(f"{text}; send less, or a reference to where it is (the broker's limit: store.max_body_bytes)")
    return error


MAX_BATCH: Final = MAX_BATCH_SIZE - 4096
"""Bytes of the messages of one request."""
