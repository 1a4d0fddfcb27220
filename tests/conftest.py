"""What every test shares: hypothesis without a clock, since CI machines are busy.

CI tries the same examples each time, so that a change is judged by what it changes; every other run tries new ones.
``LITEMQ_EXAMPLES`` sets how many each property test tries.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile(
    "litemq",
    deadline=None,
    print_blob=True,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("LITEMQ_EXAMPLES") or 100),
)
settings.load_profile("litemq")
