"""``python -m benchmarks.broker NAME …``: run a benchmark of the broker; its figures go to ``build/bench`` as JSON.

Exit 1: a bar was missed.  Exit 2: something that it needs is not installed, or a run went wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import figures, native
from benchmarks.broker import backlog, batch_transactions, beside_rocketmq, latency, memory, pauses, transactions
from benchmarks.broker.rows import ROWS, Plan
from benchmarks.broker.sites import WrongResult
from benchmarks.peers.process import Broken, Missing, ending_on_signals
from benchmarks.wire import Refused

ROOT = Path(__file__).resolve().parent.parent.parent
FORMATS = ("rocketmq", "litemq")
_OF_TRANSACTIONS = (*transactions.ROWS, "batch", transactions.BESIDE)
Work = Callable[[argparse.Namespace, Path], tuple[Any, bool]]


def _rocketmq(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    known = {row.name: row for row in ROWS}
    names = options.rows.split(",") if options.rows else [row.name for row in ROWS if row.is_default]
    unknown = set(names) - known.keys()
    if unknown:
        raise Broken(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    formats = [options.format] if options.format else FORMATS
    plan = Plan(options.pairs, options.seconds, options.warm)
    found = beside_rocketmq.run([known[name] for name in names], formats, plan, directory, twins=options.twins)
    return found, all(result["is_ok"] for result in found)


def _figures(title: str, found: list[figures.Figure]) -> tuple[Any, bool]:
    kept = {title: [{**asdict(figure), "verdict": figure.verdict} for figure in found]}
    return kept, all(figure.verdict != "MISSED" for figure in found)


def _latency(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    rates = [int(rate) for rate in options.rates.split(",")]
    shown = latency.run(directory, rates, options.pairs, options.seconds, options.warm, options.format or "litemq")
    return _figures("latency", figures.show("end to end, open loop", shown))


def _backlog(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    count = options.messages if options.messages is not None else 10_000_000
    shown = backlog.run(directory, count, options.pairs, options.seconds, options.format or "litemq")
    return _figures("backlog", figures.show(f"a backlog of {count:,} messages", shown))


def _memory(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    shown = memory.run(directory, options.topics, options.connections, options.format or "litemq")
    return _figures("memory", figures.show("memory, file descriptors, start", shown))


def _pauses(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    shown = pauses.run(directory, options.seconds, options.warm, options.format or "litemq")
    return _figures("pauses", figures.show("pauses of the broker's loop", shown))


def _transactions(options: argparse.Namespace, directory: Path) -> tuple[Any, bool]:
    """Print beside RocketMQ in both formats, the rest in one."""
    count = options.messages if options.messages is not None else 1_000_000
    rows = options.rows.split(",") if options.rows else [*_OF_TRANSACTIONS]
    unknown = set(rows) - {*_OF_TRANSACTIONS}
    if unknown:
        raise Broken(f"no such row: {', '.join(sorted(unknown))}")
    shown = transactions.run(directory, rows, count, options.pairs, options.format or "litemq")
    found, is_ok = _figures("transactions", figures.show("transactions and receipts", shown))
    if "batch" in rows:
        store_format = options.format or "litemq"
        batches = batch_transactions.run(directory, options.rows_of_batch, options.pairs, store_format)
        more, held = _figures("batch transactions", figures.show("batch transactions", batches))
        found, is_ok = found | more, is_ok and held
    beside = [row for row in ROWS if row.name == "transaction" and transactions.BESIDE in rows]
    formats = [options.format] if options.format else FORMATS
    plan = Plan(options.pairs, options.seconds, options.warm)
    ratios = beside_rocketmq.run(beside, formats, plan, directory, twins=options.twins)
    return found | {"beside": ratios}, is_ok and all(result["is_ok"] for result in ratios)


WORKS: dict[str, Work] = {
    "rocketmq": _rocketmq,
    "latency": _latency,
    "backlog": _backlog,
    "memory": _memory,
    "pauses": _pauses,
    "transactions": _transactions,
}


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("name", choices=WORKS)
    parser.add_argument("--pairs", type=int, help="alternating rounds (3; latency: 11)")
    parser.add_argument("--seconds", type=float, help="measured time of a run (10; latency: 2.5)")
    parser.add_argument("--warm", type=float, help="load before it is measured (3 s; latency: 0.7)")
    parser.add_argument("--format", choices=FORMATS, help="store format of LiteMQ (rocketmq: both, else litemq)")
    named = ", ".join(row.name for row in ROWS)
    parser.add_argument(
        "--rows", help=f"comma-separated; of rocketmq: {named}; of transactions: {', '.join(_OF_TRANSACTIONS)}"
    )
    parser.add_argument("--rates", default="5000,10000", help="rates of latency, messages a second (5000,10000)")
    parser.add_argument("--messages", type=int, help="of backlog (10 000 000); of transactions (1 000 000)")
    parser.add_argument("--rows-of-batch", type=int, default=100_000, help="rows of a batch transaction (100 000)")
    parser.add_argument("--topics", type=int, default=10_000, help="topics of memory (10 000)")
    parser.add_argument("--connections", type=int, default=1_000, help="idle connections of memory (1 000)")
    parser.add_argument("--twins", action="store_true", help="rocketmq: RocketMQ takes LiteMQ's part too")
    parser.add_argument("--dir", type=Path, help="where stores are made (the system's temporary directory)")
    options = parser.parse_args()
    # A shared host stops a virtual CPU for milliseconds now and then: of many short rounds most see none of it.
    usuals = (11, 2.5, 0.7) if options.name == "latency" else (3, 10.0, 3.0)
    for name, usual in zip(("pairs", "seconds", "warm"), usuals, strict=True):
        if getattr(options, name) is None:
            setattr(options, name, usual)
    print(" · ".join(f"{name} {value}" for name, value in figures.machine().items()))
    try:
        with ending_on_signals(), tempfile.TemporaryDirectory(prefix="litemq-bench-", dir=options.dir) as directory:
            found, is_ok = WORKS[options.name](options, Path(directory))
    except (Missing, Broken, native.LoadFailed, Refused, WrongResult) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    kept = native.BUILD / f"{options.name}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    asked = {name: str(value) for name, value in vars(options).items()}
    content = {"machine": figures.machine(), "options": asked, "results": found}
    kept.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    print(f"\n{'all bars held' if is_ok else 'bars were missed'}; kept in {kept.relative_to(ROOT)}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
