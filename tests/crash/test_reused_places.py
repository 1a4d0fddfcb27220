"""A power cut takes messages, and others stand in their places then: handles of what is gone are worth nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.crash.test_broker_power_cut import Machine, SlowDisk
from tests.support.broker import records
from tests.support.receipts import ack, batch, change, pop

from litemq.broker.topics import Topic
from litemq.config import WritableFormat
from litemq.format import message_id
from litemq.wire.remoting.codes import Ask, Code

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])

COMMIT = 8


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


async def started(fmt: WritableFormat) -> Machine:
    """Start a machine that flushes nothing by itself, with a topic that is there for good."""
    machine = Machine(1, SlowDisk(1), format=fmt, flush="async", flush_interval_ms=1 << 30)
    await machine.start()
    machine.broker.topics.create(Topic("T", 1, 1))
    machine.broker.store.flush()
    return machine


async def cut(machine: Machine) -> None:
    """Cut the power: everything goes that was not flushed."""
    await machine.cut_power("lost")
    await machine.start()
    assert machine.broker.store.reader.max_offset("T", 0) == 0
    if machine.broker.topics.find("T") is None:
        machine.broker.topics.create(Topic("T", 1, 1))


@formats
def test_a_receipt_of_a_message_that_is_gone(fmt: WritableFormat) -> None:
    async def test() -> None:
        machine = await started(fmt)
        assert (await machine.talks[0].send("T", b"gone")).code == 0
        (gone,) = await pop(machine.talks[0])
        await cut(machine)
        talk = machine.talks[0]
        assert (await talk.send("T", b"here")).ext["queueOffset"] == str(gone.offset)
        assert (await ack(talk, gone)).code != 0
        assert (await change(talk, gone, 0)).code != 0
        (here,) = await pop(talk)
        assert (here.body, here.offset) == (b"here", gone.offset)
        for answer in (
            await ack(talk, gone),
            await change(talk, gone, 0),
            await talk.call(Ask.BATCH_ACK_MESSAGE, {}, batch([gone])),
        ):
            assert answer.code == Code.NO_MESSAGE, answer
            assert "was delivered again" in (answer.remark or "")
        assert machine.broker.pops.states.count() == 1
        assert (await ack(talk, here)).code == 0
        await machine.stop()

    asyncio.run(asyncio.wait_for(test(), 60))


@formats
def test_a_transaction_that_is_gone(fmt: WritableFormat) -> None:
    async def test() -> None:
        machine = await started(fmt)

        async def begin(body: bytes) -> dict[str, str]:
            answer = await machine.talks[0].send("T", body, TRAN_MSG="true", PGROUP="pg")
            place = message_id.parse_offset_id(answer.ext["msgId"])
            assert place is not None
            return {
                "producerGroup": "pg",
                "tranStateTableOffset": answer.ext["queueOffset"],
                "commitLogOffset": str(place[1]),
                "commitOrRollback": str(COMMIT),
                "msgId": answer.ext["transactionId"],
            }

        await cut(machine)  # what a start behind a cut writes is then there both times
        gone = await begin(b"gone")
        await cut(machine)
        talk = machine.talks[0]
        answer = await talk.call(Ask.END_TRANSACTION, gone)
        assert (answer.code, "nothing is known of the transaction" in (answer.remark or "")) == (1, True), answer
        here = await begin(b"here")
        place = ("tranStateTableOffset", "commitLogOffset")
        assert [gone[name] for name in place] == [here[name] for name in place], "no place is used again"
        for decision in (COMMIT, 12, 0):
            answer = await talk.call(Ask.END_TRANSACTION, {**gone, "commitOrRollback": str(decision)})
            assert (answer.code, "the handle is stale" in (answer.remark or "")) == (1, True), answer
        assert len(machine.broker.transactions.pending) == 1
        assert (await talk.call(Ask.END_TRANSACTION, here)).code == 0
        assert [record.body for record in records((await talk.pull("T", 0)).body)] == [b"here"]
        await machine.stop()

    asyncio.run(asyncio.wait_for(test(), 60))
