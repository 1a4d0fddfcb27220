"""A long run under an even load: what paused the broker's loop, by its own account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker.latency import end_to_end
from benchmarks.figures import Figure
from benchmarks.peers import litemq
from benchmarks.wire import Client

RATE = 10_000
OWN_BAR_MS = 100.0


def run(directory: Path, seconds: float, warm: float, store_format: str) -> Iterator[Figure]:
    """Yield every cause of a pause over the broker's limit; its own must be short."""
    server = litemq.start(directory, store_format=store_format)
    with server:
        found = end_to_end(server, "litemq", "pauses", RATE, seconds, warm)
        with Client(server.port) as client:
            told = client.statistics()["pauses"]
    for figure in ("p50_us", "p99_us", "p999_us", "max_us"):
        yield Figure(f"{RATE:,}/s for {seconds:,.0f} s: {figure.removesuffix('_us')}", found[figure], "µs")
    for cause, pauses in told["causes"].items():
        yield Figure(f"pauses over {told['limit_ms']:.0f} ms, {cause}: how many", pauses["count"], "")
        yield Figure(f"pauses over {told['limit_ms']:.0f} ms, {cause}: the longest", pauses["longest_ms"], "ms")
    yield Figure("the longest pause of its own", told["longest_own_ms"], "ms", OWN_BAR_MS)
