"""Consumers ride through restarts of their broker and name server: nothing is lost, an ordered queue stays in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.up import Gathered, Up, running

from litemq.client._message_cy import Message
from litemq.client.pull import PullConsumer
from litemq.client.push import PushConsumer
from litemq.errors import LiteMQError


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Up]:
    """Return a server that the test may kill."""
    with running(tmp_path) as server:
        yield server


def _bodies(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_loses_nothing(own: Up, kill: bool) -> None:
    own.create("orders", 2)
    for queue in range(2):
        own.send("orders", *_bodies(0, 100), queue=queue)
    time.sleep(0.7 if kill else 0)  # a kill may cost what is younger than a flush
    got = Gathered()

    def handle(message: Message) -> None:
        time.sleep(0.001)
        got.add((message.queue_id, message.body))

    with PushConsumer("billing", {"orders": "*"}, handle, nameservers=own.nameservers, concurrency=2):
        got.wait(20)
        own.restart(kill=kill)
        for queue in range(2):
            own.send("orders", *_bodies(100, 150), queue=queue)
        expected = {(queue, body) for queue in range(2) for body in _bodies(0, 150)}
        end = time.monotonic() + 20
        while set(got.all()) < expected:
            assert time.monotonic() < end, sorted(expected - set(got.all()))[:5]
            time.sleep(0.02)
    assert set(got.all()) == expected
    assert [own.committed("billing", "orders", queue) for queue in range(2)] == [150, 150]


def test_ordered_groups_stay_in_order_through_a_restart(own: Up) -> None:
    own.create("orders", 4)
    for queue in range(4):
        own.send("orders", *_bodies(0, 60), queue=queue)
    got = Gathered()

    def handle(message: Message) -> None:
        time.sleep(0.005)
        got.add((message.queue_id, int(message.body)))

    consumers = [
        PushConsumer("billing", {"orders": "*"}, handle, nameservers=own.nameservers, ordered=True) for _ in range(2)
    ]
    try:
        for one in consumers:
            one.start()
        got.wait(20)
        own.restart()
        expected = {(queue, number) for queue in range(4) for number in range(60)}
        end = time.monotonic() + 20
        while set(got.all()) < expected:
            assert time.monotonic() < end, sorted(expected - set(got.all()))[:5]
            time.sleep(0.02)
    finally:
        for one in consumers:
            one.stop()
    for queue in range(4):
        firsts = list(dict.fromkeys(number for each, number in got.all() if each == queue))
        assert firsts == list(range(60))  # what comes again after the restart has been there before


def test_a_pull_consumer_goes_on(own: Up) -> None:
    own.create("orders", 1)
    own.send("orders", *_bodies(0, 10))
    with PullConsumer("audit", nameservers=own.nameservers) as one:
        one.subscribe("orders")
        found: list[bytes] = []
        while len(found) < 10:
            found += [message.body for message in one.poll()]
        own.stop()
        with pytest.raises(LiteMQError):
            one.commit()
        own.start()
        own.send("orders", *_bodies(10, 20))
        end = time.monotonic() + 15
        while len(found) < 20:
            assert time.monotonic() < end
            found += [message.body for message in one.poll(timeout=0.5)]
        assert found == _bodies(0, 20)
        one.commit()
    assert own.committed("audit", "orders") == 20


def test_stop_ends_although_the_broker_is_gone(own: Up) -> None:
    own.create("orders", 1)
    own.send("orders", b"one")
    got = Gathered()
    with PushConsumer("billing", {"orders": "*"}, lambda message: got.add(message.body), nameservers=own.nameservers):
        got.wait(1)
        own.stop(kill=True)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("litemq-billing")]


def test_a_commit_is_told_again_to_a_broker_that_forgot_it(own: Up) -> None:
    own.create("orders", 1)
    own.send("orders", *_bodies(0, 20))
    time.sleep(0.7)  # a kill may cost what is younger than a flush
    with PullConsumer("audit", nameservers=own.nameservers) as one:
        one.subscribe("orders")
        assert len(one.poll(10, timeout=10)) == 10
        one.commit()
        own.restart(kill=True)  # commits are put down once a second
        end = time.monotonic() + 20
        while own.committed("audit", "orders") != 10:
            assert time.monotonic() < end
            with suppress(LiteMQError):
                one.commit()
            time.sleep(0.05)
