"""Many writers of an outbox at once, a relay that is killed, a broker that is killed; then the log is looked at.

Each transaction counts one of a few counters up, adds a message of it, and takes its time before it commits: ids and
transaction numbers are given in another order than that of commits.  Some are rolled back.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import sqlalchemy as sa

import litemq
from litemq.outbox import OUTBOX_ID, Outbox
from litemq.testing import Broker

TOPIC = "events"
_COUNTERS = 5
_RELAY = """
import sys, sqlalchemy
from litemq.outbox import OutboxRelay
with OutboxRelay(sqlalchemy.create_engine(sys.argv[1]), sys.argv[2], poll=0.02, timeout=2) as relay:
    relay.run()
"""


@dataclass
class Committed:
    """One transaction that was: its commit lay between two times."""

    name: str
    began: float
    ended: float


@dataclass
class Written:
    """What the writers did."""

    committed: dict[str, Committed] = field(default_factory=dict)
    """By the id that the outbox gave."""
    rolled_back: set[str] = field(default_factory=set)
    later_ids_first: int = 0
    """Commits of a transaction whose row had been added before that of one that committed earlier."""


def start_relay(url: str, nameservers: str) -> subprocess.Popen[bytes]:
    """Start a relay as a process of its own."""
    return subprocess.Popen([sys.executable, "-c", _RELAY, url, nameservers])


class Writers:
    """Threads that write to an outbox; ``wait`` says what they did."""

    def __init__(self, engine: sa.Engine, outbox: Outbox, *, writers: int, each: int, longest_s: float) -> None:
        self._engine = engine
        self._outbox = outbox
        self._each = each
        self._longest_s = longest_s
        self._written = Written()
        self._lock = threading.Lock()
        self._added: list[str] = []
        metadata = sa.MetaData()
        columns = (sa.Column("name", sa.Integer, primary_key=True), sa.Column("n", sa.Integer))
        self._counters = sa.Table("counters", metadata, *columns)
        metadata.create_all(engine)
        with engine.begin() as connection:
            connection.execute(self._counters.insert(), [{"name": name, "n": 0} for name in range(_COUNTERS)])
        self._pool = ThreadPoolExecutor(writers)
        self._working = [self._pool.submit(self._work, random.Random(number)) for number in range(writers)]

    def wait(self) -> Written:
        """Return when all have committed."""
        for one in self._working:
            one.result()
        self._pool.shutdown()
        return self._written

    def _work(self, seed: random.Random) -> None:
        for _ in range(self._each):
            self._write(seed)

    def _write(self, seed: random.Random) -> None:
        name = seed.randrange(_COUNTERS)
        with self._engine.connect() as connection, connection.begin() as transaction:
            ids: list[str] = []
            if seed.random() < 0.5:  # in half of them a row comes before the lock of the counter is waited for
                ids.append(self._outbox.add(connection, TOPIC, b"early", sharding_key=str(name)))
            number = connection.execute(self._count_up(name)).scalar_one()
            ids.append(self._outbox.add(connection, TOPIC, b"%d" % number, sharding_key=str(name)))
            with self._lock:
                self._added += ids
            time.sleep(seed.uniform(0, self._longest_s))
            if seed.random() < 0.1:
                transaction.rollback()
                self._written.rolled_back.update(ids)
                return
            began = time.monotonic()
            transaction.commit()
            ended = time.monotonic()
        with self._lock:
            later = self._added[self._added.index(ids[-1]) + 1 :]
            self._written.later_ids_first += any(other in self._written.committed for other in later)
            for one in ids:
                self._written.committed[one] = Committed(f"{name}:{number}" if one == ids[-1] else "", began, ended)

    def _count_up(self, name: int) -> sa.Executable:
        table = self._counters
        return table.update().where(table.c.name == name).values(n=table.c.n + 1).returning(table.c.n)


def read_log(nameservers: str, until: int) -> list[litemq.Message]:
    """Return the messages of the only queue, until so many different ones were there."""
    found: list[litemq.Message] = []
    seen: set[str] = set()
    deadline = time.monotonic() + 60
    with litemq.PullConsumer(nameservers=nameservers) as consumer:
        consumer.subscribe(TOPIC)
        while len(seen) < until and time.monotonic() < deadline:
            for message in consumer.poll(timeout=1):
                found.append(message)
                seen.add(message.properties[OUTBOX_ID])
    return found


def check_log(written: Written, log: list[litemq.Message], *, most_doubles: int) -> int:
    """Look whether everything is there, in the order of commits; return how many came twice."""
    ids = [message.properties[OUTBOX_ID] for message in log]
    first = list(dict.fromkeys(ids))
    assert set(first) == written.committed.keys()
    latest_began = 0.0
    numbers: dict[str, int] = {}
    for outbox_id in first:
        commit = written.committed[outbox_id]
        assert commit.ended >= latest_began, f"{outbox_id} was committed before one that stands before it"
        latest_began = max(latest_began, commit.began)
        if commit.name:
            name, _, number = commit.name.partition(":")
            assert int(number) == numbers.get(name, 0) + 1, f"counter {name}: {number} behind {numbers.get(name)}"
            numbers[name] = int(number)
    doubles = len(ids) - len(first)
    assert doubles <= most_doubles
    return doubles


def run_with_faults(
    engine: sa.Engine, url: str, broker: Broker, *, writers: int, each: int, longest_s: float, kills: int
) -> tuple[Written, int]:
    """Write, while the relay and the broker are killed in turn; return what was written, and what came twice."""
    outbox = Outbox(engine)
    outbox.create()
    with litemq.Admin(broker.nameservers) as admin:
        admin.create_topic(TOPIC, queues=1)
    working = Writers(engine, outbox, writers=writers, each=each, longest_s=longest_s)
    seed = random.Random(7)
    relay = start_relay(url, broker.nameservers)
    try:
        for turn in range(kills):
            time.sleep(seed.uniform(0.3, 0.9))
            if turn % 2:
                broker.kill()
                broker.restart()
            else:
                relay.kill()
                relay.wait()
                relay = start_relay(url, broker.nameservers)
        written = working.wait()
        log = read_log(broker.nameservers, len(written.committed))
    finally:
        relay.kill()
        relay.wait()
    with engine.begin() as connection:
        left = outbox.pending(connection)
    assert left <= 500  # the last batch may have been published, and not deleted yet
    return written, check_log(written, log, most_doubles=500 * kills)
