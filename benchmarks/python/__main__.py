"""``python -m benchmarks.python``: the SDK beside other client libraries; figures go to ``build/bench/python.json``.

Exit 1: a bar was missed.  Exit 2: something that it needs is not installed, or a run went wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks import figures, native
from benchmarks.peers.process import Broken, Missing, ending_on_signals
from benchmarks.python import beside_peers
from benchmarks.python.rows import PEERS, ROWS

ROOT = Path(__file__).resolve().parent.parent.parent
FORMATS = ("litemq", "rocketmq")


def _parser() -> argparse.ArgumentParser:
    works = [row.work for row in ROWS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="alternating rounds that count (3)")
    parser.add_argument("--seconds", type=float, default=5, help="measured time of a run of sends (5)")
    parser.add_argument("--warm", type=float, default=1, help="load before it is measured (1 s)")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="messages of the backlog (1 000 000)")
    parser.add_argument("--rows", default=",".join(works), help=f"rows, comma-separated: {', '.join(works)}")
    parser.add_argument("--peers", default=",".join(PEERS), help="peers; without one of them nothing is judged")
    parser.add_argument("--format", choices=FORMATS, default="litemq", help="store format of LiteMQ (litemq)")
    parser.add_argument("--dir", type=Path, help="where stores are made (the system's temporary directory)")
    return parser


def _known(given: str, names: list[str], what: str) -> list[str]:
    chosen = [name for name in given.split(",") if name]
    if unknown := sorted(set(chosen) - set(names)):
        raise Broken(f"no such {what}: {', '.join(unknown)}; there are {', '.join(names)}")
    return chosen


def main() -> int:
    """Run what was asked for."""
    options = _parser().parse_args()
    print(" · ".join(f"{name} {value}" for name, value in figures.machine().items()))
    try:
        works = _known(options.rows, [row.work for row in ROWS], "row")
        peers = _known(options.peers, list(PEERS), "peer")
        plan = beside_peers.Plan(options.rounds, options.seconds, options.warm, options.backlog)
        chosen = [row for row in ROWS if row.work in works]
        with ending_on_signals(), tempfile.TemporaryDirectory(prefix="litemq-bench-", dir=options.dir) as directory:
            results, runs = beside_peers.run(Path(directory), chosen, ["litemq", *peers], plan, options.format)
    except (Missing, Broken, native.LoadFailed) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    verdicts = [figure.verdict for several in results.values() for figure in several]
    kept = native.BUILD / "python.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": figures.machine(),
        "options": {name: str(value) for name, value in vars(options).items()},
        "results": {
            work: [{**asdict(figure), "verdict": figure.verdict} for figure in several]
            for work, several in results.items()
        },
        "runs": runs,
    }
    kept.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    missing = [name for name in PEERS if name not in peers]
    is_ok = "MISSED" not in verdicts
    said = (
        f"nothing was judged without {', '.join(missing)}"
        if missing
        else "all bars held"
        if is_ok
        else "bars were missed"
    )
    print(f"\n{said}; kept in {kept.relative_to(ROOT)}")
    return 0 if is_ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
