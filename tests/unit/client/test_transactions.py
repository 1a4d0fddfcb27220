"""Producers of transactions, both faces: against a stand-in that asks and refuses on demand, and a real broker."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.support.stand_in import StandIn, record, standing_in

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.async_transactions import AsyncTransaction, AsyncTransactionProducer
from litemq.client.producer import Producer
from litemq.client.pull import PullConsumer
from litemq.client.running import run
from litemq.client.transaction_ends import Half
from litemq.client.transactions import COMMIT, ROLLBACK, UNKNOWN, Decision, Transaction, TransactionProducer
from litemq.errors import Closed, InvalidRequest, OutcomeUnknown
from litemq.format import properties
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


def unknown(_message: Message) -> Decision:
    return UNKNOWN


def sent_properties(request: Request) -> dict[str, str]:
    return properties.parse(request.ext["i"].encode())


def ends(fake: StandIn) -> list[tuple[str, str, str]]:
    """Return what was told of which half: queue offset, position, decision."""
    names = ("tranStateTableOffset", "commitLogOffset", "commitOrRollback")
    return [(one.ext[names[0]], one.ext[names[1]], one.ext[names[2]]) for one in fake.of(Ask.END_TRANSACTION)]


def book(producer: TransactionProducer, *bodies: bytes, error: Exception | None = None) -> Transaction:
    """Send messages in a transaction, and raise an error in it."""
    with producer.transaction() as tx:
        for body in bodies:
            tx.send("orders", body)
        if error is not None:
            raise error
    return tx


# -- how a transaction ends ----------------------------------------------------------------------


def test_a_block_commits_all_that_was_sent_in_it(fake: StandIn) -> None:
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        with producer.transaction() as tx:
            sent = tx.send("orders", b"17 apples", tags="paid", keys="o-17")
            tx.send("orders", b"3 pears")
            assert ends(fake) == []
            assert tx.decision is None
        assert tx.decision is COMMIT
    assert ends(fake) == [("1", "1000", "8"), ("2", "2000", "8")]
    half = fake.halves[0]
    assert int(half.ext["f"]) == 4  # prepared
    found = sent_properties(half)
    assert (found["TRAN_MSG"], found["PGROUP"], found["KEYS"], found["TAGS"]) == ("true", "shop", "o-17", "paid")
    told = fake.of(Ask.END_TRANSACTION)[0].ext
    assert (told["msgId"], told["transactionId"], told["topic"]) == (sent.message_id, sent.message_id, "orders")
    assert (told["producerGroup"], told["fromTransactionCheck"]) == ("shop", "false")
    assert "CHECK_IMMUNITY_TIME_IN_SECONDS" not in found


def test_an_exception_rolls_all_back_and_goes_on(fake: StandIn) -> None:
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        with pytest.raises(ZeroDivisionError):
            book(producer, b"17 apples", b"3 pears", error=ZeroDivisionError())
        tx = producer.transaction()
        tx.rollback()
        with pytest.raises(InvalidRequest, match=r"is over .ROLLBACK."):
            tx.send("orders", b"too late")
    assert ends(fake) == [("1", "1000", "12"), ("2", "2000", "12")]


def test_explicit_ends(fake: StandIn) -> None:
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        tx = producer.transaction(check_after=90.5)
        tx.send("orders", b"17 apples")
        tx.commit()
        tx.commit()
        with pytest.raises(InvalidRequest, match="cannot end as ROLLBACK"):
            tx.rollback()
        with producer.transaction() as tx:
            tx.send("orders", b"17 apples")
            tx.rollback()
        with producer.transaction() as tx:
            tx.send("orders", b"17 apples")
            tx.unknown()
        with producer.transaction():
            pass
    assert ends(fake) == [("1", "1000", "8"), ("2", "2000", "12"), ("3", "3000", "0")]
    assert sent_properties(fake.halves[0])["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "91"


@pytest.mark.parametrize("decision", list(Decision))
def test_a_callback_decides(fake: StandIn, decision: Decision) -> None:
    seen = []

    def execute(message: Message) -> Decision:
        seen.append(message)
        assert len(fake.halves) == 1
        assert ends(fake) == []
        return decision

    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        sent = producer.send_in_transaction(Message("orders", b"17 apples", keys="o-17"), execute)
    assert [(one.message_id, one.keys, one.body) for one in seen] == [(sent.message_id, ("o-17",), b"17 apples")]
    assert ends(fake) == [("1", "1000", str(int(decision)))]


def test_a_callback_that_raises_or_says_nothing_leaves_it_to_check(fake: StandIn) -> None:
    message = Message("orders", b"17 apples")
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        with pytest.raises(ZeroDivisionError):
            producer.send_in_transaction(message, lambda _: 1 // 0)  # type: ignore[arg-type, return-value]
        with pytest.raises(InvalidRequest, match=r"execute must return litemq.COMMIT.*not None"):
            producer.send_in_transaction(message, lambda _: None)  # type: ignore[arg-type, return-value]
    assert [one[2] for one in ends(fake)] == ["0", "0"]


# -- what can go wrong ---------------------------------------------------------------------------


def test_a_half_that_may_be_stored_is_not_sent_again(fake: StandIn) -> None:
    fake.answers[Ask.SEND_MESSAGE_V2] = lambda _: None
    with TransactionProducer("shop", check=unknown, nameservers=fake.address, timeout=0.3) as producer:
        with pytest.raises(OutcomeUnknown):
            book(producer, b"17 apples")
        assert ends(fake) == []
    assert len(fake.of(Ask.SEND_MESSAGE_V2)) == 1


def test_a_half_that_was_refused_for_now_is_sent_again(fake: StandIn) -> None:
    refusals = iter([Response(Code.SYSTEM_BUSY, remark="too much"), Response(Code.SYSTEM_BUSY, remark="too much")])
    fake.answers[Ask.SEND_MESSAGE_V2] = lambda request: next(refusals, None) or fake.send(request)
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer, producer.transaction() as tx:
        tx.send("orders", b"17 apples")
    assert len(fake.of(Ask.SEND_MESSAGE_V2)) == 3
    assert [one[2] for one in ends(fake)] == ["8"]


def test_an_end_is_told_until_it_is_heard(fake: StandIn) -> None:
    refusals = iter([Response(Code.SYSTEM_BUSY, remark="too much")])
    fake.answers[Ask.END_TRANSACTION] = lambda _: next(refusals, Response())
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer, producer.transaction() as tx:
        tx.send("orders", b"17 apples")
    assert [one[2] for one in ends(fake)] == ["8", "8"]


def test_an_end_that_nobody_hears_is_left_to_check(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    fake.answers[Ask.END_TRANSACTION] = lambda _: Response(Code.SYSTEM_BUSY, remark="too much")
    with TransactionProducer("shop", check=unknown, nameservers=fake.address, timeout=0.3) as producer:
        tx = book(producer, b"17 apples")
    assert tx.decision is COMMIT
    assert "the broker will ask" in caplog.text


def test_an_end_that_comes_too_late_is_left_to_check(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    fake.answers[Ask.END_TRANSACTION] = lambda _: Response(Code.ILLEGAL_OPERATION, remark="the check has begun")
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        book(producer, b"17 apples")
    assert len(ends(fake)) == 1
    assert "the check has begun" in caplog.text


def test_a_refused_end_is_told_and_the_others_end_all_the_same(fake: StandIn) -> None:
    refusals = iter([Response(Code.SYSTEM_ERROR, remark="it was rolled back")])
    fake.answers[Ask.END_TRANSACTION] = lambda _: next(refusals, Response())
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        with pytest.raises(InvalidRequest, match="it was rolled back"):
            book(producer, b"17 apples", b"3 pears")
        producer.flush()
    assert [one[2] for one in ends(fake)] == ["8", "8"]


def test_a_rollback_that_fails_does_not_hide_the_error(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    fake.answers[Ask.END_TRANSACTION] = lambda _: Response(Code.SYSTEM_ERROR, remark="no such half message")
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        with pytest.raises(ZeroDivisionError):
            book(producer, b"17 apples", error=ZeroDivisionError())
        assert [one[2] for one in ends(fake)] == ["12"]
    assert "no such half message" in caplog.text


def test_bad_arguments() -> None:
    with pytest.raises(InvalidRequest, match="check must be a function"):
        TransactionProducer("shop", check=COMMIT)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="the group"):
        TransactionProducer("shop of mine", check=unknown)
    with pytest.raises(InvalidRequest, match="name server"):
        TransactionProducer("shop", check=unknown, nameservers="here")
    with TransactionProducer("shop", check=unknown, nameservers="127.0.0.1:1", timeout=0.2) as producer:
        with pytest.raises(InvalidRequest, match="check_after is 0"):
            producer.transaction(check_after=0)
        with pytest.raises(InvalidRequest, match="topic"):
            producer.transaction().send("a topic", b"")
    producer.close()
    with pytest.raises(Closed):
        producer.transaction()
    assert [one.name for one in threading.enumerate() if "litemq-transactions" in one.name] == []


# -- when brokers ask ----------------------------------------------------------------------------


def asks(fake: StandIn, number: int = 1, *, group: str = "shop", body: bytes | None = None) -> None:
    key = f"KEY{number}"
    ext = {
        "tranStateTableOffset": str(number),
        "commitLogOffset": str(number * 1000),
        "msgId": key,
        "transactionId": key,
        "offsetMsgId": "7F00000100002A9F0000000000000000",
        "bname": "stand-in",
        "topic": "orders",
    }
    made = record("orders", b"17 apples", TRAN_MSG="true", PGROUP=group, UNIQ_KEY=key, KEYS=f"o-{number}")
    fake.ask(Ask.CHECK_TRANSACTION_STATE, ext, made if body is None else body)


def test_check_answers_with_the_handles_of_the_question(fake: StandIn) -> None:
    seen: list[tuple[str, Message]] = []

    def check(message: Message) -> Decision:
        seen.append((threading.current_thread().name, message))
        return COMMIT if message.keys == ("o-1",) else ROLLBACK

    with TransactionProducer("shop", check=check, nameservers=fake.address):  # it has sent nothing yet
        until(lambda: fake.clients)
        asks(fake, 1)
        asks(fake, 2)
        asks(fake, 3, group="others")
        until(lambda: len(ends(fake)) == 2)
    assert sorted(ends(fake)) == [("1", "1000", "8"), ("2", "2000", "12")]
    told = next(one.ext for one in fake.of(Ask.END_TRANSACTION) if one.ext["commitLogOffset"] == "1000")
    assert (told["fromTransactionCheck"], told["msgId"], told["producerGroup"]) == ("true", "KEY1", "shop")
    assert (told["transactionId"], told["topic"], told["bname"]) == ("KEY1", "orders", "stand-in")
    name, message = seen[0]
    assert name.startswith("litemq-check-shop")
    assert (message.topic, message.body, message.broker) == ("orders", b"17 apples", "stand-in")
    assert fake.of(Ask.UNREGISTER_CLIENT)[0].ext["producerGroup"] == "shop"


def test_a_check_that_fails_says_unknown(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    found: dict[tuple[str, ...], object] = {("o-1",): None, ("o-2",): True}

    def check(message: Message) -> Decision:
        return found[message.keys]  # type: ignore[return-value]

    with TransactionProducer("shop", check=check, nameservers=fake.address):
        until(lambda: fake.clients)
        for number in range(1, 4):
            asks(fake, number)
        asks(fake, 4, body=b"no record")
        until(lambda: len(ends(fake)) == 3)
    assert {one[2] for one in ends(fake)} == {"0"}
    assert "check must return litemq.COMMIT" in caplog.text
    assert "KeyError" in caplog.text
    assert "no message" in caplog.text


def test_a_check_may_be_a_coroutine_function(fake: StandIn) -> None:
    async def check(message: Message) -> Decision:
        await asyncio.sleep(0)
        return COMMIT if message.message_id == "KEY1" else ROLLBACK

    with TransactionProducer("shop", check=check, nameservers=fake.address):
        until(lambda: fake.clients)
        asks(fake, 1)
        asks(fake, 2)
        until(lambda: len(ends(fake)) == 2)
    assert sorted(ends(fake)) == [("1", "1000", "8"), ("2", "2000", "12")]


def test_an_awaited_producer_that_was_never_used_closes(fake: StandIn) -> None:
    asyncio.run(AsyncTransactionProducer("shop", check=unknown, nameservers=fake.address).close())
    assert fake.requests == []


def test_a_child_of_the_process_sends_and_answers_by_itself(fake: StandIn) -> None:
    with TransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
        until(lambda: len(fake.clients) == 1)
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                with producer.transaction() as tx:
                    tx.send("orders", b"17 apples")
                until(lambda: len(producer._answering[2].presence.known_to) == 1)  # type: ignore[index]
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert [one[2] for one in ends(fake)] == ["8"]
    assert len(fake.clients) == 2


def test_one_question_is_not_asked_twice_at_once(fake: StandIn) -> None:
    gate, calls = threading.Event(), []

    def check(message: Message) -> Decision:
        calls.append(message.message_id)
        gate.wait(10)
        return COMMIT

    with TransactionProducer("shop", check=check, nameservers=fake.address):
        until(lambda: fake.clients)
        asks(fake, 1)
        until(lambda: calls)
        asks(fake, 1)
        asks(fake, 2)
        until(lambda: len(calls) == 2)
        gate.set()
        until(lambda: len(ends(fake)) == 2)
        asks(fake, 1)  # answered, but asked again
        until(lambda: len(ends(fake)) == 3)
    assert calls == ["KEY1", "KEY2", "KEY1"]


def test_a_check_in_hand_is_answered_by_close(fake: StandIn) -> None:
    began, gate = threading.Event(), threading.Event()

    def check(_message: Message) -> Decision:
        began.set()
        gate.wait(10)
        return COMMIT

    producer = TransactionProducer("shop", check=check, nameservers=fake.address)
    until(lambda: fake.clients)
    asks(fake, 1)
    assert began.wait(10)
    threading.Timer(0.05, gate.set).start()
    producer.close()
    assert ends(fake) == [("1", "1000", "8")]


def test_who_lost_a_connection_comes_back_at_once(fake: StandIn) -> None:
    with TransactionProducer("shop", check=lambda _: COMMIT, nameservers=fake.address):
        until(lambda: len(fake.of(Ask.HEART_BEAT)) == 1)
        fake.drop_connections()
        until(lambda: len(fake.of(Ask.HEART_BEAT)) == 2)
        asks(fake, 1)
        until(lambda: ends(fake))


def test_what_a_check_says_may_be_refused(fake: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    fake.answers[Ask.END_TRANSACTION] = lambda _: Response(Code.SYSTEM_ERROR, remark="it was rolled back")
    with TransactionProducer("shop", check=lambda _: COMMIT, nameservers=fake.address):
        until(lambda: fake.clients)
        asks(fake, 1)
        until(lambda: "it was rolled back" in caplog.text)


# -- awaited -------------------------------------------------------------------------------------


def test_the_awaited_face(fake: StandIn) -> None:
    async def main() -> None:
        asked = []

        async def check(message: Message) -> Decision:
            await asyncio.sleep(0)
            asked.append(message.message_id)
            if message.message_id == "KEY2":
                raise ZeroDivisionError
            return COMMIT

        async def fail(given: AsyncTransaction) -> None:
            async with given as tx:
                await tx.send("orders", b"3 pears")
                raise ZeroDivisionError

        async def execute(message: Message) -> Decision:
            await asyncio.sleep(0)
            return ROLLBACK if message.message_id else COMMIT

        async with AsyncTransactionProducer("shop", check=check, nameservers=fake.address) as producer:
            async with producer.transaction() as tx:
                await tx.send("orders", b"17 apples")
            with pytest.raises(ZeroDivisionError):
                await fail(producer.transaction())
            tx = producer.transaction()
            await tx.send(Message("orders", b"2 plums"))
            await tx.unknown()
            await producer.send_in_transaction(Message("orders", b"1 melon"), execute)
            await producer.send_in_transaction(Message("orders", b"1 melon"), lambda _: COMMIT)
            await asyncio.to_thread(until, lambda: fake.clients)
            asks(fake, 1)
            asks(fake, 2)
            await asyncio.to_thread(until, lambda: len(ends(fake)) == 7)
        assert sorted(asked) == ["KEY1", "KEY2"]

    asyncio.run(main())
    assert [one[2] for one in ends(fake)][:5] == ["8", "12", "0", "12", "8"]
    assert sorted(ends(fake)[5:]) == [("1", "1000", "8"), ("2", "2000", "0")]


def test_who_is_cancelled_rolls_back_first(fake: StandIn) -> None:
    async def main() -> None:
        async with AsyncTransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
            is_sent = asyncio.Event()

            async def work() -> None:
                async with producer.transaction() as tx:
                    await tx.send("orders", b"17 apples")
                    is_sent.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await is_sent.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [one[2] for one in ends(fake)] == ["12"]

    asyncio.run(main())


def test_a_commit_under_way_is_finished_by_who_is_cancelled(fake: StandIn) -> None:
    async def slow(_request: Request) -> Response:
        await asyncio.sleep(0.1)
        return Response()

    fake.answers[Ask.END_TRANSACTION] = slow

    async def main() -> None:
        async with AsyncTransactionProducer("shop", check=unknown, nameservers=fake.address) as producer:
            tx = producer.transaction()
            await tx.send("orders", b"17 apples")
            await tx.send("orders", b"3 pears")
            task = asyncio.create_task(tx.commit())
            await asyncio.to_thread(until, lambda: ends(fake))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [one[2] for one in ends(fake)] == ["8", "8"]

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


# -- with a real broker --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with broker(transaction={"first_check_ms": 60_000, "check_interval_ms": 300}) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of a topic, and of a group, that nobody else uses."""
    return "".join(c if c.isalnum() else "_" for c in request.node.name)[:100]


def delivered(server: Broker, topic: str) -> list[bytes]:
    """Return what consumers see of a topic, one by one."""
    with Producer(server.nameservers) as producer:
        producer.send(topic, b"last")  # there is a topic, and something to wait for
    found: list[Message] = []
    with PullConsumer(nameservers=server.nameservers) as consumer:
        consumer.subscribe(topic)

        def is_read() -> bool:
            found.extend(consumer.poll(timeout=0.05))
            ends = consumer.ends(topic)
            return bool(ends) and len(found) == sum(end - begin for begin, end in ends.values())

        until(is_read, 20)
    return sorted(one.body for one in found if one.body != b"last")


def test_consumers_see_what_was_committed(server: Broker, name: str) -> None:
    other = f"{name}_other"
    with TransactionProducer("shop", check=unknown, nameservers=server.nameservers) as producer:
        with producer.transaction() as tx:
            tx.send(name, b"1")
            tx.send(other, b"2")
            assert delivered(server, name) == []
        with producer.transaction() as tx:
            tx.send(name, b"3")
            tx.rollback()
        producer.transaction().send(name, b"4")
        producer.send(name, b"5")
    assert delivered(server, name) == [b"1", b"5"]
    assert delivered(server, other) == [b"2"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_what_is_unknown_is_asked_about_until_it_is_known(server: Broker, name: str, decision: Decision) -> None:
    answers, asked = iter([UNKNOWN]), []

    def check(message: Message) -> Decision:
        asked.append((message.message_id, message.topic, message.body, message.keys))
        return next(answers, decision)

    with TransactionProducer(name, check=check, nameservers=server.nameservers) as producer:
        tx = producer.transaction(check_after=1)
        sent = tx.send(name, b"1", keys="o-1")
        tx.unknown()
        until(lambda: len(asked) >= 2)
        until(lambda: ended_so(producer, sent, decision))
    assert set(asked) == {(sent.message_id, name, b"1", ("o-1",))}
    assert delivered(server, name) == ([b"1"] if decision is COMMIT else [])


def ended_so(producer: TransactionProducer, sent: Sent, decision: Decision) -> bool:
    """Return whether a broker refuses that a transaction ends otherwise."""
    try:
        end(producer, sent, ROLLBACK if decision is COMMIT else COMMIT)
    except InvalidRequest as error:
        return ("committed" if decision is COMMIT else "rolled back") in str(error)
    return False


def end(producer: TransactionProducer, sent: Sent, decision: Decision) -> None:
    """End a half message as a late request does."""
    halves = producer._halves
    half = Half(sent.topic, sent.broker, int(sent.offset_id[16:], 16), sent.queue_offset, sent.message_id)
    run(halves.end(half, decision, halves.deadline()))


def test_another_producer_of_the_group_answers_for_one_that_is_gone(server: Broker, name: str) -> None:
    with TransactionProducer(name, check=unknown, nameservers=server.nameservers) as producer:
        sent = producer.transaction(check_after=1).send(name, b"1")
    asked: list[str] = []

    def check(message: Message) -> Decision:
        asked.append(message.message_id)
        return COMMIT

    with TransactionProducer(name, check=check, nameservers=server.nameservers) as producer:
        until(lambda: asked)
        until(lambda: ended_so(producer, sent, COMMIT))
    assert set(asked) == {sent.message_id}  # more than once where this machine is slow
    assert delivered(server, name) == [b"1"]


def test_the_end_may_come_after_a_crash_of_the_broker(server: Broker, name: str) -> None:
    with TransactionProducer(name, check=unknown, nameservers=server.nameservers, timeout=20) as producer:
        with producer.transaction() as tx:
            tx.send(name, b"1")
            server.kill()
            server.start()
        with producer.transaction() as tx:
            tx.send(name, b"2")
    assert delivered(server, name) == [b"1", b"2"]


def test_a_broker_that_comes_back_asks(server: Broker, name: str) -> None:
    asked: list[str] = []

    def check(message: Message) -> Decision:
        asked.append(message.message_id)
        return COMMIT

    with TransactionProducer(name, check=check, nameservers=server.nameservers, timeout=20) as producer:
        sent = producer.transaction(check_after=1).send(name, b"1")
        server.kill()
        server.start()
        until(lambda: asked, 20)
        until(lambda: ended_so(producer, sent, COMMIT))
    assert set(asked) == {sent.message_id}  # more than once where this machine is slow


def test_an_end_may_be_repeated_but_not_changed(server: Broker, name: str) -> None:
    with TransactionProducer(name, check=unknown, nameservers=server.nameservers) as producer:
        tx = producer.transaction()
        sent = tx.send(name, b"1")
        tx.commit()
        end(producer, sent, COMMIT)
        with pytest.raises(InvalidRequest, match="was committed: it cannot be rolled back"):
            end(producer, sent, ROLLBACK)
    with (
        TransactionProducer("others", check=unknown, nameservers=server.nameservers) as producer,
        pytest.raises(InvalidRequest, match="begun by producer group"),
    ):
        end(producer, sent, COMMIT)
    assert delivered(server, name) == [b"1"]


def test_the_awaited_face_with_a_real_broker(server: Broker, name: str) -> None:
    async def main() -> None:
        asked: list[bytes] = []

        async def check(message: Message) -> Decision:
            asked.append(message.body)
            return COMMIT

        async with AsyncTransactionProducer(name, check=check, nameservers=server.nameservers) as producer:
            async with producer.transaction() as tx:
                await tx.send(name, b"1")
            await producer.transaction(check_after=1).send(name, b"2")
            await asyncio.to_thread(until, lambda: asked)
        assert set(asked) == {b"2"}

    asyncio.run(main())
    assert delivered(server, name) == [b"1", b"2"]
