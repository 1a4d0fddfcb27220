"""What every test shares: hypothesis without a clock, since CI machines are busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("litemq", deadline=None, print_blob=True)
settings.load_profile("litemq")
