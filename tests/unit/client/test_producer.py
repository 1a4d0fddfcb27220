"""Producers of both faces against a real broker."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from litemq.client._message_cy import Message, decode_messages
from litemq.client.admin import Admin
from litemq.client.async_producer import AsyncProducer
from litemq.client.net import BlockingNet, LoopThread
from litemq.client.producer import Producer
from litemq.client.queue_choice import Chooser, java_remainder, queue_of_key
from litemq.client.routes import Routes, TopicQueue, name_servers
from litemq.client.running import run
from litemq.errors import (
    BufferFull,
    Closed,
    InvalidRequest,
    LiteMQError,
    NoAnswer,
    OutcomeUnknown,
    RecordTooLarge,
    Unavailable,
    UnknownTopic,
)
from litemq.features.breaker import Breaker
from litemq.testing import Broker, broker
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with broker() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(c if c.isalnum() else "_" for c in request.node.name)[:100]


@pytest.fixture
def producer(server: Broker) -> Iterator[Producer]:
    with Producer(server.nameservers) as made:
        yield made


def stored(server: Broker, topic: str) -> list[Message]:
    """Return all messages of a topic, queue by queue."""
    net = BlockingNet()
    found: list[Message] = []
    deadline = time.monotonic() + 10
    while True:  # a topic that a send makes is told to the name server a little later
        try:
            route = run(Routes(net, name_servers(server.nameservers)).find(topic))
            break
        except UnknownTopic:
            assert time.monotonic() < deadline
    for queue in route.readable:
        offset = 0
        while True:
            ext = {"consumerGroup": "look", "topic": topic, "queueId": str(queue.queue_id), "queueOffset": str(offset)}
            ext |= {"maxMsgNums": "1000", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
            ext |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"}
            answer = run(net.call(route.addresses[queue.broker], Request(Ask.PULL_MESSAGE, ext), 3))
            if answer.code != 0:
                break
            messages = decode_messages(answer.body, topic=topic)
            found += messages
            offset = messages[-1].queue_offset + 1
    run(net.close())
    return found


def test_a_message_is_stored_as_it_was_sent(server: Broker, producer: Producer, topic: str) -> None:
    sent = producer.send(topic, b"17 apples", tags="paid", keys=("a", "b"), properties={"region": "eu"})
    (found,) = stored(server, topic)
    assert (found.message_id, found.queue_id, found.queue_offset) == (sent.message_id, sent.queue_id, sent.queue_offset)
    assert (found.body, found.tags, found.keys, dict(found.properties)) == (
        b"17 apples",
        "paid",
        ("a", "b"),
        {"region": "eu"},
    )
    assert found.offset_id == sent.offset_id
    assert abs(found.born_ms / 1000 - time.time()) < 60


def test_what_was_received_can_be_sent_on(server: Broker, producer: Producer, topic: str) -> None:
    first = producer.send(topic, b"17 apples", tags="paid", properties={"region": "eu"})
    (found,) = stored(server, topic)
    second = producer.send(found)
    assert second.message_id != first.message_id
    one, two = sorted(stored(server, topic), key=lambda each: each.stored_ms)
    assert (one.body, one.tags, dict(one.properties)) == (two.body, two.tags, dict(two.properties))


def test_futures_tell_where_messages_are(server: Broker, producer: Producer, topic: str) -> None:
    futures = [producer.send_async(topic, b"%d" % n) for n in range(2000)]
    places = {(future.result(10).queue_id, future.result().queue_offset): n for n, future in enumerate(futures)}
    assert len(places) == 2000
    for message in stored(server, topic):
        assert message.body == b"%d" % places[message.queue_id, message.queue_offset]


def test_messages_with_one_sharding_key_keep_their_order(server: Broker, producer: Producer, topic: str) -> None:
    for n in range(600):
        producer.send_async(topic, b"%d" % n, sharding_key=f"key {n % 7}")
    producer.flush()
    found: dict[str | None, list[int]] = {}
    queues: dict[str | None, set[int]] = {}
    for message in stored(server, topic):
        found.setdefault(message.sharding_key, []).append(int(message.body))
        queues.setdefault(message.sharding_key, set()).add(message.queue_id)
    assert sum(map(len, found.values())) == 600
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert all(len(used) == 1 for used in queues.values())


def test_a_batch_is_together(server: Broker, producer: Producer, topic: str) -> None:
    sent = producer.send_batch(Message(topic, b"%d" % n, tags="t") for n in range(100))
    assert [one.queue_offset - sent[0].queue_offset for one in sent] == list(range(100))
    found = {message.message_id: message for message in stored(server, topic)}
    assert [found[one.message_id].body for one in sent] == [b"%d" % n for n in range(100)]
    assert producer.send_batch([]) == []


def test_a_large_batch_becomes_several_requests(server: Broker, producer: Producer, topic: str) -> None:
    sent = producer.send_batch([Message(topic, bytes([n]) * (3 << 20)) for n in range(5)], timeout=20)
    assert len({one.queue_id for one in sent}) == 1
    assert [one.queue_offset for one in sent] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("how", ["lz4", "zstd", "zlib"])
def test_compressed_bodies_arrive_whole(server: Broker, topic: str, how: str) -> None:
    body = b"the same again and again " * 1000
    with Producer(server.nameservers, compression=how) as producer:  # type: ignore[arg-type] # one of its words
        producer.send(topic, body)
        producer.send_async(topic, body).result(10)
        producer.send_batch([Message(topic, body), Message(topic, b"short")])
    found = stored(server, topic)
    assert sorted(message.body for message in found) == sorted([body, body, body, b"short"])
    assert sum(bool(message.sys_flag & 1) for message in found) == 2


def test_one_way_messages_arrive(server: Broker, producer: Producer, topic: str) -> None:
    producer.send(topic, b"makes the topic")
    producer.send_oneway(topic, b"quiet")
    deadline = time.monotonic() + 10
    while len(stored(server, topic)) < 2:
        assert time.monotonic() < deadline


def test_several_threads_share_a_producer(server: Broker, producer: Producer, topic: str) -> None:
    def work(number: int) -> None:
        for n in range(100):
            producer.send(topic, b"%d %d" % (number, n))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len({message.body for message in stored(server, topic)}) == 800


def test_a_cancelled_future_is_not_sent(server: Broker, topic: str) -> None:
    with Producer(server.nameservers, linger=0.5) as producer:
        first, second = producer.send_async(topic, b"first"), producer.send_async(topic, b"second")
        assert second.cancel()
        first.result(10)
    assert [message.body for message in stored(server, topic)] == [b"first"]


def test_linger_makes_one_request(server: Broker, topic: str) -> None:
    with Producer(server.nameservers, linger=5.0) as producer:
        futures = [producer.send_async(topic, b"%d" % n) for n in range(10)]
        producer.flush()  # does not wait for the 5 seconds
        offsets = [future.result(0).queue_offset for future in futures]
    assert offsets == list(range(offsets[0], offsets[0] + 10))


# -- what goes wrong ---------------------------------------------------------------------------------


def test_wrong_use_is_refused_in_plain_words(server: Broker, producer: Producer) -> None:
    with pytest.raises(InvalidRequest, match="encode text"):
        producer.send("t", "text")  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidRequest, match="characters"):
        producer.send("no spaces", b"")
    with pytest.raises(InvalidRequest, match="not both"):
        producer.send(Message("t", b""), b"")
    with pytest.raises(InvalidRequest, match="needs a body"):
        producer.send("t")
    with pytest.raises(InvalidRequest, match="one topic"):
        producer.send_batch([Message("t", b""), Message("u", b"")])
    with pytest.raises(InvalidRequest, match=r"must be a litemq\.Message"):
        producer.send_batch(["text"])  # type: ignore[list-item] # that is the test
    with pytest.raises(InvalidRequest, match="one sharding key"):
        producer.send_batch([Message("t", b"", sharding_key="a"), Message("t", b"", sharding_key="b")])
    with pytest.raises(InvalidRequest, match="round-robin"):
        Producer(server.nameservers, queue_choice="nonsense")  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidRequest, match="lz4"):
        Producer(server.nameservers, compression="rar")  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidRequest, match="timeout"):
        Producer(server.nameservers, timeout=0)
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        Producer("nowhere")
    with pytest.raises(InvalidRequest, match="seconds"):
        producer.send("t", b"", timeout="soon")  # type: ignore[arg-type] # that is the test


@pytest.mark.parametrize(
    "arguments",
    [
        {"timeout": None},
        {"linger": -1},
        {"batch_bytes": 0},
        {"buffer_bytes": "1 MiB"},
        {"retries": "2"},
        {"breaker": Breaker()},
        {"hooks": "trace"},
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, object]) -> None:
    async def make() -> None:
        AsyncProducer(**arguments)  # type: ignore[arg-type] # that is the test

    with pytest.raises(InvalidRequest, match=next(iter(arguments)).removesuffix("out")):
        Producer(**arguments)  # type: ignore[arg-type] # that is the test
    with pytest.raises(InvalidRequest):
        asyncio.run(make())


def test_too_large_a_message_says_what_to_do(producer: Producer, topic: str) -> None:
    with pytest.raises(InvalidRequest, match=r"store\.max_body_bytes"):
        producer.send(topic, bytes(5 << 20))
    with pytest.raises(RecordTooLarge):
        producer.send(topic, bytes(17 << 20))
    future = producer.send_async(topic, bytes(5 << 20))
    good = producer.send_async(topic, b"good")
    with pytest.raises(InvalidRequest):
        future.result(10)
    assert good.result(10).queue_offset == 0
    with pytest.raises(InvalidRequest):
        producer.flush()
    producer.flush()  # it told once


def test_a_closed_producer_says_so(server: Broker) -> None:
    producer = Producer(server.nameservers)
    producer.send("t", b"")
    producer.close()
    producer.close()
    with pytest.raises(Closed, match="make a new one"):
        producer.send("t", b"")
    with pytest.raises(Closed):
        producer.send_async("t", b"")


def test_nobody_there_is_told_soon() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with Producer(address) as producer, pytest.raises(NoAnswer, match="litemq up"):
        producer.send("t", b"")
    assert time.monotonic() - began < 3


def test_a_server_that_does_not_answer_is_told_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with Producer(address, timeout=0.5) as producer, pytest.raises(Unavailable):
            producer.send("t", b"")
        assert time.monotonic() - began < 3


def test_the_time_that_connecting_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def slowly(address: tuple[str, int], timeout: float) -> socket.socket:
        time.sleep(0.6)
        return connect(address, timeout)

    monkeypatch.setattr(socket, "create_connection", slowly)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with Producer(f"127.0.0.1:{silent.getsockname()[1]}", timeout=1.0) as producer, pytest.raises(Unavailable):
            producer.send("t", b"")
        assert time.monotonic() - began < 1.4


def test_a_silent_name_server_leaves_time_for_the_next(server: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Producer([address, server.nameservers]) as producer:
            began = time.monotonic()
            producer.send("t", b"")
            assert time.monotonic() - began < 2.5
            began = time.monotonic()
            producer.send("another", b"")
            assert time.monotonic() - began < 1, "the one that answered is asked first now"


def test_a_server_that_speaks_something_else_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        address = f"127.0.0.1:{web.getsockname()[1]}"

        def serve() -> None:
            web.settimeout(2.0)
            with contextlib.suppress(TimeoutError):
                while True:
                    connection, _ = web.accept()
                    with connection:
                        connection.recv(100)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        serving = threading.Thread(target=serve)
        serving.start()
        with Producer(address, timeout=0.5) as producer, pytest.raises(NoAnswer, match="is it a LiteMQ broker"):
            producer.send("t", b"")
        serving.join()


def test_a_full_buffer_blocks_then_refuses() -> None:
    with broker() as server, Producer(server.nameservers, linger=60, buffer_bytes=1000, timeout=20) as producer:
        producer.send("t", b"makes the topic")
        os.kill(server.pid or 0, signal.SIGSTOP)
        try:
            first = producer.send_async("t", bytes(900))
            with pytest.raises(BufferFull, match="buffer_bytes"):
                producer.send_async("t", bytes(900), timeout=0.05)
            waiting = threading.Thread(target=producer.send_async, args=("t", bytes(900)))
            waiting.start()
            with pytest.raises(BufferFull, match="flush again"):
                producer.flush(timeout=0.05)
        finally:
            os.kill(server.pid or 0, signal.SIGCONT)
        assert first.result(10).message_id, "who waits for room makes the others hurry"
        waiting.join()
        producer.flush()


def test_a_flush_waits_for_nothing_that_comes_later() -> None:
    with broker() as server, Producer(server.nameservers, linger=60) as producer:
        first = producer.send_async("t", b"first")
        first.add_done_callback(lambda _: producer.send_async("t", b"lingers"))
        producer.flush()
        assert first.done()


def test_a_restart_is_waited_for() -> None:
    with broker() as server, Producer(server.nameservers, timeout=20) as producer:
        producer.send("t", b"before")
        server.kill()
        late = producer.send_async("t", b"meanwhile")
        starts = threading.Thread(target=server.restart)
        starts.start()
        producer.send("t", b"after")
        assert late.result(20).message_id
        starts.join()
        assert {b"before", b"meanwhile", b"after"} <= {message.body for message in stored(server, "t")}


def test_no_answer_to_what_was_sent_is_not_called_a_failure() -> None:
    with broker() as server, Producer(server.nameservers, timeout=0.7, retries=0) as producer:
        producer.send("t", b"before")
        os.kill(server.pid or 0, signal.SIGSTOP)
        try:
            with pytest.raises(OutcomeUnknown, match="may have been done"):
                producer.send("t", b"into the dark")
        finally:
            os.kill(server.pid or 0, signal.SIGCONT)


def test_a_child_process_uses_no_connection_of_its_parent(producer: Producer, server: Broker, topic: str) -> None:
    producer.send(topic, b"parent")
    child = os.fork()
    if child == 0:
        try:
            producer.send(topic, b"child")
        finally:
            os._exit(0)
    for _ in range(50):
        producer.send(topic, b"parent")
    assert os.waitpid(child, 0)[1] == 0
    assert sorted({message.body for message in stored(server, topic)}) == [b"child", b"parent"]


def test_a_child_process_sends_in_the_background_and_asks_as_its_parent_did(server: Broker, topic: str) -> None:
    with Producer(server.nameservers, linger=0.3) as producer:
        producer.send_async(topic, b"before")
        producer.flush()
        with pytest.raises(NoAnswer):
            producer.request(Message(topic, b"anybody?"), timeout=0.1)
        pending = producer.send_async(topic, b"parent")
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            code = 1
            try:
                future = producer.send_async(topic, b"child")
                producer.flush()
                assert future.done()
                with pytest.raises(NoAnswer):
                    producer.request(Message(topic, b"anybody else?"), timeout=0.1)
                producer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        pending.result(10)
    bodies = [message.body for message in stored(server, topic)]
    assert sorted(bodies) == [b"anybody else?", b"anybody?", b"before", b"child", b"parent"]


def test_threads_that_ask_first_share_one_loop(server: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Slow(LoopThread):
        def __init__(self, name: str) -> None:
            made.append(name)
            time.sleep(0.1)
            super().__init__(name)

    monkeypatch.setattr("litemq.client.producer.LoopThread", Slow)
    with Producer(server.nameservers) as producer, concurrent.futures.ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(producer.request, Message(topic, b"?"), timeout=0.1) for _ in range(4)]
        assert all(isinstance(one.exception(10), NoAnswer) for one in asked)
    assert len(made) == 1


def test_a_topic_that_becomes_smaller_is_sent_to_where_it_is(server: Broker, topic: str) -> None:
    with Producer(server.nameservers, retries=0) as producer, Admin(server.nameservers) as admin:
        admin.create_topic(topic, queues=8)
        before = {producer.send(topic, b"", sharding_key=str(number)).queue_id for number in range(20)}
        assert max(before) >= 2
        admin.alter_topic(topic, queues=2, force=True)
        assert {producer.send(topic, b"", sharding_key=str(number)).queue_id for number in range(20)} == {0, 1}
        admin.alter_topic(topic, queues=1, force=True)
        assert producer.send_async(topic, b"", sharding_key="1").result(10).queue_id == 0
        assert {sent.queue_id for sent in producer.send_batch([Message(topic, b"")] * 3)} == {0}


# -- decisions ---------------------------------------------------------------------------------------


def test_java_and_we_choose_the_same_queue() -> None:
    queues = [TopicQueue("t", "b", number) for number in range(8)]
    assert queue_of_key("o-17", queues).queue_id == 3351620 % 8
    assert java_remainder(0x80000000, 7) == 2147483648 % 7, "the hash whose absolute value Java cannot hold"
    assert java_remainder(0xFFFFFFFF, 8) == 1


def test_the_choices() -> None:
    queues = [TopicQueue("t", name, number) for name in ("a", "b") for number in range(2)]
    message = Message("t", b"", keys="k")

    def of(how: object, **kwargs: object) -> Chooser:
        return Chooser(how)  # type: ignore[arg-type] # names

    turns = of("round-robin")
    assert len({turns.choose(message, queues, lambda _: True) for _ in range(4)}) == 4
    assert {(turns.choose(message, queues, lambda _: True, "a") or queues[0]).broker for _ in range(4)} == {"b"}
    assert turns.choose(message, queues, lambda _: False) is None
    fast = of("latency")
    fast.answered("a", 0.5)
    fast.answered("b", 0.1)
    assert {(fast.choose(message, queues, lambda _: True) or queues[0]).broker for _ in range(4)} == {"b"}
    many = [(fast.choose(message, queues) or queues[0]).broker for _ in range(5000)]
    assert many.count("a") > 1, "it may be as fast by now"
    assert len({of("hash").choose(message, queues, lambda _: True) for _ in range(9)}) == 1
    assert of(lambda _m, q: q[-1]).choose(message, queues, lambda _: True) == queues[-1]


def test_a_broken_broker_is_left_alone(server: Broker) -> None:
    breakers: list[Breaker] = []

    def make() -> Breaker:
        breakers.append(Breaker(min_calls=2, open_s=30))
        return breakers[-1]

    with broker() as mine, Producer(mine.nameservers, timeout=0.2, retries=0, breaker=make) as producer:
        producer.send("t", b"")
        mine.kill()
        for _ in range(5):
            with pytest.raises(LiteMQError):
                producer.send("t", b"")
        with pytest.raises(Unavailable, match="failed too often") as refused:
            producer.send("t", b"")
        assert refused.value.retry_after == 30
        assert breakers[0].state == "open"


# -- asyncio -----------------------------------------------------------------------------------------


def test_the_awaited_face(server: Broker, topic: str) -> None:
    async def test() -> Sequence[int]:
        async with AsyncProducer(server.nameservers) as producer:
            first = await producer.send(topic, b"one", tags="t")
            many = await asyncio.gather(*(producer.send_async(topic, b"%d" % n) for n in range(500)))
            batch = await producer.send_batch([Message(topic, b"a"), Message(topic, b"b")])
            await producer.send_oneway(topic, b"quiet")
            await producer.flush()
            with pytest.raises(InvalidRequest):
                await producer.send("no spaces", b"")
            return [first.queue_offset, len(many), len(batch)]

    assert asyncio.run(asyncio.wait_for(test(), 30)) == [0, 500, 2]
    deadline = time.monotonic() + 10
    while len(stored(server, topic)) < 504:
        assert time.monotonic() < deadline
