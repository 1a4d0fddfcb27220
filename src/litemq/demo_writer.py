"""The writer of the demo: a process of its own, so that it can be killed.

Message ``i`` is the same whoever makes it, so a reader can tell a lost, doubled or altered one.  The writer appends in
batches with the policy ``group`` and prints how many messages are acknowledged: only what ``wait_durable`` covered,
so a printed number stands for flushed messages.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

from litemq.config import MIB, StoreConfig
from litemq.store.message_store import MessageStore
from litemq.types import Message

TOPICS: Final = ("orders", "payments", "shipments", "clicks")
QUEUES: Final = 4
BATCH: Final = 500

CONFIG: Final = StoreConfig(
    flush="group",
    segment_bytes=16 * MIB,
    queue_entries=20_000,
    index_slots=200_000,
    index_entries=500_000,
    checkpoint_bytes=8 * MIB,
)
"""Small files, so that the demo takes little room, and checkpoints often enough to see one work."""


def message(number: int, born_time: int = 0) -> Message:
    """Return the message with this number."""
    return Message(
        TOPICS[number % len(TOPICS)],
        body_of(number),
        queue_id=number // len(TOPICS) % QUEUES,
        message_id=f"demo-{number:08d}",
        keys=(key_of(number),),
        tags=("even" if number % 2 == 0 else "odd",),
        born_time=born_time,
    )


def body_of(number: int) -> bytes:
    """Return the body of the message with this number."""
    return b'{"number": %d, "customer": "c-%03d", "amount": %d}' % (number, number % 997, number * 7919 % 10_000)


def key_of(number: int) -> str:
    """Return the key of the message with this number."""
    return f"key-{number}"


def write(directory: Path, first: int, until: int) -> None:
    """Append the messages from ``first`` up to ``until``; print the number acknowledged after each batch."""
    with MessageStore.open(directory, CONFIG) as store:
        for start in range(first, until, BATCH):
            end = min(start + BATCH, until)
            now_ms = time.time_ns() // 1_000_000
            appended = store.append_many([message(number, now_ms) for number in range(start, end)])
            store.wait_durable(appended[-1].end)
            sys.stdout.write(f"{end}\n")
            sys.stdout.flush()
            store.tick()
