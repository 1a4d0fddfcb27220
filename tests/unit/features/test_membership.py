"""Who is in which group, who must be told, and that nothing is left behind."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from litemq.errors import Busy
from litemq.features.heartbeat import ConsumerData, Heartbeat, Subscription
from litemq.features.membership import (
    EXPIRY_MS,
    CloseConnection,
    GroupAppeared,
    GroupVanished,
    Instruction,
    Membership,
    Notify,
)


def consumer(*topics: str, group: str = "g", version: int = 1, model: str = "CLUSTERING") -> ConsumerData:
    subscriptions = tuple(Subscription(topic, version=version) for topic in topics)
    return ConsumerData(group, subscriptions, message_model=model)


def beat(
    membership: Membership, connection: int, client: str, *consumers: ConsumerData, now_ms: int = 0, **more: bool
) -> list[Instruction]:
    heartbeat = Heartbeat(client, consumers=consumers, without_subscriptions=more.get("without", False))
    return membership.heartbeat(connection, heartbeat, language="JAVA", version=493, now_ms=now_ms)


def produce(membership: Membership, connection: int, client: str, *groups: str, now_ms: int = 0) -> None:
    told = membership.heartbeat(connection, Heartbeat(client, groups), language="GO", version=1, now_ms=now_ms)
    assert told == []


def test_joining() -> None:
    membership = Membership()
    assert beat(membership, 1, "b", consumer("t")) == [GroupAppeared("g"), Notify("g", (1,))]
    assert beat(membership, 1, "b", consumer("t")) == []
    assert beat(membership, 2, "a", consumer("t")) == [Notify("g", (1, 2))]
    assert membership.client_ids("g") == ("a", "b")
    assert membership.client_ids("other") == ()
    assert membership.find_consumer("g", "a") == 2
    assert membership.find_consumer("g", "c") is None
    group = membership.consumer_group("g")
    assert group is not None
    assert [(each.client_id, each.language, each.version) for each in group.members] == [
        ("b", "JAVA", 493),
        ("a", "JAVA", 493),
    ]
    assert (group.consume_type, group.message_model, group.from_where) == (
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
    )
    assert list(membership.consumer_groups()) == [group]


def test_leaving() -> None:
    membership = Membership()
    for connection, client in ((1, "a"), (2, "b"), (3, "c")):
        beat(membership, connection, client, consumer("t"))
    assert membership.connection_closed(1) == [Notify("g", (2, 3))]
    assert membership.connection_closed(1) == []
    assert membership.unregister(2, "b", consumer_group="g") == [Notify("g", (3,))]
    assert membership.unregister(2, "b", consumer_group="g") == []
    assert membership.unregister(3, "c", consumer_group="g") == [GroupVanished("g")]
    assert membership.unregister(3, "c", consumer_group="g", producer_group="p") == []
    assert len(membership) == 0


def test_a_client_that_reconnects_counts_once() -> None:
    membership = Membership()
    beat(membership, 1, "a", consumer("t"))
    beat(membership, 2, "b", consumer("t"))
    assert beat(membership, 3, "a", consumer("t")) == [Notify("g", (1, 2, 3))]
    assert membership.client_ids("g") == ("a", "b")
    assert membership.find_consumer("g", "a") == 3
    assert membership.connection_closed(1) == []  # nobody has left
    assert membership.client_ids("g") == ("a", "b")
    assert membership.connection_closed(3) == [Notify("g", (2,))]


def test_unregistering_takes_this_connection_or_else_all() -> None:
    membership = Membership()
    for connection in (1, 2, 3):
        beat(membership, connection, "a", consumer("t"))
    assert membership.unregister(2, "a", consumer_group="g") == []
    assert membership.find_consumer("g", "a") == 3
    assert membership.unregister(9, "a", consumer_group="g") == [GroupVanished("g")]


def test_a_connection_that_changes_its_id() -> None:
    membership = Membership()
    beat(membership, 1, "a", consumer("t"))
    assert beat(membership, 1, "b", consumer("t")) == [Notify("g", (1,))]
    assert membership.client_ids("g") == ("b",)
    assert len(membership) == 1
    produce(membership, 2, "a", "p")
    produce(membership, 2, "b", "p")
    assert membership.find_producer("a") is None
    assert membership.find_producer("b") == 2


def test_subscriptions() -> None:
    membership = Membership()
    beat(membership, 1, "a", consumer("t", "u", version=5))
    assert membership.subscription("g", "t") == Subscription("t", version=5)
    assert membership.groups_of("u") == ["g"]
    assert beat(membership, 1, "a", consumer("t", "u", version=4)) == []
    assert membership.subscription("g", "t") == Subscription("t", version=5)
    assert beat(membership, 1, "a", consumer("t", "u", version=6)) == []  # clients know what they want
    assert membership.subscription("g", "t") == Subscription("t", version=6)
    assert beat(membership, 1, "a", consumer("t", "v", version=6)) == [Notify("g", (1,))]
    assert membership.subscription("g", "u") is None
    assert membership.groups_of("u") == []
    assert beat(membership, 1, "a", consumer(), without=True) == []
    assert membership.groups_of("v") == ["g"]
    assert membership.subscription("other", "t") is None


def test_broadcast_groups_are_not_told() -> None:
    membership = Membership()
    assert beat(membership, 1, "a", consumer("t", model="BROADCASTING")) == [GroupAppeared("g")]
    assert beat(membership, 2, "b", consumer("t", model="BROADCASTING")) == []
    assert membership.connection_closed(1) == []
    assert membership.connection_closed(2) == [GroupVanished("g")]


def test_silence() -> None:
    membership = Membership()
    beat(membership, 1, "a", consumer("t"), consumer("t", group="h"), now_ms=0)
    beat(membership, 2, "b", consumer("t"), now_ms=1)
    produce(membership, 3, "c", "p", now_ms=0)
    beat(membership, 1, "a", consumer("t", group="h"), now_ms=EXPIRY_MS)
    assert membership.expire(EXPIRY_MS) == []
    # The first one still beats, for another group.
    assert membership.expire(EXPIRY_MS + 1) == [Notify("g", (2,)), CloseConnection(3)]
    assert membership.client_ids("h") == ("a",)
    assert membership.producers("p") == ()
    assert membership.expire(EXPIRY_MS + 2) == [GroupVanished("g"), CloseConnection(2)]
    assert membership.connection_closed(2) == []


def test_producers() -> None:
    membership = Membership()
    produce(membership, 1, "a", "p", "q")
    produce(membership, 2, "b", "p")
    produce(membership, 3, "a", "p")
    assert [(each.client_id, each.connection) for each in membership.producers("p")] == [("a", 3), ("b", 2)]
    assert list(membership.producer_groups()) == ["p", "q"]
    assert membership.find_producer("a") == 3
    membership.connection_closed(3)
    assert membership.find_producer("a") == 1
    membership.unregister(1, "a", producer_group="p")
    assert membership.find_producer("a") == 1  # it still produces as q
    membership.unregister(1, "a", producer_group="q")
    assert membership.find_producer("a") is None
    assert list(membership.producer_groups()) == ["p"]


def test_the_number_of_members_is_bounded() -> None:
    membership = Membership(limit=2)
    beat(membership, 1, "a", consumer("t"))
    with pytest.raises(Busy, match="at most 2"):
        membership.heartbeat(2, Heartbeat("b", ("p",), (consumer("t"),)), language="JAVA", version=1, now_ms=0)
    assert membership.client_ids("g") == ("a",)
    produce(membership, 2, "b", "p")
    assert beat(membership, 1, "a", consumer("t")) == []  # who is in may stay


class Clients(RuleBasedStateMachine):
    """Clients come, go and fall silent in any order; the model is a list of places."""

    connections = st.integers(0, 4)
    ids = st.sampled_from("ab")
    groups = st.sampled_from(["g", "h"])

    def __init__(self) -> None:
        super().__init__()
        self.membership = Membership()
        self.places: dict[tuple[str, str, int], tuple[str, int]] = {}  # kind, group, connection: client, seen
        self.newest_id: dict[int, str] = {}  # of a connection that produces
        self.now_ms = 0

    @rule(connection=connections, client=ids, produces=st.sets(groups), consumes=st.sets(groups))
    def beat(self, connection: int, client: str, produces: set[str], consumes: set[str]) -> None:
        heartbeat = Heartbeat(client, tuple(produces), tuple(consumer("t", group=group) for group in consumes))
        before = {group: self.membership.client_ids(group) for group in "gh"}
        told = self.membership.heartbeat(connection, heartbeat, language="", version=0, now_ms=self.now_ms)
        for kind, groups in (("p", produces), ("c", consumes)):
            for group in groups:
                self.places[kind, group, connection] = client, self.now_ms
        if produces:
            self.newest_id[connection] = client
        self.check_told(before, told)

    @rule(connection=connections)
    def close(self, connection: int) -> None:
        before = {group: self.membership.client_ids(group) for group in "gh"}
        told = self.membership.connection_closed(connection)
        self.places = {place: who for place, who in self.places.items() if place[2] != connection}
        self.check_told(before, told)

    @rule(passed_ms=st.integers(0, EXPIRY_MS))
    def expire(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        before = {group: self.membership.client_ids(group) for group in "gh"}
        told = self.membership.expire(self.now_ms)
        self.places = {place: who for place, who in self.places.items() if who[1] >= self.now_ms - EXPIRY_MS}
        self.check_told(before, told)

    def check_told(self, before: dict[str, tuple[str, ...]], told: list[Instruction]) -> None:
        """Whoever is in a group whose ids changed must hear of it."""
        for group in "gh":
            after = self.membership.client_ids(group)
            if after and after != before[group]:
                connections = {connection for kind, name, connection in self.places if (kind, name) == ("c", group)}
                assert connections in [set(each.connections) for each in told if isinstance(each, Notify)]

    @invariant()
    def same_as_the_model(self) -> None:
        assert len(self.membership) == len(self.places)
        for group in "gh":
            clients = {who[0] for place, who in self.places.items() if place[:2] == ("c", group)}
            assert self.membership.client_ids(group) == tuple(sorted(clients))
            producers = {who[0] for place, who in self.places.items() if place[:2] == ("p", group)}
            assert {each.client_id for each in self.membership.producers(group)} == producers
        for client in "ab":
            producing = {connection for kind, _, connection in self.places if kind == "p"}
            of_client = {connection for connection in producing if self.newest_id[connection] == client}
            found = self.membership.find_producer(client)
            assert found in of_client or (found is None and not of_client)


Clients.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestClients = Clients.TestCase
