"""Queues that the broker deals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.support.broker import Talk, running

from litemq.wire.remoting.codes import Ask


async def _queues(talk: Talk, client: str, model: str = "CLUSTERING") -> list[int]:
    ask = {"topic": "T", "consumerGroup": "cg", "clientId": client, "strategyName": "AVG", "messageModel": model}
    answer = await talk.call(Ask.QUERY_ASSIGNMENT, {}, json.dumps(ask).encode())
    assert answer.code == 0, answer
    dealt = json.loads(answer.body)["messageQueueAssignments"]
    assert all(item["mode"] == "PULL" and item["messageQueue"]["brokerName"] == "broker-a" for item in dealt)
    return [item["messageQueue"]["queueId"] for item in dealt]


def test_members_get_shares_and_broadcast_members_everything(tmp_path: Path) -> None:
    async def test() -> None:
        async with running(tmp_path) as (broker, talk):
            await talk.send("T", b"one")
            other = Talk(broker.address)
            await talk.heartbeat("a", consumes={"cg": {"T": "*"}})
            await other.heartbeat("b", consumes={"cg": {"T": "*"}})
            assert await _queues(talk, "a") == [0, 1]
            assert await _queues(other, "b") == [2, 3]
            assert await _queues(talk, "stranger") == []
            assert await _queues(talk, "a", "BROADCASTING") == [0, 1, 2, 3]
            other.close()

    asyncio.run(asyncio.wait_for(test(), 30))
