"""What every test shares: hypothesis without a clock, since CI machines are busy, and files inside the checkout.

CI tries the same examples each time, so that a change is judged by what it changes; every other run tries new ones.
``LITEMQ_EXAMPLES`` sets how many each property test tries.
"""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

TEMPORARY = Path(__file__).parent.parent / "build" / "tests"
TEMPORARY.mkdir(parents=True, exist_ok=True)
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(TEMPORARY))

settings.register_profile(
    "litemq",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("LITEMQ_EXAMPLES") or 100),
)
settings.load_profile("litemq")
