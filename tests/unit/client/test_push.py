"""Push consumers with a real broker."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.up import Gathered, Up

from litemq.client._message_cy import Message, decode_messages
from litemq.client.push import AsyncPushConsumer, PushConsumer
from litemq.client.subscription import Start
from litemq.client.values import Reject, Retry, Sql, Tags
from litemq.errors import BadFilter, Closed, InvalidRequest, Unavailable
from litemq.features.breaker import Breaker
from litemq.wire.remoting.codes import Ask


def _wait(is_true: Callable[[], object], within_s: float = 15.0) -> None:
    end = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def _dead_letters(up: Up, group: str) -> list[Message]:
    ext = {
        "consumerGroup": "TOOLS_CONSUMER",
        "topic": f"%DLQ%{group}",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": "0",
    }
    code, _, body = up.ask(Ask.PULL_MESSAGE, ext)
    return decode_messages(body) if code == 0 else []


# -- concurrent ----------------------------------------------------------------------------------


def test_every_message_is_handled_once_and_committed(up: Up, topic: str, group: str) -> None:
    for queue in range(4):
        up.send(topic, *(b"%d-%d" % (queue, number) for number in range(50)), queue=queue)
    got = Gathered()
    with PushConsumer(group, {topic: "*"}, lambda message: got.add(message.body), nameservers=up.nameservers) as one:
        got.wait(200)
        assert {(queue.topic, queue.queue_id) for queue in one.assignment if queue.topic == topic} == {
            (topic, number) for number in range(4)
        }
    assert sorted(got.bodies()) == sorted(b"%d-%d" % (queue, number) for queue in range(4) for number in range(50))
    assert [up.committed(group, topic, queue) for queue in range(4)] == [50] * 4


def test_messages_know_their_group(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"one", TAGS="paid", KEYS="a b")
    got = Gathered()
    with PushConsumer(group, {topic: "*"}, got.add, nameservers=up.nameservers):
        [message] = got.wait(1)
    assert isinstance(message, Message)
    assert (message.topic, message.tags, message.keys, message.group, message.attempt) == (
        *(topic, "paid", ("a", "b"), group, 1),
    )


def test_handlers_run_at_the_same_time(up: Up, topic: str, group: str) -> None:
    up.send(topic, *(b"%d" % number for number in range(4)))
    together = threading.Barrier(4)
    got = Gathered()

    def handle(message: Message) -> None:
        together.wait(10)
        got.add(message.body)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, concurrency=4):
        got.wait(4)


def test_batches_are_lists(up: Up, topic: str, group: str) -> None:
    up.send(topic, *(b"%d" % number for number in range(10)))
    got = Gathered()

    def handle(messages: list[Message]) -> None:
        got.add([message.body for message in messages])

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, batch=4):
        batches = got.wait(3)
    assert {type(batch) for batch in batches} == {list}
    assert sorted(body for batch in batches for body in batch) == sorted(b"%d" % number for number in range(10))
    assert max(map(len, batches)) <= 4


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("paid || refunded", [b"paid", b"refunded"]),
        (Tags("paid"), [b"paid"]),
        (Sql("amount > 100 AND region = 'eu'"), [b"refunded"]),
    ],
)
def test_filters(up: Up, topic: str, group: str, wanted: str | Tags | Sql, expected: list[bytes]) -> None:
    up.send(topic, b"paid", TAGS="paid", amount="7", region="eu")
    up.send(topic, b"open", TAGS="open", amount="700", region="us")
    up.send(topic, b"refunded", TAGS="refunded", amount="700", region="eu")
    got = Gathered()
    with PushConsumer(group, {topic: wanted}, lambda message: got.add(message.body), nameservers=up.nameservers):
        got.wait(len(expected))
    assert sorted(got.bodies()) == expected
    assert up.committed(group, topic) == 3


@pytest.mark.parametrize("start", ["first", "last", "time", "ms"])
def test_where_a_new_group_begins(up: Up, topic: str, group: str, start: str) -> None:
    up.send(topic, b"old")
    time.sleep(0.02)
    at = datetime.now(UTC)
    up.send(topic, b"new")
    starts: dict[str, Start] = {
        "first": "first",
        "last": "last",
        "time": at,
        "ms": int(at.timestamp() * 1000),
    }
    got = Gathered()
    with PushConsumer(
        group, {topic: "*"}, lambda message: got.add(message.body), nameservers=up.nameservers, start=starts[start]
    ):
        _wait(lambda: up.committed(group, topic) is not None or got.all())
        up.send(topic, b"newest")
        expected = {"first": [b"old", b"new", b"newest"], "last": [b"newest"]}.get(start, [b"new", b"newest"])
        got.wait(len(expected))
    assert sorted(got.bodies()) == sorted(expected)


def test_a_group_goes_on_where_it_was(up: Up, topic: str, group: str) -> None:
    got = Gathered()
    for body in (b"one", b"two"):
        up.send(topic, body)
        with PushConsumer(group, {topic: "*"}, lambda message: got.add(message.body), nameservers=up.nameservers):
            assert got.wait(1 if body == b"one" else 2)[-1] == body
    assert got.all() == [b"one", b"two"]


def test_two_consumers_share_the_queues(up: Up, topic: str, group: str) -> None:
    got = Gathered()

    def consumer(name: str) -> PushConsumer:
        return PushConsumer(
            group, {topic: "*"}, lambda message: got.add((name, message.queue_id)), nameservers=up.nameservers
        )

    def queues(one: PushConsumer) -> set[int]:
        return {queue.queue_id for queue in one.assignment if queue.topic == topic}

    with consumer("a") as a:
        with consumer("b") as b:
            _wait(lambda: len(queues(a)) == 2 and len(queues(b)) == 2)
            assert queues(a) | queues(b) == {0, 1, 2, 3}
            for queue in range(4):
                up.send(topic, b"x", queue=queue)
            assert sorted(str(item) for item in got.wait(4)) == sorted(
                str((name, queue)) for name, one in (("a", a), ("b", b)) for queue in queues(one)
            )
        _wait(lambda: len(queues(a)) == 4)


# -- failures ------------------------------------------------------------------------------------


def test_what_fails_comes_again(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"shaky", TAGS="t")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add((message.topic, message.body, message.tags, message.attempt, message.group))
        if message.attempt == 1:
            raise Retry("not now", delay=0.2)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers):
        got.wait(2)
    assert got.all() == [(topic, b"shaky", "t", 1, group), (topic, b"shaky", "t", 2, group)]
    assert up.committed(group, topic) == 1
    assert up.committed(group, f"%RETRY%{group}") == 1


def test_what_is_rejected_is_a_dead_letter_with_its_reason(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"bad")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add(message.body)
        raise Reject("unknown order")

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers) as one:
        got.wait(1)
        _wait(lambda: _dead_letters(up, group))
        [dead] = _dead_letters(up, group)
    found = dead.raw_properties
    assert found["DLQ_REASON"] == "consume_error"
    assert found["DLQ_ERROR"] == "unknown order"
    assert "in handle" in found["DLQ_STACK"]
    assert found["DLQ_ORIGIN_TOPIC"] == topic
    assert found["DLQ_CONSUMER_ID"] == one.client_id
    assert up.committed(group, topic) == 1


def test_attempts_end_with_a_dead_letter(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"bad")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add(message.attempt)
        raise Retry("broken", delay=0.1)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, max_attempts=2):
        _wait(lambda: _dead_letters(up, group))
    assert got.all() == [1, 2]
    [dead] = _dead_letters(up, group)
    assert dead.raw_properties["DLQ_REASON"] == "max_retry"
    assert dead.raw_properties["DLQ_ERROR"] == "Retry: broken"


def test_an_error_without_a_text_is_given_back_all_the_same(up: Up, topic: str, group: str) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def handle(_message: Message) -> None:
        raise Mute

    up.send(topic, b"bad")
    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, max_attempts=1):
        _wait(lambda: _dead_letters(up, group))
    [dead] = _dead_letters(up, group)
    assert dead.raw_properties["DLQ_ERROR"] == "Mute: (its text cannot be had: RuntimeError)"
    assert up.committed(group, topic) == 1


def test_whatever_delay_is_asked_for_the_message_is_given_back(up: Up, topic: str, group: str) -> None:
    def handle(message: Message) -> None:
        raise Retry(delay=float(message.text()))

    up.send(topic, b"inf", b"-inf", b"nan", b"1e300")
    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers):
        _wait(lambda: up.committed(group, f"%RETRY%{group}") is not None)
    assert up.committed(group, topic) == 4


def _later(message: Message) -> object:
    async def handle() -> bytes:
        return message.body

    return handle()


def _yielding(message: Message) -> Iterator[bytes]:
    yield message.body


@pytest.mark.parametrize("handler", [_later, _yielding])
def test_a_handler_that_only_promises_has_not_handled(
    up: Up, topic: str, group: str, handler: Callable[[Message], object]
) -> None:
    up.send(topic, b"one")
    with PushConsumer(group, {topic: "*"}, handler, nameservers=up.nameservers, max_attempts=1):
        _wait(lambda: _dead_letters(up, group))
    [dead] = _dead_letters(up, group)
    assert "nothing was done: give the async function itself" in dead.raw_properties["DLQ_ERROR"]


def test_an_exit_in_an_async_handler_is_a_failure_like_any_other(up: Up, topic: str, group: str) -> None:
    got = Gathered()

    async def handle(message: Message) -> None:
        got.add(message.body)
        if message.body == b"exit":
            raise SystemExit(3)

    up.send(topic, b"exit")
    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, max_attempts=1):
        _wait(lambda: _dead_letters(up, group))
        up.send(topic, b"next")
        got.wait(2)
    assert up.committed(group, topic) == 2


def test_a_message_that_cannot_be_given_back_is_kept(
    up: Up, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from litemq.client import consumer_requests, giving_back

    failures = Gathered()

    send_back = consumer_requests.send_back

    async def fail(*_args: object) -> None:
        failures.add(1)
        monkeypatch.setattr(consumer_requests, "send_back", send_back)
        raise Unavailable("the broker is not well")

    monkeypatch.setattr(giving_back, "_SEND_AGAIN_S", 0.1)
    monkeypatch.setattr(consumer_requests, "send_back", fail)
    up.send(topic, b"one")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add(message.attempt)
        if len(got.all()) == 1:
            raise ValueError("no")

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers):
        failures.wait(1)
        assert up.committed(group, topic) in (None, 0)
        got.wait(2)
    assert got.all() == [1, 1]
    assert up.committed(group, topic) == 1


def test_the_breaker_pauses_handlers(up: Up, topic: str, group: str) -> None:
    up.send(topic, *(b"%d" % number for number in range(40)))
    got = Gathered()
    is_well = threading.Event()

    def handle(message: Message) -> None:
        if message.attempt == 1:
            got.add(message.body)
        if not is_well.is_set():
            raise Retry("the database is away", delay=1)

    breaker = Breaker(failure_ratio=0.8, min_calls=5, open_s=1.0)
    with PushConsumer(
        group, {topic: "*"}, handle, nameservers=up.nameservers, breaker=breaker, concurrency=1, prefetch=2
    ):
        got.wait(5)
        time.sleep(0.3)
        assert len(got.all()) < 12
        is_well.set()
        got.wait(40)


# -- ordered -------------------------------------------------------------------------------------


def test_order_holds_through_an_exception(up: Up, topic: str, group: str) -> None:
    for queue in range(2):
        up.send(topic, *(b"%d-%d" % (queue, number) for number in range(30)), queue=queue)
    got = Gathered()
    failed = threading.Event()

    def handle(message: Message) -> None:
        if message.body == b"0-7" and not failed.is_set():
            failed.set()
            raise Retry("once", delay=0.1)
        got.add(message.body)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, ordered=True):
        got.wait(60)
    for queue in range(2):
        mine = [body for body in got.bodies() if body.startswith(b"%d-" % queue)]
        assert mine == [b"%d-%d" % (queue, number) for number in range(30)]
    assert [up.committed(group, topic, queue) for queue in range(2)] == [30, 30]


def test_an_ordered_queue_goes_on_behind_a_dead_letter(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"one", b"bad", b"worse", b"two")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add(message.body)
        if message.body == b"bad":
            raise Reject("never")
        if message.body == b"worse":
            raise Retry("not yet", delay=0.05)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, ordered=True, max_attempts=3):
        got.wait(6)
    assert got.all() == [b"one", b"bad", b"worse", b"worse", b"worse", b"two"]
    assert [dead.raw_properties["DLQ_REASON"] for dead in _dead_letters(up, group)] == ["consume_error", "max_retry"]
    assert up.committed(group, topic) == 4


def test_ordered_queues_are_handed_over_in_order(up: Up, topic: str, group: str) -> None:
    got = Gathered()
    is_done = threading.Event()

    def produce() -> None:
        for number in range(60):
            for queue in range(4):
                up.send(topic, b"%d-%d" % (queue, number), queue=queue)
        is_done.set()

    sender = threading.Thread(target=produce)
    sender.start()
    consumers = []
    try:
        for _ in range(3):
            one = PushConsumer(
                group,
                {topic: "*"},
                lambda message: got.add(message.body),
                nameservers=up.nameservers,
                ordered=True,
            )
            one.start()
            consumers.append(one)
            time.sleep(0.15)
        consumers.pop(0).stop()
        got.wait(240, 30)
        is_done.wait(10)
    finally:
        sender.join()
        for one in consumers:
            one.stop()
    for queue in range(4):
        mine = [body for body in got.bodies() if body.startswith(b"%d-" % queue)]
        assert mine == [b"%d-%d" % (queue, number) for number in range(60)]


# -- broadcast -----------------------------------------------------------------------------------


def test_broadcast_reaches_everybody_and_is_remembered_in_files(up: Up, topic: str, group: str, tmp_path: Path) -> None:
    up.send(topic, b"one", b"two")
    got = Gathered()

    def consumer(name: str) -> PushConsumer:
        return PushConsumer(
            group,
            {topic: "*"},
            lambda message: got.add((name, message.body)),
            nameservers=up.nameservers,
            broadcast=True,
            instance=name,
            offset_dir=tmp_path,
        )

    with consumer("a"), consumer("b"):
        got.wait(4)
    told = json.loads((tmp_path / f"{group}@a.json").read_text())
    assert told[topic]["broker-a"]["0"] == 2
    assert up.committed(group, topic) is None
    up.send(topic, b"three")
    with consumer("a"):
        got.wait(5)
    assert sorted(map(str, got.all())) == sorted(
        map(str, [("a", b"one"), ("a", b"two"), ("b", b"one"), ("b", b"two"), ("a", b"three")])
    )


def test_broadcast_offsets_of_another_cluster_are_forgotten(up: Up, topic: str, group: str, tmp_path: Path) -> None:
    up.send(topic, b"one")
    (tmp_path / f"{group}@default.json").write_text(json.dumps({topic: {"broker-a": {"0": 900}}}))
    got = Gathered()
    with PushConsumer(
        group,
        {topic: "*"},
        lambda message: got.add(message.body),
        nameservers=up.nameservers,
        broadcast=True,
        offset_dir=tmp_path,
    ):
        got.wait(1)


def test_wrong_names_and_filters_are_refused_at_once(up: Up, topic: str, group: str) -> None:
    with pytest.raises(InvalidRequest, match="characters"):
        PushConsumer("a b", {topic: "*"}, print, nameservers=up.nameservers)
    with pytest.raises(InvalidRequest, match="characters"):
        PushConsumer(group, {"t t": "*"}, print, nameservers=up.nameservers)
    with pytest.raises(BadFilter, match=r"joined by \|\|"):
        PushConsumer(group, {topic: "a && b"}, print, nameservers=up.nameservers)


def test_broadcast_drops_what_fails(up: Up, topic: str, group: str, tmp_path: Path) -> None:
    up.send(topic, b"bad", b"good")
    got = Gathered()

    def handle(message: Message) -> None:
        got.add(message.body)
        if message.body == b"bad":
            raise ValueError("no")

    with PushConsumer(
        group, {topic: "*"}, handle, nameservers=up.nameservers, broadcast=True, offset_dir=tmp_path, breaker=False
    ):
        got.wait(2)
    assert json.loads((tmp_path / f"{group}@default.json").read_text())[topic]["broker-a"]["0"] == 2


# -- the end -------------------------------------------------------------------------------------


def test_stop_finishes_what_is_in_hand(up: Up, topic: str, group: str) -> None:
    up.send(topic, *(b"%d" % number for number in range(20)))
    got = Gathered()
    begun = threading.Semaphore(0)

    def handle(message: Message) -> None:
        begun.release()
        time.sleep(0.2)
        got.add(message.body)

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, concurrency=2):
        begun.acquire()
        begun.acquire()
    assert sorted(got.bodies()) == [b"0", b"1"]
    assert up.committed(group, topic) == 2


def test_stop_gives_up_waiting_for_a_handler(up: Up, topic: str, group: str, caplog: pytest.LogCaptureFixture) -> None:
    up.send(topic, b"slow")
    begun, may_end = threading.Event(), threading.Event()

    def handle(_message: Message) -> None:
        begun.set()
        may_end.wait(10)

    one = PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers)
    one.start()
    assert begun.wait(10)
    with caplog.at_level(logging.WARNING):
        one.stop(timeout=0.1)
    may_end.set()
    assert "handlers at work" in caplog.text
    assert up.committed(group, topic) in (None, 0)


def test_a_handler_may_stop_its_consumer(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"last")

    def handle(_message: Message) -> None:
        one.stop()

    one = PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers)
    with one:
        one.wait()
    assert up.committed(group, topic) == 1


def test_wait_ends_with_a_signal_and_puts_handlers_back(up: Up, topic: str, group: str) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGINT):
        with PushConsumer(group, {topic: "*"}, print, nameservers=up.nameservers) as one:
            timer = threading.Timer(0.1, os.kill, (os.getpid(), number))
            timer.start()
            one.wait()
            timer.join()
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_stopped_consumer_is_closed(up: Up, topic: str, group: str) -> None:
    one = PushConsumer(group, {topic: "*"}, print, nameservers=up.nameservers)
    with one:
        pass
    one.stop()
    one.wait()
    with pytest.raises(Closed, match="make a new one"):
        one.start()


# -- wrong use -----------------------------------------------------------------------------------


def test_no_name_server_is_told_in_time(topic: str, group: str) -> None:
    began = time.monotonic()
    with pytest.raises(Unavailable, match="litemq up"):
        PushConsumer(group, {topic: "*"}, print, nameservers="127.0.0.1:1").start()
    assert time.monotonic() - began < 3.5


@pytest.mark.parametrize(
    "arguments",
    [
        {"group": ""},
        {"subscriptions": {}},
        {"subscriptions": {"orders": 3}},
        {"handler": "print"},
        {"concurrency": 0},
        {"batch": -1},
        {"prefetch": 1.5},
        {"start": datetime(2026, 1, 1)},  # noqa: DTZ001 - that is what is wrong
        {"start": "soon"},
        {"rebalance": "fair"},
        {"max_attempts": 0},
        {"breaker": 0.5},
        {"nameservers": "nowhere"},
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object]) -> None:
    given: dict[str, object] = {"group": "g", "subscriptions": {"orders": "*"}, "handler": print, **arguments}
    with pytest.raises(InvalidRequest):
        PushConsumer(**given)  # type: ignore[arg-type]


def test_a_wrong_filter_is_refused_at_once() -> None:
    with pytest.raises(BadFilter, match="column"):
        PushConsumer("g", {"orders": Sql("amount >")}, print)


def test_a_topic_may_come_later(up: Up, group: str, caplog: pytest.LogCaptureFixture) -> None:
    got = Gathered()
    topic = f"late-{group}"
    with (
        caplog.at_level(logging.WARNING),
        PushConsumer(group, {topic: "*"}, lambda message: got.add(message.body), nameservers=up.nameservers),
    ):
        assert "asking on" in caplog.text
        up.send(topic, b"one")
        assert got.wait(1) == [b"one"]


# -- asyncio -------------------------------------------------------------------------------------


def test_async_handlers_are_tasks(up: Up, topic: str, group: str) -> None:
    up.send(topic, *(b"%d" % number for number in range(20)))

    async def main() -> None:
        got: list[bytes] = []
        done = asyncio.Event()
        running = most = 0

        async def handle(message: Message) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1
            got.append(message.body)
            if len(got) == 20:
                done.set()

        async with AsyncPushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers, concurrency=5) as one:
            await asyncio.wait_for(done.wait(), 10)
            waiting = asyncio.create_task(one.wait())
            await asyncio.sleep(0)
            await one.stop()
            await asyncio.wait_for(waiting, 1)
        assert sorted(got) == sorted(b"%d" % number for number in range(20))
        assert most == 5

    asyncio.run(main())
    assert up.committed(group, topic) == 20


def test_async_wait_ends_with_a_signal(up: Up, topic: str, group: str) -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        async def handle(_message: Message) -> None:
            """Nothing comes."""

        async with AsyncPushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers) as one:
            asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(one.wait(), 5)

    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) == before


# -- what operators ask through the broker --------------------------------------------------------


def test_operators_may_ask(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"one")
    got = Gathered()
    with PushConsumer(group, {topic: "*"}, lambda message: got.add(message), nameservers=up.nameservers) as one:
        [message] = got.wait(1)
        assert isinstance(message, Message)
        ext = {"consumerGroup": group, "clientId": one.client_id}
        code, _, body = up.ask(Ask.GET_CONSUMER_RUNNING_INFO, {**ext, "jstackEnable": "false"})
        assert code == 0
        assert b'"mqTable":{{"brokerName":"broker-a"' in body
        code, _, body = up.ask(Ask.CONSUME_MESSAGE_DIRECTLY, {**ext, "msgId": message.offset_id, "topic": topic})
        assert (code, json.loads(body)["consumeResult"]) == (0, "CR_SUCCESS")
        assert len(got.wait(2)) == 2
        code, _, body = up.ask(Ask.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"group": group, "topic": topic})
        assert code == 0
        assert one.client_id.encode() in body
        ask = {"group": group, "topic": topic, "timestamp": "0", "isForce": "true"}
        code, _, _ = up.ask(Ask.INVOKE_BROKER_TO_RESET_OFFSET, ask)
        assert code == 0
        assert len(got.wait(3)) == 3


def test_who_is_no_request_cannot_be_replied_to(up: Up, topic: str, group: str) -> None:
    up.send(topic, b"one")
    got = Gathered()

    def handle(message: Message) -> None:
        try:
            one.reply(message, b"answer")
        except InvalidRequest as error:
            got.add(str(error))

    with PushConsumer(group, {topic: "*"}, handle, nameservers=up.nameservers) as one:
        [text] = got.wait(1)
    assert "is no request" in str(text)


def test_times_may_be_time_spans(up: Up, topic: str, group: str) -> None:
    with PushConsumer(group, {topic: "*"}, print, nameservers=up.nameservers) as one:
        one.stop(timedelta(seconds=1))
