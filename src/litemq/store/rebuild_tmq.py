"""Write the index files of a ``tmq`` tree anew: entry i of a queue leads to its i-th sound record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from litemq.format import queue_entry, rows
from litemq.format.queue_entry import TMQ_ENTRY_SIZE, TmqEntry
from litemq.store.convert_source import OnBatch
from litemq.store.fs import File
from litemq.store.log_files import TMQ_INDEX
from litemq.store.log_walk import Damages, Log
from litemq.store.segment_walk import Batch, Damage

OnDamage = Callable[[Damage], None]

TMP: Final = ".tmp"
_MOST_WAITING: Final = 1 << 20
_CHUNK: Final = TMQ_ENTRY_SIZE * 10_000


def rebuild_tmq(log: Log, on_batch: OnBatch | None = None) -> tuple[int, Damages]:
    """Write every queue's index file anew; return how many records they lead to, and what could not be read."""
    count, damage = 0, Damages()
    for number in range(len(log.files.streams)):
        count += rebuild_stream(log, number, on_batch, damage.add)
    if log.store is not None:
        log.fs.sync_all(log.store)
    return count, damage


def rebuild_stream(
    log: Log, number: int, on_batch: OnBatch | None = None, on_damage: OnDamage | None = None, mark: str = ""
) -> int:
    """Write one queue's index file anew, replaced in one step and not synced; return how many entries it has.

    Two that work on one queue at the same time have a ``mark`` each.
    """
    folder = log.files.streams[number].folder
    assert folder is not None
    new = folder / (TMQ_INDEX + mark + TMP)
    log.fs.remove(new)
    file = log.fs.create(new, 0)
    written = 0
    try:
        for data in _chunks(_entries(log, number, on_batch, on_damage)):
            file.write_at(data, written)
            written += len(data)
        file.sync()
    finally:
        file.close()
    log.fs.rename(new, folder / TMQ_INDEX)
    return written // TMQ_ENTRY_SIZE


def agrees(log: Log, number: int) -> bool:
    """Return whether a queue's index file leads to each of its sound records, in order, and to nothing else."""
    folder = log.files.streams[number].folder
    assert folder is not None
    path = folder / TMQ_INDEX
    if not log.fs.exists(path):
        return next(_entries(log, number), None) is None
    file = log.fs.open(path)
    try:
        stored = _stored(file)
        for expected in _entries(log, number):
            found = next(stored, None)
            # The absolute position is nobody's way to a record.
            if found is None or found._replace(end=expected.end) != expected:
                return False
        return next(stored, None) is None
    finally:
        file.close()


def _entries(
    log: Log, number: int, on_batch: OnBatch | None = None, on_damage: OnDamage | None = None
) -> Iterator[TmqEntry]:
    names: dict[Path, int] = {segment.path: index for index, segment in enumerate(log.files.streams[number].segments)}
    for batch in log.batches(streams=range(number, number + 1), on_damage=on_damage):
        if on_batch is not None:
            on_batch(log, batch)
        yield from _of_batch(batch, names[batch.segment.path])


def _of_batch(batch: Batch, segment: int) -> Iterator[TmqEntry]:
    table = batch.table
    for o in range(batch.first * rows.WIDTH, batch.count * rows.WIDTH, rows.WIDTH):
        position, size = table[o + rows.POSITION], table[o + rows.SIZE]
        yield TmqEntry(segment, position - batch.start, position + size, size)


def _chunks(entries: Iterator[TmqEntry]) -> Iterator[bytes]:
    waiting = bytearray()
    for entry in entries:
        waiting += queue_entry.encode_tmq(entry)
        if len(waiting) >= _MOST_WAITING:
            yield bytes(waiting)
            waiting.clear()
    if waiting:
        yield bytes(waiting)


def _stored(file: File) -> Iterator[TmqEntry]:
    """Yield what is in an index file; zeros are space that was never written."""
    at = 0
    while data := file.read_at(_CHUNK, at):
        at += len(data)
        for place in range(0, len(data) - TMQ_ENTRY_SIZE + 1, TMQ_ENTRY_SIZE):
            if any(data[place : place + TMQ_ENTRY_SIZE]):
                yield queue_entry.decode_tmq(data, place)
