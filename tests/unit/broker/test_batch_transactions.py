"""Batch transactions of a real broker, over its protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.batch_driver import NAME, TABLE, end, entry, pulled, put_table, settled, stage
from tests.support.broker import Talk, running, until

from litemq.broker import batch_transactions
from litemq.broker.batch_transactions import SNAPSHOT
from litemq.broker.broker import Broker
from litemq.broker.topics import Topic
from litemq.clock import ManualClock
from litemq.config import BrokerConfig, NameserverConfig, StoreConfig, TransactionConfig, WritableFormat
from litemq.features.batch_parts import Key
from litemq.features.slots import slot_of
from litemq.format.batch_records import Winner
from litemq.format.names import STAGE_TOPIC
from litemq.nameserver.server import NameServer
from litemq.store.convert import convert
from litemq.store.message_store import MessageStore
from litemq.wire.remoting.codes import Ask, Code

KEY = ("p", 1)


@asynccontextmanager
async def serves(data: Path, **more: Any) -> AsyncIterator[tuple[Broker, Talk]]:  # noqa: ANN401 - as running
    """Yield a broker that has a topic and the table."""
    async with running(data, **more) as (broker, talk):
        if broker.topics.find("T") is None:
            broker.topics.create(Topic("T", 4, 4))
        await put_table(talk)
        yield broker, talk


async def bodies(talk: Talk) -> list[bytes]:
    await settled(talk)
    return sorted(body for queue in (await pulled(talk)).values() for body in queue)


async def state(talk: Talk, key: tuple[str, int] = KEY) -> dict[str, Any]:
    answer = await talk.call(Ask.LITEMQ_BATCH_STATUS, {"producerId": key[0], "epoch": str(key[1])})
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_the_way_of_a_transaction(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            assert (await stage(talk, KEY, [entry(b"a"), entry(b"b", 2)], attempt=5)).ext == {
                "state": "staged",
                "count": "2",
            }
            assert (await stage(talk, KEY, [entry(b"a"), entry(b"b", 2)], attempt=5)).ext["state"] == "repeated"
            await stage(talk, KEY, [entry(b"loser")], attempt=6)
            assert await bodies(talk) == []
            found = await state(talk)
            assert (found["state"], found["rows"], found["attempts"]) == ("open", 3, 2)
            listed = json.loads((await talk.call(Ask.LITEMQ_LIST_BATCHES, {})).body)["transactions"]
            assert [(one["producer_id"], one["state"], one["coordinator"]) for one in listed] == [("p", "open", NAME)]
            for _ in range(2):
                answer = await end(talk, KEY, "commit", [(0, 5, {NAME: 2})])
                assert (answer.code, answer.ext) == (0, {"state": "committed", "rows": "2"})
            assert await bodies(talk) == [b"a", b"b"]
            assert b"b" in (await pulled(talk))[2]
            assert (await stage(talk, KEY, [entry(b"late")])).ext["state"] == "committed"
            refused = await end(talk, KEY, "abort")
            assert (refused.code, refused.ext["reason"]) == (Code.INVALID_PARAMETER, "transaction_over")
            assert (await end(talk, ("p", 0), "commit")).ext["reason"] == "stale_epoch"
            assert (await stage(talk, ("p", 0), [entry(b"x")])).ext["reason"] == "stale_epoch"
            assert (await state(talk))["state"] == "committed"
            assert broker.batches.core.staged_bytes == 0
            (record,) = [one for one in broker.store.records("T", 2, 0) if one.body == b"b"]
            origin = broker.store.reader.record_at(int(record.properties["__ORIGIN"]) - 1)  # the second of its request
            assert origin is not None
            assert origin.topic == STAGE_TOPIC

    asyncio.run(main())


def test_a_commit_after_an_abort_says_why(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (_, talk):
            await stage(talk, KEY, [entry(b"a")])
            for _ in range(2):
                assert (await end(talk, KEY, "abort", reason="no more money")).ext["state"] == "aborted"
            answer = await end(talk, KEY, "commit", [(0, 0, {NAME: 1})])
            assert answer.ext["reason"] == "transaction_over"
            assert "no more money" in str(answer.remark)
            assert await bodies(talk) == []

    asyncio.run(main())


def test_rows_that_are_missing_are_named_and_nothing_is_committed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (_, talk):
            await stage(talk, KEY, [entry(b"a")])
            answer = await end(talk, KEY, "commit", [(0, 0, {NAME: 2})])
            assert answer.ext["reason"] == "rows_missing"
            assert "attempt 0 of partition 0" in str(answer.remark)
            assert "has 1 rows on broker-a, the commit names 2" in str(answer.remark)
            assert (await end(talk, KEY, "prepare", [(0, 0, {NAME: 2})])).ext["reason"] == "rows_missing"
            assert (await stage(talk, KEY, [entry(b"c")], sequence=2)).ext["reason"] == "rows_missing"
            assert (await stage(talk, KEY, [entry(b"z")])).ext["reason"] == "transaction_over"  # others than before
            assert (await end(talk, KEY, "prepare", [(0, 0, {NAME: 1})])).ext["state"] == "prepared"
            assert (await stage(talk, KEY, [entry(b"c")], sequence=1)).ext["reason"] == "transaction_over"
            assert await bodies(talk) == []

    asyncio.run(main())


def test_dropped_rows_can_be_staged_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            await stage(talk, KEY, [entry(b"a")])
            await stage(talk, KEY, [entry(b"b")], partition=1)
            assert (await end(talk, KEY, "drop", partition="1", attempt="0")).code == 0
            assert (await state(talk))["rows"] == 1
            assert (await end(talk, KEY, "drop")).code == 0
            assert broker.batches.core.open_count == 0
            assert (await stage(talk, KEY, [entry(b"other")])).ext["state"] == "staged"
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 1})])).code == 0
            assert (await end(talk, KEY, "drop")).code == 0  # nothing is left to drop
            assert await bodies(talk) == [b"other"]

    asyncio.run(main())


BAD: list[tuple[dict[str, str], bytes, str, str]] = [
    ({"producerId": ""}, entry(b"a"), "bad_field", "producerId"),
    ({"producerId": "x" * 256}, entry(b"a"), "bad_field", "256 bytes"),
    ({"epoch": "-1"}, entry(b"a"), "bad_field", "epoch"),
    ({"epoch": "one"}, entry(b"a"), "bad_field", "epoch"),
    ({"partition": "-1"}, entry(b"a"), "bad_field", "partition is -1"),
    ({"attempt": "-1"}, entry(b"a"), "bad_field", "attempt is -1"),
    ({"bornTimestamp": "-1"}, entry(b"a"), "bad_field", "bornTimestamp is -1"),
    ({"coordinator": "broker-z"}, entry(b"a"), "bad_field", "'broker-a' decides"),
    ({}, b"", "bad_body", "no message"),
    ({}, entry(b"a")[:-1], "bad_body", "message 0 at byte 0"),
    ({}, entry(b"a", topic=1), "bad_field", "topic 1"),
    ({}, entry(b"a", 9), "bad_field", "queue 9"),
    ({"topics": "LITEMQ_SYS_STAGE"}, entry(b"a"), "no_permission", "LITEMQ_SYS_STAGE"),
    ({"topics": "%RETRY%g"}, entry(b"a"), "no_permission", "RETRY"),
    ({"topics": "T,no topic"}, entry(b"a"), "bad_field", "no topic"),
    ({}, entry(b"a", text=b"TRAN_MSG\x01true\x02"), "not_supported", "TRAN_MSG"),
    ({}, entry(b"x" * (5 << 20)), "record_too_large", "4194304"),
    ({}, entry(b"a", text=b"k\x01" + b"\xff" * 20_000), "record_too_large", "60002 bytes"),
]


@pytest.mark.parametrize(("changed", "body", "reason", "text"), BAD, ids=[text for *_, text in BAD])
def test_what_cannot_be_staged_is_refused_and_nothing_is_stored(
    tmp_path: Path, changed: dict[str, str], body: bytes, reason: str, text: str
) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            numbers = {"partition": "0", "attempt": "0", "sequence": "0", "epoch": "1"}
            ext = {"producerId": "p", "coordinator": NAME, "topics": "T", **numbers, **changed}
            before = broker.store.reader.max_offset(STAGE_TOPIC, 0)
            answer = await talk.call(Ask.LITEMQ_STAGE, {name: value for name, value in ext.items() if value}, body)
            assert answer.code != 0
            assert answer.ext["reason"] == reason
            assert text in str(answer.remark)
            assert broker.store.reader.max_offset(STAGE_TOPIC, 0) == before
            assert not broker.batches.core.open_count

    asyncio.run(main())


def test_ends_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (_, talk):
            ext = {"producerId": "p", "epoch": "1", "coordinator": NAME}
            for decision, body, text in (
                ("perhaps", b"", "perhaps"),
                ("commit", b"[]", "no JSON object"),
                ("commit", b'{"winners":[[1,2]]}', "winner 0"),
                ("commit", b'{"winners":[[1,2,{"\\ud800":0}]]}', "winner 0"),
                ("commit", b'{"winners":[[1,2,{}],[1,3,{}]]}', "partition 1 twice"),
            ):
                answer = await talk.call(Ask.LITEMQ_END_BATCH, {**ext, "decision": decision}, body)
                assert answer.code != 0
                assert text in str(answer.remark)
            answer = await talk.call(Ask.LITEMQ_SLOTS, {}, b'{"brokers":["a"],"slots":[0]}')
            assert answer.ext["reason"] == "bad_body"
            assert (await state(talk))["state"] == "unknown"

    asyncio.run(main())


def test_the_table_of_slots_is_written_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (_, talk):
            assert json.loads((await talk.call(Ask.LITEMQ_SLOTS, {})).body) == {}
            assert (await end(talk, KEY, "commit")).code == Code.SYSTEM_BUSY  # nobody decides yet
            other = {"brokers": ["broker-z"], "slots": [0] * 1024}
            assert json.loads((await talk.call(Ask.LITEMQ_SLOTS, {}, json.dumps(other).encode())).body) == other
            assert json.loads((await talk.call(Ask.LITEMQ_SLOTS, {}, json.dumps(TABLE).encode())).body) == other
            answer = await end(talk, KEY, "commit")
            assert answer.ext["reason"] == "not_coordinator"
            assert "'broker-z' decides" in str(answer.remark)
        async with running(tmp_path) as (broker, talk):
            assert json.loads((await talk.call(Ask.LITEMQ_SLOTS, {})).body) == other
            broker.store.flush()
            end_of_log = broker.store.appended_end
            assert broker.store._state.carry_below(end_of_log) == end_of_log
        async with running(tmp_path) as (broker, talk):
            assert json.loads((await talk.call(Ask.LITEMQ_SLOTS, {})).body) == other

    asyncio.run(main())


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
def test_live_rows_and_memory_outlive_their_segments(tmp_path: Path, fmt: str) -> None:
    async def main() -> None:
        config = StoreConfig(format=fmt, segment_bytes=1 << 20)  # type: ignore[arg-type]
        async with serves(tmp_path, store=config) as (broker, talk):
            await stage(talk, ("done", 3), [entry(b"done")])
            await end(talk, ("done", 3), "commit", [(0, 0, {NAME: 1})])
            await stage(talk, KEY, [entry(b"a"), entry(b"b")])
            await stage(talk, KEY, [entry(b"c")], sequence=1)
            await settled(talk)
            await until((tmp_path / "config" / SNAPSHOT).exists, within_s=20)
            await until(lambda: not broker.batches._changed, within_s=20)
            end_of_log = broker.store.appended_end
            assert broker.batches.carry_below(end_of_log) == end_of_log
            assert all(
                chunk.place.position >= end_of_log
                for _, _, part in broker.batches.core.parts()
                for chunk in part.chunks.values()
            )
            origins = [
                chunk.place.origin for _, _, part in broker.batches.core.parts() for chunk in part.chunks.values()
            ]
            assert max(origins) < end_of_log
            assert broker.batches.carry_below(broker.store.appended_end) <= end_of_log  # the snapshot is older
        for path in (tmp_path / "config").glob(SNAPSHOT + "*"):
            path.unlink()  # so that the log alone says it
        async with serves(tmp_path, store=config) as (broker, talk):
            assert [
                chunk.place.origin for _, _, part in broker.batches.core.parts() for chunk in part.chunks.values()
            ] == origins
            assert (await stage(talk, ("done", 3), [entry(b"done")])).ext["state"] == "committed"
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 3})])).code == 0
            assert await bodies(talk) == [b"a", b"b", b"c", b"done"]
            found = [record for queue in range(4) for record in broker.store.records("T", queue, 0)]
            named = sorted(int(one.properties["__ORIGIN"]) for one in found if one.body != b"done")
            assert named == [origins[0], origins[0] + 1, origins[1]]

    asyncio.run(main())


def test_live_traffic_goes_on_while_a_large_batch_is_published(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            rows = [entry(b"x" * 100) for _ in range(5_000)]
            for sequence in range(8):
                await stage(talk, KEY, rows, sequence=sequence)
            other = Talk(broker.address)
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 40_000})])).code == 0
            sent = 0
            while broker.batches.core.publications:
                assert (await other.send("T", b"live")).code == 0
                sent += 1
            assert sent >= 3
            assert broker.batches.report()["slices"] >= 10
            other.close()
            assert len(await bodies(talk)) == 40_000 + sent

    asyncio.run(main())


def test_limits_and_a_closed_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path, transaction=TransactionConfig(batch_open=1)) as (broker, talk):
            await stage(talk, KEY, [entry(b"a")])
            answer = await stage(talk, ("q", 0), [entry(b"a")])
            assert (answer.code, answer.ext["reason"]) == (Code.SYSTEM_BUSY, "busy")
            assert "transaction.batch_open" in str(answer.remark)
            await talk.call(Ask.UPDATE_BROKER_CONFIG, {}, b"transaction.reject=true")
            assert (await stage(talk, KEY, [entry(b"b")], sequence=1)).ext["reason"] == "no_permission"
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 1})])).code == 0
            assert broker.batches.report()["refused"] == 2

    asyncio.run(main())


def test_a_deleted_topic_takes_its_rows_along(tmp_path: Path) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            broker.topics.create(Topic("gone", 1, 1))
            await stage(talk, KEY, [entry(b"a"), entry(b"b", topic=1), entry(b"c")], topics="T,gone")
            broker.topics.delete("gone")
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 3})])).code == 0
            assert await bodies(talk) == [b"a", b"c"]

    asyncio.run(main())


def test_nobody_hears_of_an_end_that_a_power_cut_could_undo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            await stage(talk, KEY, [entry(b"a")])
            monkeypatch.setattr(broker.batches, "_flush_timeout_s", 0.05)
            end_of_flush = broker.store.flushed_end
            broker.batches.commit(Key(*KEY), (Winner(0, 0, {NAME: 1}),), NAME)
            with monkeypatch.context() as patch:
                patch.setattr(MessageStore, "flushed_end", property(lambda _: end_of_flush))  # a disk that takes long
                answer = await talk.call(Ask.LITEMQ_BATCH_STATUS, {"producerId": "p", "epoch": "1"})
                assert answer.code == Code.FLUSH_DISK_TIMEOUT
                assert (await stage(talk, KEY, [entry(b"a")])).code == Code.FLUSH_DISK_TIMEOUT
            assert (await state(talk))["state"] == "committed"
            assert (await stage(talk, KEY, [entry(b"a")])).ext["state"] == "committed"

    asyncio.run(main())


def test_an_expired_transaction_that_cannot_be_aborted_holds_up_no_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, transaction=TransactionConfig(batch_expiry_ms=200)) as (broker, talk):
            broker.topics.create(Topic("T", 4, 4))
            names = [f"n{number}" for number in range(99)]
            wrong = next(name for name in names if slot_of(name) < 512)
            right = next(name for name in names if slot_of(name) >= 512)
            for name in (wrong, right):  # there is no table yet that could tell whose they are
                assert (await stage(talk, (name, 1), [entry(b"a")])).code == 0
            table = {"brokers": ["broker-z", NAME], "slots": [0] * 512 + [1] * 512}
            await talk.call(Ask.LITEMQ_SLOTS, {}, json.dumps(table).encode())
            await until(lambda: right not in broker.batches.core.open)
            assert wrong in broker.batches.core.open

    asyncio.run(main())


def test_memories_are_carried_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serves(tmp_path) as (broker, talk):
            for number in range(10):
                await end(talk, (f"p{number}", 1), "abort")
            monkeypatch.setattr(batch_transactions, "_CARRIED_FACTS", 4)
            monkeypatch.setattr(broker.batches, "_changed", False)
            core, end_of_log = broker.batches.core, broker.store.appended_end
            starts = []
            for left in (6, 2, 0):
                monkeypatch.setattr(broker.batches, "_saved_position", end_of_log)
                broker.batches._changed, broker.batches._snapshot = False, None
                starts.append(broker.batches.carry_below(end_of_log))
                assert len(core.said_before(end_of_log)) == left
                assert not core.said_before(starts[-1])
            assert starts == sorted(starts)
            assert starts[-1] == end_of_log

    asyncio.run(main())


# -- two brokers ------------------------------------------------------------------------------------

OTHER = "broker-b"
Work = Callable[[Broker, Talk, Broker, Talk], Coroutine[Any, Any, None]]


def with_two(tmp_path: Path, work: Work, expiry_ms: int = 86_400_000) -> None:
    """Run ``work`` with two brokers that know each other; the first decides about everything."""

    async def main() -> None:
        names = NameServer(NameserverConfig(port=0))
        await names.start()
        address = f"127.0.0.1:{names.port}"
        try:
            first = BrokerConfig(port=0, name_servers=(address,))
            second = BrokerConfig(port=0, name_servers=(address,), name=OTHER)
            transaction = TransactionConfig(batch_ask_ms=200, batch_expiry_ms=expiry_ms)
            async with (
                serves(tmp_path / "a", config=first, transaction=transaction) as (one, talk),
                serves(tmp_path / "b", config=second, transaction=transaction) as (two, other),
            ):
                await work(one, talk, two, other)
        finally:
            await names.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_the_coordinator_repeats_its_decision(tmp_path: Path) -> None:
    async def work(one: Broker, talk: Talk, two: Broker, other: Talk) -> None:
        await stage(talk, KEY, [entry(b"a")])
        await stage(other, KEY, [entry(b"b")])
        await stage(other, KEY, [entry(b"loser")], partition=1, attempt=7)
        winners = [(0, 0, {NAME: 1, OTHER: 1})]
        assert (await end(other, KEY, "prepare", [(0, 0, {OTHER: 1})])).ext["state"] == "prepared"
        assert (await end(talk, KEY, "commit", winners)).ext["rows"] == "2"
        # The client is gone: nobody tells the other broker.
        await until(lambda: not one.batches.core.decisions)
        assert await bodies(talk) == [b"a"]
        assert await bodies(other) == [b"b"]
        assert two.batches.core.open_count == 0
        assert (await end(other, KEY, "commit", [(0, 0, {OTHER: 1})])).ext["state"] == "committed"  # late, and known

    with_two(tmp_path, work)


def test_who_holds_rows_asks_what_became_of_them(tmp_path: Path) -> None:
    async def work(one: Broker, talk: Talk, two: Broker, other: Talk) -> None:
        await stage(other, KEY, [entry(b"loser")])
        await stage(other, ("q", 0), [entry(b"x")])
        await stage(other, ("waits", 0), [entry(b"y")])
        assert (await end(talk, KEY, "commit")).code == 0
        assert (await end(talk, ("q", 0), "abort")).code == 0
        await until(lambda: two.batches.core.open_count == 1)
        assert await bodies(other) == []
        assert Key("waits", 0).producer_id in two.batches.core.open  # undecided: it asks again
        assert two.batch_peers.asked >= 3
        assert one.batches.core.decided(Key("waits", 0), OTHER) == ("open", ())

    with_two(tmp_path, work)


def test_expired_rows_are_dropped_when_their_coordinator_has_aborted_them(tmp_path: Path) -> None:
    async def work(one: Broker, talk: Talk, two: Broker, other: Talk) -> None:
        await stage(other, KEY, [entry(b"x")])
        await stage(talk, ("own", 0), [entry(b"x")])
        await until(lambda: two.batches.core.open_count == 0 and one.batches.core.open_count == 0)
        for key in (KEY, ("own", 0)):
            answer = await end(talk, key, "commit")
            assert answer.ext["reason"] == "transaction_over"
            assert "expired" in str(answer.remark)
        assert await bodies(other) == []

    with_two(tmp_path, work, expiry_ms=400)


def test_a_producer_is_forgotten_after_its_time(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with serves(tmp_path, clock=clock) as (broker, talk):
            await end(talk, KEY, "commit")
            clock.advance(broker.transaction.batch_memory_ms - 1000)
            broker.batches.tick(clock.now_ms())
            assert (await stage(talk, KEY, [entry(b"a")])).ext["state"] == "committed"  # used again
            clock.advance(5000)
            broker.batches.tick(clock.now_ms())
            assert "p" in broker.batches.core.memories
            clock.advance(broker.transaction.batch_memory_ms)
            broker.batches.tick(clock.now_ms())
            assert "p" not in broker.batches.core.memories

    asyncio.run(main())


@pytest.mark.parametrize(("old", "new"), [("litemq", "rocketmq"), ("rocketmq", "litemq")])
def test_staged_rows_outlive_a_conversion(tmp_path: Path, old: WritableFormat, new: WritableFormat) -> None:
    async def write() -> None:
        async with serves(tmp_path / "old", store=StoreConfig(format=old)) as (_, talk):
            await stage(talk, ("done", 3), [entry(b"done")])
            await end(talk, ("done", 3), "commit", [(0, 0, {NAME: 1})])
            await stage(talk, KEY, [entry(b"a"), entry(b"b")])
            await settled(talk)

    async def commit() -> None:
        async with serves(tmp_path / "new") as (_, talk):
            assert (await stage(talk, ("done", 3), [entry(b"done")])).ext["state"] == "committed"
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 2})])).code == 0
            assert await bodies(talk) == [b"a", b"b", b"done"]

    asyncio.run(write())
    convert(tmp_path / "old", tmp_path / "new", to=new)
    asyncio.run(commit())
