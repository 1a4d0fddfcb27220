"""LiteMQ beside a real RocketMQ: the same official client and the same native one, in alternating runs.

All brokers of a flush policy run at once and are loaded one after the other; the order turns by one each round.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.broker.rows import Bar, Plan, Row
from benchmarks.broker.sites import Site, WrongResult, settle
from benchmarks.native import Found, LoadFailed
from benchmarks.peers import litemq, rocketmq
from benchmarks.peers.process import Server

Runs = dict[str, list[Found]]
"""What was found, by broker."""
Start = Callable[[Path], Server]

_FLUSH_WORDS = {"async": "asynchronous flush", "group": "fsync before the answer"}


def run(rows: Sequence[Row], formats: Sequence[str], plan: Plan, directory: Path, *, twins: bool = False) -> list[Any]:
    """Run rows and print each as it is done; ``twins``: RocketMQ takes LiteMQ's part too, to try the benchmark."""
    results: list[Any] = []
    for flush in ("async", "group"):
        chosen = [row for row in rows if row.flush == flush]
        if not chosen:
            continue
        counts = flush == "group"
        starts: dict[str, Start] = {"rocketmq": functools.partial(rocketmq.start, flush=flush, counts_syncs=counts)}
        for name in formats:
            ours = functools.partial(litemq.start, store_format=name, flush=flush, counts_syncs=counts)
            starts[f"litemq-{name}"] = starts["rocketmq"] if twins else ours
        print(f"\n{_FLUSH_WORDS[flush]}: starting and warming {', '.join(starts)}", flush=True)
        with contextlib.ExitStack() as stack:
            sites = {
                name: stack.enter_context(Site(start, directory / f"{flush}-{name}")) for name, start in starts.items()
            }
            _warm(sites, plan)
            print(_HEAD, flush=True)
            results.extend(_rows(chosen, sites, plan))
    return results


def _warm(sites: dict[str, Site], plan: Plan) -> None:
    for site in sites.values():
        site.warm(max(3.0, plan.seconds))
        print(f"  {site.name}: ready in {site.server.ready_s:.2f} s", flush=True)


def _rows(rows: Sequence[Row], sites: dict[str, Site], plan: Plan) -> list[Any]:
    results = []
    for row in rows:
        runs: Runs = {name: [] for name in sites}
        failures: dict[str, str] = {}
        for turn in range(plan.pairs):
            names = list(sites)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                settle()
                try:
                    runs[name].append(row.run(sites[name], plan))
                except (LoadFailed, WrongResult, OSError) as error:
                    failures[name] = f"{type(error).__name__}: {error}"
                    sites[name].keep_log()
        results += [
            judge(row, name.removeprefix("litemq-"), runs["rocketmq"], runs[name], failures.get(name))
            for name in sites
            if name != "rocketmq"
        ]
        if "rocketmq" in failures:
            print(f"  {row.title}: RocketMQ failed: {failures['rocketmq']}", flush=True)
    return results


# -- judging and printing -----------------------------------------------------------------------------

_HEAD = (
    f"\n  {'work':<28} {'store':<9} {'RocketMQ/s':>11} {'LiteMQ/s':>11} {'ratio':>6}   {'µs':>6} → {'µs':<6} "
    f"{'ratio':>6}   {'p50 µs':>14}  bars"
)


def judge(row: Row, store_format: str, theirs: list[Found], ours: list[Found], failure: str | None) -> dict[str, Any]:
    """Compare medians with the row's bars, print the line, and return what is kept."""
    result: dict[str, Any] = {
        "row": row.name,
        "format": store_format,
        "bars": [asdict(bar) for bar in row.bars_of(store_format)],
        "rocketmq": theirs,
        "litemq": ours,
    }
    if failure is not None or not ours or not theirs:
        result |= {"is_ok": False, "failure": failure or "no runs to compare"}
        print(f"  {row.title:<28} {store_format:<9} FAILED: {result['failure']}", flush=True)
        return result
    verdicts = []
    for bar in row.bars_of(store_format):
        value = _value(bar, theirs, ours)
        verdicts.append((bar, value, bar.holds(value)))
    result["is_ok"] = all(held for _, _, held in verdicts)
    result["values"] = [value for _, value, _ in verdicts]
    print(f"  {row.title:<28} {store_format:<9} {_figures(theirs, ours)}  {_verdict(verdicts)}", flush=True)
    return result


def median(runs: list[Found], figure: str) -> float:
    """Return the median of a figure over runs."""
    return statistics.median(float(found.get(figure, 0.0)) for found in runs)


def _ratio(theirs: list[Found], ours: list[Found], figure: str) -> float:
    return median(ours, figure) / (median(theirs, figure) or float("inf"))


def _value(bar: Bar, theirs: list[Found], ours: list[Found]) -> float:
    return _ratio(theirs, ours, bar.figure) if bar.is_ratio else median(ours, bar.figure)


def _figures(theirs: list[Found], ours: list[Found]) -> str:
    latency = f"{median(theirs, 'p50_us'):>6.0f} → {median(ours, 'p50_us'):<5.0f}" if "p50_us" in ours[0] else " " * 14
    syncs = median(ours, "syncs")
    per_sync = f" ({syncs:.0f} syncs, {median(ours, 'measured') / syncs:.0f} messages each)" if syncs else ""
    return (
        f"{median(theirs, 'rate'):>11,.0f} {median(ours, 'rate'):>11,.0f} {_ratio(theirs, ours, 'rate'):>5.2f}×"
        f"   {median(theirs, 'broker_us'):>6.1f} → {median(ours, 'broker_us'):<6.2f}"
        f" {_ratio(theirs, ours, 'broker_us'):>5.2f}×   {latency}{per_sync}"
    )


_UNITS = {"rate": "/s", "broker_us": " broker µs", "p50_us": " µs p50"}
_RATIO_WORDS = {"rate": "rate", "broker_us": "CPU", "p50_us": "p50"}


def _verdict(verdicts: list[tuple[Bar, float, bool]]) -> str:
    words = []
    for bar, _, held in verdicts:
        sign = "≥" if bar.at_least else "≤"
        limit = (
            f"{_RATIO_WORDS[bar.figure]} {sign} {bar.limit:g}×"
            if bar.is_ratio
            else f"{sign} {bar.limit:,g}{_UNITS[bar.figure]}"
        )
        words.append(f"{limit} {'ok' if held else 'MISSED'}")
    return ", ".join(words)
