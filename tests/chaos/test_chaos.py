"""A short run of each kind; ``make chaos`` takes longer ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.run import Chaos, Plan


@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "concurrent"])
def test_nothing_is_lost_when_everything_is_restarted(tmp_path: Path, is_ordered: bool) -> None:
    found = Chaos(Plan(12, seed=5, is_ordered=is_ordered), tmp_path).run()
    assert not found.faults
    assert found.acknowledged > 100
    assert sum(found.events.values()) >= 3
