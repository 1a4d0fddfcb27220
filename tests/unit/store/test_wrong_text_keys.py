"""Keys in RocketMQ's properties may hold bytes that are no UTF-8: hashed as Java sees them, U+FFFD in their place."""

from __future__ import annotations

from pathlib import Path

from litemq.format import index_file, rows
from litemq.format._encode_cy import encode
from litemq.format._scan_cy import scan
from litemq.format.record import ROCKETMQ
from litemq.store._append_cy import dispatch_rows
from litemq.store._tails_cy import IndexTail, QueueTail
from litemq.store.queue_files import QueueFiles
from litemq.types import Message


def test_a_key_of_wrong_bytes_is_found_under_its_replaced_text() -> None:
    message = Message("t", b"body", keys=("wrongAB",))
    record = encode(1, message, position=0, queue_offset=0, store_time=1, store_host="127.0.0.1:1")
    record = record.replace(b"wrongAB", b"wrong\xf0\x9f")  # a four-byte character that ends too early
    table = rows.table(1)
    assert scan(ROCKETMQ.code, record, 0, len(record), 0, table)[0] == 1
    index = IndexTail(1, 10)
    tail = QueueTail("t", 0, 20, 0, QueueFiles(Path(), []))

    assert dispatch_rows(record, table, 0, 1, [tail], index, [], []) == 1

    entry = index_file.decode_entry(memoryview(index.tail))
    assert entry.hash == index_file.key_hash("t#wrong\ufffd")
