"""Reading an open store as remoting clients do: pulls, and single records in RocketMQ's bytes.

A pull takes at once what is in memory (``_slice_cy``); what is not becomes a ``ColdPull``, which a thread finishes
with what was looked up here: open files, segments, and a copy of the entries that are in no file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator

from litemq.format import properties as property_text
from litemq.format._scan_cy import LITEMQ
from litemq.format._transcode_cy import properties_text
from litemq.format.record import LITEMQ as LITEMQ_FORMAT
from litemq.format.transcode import odd_to_rocketmq, to_rocketmq
from litemq.store._slice_cy import Pulled, Slicer
from litemq.store._tail_pull_cy import PullStatus, TailPuller
from litemq.store._tails_cy import QueueTail
from litemq.store.arguments import check_text
from litemq.store.commit_log import CommitLog, read_error
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.frames import Kind, read_head, stated_offset
from litemq.store.key_index import KeyIndex
from litemq.store.queue_files import EntryPart, read_parts
from litemq.store.reader import Reader, asked
from litemq.store.segments import Segment
from litemq.store.tables import Tables

_SECOND_MS = 1000
_MAX_STEPS = 20_000
"""Index entries that one question for a key looks at: about 50 ms."""
_MAX_READS = 1_000
"""… and records that it reads."""

MAX_SCAN = 800
"""Entries that one pull looks at."""

_NEEDED_SOON = 1 << 20
"""Bytes of the log that a pull which waits for the disk gets on the way: the next pulls are likely to want them."""

_ENTRIES_NEEDED_SOON = 64 << 10
"""… and of entries."""


class ColdPull:
    """A pull that has to wait for the disk; any thread may ``finish`` it."""

    __slots__ = ("_end", "_filler", "_high", "_low", "_parts", "_segments", "_slicer", "_starts", "offset")

    def __init__(
        self,
        slicer: Slicer,
        offset: int,
        parts: list[EntryPart],
        filler: bytes,
        segments: list[Segment],
        low: int,
        high: int,
        end: int,
    ) -> None:
        """``end`` is where the log ended when the pull was asked."""
        self._slicer = slicer
        self.offset = offset
        self._parts = parts
        self._filler = filler
        self._segments = segments
        self._starts = [segment.start for segment in segments]
        self._low = low
        self._high = high
        self._end = end

    def finish(self) -> Pulled:
        """Read, waiting for the disk; once only.

        Raises:
            ReadFailed: the disk did not give the bytes.
        """
        slicer, stride = self._slicer, len(self._filler)
        try:
            for part in self._parts:
                if part.file is not None:
                    part.file.will_need(part.place, max(part.size, _ENTRIES_NEEDED_SOON))
            entries = read_parts(self._parts, self._filler, nowait=False)
            assert entries is not None  # only a read that must not wait gives None
            while slicer.missing():
                place = (slicer.offset - self.offset) * stride
                slicer.choose(entries, place, (len(entries) - place) // stride)
                self._read_ahead(slicer.first_position())
                slicer.fetch(self._find, False)
        except OSError as error:
            raise read_error(error) from error
        return _complete(slicer, self._low, self._high)

    def _read_ahead(self, position: int) -> None:
        """Have the disk bring what the next pulls are likely to ask for."""
        segment = self._find(position)
        if segment is not None:
            size = min(_NEEDED_SOON, segment.end - position, self._end - position)
            segment.file.will_need(position - segment.start, max(size, 0))

    def _find(self, position: int) -> Segment | None:
        i = bisect_right(self._starts, position) - 1
        return self._segments[i] if i >= 0 and position < self._segments[i].end else None


def _complete(slicer: Slicer, low: int, high: int) -> Pulled:
    pulled: Pulled = slicer.finish(PullStatus.FOUND if slicer.count else PullStatus.NO_MATCH, low, high)
    return pulled


class PullReader(Reader):
    """A ``Reader`` that answers with record bytes."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        tables: Tables,
        readable_end: Callable[[], int],
        *,
        sees_all: bool,
    ) -> None:
        """``sees_all``: everything that was appended can be read, and ``readable_end`` is the log's end."""
        super().__init__(log, queues, index, tables, readable_end)
        self.quick = TailPuller(log, queues, tables, readable_end, sees_all, self._new_slicer())
        """Answers most pulls at once; it knows neither what is not in memory nor a store that is closed."""

    def _new_slicer(self) -> Slicer:
        return Slicer(self._log.format.code == LITEMQ, self._log.format.queue_entry_size, odd_to_rocketmq)

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        max_count: int = 32,
        max_bytes: int = 1 << 18,
        tag_hashes: Collection[int] | None = None,
        max_scan: int = MAX_SCAN,
        head_room: int = 0,
        as_rocketmq: bool = True,
    ) -> Pulled | ColdPull:
        """Return messages of a queue from ``offset`` on whose tag has one of ``tag_hashes``, None: any.

        At most ``max_count`` of them in at most ``max_bytes`` as they are sent, but at least one whatever its size,
        found among ``max_scan`` entries.  With ``as_rocketmq`` the records are what remoting clients read, without it
        those of the log.  ``head_room`` bytes before them are free.  What is not in memory gives a ``ColdPull``.

        Raises:
            ReadFailed: the disk did not give the bytes.
        """
        tail = self.queue(topic, queue_id)
        if tail is None:
            first = self._tables.first_offset(topic, queue_id)
            return self._outside(offset, first, first, first, head_room)
        return self.pull_from(tail, offset, tag_hashes, max_count, max_bytes, max_scan, head_room, as_rocketmq)

    @asked
    def queue(self, topic: str, queue_id: int) -> QueueTail | None:
        """Return the queue for ``pull_from``, None when it never had a message; good until it ``is_gone``."""
        return self._queues.find(topic, queue_id)

    def pull_from(
        self,
        tail: QueueTail,
        offset: int,
        tag_hashes: Collection[int] | None,
        max_count: int,
        max_bytes: int,
        max_scan: int,
        head_room: int,
        as_rocketmq: bool,
    ) -> Pulled | ColdPull:
        """Do as ``pull`` for a queue that is known."""
        if not self._is_open:
            self.check_open()
        limits = (tag_hashes, max_count, max_bytes, max_scan, head_room, as_rocketmq)
        quick = self.quick
        try:
            found: Pulled | None = quick.pull(tail, offset, *limits)
            if found is not None:
                return found
            low, high = quick.low, quick.high
            if not low <= offset < high:
                return self._outside(offset, low, high, tail.next_offset, head_room)
            self.cold_reads += 1
            slicer = self._new_slicer()
            slicer.log_end = self._log.end
            slicer.begin(offset, high, *limits)
            parts = self._queues.parts(tail, offset, slicer.scan_end - offset)
            segments = list(self._log.segments)
            return ColdPull(slicer, offset, parts, self._queues.filler, segments, low, high, self._log.end)
        except OSError as error:
            raise read_error(error) from error

    def _outside(self, offset: int, low: int, high: int, appended: int, head_room: int) -> Pulled:
        """Return why nothing is read; what is appended but not readable yet is waited for."""
        status = PullStatus.AT_END
        going_on = offset
        if appended == 0:
            status, going_on = PullStatus.EMPTY, 0
        elif offset < low:
            status, going_on = PullStatus.TOO_SMALL, low
        elif offset > appended:
            status, going_on = PullStatus.TOO_LARGE, high
        return Pulled(bytearray(head_room), head_room, 0, going_on, low, high, status, True)

    def properties(self, pulled: Pulled) -> Iterator[dict[str, str]]:
        """Yield what clients see as the properties of each record; for filters that ask for more than a hash."""
        for place, size in pulled.places():
            record: bytes | None = bytes(pulled.buffer[place : place + size])
            if record is not None and not pulled.is_rocketmq:
                record = to_rocketmq(LITEMQ, record, stated_offset(LITEMQ_FORMAT, record))
            yield property_text.parse(properties_text(record or b""))

    def keep(self, pulled: Pulled, wanted: list[bool]) -> None:
        """Leave out of a pull what is not wanted; there is one answer for each record."""
        pulled.keep(wanted)
        self._note_kept(pulled)

    def keep_tags(self, pulled: Pulled, tags: frozenset[bytes]) -> None:
        """Leave out of a pull what only has the hash of one of ``tags``."""
        pulled.keep_tags(tags)
        self._note_kept(pulled)

    @staticmethod
    def _note_kept(pulled: Pulled) -> None:
        if not pulled.count and pulled.status is PullStatus.FOUND:
            pulled.status = PullStatus.NO_MATCH

    # -- times ---------------------------------------------------------------------------------------------------

    def search_offset(self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False) -> int:
        """Return the first offset stored at or after ``time_ms``; with ``upper`` the last at or before it.

        The nearest end of the queue stands for what is not there.
        """
        if not upper:
            return self.offset_at_time(topic, queue_id, time_ms)
        behind = self.offset_at_time(topic, queue_id, time_ms + 1)
        return max(behind - 1, self.min_offset(topic, queue_id))

    @asked
    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Return the store time of a queue's first message that is not damaged; -1 without one."""
        tail = self._queues.find(topic, queue_id)
        if tail is None:
            return -1
        return self._next_sound(tail, self.min_offset(topic, queue_id), self.max_offset(topic, queue_id))[1]

    # -- single records ------------------------------------------------------------------------------------------

    @asked
    def record_bytes(self, position: int, *, as_rocketmq: bool = True) -> bytes | None:
        """Return the record that starts at ``position``; None where no sound one does."""
        if not self._log.start <= position < self._readable_end():
            return None
        head = read_head(self._log.format, self._log.read(position, 8))
        row = self._row(position, head.size) if head.kind is Kind.RECORD else None
        if row is None:
            return None
        return to_rocketmq(self._log.format.code, row[0], position) if as_rocketmq else row[0]

    @asked
    def query(
        self,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        begin_ms: int = 0,
        end_ms: int = 1 << 63,
        limit: int = 64,
        max_bytes: int = 1 << 23,
    ) -> list[bytes]:
        """Return messages of a topic with this key, or ``unique`` id, as clients read them, the newest first.

        Their store time is from ``begin_ms`` to ``end_ms``, both included.  The first is there whatever its size.
        Of a key that very many messages share no more are looked at than one question may take.
        """
        check_text("topic", topic)
        check_text("key", key)
        found: dict[int, bytes] = {}
        total = 0
        reads = 0
        for step, (position, time_ms) in enumerate(self._index.entries(topic, key)):
            if len(found) >= limit or position < self._log.start:  # newest first: what follows is gone, too
                break
            if time_ms + _SECOND_MS < begin_ms or step >= _MAX_STEPS or reads >= _MAX_READS:
                break
            if time_ms > end_ms:
                continue
            reads += 1
            record = self._candidate(position)
            if record is None or record.topic != topic or self._is_dead(record):
                continue
            has_key = key == record.message_id if unique else key in record.keys
            if has_key and begin_ms <= (record.store_time or 0) <= end_ms:
                data = self.record_bytes(position)
                if data is not None:
                    total += len(data)
                    if found and total > max_bytes:
                        break
                    found[position] = data
        return list(found.values())
