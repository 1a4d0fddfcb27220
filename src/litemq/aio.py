"""The SDK for asyncio: the names and arguments of ``litemq``, with methods that are awaited.

    async with litemq.aio.Producer() as producer:
        await producer.send("orders", b"17 apples")

    async def handle(message: litemq.Message) -> None: ...

    async with litemq.aio.PushConsumer("billing", {"orders": "*"}, handle) as consumer:
        await consumer.wait()

Names are loaded when they are first used.  Values (``Message``, ``Sql`` …) are the same objects as in ``litemq``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litemq.client._message_cy import Message
    from litemq.client.admin import AsyncAdmin as Admin
    from litemq.client.async_producer import AsyncProducer as Producer
    from litemq.client.async_pull import AsyncPullConsumer as PullConsumer
    from litemq.client.async_push import AsyncPushConsumer as PushConsumer
    from litemq.client.async_simple import AsyncSimpleConsumer as SimpleConsumer
    from litemq.client.async_transactions import AsyncTransaction as Transaction
    from litemq.client.async_transactions import AsyncTransactionProducer as TransactionProducer
    from litemq.client.batch_transactions import AsyncBatchTransactions as BatchTransactions
    from litemq.client.batch_transactions import BatchStatus, Staged
    from litemq.client.routes import TopicQueue
    from litemq.client.transactions import COMMIT, ROLLBACK, UNKNOWN, Decision
    from litemq.client.values import Reject, Retry, Sent, Sql, Tags

__all__ = [
    "COMMIT",
    "ROLLBACK",
    "UNKNOWN",
    "Admin",
    "BatchStatus",
    "BatchTransactions",
    "Decision",
    "Message",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Reject",
    "Retry",
    "Sent",
    "SimpleConsumer",
    "Sql",
    "Staged",
    "Tags",
    "TopicQueue",
    "Transaction",
    "TransactionProducer",
]

_HOMES = {
    "Admin": ("litemq.client.admin", "AsyncAdmin"),
    "BatchTransactions": ("litemq.client.batch_transactions", "AsyncBatchTransactions"),
    "Producer": ("litemq.client.async_producer", "AsyncProducer"),
    "PullConsumer": ("litemq.client.async_pull", "AsyncPullConsumer"),
    "PushConsumer": ("litemq.client.async_push", "AsyncPushConsumer"),
    "SimpleConsumer": ("litemq.client.async_simple", "AsyncSimpleConsumer"),
    "Transaction": ("litemq.client.async_transactions", "AsyncTransaction"),
    "TransactionProducer": ("litemq.client.async_transactions", "AsyncTransactionProducer"),
}
"""Name here → its module, and its name there; the values are taken from ``litemq``."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'litemq.aio' has no attribute {name!r}")
    module, there = _HOMES.get(name, ("litemq", name))
    found: object = getattr(importlib.import_module(module), there)
    globals()[name] = found  # the next use costs nothing
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
