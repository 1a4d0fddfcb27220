"""``python -m benchmarks.spark``: reading and writing with Spark; figures go to ``build/bench/spark.json``.

Everything runs in one session of Spark with its defaults, ``local[2]``; all columns go into ``noop``.
Exit 1: a bar was missed.  Exit 2: something that it needs is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import figures
from benchmarks.spark.rows import ROWS, Bench
from litemq.spark import session
from litemq.spark.errors import SparkMissing

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build" / "bench" / "spark.json"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--rows", default="scan,slice,live,write", help=f"comma-separated: {', '.join(ROWS)}")
    parser.add_argument("--pairs", type=int, default=5, help="alternating runs that count (5)")
    parser.add_argument("--messages", type=int, default=2_000_000, help="messages of each store (2 000 000)")
    parser.add_argument("--dir", type=Path, help="where stores are made (the system's temporary directory)")
    return parser


def main() -> int:
    """Run what was asked for; 1 when a bar was missed."""
    parser = _parser()
    options = parser.parse_args()
    chosen = [name for name in options.rows.split(",") if name]
    if unknown := sorted(set(chosen) - ROWS.keys()):
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    print(" · ".join(f"{name} {value}" for name, value in figures.machine().items()))
    try:
        spark = session("bench", spark__master="local[2]", spark__ui__enabled="false", spark__log__level="ERROR")
    except SparkMissing as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="litemq-bench-", dir=options.dir) as directory:
        bench = Bench(spark, Path(directory), options.pairs, options.messages)
        results = {name: figures.show(name, ROWS[name](bench)) for name in chosen}
    spark.stop()
    is_ok = all(figure.verdict != "MISSED" for several in results.values() for figure in several)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": figures.machine(),
        "options": {name: str(value) for name, value in vars(options).items()},
        "results": {
            row: [{**asdict(figure), "verdict": figure.verdict} for figure in several]
            for row, several in results.items()
        },
        "runs": {name: [asdict(cost) for cost in costs] for name, costs in bench.runs.items()},
    }
    KEPT.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    print(f"\n{'all bars held' if is_ok else 'bars were missed'}; kept in {KEPT.relative_to(ROOT)}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
