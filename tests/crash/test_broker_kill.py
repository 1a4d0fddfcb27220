"""``kill -9`` of a broker under load, again and again on one store: nothing that it acknowledged is lost."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from tests.crash.broker_load import GROUPS, PLAIN, QUEUES, Ledger, Load, Place, Queue
from tests.support import raw_client as raw
from tests.support.broker_process import BrokerProcess, kill_while_starting
from tests.support.plain_log import scan_log
from tests.support.raw_client import RawClient

from litemq.config import FlushPolicy, WritableFormat
from litemq.format.names import PROGRESS_TOPIC
from litemq.store.fs import OsFileSystem

pytestmark = pytest.mark.crash

formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
policies = pytest.mark.parametrize("flush", ["async", "group"])

SETTINGS = {
    "store.segment_bytes": 1 << 20,
    "store.queue_entries": 1000,
    "store.index_slots": 500,
    "store.index_entries": 4000,
    "store.max_body_bytes": 64 << 10,
    "store.checkpoint_interval_ms": 500,
    "store.progress_interval_ms": 200,
}
LONG_STORES = 5
LONG_ROUNDS = 5


class Victim:
    """A store whose broker is killed in every round."""

    def __init__(self, folder: Path, fmt: WritableFormat, flush: FlushPolicy, seed: int) -> None:
        folder.mkdir()
        self.data = folder / "store"
        self.ledger = Ledger()
        self._format = fmt
        self._log = folder / "log"
        self._rng = Random(seed)
        self._settings = {**SETTINGS, "store.format": fmt, "store.flush": flush}
        self._lives = 0
        self._least: dict[Place, int] = {}
        self.persisted = 0
        """Offsets that were above 0 when a broker was killed."""

    def start(self) -> BrokerProcess:
        """Start the broker; sometimes one is killed while it starts."""
        if self._lives and self._rng.random() < 0.3:
            kill_while_starting(self.data, self._log, self._settings, self._rng.uniform(0.1, 1.0))
        self._lives += 1
        return BrokerProcess(self.data, self._log, self._settings)

    def round(self) -> None:
        """Start the broker, check what it has, load it and kill it."""
        with self.start() as broker:
            self.check(broker)
            load = Load(broker.place, self.ledger, f"life{self._lives}", self._rng)
            assert load.first.wait(30)
            load.ended.wait(self._rng.uniform(0.05, 2.0))
            assert broker.is_alive, "the broker died by itself"
            broker.kill()
            load.join()
            assert not broker.surprises(), broker.surprises()[0]
        self._least = self._persisted()
        self.persisted += sum(offset > 0 for offset in self._least.values())

    def _persisted(self) -> dict[Place, int]:
        """Return what the log says of groups' progress, read without the store."""
        found: dict[Place, int] = {}
        for record in scan_log(OsFileSystem(), self.data, self._format).records:
            if record.topic == PROGRESS_TOPIC:
                for group, topics in json.loads(record.body)["offsets"].items():
                    for topic, queues in topics.items():
                        found |= {(group, topic, int(queue)): offset for queue, offset in queues.items()}
        return found

    def check(self, broker: BrokerProcess) -> None:
        """Compare what the broker serves with what its earlier lives promised."""
        with RawClient(broker.place) as client:
            seen: set[bytes] = set()
            for queue, promised in self.ledger.stored.items():
                found = read_queue(client, queue)
                missing = [at for at, body in promised.items() if at >= len(found) or found[at] != body]
                assert not missing, f"{queue}: {len(missing)} of {len(promised)} lost or moved, first {min(missing)}"
                check_order(found)
                assert seen.isdisjoint(found), "a message is in two queues"
                seen.update(found)
            self._check_offsets(client)

    def _check_offsets(self, client: RawClient) -> None:
        for group in GROUPS:
            for queue in range(QUEUES):
                place = (group, PLAIN, queue)
                ext = {"consumerGroup": group, "topic": PLAIN, "queueId": str(queue)}
                answer = client.ask(raw.QUERY_OFFSET, ext)
                offset = int(answer.ext["offset"]) if answer.code == 0 else 0
                least, most = self._least.get(place, 0), self.ledger.asked.get(place, 0)
                assert least <= offset <= most, f"{place}: {offset}, persisted {least}, committed {most}"


def read_queue(client: RawClient, queue: Queue) -> list[bytes]:
    """Return the bodies of a queue from its first message on; their offsets have no holes."""
    bodies: list[bytes] = []
    while True:
        answer = client.ask(raw.PULL, raw.pull_ext(*queue, len(bodies), group="check", count=1024))
        if answer.code == 19:
            return bodies
        assert answer.code == 0, answer
        for message in raw.messages(answer.body):
            assert message.offset == len(bodies), f"{queue}: offset {message.offset} where {len(bodies)} belongs"
            bodies.append(message.body)


def check_order(bodies: list[bytes]) -> None:
    """Check that each producer's messages stand in the order in which it sent them, none twice."""
    last: dict[bytes, int] = defaultdict(lambda: -1)
    for body in bodies:
        producer, serial, _ = body.split(b":", 2)
        assert int(serial) > last[producer], f"{producer.decode()}: {int(serial)} behind {last[producer]}"
        last[producer] = int(serial)


def run(victim: Victim, rounds: int) -> None:
    """Kill a broker so many times, then look at what is there, and stop it cleanly."""
    for _ in range(rounds):
        victim.round()
    with victim.start() as broker:
        victim.check(broker)
        assert broker.stop() == 0
    assert victim.ledger.count > 100 * rounds, "too little load to say anything"


@formats
@policies
@pytest.mark.timeout(300)
def test_a_killed_broker_loses_nothing_that_it_acknowledged(
    tmp_path: Path, fmt: WritableFormat, flush: FlushPolicy
) -> None:
    victim = Victim(tmp_path / "broker", fmt, flush, seed=4)
    run(victim, rounds=2)


def test_a_lost_message_is_noticed(tmp_path: Path) -> None:
    victim = Victim(tmp_path / "broker", "litemq", "async", seed=1)
    victim.round()
    queue, promised = next(iter(victim.ledger.stored.items()))
    place = (*queue, max(promised))
    log = scan_log(OsFileSystem(), victim.data, "litemq")
    record = next(record for record in log.records if (record.topic, record.queue_id, record.queue_offset) == place)
    segment = max(found.base for found in log.segments if found.base <= record.position)
    with (victim.data / "commitlog" / f"{segment:020d}").open("r+b") as file:
        file.seek(record.position - segment)
        file.write(bytes(len(record.raw)))
    with victim.start() as broker, pytest.raises(AssertionError, match="lost or moved"):
        victim.check(broker)


@formats
@policies
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(LONG_STORES))
def test_a_hundred_kills(tmp_path: Path, fmt: WritableFormat, flush: FlushPolicy, seed: int) -> None:
    victim = Victim(tmp_path / "broker", fmt, flush, seed=seed)
    run(victim, rounds=LONG_ROUNDS)
    assert victim.persisted, "no commit was ever persisted: the check of offsets says nothing"
