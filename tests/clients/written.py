"""A store of format ``rocketmq`` with everything in it that a real broker may meet, written by LiteMQ.

As a program (``python -m tests.clients.written PATH``) it writes until it is killed, and prints one line for each
batch of messages that it was told are stored.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd
from tests.clients.picture import store_config
from tests.clients.rocketmq import Sizes

from litemq.config import WritableFormat
from litemq.store.message_store import MessageStore
from litemq.types import Message, Status

ORDERS = "Orders"
MIXED = "Mixed"
AGAIN = "Again"
LATER = "Later"
LONG = "%RETRY%" + "Long_" * 26
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
GROUP = "GID_app"
BORN = 1_700_000_000_000

SOON_LEVEL = 2
"""5 s."""
LATE_LEVEL = 18
"""2 h: pending as long as any test runs."""

KILLED_SIZES = Sizes(index_slots=5_000_000, index_entries=20_000_000)
"""The index has RocketMQ's default sizes."""

_COMPRESSED = 0x1
_LZ4, _ZSTD, _ZLIB = 0x100, 0x200, 0x300


def orders(first: int, count: int, seed: int = 1) -> list[Message]:
    """Return plain messages for the four queues of ``Orders``, of all sizes."""
    random = Random(seed + first)
    return [
        Message(
            ORDERS,
            random.randbytes(random.choice((1, 20, 200, 1500))),
            queue_id=number % 4,
            message_id=f"{number:032X}",
            tags=(("TagA", "TagB", "größe", "AaAa", "BBBB")[number % 5],),  # the last two have equal hashes
            keys=(f"order-{number}", f"customer-{number % 7}"),
            properties={"region": "eu" if number % 2 else "日本", "n": str(number)},
            born_time=BORN + number,
            born_host="10.1.2.3:40000" if number % 3 else "[2001:db8::17]:40000",
        )
        for number in range(first, first + count)
    ]


def mixed() -> list[Message]:
    """Return one message of each kind."""
    plain = b"compress me, compress me, compress me " * 60
    return [
        Message(MIXED, b"nothing but a body"),
        Message(MIXED, b"", queue_id=1, keys=("empty",), message_id="E" * 32),
        Message(MIXED, plain, keys=("plain",), flag=-7, reconsume_times=3, born_time=BORN, born_host="[fe80::1]:5"),
        Message(MIXED, zlib.compress(plain), keys=("old-zlib",), sys_flag=_COMPRESSED),
        Message(MIXED, zlib.compress(plain), keys=("zlib",), sys_flag=_COMPRESSED | _ZLIB),
        Message(MIXED, lz4.frame.compress(plain), keys=("lz4",), sys_flag=_COMPRESSED | _LZ4),
        Message(MIXED, zstd.compress(plain), keys=("zstd",), sys_flag=_COMPRESSED | _ZSTD),
        Message(MIXED, b"committed", keys=("tx",), status=Status.COMMITTED, prepared_offset=17),
        Message(MIXED, b"prepared", keys=("half",), status=Status.PREPARED),
        Message(MIXED, b"rolled back", keys=("undone",), status=Status.ROLLED_BACK),
        Message(MIXED, b"in order", sharding_key="shard-1", tags=("a", "b"), keys=("with blank", "k")),
        Message(MIXED, b"unicode", tags=("🏷",), keys=("schlüssel", "鍵", "🔑"), properties={"名": "値 mit Blank"}),
        Message(MIXED, Random(5).randbytes(100_000), queue_id=1, keys=("large",)),
        Message(LONG, b"a topic of more than 127 characters", keys=("long",)),
    ]


def delayed() -> list[Message]:
    """Return two messages that a broker hands out later, as RocketMQ stores them."""
    return [
        Message(
            SCHEDULE,
            body,
            queue_id=level - 1,
            keys=(f"level-{level}",),
            properties={"DELAY": str(level), "REAL_TOPIC": LATER, "REAL_QID": "0"},
            born_time=BORN,
        )
        for level, body in ((SOON_LEVEL, b"soon"), (LATE_LEVEL, b"late"))
    ]


def noise(size: int) -> bytes:
    """Return bytes that do not compress."""
    return Random(size).randbytes(size)


def write(path: Path, sizes: Sizes, record_format: WritableFormat = "rocketmq") -> None:
    """Write the store: several segments, index files and opens; closed cleanly."""
    config = replace(store_config(sizes), format=record_format)
    with MessageStore.open(path, config) as store:
        store.put_topic(ORDERS, {"readQueueNums": 4, "writeQueueNums": 4})
        store.put_topic(LATER, {"readQueueNums": 1, "writeQueueNums": 1})
        store.append_many(orders(0, 300))
        store.append_many([Message(AGAIN, b"first life %d" % i, keys=(f"again-{i}",)) for i in range(70)])
        store.delete_topic(AGAIN)
        store.append_many(orders(300, 100))
        store.append_many(mixed())
    with MessageStore.open(path, replace(config, store_host="[2001:db8::1]:10911")) as store:
        store.append_many([Message(AGAIN, b"second life %d" % i, keys=(f"again-{i}",)) for i in range(5)])
        store.append_many(orders(400, 100))
        store.append_many(delayed())
        store.put_group(GROUP)
        for queue_id in range(4):
            store.progress.commit(GROUP, ORDERS, queue_id, 100 + queue_id)


def batches() -> Iterator[list[Message]]:
    """Yield messages for ever."""
    first = 0
    while True:
        count = 1 + first % 9
        yield orders(first, count, seed=9)
        first += count


def main(path: str) -> None:
    """Write until killed."""
    config = replace(store_config(KILLED_SIZES), checkpoint_interval_ms=300, progress_interval_ms=100)
    store = MessageStore.open(path, config)
    store.put_topic(ORDERS, {"readQueueNums": 4, "writeQueueNums": 4})
    for number, batch in enumerate(batches()):
        stored = store.append_many(batch)
        print(json.dumps([appended.position for appended in stored]), flush=True)  # noqa: T201 - for the test
        store.progress.commit(GROUP, ORDERS, 0, number // 5)
        store.tick()
        time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1])
