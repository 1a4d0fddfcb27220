"""What tools ask of all brokers: messages by id, key and time, and a queue from one offset to another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from litemq.client._message_cy import Message, decode_messages
from litemq.client.answers import check, error_of, json_object
from litemq.client.net import Net
from litemq.client.routes import Routes, TopicQueue
from litemq.errors import InvalidRequest, NoAnswer, OutcomeUnknown, UnknownTopic
from litemq.format.message_id import parse_offset_id
from litemq.format.names import UNIQ_KEY
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response

TOOL: Final = "TOOLS_CONSUMER"
"""The group in whose name tools read: every broker has it, and it never commits."""
MOST_FOUND: Final = 64
"""Messages that a broker finds by a key at most."""
LATEST: Final = (1 << 63) - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_PAGE: Final = 256
_HAS_SUBSCRIPTION = "4"
_EMPTY: Final = (Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True)
class Place:
    """A queue, the address that answers for it, and the offsets from ``begin`` up to, not including, ``end``."""

    topic: str
    broker: str
    address: str
    queue_id: int
    begin: int = 0
    end: int = 0

    @property
    def ext(self) -> dict[str, str]:
        """The fields that name the queue in requests."""
        return {"topic": self.topic, "queueId": str(self.queue_id)}


def epoch_ms(time: datetime | int, what: str) -> int:
    """Return a point in time as milliseconds since the epoch.

    Raises:
        InvalidRequest: it is none, or has no time zone.
    """
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InvalidRequest(f"{what} is {time}, which has no time zone; give one: datetime(…, tzinfo=UTC)")
        return (time - _EPOCH) // _MS  # exact, which timestamp() is not
    if type(time) is not int:
        raise InvalidRequest(f"{what} is {time!r}; give an aware datetime, or milliseconds since the epoch as int")
    return time


def or_latest(time_ms: int | None) -> int:
    """Return a time, or the end of all times where none is given."""
    return LATEST if time_ms is None else time_ms


class Lookups:
    """Reads for tools, over the masters of a cluster."""

    def __init__(self, net: Net, routes: Routes, timeout: float) -> None:
        self.net = net
        self.routes = routes
        self.timeout = timeout

    async def call(self, address: str, code: Ask, ext: dict[str, str] | None = None, body: bytes = b"") -> Response:
        """Ask a server and return what it says, whatever it is."""
        return await self.net.call(address, Request(code, dict(ext or {}), body), self.timeout)

    async def have(self, address: str, code: Ask, ext: dict[str, str] | None = None, body: bytes = b"") -> Response:
        """Ask a server that must grant it."""
        return check(await self.call(address, code, ext, body), address)

    # -- the cluster -----------------------------------------------------------------------------

    async def brokers(self) -> dict[str, str]:
        """Return broker name → the address that answers for it: the master's, else a replica's."""
        found = json_object(check(await self.routes.ask(Ask.GET_BROKER_CLUSTER_INFO), "the name server"))
        table = found.get("brokerAddrTable") or {}
        named = {name: broker["brokerAddrs"] for name, broker in sorted(table.items())}
        return {name: members[min(members, key=int)] for name, members in named.items() if members}

    async def topics(self) -> list[str]:
        """Return every topic of the cluster: applications' first, then retries, then dead letters.

        Brokers are asked, too: name servers learn of a topic a moment after its first message made it.
        """
        found = json_object(check(await self.routes.ask(Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), "the name server"))
        names = set(found.get("topicList") or ())
        for address in (await self.brokers()).values():
            with suppress(NoAnswer, OutcomeUnknown):  # what it had, the name server has told
                table = json_object(await self.have(address, Ask.GET_ALL_TOPIC_CONFIG))
                names.update(table.get("topicConfigTable") or ())
        return sorted(names, key=lambda name: (name[:1] == "%", name[:2] == "%D", name))

    async def places(self, topic: str) -> list[Place]:
        """Return the queues of a topic that can be read, with where each begins and ends now.

        Raises:
            UnknownTopic: no broker has it.
        """
        return [await self._with_ends(queue, address) for queue, address in await self.queues(topic)]

    async def queues(self, topic: str) -> list[tuple[TopicQueue, str]]:
        """Return the queues of a topic that can be read, and who answers for each.

        Raises:
            UnknownTopic: no broker has it.
        """
        try:
            route = await self.routes.find(topic, fresh=True)
        except UnknownTopic:  # the name server is told a moment after a broker has made one
            found = await self._queues_at_brokers(topic)
            if not found:
                raise
            return found
        addresses = {name: replicas[0] for name, replicas in route.replicas.items() if replicas} | route.addresses
        return [(queue, addresses[queue.broker]) for queue in route.readable if queue.broker in addresses]

    async def _queues_at_brokers(self, topic: str) -> list[tuple[TopicQueue, str]]:
        found: list[tuple[TopicQueue, str]] = []
        for name, address in (await self.brokers()).items():
            answer = await self.call(address, Ask.GET_TOPIC_CONFIG, {"topic": topic})
            if answer.code == Code.SUCCESS:
                count = int(json_object(answer).get("readQueueNums", 0))
                found += [(TopicQueue(topic, name, number), address) for number in range(count)]
        return found

    async def _with_ends(self, queue: TopicQueue, address: str) -> Place:
        place = Place(queue.topic, queue.broker, address, queue.queue_id)
        begin = await self._offset(address, Ask.GET_MIN_OFFSET, place.ext)
        end = await self._offset(address, Ask.GET_MAX_OFFSET, place.ext)
        return replace(place, begin=max(begin, 0), end=max(end, 0))

    async def places_of_known(self, topic: str) -> list[Place]:
        """Return the queues of a topic; none when no broker has it."""
        try:
            return await self.places(topic)
        except UnknownTopic:
            return []

    async def first_since(self, place: Place, time_ms: int) -> int:
        """Return the offset of a queue's first message that was stored then or later."""
        ext = {**place.ext, "timestamp": str(time_ms)}
        return await self._offset(place.address, Ask.SEARCH_OFFSET_BY_TIMESTAMP, ext)

    async def committed(self, group: str, place: Place) -> int | None:
        """Return how far a group has read a queue; None when it never said so."""
        ext = {**place.ext, "consumerGroup": group, "setZeroIfNotFound": "false"}
        answer = await self.call(place.address, Ask.QUERY_CONSUMER_OFFSET, ext)
        if answer.code == Code.QUERY_NOT_FOUND:
            return None
        return int(check(answer, place.address).ext["offset"])

    async def _offset(self, address: str, code: Ask, ext: dict[str, str]) -> int:
        return int((await self.have(address, code, ext)).ext["offset"])

    # -- single messages -------------------------------------------------------------------------

    async def by_offset_id(self, text: str) -> Message | None:
        """Return the message at the place that an offset id names; None when the text is none, or nothing is there.

        Only brokers of the cluster are asked, whatever address the id holds.
        """
        parsed = parse_offset_id(text)
        if parsed is None or parsed[1] < 0:  # most senders' ids have as many digits
            return None
        host, position = parsed
        brokers = await self.brokers()
        for name, address in brokers.items():
            if address == host:
                return await self.at(name, address, position)
        for name, address in brokers.items():  # known under another address than it stores
            found = await self.at(name, address, position)
            if found is not None and found.offset_id == text.upper():
                return found
        return None

    async def at(self, broker: str, address: str, position: int) -> Message | None:
        """Return the message at a position of a broker's log; None when there is none."""
        answer = await self.call(address, Ask.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        if answer.code == Code.SYSTEM_ERROR:  # what both kinds of brokers say of nothing
            return None
        (message,) = decode_messages(check(answer, address).body, broker=broker)
        return message

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        is_id: bool,
        begin_ms: int = 0,
        end_ms: int = LATEST,
        limit: int = MOST_FOUND,
        brokers: Mapping[str, str] | None = None,
    ) -> list[Message]:
        """Return the messages of a topic with a key or a sender's id, oldest first; of more than ``limit`` the newest.

        Raises:
            NoAnswer: a broker did not answer: what it has is not known.
        """
        ext = {
            "topic": topic,
            "key": key,
            "maxNum": str(min(max(limit, 1), MOST_FOUND)),
            "beginTimestamp": str(begin_ms),
            "endTimestamp": str(end_ms),
            "_UNIQUE_KEY_QUERY": "true" if is_id else "false",
        }
        found: list[Message] = []
        for name, address in (await self.brokers() if brokers is None else brokers).items():
            answer = await self.call(address, Ask.QUERY_MESSAGE, ext)
            if answer.code in (Code.QUERY_NOT_FOUND, Code.TOPIC_NOT_EXIST):
                continue
            found += decode_messages(check(answer, address).body, broker=name, topic=topic)
        # Brokers find by hash: what only looks alike is left out here.
        exact = [one for one in found if _has_id(one, key)] if is_id else [one for one in found if key in one.keys]
        return sorted(exact, key=_age)[-limit:]

    async def by_id(self, text: str, topics: Sequence[str]) -> list[Message]:
        """Return the messages that their senders gave this id: those of the first topic that has any.

        Raises:
            NoAnswer: nothing was found, but not every broker answered.
        """
        failed: NoAnswer | OutcomeUnknown | None = None
        brokers = await self.brokers()
        for topic in topics:
            for name, address in brokers.items():
                try:
                    found = await self.by_key(topic, text, is_id=True, brokers={name: address})
                except (NoAnswer, OutcomeUnknown) as error:
                    failed = error
                    continue
                if found:
                    return found
        if failed is not None:
            raise NoAnswer(f"message {text} was not found, but not every broker was asked: {failed}") from failed
        return []

    async def stored_between(self, topic: str, begin_ms: int, end_ms: int, limit: int) -> list[Message]:
        """Return the first messages of a topic that were stored between two times, oldest first."""
        found: list[Message] = []
        for place in await self.places(topic):
            first = await self.first_since(place, begin_ms)
            wanted = replace(place, begin=max(place.begin, first))
            taken = 0
            async for message in self.walk(wanted, end_ms=end_ms):
                if message.stored_ms >= begin_ms:
                    found.append(message)
                    taken += 1
                if taken == limit:
                    break
        return sorted(found, key=_age)[:limit]

    # -- whole queues ----------------------------------------------------------------------------

    async def walk(self, place: Place, *, end_ms: int = LATEST) -> AsyncIterator[Message]:
        """Yield a queue's messages from ``begin`` to ``end``, up to those stored at ``end_ms``."""
        offset = place.begin
        while offset < place.end:
            messages, after = await self.page(place, offset)
            if after <= offset:  # what was there when the walk began is gone
                return
            offset = after
            for message in messages:
                if message.queue_offset >= place.end or message.stored_ms > end_ms:
                    return
                yield message

    async def page(
        self, place: Place, offset: int, *, wanted: str = "*", kind: str = "TAG"
    ) -> tuple[list[Message], int]:
        """Return some messages from an offset on, and where to go on: further on, unless the queue ends there.

        ``wanted`` is an expression of tags, or with the ``kind`` ``SQL92`` of properties.
        """
        ext = {
            **place.ext,
            "consumerGroup": TOOL,
            "queueOffset": str(offset),
            "maxMsgNums": str(_PAGE),
            "sysFlag": _HAS_SUBSCRIPTION,
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": wanted,
            "subVersion": "0",
            "expressionType": kind,
        }
        answer = await self.call(place.address, Ask.PULL_MESSAGE, ext)
        if answer.code not in (Code.SUCCESS, *_EMPTY):
            raise error_of(answer, place.address)
        after = int(answer.ext.get("nextBeginOffset", offset))
        if answer.code != Code.SUCCESS:
            return [], after
        return decode_messages(answer.body, broker=place.broker, topic=place.topic), after


def _has_id(message: Message, text: str) -> bool:
    return message.raw_properties.get(UNIQ_KEY) == text


def _age(message: Message) -> tuple[int, str, int, int]:
    return message.stored_ms, message.broker, message.queue_id, message.queue_offset
