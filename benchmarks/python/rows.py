"""The rows of ``make bench-python``: four kinds of work, and the bars that the SDK is held to.

A bar is a multiple of the best peer's median rate in the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.figures import Figure
from benchmarks.native import Found

PEERS = ("redis", "kafka", "nats", "rabbitmq")
"""Those that the bars need; a variant (``kafka_tuned``) is printed, and no bar asks for it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work."""

    work: str
    title: str
    factor: float
    """How often the best peer's rate LiteMQ's must be."""


ROWS = (
    Row("sync", "one at a time, each acknowledged", 1.2),
    Row("pipelined", "64 in flight", 1.0),
    Row("batch", "batches", 1.0),
    Row("consume", "consuming a backlog, every body touched", 1.0),
)


def bar(row: Row, rates: Mapping[str, float]) -> float | None:
    """Return what LiteMQ's rate must be; none while a peer is missing."""
    if any(name not in rates for name in PEERS):
        return None
    return row.factor * max(rates[name] for name in PEERS)


def figures(row: Row, runs: Mapping[str, list[Found]]) -> Iterator[Figure]:
    """Yield the medians of all libraries."""
    rates = {name: _median(several, "rate") for name, several in runs.items()}
    for name, rate in rates.items():
        limit = bar(row, rates) if name == "litemq" else None
        yield Figure(f"{row.work}: {name}", rate, "/s", limit, at_least=True)
    for kind, words in (("client_us", "client CPU"), ("broker_us", "server CPU")):
        for name, several in runs.items():
            yield Figure(f"{row.work}: {words} per message: {name}", _median(several, kind), "µs")


def _median(several: list[Found], figure: str) -> float:
    return statistics.median(float(found[figure]) for found in several)
