"""RocketMQ's Java client 5.4.0: ``java/Suite.java`` and the classes it registers."""

from __future__ import annotations

import pytest
from tests.clients import scenarios
from tests.clients.rocketmq import HERE
from tests.clients.scenarios import Run

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("scenario", scenarios.names(list(HERE.glob("java/*.java"))))
def test_java(java: Run, scenario: str) -> None:
    java.verdict(scenario).check()
