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
COLD_P50_BAR, COLD_P99_BAR = 1.25, 2.0
"""Latency beside a cold reader by latency alone; the bars are above 1 only for what two shared cores make of noise."""
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
        yield from _cold(full, pairs, seconds)


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


def _cold(site: Site, pairs: int, seconds: float) -> Iterator[Figure]:
    """Measure end-to-end latency alone and beside a consumer that reads the cold end from disk."""
    server = site.server
    alone: list[Found] = []
    beside: list[Found] = []
    rates: list[float] = []
    for turn in range(pairs):
        settle()
        alone.append(end_to_end(server, "litemq", f"probe-{turn}", 5_000, seconds, 1))
        _forget(server.folder / "data")
        reader = native.begin(
            "consume",
            port=server.port,
            topic="backlog",
            queues=QUEUES,
            group="benchmark_cold",
            rate=COLD_RATE,
            seconds=seconds + 2,
        )
        try:
            beside.append(end_to_end(server, "litemq", f"probe-cold-{turn}", 5_000, seconds, 1))
            assert reader.stdout is not None
            rates.append(native.measured(map(bytes.decode, reader.stdout), server, reader)["rate"])
        finally:
            reader.kill()
            reader.communicate()
    yield Figure("cold reader: rate", statistics.median(rates), "/s")
    for figure, word, bar in (("p50_us", "p50", COLD_P50_BAR), ("p99_us", "p99", COLD_P99_BAR)):
        before = statistics.median(one[figure] for one in alone)
        after = statistics.median(one[figure] for one in beside)
        yield Figure(f"end to end at 5,000/s: {word} alone", before, "µs")
        yield Figure(f"end to end at 5,000/s: {word} beside the cold reader", after, "µs")
        yield Figure(f"end to end at 5,000/s: {word}, ratio", after / before, "×", bar)


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
