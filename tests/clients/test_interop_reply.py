"""Requests in one language, answered in another."""

from __future__ import annotations

import concurrent.futures

import pytest
from tests.clients.interop import Inbox, Peer, PythonConsumer, wait_for
from tests.clients.rocketmq import until

from litemq.client._message_cy import Message
from litemq.client.producer import Producer
from litemq.errors import InvalidRequest, NoAnswer

pytestmark = pytest.mark.clients

BIG = b"a long question, " * 5000
"""Java compresses what answers it."""


def test_python_asks(producer: Producer, peer: Peer, topic: str, group: str) -> None:
    with peer.listening(topic, group, replies=True) as listener:
        first = producer.request(Message(topic, b"how much?", keys="k"), timeout=30)
        assert first.body == b"answer to how much?"
        assert first.tags == "answered"
        assert first.properties["by"] == peer.language
        assert producer.request(Message(topic, BIG), timeout=30).body == b"answer to " + BIG
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [b"%d?" % n for n in range(40)]
            answers = list(pool.map(lambda body: producer.request(Message(topic, body), timeout=30).body, asked))
        assert answers == [b"answer to " + body for body in asked]
        assert len(wait_for(42, listener)) == 42


def test_nobody_answers_python(producer: Producer, peer: Peer, topic: str, group: str) -> None:
    with peer.listening(topic, group) as listener:
        with pytest.raises(NoAnswer, match="nobody answered"):
            producer.request(Message(topic, b"how much?"), timeout=1.5)
        wait_for(1, listener)


def test_python_answers(producer: Producer, peer: Peer, consumer: PythonConsumer, topic: str) -> None:
    inbox = Inbox()
    answering = consumer(topic, inbox)
    refused: list[InvalidRequest] = []

    def answer(message: Message) -> None:
        try:
            answering.reply(message, b"answer to " + message.body)
        except InvalidRequest as error:
            refused.append(error)

    inbox.reply = answer
    with answering:
        # replies find Go's client after its second heartbeat only, 30 s from its start
        until(lambda: peer.request(Message(topic, b"ready?"), 3) is not None, "no reply came", 90)
        for body in (b"how much?", b"how many?", BIG):
            found = peer.request(Message(topic, body, tags="t"), 20)
            assert found is not None
            assert found.body == b"answer to " + body
        assert not refused
        producer.send(topic, b"no question")
        until(lambda: bool(refused), "a reply to what is no request was sent")
