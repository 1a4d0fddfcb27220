"""A broker with millions of messages beside an empty one: CPU per send and per read at the tail, memory, a cold reader.

Both run at once and are loaded in turn.  The tail is what the send before has just written.
"""

from __future__ import annotations

import contextlib
import functools
import os
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import native
from benchmarks.broker.latency import end_to_end
from benchmarks.broker.sites import QUEUES, Site, WrongResult, settle
from benchmarks.figures import Figure
from benchmarks.native import Found
from benchmarks.peers import litemq
from benchmarks.peers.process import Server

CPU_BAR, MEMORY_BAR_MB = 1.15, 100.0
COLD_P50_BAR, COLD_P99_BAR = 1.25, 1.25
"""Latency beside a cold reader by latency beside the same reader at another broker: that one takes the same CPUs, disk
and memory, so what is above 1 is what a broker lets its readers do to each other, and noise."""
COLD_RATE = 50_000


def run(directory: Path, count: int, pairs: int, seconds: float, store_format: str) -> Iterator[Figure]:
    """Fill one of two brokers, then compare them."""
    start = functools.partial(litemq.start, store_format=store_format)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(Site(start, directory / "full"))
        empty = stack.enter_context(Site(start, directory / "empty"))
        filled = full.native_send("backlog", connections=4, window=256, count=count)
        yield Figure("filling: rate", filled["rate"], "/s")
        yield Figure("filling: broker CPU per message", filled["broker_us"], "µs")
        sends: dict[str, list[float]] = {"full": [], "empty": []}
        reads: dict[str, list[float]] = {"full": [], "empty": []}
        for turn in range(-1, pairs):  # the first pair warms
            order = [("full", full), ("empty", empty)]
            for name, site in order if turn % 2 else order[::-1]:
                settle()
                sent, read = _tail(site, max(50_000, min(500_000, count // 20)))
                if turn >= 0:
                    sends[name].append(sent)
                    reads[name].append(read)
        for what, found in (("send", sends), ("read at the tail", reads)):
            own, bare = statistics.median(found["full"]), statistics.median(found["empty"])
            yield Figure(f"{what}: broker CPU per message, empty", bare, "µs")
            yield Figure(f"{what}: broker CPU per message, with the backlog", own, "µs")
            yield Figure(f"{what}: ratio", own / bare, "×", CPU_BAR)
        growth = (full.server.memory_bytes() - empty.server.memory_bytes()) / 1e6
        yield Figure("RssAnon above the empty broker's", growth, "MB", MEMORY_BAR_MB)
        yield Figure("file descriptors", full.server.open_files(), "")
        yield from _cold(full, empty, pairs, seconds)


def _tail(site: Site, share: int) -> tuple[float, float]:
    """Send a share and read it back; return the broker's CPU per message of each."""
    topic = site.topic("backlog")
    ends = site.ends(topic)
    sent = site.native_send(topic, connections=4, window=64, count=share)
    begins = ",".join(map(str, ends))
    read = _consume(site.server, topic, **{"from": begins})
    if read["bad"] or read["measured"] != share:
        raise WrongResult(f"{site.name}: sent {share}, read {read}")
    return sent["broker_us"], read["broker_us"]


def _consume(server: Server, topic: str, **options: object) -> Found:
    return native.run(
        server, "consume", port=server.port, topic=topic, queues=QUEUES, group="benchmark_tail", **options
    )


def _cold(site: Site, other: Site, pairs: int, seconds: float) -> Iterator[Figure]:
    """Measure end-to-end latency alone, and beside a consumer that reads the cold end of this broker or of another."""
    runs: dict[str, list[Found]] = {"alone": [], "beside the cold reader": [], "beside one of another broker": []}
    readers = dict(zip(runs, (None, site, other), strict=True))
    rates: list[float] = []
    for turn in range(pairs):
        names = list(runs)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            settle()
            read = readers[name]
            topic = f"probe-{turn}-{names.index(name)}"
            if read is None:
                runs[name].append(end_to_end(site.server, "litemq", topic, 5_000, seconds, 1))
            else:
                found, rate = _beside(site.server, read.server, topic, seconds)
                runs[name].append(found)
                rates.append(rate)
    yield Figure("cold reader: rate", statistics.median(rates), "/s")
    for figure, word, bar in (("p50_us", "p50", COLD_P50_BAR), ("p99_us", "p99", COLD_P99_BAR)):
        found = {name: statistics.median(one[figure] for one in several) for name, several in runs.items()}
        for name, value in found.items():
            yield Figure(f"end to end at 5,000/s: {word} {name}", value, "µs")
        own, others = found["beside the cold reader"], found["beside one of another broker"]
        yield Figure(f"end to end at 5,000/s: {word}, ratio", own / others, "×", bar)


def _beside(server: Server, cold: Server, topic: str, seconds: float) -> tuple[Found, float]:
    """Return latency while a consumer reads the cold end of ``cold``, and that consumer's rate."""
    _forget(cold.folder / "data")
    reader = native.begin(
        "consume",
        port=cold.port,
        topic="backlog",
        queues=QUEUES,
        group="benchmark_cold",
        rate=COLD_RATE,
        seconds=seconds + 2,
    )
    try:
        found = end_to_end(server, "litemq", topic, 5_000, seconds, 1)
        assert reader.stdout is not None
        return found, native.measured(map(bytes.decode, reader.stdout), cold, reader)["rate"]
    finally:
        reader.kill()
        reader.communicate()


def _forget(folder: Path) -> None:
    """Drop the store's files from the page cache, as far as nobody maps them."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
