"""Transactions of a broker that is killed, or whose machine loses its power: each ends once, as its producer said."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.crash.test_broker_power_cut import Machine, SlowDisk
from tests.support import raw_client as raw
from tests.support.broker import Talk, records, running, until
from tests.support.broker_process import BrokerProcess, kill_while_starting
from tests.support.raw_client import RawClient

from litemq.broker.system_topics import HALF_OP_TOPIC, HALF_TOPIC
from litemq.broker.topics import Topic
from litemq.broker.transaction_state import SNAPSHOT
from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.errors import NoAnswer
from litemq.format import message_id
from litemq.types import LogPosition
from litemq.wire.remoting.codes import Ask, Code

pytestmark = [
    pytest.mark.crash,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP, TOPIC = "pg", "T"
QUEUES = 4
ROUNDS = 3
SEEDS = 3
LONG_SEEDS = 60

SETTINGS = {
    "store.segment_bytes": 256 << 10,
    "store.queue_entries": 1000,
    "store.index_slots": 500,
    "store.index_entries": 4000,
    "store.max_body_bytes": 16 << 10,
    "store.checkpoint_interval_ms": 300,
    "store.progress_interval_ms": 200,
    "transaction.first_check_ms": 400,
    "transaction.check_interval_ms": 400,
    "transaction.max_checks": 200,
}


@dataclass(slots=True)
class Transaction:
    """What a producer knows of a transaction; its body tells how it ends."""

    body: bytes
    is_begun: bool = False
    offset: str = ""
    position: str = ""
    said: int | None = None
    is_ended: bool = False

    @property
    def decision(self) -> int:
        """Return how it ends."""
        return COMMIT if self.body.startswith(b"commit") else ROLLBACK

    @property
    def says_at_once(self) -> bool:
        """Return whether its producer says so without being asked."""
        return b"-asked" not in self.body

    def end(self, decision: int) -> dict[str, str]:
        """Return the header that ends it."""
        return end_ext(self.body, self.offset, self.position, decision)


def unique_id(body: bytes) -> str:
    return body.partition(b"|")[0].decode()


def end_ext(body: bytes, offset: str, position: str, decision: int) -> dict[str, str]:
    return {
        "producerGroup": GROUP,
        "tranStateTableOffset": offset,
        "commitLogOffset": position,
        "commitOrRollback": str(decision),
        "fromTransactionCheck": "false",
        "msgId": unique_id(body),
    }


class Producer:
    """The only client of a broker; everything is on one connection, so that what it reads has an order."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.known: dict[bytes, Transaction] = {}
        self.checks = 0
        self._serial = 0

    def run(self, client: RawClient, goes_on: threading.Event) -> None:
        """Begin and end transactions, and answer what is asked, until the broker is gone or it is told to stop."""
        while goes_on.is_set():
            waiting: dict[int, Transaction] = {}
            for _ in range(self._rng.choice((1, 3, 20))):
                self._begin(client, waiting)
            self._read(client, waiting)
            ready = [each for each in self.known.values() if each.is_begun and each.said is None and each.says_at_once]
            for transaction in ready:
                self._end(client, transaction, waiting)
            self._read(client, waiting)

    def _begin(self, client: RawClient, waiting: dict[int, Transaction]) -> None:
        self._serial += 1
        kind = self._rng.choice((b"commit", b"rollback", b"commit-asked", b"rollback-asked"))
        body = b"%b-%d|%b" % (kind, self._serial, b"x" * self._rng.randrange(3000))
        transaction = self.known[body] = Transaction(body)
        properties = {"UNIQ_KEY": unique_id(body), "TRAN_MSG": "true", "PGROUP": GROUP}
        opaque = client.next_opaque()
        waiting[opaque] = transaction
        ext = raw.send_ext(TOPIC, self._rng.randrange(QUEUES), properties)
        ext["f"] = self._rng.choice(("4", "0"))  # the bit that says so, as official clients set it, takes a faster way
        client.write(raw.frame(raw.SEND_V2, ext, body, opaque=opaque))

    def _end(self, client: RawClient, transaction: Transaction, waiting: dict[int, Transaction]) -> None:
        transaction.said = transaction.decision
        opaque = client.next_opaque()
        waiting[opaque] = transaction
        client.write(raw.frame(Ask.END_TRANSACTION, transaction.end(transaction.decision), opaque=opaque))

    def _read(self, client: RawClient, waiting: dict[int, Transaction]) -> None:
        while waiting:
            answer = client.read()
            if not answer.is_answer:
                self.answer_check(client, answer)
                continue
            transaction = waiting.pop(answer.opaque, None)
            if transaction is None:
                continue
            assert answer.code == 0, answer
            if transaction.said is None:
                place = message_id.parse_offset_id(answer.ext["msgId"])
                assert place is not None
                transaction.is_begun = True
                transaction.offset, transaction.position = answer.ext["queueOffset"], str(place[1])
            else:
                transaction.is_ended = True

    def answer_check(self, client: RawClient, asked: raw.Answer) -> None:
        """Say how a transaction ended, or that it is not known yet."""
        assert asked.code == Ask.CHECK_TRANSACTION_STATE
        self.checks += 1
        (message,) = raw.messages(asked.body)
        transaction = self.known[message.body]
        assert not transaction.is_ended, f"asked about what has ended: {message.body[:40]!r}"
        decision = transaction.decision if self._rng.random() < 0.7 else UNKNOWN
        ext = end_ext(message.body, asked.ext["tranStateTableOffset"], asked.ext["commitLogOffset"], decision)
        client.write(raw.frame(Ask.END_TRANSACTION, ext, flag=2))

    def repeat(self, client: RawClient) -> None:
        """Say again what was said before; then the opposite, which must be refused."""
        for transaction in self.known.values():
            if transaction.said is None or not transaction.is_begun or self._rng.random() < 0.5:
                continue
            answer = self.ask(client, transaction.end(transaction.said))
            assert answer.code == 0, answer
            transaction.is_ended = True
            answer = self.ask(client, transaction.end(COMMIT + ROLLBACK - transaction.said))
            assert answer.code == Code.SYSTEM_ERROR, answer

    def ask(self, client: RawClient, ext: dict[str, str]) -> raw.Answer:
        """End a transaction and return the answer; checks that come meanwhile are answered."""
        opaque = client.next_opaque()
        client.write(raw.frame(Ask.END_TRANSACTION, ext, opaque=opaque))
        while True:
            answer = client.read()
            if answer.is_answer and answer.opaque == opaque:
                return answer
            if not answer.is_answer:
                self.answer_check(client, answer)

    def check(self, found: Counter[bytes], *, at_end: bool = False) -> None:
        """Compare what consumers see with what was said."""
        assert not found.keys() - self.known.keys()
        for body, transaction in self.known.items():
            count = found[body]
            assert count <= 1, f"there twice: {body[:40]!r}"
            if transaction.decision == ROLLBACK:
                assert not count, f"rolled back and there: {body[:40]!r}"
            elif transaction.is_ended or (at_end and transaction.is_begun):
                assert count, f"committed and not there: {transaction.body[:40]!r} {transaction}"


def heartbeat(client: RawClient) -> None:
    beat = {"clientID": "p", "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
    opaque = client.next_opaque()
    client.write(raw.frame(raw.HEARTBEAT, {}, json.dumps(beat).encode(), opaque=opaque))


def seen(client: RawClient) -> Counter[bytes]:
    """Return what is in the topic."""
    found: Counter[bytes] = Counter()
    for queue in range(QUEUES):
        offset = 0
        while True:
            answer = client.ask(raw.PULL, raw.pull_ext(TOPIC, queue, offset, group="check", count=1024))
            if answer.code != 0:
                break
            for message in raw.messages(answer.body):
                assert message.offset == offset
                offset += 1
                found[message.body] += 1
    return found


def kill_again_and_again(folder: Path, fmt: WritableFormat, flush: FlushPolicy, seed: int) -> None:
    """Kill a broker under load several times; in its last life everything ends."""
    folder.mkdir()
    rng = Random(seed)
    settings = {**SETTINGS, "store.format": fmt, "store.flush": flush}
    data, log = folder / "store", folder / "log"
    producer = Producer(rng)
    for life in range(ROUNDS + 1):
        if life and rng.random() < 0.4:
            kill_while_starting(data, log, settings, rng.uniform(0.1, 1.0))
        with BrokerProcess(data, log, settings) as broker:
            with RawClient(broker.place) as client:  # of no group: it is not asked
                producer.check(seen(client))
            with RawClient(broker.place) as client:
                producer.repeat(client)
                heartbeat(client)
                if life < ROUNDS:
                    live(broker, client, producer, rng)
                else:
                    end_all(broker, client, producer)
            assert not broker.surprises(), broker.surprises()[0]
    assert producer.checks


def live(broker: BrokerProcess, client: RawClient, producer: Producer, rng: Random) -> None:
    """Load a broker for a moment, and kill it."""
    errors: list[BaseException] = []
    goes_on = threading.Event()
    goes_on.set()

    def work() -> None:
        try:
            with suppress(OSError):
                producer.run(client, goes_on)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    time.sleep(rng.uniform(0.05, 0.5))
    broker.kill()
    thread.join(30)
    assert not thread.is_alive()
    if errors:
        raise errors[0]


def end_all(broker: BrokerProcess, client: RawClient, producer: Producer) -> None:
    """Answer what is asked until nothing is pending."""
    until_s = time.monotonic() + 30
    while True:
        opaque = client.next_opaque()
        client.write(raw.frame(Ask.LITEMQ_STATISTICS, {}, opaque=opaque))
        while (answer := client.read()).opaque != opaque or not answer.is_answer:
            if not answer.is_answer:
                producer.answer_check(client, answer)
        if not json.loads(answer.body)["transactions"]["pending"]:
            break
        assert time.monotonic() < until_s, "a transaction is never asked about"
        time.sleep(0.05)
    with RawClient(broker.place) as other:
        producer.check(seen(other), at_end=True)


@formats
@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed(tmp_path: Path, fmt: WritableFormat, seed: int) -> None:
    kill_again_and_again(tmp_path / "data", fmt, "group" if seed == 1 else "async", seed)


@pytest.mark.slow
@formats
def test_killed_for_long(tmp_path: Path, fmt: WritableFormat) -> None:
    for seed in range(LONG_SEEDS):
        kill_again_and_again(tmp_path / f"data{seed}", fmt, "group" if seed % 3 == 1 else "async", 1000 + seed)


# -- power cuts -----------------------------------------------------------------------------------


async def cut_again_and_again(seed: int, fmt: WritableFormat, flush: FlushPolicy) -> None:
    """Cut the power under load several times; what was not flushed is lost, but nothing comes twice."""
    machine = Machine(seed, SlowDisk(seed), format=fmt, flush=flush)
    rng = Random(seed)
    promised: dict[bytes, int] = {}
    begun: dict[bytes, dict[str, str]] = {}
    for life in range(ROUNDS):
        await machine.start()
        await check_after_cut(machine.talks[0], flush, begun, promised)
        workers = [
            asyncio.create_task(produce(talk, f"{life}-{number}", rng, begun, promised))
            for number, talk in enumerate(machine.talks)
        ]
        goal = len(promised) + rng.randrange(5, 150)
        await until(lambda goal=goal: len(promised) >= goal, within_s=30)  # type: ignore[misc]
        for worker in workers:
            worker.cancel()
        for result in await asyncio.gather(*workers, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, (NoAnswer, asyncio.CancelledError)):
                raise result
        if life < ROUNDS - 1:
            await machine.cut_power()
    await machine.stop()


async def check_after_cut(
    talk: Talk, flush: FlushPolicy, begun: dict[bytes, dict[str, str]], promised: dict[bytes, int]
) -> None:
    """Compare what consumers see with what was promised; end what was begun in an earlier life."""
    found = await pulled(talk)
    assert all(count == 1 for count in found.values()), found.most_common(1)
    for body, decision in promised.items():
        assert decision == COMMIT or not found[body], body
        assert decision == ROLLBACK or found[body] or flush == "async", body
    for body, decision in list(promised.items())[-50:]:
        answer = await talk.call(Ask.END_TRANSACTION, end_of(begun[body], body, decision))
        assert answer.code == 0 or flush == "async", answer
    for body in begun.keys() - promised.keys() if flush == "group" else ():
        promised[body] = decision_of(body)
        assert (await talk.call(Ask.END_TRANSACTION, end_of(begun[body], body, promised[body]))).code == 0


def decision_of(body: bytes) -> int:
    return COMMIT if body.startswith(b"commit") else ROLLBACK


def end_of(ext: dict[str, str], body: bytes, decision: int) -> dict[str, str]:
    return end_ext(body, ext["offset"], ext["position"], decision)


async def produce(
    talk: Talk, name: str, rng: Random, begun: dict[bytes, dict[str, str]], promised: dict[bytes, int]
) -> None:
    """Begin transactions, and end most of them."""
    serial = 0
    while True:
        serial += 1
        body = b"%b-%b-%d|%b" % (
            rng.choice((b"commit", b"rollback")),
            name.encode(),
            serial,
            b"x" * rng.randrange(2000),
        )
        found = {"UNIQ_KEY": unique_id(body), "TRAN_MSG": "true", "PGROUP": GROUP}
        answer = await talk.send(TOPIC, body, queue=rng.randrange(QUEUES), timeout_s=30, **found)
        assert answer.code == 0, answer
        place = message_id.parse_offset_id(answer.ext["msgId"])
        assert place is not None
        begun[body] = {"offset": answer.ext["queueOffset"], "position": str(place[1])}
        if rng.random() < 0.8:
            answer = await talk.call(Ask.END_TRANSACTION, end_of(begun[body], body, decision_of(body)), timeout_s=30)
            assert answer.code == 0, answer
            promised[body] = decision_of(body)


async def pulled(talk: Talk) -> Counter[bytes]:
    """Return what is in the topic."""
    found: Counter[bytes] = Counter()
    for queue in range(QUEUES):
        offset = 0
        while (answer := await talk.pull(TOPIC, offset, queue=queue, count=500)).code == 0:
            for record in records(answer.body):
                offset += 1
                found[record.body] += 1
    return found


@formats
@pytest.mark.parametrize("flush", ["async", "group"])
@pytest.mark.parametrize("seed", range(2))
def test_power_cut(fmt: WritableFormat, flush: FlushPolicy, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    asyncio.run(asyncio.wait_for(cut_again_and_again(seed, fmt, flush), 100))


@formats
def test_a_log_that_ends_anywhere(tmp_path: Path, fmt: WritableFormat) -> None:
    """Cut the log of a few transactions behind each of its records, and within."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = StoreConfig(
        format=fmt, segment_bytes=1 << 20, flush_interval_ms=1 << 30, checkpoint_interval_ms=1 << 30
    )  # so that nothing is known to be flushed

    async def load() -> tuple[dict[bytes, dict[str, str]], list[LogPosition]]:
        begun: dict[bytes, dict[str, str]] = {}
        async with running(whole, store=config) as (broker, talk):
            broker.topics.create(Topic(TOPIC, QUEUES, QUEUES))
            await asyncio.sleep(0.2)
            broker.store.flush()  # without a snapshot nothing would be sure, and everything looked for
            await until((whole / "config" / SNAPSHOT).exists)
            start = broker.store.appended_end
            for number in range(6):
                body = b"%b-%d|x" % (b"commit" if number % 3 else b"rollback", number)
                found = {"UNIQ_KEY": unique_id(body), "TRAN_MSG": "true", "PGROUP": GROUP}
                answer = await talk.send(TOPIC, body, queue=0, timeout_s=5, **found)
                place = message_id.parse_offset_id(answer.ext["msgId"])
                assert place is not None
                begun[body] = {"offset": answer.ext["queueOffset"], "position": str(place[1])}
                ending = end_of(begun[body], body, decision_of(body))
                assert (await talk.call(Ask.END_TRANSACTION, ending)).code == 0
            ends = [record.position for record in broker.store.reader.walk(start)][1:]
            broker.transactions.close = lambda: None  # type: ignore[method-assign]
            broker.store.flush = lambda: 0  # type: ignore[method-assign]
            broker.store.close = broker.store.abandon  # type: ignore[method-assign]
        return begun, ends

    async def look(begun: dict[bytes, dict[str, str]]) -> None:
        for life in range(2):
            async with running(cut, store=config) as (broker, talk):
                for body, ext in begun.items():
                    answer = await talk.call(Ask.END_TRANSACTION, end_of(ext, body, decision_of(body)))
                    assert answer.code == 0 or "nothing is known" in (answer.remark or ""), answer
                found = await pulled(talk)
                assert all(count == 1 and decision_of(body) == COMMIT for body, count in found.items()), found
                halves = broker.store.reader.max_offset(HALF_TOPIC, 0)
                assert len(found) == sum(body.startswith(b"commit") for body in list(begun)[:halves])
                assert not broker.transactions.pending
                assert broker.store.reader.max_offset(HALF_OP_TOPIC, 0) == halves, life

    begun, ends = asyncio.run(load())
    assert len(ends) == 15
    for end in [*ends, *(position + 9 for position in ends)]:
        shutil.rmtree(cut, ignore_errors=True)
        shutil.copytree(whole, cut)
        with (cut / "commitlog" / f"{0:020d}").open("r+b") as log:
            log.seek(end)
            log.write(bytes((1 << 20) - end))
        asyncio.run(asyncio.wait_for(look(begun), 60))


@pytest.mark.slow
@formats
@pytest.mark.parametrize("flush", ["async", "group"])
def test_power_cuts_for_long(fmt: WritableFormat, flush: FlushPolicy, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    for seed in range(LONG_SEEDS):
        asyncio.run(asyncio.wait_for(cut_again_and_again(1000 + seed, fmt, flush), 100))
