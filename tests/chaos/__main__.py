"""Run consumer groups through restarts, kills and Ctrl-C; say what was lost or out of order.

``LITEMQ_CHAOS_S`` (60) is how long a run takes, ``LITEMQ_CHAOS_SEEDS`` (1,2,3,4) are the runs: odd ones are ordered.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Chaos, Plan


def main() -> int:
    """Run as the environment says; return the exit status."""
    seconds = float(os.environ.get("LITEMQ_CHAOS_S") or 60)
    seeds = [int(text) for text in (os.environ.get("LITEMQ_CHAOS_SEEDS") or "1,2,3,4").split(",")]
    failed = False

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = Chaos(Plan(seconds, seed, is_ordered=seed % 2 == 1), Path(folder), say).run()
        say(
            f"seed {seed}: {found.acknowledged} acknowledged, {found.handled} handled, {found.again} more than once; "
            + (", ".join(f"{count} × {name}" for name, count in sorted(found.events.items())) or "nothing happened")
        )
        for fault in found.faults:
            say(f"  FAULT {fault}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
