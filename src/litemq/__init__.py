"""LiteMQ: a message queue whose log every RocketMQ client and Spark can read.

Public names are loaded when they are first used, so that ``import litemq`` stays cheap.  The classes that wait for the
network are here in their blocking form; ``litemq.aio`` has them for asyncio.  ``litemq.testing`` runs a broker for
tests.  ``MessageStore`` and ``StoreConfig`` work on the files of a store, without a broker; the message that they
know is ``litemq.types.Message``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from litemq import _plain

_plain.install()  # before any kernel is imported: LITEMQ_PURE=1 asks for the plain twins

from litemq._version import VERSION  # noqa: E402 - the hook above must stand first

if TYPE_CHECKING:
    from litemq.client._message_cy import Message
    from litemq.client.admin import Admin
    from litemq.client.batch_transactions import BatchStatus, BatchTransactions, Staged
    from litemq.client.producer import Producer
    from litemq.client.pull import PullConsumer
    from litemq.client.push import PushConsumer
    from litemq.client.routes import TopicQueue
    from litemq.client.simple import SimpleConsumer
    from litemq.client.transactions import COMMIT, ROLLBACK, UNKNOWN, Decision, Transaction, TransactionProducer
    from litemq.client.values import Reject, Retry, Sent, Sql, Tags
    from litemq.config import StoreConfig
    from litemq.errors import (
        BadFilter,
        BufferFull,
        Busy,
        Closed,
        InvalidRequest,
        LiteMQError,
        NoAnswer,
        OutcomeUnknown,
        RecordTooLarge,
        RowsMissing,
        StaleEpoch,
        StorageError,
        TransactionOver,
        Unavailable,
        UnknownGroup,
        UnknownTopic,
    )
    from litemq.store.message_store import MessageStore

__version__ = VERSION

__all__ = [
    "COMMIT",
    "ROLLBACK",
    "UNKNOWN",
    "Admin",
    "BadFilter",
    "BatchStatus",
    "BatchTransactions",
    "BufferFull",
    "Busy",
    "Closed",
    "Decision",
    "InvalidRequest",
    "LiteMQError",
    "Message",
    "MessageStore",
    "NoAnswer",
    "OutcomeUnknown",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "RecordTooLarge",
    "Reject",
    "Retry",
    "RowsMissing",
    "Sent",
    "SimpleConsumer",
    "Sql",
    "Staged",
    "StaleEpoch",
    "StorageError",
    "StoreConfig",
    "Tags",
    "TopicQueue",
    "Transaction",
    "TransactionOver",
    "TransactionProducer",
    "Unavailable",
    "UnknownGroup",
    "UnknownTopic",
    "__version__",
]

_MODULES = {
    "litemq.client._message_cy": ("Message",),
    "litemq.client.admin": ("Admin",),
    "litemq.client.batch_transactions": ("BatchStatus", "BatchTransactions", "Staged"),
    "litemq.client.producer": ("Producer",),
    "litemq.client.pull": ("PullConsumer",),
    "litemq.client.push": ("PushConsumer",),
    "litemq.client.routes": ("TopicQueue",),
    "litemq.client.simple": ("SimpleConsumer",),
    "litemq.client.transactions": ("COMMIT", "ROLLBACK", "UNKNOWN", "Decision", "Transaction", "TransactionProducer"),
    "litemq.client.values": ("Reject", "Retry", "Sent", "Sql", "Tags"),
    "litemq.config": ("StoreConfig",),
    "litemq.errors": (
        *("BadFilter", "BufferFull", "Busy", "Closed", "InvalidRequest", "LiteMQError", "NoAnswer", "OutcomeUnknown"),
        *("RecordTooLarge", "RowsMissing", "StaleEpoch", "StorageError", "TransactionOver", "Unavailable"),
        *("UnknownGroup", "UnknownTopic"),
    ),
    "litemq.store.message_store": ("MessageStore",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_PARTS = ("aio", "outbox", "telemetry", "testing")
"""Modules that ``import litemq`` is enough for."""


def __getattr__(name: str) -> object:
    if name in _PARTS:
        return importlib.import_module(f"litemq.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'litemq' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found  # the next use costs nothing
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
