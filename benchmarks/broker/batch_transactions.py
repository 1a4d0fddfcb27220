"""A batch transaction from its first staged row to the last visible one, and what live sends wait meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import litemq
from benchmarks.figures import Figure
from benchmarks.peers.process import Broken
from litemq.testing import Broker, broker

BODY = b"x" * 128
QUEUES = 8
TOPIC, LIVE = "batch", "live"
PRODUCER = "benchmark"
LOOK_S = 0.002
LEAST_RATE = 150_000
PARTITIONS = 4
STORE = {"segment_bytes": 1 << 30, "queue_entries": 300_000, "index_slots": 5_000_000, "index_entries": 20_000_000}


def run(directory: Path, messages: int, rounds: int, store_format: str) -> Iterator[Figure]:
    """Write ``messages`` rows in each round, first alone, then beside a client that sends one message at a time."""
    store = {**STORE, "format": store_format}
    with broker(data=directory / "batches", store=store, broker={"busy_poll_us": 0}) as server:
        with litemq.Admin(server.nameservers) as admin:
            for topic in (TOPIC, LIVE):
                admin.create_topic(topic, queues=QUEUES)
        rows = [litemq.Message(TOPIC, BODY) for _ in range(messages)]
        with litemq.BatchTransactions(server.nameservers) as batches:
            _once(batches, 0, rows)  # warm
            alone = [_once(batches, epoch, rows) for epoch in range(1, rounds + 1)]
            yield Figure(f"{messages:,} rows: stage", statistics.median(one[0] for one in alone), "s")
            yield Figure(f"{messages:,} rows: commit", statistics.median(one[1] for one in alone), "s")
            rate = statistics.median(messages / one[2] for one in alone)
            yield Figure(f"{messages:,} rows: stage to visible", rate / 1e3, "k msg/s", LEAST_RATE / 1e3, at_least=True)
            quiet = _latencies(server, lambda: time.sleep(1.0))
            busy = _latencies(server, lambda: [_once(batches, rounds + 1 + n, rows) for n in range(rounds)])
            yield Figure("a live send: p50", quiet[len(quiet) // 2] * 1e3, "ms")
            yield Figure("a live send meanwhile: p50", busy[len(busy) // 2] * 1e3, "ms")
            yield Figure("a live send meanwhile: p99", busy[len(busy) * 99 // 100] * 1e3, "ms")
        _check(server, (2 * rounds + 1) * messages)


def _once(batches: litemq.BatchTransactions, epoch: int, rows: list[litemq.Message]) -> tuple[float, float, float]:
    """Write the rows; return the seconds of staging, of the commit, and until all are visible."""
    began = time.perf_counter()
    share = -(-len(rows) // PARTITIONS)
    staged = [
        batches.stage(PRODUCER, epoch, number, 0, rows[number * share : (number + 1) * share])
        for number in range(PARTITIONS)
    ]
    between = time.perf_counter()
    if batches.commit(PRODUCER, epoch, staged) != len(rows):
        raise Broken("not all rows were committed")
    committed = time.perf_counter()
    while batches.status(PRODUCER, epoch).unpublished:
        time.sleep(LOOK_S)
    return between - began, committed - between, time.perf_counter() - began


def _latencies(server: Broker, work: object) -> list[float]:
    """Return how long sends took, one after the other, while ``work`` ran; sorted."""
    assert callable(work)
    found: list[float] = []
    is_over = Event()

    def send() -> None:
        with litemq.Producer(server.nameservers) as producer:
            while not is_over.is_set():
                began = time.perf_counter()
                producer.send(LIVE, BODY)
                found.append(time.perf_counter() - began)

    thread = Thread(target=send)
    thread.start()
    try:
        work()
    finally:
        is_over.set()
        thread.join()
    return sorted(found)


def _check(server: Broker, wanted: int) -> None:
    """Make sure that every row is there, and none twice."""
    with litemq.Admin(server.nameservers) as admin:
        there = sum(queue.end for queue in admin.topic(TOPIC).queue_infos)
    if there != wanted:
        raise Broken(f"{there} rows are in the topic, {wanted} were committed")
