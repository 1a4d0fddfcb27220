"""What an idle broker takes: start, memory, a thousand silent connections, many topics."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import native
from benchmarks.figures import Figure
from benchmarks.peers import litemq
from benchmarks.peers.process import Broken, Server
from benchmarks.wire import Client

STARTS = 3
QUEUES = 8


def run(directory: Path, topics: int, connections: int, store_format: str) -> Iterator[Figure]:
    """Start a few times, then load the last one with connections and topics."""
    ready, idle = [], []
    for turn in range(STARTS):
        with litemq.start(directory / f"idle-{turn}", store_format=store_format) as server:
            time.sleep(2)
            ready.append(server.ready_s)
            idle.append(server.memory_bytes("VmRSS") / 1e6)
    yield Figure("ready after", statistics.median(ready), "s", 1.0)
    yield Figure("idle: RSS", statistics.median(idle), "MB", 90.0)
    settings = {"broker": {"max_topics": topics + 100}}
    with litemq.start(directory / "loaded", store_format=store_format, settings=settings) as server:
        time.sleep(2)
        yield from _connections(server, connections)
    with litemq.start(directory / "topics", store_format=store_format, settings=settings) as server:
        time.sleep(2)
        yield from _topics(server, topics)


def _connections(server: Server, count: int) -> Iterator[Figure]:
    before, files = server.memory_bytes(), server.open_files()
    with native.begin("idle", port=server.port, connections=count) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline().strip() != b"begin":
            raise Broken(holder.stderr.read().decode(errors="replace"))
        limit = time.monotonic() + 10
        while server.open_files() < files + count and time.monotonic() < limit:
            time.sleep(0.1)
        time.sleep(1)
        held = server.open_files() - files
        if held < count:
            raise Broken(f"the broker holds {held} of {count} connections")
        yield Figure(f"{count:,} idle connections: RssAnon more", (server.memory_bytes() - before) / 1e6, "MB", 30.0)
        holder.kill()


def _topics(server: Server, count: int) -> Iterator[Figure]:
    before = server.memory_bytes()
    names = [f"topic-{number}" for number in range(count)]
    with Client(server.port) as client:
        began = time.monotonic()
        client.create_topics(names, QUEUES)
        yield Figure(f"{count:,} topics: created in", time.monotonic() - began, "s")
        yield Figure(f"{count:,} topics: RssAnon more", (server.memory_bytes() - before) / 1e6, "MB")
        stored = client.send_all(((name, queue) for name in names for queue in range(QUEUES)), b"x" * 128)
    time.sleep(2)
    if stored != count * QUEUES:
        raise Broken(f"{stored} of {count * QUEUES} messages were stored")
    grown = (server.memory_bytes() - before) / 1e6
    yield Figure(f"… a message in each of {QUEUES} queues: RssAnon more", grown, "MB", 200.0)
    yield Figure("… RSS", server.memory_bytes("VmRSS") / 1e6, "MB")
    # 256 of them are the store's own bound (StoreConfig.open_files); the rest is sockets, the log, the index.
    yield Figure("… file descriptors", server.open_files(), "", 1_024.0)
