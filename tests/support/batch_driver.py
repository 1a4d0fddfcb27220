"""A driver of batch transactions: stages, commits and aborts through crashes, and knows what must be there."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tests.support.broker import records

from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Response

QUEUES = 4
NAME = "broker-a"
TABLE = {"brokers": [NAME], "slots": [0] * 1024}


def entry(body: bytes, queue: int = -1, topic: int = 0, text: bytes = b"") -> bytes:
    """Return one message as it is staged."""
    numbers = (topic, queue, 0, len(body))
    head = b"".join(number.to_bytes(4, "big", signed=True) for number in numbers)
    whole = head + body + len(text).to_bytes(2, "big") + text
    return (len(whole) + 4).to_bytes(4, "big") + whole


async def put_table(talk: Client) -> None:
    """Make the broker the coordinator of everybody."""
    answer = await talk.call(Ask.LITEMQ_SLOTS, {}, json.dumps(TABLE).encode(), timeout_s=30)
    assert answer.code == 0, answer.remark


async def stage(
    talk: Client,
    key: tuple[str, int],
    messages: Iterable[bytes],
    *,
    partition: int = 0,
    attempt: int = 0,
    sequence: int = 0,
    topics: str = "T",
    coordinator: str = NAME,
) -> Response:
    """Stage one request."""
    ext = {
        "producerId": key[0],
        "epoch": str(key[1]),
        "partition": str(partition),
        "attempt": str(attempt),
        "sequence": str(sequence),
        "coordinator": coordinator,
        "topics": topics,
    }
    return await talk.call(Ask.LITEMQ_STAGE, ext, b"".join(messages), timeout_s=30)


async def end(
    talk: Client,
    key: tuple[str, int],
    decision: str,
    winners: Iterable[tuple[int, int, dict[str, int]]] = (),
    *,
    coordinator: str = NAME,
    **more: str,
) -> Response:
    """End a transaction."""
    ext = {"producerId": key[0], "epoch": str(key[1]), "decision": decision, "coordinator": coordinator, **more}
    body = json.dumps({"winners": [list(winner) for winner in winners]}).encode()
    return await talk.call(Ask.LITEMQ_END_BATCH, ext, body, timeout_s=30)


@dataclass
class Part:
    """An attempt of a partition: rows by request, and how many requests were answered."""

    partition: int
    attempt: int
    requests: list[list[bytes]]
    answered: int = 0

    @property
    def rows(self) -> list[bytes]:
        """Return all rows."""
        return [row for request in self.requests for row in request]


@dataclass
class Epoch:
    """One transaction."""

    number: int
    is_commit: bool
    parts: list[Part]
    winners: list[Part]
    is_told: bool = False
    is_answered: bool = False


@dataclass
class Producer:
    """One producer, whose epochs follow each other."""

    name: str
    rng: Random
    epochs: list[Epoch] = field(default_factory=list)
    attempts: int = 0
    repeated: int = 0
    lost: int = 0
    """How often a power cut took staged rows."""

    async def run(self, talk: Client) -> None:
        """Go on for ever."""
        while True:
            if not self.epochs or self.epochs[-1].is_answered:
                self.epochs.append(self._plan(len(self.epochs)))
            await self._go_on(talk, self.epochs[-1])

    def after_crash(self) -> None:
        """Decide how to go on: with what was staged, or with new attempts."""
        if self.epochs and not self.epochs[-1].is_told and self.rng.random() < 0.4:
            self._again(self.epochs[-1])

    def _plan(self, number: int) -> Epoch:
        epoch = Epoch(number, self.rng.random() < 0.8, [], [])
        for partition in range(self.rng.choice((1, 2, 3))):
            for _ in range(self.rng.choice((1, 1, 2))):
                epoch.parts.append(self._part(number, partition))
        return self._choose(epoch)

    def _choose(self, epoch: Epoch) -> Epoch:
        chosen = {part.partition: part for part in epoch.parts}
        epoch.winners = [chosen[partition] for partition in sorted(chosen)]
        self.rng.shuffle(epoch.parts)
        return epoch

    def _part(self, number: int, partition: int) -> Part:
        self.attempts += 1
        serial = 0
        requests = []
        for _ in range(self.rng.choice((1, 1, 3))):
            rows = []
            for _ in range(self.rng.choice((1, 5, 30))):
                filler = "x" * self.rng.choice((0, 50, 300))
                rows.append(f"{self.name}|{number}|{partition}|{self.attempts}|{serial}|{filler}".encode())
                serial += 1
            requests.append(rows)
        return Part(partition, self.attempts, requests)

    def _again(self, epoch: Epoch) -> None:
        """Stage everything anew under other attempt numbers; what is there loses."""
        partitions = sorted({part.partition for part in epoch.parts})
        epoch.parts = [self._part(epoch.number, partition) for partition in partitions]
        epoch.is_told = False
        self._choose(epoch)

    async def _go_on(self, talk: Client, epoch: Epoch) -> None:
        key = self.name, epoch.number
        while not epoch.is_told:
            waiting = [part for part in epoch.parts if part.answered < len(part.requests)]
            if not waiting:
                break
            part = self.rng.choice(waiting)
            at = part.answered
            if at and self.rng.random() < 0.1:  # say it once more
                at -= 1
            answer = await stage(
                *(talk, key, [entry(row) for row in part.requests[at]]),
                partition=part.partition,
                attempt=part.attempt,
                sequence=at,
            )
            if answer.ext.get("reason") == "rows_missing":
                self.lost += 1
                self._again(epoch)
                continue
            assert answer.code == 0, answer
            assert answer.ext["state"] in ("staged", "repeated"), answer
            self.repeated += answer.ext["state"] == "repeated"
            assert int(answer.ext["count"]) == len(part.requests[at])
            part.answered = max(part.answered, at + 1)
        epoch.is_told = True
        winners = [(part.partition, part.attempt, {NAME: len(part.rows)}) for part in epoch.winners]
        answer = await end(talk, key, "commit" if epoch.is_commit else "abort", winners)
        if answer.ext.get("reason") == "rows_missing":
            self.lost += 1
            self._again(epoch)
            return
        assert answer.code == 0, answer
        if epoch.is_commit:
            assert int(answer.ext["rows"]) == sum(len(part.rows) for part in epoch.winners)
        epoch.is_answered = True

    def check(self, found: dict[int, list[bytes]], *, may_lose: bool = False) -> None:
        """Compare what is in the queues with what was said; nothing is on its way any more."""
        mine = [row for rows in found.values() for row in rows if row.startswith(self.name.encode() + b"|")]
        counts = Counter(mine)
        assert all(count == 1 for count in counts.values()), f"twice: {counts.most_common(1)[0][0][:60]!r}"
        there = set(counts)
        for epoch in self.epochs:
            wanted = {row for part in epoch.winners for row in part.rows}
            of_epoch = {row for row in there if int(row.split(b"|")[1]) == epoch.number}
            if epoch.is_commit and epoch.is_answered and not may_lose:
                assert of_epoch == wanted, f"epoch {epoch.number}: {len(of_epoch)} of {len(wanted)}"
            elif epoch.is_commit and epoch.is_told:
                assert of_epoch in (set(), wanted), f"epoch {epoch.number}: {len(of_epoch)} of {len(wanted)}"
            else:
                assert not of_epoch, f"epoch {epoch.number} is there: {sorted(of_epoch)[0][:60]!r}"
        for rows in found.values():
            places: dict[tuple[bytes, bytes], list[int]] = defaultdict(list)
            order = [row.split(b"|") for row in rows if row in there]
            assert [int(parts[1]) for parts in order] == sorted(int(parts[1]) for parts in order), "epochs out of order"
            for parts in order:
                places[parts[1], parts[2]].append(int(parts[4]))
            assert all(serials == sorted(serials) for serials in places.values()), "a partition is out of order"


async def pulled(talk: Client, topic: str = "T", queues: int = QUEUES) -> dict[int, list[bytes]]:
    """Return the bodies in every queue of a topic."""
    found: dict[int, list[bytes]] = {}
    for queue in range(queues):
        bodies = found[queue] = []
        while True:
            ext = {
                "consumerGroup": "check",
                "topic": topic,
                "queueId": str(queue),
                "queueOffset": str(len(bodies)),
                "maxMsgNums": "500",
                "sysFlag": "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": "0",
                "subscription": "*",
                "subVersion": "0",
                "expressionType": "TAG",
            }
            answer = await talk.call(Ask.PULL_MESSAGE, ext, timeout_s=30)
            if answer.code != 0:
                break
            for record in records(answer.body):
                assert record.queue_offset == len(bodies)
                bodies.append(record.body)
    return found


async def settled(talk: Client) -> dict[str, int]:
    """Return what the broker counts, when nothing is on its way to its topic any more."""
    async with asyncio.timeout(60):
        while True:
            answer = await talk.call(Ask.LITEMQ_STATISTICS, {}, timeout_s=30)
            told = json.loads(answer.body)
            log, counts = told["counters"], told["batchTransactions"]
            is_readable = told["broker"]["flush"] == "async" or log["flushed_end"] == log["log_end"]
            if is_readable and not counts["publishing"]:
                assert isinstance(counts, dict)
                return counts
            await asyncio.sleep(0.02)
