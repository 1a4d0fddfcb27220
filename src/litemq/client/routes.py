"""Which broker has which queues of a topic: asked of the name servers, kept for a while."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from litemq.client.answers import error_of, json_object
from litemq.client.net import Net
from litemq.errors import BadFrame, InvalidRequest, LiteMQError, NoAnswer, OutcomeUnknown, Unavailable, UnknownTopic
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response

VARIABLE: Final = "LITEMQ_NAMESERVER"
DEFAULT: Final = "127.0.0.1:9876"
ASKED_S: Final = 2.5
"""Name servers have so long to answer."""
KEPT_S: Final = 30.0
"""So long a route is used before it is asked for again."""
TRUSTED_S: Final = 60.0
"""So long a route outlives what a name server says: one that has just started knows no broker yet."""
GUESS_S: Final = 0.5
"""So long a topic is sent to where it would be made, before name servers are asked whether it was."""
GUESSED_QUEUES: Final = 4
"""Queues that a broker makes for a topic that a send brings."""
TEMPLATE: Final = "TBW102"
"""The topic whose brokers make unknown topics on the first send."""
_READ, _WRITE = 4, 2


@dataclass(frozen=True, slots=True, order=True)
class TopicQueue:
    """One queue of a topic and the broker that has it; applications know it as ``TopicQueue``.

    >>> litemq.TopicQueue("orders", "broker-a", 3).queue_id
    3
    """

    topic: str
    broker: str
    queue_id: int


@dataclass(frozen=True, slots=True)
class Route:
    """A topic's queues; ``addresses`` are its brokers' masters, ``replicas`` what may be read from beside them."""

    topic: str
    writable: tuple[TopicQueue, ...]
    readable: tuple[TopicQueue, ...]
    addresses: dict[str, str]
    replicas: dict[str, tuple[str, ...]]
    asked_at: float
    told_at: float
    """When a name server last told it."""
    zones: dict[str, str]
    """Room of each broker, of those that name one."""


def name_servers(given: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return name servers: those given, else ``LITEMQ_NAMESERVER``, else this machine's.

    >>> name_servers("10.0.0.1:9876; 10.0.0.2:9876")
    ('10.0.0.1:9876', '10.0.0.2:9876')
    """
    if given is None:
        given = os.environ.get(VARIABLE) or DEFAULT
    texts = given.replace(",", ";").split(";") if isinstance(given, str) else given
    found = tuple(text.strip() for text in texts if text.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise InvalidRequest(f"the name server {address!r} must be HOST:PORT, for example {DEFAULT}")
    if not found:
        raise InvalidRequest(f"no name server is given; the default is {DEFAULT}")
    return found


class Routes:
    """Asks name servers, another when one does not answer, and remembers what they say."""

    def __init__(self, net: Net, servers: Sequence[str], *, timeout: float = 3.0) -> None:
        self._net = net
        self._servers = list(servers)
        self._timeout = timeout
        self._known: dict[str, Route] = {}
        self._guessed: dict[str, Route] = {}
        """Where topics are about to be made, that no name server tells of yet."""

    async def ask(self, code: Ask, ext: dict[str, str] | None = None, timeout: float | None = None) -> Response:
        """Ask the name servers; the one that answered is asked first next time.

        Raises:
            Unavailable: none answered.
        """
        failed: LiteMQError | None = None
        end = self._net.now() + min(self._timeout if timeout is None else timeout, ASKED_S)
        servers = list(self._servers)
        for number, server in enumerate(servers):
            left = end - self._net.now()
            if number and left <= 0:
                break
            share = left / (len(servers) - number)  # a silent one leaves time for the others
            try:
                answer = await self._net.call(server, Request(code, dict(ext or {})), max(share, 0.01))
            except (NoAnswer, OutcomeUnknown, BadFrame) as error:
                failed = error
                continue
            if self._servers[0] != server:
                self._servers.remove(server)
                self._servers.insert(0, server)
            return answer
        raise NoAnswer(
            f"no name server answers ({failed}); start one with: litemq up, "
            f"or name yours: nameservers=… or {VARIABLE}=HOST:PORT"
        )

    def fresh(self, topic: str) -> Route | None:
        """Return a topic's route if it need not be asked for."""
        known = self._known.get(topic)
        return known if known is not None and self._net.now() - known.asked_at < KEPT_S else None

    async def find(self, topic: str, *, fresh: bool = False, timeout: float | None = None) -> Route:
        """Return a topic's route, no older than ``KEPT_S``; what is known is used when no name server answers.

        Raises:
            UnknownTopic: no broker has it.
            Unavailable: no name server answered, and nothing is known.
        """
        if not fresh:
            found = self.fresh(topic)
            if found is not None:
                return found
        known = self._known.get(topic)
        now = self._net.now()
        try:
            answer = await self.ask(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout)
        except Unavailable:
            if known is None:
                raise
            return known
        if answer.code == Code.TOPIC_NOT_EXIST:
            if known is not None and now - known.told_at < TRUSTED_S:
                self._known[topic] = replace(known, asked_at=now - KEPT_S + GUESS_S)
                return known
            self._known.pop(topic, None)
            raise UnknownTopic(f"no broker has the topic {topic!r}; make it: litemq topic create {topic}")
        if answer.code != Code.SUCCESS:
            raise error_of(answer, "the name server")
        route = parse_route(topic, json_object(answer), now)
        self._known[topic] = route
        return route

    async def find_for_send(self, topic: str, *, fresh: bool = False, timeout: float | None = None) -> Route:
        """Return where a topic's messages may be sent; an unknown one is made by the first broker that gets one."""
        guessed = self._guessed.get(topic)
        if guessed is not None and not fresh and self._net.now() - guessed.asked_at < GUESS_S:
            return guessed
        try:
            route = await self.find(topic, fresh=fresh, timeout=timeout)
        except UnknownTopic:
            route = self._guessed[topic] = await self._guess(topic, timeout)
        except Unavailable:
            if guessed is None:
                raise
            return guessed
        else:
            self._guessed.pop(topic, None)
        return route

    async def _guess(self, topic: str, timeout: float | None) -> Route:
        """Return where a topic would be made.

        Raises:
            UnknownTopic: nowhere.
        """
        try:
            template = await self.find(TEMPLATE, timeout=timeout)
        except UnknownTopic:
            raise UnknownTopic(
                f"no broker has the topic {topic!r}, and none makes it by itself; make it: litemq topic create {topic}"
            ) from None
        queues = [TopicQueue(topic, one.broker, one.queue_id) for one in template.writable]
        usable = tuple(one for one in queues if one.queue_id < GUESSED_QUEUES)
        return replace(template, topic=topic, writable=usable, readable=(), asked_at=self._net.now())

    def forget(self, topic: str) -> None:
        """Ask anew next time: something said that the route is not what it was; it serves if nobody answers."""
        known = self._known.get(topic)
        if known is not None:
            self._known[topic] = replace(known, asked_at=float("-inf"))


def parse_route(topic: str, found: dict, now: float) -> Route:  # type: ignore[type-arg] # as JSON has it
    """Return the route that a name server tells."""
    addresses: dict[str, str] = {}
    replicas: dict[str, tuple[str, ...]] = {}
    zones: dict[str, str] = {}
    for broker in found.get("brokerDatas") or ():
        members = {int(number): address for number, address in broker["brokerAddrs"].items()}
        if 0 in members:
            addresses[broker["brokerName"]] = members[0]
        replicas[broker["brokerName"]] = tuple(address for number, address in sorted(members.items()) if number)
        if broker.get("zoneName"):
            zones[broker["brokerName"]] = broker["zoneName"]
    writable: list[TopicQueue] = []
    readable: list[TopicQueue] = []
    for queues in sorted(found.get("queueDatas") or (), key=lambda one: one["brokerName"]):
        name = queues["brokerName"]
        if queues["perm"] & _WRITE and name in addresses:
            writable += [TopicQueue(topic, name, number) for number in range(queues["writeQueueNums"])]
        if queues["perm"] & _READ:
            readable += [TopicQueue(topic, name, number) for number in range(queues["readQueueNums"])]
    return Route(topic, tuple(writable), tuple(readable), addresses, replicas, now, now, zones)
