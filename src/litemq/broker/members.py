"""Clients of a broker: takes heartbeats in and does what the membership asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from litemq.broker.groups import Groups
from litemq.broker.subscriptions import Filters
from litemq.broker.topics import Topics
from litemq.clock import Clock
from litemq.features.heartbeat import Heartbeat, Subscription
from litemq.features.membership import SCAN_MS, CloseConnection, GroupAppeared, Instruction, Membership, Notify
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.connection import Connection


def _nothing() -> None:
    """Nobody wants to know."""


class Clients:
    """Producers and consumers by group, on their connections."""

    def __init__(self, groups: Groups, topics: Topics, filters: Filters, clock: Clock) -> None:
        self._groups = groups
        self._topics = topics
        self._filters = filters
        self._clock = clock
        self.membership = Membership()
        self._scan_at = 0
        self._version = 0
        self.on_subscriptions: Callable[[], None] = _nothing
        """Called when what groups subscribe to has changed."""

    def heartbeat(self, connection: Connection, beat: Heartbeat) -> None:
        """Note that a client is alive; groups that are new here get their settings and retry topics.

        Raises:
            BadFilter: a subscription cannot be read; nothing changed.
            UnknownGroup: a group is not there and not made by itself.
        """
        for data in beat.consumers:
            for subscription in data.subscriptions:
                self._filters.of(subscription.expression, subscription.kind)
            group = self._groups.for_consumer(data.group)
            if not data.is_broadcast:
                self._topics.for_group(data.group, max(group.retry_queues, 1))
        self._do(
            self.membership.heartbeat(
                connection,
                beat,
                language=connection.language,
                version=connection.version,
                now_ms=self._clock.monotonic_ms(),
            )
        )
        if self.closed not in connection.on_lost:
            connection.on_lost.append(self.closed)

    def unregister(self, connection: Connection, client_id: str, *, producer_group: str, consumer_group: str) -> None:
        """Let a client leave groups."""
        self._do(
            self.membership.unregister(
                connection, client_id, producer_group=producer_group, consumer_group=consumer_group
            )
        )

    def closed(self, connection: Connection) -> None:
        """Let everything leave that is on a connection."""
        self._do(self.membership.connection_closed(connection))

    def tick(self, _now_ms: int) -> None:
        """Let those leave that were silent for too long."""
        now = self._clock.monotonic_ms()
        if now >= self._scan_at:
            self._scan_at = now + SCAN_MS
            self._do(self.membership.expire(now))

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return what a group wants of a topic."""
        return self.membership.subscription(group, topic)

    def consumer(self, group: str, client_id: str) -> Connection | None:
        """Return the connection of a member of a consumer group."""
        found = self.membership.find_consumer(group, client_id)
        return found if isinstance(found, Connection) else None

    def client_id(self, connection: Connection, group: str) -> str:
        """Return who a connection is in a consumer group; empty when it is not in it."""
        found = self.membership.consumer_group(group)
        member = found.clients.by_connection.get(connection) if found is not None else None
        return member.client_id if member is not None else ""

    def producer_id(self, connection: Connection) -> str:
        """Return who sends on a connection: the client id of its heartbeat, else its address."""
        return self.membership.producer_on(connection) or connection.peer

    def producer(self, client_id: str) -> Connection | None:
        """Return the connection on which a client produces."""
        found = self.membership.find_producer(client_id)
        return found if isinstance(found, Connection) else None

    def producers(self, group: str) -> list[Connection]:
        """Return the connections of the members of a producer group, one of each."""
        members = self.membership.producers(group)
        return [member.connection for member in members if isinstance(member.connection, Connection)]

    def _do(self, instructions: Iterable[Instruction]) -> None:
        if self._version != self.membership.version:
            self._version = self.membership.version
            self.on_subscriptions()
        for instruction in instructions:
            match instruction:
                case Notify(group, connections):
                    self._notify(group, connections)
                case CloseConnection(connection) if isinstance(connection, Connection):
                    connection.abort()
                case GroupAppeared():
                    pass  # ``heartbeat`` made it before
                case _:
                    pass

    def _notify(self, group: str, connections: Iterable[object]) -> None:
        settings = self._groups.find(group)
        if settings is not None and not settings.is_notified:
            return
        for connection in connections:
            if isinstance(connection, Connection):
                connection.notify(Ask.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})
