"""One server for all tests of this folder that only need one; topics are their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.support.up import Up, running

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Return a running server."""
    with running(tmp_path_factory.mktemp("up")) as server:
        yield server


@pytest.fixture
def topic(up: Up) -> str:
    """Return the name of a topic with 4 queues that nobody else uses."""
    name = f"topic-{next(_numbers)}"
    up.create(name)
    return name


@pytest.fixture
def group() -> str:
    """Return the name of a group that nobody else uses."""
    return f"group-{next(_numbers)}"
