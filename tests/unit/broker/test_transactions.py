"""Transactional messages: kept apart until their transaction ends, ended once, asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, until
from tests.support.broker import running as running_broker

from litemq.broker.broker import Broker
from litemq.broker.system_topics import CHECK_LIMIT_TOPIC, HALF_OP_TOPIC, HALF_TOPIC
from litemq.broker.transaction_state import SNAPSHOT
from litemq.clock import ManualClock
from litemq.config import StoreConfig, TransactionConfig, WritableFormat
from litemq.format import message_id, names, rocketmq
from litemq.format.record import decode
from litemq.types import Appended, Message, Record
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "pg"

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])


@asynccontextmanager
async def running(
    data: Path,
    *,
    clock: ManualClock | None = None,
    transaction: TransactionConfig | None = None,
    store: StoreConfig | None = None,
) -> AsyncIterator[tuple[Broker, Producer]]:
    """Yield a broker and a producer of the group."""
    async with running_broker(data, store=store, clock=clock, transaction=transaction) as (broker, talk):
        producer = Producer(broker.address)
        try:
            yield broker, producer
        finally:
            producer.close()
            talk.close()


class Producer(Talk):
    """A producer that notes what it is asked."""

    def __init__(self, address: str) -> None:
        super().__init__(address, handlers={Ask.CHECK_TRANSACTION_STATE: self._asked})
        self.asked: list[tuple[Mapping[str, str], Record]] = []

    def _asked(self, _connection: Connection, request: Request) -> None:
        assert request.is_oneway
        record = decode(request.body, int(request.ext["commitLogOffset"]), rocketmq.NAME)
        assert record is not None
        self.asked.append((request.ext, record))

    async def begin(self, body: bytes, **found: str) -> Response:
        """Send a half message."""
        return await self.send("T", body, queue=2, TRAN_MSG="true", PGROUP=GROUP, **found)  # type: ignore[arg-type]

    async def end(self, begun: Response, decision: int, **changed: str) -> Response:
        """End a transaction, as the answer to its half message names it."""
        place = message_id.parse_offset_id(begun.ext["msgId"])
        assert place is not None
        ext = {
            "producerGroup": GROUP,
            "tranStateTableOffset": begun.ext["queueOffset"],
            "commitLogOffset": str(place[1]),
            "commitOrRollback": str(decision),
            "fromTransactionCheck": "false",
            "msgId": begun.ext["transactionId"],
            "transactionId": begun.ext["transactionId"],
            **changed,
        }
        return await self.call(Ask.END_TRANSACTION, ext)

    async def seen(self) -> list[bytes]:
        """Return what consumers of the topic see."""
        found = []
        for queue in range(4):
            answer = await self.pull("T", 0, queue=queue)
            found += [record.body for record in records(answer.body)] if answer.code == 0 else []
        return found


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def write_first_only(broker: Broker) -> None:
    """Have the broker write the first record of each append only, as a kill within the write would."""
    append = broker.store.append_whole

    def first(messages: list[Message], *, is_carried: bool = False) -> list[Appended]:
        return append(messages[:1], is_carried=is_carried)

    broker.store.append_whole = first  # type: ignore[method-assign]


def crash_instead_of_closing(broker: Broker) -> None:
    """Have the broker leave everything as a kill would."""
    broker.transactions.close = lambda: None  # type: ignore[method-assign]
    broker.store.close = broker.store.abandon  # type: ignore[method-assign]


def ends(broker: Broker) -> int:
    return broker.store.reader.max_offset(HALF_OP_TOPIC, 0)


@formats
def test_a_commit_makes_the_message_visible_once(tmp_path: Path, fmt: WritableFormat) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(format=fmt)) as (broker, producer):
            begun = await producer.begin(b"one", KEYS="k1", TAGS="t", own="x")
            assert begun.code == 0
            assert begun.ext["queueId"] == "2"
            assert begun.ext["transactionId"] == "K6f6e65"
            assert await producer.seen() == []
            half = broker.store.reader.message_at(HALF_TOPIC, 0, int(begun.ext["queueOffset"]))
            assert half is not None
            assert (half.properties["REAL_TOPIC"], half.properties["REAL_QID"]) == ("T", "2")
            assert (half.type, half.status, half.transaction_id) == ("transaction", "normal", "K6f6e65")
            for _ in range(3):
                assert (await producer.end(begun, COMMIT)).code == 0
            pulled = await producer.pull("T", 0, queue=2)
            (record,) = records(pulled.body)
            assert (record.body, record.keys, record.tags) == (b"one", ("k1",), ("t",))
            assert record.sys_flag == 8
            assert record.prepared_offset == half.position
            assert record.transaction_id == "K6f6e65"
            assert record.properties["own"] == "x"
            assert not record.properties.keys() & {"TRAN_MSG", "REAL_TOPIC", "REAL_QID", *names.INTERNAL}
            stored = broker.store.reader.message_at("T", 2, 0)
            assert stored is not None
            assert stored.properties[names.ORIGIN] == str(half.position)
            assert stored.type == "transaction"
            op = broker.store.reader.message_at(HALF_OP_TOPIC, 0, 0)
            assert op is not None
            assert (op.body, op.tags) == (begun.ext["queueOffset"].encode(), ("d",))
            assert ends(broker) == 1
            assert broker.transactions.report()["committed"] == 1

    run(test())


def test_a_rollback_makes_it_never_visible(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            begun = await producer.begin(b"one")
            for _ in range(2):
                assert (await producer.end(begun, ROLLBACK)).code == 0
            assert ends(broker) == 1
            answer = await producer.end(begun, COMMIT)
            assert answer.code == Code.SYSTEM_ERROR
            assert "was rolled back" in (answer.remark or "")
            assert (await producer.end(begun, UNKNOWN)).code == 0
            assert await producer.seen() == []
            assert ends(broker) == 1

    run(test())


@pytest.mark.parametrize("remembered", [True, False])
def test_what_was_decided_is_found_in_the_log_too(tmp_path: Path, remembered: bool) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            committed, rolled_back = await producer.begin(b"one"), await producer.begin(b"two")
            assert (await producer.end(committed, COMMIT)).code == 0
            assert (await producer.end(rolled_back, ROLLBACK)).code == 0
            if not remembered:
                broker.transactions.ends.recent.clear()
            answer = await producer.end(committed, ROLLBACK)
            assert (answer.code, "was committed" in (answer.remark or "")) == (1, True)
            answer = await producer.end(rolled_back, COMMIT)
            assert (answer.code, "was rolled back" in (answer.remark or "")) == (1, True)
            assert (await producer.end(committed, COMMIT)).code == 0
            assert (await producer.end(rolled_back, ROLLBACK)).code == 0
            assert await producer.seen() == [b"one"]
            assert ends(broker) == 2

    run(test())


def test_an_end_that_names_something_else_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            begun, other = await producer.begin(b"one"), await producer.begin(b"two")
            plain = await producer.send("T", b"plain")
            wrong: list[tuple[dict[str, str], str]] = [
                ({"producerGroup": "other"}, "was begun by producer group 'pg', not by 'other'"),
                ({"commitLogOffset": "7"}, "not at 7"),
                ({"tranStateTableOffset": "99"}, "nothing is known"),
                ({"tranStateTableOffset": other.ext["queueOffset"]}, "stands at position"),
                ({"msgId": "X"}, "the handle is stale"),
                ({"msgId": plain.ext["transactionId"]}, "the handle is stale"),
            ]
            for changed, text in wrong:
                for decision in (COMMIT, ROLLBACK):
                    answer = await producer.end(begun, decision, **changed)
                    assert answer.code == Code.SYSTEM_ERROR, changed
                    assert text in (answer.remark or "")
            for name in ("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId"):
                assert (await producer.end(begun, COMMIT, **{name: ""})).code == Code.INVALID_PARAMETER
            assert (await producer.end(begun, 4)).code == Code.INVALID_PARAMETER
            assert await producer.seen() == [b"plain"]
            assert len(broker.transactions.pending) == 2
            assert ends(broker) == 0

    run(test())


def test_what_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, transaction=TransactionConfig(reject=True)) as (broker, producer):
            assert (await producer.begin(b"one")).code == Code.NO_PERMISSION
            broker.live_config.update({"rejectTransactionMessage": "false"})
            assert (await producer.begin(b"one")).code == 0
            assert (await producer.begin(b"two", DELAY="3")).code == Code.MESSAGE_ILLEGAL
            assert (await producer.begin(b"three", own="x" * 32_000)).code == Code.MESSAGE_ILLEGAL
            for topic in (HALF_TOPIC, HALF_OP_TOPIC, CHECK_LIMIT_TOPIC):
                assert (await producer.send(topic, b"x")).code == Code.NO_PERMISSION
            batch = {"b": "T", "e": "0", "f": "4", "m": "true", "a": GROUP}
            entry = b"\0\0\0\x17" + bytes(12) + b"\0\0\0\1x" + b"\0\0"
            answer = await producer.call(Ask.SEND_BATCH_MESSAGE, batch, entry)
            assert (answer.code, "one by one" in (answer.remark or "")) == (Code.MESSAGE_ILLEGAL, True)
            assert await producer.seen() == []

    run(test())


def test_the_prepared_bit_alone_makes_a_half_message(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            text = "UNIQ_KEY\1U1\2"
            ext = {"a": GROUP, "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "4", "i": text}
            begun = await producer.call(Ask.SEND_MESSAGE_V2, ext, b"one")
            assert begun.code == 0
            half = broker.store.reader.message_at(HALF_TOPIC, 0, 0)
            assert half is not None
            assert (half.properties["PGROUP"], half.properties["TRAN_MSG"], half.sys_flag) == (GROUP, "true", 0)
            assert await producer.seen() == []
            assert (await producer.end(begun, COMMIT)).code == 0
            assert await producer.seen() == [b"one"]

    run(test())


def test_a_deleted_topic_is_not_made_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            begun = await producer.begin(b"one")
            broker.topics.delete("T")
            assert (await producer.end(begun, COMMIT)).code == Code.TOPIC_NOT_EXIST
            assert broker.topics.find("T") is None
            assert (await producer.end(begun, ROLLBACK)).code == 0

    run(test())


# -- asking ---------------------------------------------------------------------------------------


def test_an_unknown_one_is_asked_about_and_then_committed(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, producer):
            await producer.heartbeat("p1", produces=(GROUP,))
            done = await producer.begin(b"done")
            begun = await producer.begin(b"one", KEYS="k")
            assert (await producer.end(done, COMMIT)).code == 0
            assert (await producer.end(begun, UNKNOWN)).code == 0
            clock.advance(59_999)
            broker.transactions.pass_(clock.now_ms())
            clock.advance(1)
            await until(lambda: len(producer.asked) == 1)
            ext, record = producer.asked[0]
            assert (record.topic, record.queue_id, record.body, record.keys) == ("T", 2, b"one", ("k",))
            assert (record.message_id, record.properties["PGROUP"]) == ("K6f6e65", GROUP)
            assert record.properties["TRANSACTION_CHECK_TIMES"] == "1"
            assert not record.properties.keys() & names.INTERNAL
            assert ext["bname"] == broker.config.name
            assert ext["topic"] == "T"
            assert ext["msgId"] == ext["transactionId"] == "K6f6e65"
            assert ext["offsetMsgId"] == begun.ext["msgId"]
            assert ext["tranStateTableOffset"] == begun.ext["queueOffset"]
            clock.advance(59_999)
            await asyncio.sleep(0.3)
            assert len(producer.asked) == 1
            clock.advance(1)
            await until(lambda: len(producer.asked) == 2)
            assert producer.asked[1][0]["commitLogOffset"] == ext["commitLogOffset"]
            assert (await producer.end(begun, COMMIT, fromTransactionCheck="true")).code == 0
            assert await producer.seen() == [b"done", b"one"]
            clock.advance(600_000)
            await asyncio.sleep(0.3)
            assert len(producer.asked) == 2

    run(test())


def test_members_are_asked_in_turn_and_others_when_one_is_gone(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, first):
            second = Producer(broker.address)
            stranger = Producer(broker.address)
            await first.heartbeat("p1", produces=(GROUP,))
            await second.heartbeat("p2", produces=(GROUP,))
            await stranger.heartbeat("p3", produces=("other",))
            for number in range(6):
                await first.begin(b"%d" % number)
            clock.advance(60_000)
            await until(lambda: len(first.asked) + len(second.asked) == 6)
            assert len(first.asked) == len(second.asked) == 3
            first.close()
            await until(lambda: len(broker.clients.producers(GROUP)) == 1)
            clock.advance(60_000)
            await until(lambda: len(second.asked) == 9)
            assert stranger.asked == []
            second.close()
            stranger.close()

    run(test())


def test_when_nobody_is_there_the_question_waits_and_does_not_count(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock, transaction=TransactionConfig(max_checks=1)) as (broker, producer):
            await producer.begin(b"one")
            for _ in range(5):
                clock.advance(60_000)
                await asyncio.sleep(0.15)
            assert len(broker.transactions.pending) == 1
            await producer.heartbeat("p1", produces=(GROUP,))
            clock.advance(60_000)
            await until(lambda: len(producer.asked) == 1)

    run(test())


@pytest.mark.parametrize("end", ["drop", "dead-letter"])
def test_after_the_last_check_it_is_given_up(tmp_path: Path, end: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    config = TransactionConfig(max_checks=2, end=end)  # type: ignore[arg-type]

    async def test() -> None:
        async with running(tmp_path, clock=clock, transaction=config) as (broker, producer):
            begun = await producer.begin(b"one")
            for count in (1, 2):
                await producer.heartbeat("p1", produces=(GROUP,))
                clock.advance(60_000)
                await until(lambda count=count: len(producer.asked) == count)  # type: ignore[misc]
            await producer.heartbeat("p1", produces=(GROUP,))
            clock.advance(60_000)
            await until(lambda: not broker.transactions.pending)
            topic = CHECK_LIMIT_TOPIC if end == "drop" else f"%DLQ%{GROUP}"
            copy = broker.store.reader.message_at(topic, 0, 0)
            assert copy is not None
            assert copy.body == b"one"
            if end == "drop":
                assert (copy.properties["REAL_TOPIC"], copy.properties["TRANSACTION_CHECK_TIMES"]) == ("T", "2")
            else:
                assert copy.properties["DLQ_REASON"] == "max_retry"
                assert copy.properties["DLQ_ORIGIN_TOPIC"] == "T"
                assert copy.properties["DLQ_RETRY_COUNT"] == "2"
                assert "TRAN_MSG" not in copy.properties
            for forgotten in (False, True):
                if forgotten:
                    broker.transactions.ends.recent.clear()
                answer = await producer.end(begun, COMMIT)
                assert (answer.code, "given up" in (answer.remark or "")) == (1, True)
            assert ends(broker) == 1
            assert await producer.seen() == []

    run(test())
    assert "transaction given up" in caplog.text


def test_a_message_may_name_its_own_time(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (_, producer):
            await producer.heartbeat("p1", produces=(GROUP,))
            await producer.begin(b"early", CHECK_IMMUNITY_TIME_IN_SECONDS="5")
            await producer.begin(b"late", CHECK_IMMUNITY_TIME_IN_SECONDS="90")
            await producer.begin(b"odd", CHECK_IMMUNITY_TIME_IN_SECONDS="-1")
            clock.advance(5_000)
            await until(lambda: len(producer.asked) == 1)
            clock.advance(55_000)
            await until(lambda: len(producer.asked) == 2)
            clock.advance(30_000)
            await until(lambda: len(producer.asked) >= 4)
            assert [record.body for _, record in producer.asked] == [b"early", b"odd", b"early", b"late"]

    run(test())


# -- restarts -------------------------------------------------------------------------------------


@formats
@pytest.mark.parametrize("stop", ["clean", "kill", "no snapshot", "damaged snapshot"])
def test_everything_is_known_after_a_restart(tmp_path: Path, fmt: WritableFormat, stop: str) -> None:
    clock = ManualClock()

    async def test() -> None:
        begun: dict[str, Response] = {}
        async with running(tmp_path, clock=clock, store=StoreConfig(format=fmt)) as (broker, producer):
            for name in ("committed", "rolled back", "unknown", "later"):
                begun[name] = await producer.begin(name.encode())
            await producer.end(begun["committed"], COMMIT)
            await producer.end(begun["rolled back"], ROLLBACK)
            if stop == "kill":
                crash_instead_of_closing(broker)
        for path in (tmp_path / "config").glob(f"{SNAPSHOT}*"):
            if stop == "no snapshot":
                path.unlink()
            elif stop == "damaged snapshot":
                path.write_text(path.read_text().replace('"blocks"', '"block"'))
        clock.advance(1_000)
        async with running(tmp_path, clock=clock) as (broker, producer):
            assert len(broker.transactions.pending) == 2
            assert await producer.seen() == [b"committed"]
            assert (await producer.end(begun["committed"], COMMIT)).code == 0
            assert (await producer.end(begun["rolled back"], ROLLBACK)).code == 0
            assert (await producer.end(begun["rolled back"], COMMIT)).code == 1
            assert (await producer.end(begun["later"], COMMIT)).code == 0
            await producer.heartbeat("p1", produces=(GROUP,))
            clock.advance(59_000)
            await until(lambda: len(producer.asked) == 1)
            assert producer.asked[0][1].body == b"unknown"
            assert (await producer.end(begun["unknown"], COMMIT)).code == 0
            assert sorted(await producer.seen()) == [b"committed", b"later", b"unknown"]
            assert ends(broker) == 4

    run(test())


def test_checks_count_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        for life in range(2):
            async with running(tmp_path, clock=clock, transaction=TransactionConfig(max_checks=2)) as (_, producer):
                await producer.heartbeat("p1", produces=(GROUP,))
                if not life:
                    await producer.begin(b"one")
                clock.advance(60_000)
                await until(lambda: len(producer.asked) == 1)
        async with running(tmp_path, clock=clock, transaction=TransactionConfig(max_checks=2)) as (broker, producer):
            clock.advance(60_000)
            await until(lambda: not broker.transactions.pending)
            assert broker.transactions.checks.given_up == 1

    run(test())


@pytest.mark.parametrize("what", ["commit", "given up"])
@pytest.mark.parametrize("later", [0, 20])
def test_an_end_whose_second_record_is_missing_is_mended(tmp_path: Path, what: str, later: int) -> None:
    """As a kill within the write leaves it; ``later``: records of starts that were killed, too."""

    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            begun = await producer.begin(b"one")
            transactions = broker.transactions
            half = transactions.ends.log.half(0)
            assert half is not None
            write_first_only(broker)
            if what == "commit":
                transactions._commit(half)
            else:
                transactions.checks._give_up(half, 15, transactions.config)
            for number in range(later):
                broker.store.append(Message("other", b"%d" % number))
            crash_instead_of_closing(broker)
        async with running(tmp_path) as (broker, producer):
            assert not broker.transactions.pending
            assert ends(broker) == 1
            answer = await producer.end(begun, COMMIT)
            assert (answer.code == 0) == (what == "commit")
            assert await producer.seen() == ([b"one"] if what == "commit" else [])

    run(test())


def test_what_is_not_sure_is_looked_for(tmp_path: Path) -> None:
    """As in a store whose op records a RocketMQ had not written yet when it was killed."""
    clock = ManualClock()

    async def test() -> None:
        async with running(tmp_path, clock=clock) as (broker, producer):
            begun = [await producer.begin(b"%d" % number) for number in range(3)]
            write_first_only(broker)
            for offset in (0, 1):
                half = broker.transactions.ends.log.half(offset)
                assert half is not None
                broker.transactions._commit(half)
            broker.store.recovered.newest.clear()
        for path in (tmp_path / "config").glob(f"{SNAPSHOT}*"):
            path.unlink()
        async with running(tmp_path, clock=clock) as (broker, producer):
            assert len(broker.transactions.pending) == 3
            assert (await producer.end(begun[0], COMMIT)).code == 0
            assert (await producer.end(begun[1], ROLLBACK)).code == 1
            await producer.heartbeat("p1", produces=(GROUP,))
            clock.advance(60_000)
            await until(lambda: len(producer.asked) == 1)
            assert producer.asked[0][1].body == b"2"
            assert await producer.seen() == [b"0", b"1"]

    run(test())


def test_records_as_rocketmq_writes_them_are_understood(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path, store=StoreConfig(format="rocketmq")) as (broker, producer):
            for number in range(6):
                await producer.begin(b"%d" % number)
            copy = {"REAL_TOPIC": "T", "REAL_QID": "0", "PGROUP": GROUP, "TRAN_PREPARED_QUEUE_OFFSET": "2"}
            broker.store.append(Message(HALF_TOPIC, b"2", message_id="K32", properties={**copy}))
            copy["TRAN_PREPARED_QUEUE_OFFSET"] = "5"
            broker.store.append(Message(HALF_TOPIC, b"5", message_id="K35", properties=copy))
            broker.store.append(Message(HALF_OP_TOPIC, b"1,2,", tags=("d",)))
            broker.store.append(Message(HALF_OP_TOPIC, b"3,x,,", tags=("d",)))
        for path in (tmp_path / "config").glob(f"{SNAPSHOT}*"):
            path.unlink()
        async with running(tmp_path) as (broker, producer):
            broker.store.progress.commit("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0, 1)
            assert [entry.offset for entry in broker.transactions.pending.entries()] == [0, 4, 7]
        for path in (tmp_path / "config").glob(f"{SNAPSHOT}*"):
            path.unlink()
        async with running(tmp_path) as (broker, producer):
            assert [entry.offset for entry in broker.transactions.pending.entries()] == [4, 7]

    run(test())


# -- retention ------------------------------------------------------------------------------------


@formats
@pytest.mark.parametrize("restarts", [False, True])
def test_half_messages_outlive_their_segments(tmp_path: Path, fmt: WritableFormat, restarts: bool) -> None:
    clock = ManualClock()
    settings = StoreConfig(segment_bytes=64 << 10, max_body_bytes=8 << 10, delete_hour=None)

    async def fill(producer: Producer) -> None:
        for number in range(60):
            assert (await producer.send("filler", b"%d" % number + bytes(4000))).code == 0

    async def test() -> None:
        async with running(tmp_path, clock=clock, store=replace(settings, format=fmt)) as (broker, producer):
            begun = [await producer.begin(b"%d" % number) for number in range(4)]
            assert (await producer.end(begun[3], COMMIT)).code == 0
            first = broker.store.start
            for _ in range(2):  # a copy is carried as well
                await fill(producer)
                clock.advance(73 * 3_600_000)
                await fill(producer)
                broker.store.retain()
                await until(lambda: broker.store._housekeeper.removal is None)
            assert broker.store.start > first + (200 << 10)
            assert len(broker.transactions.pending) == 3
            if restarts:
                crash_instead_of_closing(broker)
            else:
                await check(broker, producer, begun)
        if restarts:
            async with running(tmp_path, clock=clock, store=settings) as (broker, producer):
                await check(broker, producer, begun)

    async def check(broker: Broker, producer: Producer, begun: list[Response]) -> None:
        assert len(broker.transactions.pending) == 3
        assert (await producer.end(begun[0], COMMIT)).code == 0  # by its first handles
        assert (await producer.end(begun[1], COMMIT, producerGroup="other")).code == 1
        assert (await producer.end(begun[1], ROLLBACK)).code == 0
        await producer.heartbeat("p1", produces=(GROUP,))
        clock.advance(61_000)
        await until(lambda: len(producer.asked) == 1)
        ext, record = producer.asked[0]
        assert record.body == b"2"
        assert record.message_id == "K32"
        last = {name: ext[name] for name in ("tranStateTableOffset", "commitLogOffset")}
        assert (await producer.end(begun[2], COMMIT, **last)).code == 0
        stored = broker.store.records("T", 2, broker.store.reader.min_offset("T", 2))
        assert [each.body for each in stored] == [b"0", b"2"]
        copy = stored[1]
        place = message_id.parse_offset_id(begun[2].ext["msgId"])
        assert place is not None
        assert copy.properties[names.ORIGIN] == str(place[1])

    run(test())


# -- statistics -----------------------------------------------------------------------------------


def test_what_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, producer):
            begun = [await producer.begin(b"%d" % number) for number in range(3)]
            await producer.end(begun[0], COMMIT)
            await producer.end(begun[1], ROLLBACK)
            await producer.end(begun[1], COMMIT)
            assert broker.transactions.report() == {
                "pending": 1,
                "blocks": 1,
                "begun": 3,
                "committed": 1,
                "rolledBack": 1,
                "checksSent": 0,
                "givenUp": 0,
                "endsRefused": 1,
            }
            assert broker.statistics.put_total == 1

    run(test())
