"""What the broker writes into ``LITEMQ_SYS_STATS``: everything that was acknowledged, once, in its hour."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Talk, running, until
from tests.unit.broker.test_one_read import SEND

from litemq import _plain
from litemq.broker import _sent_cy
from litemq.broker.broker import Broker
from litemq.clock import ManualClock
from litemq.format import properties
from litemq.format.names import STATS_TOPIC
from litemq.format.stats_records import HOUR_MS
from litemq.store.message_store import MessageStore
from litemq.types import Message
from litemq.wire.remoting.codes import BINARY, JSON, Ask, Code
from litemq.wire.remoting.command import Request, decode, encode_request

PLAIN = _plain.load_plain("litemq.broker._sent_cy")


def told(store: MessageStore) -> list[dict[str, Any]]:
    return [json.loads(record.body) for record in store.records(STATS_TOPIC, 0, 0, max_count=1000)]


def stored_at(store: MessageStore, topic: str, offset: int = 0) -> int:
    return store.records(topic, 0, offset)[0].store_time or 0


def told_at(path: Path) -> list[dict[str, Any]]:
    with MessageStore.open(path, background=False) as store:
        return told(store)


def total(records: list[dict[str, Any]], part: str) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for record in records:
        for name, others in record.get(part, {}).items():
            for other, count in others.items():
                found[name, other] += count
    return found


@pytest.mark.parametrize("kernel", [_sent_cy, PLAIN])
def test_counts_are_by_hour_topic_and_group(kernel: Any) -> None:  # noqa: ANN401 - either build
    sent = kernel.SentCounts()
    assert sent.take() == []
    hour = 7 * HOUR_MS
    sent.note("orders", "shop", 2, hour + 5)
    sent.note("orders", "écran", 1, hour + HOUR_MS - 1)
    sent.note("orders", "shop", 3, hour + HOUR_MS)
    sent.note("bills", "shop", 1, hour + HOUR_MS)
    assert sent.take() == [
        (hour, {"orders": {"shop": 2, "écran": 1}}),
        (hour + HOUR_MS, {"orders": {"shop": 3}, "bills": {"shop": 1}}),
    ]
    assert sent.take() == []
    sent.note("orders", "shop", 1, hour + HOUR_MS + 1)
    assert sent.take() == [(hour + HOUR_MS, {"orders": {"shop": 1}})]


def test_plain_sends_and_batches_are_counted_by_runs(tmp_path: Path) -> None:
    """One read holds sends of several groups and topics, batches, and requests that are served one by one."""

    async def test() -> None:
        async with running(tmp_path / "store") as (broker, talk):
            for topic in ("T", "U"):
                await talk.send(topic, b"makes the topic and its queue")
            batch = b"".join(entry(body) for body in (b"one", b"two", b"three"))
            frames = []
            for number in range(60):
                ext = {**SEND, "a": f"g{number // 20}", "b": "TU"[number // 7 % 2]}
                codec = BINARY if number % 3 else JSON
                if number % 10 == 9:
                    request = Request(Ask.SEND_BATCH_MESSAGE, {**ext, "m": "true"}, batch, opaque=number, codec=codec)
                else:
                    request = Request(Ask.SEND_MESSAGE_V2, ext, b"x", opaque=number, codec=codec)
                frames.append(bytes(encode_request(request)))
            host, _, port = broker.address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"".join(frames))
            for _ in frames:
                size = await asyncio.wait_for(reader.readexactly(4), 5)
                answer = decode(size + await reader.readexactly(int.from_bytes(size, "big")))
                assert answer.code == Code.SUCCESS
            writer.close()

    asyncio.run(test())
    expected: Counter[tuple[str, str]] = Counter({("T", "pg"): 1, ("U", "pg"): 1})
    for number in range(60):
        expected["TU"[number // 7 % 2], f"g{number // 20}"] += 3 if number % 10 == 9 else 1
    assert total(told_at(tmp_path / "store"), "sent") == expected


def entry(body: bytes) -> bytes:
    """Return one message of a batch."""
    text = properties.write({"UNIQ_KEY": body.decode()}.items())
    head = b"".join(number.to_bytes(4, "big") for number in (22 + len(body) + len(text), 0, 0, 0, len(body)))
    return head + body + len(text).to_bytes(2, "big") + text


def test_what_is_sent_handed_out_and_confirmed(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "store") as (broker, talk):
            for number in range(6):
                await talk.send("T", b"%d" % number)
            await talk.pull("T", 0, group="cg")
            for offset in (4, 6):
                await commit(talk, offset)
                count = len(told(broker.store))
                await until(partial(has_more, broker, count))
            found = told(broker.store)
            assert all(list(record)[:2] == ["op", "hour"] for record in found)
            assert stored_at(broker.store, STATS_TOPIC) // HOUR_MS * HOUR_MS == found[0]["hour"]

    asyncio.run(test())
    found = told_at(tmp_path / "store")
    assert total(found, "sent") == {("T", "pg"): 6}
    assert total(found, "delivered") == {("cg", "T"): 6}
    assert total(found, "acked") == {("cg", "T"): 6}


def has_more(broker: Broker, count: int) -> bool:
    return len(told(broker.store)) > count


async def commit(talk: Talk, offset: int) -> None:
    ext = {"consumerGroup": "cg", "topic": "T", "queueId": "0", "commitOffset": str(offset)}
    assert (await talk.call(Ask.UPDATE_CONSUMER_OFFSET, ext)).code == Code.SUCCESS


def test_an_idle_broker_writes_nothing(tmp_path: Path) -> None:
    clock = ManualClock(1_795_132_800_000)

    async def test() -> None:
        async with running(tmp_path / "store", clock=clock) as (broker, talk):
            await talk.send("T", b"x")
            broker.stats_log.tick(0)
            assert told(broker.store) == []  # not yet
            clock.advance(1_000)
            broker.stats_log.tick(0)
            assert len(told(broker.store)) == 1
            end = broker.store.appended_end
            for _ in range(10):
                clock.advance(HOUR_MS)
                broker.stats_log.tick(0)
            assert broker.store.appended_end == end

    asyncio.run(test())
    assert len(told_at(tmp_path / "store")) == 1


def crash(path: Path, use: Callable[[Broker, Talk], Any]) -> None:
    """Use a broker and leave its store as a crash does."""

    async def test() -> None:
        async with running(path) as (broker, talk):
            await use(broker, talk)
            copy = path.with_name("copy")
            shutil.copytree(path, copy)
        shutil.rmtree(path)
        copy.rename(path)

    asyncio.run(test())


def start(path: Path) -> list[dict[str, Any]]:
    async def test() -> list[dict[str, Any]]:
        async with running(path) as (broker, _):
            return told(broker.store)

    return asyncio.run(test())


def test_an_unclean_stop_is_said(tmp_path: Path) -> None:
    async def use(broker: Broker, talk: Talk) -> None:
        await talk.send("T", b"x")
        await until(partial(has_more, broker, 0))
        await talk.send("T", b"y")

    crash(tmp_path / "store", use)
    counted, mark = start(tmp_path / "store")
    assert (counted["op"], mark["op"], mark["why"]) == ("counts", "incomplete", "the broker was not stopped")
    with MessageStore.open(tmp_path / "store", background=False) as store:
        at, newest = stored_at(store, STATS_TOPIC), stored_at(store, "T", 1)
    assert mark["since"] == at
    assert newest <= mark["until"] <= newest + 5_000
    assert start(tmp_path / "store") == [counted, mark]  # once


def test_a_store_that_nobody_counted_before(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", background=False) as store:
        store.append(Message("T", b"x"))
    (mark,) = start(tmp_path / "store")
    assert (mark["since"], mark["why"]) == (0, "nothing was counted before")
    assert start(tmp_path / "empty") == []


def test_clients_do_not_see_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path / "store") as (broker, talk):
            await talk.send("T", b"x")
            await until(partial(has_more, broker, 0))
            assert (await talk.send(STATS_TOPIC, b"x")).code == Code.NO_PERMISSION
            assert (await talk.pull(STATS_TOPIC, 0)).code != Code.SUCCESS
            listed = bytes((await talk.call(Ask.GET_ALL_TOPIC_CONFIG, {})).body or b"")
            assert (b'"T"' in listed, STATS_TOPIC.encode() in listed) == (True, False)

    asyncio.run(test())
