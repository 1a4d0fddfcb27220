"""A real broker on free ports, and a client that speaks to it over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from litemq.broker.broker import Broker
from litemq.clock import Clock
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig, TransactionConfig
from litemq.format import properties, rocketmq, rows
from litemq.format._scan_cy import scan
from litemq.format.record import FORMATS, decode_row
from litemq.store.fs import FileSystem
from litemq.types import Record
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Response


@asynccontextmanager
async def running(
    data: Path,
    *,
    store: StoreConfig | None = None,
    limits: LimitsConfig | None = None,
    config: BrokerConfig | None = None,
    transaction: TransactionConfig | None = None,
    clock: Clock | None = None,
    fs: FileSystem | None = None,
) -> AsyncIterator[tuple[Broker, Talk]]:
    """Yield a broker that serves, and somebody to talk to it; both are closed at the end."""
    broker = Broker(
        config or BrokerConfig(port=0, name_servers=()),
        store or StoreConfig(),
        limits or LimitsConfig(),
        data,
        transaction=transaction,
        clock=clock,
        fs=fs,
    )
    await broker.start()
    talk = Talk(broker.address)
    try:
        yield broker, talk
    finally:
        talk.close()
        await broker.close()


class Talk(Client):
    """A client with words for the usual requests."""

    async def send(self, topic: str, body: bytes, *, queue: int = 0, timeout_s: float = 5.0, **found: str) -> Response:
        """Send one message; ``found`` are its properties."""
        found = {"UNIQ_KEY": f"K{body[:20].hex()}", **found}
        return await self.call(
            Ask.SEND_MESSAGE_V2,
            {
                "a": "pg",
                "b": topic,
                "c": "TBW102",
                "d": "4",
                "e": str(queue),
                "f": "0",
                "g": "1700000000000",
                "h": "0",
                "i": properties.write(found.items()).decode(),
                "j": "0",
                "k": "false",
                "m": "false",
            },
            body,
            timeout_s=timeout_s,
        )

    async def pull(
        self,
        topic: str,
        offset: int,
        *,
        queue: int = 0,
        group: str = "cg",
        wanted: str = "*",
        kind: str = "TAG",
        park_ms: int = 0,
        count: int = 32,
    ) -> Response:
        """Pull, with the subscription in the request."""
        return await self.call(
            Ask.PULL_MESSAGE,
            {
                "consumerGroup": group,
                "topic": topic,
                "queueId": str(queue),
                "queueOffset": str(offset),
                "maxMsgNums": str(count),
                "sysFlag": "6" if park_ms else "4",
                "commitOffset": "0",
                "suspendTimeoutMillis": str(park_ms),
                "subscription": wanted,
                "subVersion": "0",
                "expressionType": kind,
            },
            timeout_s=park_ms / 1000 + 10,
        )

    async def heartbeat(
        self, client_id: str, *, consumes: dict[str, dict[str, str]] | None = None, produces: tuple[str, ...] = ()
    ) -> Response:
        """Say who is there: consumer groups with their subscriptions, producer groups."""
        beat: dict[str, Any] = {
            "clientID": client_id,
            "producerDataSet": [{"groupName": group} for group in produces],
            "consumerDataSet": [
                {
                    "groupName": group,
                    "consumeType": "CONSUME_PASSIVELY",
                    "messageModel": "CLUSTERING",
                    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                    "subscriptionDataSet": [
                        {"topic": topic, "subString": wanted, "expressionType": "TAG", "subVersion": 1}
                        for topic, wanted in topics.items()
                    ],
                }
                for group, topics in (consumes or {}).items()
            ],
        }
        return await self.call(Ask.HEART_BEAT, {}, json.dumps(beat).encode())


async def until(is_true: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Return as soon as something has become true; fail when it does not."""
    async with asyncio.timeout(within_s):
        while not is_true():  # noqa: ASYNC110 - what is waited for knows of no event
            await asyncio.sleep(0.005)


def records(body: bytes) -> list[Record]:
    """Return the records that an answer to a pull holds."""
    found = []
    at = 0
    table = rows.table(1)
    fmt = FORMATS[rocketmq.NAME]
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        record = body[at : at + size]
        count, _, _ = scan(fmt.code, record, 0, size, int.from_bytes(record[28:36], "big"), table)
        assert count == 1, record
        found.append(decode_row(fmt, memoryview(record), table, 0, ""))
        at += size
    return found
