"""Pull consumers with a real broker."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.support.up import Up

from litemq.client._message_cy import Message
from litemq.client.pull import AsyncPullConsumer, PullConsumer
from litemq.client.routes import TopicQueue
from litemq.client.values import Sql
from litemq.errors import BadFilter, Closed, InvalidRequest, Unavailable, UnknownTopic


def _poll(consumer: PullConsumer, count: int, *, most: int = 32) -> list[Message]:
    """Return exactly so many messages."""
    found: list[Message] = []
    end = time.monotonic() + 15
    while len(found) < count:
        assert time.monotonic() < end, found
        found += consumer.poll(min(most, count - len(found)), timeout=0.5)
    return found


def _bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


def _wait(is_true: Callable[[], object]) -> None:
    end = time.monotonic() + 15
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def _numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_poll_gives_what_is_there(up: Up, topic: str) -> None:
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        assert one.poll(timeout=0.05) == []
        up.send(topic, *_numbers(0, 10))
        assert _bodies(_poll(one, 10, most=3)) == _numbers(0, 10)
        assert len(one.assignment) == 4


def test_iteration_and_poll_take_turns(up: Up, topic: str) -> None:
    up.send(topic, *_numbers(0, 12))
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        found = []
        for message in one:
            found.append(message)
            if len(found) == 4:
                break
        found += one.poll(3)
        one_more = iter(one)
        found.append(next(one_more))
        found += _poll(one, 2)
        found += [next(one_more), next(one_more)]
    assert _bodies(found) == _numbers(0, 12)


def test_commit_is_of_what_was_handed_out(up: Up, topic: str, group: str) -> None:
    up.send(topic, *_numbers(0, 20))
    with PullConsumer(group, nameservers=up.nameservers) as one:
        one.subscribe(topic)
        _poll(one, 7)
        assert up.committed(group, topic) is None
        one.commit()
        assert up.committed(group, topic) == 7
        for number, _message in enumerate(one):
            if number == 2:
                break
        one.commit()
        assert up.committed(group, topic) == 10
        assert one.committed(topic)[TopicQueue(topic, "broker-a", 0)] == 10
        assert one.position()[TopicQueue(topic, "broker-a", 0)] == 10
        messages = _poll(one, 5)
        one.commit(messages[1])
        assert up.committed(group, topic) == 12
    with PullConsumer(group, nameservers=up.nameservers) as one:
        one.subscribe(topic)
        assert _bodies(_poll(one, 8)) == _numbers(12, 20)
    assert up.committed(group, topic) == 12


def test_seek(up: Up, topic: str) -> None:
    up.send(topic, *_numbers(0, 5))
    time.sleep(0.02)
    at = datetime.now(UTC)
    up.send(topic, *_numbers(5, 10))
    queue = TopicQueue(topic, "broker-a", 0)
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        assert _bodies(_poll(one, 2)) == _numbers(0, 2)
        one.seek(topic, at)
        assert one.position(topic)[queue] == 5
        assert _bodies(_poll(one, 5)) == _numbers(5, 10)
        one.seek(topic, "first")
        assert _bodies(_poll(one, 3)) == _numbers(0, 3)
        one.seek(topic, {queue: 8})
        assert _bodies(_poll(one, 2)) == _numbers(8, 10)
        one.seek(topic, {0: 9})
        assert _bodies(_poll(one, 1)) == _numbers(9, 10)
        one.seek(topic, to="last")
        up.send(topic, b"new")
        assert _bodies(_poll(one, 1)) == [b"new"]
        one.seek(topic, int(at.timestamp() * 1000))
        assert _bodies(_poll(one, 6)) == [*_numbers(5, 10), b"new"]
        with pytest.raises(InvalidRequest, match="none of this consumer's"):
            one.seek(topic, {77: 1})
        with pytest.raises(InvalidRequest, match="subscribe"):
            one.seek("elsewhere", "first")


def test_seek_ends_a_loop_over_what_was_read_before(up: Up, topic: str) -> None:
    up.send(topic, *_numbers(0, 6))
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        found = []
        for message in one:
            found.append(message)
            if len(found) == 2:
                one.seek(topic, {0: 5})
            if len(found) == 3:
                break
    assert _bodies(found) == [b"0", b"1", b"5"]


def test_pause_and_resume(up: Up, topic: str) -> None:
    up.send(topic, *_numbers(0, 4), queue=0)
    up.send(topic, b"other", queue=1)
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        one.seek(topic, {1: 1})
        assert _bodies(_poll(one, 2)) == _numbers(0, 2)
        one.pause(TopicQueue(topic, "broker-a", 0))
        up.send(topic, b"here", queue=1)
        assert _bodies(_poll(one, 1)) == [b"here"]
        up.send(topic, b"4", queue=0)
        assert one.poll(timeout=0.1) == []
        assert one.position(topic)[TopicQueue(topic, "broker-a", 0)] == 2
        one.resume(topic)
        assert _bodies(_poll(one, 3)) == _numbers(2, 5)
        one.pause()
        up.send(topic, b"later")
        assert one.poll(timeout=0.1) == []
        one.resume()
        assert _bodies(_poll(one, 1)) == [b"later"]


def test_ends_and_filters(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"small", amount="7")
    up.send(topic, b"big", amount="700")
    up.send(topic, b"small", amount="8")
    with PullConsumer(group, nameservers=up.nameservers) as one:
        one.subscribe(topic, Sql("amount > 100"))
        assert _bodies(_poll(one, 1)) == [b"big"]
        assert one.ends(topic)[TopicQueue(topic, "broker-a", 0)] == (0, 3)
        queue = TopicQueue(topic, "broker-a", 0)
        _wait(lambda: one.position(topic).get(queue) == 3)
        one.commit()
    assert up.committed(group, topic) == 3


def test_assign_reads_exactly_those_queues(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"a", queue=0)
    up.send(topic, b"b", queue=1)
    queue = TopicQueue(topic, "broker-a", 1)
    with PullConsumer(group, nameservers=up.nameservers) as one:
        one.assign([queue])
        assert one.assignment == {queue}
        assert _bodies(_poll(one, 1)) == [b"b"]
        one.commit()
        assert up.committed(group, topic, 1) == 1
        one.assign([TopicQueue(topic, "broker-a", 0)])
        assert _bodies(_poll(one, 1)) == [b"a"]
        with pytest.raises(InvalidRequest, match="assign"):
            one.subscribe(topic)
    with PullConsumer(nameservers=up.nameservers) as one, pytest.raises(UnknownTopic):
        one.assign([TopicQueue("nowhere", "broker-a", 0)])


def test_members_share_the_queues(up: Up, topic: str, group: str) -> None:
    with PullConsumer(group, nameservers=up.nameservers) as a:
        a.subscribe(topic)
        assert len(a.assignment) == 4
        with PullConsumer(group, nameservers=up.nameservers) as b:
            b.subscribe(topic)
            _wait(lambda: len(a.assignment) == len(b.assignment) == 2)
            assert not a.assignment & b.assignment
        _wait(lambda: len(a.assignment) == 4)


@pytest.mark.parametrize(("start", "expected"), [("first", [b"old", b"new"]), ("last", [b"new"])])
def test_where_a_new_group_begins(up: Up, topic: str, group: str, start: str, expected: list[bytes]) -> None:
    up.send(topic, b"old")
    with PullConsumer(group, nameservers=up.nameservers, start=start) as one:  # type: ignore[arg-type]
        one.subscribe(topic)
        _wait(lambda: len(one.position(topic)) == 4)
        up.send(topic, b"new")
        assert _bodies(_poll(one, len(expected))) == expected


def test_little_prefetch_is_enough(up: Up, topic: str) -> None:
    bodies = [bytes([65 + number]) * 50_000 for number in range(12)]
    up.send(topic, *bodies)
    with PullConsumer(nameservers=up.nameservers, prefetch=1, prefetch_bytes=1) as one:
        one.subscribe(topic)
        assert _bodies(_poll(one, 12)) == bodies


def test_a_second_topic(up: Up, topic: str, group: str) -> None:
    up.create(f"{topic}-more", 1)
    up.send(topic, b"a")
    up.send(f"{topic}-more", b"b")
    with PullConsumer(group, nameservers=up.nameservers) as one:
        one.subscribe(topic)
        assert _bodies(_poll(one, 1)) == [b"a"]
        one.subscribe(f"{topic}-more")
        assert _bodies(_poll(one, 1)) == [b"b"]
        assert {queue.topic for queue in one.assignment} == {topic, f"{topic}-more"}


def test_close_ends_a_loop(up: Up, topic: str) -> None:
    one = PullConsumer(nameservers=up.nameservers)
    one.subscribe(topic)
    closer = threading.Timer(0.1, one.close)
    closer.start()
    assert list(one) == []
    closer.join()
    one.close()
    for use in (one.poll, one.commit, lambda: one.subscribe(topic), lambda: next(iter(one))):
        with pytest.raises(Closed, match="make a new one"):
            use()


def test_wrong_use_says_what_to_do(up: Up, topic: str) -> None:
    with PullConsumer(nameservers=up.nameservers) as one:
        with pytest.raises(InvalidRequest, match="subscribe"):
            one.poll()
        with pytest.raises(BadFilter):
            one.subscribe(topic, Sql("a >"))
        one.subscribe(topic)
        with pytest.raises(InvalidRequest, match="with a group"):
            one.commit()
        with pytest.raises(InvalidRequest, match="max_messages"):
            one.poll(0)
        with pytest.raises(InvalidRequest, match="seconds"):
            one.poll(timeout=None)  # type: ignore[arg-type] # that is the test
        for offset in (-1, "3", 1.5, True):
            with pytest.raises(InvalidRequest, match="offset"):
                one.seek(topic, {0: offset})  # type: ignore[arg-type] # that is the test
        with pytest.raises(InvalidRequest, match="subscribe"):
            one.assign([TopicQueue(topic, "broker-a", 0)])
    with PullConsumer("auditors", nameservers=up.nameservers) as one:
        one.subscribe(topic)
        for given in ("o-17", Message(topic, b"never sent")):
            with pytest.raises(InvalidRequest, match="received"):
                one.commit(given)  # type: ignore[arg-type] # that is the test
    with PullConsumer(nameservers=up.nameservers) as one, pytest.raises(InvalidRequest, match="TopicQueue"):
        one.assign(["orders"])  # type: ignore[list-item]
    for arguments in ({"group": ""}, {"prefetch": 0}, {"start": "soon"}, {"rebalance": "fair"}):
        with pytest.raises(InvalidRequest):
            PullConsumer(**arguments)


def test_no_name_server_is_told_in_time() -> None:
    began = time.monotonic()
    with PullConsumer(nameservers="127.0.0.1:1") as one, pytest.raises(Unavailable, match="litemq up"):
        one.subscribe("orders")
    assert time.monotonic() - began < 3.5


def test_a_child_process_is_told_to_make_its_own(up: Up, topic: str) -> None:
    with PullConsumer(nameservers=up.nameservers) as one:
        one.subscribe(topic)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                one.poll(timeout=0.1)
            except Closed:
                one.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        up.send(topic, b"parent")
        assert _bodies(_poll(one, 1)) == [b"parent"]


def test_async_face(up: Up, topic: str, group: str) -> None:
    up.send(topic, *_numbers(0, 10))

    async def main() -> None:
        async with AsyncPullConsumer(group, nameservers=up.nameservers) as one:
            await one.subscribe(topic)
            assert _bodies(await one.poll(3, timeout=5)) == _numbers(0, 3)
            found = []
            async for message in one:
                found.append(message)
                if len(found) == 4:
                    break
            assert _bodies(found) == _numbers(3, 7)
            await one.commit()
            await one.seek(topic, {0: 9})
            assert _bodies(await one.poll(timeout=5)) == [b"9"]
            assert await one.poll(timeout=0.05) == []
        with pytest.raises(Closed):
            await one.poll()

    asyncio.run(main())
    assert up.committed(group, topic) == 7
