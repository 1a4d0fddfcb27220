"""Stores to read: messages with bodies of one size, dealt over topics, one after the other."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.messages import make
from litemq.config import StoreConfig
from litemq.format.queue_entry import LITEMQ_ENTRY_SIZE
from litemq.store.convert import convert
from litemq.store.message_store import MessageStore
from litemq.types import Message

TOPICS = 10
_SHARE = 8_192
_AT_ONCE = 64
_ENTRY_SIZE = LITEMQ_ENTRY_SIZE


@dataclass(frozen=True, slots=True)
class Built:
    """A store and how it came to be."""

    path: Path
    rows: int
    slice_from_ms: int
    """When 45 % of the messages were stored …"""
    slice_to_ms: int
    """… and when 55 % were."""

    bytes: int
    """Of records and of queue entries; the key index is left out."""


def build(path: Path, rows: int, body_size: int) -> Built:
    """Fill a new store."""
    marks: dict[int, int] = {}
    with MessageStore.open(path, StoreConfig()) as store:
        done = 0
        for share in _shares(rows, body_size):
            for at in range(0, len(share), _AT_ONCE):
                store.append_many(share[at : at + _AT_ONCE])
            done += len(share)
            marks[done] = time.time_ns() // 1_000_000
            store.tick()
        size = store.appended_end + rows * _ENTRY_SIZE
    first, last = (min(marks, key=lambda at: abs(at - rows * part)) for part in (0.45, 0.55))
    return Built(path, rows, marks[first], marks[last], size)


def _shares(rows: int, body_size: int) -> Iterator[list[Message]]:
    """Yield messages; no body is like another one, and none can be compressed."""
    rng = random.Random(7)
    for first in range(0, rows, _SHARE):
        count = min(_SHARE, rows - first)
        bodies = rng.randbytes(count * body_size)
        each = [bodies[at : at + body_size] for at in range(0, len(bodies), body_size)]
        yield make(first, count, topics=TOPICS, bodies=each)


def converted(path: Path, to: Path, format_name: str) -> Path:
    """Return a store with the same messages in another format."""
    convert(path, to, to=format_name)
    return to
