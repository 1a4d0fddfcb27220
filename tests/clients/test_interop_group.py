"""Members of several languages in one consumer group: who has which queue, what is retried where, who goes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import chain

import pytest
from tests.clients.interop import Inbox, Listener, Peer, PythonConsumer, dead_letters, eventually, make_topic
from tests.clients.servers import Server

from litemq.client._message_cy import Message
from litemq.client.admin import Admin
from litemq.client.group_member import strategy
from litemq.client.producer import Producer
from litemq.client.push import PushConsumer
from litemq.client.routes import TopicQueue

pytestmark = pytest.mark.clients

Box = Listener | Inbox


@pytest.fixture
def seven(server: Server, topic: str) -> str:
    """Return a topic whose queues cannot be shared evenly."""
    name = f"{topic}_7"
    make_topic(server, name, 7)
    return name


def queues_of(consumer: PushConsumer, topic: str) -> list[int]:
    """Return the queues of a topic that a Python consumer has."""
    return sorted(queue.queue_id for queue in consumer.assignment if queue.topic == topic)


def settled(shares: Callable[[], list[list[int]]], wanted: list[int], count: int) -> None:
    """Wait until each queue has exactly one owner, and the members so many queues."""
    eventually(lambda: are_owned(shares(), count) and sorted(map(len, shares())) == wanted, shares, 45)


def are_owned(shares: list[list[int]], count: int) -> bool:
    """Return whether each queue has exactly one owner."""
    return sorted(chain.from_iterable(shares)) == list(range(count))


def send_numbered(producer: Producer, topic: str, what: str, count: int) -> set[bytes]:
    """Send messages and return their bodies."""
    bodies = [f"{what} {number}".encode() for number in range(count)]
    for body in bodies:
        producer.send(topic, body)
    return set(bodies)


def times_seen(boxes: list[Box], what: str) -> Counter[bytes]:
    """Return how often each message was handed out, over all members."""
    return Counter(each.body for box in boxes for each in box.got if each.body.startswith(what.encode()))


def each_once(boxes: list[Box], wanted: set[bytes], what: str) -> None:
    """Wait for messages; assert that none comes twice."""
    eventually(
        lambda: times_seen(boxes, what).keys() >= wanted, lambda: f"missing: {wanted - set(times_seen(boxes, what))}"
    )
    assert times_seen(boxes, what) == Counter(wanted)


def test_java_and_python_share_queues(
    producer: Producer, java_peer: Peer, consumer: PythonConsumer, seven: str, group: str
) -> None:
    inboxes = [Inbox(), Inbox()]
    one, two = (consumer(seven, inbox) for inbox in inboxes)
    with one:
        with java_peer.listening(seven, group) as java:
            boxes: list[Box] = [*inboxes, java]

            def shares() -> list[list[int]]:
                return [queues_of(one, seven), queues_of(two, seven), java.queues()]

            settled(shares, [0, 3, 4], 7)
            each_once(boxes, send_numbered(producer, seven, "two", 70), "two")
            with two:
                settled(shares, [2, 2, 3], 7)
                each_once(boxes, send_numbered(producer, seven, "three", 70), "three")
                mine = {each.queue_id for each in inboxes[1].got if each.body.startswith(b"three")}
                assert mine == set(queues_of(two, seven))
            settled(shares, [0, 3, 4], 7)
            each_once(boxes, send_numbered(producer, seven, "less", 70), "less")
        eventually(lambda: are_owned([queues_of(one, seven)], 7), lambda: queues_of(one, seven), 45)
        each_once(boxes, send_numbered(producer, seven, "last", 70), "last")


def test_java_and_python_share_queues_by_hash(
    server: Server, producer: Producer, java_peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    """Each works out for itself who has which place on the ring: they must agree to the last queue."""
    topic = f"{topic}_40"
    make_topic(server, topic, 40)
    inboxes = [Inbox(), Inbox()]
    one, two = (consumer(topic, inbox, rebalance="consistent-hash") for inbox in inboxes)
    broker = producer.send(topic, b"where?").broker
    with one, java_peer.listening(topic, group, hashed=True) as java, two:
        assert java.client_id is not None
        members = sorted([one.client_id, two.client_id, java.client_id])
        queues = [TopicQueue(topic, broker, number) for number in range(40)]
        deal = strategy("consistent-hash", {})
        wanted = [[each.queue_id for each in deal(queues, members, name)] for name in (one.client_id, two.client_id)]
        wanted.append([each.queue_id for each in deal(queues, members, java.client_id)])

        def shares() -> list[list[int]]:
            return [queues_of(one, topic), queues_of(two, topic), java.queues()]

        eventually(lambda: shares() == wanted, lambda: f"{shares()}, not {wanted}")
        assert are_owned(wanted, 40)
        each_once([*inboxes, java], send_numbered(producer, topic, "hash", 200), "hash")


def test_all_three_share_queues(
    producer: Producer, java_peer: Peer, go_peer: Peer, consumer: PythonConsumer, seven: str, group: str
) -> None:
    """Go's client does not tell which queues are its own; what it gets does."""
    inbox = Inbox()
    with (
        consumer(seven, inbox) as python,
        java_peer.listening(seven, group) as java,
        go_peer.listening(seven, group) as go,
    ):
        boxes: list[Box] = [inbox, java, go]
        rounds = 0

        def go_has_its_share() -> bool:
            nonlocal rounds
            rounds += 1
            send_numbered(producer, seven, f"round {rounds}:", 14)
            free = set(range(7)) - set(queues_of(python, seven)) - set(java.queues())
            known = {each.queue_id for each in go.got}
            return 2 <= len(free) <= 3 and free <= known

        eventually(go_has_its_share, lambda: "Go's client gets nothing", 60)
        each_once(boxes, send_numbered(producer, seven, "all", 140), "all")
        owners = defaultdict(set)
        for number, box in enumerate(boxes):
            for each in box.got:
                if each.body.startswith(b"all"):
                    owners[each.queue_id].add(number)
        assert sorted(Counter(owner for each in owners.values() for owner in each).values()) == [2, 2, 3]
        assert all(len(each) == 1 for each in owners.values())


# -- what fails -----------------------------------------------------------------------------------------


def test_what_python_fails_comes_to_whoever_is_there(
    producer: Producer, peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    """Python fails it and goes; the other one gets it with everything it was sent with."""
    sent = Message(topic, b"bad", tags="t", keys="k", properties={"region": "eu"})
    inbox = Inbox(failing={b"bad": 1})
    with consumer(topic, inbox):
        place = producer.send(sent)
        eventually(lambda: len(inbox.got) == 1, lambda: "nothing came")
    with peer.listening(topic, group) as listener:
        eventually(lambda: len(listener.got) == 1, lambda: "the message did not come again")
        (again,) = listener.got
    assert (again.topic, again.body, again.tags, again.keys, again.properties) == (
        topic,
        b"bad",
        "t",
        ("k",),
        {"region": "eu"},
    )
    assert (again.attempt, again.message_id) == (2, place.message_id)
    assert again.raw_properties["ORIGIN_MESSAGE_ID"] == place.offset_id


def test_what_the_other_fails_comes_to_python(
    server: Server, producer: Producer, peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    with peer.listening(topic, group, failing={"bad": 99}) as listener:
        place = producer.send(topic, b"bad", tags="t", keys="k", properties={"region": "eu"})
        with Admin(server.name_server) as admin:
            eventually(lambda: listener.got and is_given_back(admin, group, topic), lambda: "it was not given back")
    inbox = Inbox()
    with consumer(topic, inbox):
        eventually(lambda: len(inbox.got) == 1, lambda: "the message did not come again")
    (again,) = inbox.got
    assert (again.topic, again.body, again.tags, again.keys, dict(again.properties)) == (
        topic,
        b"bad",
        "t",
        ("k",),
        {"region": "eu"},
    )
    assert again.message_id == place.message_id
    assert again.attempt > max(each.attempt for each in listener.got)


def is_given_back(admin: Admin, group: str, topic: str) -> bool:
    """Return whether a group is through with all messages of a topic, those that it gave back as well."""
    return admin.lag(group).topics.get(topic) == 0


def test_attempts_go_on_in_another_language(
    server: Server, producer: Producer, peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    with Admin(server.name_server) as admin:
        with peer.listening(topic, group, failing={"bad": 99}) as listener:
            place = producer.send(topic, b"bad")
            eventually(lambda: listener.got and is_given_back(admin, group, topic), lambda: "it was not given back")
        inbox = Inbox(failing={b"bad": 99})
        with consumer(topic, inbox, max_attempts=2):
            eventually(lambda: dead_letters(admin, group), lambda: f"no dead letter after {inbox.got}")
        (letter,) = dead_letters(admin, group)
    assert [each.message_id for each in inbox.got] == [place.message_id]
    assert letter.message.message_id == place.message_id


def test_failures_in_a_mixed_group(
    producer: Producer, java_peer: Peer, consumer: PythonConsumer, seven: str, group: str
) -> None:
    """Every third message fails with whoever gets it first; each is handled in the end, and by one of them."""
    bodies = [f"mixed {number}".encode() for number in range(60)]
    inbox = Inbox(failing=dict.fromkeys(bodies[::3], 1))
    failing = {body.decode(): 1 for body in bodies[::3]}
    with consumer(seven, inbox) as python, java_peer.listening(seven, group, failing=failing) as java:
        settled(lambda: [queues_of(python, seven), java.queues()], [3, 4], 7)
        for body in bodies:
            producer.send(seven, body)

        def handled() -> Counter[bytes]:
            tries = Counter(each.body for each in inbox.got)
            good = Counter({body: count - inbox.failing.get(body, 0) for body, count in tries.items()})
            return +good + Counter(each.body for each in java.got if each.is_good)

        eventually(lambda: handled().keys() >= set(bodies), lambda: f"not handled: {set(bodies) - set(handled())}", 90)
        assert handled() == Counter(bodies)
        attempts = Counter(each.body for box in (inbox, java) for each in box.got)
        assert all(attempts[body] in (2, 3) for body in bodies[::3])
        assert all(attempts[body] == 1 for body in set(bodies) - set(bodies[::3]))


# -- in order -------------------------------------------------------------------------------------------


def test_an_ordered_group_hands_queues_over(
    producer: Producer, peer: Peer, consumer: PythonConsumer, seven: str, group: str
) -> None:
    """Members lock queues before they read them: no message is out of order, whoever has its queue."""
    inbox = Inbox()
    keys = [f"key {number}" for number in range(12)]
    sent = 0

    def send_some() -> None:
        nonlocal sent
        for key in keys:
            producer.send(seven, f"{key} #{sent}".encode(), sharding_key=key)
        sent += 1

    with consumer(seven, inbox, ordered=True) as python:
        send_some()
        with peer.listening(seven, group, ordered=True) as other:

            def both_have_their_share() -> bool:
                send_some()
                theirs = {each.queue_id for each in other.got}
                return len(queues_of(python, seven)) in (3, 4) and len(theirs) >= 3

            eventually(both_have_their_share, lambda: f"{queues_of(python, seven)}, {len(other.got)} elsewhere")
            send_some()
            eventually(lambda: numbers_of(inbox, other) >= sent * len(keys), lambda: "some do not come")
        eventually(lambda: len(queues_of(python, seven)) == 7, lambda: "the other's queues are not taken over", 75)
        send_some()
        eventually(lambda: numbers_of(inbox, other) >= sent * len(keys), lambda: "the last ones do not come")
    for key in keys:
        for box in (inbox, other):
            numbers = [int(each.body.split(b"#")[1]) for each in box.got if each.body.startswith(f"{key} #".encode())]
            assert numbers == sorted(numbers), f"{key} is out of order: {numbers}"


def numbers_of(*boxes: Box) -> int:
    """Return how many different messages came."""
    return len({each.body for box in boxes for each in box.got})
