"""Ends of transactions that are wrong: each is refused by a code and a text, and nothing is committed or lost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.batch_driver import NAME, end, entry, pulled, put_table, settled, stage
from tests.support.broker import Talk, records, running

from litemq.broker.broker import Broker
from litemq.broker.system_topics import HALF_OP_TOPIC, HALF_TOPIC
from litemq.broker.topics import Topic
from litemq.format import message_id
from litemq.format.names import STAGE_TOPIC
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

COMMIT, ROLLBACK = "8", "12"
INVALID, UNKNOWN = Code.INVALID_PARAMETER, Code.SYSTEM_ERROR
MOST = str((1 << 63) - 1)


@pytest.fixture(autouse=True)
def _nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    unforeseen = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not unforeseen


def run(test: Any) -> None:  # noqa: ANN401 - a coroutine
    asyncio.run(asyncio.wait_for(test, 60))


# -- of single messages ---------------------------------------------------------------------------


async def begin(talk: Talk, body: bytes) -> dict[str, str]:
    """Send a half message; return the header that would commit it."""
    answer = await talk.send("T", body, TRAN_MSG="true", PGROUP="pg")
    place = message_id.parse_offset_id(answer.ext["msgId"])
    assert place is not None
    return {
        "producerGroup": "pg",
        "tranStateTableOffset": answer.ext["queueOffset"],
        "commitLogOffset": str(place[1]),
        "commitOrRollback": COMMIT,
        "fromTransactionCheck": "false",
        "msgId": answer.ext["transactionId"],
    }


def kept(broker: Broker) -> object:
    """Return everything that an end could change."""
    ends = [broker.store.reader.max_offset(*place) for place in ((HALF_TOPIC, 0), (HALF_OP_TOPIC, 0), ("T", 0))]
    transactions = broker.transactions
    return ends, len(transactions.pending), transactions.committed, transactions.rolled_back


BAD: list[tuple[dict[str, str], int, str]] = [
    ({"producerGroup": "other"}, UNKNOWN, "was begun by producer group 'pg', not by 'other'"),
    ({"producerGroup": "PG"}, UNKNOWN, "not by 'PG'"),
    ({"producerGroup": ""}, INVALID, "no field producerGroup"),
    ({"tranStateTableOffset": "-1"}, UNKNOWN, "nothing is known of the transaction"),
    ({"tranStateTableOffset": "99"}, UNKNOWN, "there is no half message at offset 99"),
    ({"tranStateTableOffset": MOST}, UNKNOWN, f"there is no half message at offset {MOST}"),
    ({"tranStateTableOffset": "9" * 19}, INVALID, "tranStateTableOffset"),
    ({"tranStateTableOffset": "one"}, INVALID, "must be a whole number"),
    ({"commitLogOffset": "-1"}, UNKNOWN, "not at -1 (commitLogOffset)"),
    ({"commitLogOffset": MOST}, UNKNOWN, f"not at {MOST}"),
    ({"commitLogOffset": "0x10"}, INVALID, "must be a whole number"),
    ({"commitOrRollback": "4"}, INVALID, "must be 8, 12 or 0"),
    ({"commitOrRollback": "-8"}, INVALID, "must be 8, 12 or 0"),
    ({"commitOrRollback": "9" * 12}, INVALID, "commitOrRollback"),
    ({"commitOrRollback": ""}, INVALID, "no field commitOrRollback"),
    ({"msgId": "X"}, UNKNOWN, "the handle is stale"),
    ({"msgId": "x" * 10_000}, UNKNOWN, "the handle is stale"),
    ({"msgId": "\0\n"}, UNKNOWN, "the handle is stale"),
    ({"msgId": ""}, INVALID, "no field msgId"),
]


def test_an_end_that_is_wrong_changes_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            one, other = await begin(talk, b"one"), await begin(talk, b"other")
            plain = message_id.parse_offset_id((await talk.send("T", b"plain")).ext["msgId"])
            assert plain is not None
            mixed = [
                ({name: other[name]}, UNKNOWN, "half message at offset")
                for name in ("tranStateTableOffset", "commitLogOffset", "msgId")
            ]
            before = kept(broker)
            for changed, code, text in [*BAD, *mixed, ({"commitLogOffset": str(plain[1])}, UNKNOWN, "not at")]:
                for decision in (COMMIT, ROLLBACK, "0"):
                    answer = await end_by(talk, {**one, "commitOrRollback": decision, **changed})
                    case = (changed, decision, answer)
                    assert answer.code == code, case
                    assert text in (answer.remark or ""), case
                    assert kept(broker) == before, case
            assert (await end_by(talk, one)).code == 0
            assert (await end_by(talk, {**other, "commitOrRollback": ROLLBACK})).code == 0
            assert [record.body for record in records((await talk.pull("T", 0)).body)] == [b"plain", b"one"]

    run(test())


async def end_by(talk: Talk, ext: dict[str, str]) -> Response:
    return await talk.call(Ask.END_TRANSACTION, ext)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
def test_what_ended_cannot_end_otherwise(tmp_path: Path, first: str, restarts: bool) -> None:
    second = ROLLBACK if first == COMMIT else COMMIT
    word = "was committed" if first == COMMIT else "was rolled back"

    async def opposite(broker: Broker, talk: Talk, one: dict[str, str]) -> None:
        before = kept(broker)[:2]  # type: ignore[index]
        answer = await end_by(talk, {**one, "commitOrRollback": second})
        assert (answer.code, word in (answer.remark or "")) == (UNKNOWN, True), answer
        answer = await end_by(talk, {**one, "commitOrRollback": second, "producerGroup": "other"})
        assert (answer.code, "not by 'other'" in (answer.remark or "")) == (UNKNOWN, True), answer
        assert (await end_by(talk, {**one, "commitOrRollback": first})).code == 0
        assert (await end_by(talk, {**one, "commitOrRollback": "0"})).code == 0
        assert kept(broker)[:2] == before  # type: ignore[index]
        assert broker.store.reader.max_offset("T", 0) == (first == COMMIT)

    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            one = await begin(talk, b"one")
            assert (await end_by(talk, {**one, "commitOrRollback": first})).code == 0
            await opposite(broker, talk, one)
        if restarts:
            async with running(tmp_path) as (broker, talk):
                await opposite(broker, talk, one)

    run(test())


# -- of batches -----------------------------------------------------------------------------------

KEY = ("p", 5)


def kept_batches(broker: Broker) -> object:
    """Return everything that an end of a batch could change."""
    core = broker.batches.core
    parts = {(key, place): part.rows for key, place, part in core.parts()}
    topics = [broker.store.reader.max_offset("T", queue) for queue in range(4)]
    return parts, topics, broker.store.reader.max_offset(STAGE_TOPIC, 0), dict(core.memories)


WRONG_ENDS: list[tuple[dict[str, str], Any, str, str]] = [
    # other fields, other winners, the kind of the refusal, what the text says
    ({"epoch": "-1"}, None, "bad_field", "epoch"),
    ({"epoch": "x"}, None, "bad_field", "epoch"),
    ({"epoch": "9" * 19}, None, "bad_field", "epoch"),
    ({"epoch": "3"}, None, "stale_epoch", "epoch 4 of this producer has ended"),
    ({"producerId": ""}, None, "bad_field", "producerId"),
    ({"producerId": "q"}, None, "rows_missing", "producer 'q'"),
    ({"producerId": "x" * 256}, None, "bad_field", "256 bytes"),
    ({"epoch": "6"}, None, "rows_missing", "epoch 6"),
    ({"coordinator": ""}, None, "bad_field", "coordinator"),
    ({}, [[0, 0, {NAME: 2}]], "rows_missing", "has 1 rows on broker-a, the commit names 2"),
    ({}, [[0, 0, {NAME: 0}]], "rows_missing", "has 1 rows on broker-a, the commit names 0"),
    ({}, [[0, 1, {NAME: 1}]], "rows_missing", "attempt 1 of partition 0"),
    ({}, [[-1, 0, {NAME: 1}]], "rows_missing", "partition -1"),
    ({}, [[1 << 70, 0, {NAME: 1}]], "rows_missing", f"partition {1 << 70}"),
    ({}, [[0, 1 << 70, {NAME: 1}]], "rows_missing", f"attempt {1 << 70}"),
    ({}, [[0, 0, {NAME: 1 << 70}]], "rows_missing", f"the commit names {1 << 70}"),
    ({}, [[False, False, {NAME: 1}]], "bad_body", "winner 0"),
    ({}, [[0, 0, {NAME: True}]], "bad_body", "winner 0"),
    ({}, [[0, 0, {NAME: -1}]], "bad_body", "winner 0"),
    ({}, [[0, 0, {NAME: 1.0}]], "bad_body", "winner 0"),
    ({}, [[0, 0, 1]], "bad_body", "winner 0"),
    ({}, [[0, 0, {NAME: 1}], [0, 1, {NAME: 1}]], "bad_field", "partition 0 twice"),
    ({}, {"0": 0}, "bad_body", "no list"),
    ({}, "x", "bad_body", "no list"),
]


@pytest.mark.parametrize("decision", ["commit", "prepare"])
def test_an_end_of_a_batch_that_is_wrong_changes_nothing(tmp_path: Path, decision: str) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            broker.topics.create(Topic("T", 4, 4))
            await put_table(talk)
            await stage(talk, ("p", 4), [entry(b"before")])
            assert (await end(talk, ("p", 4), "commit", [(0, 0, {NAME: 1})])).code == 0
            await settled(talk)
            assert (await stage(talk, KEY, [entry(b"one")])).code == 0
            before = kept_batches(broker)
            for changed, winners, kind, text in WRONG_ENDS:
                ext = {"producerId": "p", "epoch": "5", "coordinator": NAME, "decision": decision, **changed}
                if decision == "prepare" and "coordinator" in changed:
                    continue  # nobody decides
                named = [[0, 0, {NAME: 1}]] if winners is None else winners
                answer = await talk.call(Ask.LITEMQ_END_BATCH, ext, json.dumps({"winners": named}).encode())
                case = (changed, winners, answer)
                assert answer.code != 0, case
                assert (answer.ext["reason"], text in (answer.remark or "")) == (kind, True), case
                assert kept_batches(broker) == before, case
            await settled(talk)
            assert kept_batches(broker) == before
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 1})])).code == 0
            await settled(talk)
            assert sorted(body for queue in (await pulled(talk)).values() for body in queue) == [b"before", b"one"]

    run(test())


WRONG_STAGES: list[tuple[dict[str, str], str, str]] = [
    ({"epoch": "4"}, "stale_epoch", "epoch 5 of this producer has ended"),
    ({"epoch": "0"}, "stale_epoch", "epoch 5 of this producer has ended"),
    ({"epoch": "-5"}, "bad_field", "epoch"),
    ({"partition": "9" * 19}, "bad_field", "partition"),
    ({"attempt": "x"}, "bad_field", "attempt"),
    ({"sequence": ""}, "bad_field", "sequence"),
    ({"sequence": "-1"}, "bad_field", "must be 0 or more"),
    ({"sequence": MOST}, "rows_missing", f"misses those before {MOST}"),
]


def test_an_epoch_does_not_go_back(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            broker.topics.create(Topic("T", 4, 4))
            await put_table(talk)
            assert (await stage(talk, KEY, [entry(b"one")])).code == 0
            assert (await end(talk, KEY, "commit", [(0, 0, {NAME: 1})])).code == 0
            await settled(talk)
            before = kept_batches(broker)
            for changed, kind, text in WRONG_STAGES:
                numbers = {"producerId": "p", "epoch": "6", "partition": "0", "attempt": "0", "sequence": "0"}
                ext = {**numbers, "coordinator": NAME, "topics": "T", **changed}
                answer = await talk.call(Ask.LITEMQ_STAGE, ext, entry(b"x"))
                assert (answer.code != 0, answer.ext.get("reason")) == (True, kind), (changed, answer)
                assert text in (answer.remark or ""), (changed, answer)
                assert kept_batches(broker) == before, (changed, answer)
            for decision in ("commit", "abort", "prepare"):
                answer = await end(talk, ("p", 4), decision, [(0, 0, {NAME: 1})] * (decision != "abort"))
                assert (answer.code != 0, answer.ext.get("reason")) == (True, "stale_epoch"), (decision, answer)
                assert kept_batches(broker) == before, (decision, answer)
            await settled(talk)
            assert [body for queue in (await pulled(talk)).values() for body in queue] == [b"one"]

    run(test())
