"""One group: its members, and for consumers what they want."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from litemq.features.heartbeat import ConsumerData, Subscription

Connection = Hashable
"""Whatever the broker tells connections apart by."""


@dataclass(slots=True)
class Member:
    """One client in one group, on one connection."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int


@dataclass(slots=True)
class Members:
    """Clients, by connection and by id."""

    by_connection: dict[Connection, Member] = field(default_factory=dict)
    by_client: dict[str, list[Member]] = field(default_factory=dict)  # the newest connection last

    def put(self, member: Member) -> bool:
        """Add or refresh; return whether a connection joined."""
        known = self.by_connection.get(member.connection)
        if known is not None and known.client_id == member.client_id:
            known.seen_ms, known.language, known.version = member.seen_ms, member.language, member.version
            return False
        if known is not None:
            self.remove(member.connection)
        self.by_connection[member.connection] = member
        self.by_client.setdefault(member.client_id, []).append(member)
        return True

    def remove(self, connection: Connection) -> Member | None:
        """Take a connection out and return what it was."""
        member = self.by_connection.pop(connection, None)
        if member is not None:
            others = self.by_client[member.client_id]
            others.remove(member)
            if not others:
                del self.by_client[member.client_id]
        return member

    def find(self, client_id: str) -> Connection | None:
        """Return the newest connection of a client."""
        found = self.by_client.get(client_id)
        return found[-1].connection if found else None

    def connections_of(self, client_id: str, preferred: Connection) -> list[Connection]:
        """Return the preferred connection if the client is on it, else all that it is on."""
        found = [member.connection for member in self.by_client.get(client_id, ())]
        return [preferred] if preferred in found else found

    def newest(self) -> tuple[Member, ...]:
        """Return each client once, on its newest connection."""
        return tuple(found[-1] for found in self.by_client.values())


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group that has members; treat it as read-only."""

    name: str
    consume_type: str
    message_model: str
    from_where: str
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    clients: Members = field(default_factory=Members)

    @property
    def is_broadcast(self) -> bool:
        """Whether every member reads every queue."""
        return self.message_model == "BROADCASTING"

    @property
    def client_ids(self) -> tuple[str, ...]:
        """Each client once, sorted."""
        return tuple(sorted(self.clients.by_client))

    @property
    def members(self) -> tuple[Member, ...]:
        """Each client once, on its newest connection."""
        return self.clients.newest()

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Every connection, those of clients that have reconnected, too."""
        return tuple(self.clients.by_connection)

    def take(self, data: ConsumerData) -> bool:
        """Take over the subscriptions of a heartbeat; return whether a topic came or went."""
        changed = False
        for subscription in data.subscriptions:
            known = self.subscriptions.get(subscription.topic)
            changed |= known is None
            if known is None or subscription.version > known.version:
                self.subscriptions[subscription.topic] = subscription
        for topic in self.subscriptions.keys() - {subscription.topic for subscription in data.subscriptions}:
            del self.subscriptions[topic]
            changed = True
        return changed
