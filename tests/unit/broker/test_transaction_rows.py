"""Transactions that come in one read: the same records and answers as one by one, appended with one write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support import raw_client as raw
from tests.support.broker import running, until

from litemq.broker.broker import Broker
from litemq.broker.system_topics import HALF_OP_TOPIC, HALF_TOPIC
from litemq.clock import ManualClock
from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.errors import StoreFull
from litemq.format import message_id
from litemq.types import Record
from litemq.wire.remoting.codes import Ask, Code

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP = "pg"


def half(number: int, *, codec: str = "json", topic: str = "T", **found: str) -> bytes:
    """Return a prepared send as an official client makes it."""
    properties = {"TRAN_MSG": "true", "UNIQ_KEY": f"K{number}", "WAIT": "true", "PGROUP": GROUP, **found}
    ext = raw.send_ext(topic, number % 4, {name: value for name, value in properties.items() if value})
    ext["f"] = "4"
    frame = raw.frame if codec == "json" else raw.binary_frame
    return frame(raw.SEND_V2, ext, b"body %d" % number, opaque=number)


def plain(number: int) -> bytes:
    return raw.frame(raw.SEND_V2, raw.send_ext("T", 1, {"UNIQ_KEY": f"K{number}"}), b"plain", opaque=number)


def end(number: int, begun: raw.Answer, decision: int, *, oneway: bool = False, **changed: str) -> bytes:
    """Return an end, as the answer to a half message names it."""
    place = message_id.parse_offset_id(begun.ext["msgId"])
    assert place is not None
    ext = {
        "producerGroup": GROUP,
        "tranStateTableOffset": begun.ext["queueOffset"],
        "commitLogOffset": str(place[1]),
        "commitOrRollback": str(decision),
        "msgId": begun.ext["transactionId"],
        **changed,
    }
    return raw.frame(Ask.END_TRANSACTION, ext, opaque=number, flag=2 if oneway else 0)


class Line:
    """A connection whose writes arrive as one read each."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, *frames: bytes, answers: int = -1) -> dict[int, raw.Answer]:
        """Send frames together; return the answers by their numbers."""
        self._writer.write(b"".join(frames))
        found = {}
        for _ in range(len(frames) if answers < 0 else answers):
            size = await asyncio.wait_for(self._reader.readexactly(4), 10)
            answer = raw.parse(size + await self._reader.readexactly(int.from_bytes(size, "big")))
            found[answer.opaque] = answer
        return found


@asynccontextmanager
async def line_to(broker: Broker) -> AsyncIterator[Line]:
    host, _, port = broker.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def stored(broker: Broker) -> list[tuple[Any, ...]]:
    """Return everything in the queues but addresses, which differ from one broker to the next."""
    found: list[tuple[Any, ...]] = []
    for topic, queues in (("T", range(4)), (HALF_TOPIC, range(1)), (HALF_OP_TOPIC, range(1))):
        for queue in queues:
            for offset in range(broker.store.reader.max_offset(topic, queue)):
                record = broker.store.reader.message_at(topic, queue, offset)
                assert record is not None
                found.append(_without_hosts(record))
    return found


def _without_hosts(record: Record) -> tuple[Any, ...]:
    left = {name: getattr(record, name) for name in Record.__slots__ if "host" not in name and name != "offset_id"}
    left["properties"] = {name: value for name, value in record.properties.items() if "CRC" not in name}
    return tuple(sorted((name, repr(value)) for name, value in left.items()))


async def _history(line: Line) -> list[dict[int, raw.Answer]]:
    """Have a broker meet what is ordinary and what is not, side by side in single reads."""
    told = [await line.ask(*(half(number, codec=("json", "binary")[number % 2]) for number in range(1, 7)))]
    begun = told[0]
    told.append(
        await line.ask(
            end(101, begun[1], COMMIT),
            half(11, KEYS="a b", TAGS="tag", own="x"),
            end(102, begun[2], ROLLBACK),
            plain(12),
            end(103, begun[1], COMMIT),  # again
            end(104, begun[2], COMMIT),  # after the rollback
            end(105, begun[3], COMMIT, oneway=True),
            end(106, begun[3], COMMIT),  # again, in the same read
            end(107, begun[4], COMMIT, producerGroup="others"),
            end(108, begun[4], COMMIT, msgId="stale"),
            end(109, begun[4], COMMIT, tranStateTableOffset="99"),
            end(110, begun[4], COMMIT, commitLogOffset="0"),
            end(111, begun[4], UNKNOWN),
            end(112, begun[4], 3),
            half(13, DELAY="3"),
            half(14, PGROUP=""),
            half(15, topic="TopicToBeMade"),
            half(16, UNIQ_KEY=""),
            half(17, TRANSACTION_CHECK_TIMES="4", __ORIGIN="7", REAL_TOPIC="echoed"),
            half(18, topic="RMQ_SYS_TRANS_HALF_TOPIC"),
            half(19, big="x" * 32_000),
            end(113, begun[5], COMMIT),
            answers=22 - 1,
        )
    )
    told.append(await line.ask(end(120, told[1][11], COMMIT), end(121, begun[6], ROLLBACK)))
    return told


@pytest.mark.parametrize("flush", ["async", "group"])
@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
def test_one_read_leaves_what_single_requests_leave(tmp_path: Path, fmt: WritableFormat, flush: FlushPolicy) -> None:
    async def test() -> None:
        results = []
        for name in ("together", "single"):
            store = StoreConfig(format=fmt, flush=flush)
            async with running(tmp_path / name, store=store, clock=ManualClock()) as (broker, talk):
                await talk.send("T", b"makes the topic")
                if name == "single":
                    broker.transaction_rows.serve = lambda *_: 0  # type: ignore[method-assign]
                broker.maker._id_head = "0" * 16
                async with line_to(broker) as line:
                    told = await _history(line)
                seen = stored(broker)
                assert len(broker.transactions.pending) == 5  # 4, 14 to 17
                report = broker.transactions.report()
            results.append(([{key: _said(one) for key, one in part.items()} for part in told], seen, report))
        together, single = results
        assert together[0] == single[0]
        assert together[1] == single[1]
        assert together[2] == single[2]
        codes = together[0][1]
        assert [codes[number][0] for number in (101, 102, 103, 106, 111, 113, 11, 12, 17)] == [0] * 9
        assert [codes[number][0] for number in (104, 107, 108, 109, 110, 112)] == [Code.SYSTEM_ERROR] * 5 + [
            codes[112][0]
        ]
        assert codes[112][0] != 0
        assert 105 not in codes

    asyncio.run(asyncio.wait_for(test(), 60))


def _said(answer: raw.Answer) -> tuple[int, dict[str, str], str]:
    ext = dict(answer.ext)
    place = message_id.parse_offset_id(ext.get("msgId", ""))
    if place is not None:
        ext["msgId"] = str(place[1])
    return answer.code, ext, answer.remark or ""


def test_what_comes_together_is_one_write(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk), line_to(broker) as line:
            await talk.send("T", b"makes the topic")
            await line.ask(half(1))  # opens the queue
            before = broker.store.plain.rows.log.writes
            begun = await line.ask(*(half(number) for number in range(2, 12)))
            assert broker.store.plain.rows.log.writes == before + 1
            await line.ask(
                *(end(100 + number, answer, COMMIT, oneway=True) for number, answer in begun.items()), answers=0
            )
            await until(lambda: broker.transactions.committed == 10)
            assert broker.store.plain.rows.log.writes <= before + 3

    asyncio.run(asyncio.wait_for(test(), 30))


def test_a_disk_that_is_full_refuses_each(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk), line_to(broker) as line:
            await talk.send("T", b"makes the topic")
            begun = await line.ask(half(1), half(2))

            def refuse(*_: object, **__: object) -> None:
                raise StoreFull("the disk is full")

            append, append_whole = broker.store.append, broker.store.append_whole
            broker.store.append = broker.store.append_whole = refuse  # type: ignore[method-assign, assignment]
            told = await line.ask(half(3), end(101, begun[1], COMMIT), half(4))
            assert all("disk is full" in (answer.remark or "") for answer in told.values())
            assert len(broker.transactions.pending) == 2
            broker.store.append, broker.store.append_whole = append, append_whole  # type: ignore[method-assign]
            assert (await line.ask(end(102, begun[1], COMMIT)))[102].code == 0
            assert broker.transactions.committed == 1

    asyncio.run(asyncio.wait_for(test(), 30))
