"""RocketMQ's Go client v2: ``go/main.go`` and the files it registers from."""

from __future__ import annotations

import pytest
from tests.clients import scenarios
from tests.clients.rocketmq import HERE
from tests.clients.scenarios import Run

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("scenario", scenarios.names(list(HERE.glob("go/*.go"))))
def test_go(go: Run, scenario: str) -> None:
    go.verdict(scenario).check()
