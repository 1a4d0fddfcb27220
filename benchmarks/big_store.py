"""A store of ten million messages in a thousand queues: opening it, looking things up in it, scanning it.

Everything runs in child processes, so that memory and kill -9 are real.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import messages
from benchmarks.figures import Figure, rss_anon_bytes
from litemq.config import StoreConfig

TOPICS, QUEUES = 10, 100
SHARE = 8_192


def run(directory: Path, count: int = 10_000_000) -> Iterator[Figure]:
    """Build the store, then measure open, memory, lookups, and the open after a kill."""
    store = directory / "big"
    built = _child("build", store, count)
    yield Figure("messages in the store", count, "")
    yield Figure("log", built["log_bytes"] / (1 << 30), "GiB")
    yield Figure("build: CPU per message, batches of 64", built["cpu_us"], "µs")
    opened = [_child("open", store, count) for _ in range(3)]
    yield Figure("clean open", statistics.median(found["open_s"] for found in opened), "s", 1.0)
    memory = statistics.median(found["rss_anon_mb"] for found in opened)
    yield Figure("RssAnon of the open store, all queues touched, above the interpreter", memory, "MB", 100.0)
    for name in ("key", "id", "time"):
        yield Figure(f"lookup by {name}: p50", opened[-1][f"{name}_p50_ms"], "ms")
        yield Figure(f"lookup by {name}: p99", opened[-1][f"{name}_p99_ms"], "ms", 5.0)
    verified = _child("verify", store, count)
    yield Figure("verify: log, queues and index, CPU", verified["bytes"] / verified["cpu_s"] / 1e6, "MB/s")
    scan = verified["bytes"] / verified["scan_cpu_s"] / 1e6
    yield Figure("scan of the log with checksums, CPU", scan, "MB/s", 400.0, at_least=True)
    # A checkpoint comes every 256 MiB.  Each open also looks at the end of every queue, whatever is behind it.
    for uncovered, bar in ((1, None), (256, 5.0), (1024, 5.0)):
        killed = _killed(store, count, uncovered << 20)
        yield Figure(f"open after kill -9, {killed['gib']:.2f} GiB behind the checkpoint", killed["open_s"], "s")
        if bar is not None:
            yield Figure("  per GiB", killed["open_s"] / killed["gib"], "s/GiB", bar)


def build(store: Path, count: int) -> None:
    """Make a store of ``count`` messages, in a process of its own."""
    _child("build", store, count)


def _child(work: str, store: Path, count: int, *more: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.big_store", work, str(store), str(count), *more]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _killed(store: Path, count: int, uncovered: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.big_store", "append", str(store), str(count), str(uncovered)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    return _child("recover", store, count)


# -- in the child ---------------------------------------------------------------------------------


def _build(store: Path, count: int) -> dict[str, float]:
    from litemq.store.message_store import MessageStore

    cpu = 0.0
    with MessageStore.open(store, StoreConfig(open_files=2048)) as opened:
        for first in range(0, count, SHARE):
            share = messages.make(first, min(SHARE, count - first), topics=TOPICS, queues=QUEUES)
            began = time.thread_time()
            for i in range(0, len(share), 64):
                opened.append_many(share[i : i + 64])
            cpu += time.thread_time() - began
            opened.tick()
        size = opened.appended_end
    return {"cpu_us": cpu / count * 1e6, "log_bytes": size}


def _open(store: Path, count: int) -> dict[str, float]:
    from litemq.store import message_store

    before = rss_anon_bytes()
    began = time.perf_counter()
    opened = message_store.MessageStore.open(store)
    open_s = time.perf_counter() - began
    for queue in opened.queues():
        opened.reader.max_offset(queue.topic, queue.queue_id)
    memory = rss_anon_bytes() - before
    rng = random.Random(7)

    def by_key() -> None:
        n = rng.randrange(count)
        assert opened.reader.by_key(f"bench-{n % TOPICS}", f"order-{n}")

    def by_id() -> None:
        n = rng.randrange(count)
        assert opened.reader.by_id(f"7F000001C35000000000{n:012X}", topic=f"bench-{n % TOPICS}") is not None

    first = opened.reader.message_at("bench-0", 0, 0)
    last = opened.reader.message_at("bench-0", 0, opened.reader.max_offset("bench-0", 0) - 1)
    assert first is not None
    assert last is not None
    begin, end = first.store_time or 0, last.store_time or 0

    def by_time() -> None:
        topic, queue = f"bench-{rng.randrange(TOPICS)}", rng.randrange(QUEUES)
        opened.reader.offset_at_time(topic, queue, rng.randrange(begin, end + 1))

    found = {"open_s": open_s, "rss_anon_mb": memory / 1e6}
    for name, work in (("key", by_key), ("id", by_id), ("time", by_time)):
        found |= _latency(name, work)
    opened.close()
    return found


def _latency(name: str, work: Callable[[], None]) -> dict[str, float]:
    for _ in range(2_000):
        work()
    times = []
    for _ in range(10_000):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    times.sort()
    return {f"{name}_p50_ms": times[len(times) // 2], f"{name}_p99_ms": times[len(times) * 99 // 100]}


def _verify(store: Path) -> dict[str, float]:
    from litemq.store.log_walk import open_log
    from litemq.store.verify import verify

    began = time.process_time()
    records = sum(batch.count for batch in open_log(store).batches())
    scan_cpu = time.process_time() - began
    began = time.process_time()
    report = verify(store)
    cpu = time.process_time() - began
    assert report.is_ok
    assert report.records == records
    return {"bytes": report.bytes, "cpu_s": cpu, "scan_cpu_s": scan_cpu}


def _append(store: Path, count: int, uncovered: int) -> None:
    from litemq.store.message_store import MessageStore

    opened = MessageStore.open(store, StoreConfig(checkpoint_interval_ms=(1 << 31) - 1, checkpoint_bytes=1 << 40))
    began = opened.appended_end
    first = count
    while opened.appended_end - began < uncovered:
        share = messages.make(first, SHARE, topics=TOPICS, queues=QUEUES)
        for i in range(0, SHARE, 64):
            opened.append_many(share[i : i + 64])
        first += SHARE
    print("ready", flush=True)
    time.sleep(60)


def _recover(store: Path) -> dict[str, float]:
    from litemq.store.message_store import MessageStore

    began = time.perf_counter()
    opened = MessageStore.open(store)
    open_s = time.perf_counter() - began
    size = opened.recovered.scanned_bytes
    opened.close()
    return {"open_s": open_s, "gib": size / (1 << 30)}


def main() -> None:
    """Do one piece of work in this process and print what was found."""
    work, store, count, *more = sys.argv[1:]
    if work == "append":
        _append(Path(store), int(count), int(more[0]))
        return
    works: dict[str, Callable[[], dict[str, float]]] = {
        "build": lambda: _build(Path(store), int(count)),
        "open": lambda: _open(Path(store), int(count)),
        "verify": lambda: _verify(Path(store)),
        "recover": lambda: _recover(Path(store)),
    }
    print(json.dumps(works[work]()))


if __name__ == "__main__":
    main()
