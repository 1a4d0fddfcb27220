"""Run seeds, and print the smallest history that fails: ``python -m tests.crash [--format F] SEED [SEED …]``."""

from __future__ import annotations

import argparse
import logging
import sys

from tests.crash.campaign import explain, failure, in_words, let_threads_die
from tests.crash.workload import Plan, make_plan, with_threads

_ATTEMPTS = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--format", choices=("litemq", "rocketmq"))
    parser.add_argument("--threads", action="store_true", help="with the store's threads, up to 50 times a seed")
    parser.add_argument("--log", action="store_true", help="show what the store logs")
    parser.add_argument("seed", type=int, nargs="+")
    options = parser.parse_args()
    if not options.log:
        logging.disable(logging.CRITICAL)
    plans = [make_plan(seed, fmt=options.format) for seed in options.seed]
    if options.threads:
        let_threads_die()
    texts = [_with_threads(plan) if options.threads else _alone(plan) for plan in plans]
    failed = [text for text in texts if text is not None]
    for text in failed:
        print(text, end="\n\n")  # noqa: T201 - talks to the person who runs it
    print(f"{len(plans)} runs, {len(failed)} failed")  # noqa: T201
    return 1 if failed else 0


def _alone(plan: Plan) -> str | None:
    return explain(plan) if failure(plan) is not None else None


def _with_threads(plan: Plan) -> str | None:
    for _ in range(_ATTEMPTS):
        error = failure(with_threads(plan))
        if error is not None:
            return f"seed {plan.seed} fails\n{in_words(error)}"
    return None


if __name__ == "__main__":
    sys.exit(main())
