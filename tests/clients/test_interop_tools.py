"""RocketMQ's tools ask and command a Python consumer, and Python's pull consumer and admin look at what others left."""

from __future__ import annotations

import pytest
from tests.clients.interop import Inbox, Peer, PythonConsumer, dead_letters, eventually, told, wait_for
from tests.clients.servers import Server

from litemq.client._message_cy import Message
from litemq.client.admin import Admin
from litemq.client.producer import Producer
from litemq.client.pull import PullConsumer
from litemq.client.values import Sql

pytestmark = pytest.mark.clients


def test_the_tools_ask_a_python_consumer(
    producer: Producer, java_peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    inbox = Inbox()
    with consumer(topic, inbox, "paid || refunded") as python:
        producer.send(topic, b"1", tags="paid")
        wait_for(1, inbox)
        info = java_peer.call("info", group=group, topic=topic, client=python.client_id)
    assert info["members"] == [python.client_id]
    assert (info["model"], info["type"]) == ("CLUSTERING", "CONSUME_PASSIVELY")
    assert info["from"] == "CONSUME_FROM_FIRST_OFFSET"
    assert info["tags"] == "paid || refunded"
    assert info["queues"] == [0, 1, 2, 3]
    assert info["topics"] == [f"%RETRY%{group}", topic]
    assert "LITEMQ_PYTHON" in info["shown"]


def test_the_tools_hand_python_a_message(
    producer: Producer, java_peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    inbox = Inbox()
    with consumer(topic, inbox) as python:
        sent = producer.send(topic, b"again", tags="t", properties={"region": "eu"})
        wait_for(1, inbox)
        asked = {"group": group, "client": python.client_id, "topic": topic, "id": sent.offset_id}
        assert java_peer.call("directly", **asked).startswith("CR_SUCCESS")
        first, second = wait_for(2, inbox)
        assert told(first) == told(second)
        inbox.failing[b"again"] = 99
        said = java_peer.call("directly", **asked)
    assert said.startswith("CR_THROW_EXCEPTION")
    assert "not yet" in said


def test_the_tools_take_a_python_group_back(
    producer: Producer, java_peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    inbox = Inbox()
    with consumer(topic, inbox):
        for number in range(12):
            producer.send(topic, b"%d" % number)
        wait_for(12, inbox)
        assert java_peer.call("reset", group=group, topic=topic, time=0) > 0
        got = wait_for(24, inbox)
    assert sorted(each.body for each in got[12:]) == sorted(each.body for each in got[:12])


def test_python_pulls_what_others_sent(server: Server, peer: Peer, topic: str) -> None:
    wanted = [
        Message(topic, b"%02d" % number, tags=f"t{number % 2}", properties={"amount": str(number)})
        for number in range(40)
    ]
    peer.send(*wanted)
    with PullConsumer(nameservers=server.name_server) as pull:
        pull.subscribe(topic, Sql("amount >= 10 AND TAGS = 't1'"))
        got: list[Message] = []

        def polled() -> int:
            got.extend(pull.poll(timeout=1))
            return len(got)

        eventually(lambda: polled() >= 15, lambda: got)
        assert not pull.poll(timeout=0.5)
    assert [told(each) for each in sorted(got, key=lambda each: each.body)] == [told(each) for each in wanted[11::2]]


def test_python_finds_and_redrives_what_the_other_gave_up(
    server: Server, peer: Peer, consumer: PythonConsumer, topic: str, group: str
) -> None:
    with consumer(topic, Inbox()):  # a group's first member makes its retry topic, which others look for seldom
        pass
    (place,) = peer.send(Message(topic, b"bad", tags="t", keys="o-17"))
    with Admin(server.name_server) as admin:
        eventually(lambda: admin.query(topic, key="o-17"), lambda: "not found by its key")
        (found,) = admin.query(topic, key="o-17")
        assert (found.body, found.message_id) == (b"bad", place.message_id)
        assert admin.message(place.message_id, topic=topic).body == b"bad"
        with peer.listening(topic, group, failing={"bad": 1}, rejects=True) as listener:
            eventually(lambda: dead_letters(admin, group), lambda: "no dead letter")
            (letter,) = dead_letters(admin, group)
            assert (letter.message.body, letter.message.keys, letter.origin_topic) == (b"bad", ("o-17",), topic)
            assert (letter.group, letter.message.message_id) == (group, place.message_id)
            assert admin.redrive(group).sent == 1
            first, second = wait_for(2, listener)
    assert (first.is_good, second.is_good) == (False, True)
    assert (second.topic, second.attempt, told(second)) == (topic, 1, told(first))
