"""Find records by key, id or time.

The key index of a large log answers for the segments that it surely knows all about (``query_index``); the rest is
walked, which takes less than a second for a cached gigabyte.  The answer is the same without an index.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final

from litemq.format import rows
from litemq.format.message_id import parse_offset_id
from litemq.format.record import TMQ, decode, offset_in_queue
from litemq.store._find_cy import find_rows
from litemq.store.changes import Deletions
from litemq.store.deletions import changes_in, has_changes, is_empty, take_changes
from litemq.store.log_walk import Log
from litemq.store.query_index import IndexAnswer, ask_index
from litemq.store.segment_walk import Batch
from litemq.types import Record, Status

DEFAULT_LIMIT: Final = 64
_MIN_TIME: Final = -(1 << 63)
_MAX_TIME: Final = (1 << 63) - 1
_REPLACEMENT: Final = "\ufffd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for; None and the widest times do not matter."""

    key: str | None = None
    message_id: str | None = None
    """Message id or offset id."""
    from_time: int = _MIN_TIME
    to_time: int = _MAX_TIME
    """Store time in ms (``tmq``: born time), both ends included."""
    topic: str | None = None

    def within(self, from_time: int | None, to_time: int | None) -> Wanted:
        """Return the same within these times; None: no bound."""
        return replace(
            self,
            from_time=_MIN_TIME if from_time is None else max(_MIN_TIME, min(from_time, _MAX_TIME)),
            to_time=_MAX_TIME if to_time is None else max(_MIN_TIME, min(to_time, _MAX_TIME)),
        )

    def fits(self, record: Record) -> bool:
        """Return whether a record of the right topic and time is one of those asked for."""
        if self.key is not None:
            return self.key in record.keys
        if self.message_id is not None:
            return self.message_id == record.message_id or self.message_id.upper() == record.offset_id
        return True


@dataclass(frozen=True, slots=True)
class _Found:
    data: bytes
    position: int
    segment: str
    time: int


def query(
    log: Log,
    wanted: Wanted,
    limit: int = DEFAULT_LIMIT,
    *,
    on_batch: Callable[[Log, Batch], None] | None = None,
) -> list[Record]:
    """Return what is found in log order; above ``limit`` the newest.  Deleted records are not found."""
    answer = _ask_index(log, wanted)
    if answer is not None:
        search = _Search(log, wanted, limit, answer.deletions)
        if search.run_beside(answer, on_batch):
            return search.records(answer.records)
    deletions = Deletions()
    search = _Search(log, wanted, limit, deletions)
    search.run(on_batch)
    if not is_empty(deletions):
        # Only now it is known what is dead: among the newest may have been too many of those.
        search = _Search(log, wanted, limit, deletions)
        search.run(on_batch)
    return search.records()


def _ask_index(log: Log, wanted: Wanted) -> IndexAnswer | None:
    text = wanted.key if wanted.key is not None else wanted.message_id
    if text is None:
        return None
    offset_id = None if wanted.message_id is None else parse_offset_id(wanted.message_id)
    return ask_index(log, text, wanted.topic, -1 if offset_id is None else offset_id[1])


class _Search:
    """One walk over the log."""

    def __init__(self, log: Log, wanted: Wanted, limit: int, deletions: Deletions) -> None:
        self._log = log
        self._wanted = wanted
        self._limit = limit
        self._found: deque[_Found] = deque(maxlen=None if log.format is TMQ else limit)
        self._deletions = deletions
        self._collects = has_changes(log.format) and is_empty(deletions)
        offset_id = None if wanted.message_id is None else parse_offset_id(wanted.message_id)
        self._position = -1 if offset_id is None else offset_id[1]
        self._topic = _encoded(wanted.topic)
        self._id = _encoded(wanted.message_id)
        # A replacement character may stand for bytes that are no UTF-8: then only the decoded record can tell.
        self._key = None if wanted.key is None or _REPLACEMENT in wanted.key else _encoded(wanted.key)
        self._is_exact = wanted.key is None and wanted.message_id is None
        if wanted.message_id is not None and _REPLACEMENT in wanted.message_id:
            self._id = None

    def run(self, on_batch: Callable[[Log, Batch], None] | None) -> None:
        """Walk over the whole log; without deletions to begin with, find them on the way."""
        for batch in self._log.batches():
            self._look(batch)
            if self._collects:
                take_changes(self._log.format, batch, self._deletions)
            if on_batch is not None:
                on_batch(self._log, batch)

    def run_beside(self, answer: IndexAnswer, on_batch: Callable[[Log, Batch], None] | None) -> bool:
        """Walk over what the index does not answer for; False when it turns out to have missed a deletion."""
        self._collects = False
        for batch in self._uncovered(answer.covered):
            self._look(batch)
            for row in changes_in(batch):
                if batch.table[row * rows.WIDTH + rows.POSITION] not in answer.changes:
                    return False
            if on_batch is not None:
                on_batch(self._log, batch)
        return True

    def _uncovered(self, covered: frozenset[int]) -> Iterator[Batch]:
        starts = [segment.number or 0 for segment in self._log.files.streams[0].segments]
        for is_covered, group in itertools.groupby(starts, covered.__contains__):
            run = list(group)
            for batch in self._log.batches(run[0]) if not is_covered else ():
                if batch.start > run[-1]:
                    break
                yield batch

    def _look(self, batch: Batch) -> None:
        wanted = self._wanted
        found = find_rows(
            batch.view,
            batch.table,
            batch.first,
            batch.count,
            self._topic,
            self._key,
            self._id,
            self._position,
            wanted.from_time,
            wanted.to_time,
        )
        for row in found:
            self._take(batch, row)

    def _take(self, batch: Batch, row: int) -> None:
        at = row * rows.WIDTH
        table = batch.table
        position = table[at + rows.POSITION]
        if not self._collects and self._is_dead(batch, at):
            return
        place = position - batch.base
        data = bytes(batch.view[place : place + table[at + rows.SIZE]])
        found = _Found(data, position, batch.segment.name, table[at + rows.STORE_TIME])
        if self._is_exact or self._wanted.fits(self._decoded(found)):
            self._found.append(found)
            if self._log.format is TMQ and len(self._found) > 2 * self._limit + 1024:
                self._trim()

    def _is_dead(self, batch: Batch, at: int) -> bool:
        table = batch.table
        topic_at = table[at + rows.TOPIC_AT]
        topic = str(batch.view[topic_at : topic_at + table[at + rows.TOPIC_SIZE]], "utf-8")
        has_place = table[at + rows.STATUS] not in (Status.PREPARED, Status.ROLLED_BACK)
        offset = table[at + rows.QUEUE_OFFSET] if has_place else None
        return self._deletions.is_dead(topic, table[at + rows.QUEUE_ID], offset, table[at + rows.POSITION])

    def _trim(self) -> None:
        """Keep the newest of a tmq tree, whose logs follow each other, in the order in which they were found."""
        newest = sorted(range(len(self._found)), key=lambda i: (self._found[i].time, i))[-self._limit :]
        self._found = deque(self._found[i] for i in sorted(newest))

    def _decoded(self, found: _Found) -> Record:
        record = decode(found.data, found.position, self._log.format, found.segment)
        assert record is not None, "the walk has seen it"
        return record

    def records(self, indexed: list[Record] | None = None) -> list[Record]:
        """Return what was found, with what the index says for the parts that were not walked."""
        if self._log.format is TMQ and len(self._found) > self._limit:
            self._trim()
        walked = [self._decoded(found) for found in self._found]
        if indexed is None:
            return walked
        kept = [record for record in indexed if self._is_wanted(record)]
        return sorted((*walked, *kept), key=attrgetter("position"))[-self._limit :]

    def _is_wanted(self, record: Record) -> bool:
        wanted = self._wanted
        if wanted.topic is not None and record.topic != wanted.topic:
            return False
        return wanted.fits(record) and not self._deletions.is_dead(
            record.topic, record.queue_id, offset_in_queue(record), record.position
        )


def _encoded(text: str | None) -> bytes | None:
    """Return the text as it stands in a record; a text without a UTF-8 form is in none."""
    return None if text is None else text.encode("utf-8", "surrogatepass")
