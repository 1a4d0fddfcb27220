"""Small live stores for tests: many rolls, many files, a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from litemq.clock import Clock, ManualClock
from litemq.config import StoreConfig
from litemq.errors import RecordTooLarge
from litemq.store.fs import FileSystem
from litemq.store.message_store import MessageStore
from litemq.types import Message

SEGMENT = 1 << 14
SMALL = StoreConfig(
    segment_bytes=SEGMENT,
    queue_entries=20,
    index_slots=13,
    index_entries=40,
    delete_hour=None,
    disk_free_floor=0,
)
FORMATS = ("litemq", "rocketmq")

P = ParamSpec("P")
T = TypeVar("T")


def small(**settings: object) -> StoreConfig:
    """Return the small configuration with other settings."""
    return replace(SMALL, **settings)  # type: ignore[arg-type] # StoreConfig checks them


def open_store(
    root: Path,
    config: StoreConfig = SMALL,
    *,
    clock: Clock | None = None,
    fs: FileSystem | None = None,
    background: bool = False,
) -> MessageStore:
    """Open a store at ``root / "store"``."""
    return MessageStore.open(root / "store", config, clock=clock or ManualClock(), fs=fs, background=background)


class Later(Executor):
    """A worker that does nothing before it is told to: a disk as slow as the test wants it."""

    def __init__(self, store: MessageStore) -> None:
        """Take over the checkpoints of a store that has no threads."""
        self._jobs: list[Callable[[], None]] = []
        store._checkpointer.worker = self

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.append(lambda: future.set_result(fn(*args, **kwargs)))
        return future

    def work(self) -> None:
        """Do what was asked for so far."""
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            job()


def fill(store: MessageStore, count: int, *, topic: str = "orders", queue_id: int = 0, size: int = 100) -> list[bytes]:
    """Append ``count`` messages with different bodies; return these."""
    sent = [b"%d " % number + b"." * size for number in range(count)]
    for body in sent:
        store.append(Message(topic, body, queue_id=queue_id, keys=(body.split()[0].decode(),)))
    return sent


def fill_to(store: MessageStore, position: int, *, topic: str = "orders") -> None:
    """Append two messages, of which the second ends at ``position``."""
    empty = store.append(Message(topic, b""))
    store.append(Message(topic, b"." * (position - empty.end - (empty.end - empty.position))))
    assert store.appended_end == position


def bodies(store: MessageStore, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    """Return what a reader finds in a queue, from its first message to its last."""
    reader = store.reader
    low, high = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
    return [record.body for record in store.records(topic, queue_id, low, max_count=high - low)]


def topics(store: MessageStore) -> set[str]:
    """Return the topics that have a queue, without LiteMQ's own."""
    return {queue.topic for queue in store.queues() if not queue.topic.startswith("LITEMQ_SYS_")}


def largest(put: Callable[[int], object], limit: int) -> int:
    """Return the largest size below ``limit`` that is not refused."""
    low = 0
    while limit - low > 1:
        middle = (low + limit) // 2
        try:
            put(middle)
            low = middle
        except RecordTooLarge:
            limit = middle
    put(low)
    return low
