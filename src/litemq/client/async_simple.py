"""The consumer with receipts, on an event loop: asyncio's face, and what waits for the blocking one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Final, Literal, Self

from litemq.client import broker_questions
from litemq.client import consumer_requests as requests
from litemq.client import subscription as wants
from litemq.client._message_cy import Message
from litemq.client.chores import Chores
from litemq.client.group_member import new_client_id
from litemq.client.names import check_name
from litemq.client.net import LoopNet, Net
from litemq.client.pop_core import Place, PopCore, Shared
from litemq.client.pop_requests import Pop
from litemq.client.presence import Presence
from litemq.client.routes import TopicQueue, name_servers
from litemq.client.subscription import Subscription, Wanted
from litemq.client.values import check_count, seconds
from litemq.errors import Closed, InvalidRequest, LiteMQError, NotSupported, Unavailable
from litemq.wire.remoting.codes import Ask

PARK_S: Final = 15.0
"""So long a broker keeps a question that finds nothing."""
_AGAIN_S: Final = 0.2
_LOOK_S: Final = 0.5


class AsyncSimpleConsumer:
    """Hands out messages with receipts; see ``SimpleConsumer``, whose methods are coroutines here."""

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, Wanted],
        *,
        nameservers: str | Sequence[str] | None = None,
        start: Literal["first", "last"] = "first",
        ordered: bool = False,
        instance: str = "default",
    ) -> None:
        check_name("group", group)
        given: object = start
        if given not in ("first", "last"):
            raise InvalidRequest(f'start is {start!r}, it must be "first" or "last"')
        self.group = group
        self._wanted = {one.topic: one for one in wants.subscriptions(subscriptions)}
        self._pops = [Pop(group, one, start == "last", ordered) for one in self._wanted.values()]
        self._servers = name_servers(nameservers)
        self._from_where = f"CONSUME_FROM_{start.upper()}_OFFSET"
        self._version = time.time_ns() // 1_000_000
        self._client_id = new_client_id(instance)
        properties = {"PROP_CLIENT_VERSION": "LITEMQ_PYTHON", "PROP_CONSUME_TYPE": "CONSUME_POP"}
        handlers = broker_questions.handlers(lambda: None if self._is_closed else self, properties)
        self._net = LoopNet(
            {Ask.NOTIFY_CONSUMER_IDS_CHANGED: lambda _connection, _request: None, **handlers},
            lambda address: self._presence.on_lost(address),
        )
        self._shared = Shared()
        self._core = self.make_core(self._net)
        self._presence = Presence(self._net, f"consumer group {group}", self._find, self._heartbeat)
        self._told: set[str] = set()
        """Brokers that have heard of this consumer, or were not there to hear."""
        self._telling: asyncio.Task[None] | None = None
        self._is_closed = False
        self._notices: dict[Place, asyncio.Task[bool]] = {}
        self._has_notices = True
        self._chores = Chores()

    def make_core(self, net: Net) -> PopCore:
        """Return a core that takes messages over other connections, for the same consumer."""
        return PopCore(net, self._servers, self._pops, self._shared, self._unknown)

    # -- life --------------------------------------------------------------------------------------

    async def begin(self) -> list[Place]:
        """Return where messages are, when brokers there know who asks: they make the group that they do not know."""
        self.check_open()
        places = await self._core.places()
        fresh = {place.address for place in places} - self._told
        if fresh:
            if self._telling is None or self._telling.done():
                self._telling = asyncio.get_running_loop().create_task(self._presence.turn(is_first=True))
            try:
                await asyncio.shield(self._telling)
            except asyncio.CancelledError:
                self.check_open()
                raise
            self.check_open()
            self._told |= fresh
        self._presence.start()
        return places

    def has_begun(self, places: Iterable[Place]) -> bool:
        """Return whether brokers have heard of this consumer."""
        return all(place.address in self._told for place in places)

    def check_open(self) -> None:
        """Refuse what comes too late."""
        if self._is_closed:
            raise Closed("this consumer is closed; make a new one")

    async def close(self) -> None:
        """Leave the group and close; what is not acknowledged comes again when its time is over."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._presence.stop()
        tasks = [*self._notices.values(), *([self._telling] if self._telling is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._notices.clear()
        self._chores.cancel()
        leaving = (
            requests.unregister(self._net, address, self._client_id, self.group) for address in self._presence.known_to
        )
        for result in await asyncio.gather(*leaving, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, LiteMQError):
                raise result
        await self._net.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """Who it is in its group."""
        return self._client_id

    # -- messages ----------------------------------------------------------------------------------

    async def receive(
        self, max_messages: int = 16, invisible: float | timedelta = 60.0, timeout: float | timedelta = 20.0
    ) -> list[Message]:
        """Return messages, as soon as there are any; none when none came in time."""
        invisible_ms = check_receive(max_messages, invisible)
        end = self._net.now() + seconds(timeout)
        while True:
            places: list[Place] = []
            found: list[Message] = []
            failed: LiteMQError | None = None
            try:
                places = await self.begin()
                found, failed = await self._sweep(places, max_messages, invisible_ms, end)
            except Unavailable as error:
                failed = error
            if found:
                return found
            left = end - self._net.now()
            if left <= 0:
                if failed is not None:
                    raise failed
                return []
            if failed is not None:
                self._presence.hurry()
                await asyncio.sleep(min(left, _AGAIN_S))
            elif not places:
                await asyncio.sleep(min(left, _LOOK_S))
            elif len(places) > 1:
                await self._wait_for_notice(places, left)

    async def _sweep(
        self, places: list[Place], count: int, invisible_ms: int, end: float
    ) -> tuple[list[Message], LiteMQError | None]:
        """Take messages; when the caller is cancelled meanwhile, they go back."""
        wait_ms = max(int(min(end - self._net.now(), PARK_S) * 1000), 0)
        taking = asyncio.ensure_future(self._core.sweep(places, count, invisible_ms, wait_ms))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            self._chores.do(self._give_back(taking))
            raise

    async def _give_back(self, taking: asyncio.Future[tuple[list[Message], LiteMQError | None]]) -> None:
        try:
            with suppress(LiteMQError):
                for message in (await taking)[0]:
                    await self._core.change_invisible(message, 0)
        finally:
            taking.cancel()

    async def _wait_for_notice(self, places: list[Place], left: float) -> None:
        """Wait until one of several places may have something: taking from all at once would be taking too much."""
        if not self._has_notices:
            await asyncio.sleep(min(left, _AGAIN_S))
            return
        for place in [place for place, task in self._notices.items() if task.done() or place not in places]:
            self._notices.pop(place).cancel()
        for place in places:
            if place not in self._notices:
                noticing = place.pop.notice(self._net, place.address, wait_ms=int(PARK_S * 1000))
                self._notices[place] = asyncio.ensure_future(noticing)
        done, _ = await asyncio.wait(self._notices.values(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        self.check_open()
        for task in done:
            error = task.exception()
            if isinstance(error, NotSupported):
                self._has_notices = False
            elif isinstance(error, LiteMQError):
                await asyncio.sleep(min(left, _AGAIN_S))
            elif error is not None:
                raise error

    # -- receipts ----------------------------------------------------------------------------------

    async def ack(self, *messages: Message) -> None:
        """Say that messages are done: they do not come again."""
        self.check_open()
        await self._core.ack(messages)

    async def change_invisible(self, message: Message, invisible: float | timedelta) -> None:
        """Have a message come again so many seconds from now, instead of when ``receive`` said."""
        self.check_open()
        await self._core.change_invisible(message, span_ms(invisible))

    # -- what brokers ask --------------------------------------------------------------------------

    async def _find(self) -> Iterable[str]:
        """Return the brokers that have the topics."""
        return {place.address for place in await self._core.places()}

    def _unknown(self, topic: str) -> None:
        self._presence.warn(topic, f"no broker has the topic {topic!r} yet, asking on; make it: {_how_to(topic)}")

    def _heartbeat(self) -> bytes:
        beat = {
            "clientID": self._client_id,
            "consumerDataSet": [
                {
                    "consumeFromWhere": self._from_where,
                    "consumeType": "CONSUME_POP",
                    "groupName": self.group,
                    "messageModel": "CLUSTERING",
                    "subscriptionDataSet": [one.told(self._version) for one in self._wanted.values()],
                    "unitMode": False,
                }
            ],
            "heartbeatFingerprint": 0,
            "producerDataSet": [],
            "withoutSub": False,
        }
        return json.dumps(beat, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")

    def places(self) -> Iterable[tuple[TopicQueue, int, int]]:
        """Return its queues: none is its own."""
        return ()

    def wanted(self) -> Mapping[str, Subscription]:
        """Return the subscriptions."""
        return self._wanted

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on at offsets that an operator set: brokers do that."""

    async def handle_now(self, message: Message) -> BaseException | None:
        """Refuse a message that an operator sent: nobody here handles any."""
        return InvalidRequest(f"a SimpleConsumer has no handler for {message!r}")


def _how_to(topic: str) -> str:
    return f"litemq topic create {topic}"


def check_receive(max_messages: int, invisible: float | timedelta) -> int:
    """Return the invisible time in milliseconds, after a look at both.

    Raises:
        InvalidRequest: one of them cannot be.
    """
    check_count("max_messages", max_messages)
    found = span_ms(invisible)
    if found == 0:
        raise InvalidRequest(f"invisible is {invisible}, it must be above 0 seconds")
    return found


def span_ms(invisible: float | timedelta) -> int:
    """Return how long a message is invisible.

    Raises:
        InvalidRequest: it is none.
    """
    found = round(seconds(invisible) * 1000)
    if found < 0:
        raise InvalidRequest(f"invisible is {invisible}, it must be 0 seconds or more")
    return found
