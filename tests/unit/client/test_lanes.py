"""Batching beside a model: what is accepted is sent once, in order, in requests within bounds, and told."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Outgoing, Sent, split_batches
from litemq.client.lanes import Buffer, TaskLane, deliver_all
from litemq.client.queue_choice import Chooser
from litemq.client.routes import TopicQueue
from litemq.client.running import run
from litemq.client.sending import MAX_BATCH
from litemq.errors import InvalidRequest, Unavailable

QUEUE = TopicQueue("t", "b", 0)


class Future:
    """Keeps what it is told; twice is an error."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def done(self) -> bool:
        return bool(self.told)

    def set_result(self, value: object) -> None:
        assert not self.told
        self.told.append(value)

    set_exception = set_result


class Core:
    """A broker that refuses bodies of ``x`` for good, and everything while it is ``away``."""

    def __init__(self, how: str = "round-robin") -> None:
        self.chooser = Chooser(how)  # type: ignore[arg-type] # one of its words
        self.requests: list[list[bytes]] = []
        self.stored: list[bytes] = []
        self.is_away = False

    async def deliver(self, outgoing: list[Outgoing], _deadline: float) -> list[Sent]:
        self.requests.append([one.message.body for one in outgoing])
        if self.is_away:
            raise Unavailable("away")
        if any(one.message.body.startswith(b"x") for one in outgoing):
            raise InvalidRequest("no")
        first = len(self.stored)
        self.stored += [one.message.body for one in outgoing]
        return [Sent(one.message_id, "t", "b", 0, first + n) for n, one in enumerate(outgoing)]


def pending(body: bytes, key: str | None = None) -> Outgoing:
    one = Outgoing(Message("t", body, sharding_key=key))
    one.future = Future()
    return one


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b" * 50, b"x"]), st.sampled_from([None, "k", "l"])), max_size=40),
    st.integers(1, 2000),
    st.sampled_from(["round-robin", "random", "hash", "latency"]),
    st.booleans(),
)
def test_everybody_is_told_once_and_the_truth(
    messages: list[tuple[bytes, str | None]], batch_bytes: int, how: str, is_away: bool
) -> None:
    core: Any = Core(how)
    core.is_away = is_away
    waiting = [pending(body, key) for body, key in messages]
    done: list[Outgoing] = []
    run(deliver_all(core, waiting, batch_bytes, lambda those, _error: done.extend(those)))
    assert sorted(map(id, done)) == sorted(map(id, waiting))
    for one in waiting:
        (told,) = one.future.told
        body = one.message.body
        if is_away:
            assert isinstance(told, Unavailable)
        elif body == b"x":
            assert isinstance(told, InvalidRequest)
        else:
            assert isinstance(told, Sent)
            assert core.stored[told.queue_offset] == body
            assert told.message_id == one.message_id
    if not is_away:
        assert len(core.stored) == sum(body != b"x" for body, _ in messages)
    for key in ("k", "l"):  # order holds for each key
        offsets = [
            one.future.told[0].queue_offset
            for one in waiting
            if one.message.sharding_key == key and isinstance(one.future.told[0], Sent)
        ]
        assert offsets == sorted(offsets)


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=60), st.integers(1, 1000))
def test_requests_stay_within_bounds(sizes: list[tuple[int, bool]], limit: int) -> None:
    outgoing = []
    for size, is_compressed in sizes:
        one = Outgoing(Message("t", bytes(size)))
        one.sys_flag = 0x101 if is_compressed else 0
        outgoing.append(one)
    batches = split_batches(outgoing, limit)
    assert [one for batch in batches for one in batch] == outgoing
    for batch in batches:
        assert len(batch) == 1 or sum(one.size for one in batch) <= limit
        assert len(batch) == 1 or not any(one.sys_flag for one in batch)
    for before, after in itertools.pairwise(batches):  # no request more than needed
        full = sum(one.size for one in before) + after[0].size > limit
        assert full or before[0].sys_flag or after[0].sys_flag


def test_no_request_is_larger_than_a_frame() -> None:
    assert MAX_BATCH < 1 << 24


@settings(max_examples=50)
@given(st.lists(st.one_of(st.integers(1, 400), st.none(), st.just("flush")), max_size=60))
def test_the_buffer_counts_right(steps: list[int | str | None]) -> None:
    """Numbers are accepted, None answers the oldest, ``flush`` ends an era."""
    buffer = Buffer(1000)
    waiting: list[Outgoing] = []
    ended: list[int] = []
    for step in steps:
        if step == "flush":
            ended.append(buffer.end_era())
        elif step is None:
            if waiting:
                buffer.free([waiting.pop(0)], None)
        elif isinstance(step, int):
            one = Outgoing(Message("t", bytes(step)))
            era = buffer.take(one.size)
            fits = not waiting or sum(each.size for each in waiting) + one.size <= 1000
            assert (era is not None) == fits
            if era is not None:
                one.era = era
                waiting.append(one)
        assert buffer.size == sum(each.size for each in waiting)
        assert buffer.count == len(waiting)
        for last in ended:
            assert buffer.left(last) == sum(1 for each in waiting if each.era <= last)


def test_the_first_error_is_told_once() -> None:
    buffer = Buffer(1000)
    first, second = ValueError("1"), ValueError("2")
    for error in (first, second):
        one = Outgoing(Message("t", b""))
        assert buffer.take(one.size) == 0
        buffer.free([one], error)
    assert buffer.take_error() is first
    assert buffer.take_error() is None


@pytest.mark.parametrize("linger", [0.0, 30.0])
def test_a_full_batch_does_not_linger(linger: float) -> None:
    async def test() -> list[list[bytes]]:
        core: Any = Core()
        lane = TaskLane(core, linger, 500, lambda _done, _error: None)
        futures: list[asyncio.Future[Sent]] = []
        for _ in range(4):
            one = Outgoing(Message("t", bytes(100)))
            one.future = asyncio.get_running_loop().create_future()
            futures.append(one.future)
            lane.put(one)
        async with asyncio.timeout(10):
            await asyncio.gather(*futures)
        requests: list[list[bytes]] = core.requests
        return requests

    assert sum(map(len, asyncio.run(test()))) == 4
