"""The rows of ``make bench-rocketmq``: what runs against each broker, and the bars that LiteMQ is held to.

A ratio is LiteMQ's median by RocketMQ's.  Every run checks its answers and, for sends, that the ends of the queues grew
by what was acknowledged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.broker.sites import Site, WrongResult
from benchmarks.native import Found

_GROUPS = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    pairs: int
    seconds: float
    warm: float

    @property
    def backlog(self) -> int:
        """Messages that the consumers of a backlog read."""
        return int(self.seconds * 150_000)


@dataclass(frozen=True, slots=True)
class Bar:
    """A limit for one figure: ``×`` of RocketMQ's, or for LiteMQ's own."""

    figure: Literal["rate", "broker_us", "p50_us"]
    limit: float
    is_ratio: bool = True

    @property
    def at_least(self) -> bool:
        """Return whether more is better."""
        return self.figure == "rate"

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work."""

    name: str
    title: str
    run: Callable[[Site, Plan], Found]
    bars: dict[str, tuple[Bar, ...]]
    """By store format; ``""`` is for any."""
    flush: str = "async"
    is_default: bool = True

    def bars_of(self, store_format: str) -> tuple[Bar, ...]:
        """Return the bars for a store format."""
        return self.bars.get(store_format, self.bars.get("", ()))


def _bars(rate: float, cpu: float | None = None) -> dict[str, tuple[Bar, ...]]:
    return {"": (Bar("rate", rate), *((Bar("broker_us", cpu),) if cpu is not None else ()))}


def _java(command: str, header: str = "json", **options: object) -> Callable[[Site, Plan], Found]:
    def run(site: Site, plan: Plan) -> Found:
        topic = "bench-" + "-".join([command, header, *map(str, options.values())])
        return site.java_send(topic, command, header, warm=plan.warm, seconds=plan.seconds, **options)

    return run


def _native(**options: object) -> Callable[[Site, Plan], Found]:
    def run(site: Site, plan: Plan) -> Found:
        topic = "bench-native-" + "-".join(map(str, options.values()))
        return site.native_send(topic, warm=plan.warm, seconds=plan.seconds, **options)

    return run


def _backlog(site: Site, plan: Plan) -> Found:
    """Let a new group read everything; what it reads is sent at the first call."""
    topic = site.topic("bench-backlog")
    while (missing := plan.backlog - sum(site.ends(topic))) > 0:  # again for what RocketMQ refused
        site.native_send(topic, connections=4, window=64, count=missing)
    group = f"benchmark_backlog_{next(_GROUPS)}"
    found = site.java().run("consume", topic=topic, group=group, count=plan.backlog, limit=120 + plan.seconds * 10)
    if found["refused"]:
        raise WrongResult(f"{site.name}: {found}")
    return found


def _end_to_end(site: Site, plan: Plan) -> Found:
    topic = site.topic("bench-latency", 8)
    options = {"rate": 2000, "body": 128, "warm": plan.warm, "seconds": plan.seconds}
    found = site.java().run("latency", topic=topic, group="benchmark_latency", **options)
    if found["refused"] or found["lost"]:
        raise WrongResult(f"{site.name}: {found}")
    return found


ROWS = (
    Row("java-64", "Java, 64 threads × 128 B", _java("send", threads=64, body=128), _bars(1.5, 0.3)),
    Row("java-64-bin", "… with the binary header", _java("send", "binary", threads=64, body=128), _bars(1.5, 0.3)),
    Row("java-1", "Java, 1 thread", _java("send", threads=1, body=128), _bars(2.0)),
    Row("java-1k", "Java, 64 threads × 1 KiB", _java("send", threads=64, body=1024), _bars(1.4, 0.35)),
    Row("java-batch", "Java, 64 threads, batch 16", _java("batch", threads=64, body=128, batch=16), _bars(1.5, 0.4)),
    Row("java-async", "Java, 256 in flight", _java("async", window=256, body=128), {}, is_default=False),
    Row(
        "native-4x64",
        "native, 4 × 64",
        _native(connections=4, window=64),
        {"": (Bar("rate", 5.0), Bar("rate", 250_000, is_ratio=False), Bar("broker_us", 3.5, is_ratio=False))},
    ),
    Row(
        "native-1x1",
        "native, 1 × 1",
        _native(connections=1, window=1),
        {"": (Bar("rate", 4.0), Bar("p50_us", 30.0, is_ratio=False))},
    ),
    Row("native-json", "native, 4 × 64, JSON", _native(connections=4, window=64, header="json"), {}, is_default=False),
    Row("native-1k", "native, 4 × 64, 1 KiB", _native(connections=4, window=64, body=1024), {}, is_default=False),
    Row(
        "backlog",
        "Java consumer, backlog",
        _backlog,
        {
            "rocketmq": (Bar("rate", 1.2), Bar("broker_us", 0.5)),
            "litemq": (Bar("rate", 1.1), Bar("broker_us", 0.7)),
        },
    ),
    Row(
        "transaction",
        "Java, 32 threads × 2 KiB, transactions",
        _java("transact", threads=32, body=2048),
        _bars(1.5, 0.5),
        is_default=False,
    ),
    Row("e2e", "Java, end to end, 2 k/s", _end_to_end, {"": (Bar("p50_us", 1.0),)}),
    Row("fsync-java", "Java, 64 threads, fsync", _java("send", threads=64, body=128), _bars(1.5), flush="group"),
    Row(
        "fsync-native",
        "native, 4 × 256, fsync",
        _native(connections=4, window=256),
        {"": (Bar("rate", 50_000, is_ratio=False),)},
        flush="group",
    ),
)
