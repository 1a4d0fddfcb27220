"""What a load tool shows: rates every second while it runs, and the result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from litemq.cli import output
from litemq.cli.histogram import PERCENTILES, Histogram

if TYPE_CHECKING:
    from litemq.cli.load import Load


@contextmanager
def live(load: Load, label: str) -> Iterator[Callable[[], None]]:
    """Yield what is called every second: a line that changes on a terminal, a line each elsewhere; on stderr."""
    rates = Rates(load, label)
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: click.echo(rates.line(), err=True)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False, redirect_stdout=False) as shown:
        yield lambda: shown.update(Text(rates.line()), refresh=True)


class Rates:
    """Rates since it was last asked."""

    def __init__(self, load: Load, label: str) -> None:
        self._load = load
        self._label = label
        self._at = self._began = time.monotonic()
        self._count = self._bytes = 0

    def line(self) -> str:
        """Return what happened since the last line; latencies are those since the beginning."""
        now = time.monotonic()
        count, size = self._load.total, self._load.total_bytes
        took = max(now - self._at, 1e-9)
        latencies = self._load.latencies()
        text = (
            f"{self._label} {now - self._began:4.0f} s  {(count - self._count) / took:>10,.0f} messages/s  "
            f"{output.size_text(int((size - self._bytes) / took)):>10}/s  {count:>12,} in all"
        )
        if latencies.count:
            text += f"  p50 {time_text(latencies.percentile(50))}  p99 {time_text(latencies.percentile(99))}"
        self._at, self._count, self._bytes = now, count, size
        return text


def result_json(what: str, load: Load) -> dict[str, object]:
    """Return the object that ``--json`` prints."""
    plan = load.plan
    took = max(load.took, 1e-9)
    return {
        "bench": what,
        "topic": plan.topic,
        "messages": load.total,
        "bytes": load.total_bytes,
        "seconds": round(took, 6),
        "messages_per_s": round(load.total / took, 1),
        "bytes_per_s": round(load.total_bytes / took, 1),
        "size": plan.size,
        "threads": plan.threads,
        "in_flight": plan.in_flight,
        "batch": plan.batch,
        "rate": plan.rate,
        "latency_us": latency_json(load.latencies()),
    }


def latency_json(latencies: Histogram) -> dict[str, float] | None:
    """Return latencies in microseconds; None when there are none."""
    if not latencies.count:
        return None
    found = {"mean": latencies.mean, **{f"p{percent:g}": latencies.percentile(percent) for percent in PERCENTILES}}
    return {name: round(value * 1e6, 1) for name, value in (found | {"max": latencies.max}).items()}


def write_result(what: str, load: Load) -> None:
    """Print the result for a person."""
    took = max(load.took, 1e-9)
    fields: list[tuple[str, object]] = [
        ("messages", f"{load.total:,}"),
        ("bytes", output.size_text(load.total_bytes)),
        ("seconds", f"{took:.2f}"),
        ("rate", f"{load.total / took:,.0f} messages/s, {output.size_text(int(load.total_bytes / took))}/s"),
    ]
    latencies = load.latencies()
    if latencies.count:
        since = "end to end, " if what == "latency" else ""
        fields.append(("latency", f"{since}since it was {'due' if load.plan.rate else 'sent'}"))
        fields += [(f"  p{percent:g}", time_text(latencies.percentile(percent))) for percent in PERCENTILES]
        fields += [("  max", time_text(latencies.max)), ("  mean", time_text(latencies.mean))]
    output.write_fields(fields)


def time_text(seconds: float) -> str:
    """Return a time span for people."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
