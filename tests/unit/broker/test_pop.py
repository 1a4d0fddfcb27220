"""Consuming by receipts from a real broker over sockets."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, records, running, until
from tests.support.broker_process import BrokerProcess
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.raw_client import RawClient, binary_frame
from tests.support.receipts import Got, ack, batch, change, changed, pop, pop_ext

from litemq.broker.broker import Broker
from litemq.clock import ManualClock
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig
from litemq.errors import ReadFailed
from litemq.format.names import POP_TOPIC
from litemq.wire.remoting.codes import Ask, Code

ONE_QUEUE = BrokerConfig(port=0, name_servers=(), default_queues=1)


def on_broker(
    path: Path,
    test: Callable[[Broker, Talk], Awaitable[None]],
    *,
    clock: ManualClock | None = None,
    store: StoreConfig | None = None,
    limits: LimitsConfig | None = None,
    config: BrokerConfig = ONE_QUEUE,
) -> None:
    async def run() -> None:
        async with running(path, config=config, clock=clock, store=store, limits=limits) as (broker, talk):
            await test(broker, talk)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
@pytest.mark.parametrize("flush", ["async", "group"])
def test_what_is_acknowledged_does_not_come_again(tmp_path: Path, fmt: str, flush: str) -> None:
    clock = ManualClock()

    async def test(broker: Broker, talk: Talk) -> None:
        for number in range(5):
            await talk.send("T", b"m%d" % number)
        first = await pop(talk, maxMsgNums=3)
        assert [message.body for message in first] == [b"m0", b"m1", b"m2"]
        assert [message.times for message in first] == [0, 0, 0]
        assert [message.body for message in await pop(talk)] == [b"m3", b"m4"]
        assert await pop(talk) == []
        assert (await ack(talk, first[1])).code == 0
        assert broker.store.progress.offset("g", "T", 0) == 0
        clock.advance(60_000)
        again = await pop(talk)
        assert [(message.body, message.times) for message in again] == [(b"m0", 1), (b"m2", 1), (b"m3", 1), (b"m4", 1)]
        answer = await ack(talk, first[0])
        assert answer.code == Code.NO_MESSAGE
        assert "delivered again" in str(answer.remark)
        for message in again:
            assert (await ack(talk, message)).code == 0
        assert broker.store.progress.offset("g", "T", 0) == 5
        assert (await ack(talk, again[0])).code == Code.NO_MESSAGE
        clock.advance(60_000)
        assert await pop(talk) == []
        assert broker.store.reader.max_offset("T", 0) == 5
        report = broker.pops.report()
        assert (report["handedOut"], report["handedOutAgain"], report["acknowledged"], report["stale"]) == (5, 4, 5, 2)
        assert report["inFlight"] == 0

    store = StoreConfig(format=fmt, flush=flush)  # type: ignore[arg-type]
    on_broker(tmp_path, test, clock=clock, store=store)


def test_batches_of_receipts(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        for number in range(20):
            await talk.send("T", b"m%02d" % number, queue=number % 4)
        found = await pop(talk)
        assert sorted(message.body for message in found) == [b"m%02d" % number for number in range(20)]
        answer = await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch(found[3:]))
        assert answer.code == 0
        assert broker.pops.states.count() == 3
        answer = await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch(found))
        assert answer.code == Code.NO_MESSAGE
        assert "17 of 20" in str(answer.remark)
        assert broker.pops.states.count() == 0
        for wrong in ({"rq": 1}, {"c": "other"}, {"b": "?"}, {"so": "x"}, {"q": 9}, {"t": "U"}, {"r": "1"}):
            assert (await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch(found, **wrong))).code != 0
        assert (await talk.call(Ask.BATCH_ACK_MESSAGE, {}, b"[]")).code != 0

    on_broker(tmp_path, test, config=BrokerConfig(port=0, name_servers=()))


def test_receipts_that_are_worth_nothing(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"one")
        await talk.send("U", b"one")
        (one,) = await pop(talk)
        await pop(talk, consumerGroup="h")
        parts = one.receipt.split(" ")

        def forged(at: int, value: str) -> Got:
            return one._replace(receipt=" ".join([*parts[:at], value, *parts[at + 1 :]]))

        cases: list[tuple[Got, dict[str, str], int]] = [
            (one._replace(receipt="receipt"), {}, Code.MESSAGE_ILLEGAL),
            (forged(1, "x"), {}, Code.MESSAGE_ILLEGAL),
            (forged(1, str(int(parts[1]) - 1)), {}, Code.NO_MESSAGE),
            (forged(3, "7"), {}, Code.MESSAGE_ILLEGAL),
            (forged(4, "1"), {}, Code.MESSAGE_ILLEGAL),
            (forged(5, "broker-b"), {}, Code.MESSAGE_ILLEGAL),
            (forged(6, "3"), {}, Code.MESSAGE_ILLEGAL),
            (forged(7, "5"), {}, Code.MESSAGE_ILLEGAL),
            (forged(7, "5")._replace(offset=5), {}, Code.NO_MESSAGE),
            (one, {"consumerGroup": "h"}, Code.MESSAGE_ILLEGAL),
            (one, {"consumerGroup": "nobody"}, Code.SUBSCRIPTION_GROUP_NOT_EXIST),
            (one, {"topic": "U"}, Code.MESSAGE_ILLEGAL),
            (one, {"topic": "nowhere"}, Code.TOPIC_NOT_EXIST),
        ]
        for message, changes, code in cases:
            answer = await ack(talk, message, **changes)
            assert (answer.code, bool(answer.remark)) == (code, True), (message, changes, answer)
        assert broker.pops.states.count() == 2
        assert (await ack(talk, one)).code == 0

    on_broker(tmp_path, test)


def test_a_changed_time_makes_a_new_receipt(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test(_broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"one")
        (one,) = await pop(talk, invisibleTime=10_000)
        longer = changed(one, await change(talk, one, 30_000))
        clock.advance(10_000)
        assert await pop(talk) == []
        assert (await ack(talk, one)).code == Code.NO_MESSAGE
        assert (await change(talk, one, 1_000)).code == Code.NO_MESSAGE
        shorter = changed(longer, await change(talk, longer, 1_000))
        clock.advance(1_000)
        (again,) = await pop(talk)
        assert (again.body, again.times) == (b"one", 1)
        assert (await ack(talk, shorter)).code == Code.NO_MESSAGE
        assert (await change(talk, again, 1 << 40)).code == Code.INVALID_PARAMETER
        assert (await ack(talk, again)).code == 0

    on_broker(tmp_path, test, clock=clock)


def test_after_the_last_attempt_comes_a_dead_letter(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test(broker: Broker, talk: Talk) -> None:
        broker.groups.put("g", {"retryMaxTimes": 2})
        await talk.send("T", b"one", KEYS="k")
        for attempt in range(3):
            assert [message.times for message in await pop(talk, invisibleTime=1_000)] == [attempt]
            clock.advance(1_000)
        await until(lambda: broker.pops._letters.dead == 1)  # without anybody who asks
        assert await pop(talk) == []
        letters = records((await talk.pull("%DLQ%g", 0)).body)
        assert [letter.body for letter in letters] == [b"one"]
        properties = letters[0].properties
        assert (properties["DLQ_REASON"], properties["DLQ_ORIGIN_TOPIC"]) == ("max_retry", "T")
        assert (properties["DLQ_RETRY_COUNT"], properties["DLQ_ORIGIN_OFFSET"]) == ("2", "0")
        assert broker.store.progress.offset("g", "T", 0) == 1

    on_broker(tmp_path, test, clock=clock)


@pytest.mark.parametrize("flush", ["async", "group"])
def test_whoever_waits_is_woken(tmp_path: Path, flush: str) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"zero")
        (zero,) = await pop(talk)
        others = [Talk(broker.address) for _ in range(3)]
        asking = [asyncio.ensure_future(pop(other, pollTime=20_000, maxMsgNums=1)) for other in others]
        await until(lambda: broker.pops.waiting.count == 3)
        told = await talk.call(Ask.POLLING_INFO, {"consumerGroup": "g", "topic": "T", "queueId": "-1"})
        assert told.ext["pollingNum"] == "3"
        await talk.send("T", b"one")
        await talk.send("T", b"two")
        await until(lambda: sum(one.done() for one in asking) == 2)
        await change(talk, zero, 0)
        await asyncio.gather(*asking)
        bodies = sorted(message.body for one in asking for message in one.result())
        assert bodies == [b"one", b"two", b"zero"]
        assert broker.pops.waiting.count == 0
        began = time.monotonic()
        assert await pop(talk, pollTime=300) == []
        assert 0.25 < time.monotonic() - began < 5
        late = await talk.call(Ask.POP_MESSAGE, pop_ext("T", bornTime=1, pollTime=10_000))
        assert late.code == Code.POLLING_TIMEOUT
        for other in others:
            other.close()

    on_broker(tmp_path, test, store=StoreConfig(flush=flush))  # type: ignore[arg-type]


def test_a_client_that_is_gone_gets_nothing(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"zero")
        await pop(talk)
        other = Talk(broker.address)
        asking = asyncio.ensure_future(pop(other, pollTime=20_000))
        await until(lambda: broker.pops.waiting.count == 1)
        asking.cancel()
        other.close()
        await until(lambda: len(broker.server.connections) == 1)
        await talk.send("T", b"one")
        assert [message.body for message in await pop(talk, pollTime=1_000)] == [b"one"]

    on_broker(tmp_path, test)


def test_notification_and_peek_hand_nothing_out(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"one")
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "-1", "pollTime": "0", "bornTime": "0"}
        assert (await talk.call(Ask.NOTIFICATION, ext)).ext["hasMsg"] == "true"
        peeked = await talk.call(Ask.PEEK_MESSAGE, {**ext, "maxMsgNums": "8"})
        assert [record.body for record in records(peeked.body)] == [b"one"]
        assert broker.pops.states.count() == 0
        assert len(await pop(talk)) == 1
        assert (await talk.call(Ask.NOTIFICATION, ext)).ext == {"hasMsg": "false", "pollingFull": "false"}
        assert (await talk.call(Ask.PEEK_MESSAGE, {**ext, "maxMsgNums": "8"})).code == Code.PULL_NOT_FOUND
        waiting = asyncio.ensure_future(talk.call(Ask.NOTIFICATION, {**ext, "pollTime": "20000"}))
        await until(lambda: broker.pops.waiting.count == 1)
        await talk.send("T", b"two")
        assert (await waiting).ext["hasMsg"] == "true"

    on_broker(tmp_path, test)


def test_filters_let_only_what_is_wanted_pass(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        for number in range(40):
            await talk.send("T", b"m%d" % number, TAGS="even" if number % 2 == 0 else "odd", n=str(number))
        even = await pop(talk, exp="even", maxMsgNums=5)
        assert [message.body for message in even] == [b"m0", b"m2", b"m4", b"m6", b"m8"]
        large = await pop(talk, consumerGroup="sql", expType="SQL92", exp="n > 36")
        assert [message.body for message in large] == [b"m37", b"m38", b"m39"]
        assert broker.store.progress.offset("sql", "T", 0) == 37
        assert (await talk.call(Ask.POP_MESSAGE, pop_ext("T", expType="SQL92", exp="n >"))).code == 23

    on_broker(tmp_path, test)


def test_ordered_groups_get_one_message_of_a_queue_at_a_time(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test(broker: Broker, talk: Talk) -> None:
        broker.groups.put("g", {"consumeMessageOrderly": True})
        for number in range(3):
            await talk.send("T", b"m%d" % number)
        (first,) = await pop(talk)
        assert await pop(talk) == []
        clock.advance(60_000)
        (again,) = await pop(talk)
        assert (again.body, again.times) == (first.body, 1)
        other = Talk(broker.address)
        waiting = asyncio.ensure_future(pop(other, pollTime=20_000))
        await until(lambda: broker.pops.waiting.count == 1)
        assert (await ack(talk, again)).code == 0
        assert [message.body for message in await waiting] == [b"m1"]
        other.close()

    on_broker(tmp_path, test, clock=clock)


def test_queues_take_turns(tmp_path: Path) -> None:
    async def test(_broker: Broker, talk: Talk) -> None:
        for number in range(80):
            await talk.send("T", b"m", queue=number % 4)
        seen = [{message.queue_id for message in await pop(talk, maxMsgNums=4)} for _ in range(8)]
        assert set().union(*seen[:4]) == {0, 1, 2, 3}

    on_broker(tmp_path, test, config=BrokerConfig(port=0, name_servers=()))


def test_an_operator_sets_the_offset(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        for number in range(6):
            await talk.send("T", b"m%d" % number)
        first = await pop(talk, maxMsgNums=4)
        broker.consumption.reset("g", "T", time_ms=0, queue_id=0, offset=2)
        assert (await ack(talk, first[3])).code == Code.NO_MESSAGE
        assert [message.body for message in await pop(talk)] == [b"m2", b"m3", b"m4", b"m5"]
        broker.groups.delete("g", with_progress=True)
        assert len(await pop(talk)) == 6
        broker.topics.delete("T")
        assert (await talk.call(Ask.POP_MESSAGE, pop_ext("T"))).code == Code.TOPIC_NOT_EXIST
        assert not broker.pops.states.of

    on_broker(tmp_path, test)


def test_limits_have_names(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        for number in range(6):
            await talk.send("T", b"m%d" % number)
        for wrong in ({"maxMsgNums": 33}, {"maxMsgNums": 0}, {"invisibleTime": 0}, {"queueId": 9}):
            answer = await talk.call(Ask.POP_MESSAGE, pop_ext("T", **wrong))
            assert answer.code == Code.INVALID_PARAMETER, wrong
        found = await pop(talk, maxMsgNums=4)
        assert len(found) == 4
        answer = await talk.call(Ask.POP_MESSAGE, pop_ext("T", maxMsgNums=4))
        assert (answer.code, "limits.pop_in_flight" in str(answer.remark)) == (Code.SYSTEM_BUSY, True)
        await ack(talk, found[0])
        await ack(talk, found[1])
        assert len(await pop(talk, maxMsgNums=2)) == 2
        full = await talk.call(Ask.POP_MESSAGE, pop_ext("T", pollTime=1_000))
        assert (full.code, "limits.parked_pulls" in str(full.remark)) == (Code.POLLING_FULL, True)
        assert broker.pops.report()["refusedInFlight"] == 1

    on_broker(tmp_path, test, limits=LimitsConfig(pop_in_flight=5, parked_pulls=0))


def test_receipts_survive_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(_broker: Broker, talk: Talk) -> None:
        for number in range(6):
            await talk.send("T", b"m%d" % number)
        held.extend(await pop(talk, maxMsgNums=4, invisibleTime=10_000))
        assert (await ack(talk, held[1])).code == 0
        held[2] = changed(held[2], await change(talk, held[2], 50_000))

    async def after(broker: Broker, talk: Talk) -> None:
        assert broker.pops.states.count() == 3
        assert (await ack(talk, held[0])).code == 0
        assert [message.body for message in await pop(talk)] == [b"m4", b"m5"]
        clock.advance(10_000)
        (three,) = await pop(talk)
        assert (three.body, three.times) == (b"m3", 1)
        assert (await ack(talk, held[3])).code == Code.NO_MESSAGE
        assert (await ack(talk, held[2])).code == 0

    held: list[Got] = []
    on_broker(tmp_path, before, clock=clock)
    on_broker(tmp_path, after, clock=clock)


def test_a_group_that_pops_is_told_so(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"one")
        mode = {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 8}
        assert (await talk.call(Ask.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())).code == 0
        await talk.heartbeat("a", consumes={"g": {"T": "*"}})
        ask = {"topic": "T", "consumerGroup": "g", "clientId": "a", "strategyName": "AVG"}

        async def assigned() -> list[tuple[str, int]]:
            answer = await talk.call(Ask.QUERY_ASSIGNMENT, {}, json.dumps(ask).encode())
            dealt = json.loads(answer.body)["messageQueueAssignments"]
            return [(one["mode"], one["messageQueue"]["queueId"]) for one in dealt]

        assert await assigned() == [("POP", -1)]
        broker.groups.put("g", {"retryMaxTimes": 3})
        assert await assigned() == [("POP", -1)]
        others = [Talk(broker.address) for _ in range(3)]
        for number, other in enumerate(others):
            await other.heartbeat(f"b{number}", consumes={"g": {"T": "*"}})
        mode["popShareQueueNum"] = 1
        await talk.call(Ask.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())
        assert await assigned() == [("POP", 0), ("POP", 1)]
        mode["mode"] = "PULL"
        await talk.call(Ask.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())
        assert await assigned() == [("PULL", 0)]
        mode["mode"] = "NONE"
        assert (await talk.call(Ask.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())).code != 0
        for other in others:
            other.close()

    on_broker(tmp_path, test, config=BrokerConfig(port=0, name_servers=()))


def test_binary_headers_cut_the_codes(tmp_path: Path) -> None:
    async def test(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"one")

        def ask() -> int:
            host, _, port = broker.address.rpartition(":")
            with RawClient((host, int(port))) as raw:
                raw.write(binary_frame(200_050 & 0xFFFF, pop_ext("T"), opaque=1))
                answer = raw.read()
            assert answer.body
            return answer.code

        assert await asyncio.to_thread(ask) == 0
        assert broker.pops.states.count() == 1

    on_broker(tmp_path, test)


def test_what_holds_is_said_again_before_its_records_go(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(broker: Broker, talk: Talk) -> None:
        for number in range(6):
            await talk.send("T", b"m%d" % number)
        held.extend(await pop(talk, maxMsgNums=4))
        assert (await ack(talk, held[0])).code == 0
        clock.advance(60_000)
        held[1:] = await pop(talk, maxMsgNums=3)
        end = broker.store.appended_end
        assert broker.pops.states.carry(end) == end
        records_before = broker.pops.states.records
        broker.pops.states.carry(end)
        assert broker.pops.states.records == records_before
        first.append(broker.store.queue(POP_TOPIC, 0).next_offset - 1)

    async def after(broker: Broker, talk: Talk) -> None:
        assert broker.pops.states.count() == 3
        assert [message.times for message in held[1:]] == [1, 1, 1]
        for message in held[1:]:
            assert (await ack(talk, message)).code == 0
        assert [message.body for message in await pop(talk)] == [b"m4", b"m5"]

    held: list[Got] = []
    first: list[int] = []
    on_broker(tmp_path, before, clock=clock)
    for name in ("pop.json", "pop.json.bak"):
        (tmp_path / "config" / name).unlink(missing_ok=True)
    on_broker(tmp_path, after, clock=clock)


def test_kill_9_keeps_receipts_and_loses_nothing(tmp_path: Path) -> None:
    settings = {"broker.default_queues": 2, "store.progress_interval_ms": 100}
    data, log = tmp_path / "store", tmp_path / "log"
    sent: set[bytes] = set()
    acknowledged: set[bytes] = set()
    held: list[Got] = []

    async def life(address: str, number: int) -> None:
        talk = Talk(address)
        for at in range(20):
            body = b"%d-%d" % (number, at)
            sent.add(body)
            assert (await talk.send("T", body, queue=at % 2)).code == 0
        for message in held:
            assert (await ack(talk, message)).code == 0, message
            acknowledged.add(message.body)
        held.clear()
        found = await pop(talk, maxMsgNums=16)
        assert not acknowledged & {message.body for message in found}
        for message in found[::2]:
            assert (await ack(talk, message)).code == 0
            acknowledged.add(message.body)
        held.extend(found[1::2])
        talk.close()

    async def rest(address: str) -> None:
        talk = Talk(address)
        for message in held:
            assert (await ack(talk, message)).code == 0
            acknowledged.add(message.body)
        while found := await pop(talk):
            for message in found:
                assert message.body not in acknowledged
                assert message.times == 0
                assert (await ack(talk, message)).code == 0
                acknowledged.add(message.body)
        talk.close()

    for number in range(4):
        with BrokerProcess(data, log, settings) as broker:
            asyncio.run(asyncio.wait_for(life(broker.address, number), 30))
            broker.kill()
            assert not broker.surprises()
    with BrokerProcess(data, log, settings) as broker:
        asyncio.run(asyncio.wait_for(rest(broker.address), 30))
        assert broker.stop() == 0
    assert acknowledged == sent


class ByHand(Executor):
    """Runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Future[Any], Any]] = []

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:  # noqa: ANN401 - as its base
        future: Future[Any] = Future()
        self.waiting.append((future, work))
        return future

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for future, work in waiting:
            future.set_result(work())


def test_nobody_gets_what_is_being_read_for_somebody_else(tmp_path: Path) -> None:
    clock = ManualClock()

    async def test() -> None:
        fs = ForgetfulFileSystem()
        async with running(Path("/store-of-a-fake"), fs=fs, clock=clock, config=ONE_QUEUE) as (broker, talk):
            for number in range(20):
                await talk.send("T", b"m%02d" % number)
            broker.store.checkpoint()
            by_hand = ByHand()
            broker.pops._cold = by_hand
            other = Talk(broker.address)
            for attempt in range(3):
                fs.is_cold = True
                first = asyncio.create_task(pop(talk, maxMsgNums=12))
                await until(lambda: bool(by_hand.waiting))
                second = asyncio.create_task(pop(other, pollTime=20_000))
                await until(lambda: broker.pops.waiting.count == 1)
                fs.is_cold = False
                by_hand.run()
                found = [*await first, *await second]
                assert sorted(message.body for message in found) == [b"m%02d" % number for number in range(20)]
                assert {message.times for message in found} == {attempt}
                clock.advance(60_000)
            fs.is_cold = True
            failing = asyncio.create_task(talk.call(Ask.POP_MESSAGE, pop_ext("T")))
            await until(lambda: bool(by_hand.waiting))
            by_hand.waiting.pop()[0].set_exception(ReadFailed("the disk is gone"))
            assert (await failing).code == Code.SERVICE_NOT_AVAILABLE
            fs.is_cold = False
            assert len(await pop(talk)) == 20
            other.close()

    asyncio.run(asyncio.wait_for(test(), 30))
