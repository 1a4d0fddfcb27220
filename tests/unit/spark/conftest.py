"""Spark's parts without Spark; they run as the plain build, too, which says that it is slow."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/unit/spark/" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore:LiteMQ's kernels are not compiled:RuntimeWarning"))
