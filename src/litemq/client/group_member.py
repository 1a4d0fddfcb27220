"""One client in a consumer group: keeps routes fresh, tells brokers that it is there, and learns its share of queues.

A task does all of it.  It wakes up when something is due, when a broker says that the group has changed, and when a
connection was lost.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from litemq.client import consumer_requests as requests
from litemq.client.net import LoopNet
from litemq.client.routes import Route, Routes, TopicQueue
from litemq.client.subscription import Subscription
from litemq.errors import InvalidRequest, LiteMQError, NoAnswer, UnknownTopic
from litemq.features.retry import RETRY_PREFIX
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request
from litemq.wire.remoting.connection import Connection, Handlers

logger = logging.getLogger(__name__)

BEAT_S = 30.0
REBALANCE_S = 20.0
_AGAIN_S = 1.0
"""So long what failed waits until it is tried again."""
_SETTLE_S = 2.0
"""A broker that was away does not know all members at once: so long they have time to come back to it."""
_KEPT_S = 60.0
"""So long queues are kept whose broker is in no route any more: it may only be restarting."""
_WARN_S = 30.0
_ROOM = "%room="

Deal = Callable[[Sequence[TopicQueue], Sequence[str], str], Iterable[TopicQueue]]
"""Which of a topic's queues a member reads: queues, all members, this one.  Every member must come to the same result.

Queues and members come sorted."""


class GroupMember:
    """Keeps a client in its group; ``on_shares`` is told the queues that are its own, whenever that is worked out.

    Without ``joins`` it is in no group, and all queues are its own; so they are with ``is_broadcast``.
    """

    def __init__(
        self,
        servers: Sequence[str],
        group: str,
        client_id: str,
        *,
        joins: bool,
        is_push: bool,
        is_broadcast: bool,
        from_where: str,
        deal: Deal | str,
        on_shares: Callable[[set[TopicQueue]], None],
        on_lost: Callable[[str], None],
        on_back: Callable[[], None],
        handlers: Handlers,
    ) -> None:
        self.group = group
        self.client_id = client_id
        self.subscriptions: dict[str, Subscription] = {}
        self.version = int(time.time() * 1000)
        """Of the subscriptions; brokers keep the newest."""
        self.owned: set[TopicQueue] = set()
        self.has_others = False
        """Whether the group had other members when the share was worked out."""
        self.net = LoopNet({Ask.NOTIFY_CONSUMER_IDS_CHANGED: self._on_change, **handlers}, self._on_lost)
        self.routes = Routes(self.net, servers)
        self._joins = joins
        self._is_push = is_push
        self._is_broadcast = is_broadcast
        self._from_where = from_where
        self._deal = deal
        self._on_shares = on_shares
        self._told_lost = on_lost
        self._told_back = on_back
        self._known: dict[str, Route] = {}
        self._beaten: dict[str, float] = {}
        self._was_there: set[str] = set()
        self._gone_since: dict[str, float] = {}
        self._warned: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._is_due = True
        self._are_routes_old = False
        self._settled_at = 0.0
        self._balance_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._turns = asyncio.Lock()

    # -- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Look for brokers, tell them who is there, take the first share, and go on in the background.

        Raises:
            Unavailable: no name server answers.
            InvalidRequest: a broker refuses the group or a filter.
        """
        for topic in self.subscriptions:
            with suppress(UnknownTopic):
                self._known[topic] = await self.routes.find(topic)
        await self._check_filters()
        await self._turn(is_first=True)
        self._task = asyncio.create_task(self._run(), name=f"litemq-member-{self.group}")

    async def stop(self) -> None:
        """Do nothing any more; ``leave`` and ``net.close`` come after it."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def leave(self) -> None:
        """Leave the group on every broker that can be reached."""
        if not self._joins:
            return
        leaving = (requests.unregister(self.net, address, self.client_id, self.group) for address in self._beaten)
        for result in await asyncio.gather(*leaving, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, LiteMQError):
                raise result

    def subscribe(self, wanted: Iterable[Subscription]) -> None:
        """Want these topics, too; brokers learn of it soon."""
        for each in wanted:
            self.subscriptions[each.topic] = each
        self.version = max(int(time.time() * 1000), self.version + 1)
        self._beaten = dict.fromkeys(self._beaten, -BEAT_S)
        self.rebalance()

    def rebalance(self) -> None:
        """Work the share out anew, soon."""
        self._is_due = True
        self._wake.set()

    def suspect(self) -> None:
        """Ask for routes anew, soon: a broker did not answer, or does not know a queue."""
        self._are_routes_old = True
        self._wake.set()

    async def turn(self) -> None:
        """Do now what is due."""
        await self._turn()

    # -- what is known of brokers ----------------------------------------------------------------

    async def learn(self, topic: str) -> Route:
        """Return a topic's route; asked for when it is not known."""
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = await self.routes.find(topic)
        return found

    def route(self, topic: str) -> Route | None:
        """Return what is known of a topic."""
        return self._known.get(topic)

    def address(self, queue: TopicQueue) -> str:
        """Return where a queue may be read: at its master, else at a replica.

        Raises:
            NoAnswer: nobody has it now.
        """
        route = self._known.get(queue.topic)
        found = route.addresses.get(queue.broker) if route is not None else None
        if found is None and route is not None and route.replicas.get(queue.broker):
            found = route.replicas[queue.broker][0]
        if found is None:
            raise NoAnswer(f"no address of {queue.broker} is known, which has queue {queue.queue_id} of {queue.topic}")
        return found

    def address_of(self, broker: str) -> str:
        """Return the address of a broker.

        Raises:
            NoAnswer: it is not known.
        """
        for route in self._known.values():
            if broker in route.addresses:
                return route.addresses[broker]
        raise NoAnswer(f"no address of {broker} is known")

    # -- the broker's calls ------------------------------------------------------------------------

    def _on_change(self, _connection: Connection, _request: Request) -> None:
        self.rebalance()

    def _on_lost(self, address: str) -> None:
        self._beaten.pop(address, None)
        self._wake.set()
        self._told_lost(address)

    # -- the task ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._turn()
            except LiteMQError as error:
                self.warn("turn", f"{error}")
            except Exception:
                logger.exception("consumer group %s: an error that nobody foresaw", self.group)
                await asyncio.sleep(_AGAIN_S)

    def _pause(self) -> float:
        """Return how long nothing is due."""
        now = self.net.now()
        if self._wake.is_set():
            return 0.0
        due = [self._balance_at if not self._is_due else max(self._settled_at, now + 0.05)]
        if any(not self._has_queues(topic) for topic in self.subscriptions) or self._missing():
            due.append(now + _AGAIN_S)
        due += [at + BEAT_S for at in self._beaten.values()]
        return max(min(due) - now, 0.02)

    def _has_queues(self, topic: str) -> bool:
        route = self._known.get(topic)
        return route is not None and bool(route.readable)

    def _missing(self) -> set[str]:
        return self._addresses() - self._beaten.keys() if self._joins else set()

    def _addresses(self) -> set[str]:
        found: set[str] = set()
        for route in self._known.values():
            found |= set(route.addresses.values())
            for broker, others in route.replicas.items():
                if broker not in route.addresses:
                    found |= set(others[:1])
        return found

    async def _turn(self, *, is_first: bool = False) -> None:
        async with self._turns:
            await self._refresh()
            if self._joins:
                await self._beat(is_first=is_first)
            now = self.net.now()
            is_settled = now >= self._settled_at or not self.owned
            if not self._is_due and now < self._balance_at:
                return
            if not await self._balance(may_gain=is_settled):
                self._is_due, self._settled_at = True, max(self._settled_at, now + _AGAIN_S)
            elif is_settled:
                self._is_due, self._balance_at = False, now + REBALANCE_S
            else:
                self._is_due, self._balance_at = True, self._settled_at

    async def _refresh(self) -> None:
        """Look for routes that are too old, and for topics that were not there."""
        is_old, self._are_routes_old = self._are_routes_old, False
        for topic in list(self.subscriptions):
            known = self._known.get(topic)
            try:
                route = await self.routes.find(topic, fresh=is_old)
            except UnknownTopic:
                if not topic.startswith(RETRY_PREFIX):
                    self.warn(topic, f"no broker has the topic {topic!r} yet, asking on; make it: {_how_to(topic)}")
                continue
            except LiteMQError as error:
                self.warn("names", f"{error}")
                continue
            self._known[topic] = route
            if known is None or known.readable != route.readable:
                self._is_due = True

    async def _beat(self, *, is_first: bool) -> None:
        """Tell brokers who is there: all of them every ``BEAT_S``, at once one that is new or came back."""
        now = self.net.now()
        due = [address for address in self._addresses() if now - self._beaten.get(address, -BEAT_S) >= BEAT_S]
        if not due:
            return
        body = requests.heartbeat_body(
            self.client_id,
            self.group,
            self.subscriptions.values(),
            version=self.version,
            is_push=self._is_push,
            is_broadcast=self._is_broadcast,
            from_where=self._from_where,
        )
        beats = (requests.heartbeat(self.net, address, body) for address in due)
        for address, result in zip(due, await asyncio.gather(*beats, return_exceptions=True), strict=True):
            if result is None:
                self._arrived(address, now)
                continue
            self._beaten.pop(address, None)
            if not isinstance(result, LiteMQError) or (is_first and isinstance(result, InvalidRequest)):
                raise result
            self.warn(address, f"heartbeat failed, trying on: {result}")

    def _arrived(self, address: str, now: float) -> None:
        if address not in self._beaten:
            self._is_due = True
            if address in self._was_there:
                self._settled_at = now + _SETTLE_S
                logger.info("broker is back: group=%s address=%s", self.group, address)
                self._told_back()
            self._was_there.add(address)
        self._beaten[address] = now

    async def _balance(self, *, may_gain: bool) -> bool:
        """Work out the share; return whether it was possible.

        Without ``may_gain`` it only becomes smaller: a member that is missing may be about to come back, but one that
        is there shall have its queues.
        """
        if self._joins and not self._is_broadcast:
            members = await self._members()
            if members is None:
                return False
        else:
            members = [self.client_id]
        self.has_others = len(members) > 1
        share: set[TopicQueue] = set()
        for topic in self.subscriptions:
            route = self._known.get(topic)
            if route is not None:
                share.update(self._share_of(route, members))
        share |= self._still_kept()
        if not may_gain:
            share &= self.owned
        self.owned = share
        self._on_shares(share)
        return True

    def _share_of(self, route: Route, members: list[str]) -> Iterable[TopicQueue]:
        if len(members) == 1:
            return route.readable
        deal = self._deal
        if isinstance(deal, str):
            deal = strategy(deal, route.zones)
        dealt = set(deal(route.readable, members, self.client_id))
        return [queue for queue in route.readable if queue in dealt]

    def _still_kept(self) -> set[TopicQueue]:
        """Return queues of this client whose broker is in no route at present."""
        now = self.net.now()
        kept = set()
        for queue in self.owned:
            route = self._known.get(queue.topic)
            if queue.topic not in self.subscriptions or route is None or queue.broker in route.replicas:
                self._gone_since.pop(queue.broker, None)
            elif now - self._gone_since.setdefault(queue.broker, now) < _KEPT_S:
                kept.add(queue)
        return kept

    async def _members(self) -> list[str] | None:
        """Return the members as all brokers together know them; None when that cannot be said now."""
        asked = (requests.members(self.net, address, self.group) for address in self._beaten)
        found: set[str] = set()
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(result, list):
                found.update(result)
            elif result is not None and not isinstance(result, LiteMQError):
                raise result
        return sorted(found) if self.client_id in found else None

    async def _check_filters(self) -> None:
        """Ask a broker whether it takes expressions over properties."""
        for each in self.subscriptions.values():
            route = self._known.get(each.topic)
            if each.is_sql and route is not None:
                for address in route.addresses.values():
                    try:
                        await requests.check_filter(self.net, address, self.client_id, self.group, each)
                    except NoAnswer:
                        continue
                    break

    def warn(self, subject: str, text: str) -> None:
        """Say what is wrong, not more often than it helps."""
        now = self.net.now()
        if now - self._warned.get(subject, -_WARN_S) >= _WARN_S:
            self._warned[subject] = now
            logger.warning("consumer %s of group %s: %s", self.client_id, self.group, text)


def _how_to(topic: str) -> str:
    return f"litemq topic create {topic}"


def new_client_id(instance: str, room: str = "") -> str:
    """Return a name that no other client has; the room, if there is one, stands at its end."""
    try:
        host = socket.gethostbyname(socket.gethostname())
    except OSError:
        host = "127.0.0.1"
    return f"{host}@{instance}#{os.getpid()}#{secrets.token_hex(4)}{_ROOM + room if room else ''}"


def room_of(client_id: str) -> str:
    """Return the room that a client id names; empty: none."""
    return client_id.rpartition(_ROOM)[2] if _ROOM in client_id else ""


def strategy(name: str, zones: dict[str, str]) -> Deal:
    """Return a way to deal queues by its name; ``zones`` are the rooms of brokers."""
    from litemq.features import rebalance

    if name == "consistent-hash":
        return lambda queues, members, member: rebalance.consistent_hash(queues, members, member, key=_in_java)
    if name == "same-room":
        return lambda queues, members, member: rebalance.same_room(
            queues, members, member, room_of_queue=lambda queue: zones.get(queue.broker, ""), room_of_member=room_of
        )
    return rebalance.average


def _in_java(queue: TopicQueue) -> str:
    """Return a queue as Java's clients write it: its hash decides who reads it, in mixed groups, too."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"


STRATEGIES = ("average", "consistent-hash", "same-room")


def check_strategy(given: Deal | str) -> Deal | str:
    """Return a way to deal queues.

    Raises:
        InvalidRequest: there is none of this name.
    """
    if callable(given) or given in STRATEGIES:
        return given
    raise InvalidRequest(f"rebalance={given!r} must be one of {', '.join(STRATEGIES)}, or a function")
