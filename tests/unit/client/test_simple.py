"""Consumers with receipts, both faces: against a stand-in that answers on demand, and a real broker."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.support.stand_in import StandIn, record, standing_in

from litemq.client import pop_core
from litemq.client._message_cy import Message
from litemq.client.admin import Admin
from litemq.client.async_simple import AsyncSimpleConsumer
from litemq.client.producer import Producer
from litemq.client.receipts import POP_CK, Delivery, acks, parse_receipt, popped_messages, receipt_of
from litemq.client.simple import SimpleConsumer
from litemq.client.values import Sql
from litemq.errors import BadBody, BadFilter, Closed, InvalidRequest, NoAnswer, StaleReceipt, Unavailable
from litemq.testing import Broker, broker
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response


@pytest.fixture
def fake() -> Iterator[StandIn]:
    with standing_in() as made:
        yield made


def until(is_true: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def popped(*offsets: int, topic: str = "orders", times: int = 0, **ext: str) -> Response:
    """Return the answer to a pop that hands out messages of queue 0."""
    body = b"".join(record(topic, b"m%d" % offset, offset=offset, reconsume=times) for offset in offsets)
    found = {"popTime": "1700000000000", "invisibleTime": "60000", "reviveQid": "3", "restNum": "0"}
    found["startOffsetInfo"] = f"0 0 {min(offsets)}"
    found["msgOffsetInfo"] = "0 0 " + ",".join(str(offset) for offset in offsets)
    return Response(ext={**found, **ext}, body=body)


def nothing(_request: Request) -> Response:
    return Response(Code.POLLING_TIMEOUT, remark="nothing came")


def pops(fake: StandIn, *answers: Response) -> None:
    """Answer pops with these, then with nothing."""
    left = iter(answers)
    fake.answers[Ask.POP_MESSAGE] = lambda request: next(left, None) or nothing(request)


# -- receipts ------------------------------------------------------------------------------------


def test_messages_carry_their_receipts() -> None:
    answer = popped(7, 9)
    found = popped_messages(answer.body, answer.ext, topic="orders", group="workers", broker="b")
    assert [one.raw_properties[POP_CK] for one in found] == [
        "7 1700000000000 60000 3 0 b 0 7",
        "7 1700000000000 60000 3 0 b 0 9",
    ]
    assert [(one.body, one.attempt, dict(one.properties)) for one in found] == [(b"m7", 1, {}), (b"m9", 1, {})]
    receipt = parse_receipt(found[1].raw_properties[POP_CK], "orders", "workers")
    assert receipt is not None
    delivery = receipt.delivery
    assert (delivery.start, receipt.offset, delivery.queue_id, delivery.broker) == (7, 9, 0, "b")
    assert (delivery.pop_ms, delivery.invisible_ms, delivery.revive_queue) == (1700000000000, 60000, 3)
    assert (delivery.stored_topic, receipt.is_plain) == ("orders", True)


def test_a_receipt_of_the_broker_stays() -> None:
    body = record("orders", b"m", offset=5, POP_CK="5 1 2 3 0 b 0 5 more")
    ext = {"popTime": "1", "invisibleTime": "2", "reviveQid": "3"}
    (found,) = popped_messages(body, ext, topic="orders", group="workers", broker="b")
    receipt = parse_receipt(found.raw_properties[POP_CK], "orders", "workers")
    assert receipt is not None
    assert (str(receipt), receipt.is_plain) == ("5 1 2 3 0 b 0 5 more", False)


def test_without_starts_a_delivery_begins_with_its_first_message() -> None:
    body = record("orders", b"m", offset=5) + record("orders", b"m", offset=6)
    ext = {"popTime": "1", "invisibleTime": "2", "reviveQid": "3"}
    found = popped_messages(body, ext, topic="orders", group="workers", broker="b")
    assert [one.raw_properties[POP_CK].split(" ")[0] for one in found] == ["5", "5"]


def test_retries_are_known_by_their_mark() -> None:
    answer = popped(5, startOffsetInfo="2 0 5")
    (found,) = popped_messages(answer.body, answer.ext, topic="orders", group="workers", broker="b")
    receipt = parse_receipt(found.raw_properties[POP_CK], "orders", "workers")
    assert receipt is not None
    assert (receipt.delivery.mark, receipt.delivery.stored_topic) == ("2", "%RETRY%workers+orders")


def test_attempts_are_counted_in_the_record_or_beside_it() -> None:
    answer = popped(5, 6, 7, times=2, orderCountInfo="0 0 1;0 qo0%6 4")
    found = popped_messages(answer.body, answer.ext, topic="orders", group="workers", broker="b")
    assert [one.attempt for one in found] == [2, 5, 2]
    answer = popped(5, times=2)
    assert [
        one.attempt for one in popped_messages(answer.body, answer.ext, topic="orders", group="workers", broker="b")
    ] == [3]


@pytest.mark.parametrize("name", ["popTime", "startOffsetInfo", "orderCountInfo"])
def test_an_answer_that_cannot_be_read(name: str) -> None:
    answer = popped(5)
    answer.ext = {**answer.ext, name: "0 x y;z"}
    with pytest.raises(BadBody):
        popped_messages(answer.body, answer.ext, topic="orders", group="workers", broker="b")


@pytest.mark.parametrize("text", ["", "1 2 3", "a 2 3 4 0 b 0 5", "1 2 3 4 0 b c 5"])
def test_what_is_no_receipt(text: str) -> None:
    assert parse_receipt(text, "orders", "workers") is None


def test_acknowledgements_are_bits_by_delivery() -> None:
    one, other = Delivery("T1", "g", "b", 1, 10, 3, 60000, 2, "0"), Delivery("T1", "g", "b", 1, 20, 4, 60000, 2, "0")
    first, second = acks([receipt_of(one, 10), receipt_of(one, 13), receipt_of(other, 20)])
    assert first == {"b": "CQ==", "c": "g", "it": 60000, "pt": 3, "q": 1, "r": "0", "rq": 2, "so": 10, "t": "T1"}
    assert (second["so"], base64.b64decode(second["b"])) == (20, b"\1")


# -- receiving -----------------------------------------------------------------------------------


def test_what_a_pop_asks_for(fake: StandIn) -> None:
    pops(fake, popped(5))
    with SimpleConsumer("workers", {"orders": "a || b"}, nameservers=fake.address, start="last") as consumer:
        (message,) = consumer.receive(max_messages=7, invisible=30, timeout=2)
        assert (message.topic, message.body, message.group, message.broker) == ("orders", b"m5", "workers", "stand-in")
    ext = fake.of(Ask.POP_MESSAGE)[0].ext
    born = int(ext.pop("bornTime"))
    assert abs(born - time.time() * 1000) < 60_000
    assert 1500 < int(ext.pop("pollTime")) <= 2000
    assert ext == {
        "consumerGroup": "workers",
        "topic": "orders",
        "queueId": "-1",
        "maxMsgNums": "7",
        "invisibleTime": "30000",
        "initMode": "1",
        "expType": "TAG",
        "exp": "a || b",
        "order": "false",
    }
    beat = json.loads(fake.of(Ask.HEART_BEAT)[0].body)["consumerDataSet"][0]
    assert (beat["groupName"], beat["consumeType"]) == ("workers", "CONSUME_POP")
    assert fake.of(Ask.UNREGISTER_CLIENT)[0].ext["consumerGroup"] == "workers"
    codes = [one.code for one in fake.requests]
    assert codes.index(Ask.HEART_BEAT) < codes.index(Ask.POP_MESSAGE)  # which makes the group


def test_many_are_received_by_several_pops(fake: StandIn) -> None:
    pops(fake, popped(*range(32)), popped(*range(32, 50)))
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        found = consumer.receive(max_messages=100)
    assert [one.queue_offset for one in found] == list(range(50))
    asked = [(one.ext["maxMsgNums"], one.ext["pollTime"]) for one in fake.of(Ask.POP_MESSAGE)]
    assert [count for count, _ in asked] == ["32", "32"]
    assert asked[1][1] == "0"  # those that are there are not kept waiting


def test_nothing_comes(fake: StandIn) -> None:
    pops(fake)
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        assert consumer.receive(timeout=0) == []
        assert fake.of(Ask.POP_MESSAGE)[0].ext["pollTime"] == "0"


def test_a_topic_that_is_not_there_yet(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    with SimpleConsumer("workers", {"jobs": "*"}, nameservers=fake.address) as consumer:
        assert consumer.receive(timeout=0.05) == []
        assert "litemq topic create jobs" in caplog.text
        pops(fake, popped(5, topic="jobs"))
        fake.topics.add("jobs")
        assert len(consumer.receive(timeout=10)) == 1
    assert fake.of(Ask.HEART_BEAT) != []


def test_several_topics_are_waited_for_without_taking(fake: StandIn) -> None:
    fake.topics.add("jobs")
    ready = asyncio.Event()
    taken: list[str] = []

    async def notice(request: Request) -> Response:
        if request.ext["topic"] == "orders":
            await asyncio.sleep(60)
        await ready.wait()
        return Response(ext={"hasMsg": "true", "pollingFull": "false"})

    def pop(request: Request) -> Response:
        taken.append(request.ext["pollTime"])
        return popped(5, topic="jobs") if request.ext["topic"] == "jobs" and ready.is_set() else nothing(request)

    fake.answers |= {Ask.NOTIFICATION: notice, Ask.POP_MESSAGE: pop}

    async def main() -> None:
        async with AsyncSimpleConsumer("workers", {"orders": "*", "jobs": "*"}, nameservers=fake.address) as consumer:
            assert await consumer.receive(timeout=0.1) == []
            task = asyncio.create_task(consumer.receive(timeout=10))
            await asyncio.to_thread(until, lambda: len(taken) >= 4)
            assert len(fake.of(Ask.NOTIFICATION)) == 2  # those that wait already wait on
            ready.set()
            fake.wake()
            (message,) = await task
            assert message.topic == "jobs"

    asyncio.run(main())
    assert set(taken) == {"0"}


def test_a_broker_without_notices_is_asked_again_and_again(fake: StandIn) -> None:
    fake.topics.add("jobs")
    fake.answers[Ask.NOTIFICATION] = lambda _: Response(Code.REQUEST_CODE_NOT_SUPPORTED, remark="unknown")
    pops(fake, *[nothing(Request(0))] * 5, popped(5))
    with SimpleConsumer("workers", {"orders": "*", "jobs": "*"}, nameservers=fake.address) as consumer:
        assert len(consumer.receive(timeout=10)) == 1


def test_topics_take_turns(fake: StandIn) -> None:
    fake.topics.add("jobs")
    fake.answers[Ask.POP_MESSAGE] = lambda request: popped(5, topic=request.ext["topic"])
    with SimpleConsumer("workers", {"orders": "*", "jobs": "*"}, nameservers=fake.address) as consumer:
        topics = [consumer.receive(max_messages=1)[0].topic for _ in range(4)]
    assert topics in (["orders", "jobs"] * 2, ["jobs", "orders"] * 2)


def test_what_goes_wrong_for_now_is_tried_on(fake: StandIn) -> None:
    pops(fake, Response(Code.SYSTEM_BUSY, remark="too much"), Response(Code.TOPIC_NOT_EXIST, remark="?"), popped(5))
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        assert len(consumer.receive(timeout=10)) == 1
        fake.answers[Ask.POP_MESSAGE] = lambda _: Response(Code.SYSTEM_BUSY, remark="too much")
        with pytest.raises(Unavailable, match="too much"):
            consumer.receive(timeout=0.3)


def test_what_is_refused_for_good_is_raised(fake: StandIn) -> None:
    fake.answers[Ask.POP_MESSAGE] = lambda _: Response(Code.INVALID_PARAMETER, remark="never")
    with (
        SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer,
        pytest.raises(InvalidRequest, match="never"),
    ):
        consumer.receive()
    fake.answers[Ask.HEART_BEAT] = lambda _: Response(Code.INVALID_PARAMETER, remark="no such group")
    with (
        SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer,
        pytest.raises(InvalidRequest, match="no such group"),
    ):
        consumer.receive()


def test_bad_arguments(fake: StandIn) -> None:
    with pytest.raises(InvalidRequest, match="group"):
        SimpleConsumer("my workers", {"orders": "*"})
    with pytest.raises(InvalidRequest, match="subscriptions"):
        SimpleConsumer("workers", {})
    with pytest.raises(BadFilter):
        SimpleConsumer("workers", {"orders": "a | b"})
    with pytest.raises(InvalidRequest, match="start"):
        SimpleConsumer("workers", {"orders": "*"}, start="middle")  # type: ignore[arg-type]
    with SimpleConsumer("workers", {"orders": "*"}, nameservers="127.0.0.1:1") as consumer:
        with pytest.raises(InvalidRequest, match="max_messages"):
            consumer.receive(max_messages=0)
        with pytest.raises(InvalidRequest, match="invisible"):
            consumer.receive(invisible=0)
        with pytest.raises(NoAnswer, match="no name server"):
            consumer.receive(timeout=0.1)
    with pytest.raises(Closed):
        consumer.receive()
    consumer.close()


# -- giving receipts back --------------------------------------------------------------------------


def test_one_message_is_acknowledged_by_its_receipt(fake: StandIn) -> None:
    pops(fake, popped(5))
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        consumer.ack(*consumer.receive())
        consumer.ack()
    (request,) = fake.of(Ask.ACK_MESSAGE)
    assert request.ext == {
        "consumerGroup": "workers",
        "topic": "orders",
        "queueId": "0",
        "extraInfo": "5 1700000000000 60000 3 0 stand-in 0 5",
        "offset": "5",
        "bname": "stand-in",
    }


def test_several_messages_go_in_one_request(fake: StandIn) -> None:
    pops(fake, popped(5, 6, 8))
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        consumer.ack(*consumer.receive())
    (request,) = fake.of(Ask.BATCH_ACK_MESSAGE)
    body = json.loads(request.body)
    assert body["brokerName"] == "stand-in"
    assert [(one["so"], base64.b64decode(one["b"])) for one in body["acks"]] == [(5, b"\x0b")]
    assert fake.of(Ask.ACK_MESSAGE) == []


def test_a_changed_time_changes_the_receipt(fake: StandIn) -> None:
    pops(fake, popped(5, 6))
    times = iter(["1700000001000", "1700000002000"])
    fake.answers[Ask.CHANGE_MESSAGE_INVISIBLETIME] = lambda request: Response(
        ext={"popTime": next(times), "invisibleTime": request.ext["invisibleTime"], "reviveQid": "1"}
    )
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        first, second = consumer.receive()
        consumer.change_invisible(first, 120)
        consumer.change_invisible(first, 0)
        consumer.ack(first)
        consumer.ack(second)
        with pytest.raises(InvalidRequest, match="invisible"):
            consumer.change_invisible(first, -1)
    changes = [(one.ext["extraInfo"], one.ext["invisibleTime"]) for one in fake.of(Ask.CHANGE_MESSAGE_INVISIBLETIME)]
    assert changes == [
        ("5 1700000000000 60000 3 0 stand-in 0 5", "120000"),
        ("5 1700000001000 120000 1 0 stand-in 0 5", "0"),
    ]
    assert [one.ext["extraInfo"] for one in fake.of(Ask.ACK_MESSAGE)] == [
        "5 1700000002000 0 1 0 stand-in 0 5",
        "5 1700000000000 60000 3 0 stand-in 0 6",
    ]


def test_a_message_that_was_not_received_so_is_refused(fake: StandIn) -> None:
    pops(fake, popped(5))
    with (
        SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer,
        SimpleConsumer("others", {"orders": "*"}, nameservers=fake.address) as other,
    ):
        (message,) = consumer.receive()
        for wrong in (Message("orders", b"m"), [message], None):
            with pytest.raises(InvalidRequest, match=r"receive\(\) returned"):
                consumer.ack(message, wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="not received by a consumer of group 'others'"):
            other.ack(message)
        with pytest.raises(InvalidRequest):
            other.change_invisible(message, 5)
    assert fake.of(Ask.ACK_MESSAGE) == []


def test_a_stale_receipt_is_refused_by_the_broker(fake: StandIn) -> None:
    pops(fake, popped(5))
    fake.answers[Ask.ACK_MESSAGE] = lambda _: Response(Code.NO_MESSAGE, remark="the receipt is stale")
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        (message,) = consumer.receive()
        with pytest.raises(InvalidRequest, match="the receipt is stale"):
            consumer.ack(message)


def test_an_acknowledgement_is_told_until_it_is_heard(fake: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pop_core, "TOLD_S", 0.2)
    pops(fake, popped(5))
    refusals = iter([Response(Code.SYSTEM_BUSY, remark="too much")])
    fake.answers[Ask.ACK_MESSAGE] = lambda _: next(refusals, Response())
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        messages = consumer.receive()
        consumer.ack(*messages)
        fake.answers[Ask.ACK_MESSAGE] = lambda _: Response(Code.SYSTEM_BUSY, remark="too much")
        with pytest.raises(Unavailable, match="too much"):
            consumer.ack(*messages)


def test_who_is_cancelled_gives_back_what_comes(fake: StandIn) -> None:
    ready = asyncio.Event()

    async def pop(_request: Request) -> Response:
        await ready.wait()
        return popped(5)

    fake.answers[Ask.POP_MESSAGE] = pop
    fake.answers[Ask.CHANGE_MESSAGE_INVISIBLETIME] = lambda _: Response(
        ext={"popTime": "1", "invisibleTime": "0", "reviveQid": "1"}
    )

    async def main() -> None:
        async with AsyncSimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await consumer.receive()
            ready.set()
            fake.wake()
            await asyncio.to_thread(until, lambda: fake.of(Ask.CHANGE_MESSAGE_INVISIBLETIME))
        (request,) = fake.of(Ask.CHANGE_MESSAGE_INVISIBLETIME)
        assert (request.ext["offset"], request.ext["invisibleTime"]) == ("5", "0")

    asyncio.run(main())


def test_closing_while_somebody_waits(fake: StandIn) -> None:
    async def pop(_request: Request) -> Response:
        await asyncio.sleep(60)
        return Response()

    fake.answers[Ask.POP_MESSAGE] = pop

    async def main() -> None:
        consumer = AsyncSimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address)
        task = asyncio.create_task(consumer.receive())
        await asyncio.to_thread(until, lambda: fake.of(Ask.POP_MESSAGE))
        await consumer.close()
        with pytest.raises(Closed):
            await task

    asyncio.run(main())


def test_who_lost_a_connection_comes_back_at_once(fake: StandIn) -> None:
    pops(fake, popped(5), popped(6))
    with SimpleConsumer("workers", {"orders": "*"}, nameservers=fake.address) as consumer:
        assert len(consumer.receive()) == 1
        fake.drop_connections()
        until(lambda: len(fake.of(Ask.HEART_BEAT)) == 2)
        assert len(consumer.receive()) == 1


# -- with a real broker ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with broker() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest, server: Broker) -> str:
    """Return the name of a topic, and of a group, that nobody else uses."""
    found = "".join(c if c.isalnum() else "_" for c in request.node.name)[:100]
    with Admin(server.nameservers) as admin:
        admin.create_topic(found, queues=4)
    return found


@pytest.fixture
def producer(server: Broker) -> Iterator[Producer]:
    with Producer(server.nameservers) as made:
        yield made


def bodies(messages: list[Message]) -> list[bytes]:
    return sorted(message.body for message in messages)


def test_members_share_the_work(server: Broker, name: str, producer: Producer) -> None:
    wanted = [b"%03d" % number for number in range(300)]
    for body in wanted:
        producer.send_async(name, body)
    producer.flush()
    done: list[bytes] = []

    def work() -> None:
        with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
            while found := consumer.receive(timeout=0.2):
                consumer.ack(*found)
                done.extend(message.body for message in found)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == wanted
    with Admin(server.nameservers) as admin:
        until(lambda: admin.lag(name).total == 0)


def test_what_is_not_acknowledged_comes_again(server: Broker, name: str, producer: Producer) -> None:
    producer.send(name, b"1", tags="a", keys="k", properties={"size": "7"})
    with (
        SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer,
        SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as other,
    ):
        (first,) = consumer.receive(invisible=0.5)
        assert other.receive(timeout=0) == []
        (second,) = other.receive(invisible=30, timeout=10)
        assert (first.attempt, second.attempt) == (1, 2)
        assert first.message_id == second.message_id
        assert (second.tags, second.keys, dict(second.properties)) == ("a", ("k",), {"size": "7"})
        with pytest.raises(StaleReceipt, match="was delivered again"):
            consumer.ack(first)
        other.ack(second)
        with pytest.raises(StaleReceipt, match="acknowledged already"):
            other.ack(second)
        with pytest.raises(StaleReceipt):
            other.change_invisible(second, 5)
        assert consumer.receive(timeout=0.2) == []


def test_one_stale_receipt_holds_up_no_other(server: Broker, name: str, producer: Producer) -> None:
    for number in range(8):
        producer.send(name, b"%d" % number)
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
        found = consumer.receive(invisible=30)
        assert len(found) == 8
        consumer.ack(found[3])
        with pytest.raises(StaleReceipt, match="1 of 8"):
            consumer.ack(*found)
        assert consumer.receive(timeout=0) == []


def test_a_message_may_be_held_longer_or_given_back(server: Broker, name: str, producer: Producer) -> None:
    producer.send(name, b"1")
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
        (message,) = consumer.receive(invisible=0.3)
        consumer.change_invisible(message, 30)
        assert consumer.receive(timeout=0.6) == []
        consumer.change_invisible(message, 0)
        (message,) = consumer.receive(timeout=10)
        assert message.attempt == 2
        consumer.ack(message)


def test_after_the_last_attempt_it_is_a_dead_letter(server: Broker, name: str, producer: Producer) -> None:
    producer.send(name, b"1", keys="k-1")
    with (
        Admin(server.nameservers) as admin,
        SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer,
    ):
        admin.create_group(name, max_retries=1)
        for attempt in (1, 2):
            (message,) = consumer.receive(invisible=0.2, timeout=10)
            assert message.attempt == attempt
        assert consumer.receive(timeout=0.5) == []
        until(lambda: admin.dead_letters(name))
        (letter,) = admin.dead_letters(name)
        assert (letter.message.keys, letter.origin_topic) == (("k-1",), name)


def test_receipts_survive_a_crash_of_the_broker(server: Broker, name: str, producer: Producer) -> None:
    for number in range(6):
        producer.send(name, b"%d" % number)
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
        found = consumer.receive(invisible=60)
        assert len(found) == 6
        consumer.change_invisible(found[0], 60)
        server.kill()
        server.start()
        assert consumer.receive(timeout=0.2) == []
        consumer.ack(*found[:5])
        consumer.change_invisible(found[5], 0)
        assert bodies(consumer.receive(timeout=10)) == [found[5].body]


def test_who_waits_gets_a_message_as_soon_as_it_is_there(server: Broker, name: str, producer: Producer) -> None:
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
        assert consumer.receive(timeout=0) == []
        threading.Timer(0.2, lambda: producer.send(name, b"1")).start()
        began = time.monotonic()
        assert bodies(consumer.receive(timeout=20)) == [b"1"]
        assert time.monotonic() - began < 10


def test_several_topics(server: Broker, name: str, producer: Producer) -> None:
    other = f"{name}_other"
    with Admin(server.nameservers) as admin:
        admin.create_topic(other, queues=2)
    with SimpleConsumer(name, {name: "*", other: "*"}, nameservers=server.nameservers) as consumer:
        for topic in (name, other, name):
            threading.Timer(0.1, producer.send, (topic, topic.encode())).start()
            (message,) = consumer.receive(timeout=20)
            assert (message.topic, message.body) == (topic, topic.encode())
            consumer.ack(message)


def test_filters(server: Broker, name: str, producer: Producer) -> None:
    for number in range(6):
        producer.send(name, b"%d" % number, tags="ab"[number % 2], properties={"size": str(number)})
    with SimpleConsumer(f"{name}_tags", {name: "a"}, nameservers=server.nameservers) as consumer:
        found = consumer.receive()
        while len(found) < 3:
            found += consumer.receive()
        assert bodies(found) == [b"0", b"2", b"4"]
    with SimpleConsumer(f"{name}_sql", {name: Sql("size > 3")}, nameservers=server.nameservers) as consumer:
        found = consumer.receive()
        while len(found) < 2:
            found += consumer.receive()
        assert bodies(found) == [b"4", b"5"]


def test_a_group_may_begin_at_the_end(server: Broker, name: str, producer: Producer) -> None:
    producer.send(name, b"old")
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers, start="last") as consumer:
        assert consumer.receive(timeout=0) == []
        producer.send(name, b"new")
        assert bodies(consumer.receive()) == [b"new"]


def test_ordered_messages_of_a_queue_come_one_after_the_other(server: Broker, name: str, producer: Producer) -> None:
    for number in range(3):
        producer.send(name, b"%d" % number, sharding_key="k")
    with SimpleConsumer(name, {name: "*"}, nameservers=server.nameservers, ordered=True) as consumer:
        for number in range(3):
            (message,) = consumer.receive()
            assert message.body == b"%d" % number
            assert consumer.receive(timeout=0) == []
            consumer.ack(message)


def test_many_consumers_in_one_loop(server: Broker, name: str, producer: Producer) -> None:
    wanted = [b"%03d" % number for number in range(100)]
    for body in wanted:
        producer.send(name, body)

    async def work() -> list[bytes]:
        done: list[bytes] = []
        async with AsyncSimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
            while found := await consumer.receive(max_messages=8, timeout=0.3):
                await consumer.ack(*found[1:])
                await consumer.change_invisible(found[0], 60)
                await consumer.ack(found[0])
                done += bodies(found)
        return done

    async def main() -> list[list[bytes]]:
        return await asyncio.gather(*(work() for _ in range(3)))

    assert sorted(body for done in asyncio.run(main()) for body in done) == wanted


def test_a_cancelled_wait_takes_no_message_with_it(server: Broker, name: str, producer: Producer) -> None:
    async def main() -> None:
        async with AsyncSimpleConsumer(name, {name: "*"}, nameservers=server.nameservers) as consumer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await consumer.receive()
            await asyncio.to_thread(producer.send, name, b"1")
            assert bodies(await consumer.receive(invisible=60)) == [b"1"]

    asyncio.run(main())
