"""A sharding key is the same queue in every language, and its messages keep their order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients.interop import Inbox, Listener, Peer, PythonConsumer, make_topic, told, wait_for
from tests.clients.rocketmq import finish, free_ports, until
from tests.clients.servers import Server

from litemq.client._message_cy import Message
from litemq.client.admin import Admin
from litemq.client.producer import Producer

pytestmark = pytest.mark.clients

KEYS = [
    *(f"customer {n}" for n in range(20)),
    "polygenelubricants",  # Java's hash of it is the smallest number, which has no positive one
    "ÄÖÜ",
    "消息",
    "🚀🚀",
    "x" * 300,
]


def same_queue(producer: Producer, peer: Peer, topic: str) -> None:
    """Assert that both clients choose one queue for each key."""
    ours = {key: producer.send(topic, key.encode(), sharding_key=key) for key in KEYS}
    theirs = dict(zip(KEYS, peer.send(*(Message(topic, b"2", sharding_key=key) for key in KEYS)), strict=True))
    for key in KEYS:
        assert (ours[key].broker, ours[key].queue_id) == (theirs[key].broker, theirs[key].queue_id), key


@pytest.mark.parametrize("queues", [1, 4, 7])
def test_a_key_is_the_same_queue(server: Server, producer: Producer, peer: Peer, topic: str, queues: int) -> None:
    topic = f"{topic}_{queues}"
    make_topic(server, topic, queues)
    same_queue(producer, peer, topic)


def test_a_batch_goes_to_the_queue_of_its_key(producer: Producer, peer: Peer, topic: str) -> None:
    for key in KEYS:
        sent = producer.send_batch([Message(topic, b"%d" % n, sharding_key=key) for n in range(3)])
        (place,) = peer.send(Message(topic, b"4", sharding_key=key))
        assert {each.queue_id for each in sent} == {place.queue_id}
        assert place.queue_offset == sent[-1].queue_offset + 1


def test_go_has_a_selector_of_its_own(server: Server, producer: Producer, go_peer: Peer, topic: str) -> None:
    """Its HashQueueSelector does not choose as Java and Python do: FNV-1a of the bytes, not Java's hash."""
    topic = f"{topic}_7"
    make_topic(server, topic, 7)
    ours = [producer.send(topic, b"1", sharding_key=key).queue_id for key in KEYS]
    theirs = [
        each.queue_id
        for each in go_peer.send(*(Message(topic, b"2", sharding_key=key) for key in KEYS), selector="own")
    ]
    assert theirs == [fnv1a(key.encode()) % 7 for key in KEYS]
    assert theirs != ours


def fnv1a(data: bytes) -> int:
    found = 2166136261
    for byte in data:
        found = (found ^ byte) * 16777619 & 0xFFFFFFFF
    return found


def send_in_turns(producer: Producer, peer: Peer, topic: str) -> dict[str, list[bytes]]:
    """Have both languages send messages of the same keys, in turns; return what each key's order is."""
    wanted: dict[str, list[bytes]] = {key: [] for key in KEYS[:6]}
    for number in range(8):
        for key, bodies in wanted.items():
            message = Message(topic, f"{key} #{number}".encode(), tags="t", sharding_key=key)
            if number % 2:
                peer.send(message)
            else:
                producer.send(message)
            bodies.append(message.body)
    return wanted


def seen_of(key: str, box: Listener | Inbox) -> list[bytes]:
    """Return the messages of a key in the order in which they were taken, tries that failed left out."""
    bodies = [each.body for each in box.got if each.body.startswith(f"{key} #".encode())]
    return [body for place, body in enumerate(bodies) if body not in bodies[:place]]


def test_the_other_consumes_in_order(producer: Producer, peer: Peer, topic: str, group: str) -> None:
    with peer.listening(topic, group, ordered=True, failing={f"{KEYS[1]} #3": 1}) as listener:
        wanted = send_in_turns(producer, peer, topic)
        until(lambda: len(listener.got) >= 49, f"{len(listener.got)} of 49 came")
        got = {key: seen_of(key, listener) for key in wanted}
    assert got == wanted


def test_python_consumes_in_order(producer: Producer, peer: Peer, consumer: PythonConsumer, topic: str) -> None:
    inbox = Inbox(failing={f"{KEYS[1]} #3".encode(): 1})
    with consumer(topic, inbox, ordered=True):
        wanted = send_in_turns(producer, peer, topic)
        wait_for(49, inbox)
    assert {key: seen_of(key, inbox) for key in wanted} == wanted


def test_the_key_travels(producer: Producer, java_peer: Peer, consumer: PythonConsumer, topic: str, group: str) -> None:
    """From Java to Python and back.  What Go's client calls the key is a property SHARDING_KEY elsewhere."""
    message = Message(topic, b"1", tags="t", sharding_key="ключ", properties={"SHARDING_KEY": "ключ"})
    inbox = Inbox()
    with java_peer.listening(topic, group + "_java") as listener, consumer(topic, inbox):
        producer.send(message)
        java_peer.send(message)
        got = [*wait_for(2, listener), *wait_for(2, inbox)]
    assert [told(each) for each in got] == [told(message)] * 4


# -- two brokers ----------------------------------------------------------------------------------------


@pytest.fixture
def second_broker(server: Server, tmp_path: Path) -> Iterator[str]:
    """Start a broker beside the server's own; return its name."""
    if server.name != "rocketmq":
        pytest.skip("its name server and broker are one process; once is enough")
    (port,) = free_ports(1, (-2, 0, 1))
    config = tmp_path / "second.toml"
    config.write_text(
        f'[store]\nformat = "litemq"\ndisk_free_floor = {64 << 20}\n'
        f'[broker]\nname = "a-second-broker"\nport = {port}\nname_servers = ["{server.name_server}"]\n'
    )
    program = Path(sys.executable).with_name("litemq")
    with (tmp_path / "out.log").open("ab") as out:
        process = subprocess.Popen(
            [program, "broker", "--config", config, "--data", tmp_path / "data"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    with Admin(server.name_server) as admin:
        until(lambda: len(admin.brokers()) == 2, "the second broker does not register")
        yield "a-second-broker"
        finish(process, 30)
        until(lambda: len(admin.brokers()) == 1, "the second broker is still registered")


def test_a_key_is_the_same_queue_on_two_brokers(
    server: Server, second_broker: str, producer: Producer, peer: Peer, topic: str
) -> None:
    topic = f"{topic}_two"
    make_topic(server, topic, 6)
    same_queue(producer, peer, topic)
    with Admin(server.name_server) as admin:
        assert second_broker in admin.topic(topic).brokers
