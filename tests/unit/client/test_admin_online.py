"""``Admin`` on groups whose members are online: LiteMQ's own consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

import litemq
from litemq.testing import broker

_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with broker() as found:
        yield found.nameservers


@pytest.fixture
def admin(servers: str) -> Iterator[litemq.Admin]:
    with litemq.Admin(servers) as found:
        yield found


def _send(servers: str, topic: str, count: int) -> None:
    with litemq.Producer(servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def test_a_consumer_that_pulls_goes_where_it_is_sent(servers: str, admin: litemq.Admin) -> None:
    admin.create_topic("pulled", 2)
    _send(servers, "pulled", 6)
    with litemq.PullConsumer("puller", nameservers=servers) as consumer:
        consumer.subscribe("pulled")

        def read(count: int) -> list[bytes]:
            found: list[bytes] = []
            until = time.monotonic() + _WITHIN_S
            while len(found) < count and time.monotonic() < until:
                found += [message.body for message in consumer.poll(timeout=0.2)]
            return sorted(found)

        everything = [b"%d" % number for number in range(6)]
        assert read(6) == everything
        consumer.commit()
        assert admin.lag("puller").total == 0
        (member,) = admin.members("puller")
        assert member.language == "PYTHON"
        assert member.queues is not None
        assert [(queue.topic, queue.queue_id) for queue in member.queues] == [("pulled", 0), ("pulled", 1)]
        changes = admin.reset_offset("puller", "pulled", "first")
        assert [(change.before, change.after) for change in changes] == [(3, 0), (3, 0)]
        assert read(6) == everything


def test_a_consumer_that_is_called_goes_where_it_is_sent(servers: str, admin: litemq.Admin) -> None:
    admin.create_topic("pushed", 2)
    _send(servers, "pushed", 6)
    seen: list[bytes] = []
    arrived = threading.Condition()

    def handle(message: litemq.Message) -> None:
        with arrived:
            seen.append(message.body)
            arrived.notify_all()

    with litemq.PushConsumer("pusher", {"pushed": "*"}, handle, nameservers=servers, start="first"):
        with arrived:
            assert arrived.wait_for(lambda: len(seen) == 6, _WITHIN_S)
        with pytest.raises(litemq.InvalidRequest, match="online"):
            admin.delete_group("pusher")
        admin.reset_offset("pusher", "pushed", "first")
        with arrived:
            assert arrived.wait_for(lambda: len(seen) == 12, _WITHIN_S)
    assert sorted(seen) == sorted([b"%d" % number for number in range(6)] * 2)
    assert admin.lag("pusher").topics["pushed"] == 0
    assert admin.members("pusher") == []
    admin.delete_group("pusher")
