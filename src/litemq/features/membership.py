"""Who is in which group: clients by connection, groups with their members and subscriptions.

Sans-IO: heartbeats, closed connections and time go in, instructions come out.  Rules:

- A member is a connection; a client that has reconnected may have two for a while, and counts once.
- A member leaves with its connection, by unregistering, or after 120 s without a heartbeat that names the group.
- Subscriptions belong to the group: per topic the highest version, and no topic that the newest heartbeat lacks.
- Members are told when one joins or leaves and when a topic comes or goes; broadcast groups are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from litemq.errors import Busy
from litemq.features.groups import Connection, ConsumerGroup, Member, Members
from litemq.features.heartbeat import ConsumerData, Heartbeat, Subscription

EXPIRY_MS: Final = 120_000
SCAN_MS: Final = 10_000
"""How often ``expire`` should be called."""

MAX_MEMBERS: Final = 200_000
"""Places of clients in groups, producers and consumers together."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell these connections that the members or topics of their group changed."""

    group: str
    connections: tuple[Connection, ...]


@dataclass(frozen=True, slots=True)
class GroupAppeared:
    """A consumer group has its first member: it needs its configuration and its retry topic."""

    group: str


@dataclass(frozen=True, slots=True)
class GroupVanished:
    """A consumer group has lost its last member."""

    group: str


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """A client has been silent in every group for too long."""

    connection: Connection


Instruction = Notify | GroupAppeared | GroupVanished | CloseConnection


@dataclass(slots=True)
class _Places:
    """The groups that one connection is in."""

    consumes: set[str] = field(default_factory=set)
    produces: set[str] = field(default_factory=set)


class Membership:
    """All clients of a broker."""

    def __init__(self, limit: int = MAX_MEMBERS) -> None:
        self._limit = limit
        self._count = 0
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, Members] = {}
        self._places: dict[Connection, _Places] = {}
        self._producing = Members()  # in whatever group
        self.version = 0
        """Rises when what groups subscribe to changes."""

    # -- what happens ----------------------------------------------------------------------------

    def heartbeat(
        self, connection: Connection, beat: Heartbeat, *, language: str, version: int, now_ms: int
    ) -> list[Instruction]:
        """Note that a client is alive, and what it wants.

        Raises:
            Busy: there are too many members; nothing changed.
        """
        if self._count + len(beat.producer_groups) + len(beat.consumers) > self._limit and self._newcomers(
            connection, beat
        ):
            raise Busy(f"{self._count} members of groups are here, at most {self._limit} may be")
        places = self._places.setdefault(connection, _Places())
        for group in beat.producer_groups:
            member = Member(connection, beat.client_id, language, version, now_ms)
            self._put_producer(group, member, places)
        instructions: list[Instruction] = []
        for data in beat.consumers:
            member = Member(connection, beat.client_id, language, version, now_ms)
            instructions += self._put_consumer(data, member, places, keep=beat.without_subscriptions)
        return instructions

    def unregister(
        self, connection: Connection, client_id: str, *, producer_group: str = "", consumer_group: str = ""
    ) -> list[Instruction]:
        """Let a client leave groups: on this connection, or on those where it is known, if it is not on this one."""
        producers = self._producers.get(producer_group)
        if producers is not None:
            for each in producers.connections_of(client_id, connection):
                self._remove_producer(producer_group, each)
        consumers = self._consumers.get(consumer_group)
        if consumers is None:
            return []
        return self._remove_consumers(consumer_group, consumers.clients.connections_of(client_id, connection))

    def connection_closed(self, connection: Connection) -> list[Instruction]:
        """Let everything leave that is on a connection."""
        places = self._places.get(connection)
        if places is None:
            return []
        for group in [*places.produces]:
            self._remove_producer(group, connection)
        instructions: list[Instruction] = []
        for group in [*places.consumes]:
            instructions += self._remove_consumers(group, [connection])
        return instructions

    def expire(self, now_ms: int) -> list[Instruction]:
        """Let those leave that were silent for too long."""
        before_ms = now_ms - EXPIRY_MS
        silent: dict[Connection, None] = {}
        for name, producers in [*self._producers.items()]:
            for member in [*producers.by_connection.values()]:
                if member.seen_ms < before_ms:
                    silent[member.connection] = None
                    self._remove_producer(name, member.connection)
        instructions: list[Instruction] = []
        for name, group in [*self._consumers.items()]:
            gone = [member.connection for member in group.clients.by_connection.values() if member.seen_ms < before_ms]
            if gone:
                silent.update(dict.fromkeys(gone))
                instructions += self._remove_consumers(name, gone)
        # One that still beats for another group has only left this one.
        instructions += [CloseConnection(connection) for connection in silent if connection not in self._places]
        return instructions

    # -- what is known ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def consumer_group(self, group: str) -> ConsumerGroup | None:
        """Return a group that has members."""
        return self._consumers.get(group)

    def consumer_groups(self) -> Iterator[ConsumerGroup]:
        """Yield every group that has members."""
        return iter(self._consumers.values())

    def client_ids(self, group: str) -> tuple[str, ...]:
        """Return the members of a consumer group: each client once, sorted."""
        found = self._consumers.get(group)
        return found.client_ids if found is not None else ()

    def find_consumer(self, group: str, client_id: str) -> Connection | None:
        """Return the newest connection of a member."""
        found = self._consumers.get(group)
        return found.clients.find(client_id) if found is not None else None

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """Return what a group wants of a topic."""
        found = self._consumers.get(group)
        return found.subscriptions.get(topic) if found is not None else None

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic."""
        return sorted(name for name, group in self._consumers.items() if topic in group.subscriptions)

    def producers(self, group: str) -> tuple[Member, ...]:
        """Return the members of a producer group: each client once, on its newest connection."""
        found = self._producers.get(group)
        return found.newest() if found is not None else ()

    def producer_groups(self) -> Mapping[str, tuple[Member, ...]]:
        """Return every producer group that has members."""
        return {group: self.producers(group) for group in sorted(self._producers)}

    def find_producer(self, client_id: str) -> Connection | None:
        """Return the newest connection on which a client produces, in whatever group."""
        return self._producing.find(client_id)

    def producer_on(self, connection: Connection) -> str:
        """Return the client that produces on a connection; empty when none has said so."""
        member = self._producing.by_connection.get(connection)
        return member.client_id if member is not None else ""

    # -- bookkeeping -----------------------------------------------------------------------------

    def _newcomers(self, connection: Connection, beat: Heartbeat) -> bool:
        """Return whether a heartbeat would take the count over the limit."""
        places = self._places.get(connection, _Places())
        produces = set(beat.producer_groups) - places.produces
        consumes = {data.group for data in beat.consumers} - places.consumes
        return bool(produces or consumes) and self._count + len(produces) + len(consumes) > self._limit

    def _put_producer(self, group: str, member: Member, places: _Places) -> None:
        self._producers.setdefault(group, Members()).put(member)
        self._producing.put(replace(member))
        if group not in places.produces:
            places.produces.add(group)
            self._count += 1

    def _put_consumer(self, data: ConsumerData, member: Member, places: _Places, *, keep: bool) -> list[Instruction]:
        instructions: list[Instruction] = []
        group = self._consumers.get(data.group)
        if group is None:
            group = ConsumerGroup(data.group, data.consume_type, data.message_model, data.from_where)
            self._consumers[data.group] = group
            instructions.append(GroupAppeared(data.group))
        group.consume_type, group.message_model = data.consume_type, data.message_model
        group.from_where = data.from_where
        changed = group.clients.put(member)
        if data.group not in places.consumes:
            places.consumes.add(data.group)
            self._count += 1
        if not keep:
            before = group.subscriptions.copy()
            changed |= group.take(data)
            self.version += group.subscriptions != before
        if changed and not group.is_broadcast:
            instructions.append(Notify(data.group, group.connections))
        return instructions

    def _remove_producer(self, group: str, connection: Connection) -> None:
        members = self._producers[group]
        members.remove(connection)
        if not members.by_connection:
            del self._producers[group]
        produces = self._places[connection].produces
        produces.discard(group)
        if not produces:
            self._producing.remove(connection)
        self._leave(connection)

    def _remove_consumers(self, name: str, connections: list[Connection]) -> list[Instruction]:
        group = self._consumers[name]
        if not connections:
            return []
        before = len(group.clients.by_client)
        for connection in connections:
            group.clients.remove(connection)
            self._places[connection].consumes.discard(name)
            self._leave(connection)
        if not group.clients.by_connection:
            del self._consumers[name]
            self.version += 1
            return [GroupVanished(name)]
        # A client that is still here on another connection has not left.
        if len(group.clients.by_client) == before or group.is_broadcast:
            return []
        return [Notify(name, group.connections)]

    def _leave(self, connection: Connection) -> None:
        """Count one place less, and forget a connection without any."""
        self._count -= 1
        places = self._places[connection]
        if not places.consumes and not places.produces:
            del self._places[connection]
