"""The consumer that the application asks, on an event loop: asyncio's face, and the core of the blocking one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Final

from litemq.client import broker_questions
from litemq.client import consumer_requests as requests
from litemq.client import subscription as wants
from litemq.client._message_cy import Message
from litemq.client.group_member import Deal, GroupMember, check_strategy, new_client_id
from litemq.client.handout import Handout, Place
from litemq.client.names import check_name
from litemq.client.queue_reader import QueueReader, shares
from litemq.client.routes import TopicQueue, name_servers
from litemq.client.subscription import Start, Subscription, Wanted
from litemq.client.values import check_count, seconds
from litemq.errors import Closed, InvalidRequest

NO_GROUP: Final = "TOOLS_CONSUMER"
"""Every broker has this group; nothing is ever committed for it here."""
MAX_POLL: Final = 1 << 20

Seek = Start | Mapping[TopicQueue, int] | Mapping[int, int]
"""Where to go: as ``start``, or offsets by queue, which is named by its number or as a ``TopicQueue``."""


class AsyncPullConsumer:
    """Gives messages to whoever asks for them; see ``PullConsumer``, whose methods are coroutines here."""

    def __init__(
        self,
        group: str | None = None,
        *,
        nameservers: str | Sequence[str] | None = None,
        start: Start = "first",
        prefetch: int = 16_384,
        prefetch_bytes: int = 64 << 20,
        rebalance: Deal | str = "average",
        instance: str = "default",
        room: str = "",
    ) -> None:
        if group is not None:
            check_name("group", group)
        check_count("prefetch", prefetch)
        check_count("prefetch_bytes", prefetch_bytes)
        self.group = group or NO_GROUP
        self._has_group = group is not None
        self._servers = name_servers(nameservers)
        self._start = wants.start_at(start)
        self._prefetch = (prefetch, prefetch_bytes)
        self._deal = check_strategy(rebalance)
        self._client_id = new_client_id(instance, room)
        self._places: dict[TopicQueue, Place] = {}
        self._member: GroupMember | None = None
        self._is_assigned = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._came = asyncio.Event()
        self.out = Handout(self._came.set, self._room)

    # -- which queues ------------------------------------------------------------------------------

    async def subscribe(self, topic: str, wanted: Wanted = "*") -> None:
        """Want a topic's messages: with a group the queues that are this member's share, without one all of them."""
        found = wants.subscription(topic, wanted)
        self._check_open()
        if self._is_assigned:
            raise InvalidRequest("this consumer has queues by assign(); make another one to subscribe")
        if self._member is not None:
            self._member.subscribe([found])
            await self._member.turn()
            return
        await self._begin([found], joins=self._has_group)

    async def assign(self, queues: Iterable[TopicQueue], wanted: Wanted = "*") -> None:
        """Read exactly these queues, whoever else does; no group is joined, though its offsets are used."""
        named = list(queues)
        for queue in named:
            if not isinstance(queue, TopicQueue):
                raise InvalidRequest(f"{queue!r} must be a TopicQueue(topic, broker, queue_id)")
        found = [wants.subscription(topic, wanted) for topic in sorted({queue.topic for queue in named})]
        self._check_open()
        if self._member is not None and not self._is_assigned:
            raise InvalidRequest("this consumer has queues by subscribe(); make another one to assign")
        self._is_assigned = True
        if self._member is None:
            await self._begin(found, joins=False)
        else:
            self._member.subscriptions = {each.topic: each for each in found}
        assert self._member is not None
        for each in found:
            await self._member.learn(each.topic)
        self._own(set(named))

    async def _begin(self, found: list[Subscription], *, joins: bool) -> None:
        self._loop = asyncio.get_running_loop()
        properties = {"PROP_CLIENT_VERSION": "LITEMQ_PYTHON", "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}
        member = GroupMember(
            self._servers,
            self.group,
            self._client_id,
            joins=joins,
            is_push=False,
            is_broadcast=False,
            from_where="CONSUME_FROM_FIRST_OFFSET" if self._start == "first" else "CONSUME_FROM_LAST_OFFSET",
            deal=self._deal,
            on_shares=self._share,
            on_lost=self._lost,
            on_back=lambda: None,
            handlers=broker_questions.handlers(lambda: None if self._is_closed else self, properties),
        )
        member.subscriptions = {each.topic: each for each in found}
        self._member = member
        try:
            await member.start()
        except BaseException:
            self._member = None
            self._is_assigned = False
            for place in self._places.values():
                self._stop(place)
            self._places.clear()
            await member.stop()
            await member.net.close()
            raise

    def _lost(self, _address: str) -> None:
        """Trust nothing that a broker was told before it went: it may have forgotten the last of it."""
        for place in self._places.values():
            place.committed = None

    def _share(self, share: set[TopicQueue]) -> None:
        if not self._is_assigned:
            self._own(share)

    def _own(self, share: set[TopicQueue]) -> None:
        member = self._member
        if self._is_closed or member is None:
            return
        for queue in [queue for queue in self._places if queue not in share]:
            self._stop(self._places.pop(queue))
        for queue in sorted(share - self._places.keys(), key=str):
            place = self._places[queue] = Place(queue, self.out)
            place.reader = QueueReader(
                member, queue, member.subscriptions[queue.topic], place, partial(self._find, place)
            )
        limit = shares(*self._prefetch, len(self._places))
        for place in self._places.values():
            if place.reader is not None:
                place.reader.limit(*limit)
                place.reader.start()

    def _stop(self, place: Place) -> None:
        if place.reader is not None:
            place.reader.stop()
        self.out.drop(place)

    async def _find(self, place: Place) -> int:
        member, queue = self._member, place.queue
        assert member is not None
        address = member.address(queue)
        if self._has_group:
            known = await requests.committed(member.net, address, self.group, queue)
            if known is not None:
                place.committed = known
                return known
        return await requests.first_position(member.net, address, queue, self._start)

    def _room(self, reader: QueueReader) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(reader.look)

    # -- messages ----------------------------------------------------------------------------------

    async def poll(self, max_messages: int = 32, timeout: float | timedelta = 1.0) -> list[Message]:
        """Return messages, as soon as there are any; none when none came in time."""
        self.check_poll(max_messages)
        end = time.monotonic() + seconds(timeout)
        while True:
            self._came.clear()
            found = self.out.take(max_messages)
            if found:
                return found
            self._check_open()
            try:
                async with asyncio.timeout(max(end - time.monotonic(), 0)):
                    await self._came.wait()
            except TimeoutError:
                return []

    async def __aiter__(self) -> AsyncIterator[Message]:
        self.check_poll(1)
        while not self._is_closed:
            self._came.clear()
            rest = self.out.rest()
            if rest is None:
                await self._came.wait()
                continue
            for message in rest:
                yield message

    def check_poll(self, max_messages: int) -> None:
        """Refuse a question that cannot be answered."""
        check_count("max_messages", max_messages)
        self._check_open()
        if self._member is None:
            raise InvalidRequest("nothing is read yet: call subscribe(topic) or assign([TopicQueue(…)]) first")

    # -- offsets -----------------------------------------------------------------------------------

    async def commit(self, message: Message | None = None) -> None:
        """Tell the group's brokers how far it has read: all that was handed out, or up to a message of a queue."""
        self._check_open()
        if not self._has_group:
            raise InvalidRequest("a consumer without a group commits nothing; make one with a group: PullConsumer(…)")
        offsets: dict[Place, int] = {}
        if message is not None:
            given: object = message
            if not isinstance(given, Message) or message.queue_offset < 0:
                raise InvalidRequest(f"commit() takes a message that was received, or nothing, not {message!r}")
            place = self._places.get(TopicQueue(message.topic, message.broker, message.queue_id))
            if place is None:
                raise InvalidRequest(f"{message!r} is of a queue that this consumer does not have (any more)")
            offsets[place] = message.queue_offset + 1
        else:
            for place in self._places.values():
                position = self.out.position(place)
                if position is not None:
                    offsets[place] = position
        told = [self._commit(place, offset) for place, offset in offsets.items() if place.committed != offset]
        for failed in await asyncio.gather(*told, return_exceptions=True):
            if failed is not None:
                raise failed

    async def _commit(self, place: Place, offset: int) -> None:
        member = self._member
        assert member is not None
        await requests.commit(member.net, member.address(place.queue), self.group, place.queue, offset)
        place.committed = offset

    async def seek(self, topic: str, to: Seek) -> None:
        """Go on elsewhere in a topic's queues."""
        self._check_open()
        places = self._of(topic)
        member = self._member
        if not places or member is None:
            raise InvalidRequest(f"no queue of {topic!r} is this consumer's (yet): subscribe, and see assignment")
        if isinstance(to, Mapping):
            offsets = {place: _offset(offset) for queue, offset in to.items() for place in _named(queue, places)}
        else:
            start = wants.start_at(to)
            asked = (requests.end_of(member.net, member.address(one.queue), one.queue, start) for one in places)
            offsets = dict(zip(places, await asyncio.gather(*asked), strict=True))
        for place, offset in offsets.items():
            self._go(place, offset)

    def _go(self, place: Place, offset: int) -> None:
        self.out.drop(place)
        place.position = offset
        if place.reader is not None:
            place.reader.seek(offset)

    async def position(self, topic: str | None = None) -> dict[TopicQueue, int]:
        """Return the offsets behind what was handed out."""
        self._check_open()
        found = {place.queue: self.out.position(place) for place in self._of(topic)}
        return {queue: offset for queue, offset in found.items() if offset is not None}

    async def committed(self, topic: str | None = None) -> dict[TopicQueue, int | None]:
        """Return how far the group has read as the brokers know it."""
        self._check_open()
        member, places = self._member, self._of(topic)
        if not self._has_group or member is None:
            return {place.queue: None for place in places}
        asked = (requests.committed(member.net, member.address(one.queue), self.group, one.queue) for one in places)
        found = await asyncio.gather(*asked)
        return {place.queue: offset for place, offset in zip(places, found, strict=True)}

    async def ends(self, topic: str | None = None) -> dict[TopicQueue, tuple[int, int]]:
        """Return the first offset of each queue, and the one behind its last."""
        self._check_open()
        member, places = self._member, self._of(topic)
        if member is None:
            return {}
        net = member.net
        lows = await asyncio.gather(*(requests.end_of(net, member.address(o.queue), o.queue, "first") for o in places))
        highs = await asyncio.gather(*(requests.end_of(net, member.address(o.queue), o.queue, "last") for o in places))
        return {place.queue: (low, high) for place, low, high in zip(places, lows, highs, strict=True)}

    async def pause(self, what: str | TopicQueue | None = None) -> None:
        """Hand nothing out of a topic, a queue, or at all, until ``resume``; other members do not take it over."""
        self._check_open()
        for place in self._of(what):
            self.out.pause(place)
            if place.reader is not None:
                place.reader.is_paused = True

    async def resume(self, what: str | TopicQueue | None = None) -> None:
        """Hand out again."""
        self._check_open()
        for place in self._of(what):
            self.out.resume(place)
            if place.reader is not None:
                place.reader.is_paused = False
                place.reader.look()

    @property
    def assignment(self) -> frozenset[TopicQueue]:
        """The queues that it reads at present."""
        return frozenset(self._places)

    @property
    def client_id(self) -> str:
        """Who it is in its group."""
        return self._client_id

    def _of(self, what: str | TopicQueue | None) -> list[Place]:
        places = list(self._places.values())
        return [one for one in places if what is None or what in (one.queue, one.queue.topic)]

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("this consumer is closed; make a new one")

    # -- the end -----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Leave the group and close; nothing is committed by it."""
        self._is_closed = True
        self.out.close()
        member, self._member = self._member, None
        if member is None:
            return
        await member.stop()
        for place in self._places.values():
            self._stop(place)
        self._places.clear()
        await member.leave()
        await member.net.close()

    async def __aenter__(self) -> AsyncPullConsumer:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- what brokers ask --------------------------------------------------------------------------

    def places(self) -> Iterable[tuple[TopicQueue, int, int]]:
        """Return queues, how far each is handed out, and how many of its messages are held."""
        for queue, place in self._places.items():
            position = self.out.position(place)
            if position is not None and place.reader is not None:
                yield queue, position, place.reader.held_count

    def wanted(self) -> Mapping[str, Subscription]:
        """Return the subscriptions."""
        return self._member.subscriptions if self._member is not None else {}

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on at offsets that an operator set."""
        for queue, offset in offsets.items():
            if queue in self._places:
                self._go(self._places[queue], offset)

    async def handle_now(self, message: Message) -> BaseException | None:
        """Refuse: nobody here handles messages."""
        return InvalidRequest(f"a pull consumer has no handler for {message!r}")


def _offset(given: object) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise InvalidRequest(f"an offset must be a whole number from 0 on, not {given!r}")
    return given


def _named(queue: TopicQueue | int, places: list[Place]) -> list[Place]:
    found = [place for place in places if queue in (place.queue, place.queue.queue_id)]
    if not found:
        raise InvalidRequest(f"queue {queue!r} is none of this consumer's: {[place.queue for place in places]}")
    return found
