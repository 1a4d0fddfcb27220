"""Staged rows of batch transactions, read back from the log."""

from __future__ import annotations

from typing import NamedTuple

from litemq.errors import CorruptRecord
from litemq.features.batch_parts import Chunk, Key
from litemq.format import batch_records
from litemq.format.batch_records import Staged
from litemq.format.names import STAGE_TOPIC
from litemq.store.message_store import MessageStore


class Rows(NamedTuple):
    """A staged record: what it says, its bytes, and where its messages begin in them."""

    fact: Staged
    body: bytes
    begin: int


def read_rows(store: MessageStore, chunk: Chunk, key: Key) -> Rows | None:
    """Return the rows of a request; None when they are damaged, gone, or others (a position of a cut log)."""
    try:
        record = store.reader.record_at(chunk.place.position)
        found = batch_records.decode(record.body) if record is not None and record.topic == STAGE_TOPIC else None
    except (CorruptRecord, ValueError):
        return None
    if record is None or found is None:
        return None
    fact, begin = found
    if not isinstance(fact, Staged) or (fact.producer_id, fact.epoch, fact.checksum) != (*key, chunk.checksum):
        return None
    return Rows(fact, record.body, begin)
