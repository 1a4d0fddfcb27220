"""Which ConsumeQueues disagree with the log: the same judgement as ``verify``, queue by queue.

From each side the entries of a queue are added up as hashes; a queue whose sums differ has an entry missing, wrong or
dangling.  A record that no queue has a place for is left out: no rebuild would bring it in, and ``can_agree`` says so.
Memory: one number for each queue; a set of up to a million offsets where offsets of a queue go back.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from litemq.format import rows
from litemq.format.limits import is_folder_name
from litemq.format.queue_entry import BEFORE_START_SIZE, LAYOUTS, EntryLayout, QueueEntry
from litemq.store import _queue_check_cy as kernel
from litemq.store.changes import Deletions
from litemq.store.deletions import as_table, find_deletions
from litemq.store.derived import QUEUES
from litemq.store.dispatcher import MAX_OFFSET
from litemq.store.log_walk import Log
from litemq.store.queue_types import batch_topics, queue_folders
from litemq.store.rebuild import format_of
from litemq.store.verify_queues import ALL, BLOCKS, EntryFile, entry_files, read_entries
from litemq.types import Status, TopicQueue

_MASK: Final = (1 << 64) - 1
_WITHOUT_ENTRY: Final = (Status.PREPARED, Status.ROLLED_BACK)
_MAX_COLLECTED: Final = 1 << 20
_NO_STARTS: Final = array("q", [0])

Sums = dict[TopicQueue, int]


def disagreeing_queues(log: Log, store: Path) -> set[TopicQueue]:
    """Return the queues below ``consumequeue/``, existing or not, that are not what the log says."""
    deletions = find_deletions(log)
    layout = LAYOUTS[format_of(log, store).name]
    expected = _of_log(log, layout, deletions)
    found = _of_files(log, store, layout, deletions)
    return {queue for queue in expected.keys() | found.keys() if expected.get(queue, 0) != found.get(queue, 0)}


def can_agree(log: Log, store: Path) -> bool:
    """Return whether a verify would find nothing wrong with the queues once those that disagree are rebuilt."""
    deletions = find_deletions(log)
    layout = LAYOUTS[format_of(log, store).name]
    return _do_batch_queues_agree(log, deletions) and _has_place_for_all(log, layout, deletions)


def _do_batch_queues_agree(log: Log, deletions: Deletions) -> bool:
    """Return whether the files that no rebuild touches, batch queues and those of their topics, are as they should."""
    topics = {topic.encode("utf-8", "surrogateescape") for topic in batch_topics(log)}
    keys = array("q", [*sorted(kernel.key_of_topic(topic) for topic in topics), 0])
    dead = as_table(deletions)
    base = log.first_position
    sums, counts = array("Q", bytes(8 * BLOCKS)), array("q", bytes(8 * BLOCKS))
    counters = array("q", bytes(32))
    for batch in log.batches() if topics else ():
        table = batch.table
        for row in range(batch.first, batch.count):
            at = table[row * rows.WIDTH + rows.TOPIC_AT]
            if bytes(batch.view[at : at + table[row * rows.WIDTH + rows.TOPIC_SIZE]]) in topics:
                kernel.sum_rows(batch.view, table, row, row + 1, kernel.ROCKETMQ, 0, dead, keys, base, ALL, sums)
    for file in entry_files(log)[0]:
        if file.kind == kernel.BATCH or file.topic in keys[:-1]:
            for data, number in read_entries(log.fs, file):
                kernel.sum_entries(
                    *(data, file.kind, file.queue, file.topic, number, _NO_STARTS, dead),
                    *(base, base, ALL, False, sums, counts, counters),
                )
    return not any(sums) and not counters[kernel.DANGLING]


def _has_place_for_all(log: Log, layout: EntryLayout, deletions: Deletions) -> bool:
    """Return whether each record has an offset that a queue can have, and none shares it with another one."""
    ends: dict[TopicQueue, int] = {}
    going_back: set[TopicQueue] = set()  # only there can an offset come twice
    count = 0
    for queue, offset, _ in _expected(log, layout, deletions):
        if not _has_place(queue, offset):
            return False
        end = ends.get(queue, 0)
        if offset < end:
            going_back.add(queue)
        ends[queue] = max(end, offset + 1)
        count += 1
    rounds = 1 + count // _MAX_COLLECTED if going_back else 0
    for number in range(rounds):  # each looks at a part of the offsets: memory is bounded
        seen: set[tuple[TopicQueue, int]] = set()
        for queue, offset, _ in _expected(log, layout, deletions):
            if queue in going_back and offset % rounds == number:
                if (queue, offset) in seen:
                    return False
                seen.add((queue, offset))
    return True


def _of_log(log: Log, layout: EntryLayout, deletions: Deletions) -> Sums:
    sums: Sums = {}
    for queue, offset, entry in _expected(log, layout, deletions):
        if _has_place(queue, offset):
            sums[queue] = (sums.get(queue, 0) + entry) & _MASK
    return sums


def _has_place(queue: TopicQueue, offset: int) -> bool:
    return queue.queue_id >= 0 and 0 <= offset < MAX_OFFSET


def _expected(log: Log, layout: EntryLayout, deletions: Deletions) -> Iterator[tuple[TopicQueue, int, int]]:
    """Yield queue, offset and hash of each entry that the log's records should have, in log order."""
    batched = batch_topics(log)
    keys: dict[tuple[bytes, int], TopicQueue | None] = {}
    with_time = layout is LAYOUTS["litemq"]
    for batch in log.batches():
        table = batch.table
        for o in range(batch.first * rows.WIDTH, batch.count * rows.WIDTH, rows.WIDTH):
            if table[o + rows.STATUS] in _WITHOUT_ENTRY:
                continue
            at = table[o + rows.TOPIC_AT]
            key = (bytes(batch.view[at : at + table[o + rows.TOPIC_SIZE]]), table[o + rows.QUEUE_ID])
            if key not in keys:
                topic = key[0].decode()
                usable = is_folder_name(topic) is None and topic not in batched
                keys[key] = TopicQueue(topic, key[1]) if usable else None
            queue = keys[key]
            offset, position = table[o + rows.QUEUE_OFFSET], table[o + rows.POSITION]
            if queue is None or _is_dead(deletions, queue, offset, position):
                continue
            time = table[o + rows.STORE_TIME] if with_time else None
            yield queue, offset, hash((offset, position, table[o + rows.SIZE], table[o + rows.TAG_HASH], time))


def _of_files(log: Log, store: Path, layout: EntryLayout, deletions: Deletions) -> Sums:
    sums: Sums = {}
    batched = batch_topics(log)
    first_position = log.first_position
    for topic, queue_id, folder in queue_folders(store / QUEUES, log.fs):
        if topic in batched:
            continue
        queue, total = TopicQueue(topic, queue_id), 0
        for number, entry in _entries(log, folder, layout):
            if 0 <= entry.position < first_position or _is_dead(deletions, queue, number, entry.position):
                continue
            total += hash((number, *entry))
        if total:
            sums[queue] = (sums.get(queue, 0) + total) & _MASK  # ``0`` and ``00`` are folders of one queue
    return sums


def _is_dead(deletions: Deletions, queue: TopicQueue, offset: int, position: int) -> bool:
    # Where nothing was deleted, numbers below zero are faults, as for verify, and not dead.
    topic, queue_id = queue.topic, queue.queue_id
    has_deletion = topic in deletions.dead_below or queue_id in deletions.min_offsets.get(topic, ())
    return has_deletion and deletions.is_dead(topic, queue_id, offset, position)


def _entries(log: Log, folder: Path, layout: EntryLayout) -> Iterator[tuple[int, QueueEntry]]:
    """Yield the entries of a queue that stand for a record, each with its number."""
    for name in log.fs.names(folder):
        if not (name.isascii() and name.isdigit()):
            continue
        file = EntryFile(folder / name, 0, layout.size, 0, 0, int(name) // layout.size)
        for data, first in read_entries(log.fs, file):
            for at in range(0, len(data) - layout.size + 1, layout.size):
                entry = layout.decode(data, at)
                if entry.size != BEFORE_START_SIZE and any(entry):
                    yield first + at // layout.size, entry
