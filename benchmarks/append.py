"""What an append costs: CPU of the appending thread per 128-byte message, beside a bare write of the same bytes.

Format litemq, flush async; ConsumeQueue entry, key index (id and one key) and the write call included.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import messages
from benchmarks.figures import Figure
from litemq.config import StoreConfig
from litemq.format.record import LITEMQ
from litemq.store.message_store import MessageStore
from litemq.types import Message

ROUNDS = 5
BATCH = 64


def run(directory: Path, count: int = 200_000) -> Iterator[Figure]:
    """Measure this build, then the plain one in a process of its own."""
    record_bytes = 0
    for batch, bar in ((1, 3.0), (BATCH, 1.0)):
        cost, record_bytes = append_cost(directory, count, batch)
        name = "single append" if batch == 1 else f"append_many of {batch}"
        bare = bare_cost(directory, count, batch, record_bytes)
        yield Figure(f"{name}: CPU per message", cost, "µs", bar)
        yield Figure(f"{name}: bare write() of the same bytes", bare, "µs")
        yield Figure(f"{name}: ratio to the bare write", cost / bare, "×")
    yield Figure("record size", record_bytes, "bytes")
    if os.environ.get("LITEMQ_PURE") != "1":
        yield from plain_costs(count // 20)


def append_cost(directory: Path, count: int, batch: int) -> tuple[float, int]:
    """Return the median CPU per message in µs, and the size of a record."""
    sent = messages.make(0, count)
    calls = [sent[i : i + batch] for i in range(0, count, batch)]
    costs = []
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        for turn in range(ROUNDS):
            with MessageStore.open(Path(folder) / str(turn), StoreConfig()) as store:
                store.append_many(calls[0])
                began = store.appended_end
                costs.append(_cpu(store, calls, batch) / count * 1e6)
                size = (store.appended_end - began) // count
    return statistics.median(costs), size


def _cpu(store: MessageStore, calls: list[list[Message]], batch: int) -> float:
    if batch == 1:
        append = store.append
        began = time.thread_time()
        for (message,) in calls:
            append(message)
    else:
        append_many = store.append_many
        began = time.thread_time()
        for call in calls:
            append_many(call)
    return time.thread_time() - began


def bare_cost(directory: Path, count: int, batch: int, record_bytes: int) -> float:
    """Return the median CPU per message in µs of ``os.pwrite`` into a preallocated file."""
    data = bytes(record_bytes * batch)

    def once() -> float:
        with tempfile.NamedTemporaryFile(dir=directory) as file:
            fd = file.fileno()
            os.posix_fallocate(fd, 0, record_bytes * (count + batch))
            write: Callable[[int, bytes, int], int] = os.pwrite
            position = 0
            began = time.thread_time()
            for _ in range(count // batch):
                write(fd, data, position)
                position += len(data)
            return time.thread_time() - began

    return statistics.median(once() for _ in range(ROUNDS)) / count * 1e6


def plain_costs(count: int) -> Iterator[Figure]:
    """Yield the plain build's figures."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.append", str(count)],
        env={**os.environ, "LITEMQ_PURE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    for line in answer.stdout.splitlines():
        name, value = line.split("\t")
        yield Figure(f"plain build: {name}", float(value), "µs")


def main() -> None:
    """Print this build's two costs, for ``plain_costs``."""
    count = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        for batch in (1, BATCH):
            name = "single append" if batch == 1 else f"append_many of {batch}"
            print(f"{name}\t{append_cost(Path(folder), count, batch)[0]}")


if __name__ == "__main__":
    assert LITEMQ.code == 0
    main()
