"""Fixtures: Java and RocketMQ's jars once a session, one driver process, brokers on demand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.clients.rocketmq import Driver, Missing, RealBroker, Sizes, Toolbox

pytest.register_assert_rewrite("tests.clients.picture")

StartBroker = Callable[..., RealBroker]


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    try:
        return Toolbox.find(tmp_path_factory.mktemp("java"))
    except Missing as missing:
        pytest.skip(f"needs a real RocketMQ: {missing}")


@pytest.fixture(scope="session")
def driver(tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = Driver(tools, tmp_path_factory.mktemp("driver"))
    yield made
    made.close()


@pytest.fixture
def real_broker(tools: Toolbox, driver: Driver, tmp_path: Path) -> Iterator[StartBroker]:
    """Return a function that makes a broker for a store; it is not started yet, and never outlives the test."""
    numbers = itertools.count(1)
    made: list[RealBroker] = []

    def make(store: Path, sizes: Sizes, **settings: object) -> RealBroker:
        broker = RealBroker(tools, driver, store, tmp_path / f"broker-{next(numbers)}", sizes, **settings)
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.kill()
