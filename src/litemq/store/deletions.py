"""What deletions in the log took away: records of the reserved topic ``LITEMQ_SYS_CHANGES``.

``verify``, ``query``, ``rebuild`` and ``repair`` treat dead records as if they were not there.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from litemq.format import rows
from litemq.format.names import CHANGES_TOPIC
from litemq.format.record import BLUEPRINT, TMQ, Format, decode_row
from litemq.store._queue_check_cy import key_of_queue, key_of_topic, next_of_topic
from litemq.store.changes import Change, Deletions, decode
from litemq.store.log_walk import Log
from litemq.store.segment_walk import Batch

_TOPIC = CHANGES_TOPIC.encode()


def find_deletions(log: Log) -> Deletions:
    """Return what the changes in the whole log took away."""
    found = Deletions()
    if has_changes(log.format):
        for batch in log.batches():
            take_changes(log.format, batch, found)
    return found


def has_changes(fmt: Format | None) -> bool:
    """Return whether a log of this format can hold changes: only what a broker writes does."""
    return fmt is not None and fmt is not BLUEPRINT and fmt is not TMQ


def take_changes(fmt: Format | None, batch: Batch, into: Deletions) -> None:
    """Apply the changes among the records of a batch."""
    for change, position in changes_of(fmt, batch):
        into.apply(change, position)


def changes_of(fmt: Format | None, batch: Batch) -> Iterator[tuple[Change, int]]:
    """Yield the changes among the records of a batch, each with the position of which it speaks."""
    if fmt is None:
        return
    for row in changes_in(batch):
        record = decode_row(fmt, batch.view, batch.table, row, batch.segment.name)
        change = decode(record.body)
        if change is not None:
            # A change that was carried to the tail still speaks of what lay before its first place.
            origin = batch.table[row * rows.WIDTH + rows.ORIGIN]
            yield change, origin if origin >= 0 else record.position


def changes_in(batch: Batch) -> Iterator[int]:
    """Yield the rows of a batch whose records are changes."""
    row = next_of_topic(batch.view, batch.table, batch.first, batch.count, _TOPIC)
    while row < batch.count:
        yield row
        row = next_of_topic(batch.view, batch.table, row + 1, batch.count, _TOPIC)


def is_empty(deletions: Deletions) -> bool:
    """Return whether nothing was taken away."""
    return not deletions.dead_below and not deletions.min_offsets


def as_table(deletions: Deletions) -> array[int]:
    """Return the sorted table that kernels ask: key, first offset and first position alive; its last row is empty."""
    found = [(key_of_topic(topic.encode()), 0, position) for topic, position in deletions.dead_below.items()]
    for topic, queues in deletions.min_offsets.items():
        found += [(key_of_queue(topic.encode(), queue), offset, 0) for queue, offset in queues.items()]
    return array("q", [number for row in sorted(found) for number in row] + [0, 0, 0])
