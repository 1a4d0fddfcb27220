"""Run a broker under mixed load while consumers join, leave and are killed; say what was lost, moved or leaked.

``LITEMQ_SOAK_S`` (1800) is how long, ``LITEMQ_SOAK_RATE`` (600) how many messages a second, ``LITEMQ_SOAK_SEED`` (1)
chooses what happens to the consumers, ``LITEMQ_SOAK_RESTARTS`` (0) is how often the broker is stopped and started.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.soak.run import Plan, Soak


def _number(name: str, default: int) -> int:
    return int(os.environ.get(f"LITEMQ_SOAK_{name}") or default)


def main() -> int:
    """Run as the environment says; return the exit status."""
    plan = Plan(
        seconds=_number("S", 1800),
        rate=_number("RATE", 600),
        seed=_number("SEED", 1),
        restarts=_number("RESTARTS", 0),
    )
    place = Path(__file__).parent.parent.parent / "build" / "soak"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        soak = Soak(plan, Path(folder), say=lambda text: (sys.stdout.write(f"{text}\n"), sys.stdout.flush()))
        return asyncio.run(soak.run())


if __name__ == "__main__":
    sys.exit(main())
