"""The pytest plugin: fixtures that give a real broker.

    def test_orders_are_sent(litemq_cluster, litemq_topic):
        with litemq.Producer(litemq_cluster.nameservers) as producer:
            assert producer.send(litemq_topic, b"17 apples").topic == litemq_topic

pytest loads it by itself where LiteMQ is installed.  Nothing starts before a test asks for it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from litemq.testing.server import Broker


@pytest.fixture
def litemq_broker() -> Iterator[Broker]:
    """A broker for this test alone: it may be stopped, killed and restarted."""
    from litemq.testing.server import broker

    with broker() as running:
        yield running


@pytest.fixture(scope="session")
def litemq_cluster() -> Iterator[Broker]:
    """A broker for all tests of the run; they stay apart by their topics, see ``litemq_topic``."""
    from litemq.testing.server import broker

    with broker() as running:
        yield running


@pytest.fixture
def litemq_topic(request: pytest.FixtureRequest, litemq_cluster: Broker) -> str:
    """A topic of ``litemq_cluster`` that no other test uses; it has four queues."""
    from litemq.client.admin import Admin

    test = re.sub(r"[^A-Za-z0-9_-]+", "-", request.node.name)[:60].strip("-")
    topic = f"{test}-{uuid.uuid4().hex[:12]}"
    with Admin(litemq_cluster.nameservers) as admin:
        admin.create_topic(topic, queues=4)
    return topic
