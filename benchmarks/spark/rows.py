"""What is measured, and the bars."""

from __future__ import annotations

import json
import statistics
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.spark.cost import Cost, Work, cpu, in_turns, measure, rate
from benchmarks.spark.stores import Built, build, converted

SCANS = {256: 0.5, 32: 0.3}
"""By body size: the least part of Parquet's rows a second."""
SLICE_PART = 5.0
LIVE_RATIO = 1.3
WRITE_US = 12.0
FORMATS = ("litemq", "rocketmq", "blueprint", "tmq")


@dataclass
class Bench:
    """Where and how much is measured; keeps every single run."""

    spark: Any
    folder: Path
    pairs: int
    messages: int
    runs: dict[str, list[Cost]] = field(default_factory=dict)

    def read(self, path: Path, **options: str) -> Work:
        """Return the work of loading a store and passing all columns on to nobody."""
        return lambda: into_noop(self.spark.read.format("litemq").options(**options).load(str(path)))

    def store(self, body_size: int) -> Built:
        """Return a store with bodies of this size, made when it is first asked for."""
        path = self.folder / f"store-{body_size}"
        if path not in self._built:
            self._built[path] = build(path, self.messages, body_size)
        return self._built[path]

    _built: dict[Path, Built] = field(default_factory=dict)


def into_noop(frame: Any) -> None:  # noqa: ANN401 - Spark's frame
    """Have every row of every column reach the JVM, and go nowhere."""
    frame.write.format("noop").mode("overwrite").save()


def scan(bench: Bench) -> Iterator[Figure]:
    """Yield what a full scan costs beside the same rows in snappy Parquet."""
    for size, bar in SCANS.items():
        store = bench.store(size)
        parquet = str(bench.folder / f"parquet-{size}")
        bench.spark.read.format("litemq").load(str(store.path)).write.parquet(parquet)
        ours, theirs = in_turns(
            bench.read(store.path), lambda to=parquet: into_noop(bench.spark.read.parquet(to)), store.rows, bench.pairs
        )
        bench.runs |= {f"scan-{size}": ours, f"parquet-{size}": theirs}
        yield from _beside(f"scan, {size}-byte bodies", ours, f"  Parquet, {size}-byte bodies", theirs)
        ratios = [one.rate / two.rate for one, two in zip(ours, theirs, strict=True)]
        yield Figure("  rows/s of Parquet's", statistics.median(ratios), "×", bar, at_least=True)


def slice_(bench: Bench) -> Iterator[Figure]:
    """Yield how much of a store is read for one topic in a tenth of the time, about 1 % of the messages."""
    store = bench.store(256)
    counters = bench.folder / f"counters-{uuid.uuid4().hex}"
    options = {
        "subscribe": "bench-3",
        "startingTimestamp": str(store.slice_from_ms),
        "endingTimestamp": str(store.slice_to_ms),
    }
    frame = bench.spark.read.format("litemq").options(**options, countersPath=str(counters)).load(str(store.path))
    rows = frame.count()
    told = [json.loads(file.read_text()) for file in counters.iterdir()]
    requested = sum(one["record_bytes"] + one["index_bytes"] for one in told)
    part = 100 * requested / store.bytes
    yield Figure("slice: messages", 100 * rows / store.rows, "%")
    yield Figure("  record and index bytes that are requested", part, "%", SLICE_PART)
    costs = [measure(bench.read(store.path, **options), rows) for _ in range(bench.pairs + 1)][1:]
    bench.runs["slice"] = costs
    yield Figure("  time", statistics.median(rows / cost.rate for cost in costs), "s")


def formats(bench: Bench) -> Iterator[Figure]:
    """Yield what a full scan of each record format costs."""
    store = bench.store(256)
    for name in FORMATS:
        path = converted(store.path, bench.folder / name, name) if name != "litemq" else store.path
        costs = [measure(bench.read(path), store.rows) for _ in range(bench.pairs + 1)][1:]
        bench.runs[f"format-{name}"] = costs
        yield Figure(f"scan of {name}, 256-byte bodies", rate(costs), "rows/s")
        yield Figure("  CPU", cpu(costs), "µs/row")


def _beside(one: str, ones: list[Cost], two: str, twos: list[Cost]) -> Iterator[Figure]:
    for name, costs in ((one, ones), (two, twos)):
        yield Figure(name, rate(costs), "rows/s")
        yield Figure("  CPU", cpu(costs), "µs/row")


def live(bench: Bench) -> Iterator[Figure]:
    """Yield what a read from a running broker costs beside one of its files."""
    from benchmarks.spark.brokers import filled_broker

    with filled_broker(bench) as one:
        ours, theirs = in_turns(one.read_live, one.read_files, bench.messages, bench.pairs, one.pid)
    bench.runs |= {"live": ours, "live-files": theirs}
    yield from _beside("live read", ours, "  read of the broker's files", theirs)
    ratios = [one.cpu_us / two.cpu_us for one, two in zip(ours, theirs, strict=True)]
    yield Figure("  CPU of a file read's", statistics.median(ratios), "×", LIVE_RATIO)


def write(bench: Bench) -> Iterator[Figure]:
    """Yield what a write to a running broker costs, until its rows are in their topic."""
    from benchmarks.spark.brokers import filled_broker

    with filled_broker(bench) as one:
        costs = [measure(one.write, bench.messages, one.pid) for _ in range(bench.pairs + 1)][1:]
    bench.runs["write"] = costs
    yield Figure("write", rate(costs), "rows/s")
    yield Figure("  CPU", cpu(costs), "µs/row", WRITE_US)


ROWS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "scan": scan,
    "slice": slice_,
    "live": live,
    "write": write,
    "formats": formats,
}
