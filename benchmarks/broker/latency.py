"""End to end with a consumer, open loop, at fixed rates: LiteMQ, Redis Streams and NATS JetStream in turn.

Latency runs from the moment at which a message was due to be sent, so a pause counts for all that were due in it.  The
load tool is one thread for all three, so what it costs itself is the same in each.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import native
from benchmarks.broker.sites import WrongResult, settle
from benchmarks.figures import Figure
from benchmarks.native import Found
from benchmarks.peers import litemq, nats, redis
from benchmarks.peers.process import Server
from benchmarks.wire import Client

QUEUES = 4
P50_BAR_US, P99_BAR_US = 500.0, 10_000.0


def run(
    directory: Path, rates: list[int], rounds: int, seconds: float, warm: float, store_format: str
) -> Iterator[Figure]:
    """Yield p50 and p99 of each server at each rate; LiteMQ's must be below the best peer's."""
    starts: dict[str, Callable[[Path], Server]] = {
        "litemq": functools.partial(litemq.start, store_format=store_format),
        "redis": redis.start,
        "nats": nats.start,
    }
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(start(directory / name)) for name, start in starts.items()}
        for rate in rates:
            runs: dict[str, list[Found]] = {name: [] for name in servers}
            for turn in range(rounds):
                names = list(servers)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    settle()
                    runs[name].append(end_to_end(servers[name], name, f"e2e-{rate}-{turn}", rate, seconds, warm))
            yield from _figures(runs, rate)


def end_to_end(server: Server, name: str, topic: str, rate: int, seconds: float, warm: float) -> Found:
    """Run one open loop; nothing may be lost, doubled or refused."""
    queues, protocol = 1, name
    if name == "litemq":
        queues, protocol = QUEUES, "rocketmq"
        with Client(server.port) as client:
            client.create_topics([topic], queues)
    found = native.run(
        server,
        "e2e",
        protocol=protocol,
        port=server.port,
        topic=topic,
        queues=queues,
        rate=rate,
        seconds=seconds,
        warm=warm,
    )
    if found["bad"] or found["lost"] or found["duplicates"]:
        raise WrongResult(f"{name}: {found}")
    return found


def _figures(runs: dict[str, list[Found]], rate: int) -> Iterator[Figure]:
    for figure, word, own_bar in (("p50_us", "p50", P50_BAR_US), ("p99_us", "p99", P99_BAR_US)):
        found = {name: statistics.median(one[figure] for one in several) for name, several in runs.items()}
        best = min(value for name, value in found.items() if name != "litemq")
        for name, value in found.items():
            bar = min(best, own_bar) if name == "litemq" else None
            yield Figure(f"{rate:,}/s {word}: {name}", value, "µs", bar)
    for figure, word in (("p90_us", "p90"), ("p999_us", "p99.9"), ("max_us", "max"), ("broker_us", "broker CPU")):
        for name, several in runs.items():
            yield Figure(f"{rate:,}/s {word}: {name}", statistics.median(one[figure] for one in several), "µs")
