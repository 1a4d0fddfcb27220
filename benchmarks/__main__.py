"""``python -m benchmarks [name …]``: run benchmarks and print their figures beside their bars.

Two shared cores are noisy: compare figures of one run only, with nothing else running.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import append, big_store, figures, plain_sends
from benchmarks.figures import Figure

Benchmark = Callable[[Path], Iterator[Figure]]


def main() -> int:
    """Run what was asked for; 1 when a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="append, plain-sends, big-store; all without a name")
    parser.add_argument("--messages", type=int, default=10_000_000, help="messages of the big store (10 000 000)")
    parser.add_argument("--dir", type=Path, help="where stores are made (the system's temporary directory)")
    parser.add_argument("--json", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    known: dict[str, Benchmark] = {
        "append": append.run,
        "plain-sends": plain_sends.run,
        "big-store": lambda directory: big_store.run(directory, options.messages),
    }
    unknown = set(options.names) - known.keys()
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(" · ".join(f"{name} {value}" for name, value in figures.machine().items()))
    results: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="litemq-bench-", dir=options.dir) as directory:
        for name in options.names or known:
            results[name] = figures.show(name, known[name](Path(directory)))
    if options.json:
        figures.save(options.json, results)
    missed = [figure for found in results.values() for figure in found if figure.verdict == "MISSED"]
    print(f"\n{len(missed)} bars missed" if missed else "\nall bars held")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
