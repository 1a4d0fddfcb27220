"""ConsumeQueues: for each queue, fixed-width entries from queue offset to log position.

``consumequeue/{topic}/{queue}/{20 digits}``: files of ``queue_entries`` entries each, named by their first byte.
New entries wait in the queue's tail and are written out when there are enough of them or the store says so.
Everything here can be deleted and is rebuilt from the log.  An entry whose size is 0x7FFFFFFF stands for a message
that is not there: before the queue's start, or skipped because its record is damaged.

    crash while …       leaves                                          the next start
    writing out         entries behind the checkpoint, in any order     cuts them; the log feeds them again
    filling the space   some of it, perhaps without an entry behind     starts the queue where its first record, or
    before an entry                                                     the tables, say; keeps it where none do
    making a file       one of any length, without a synced entry       removes it
    zeroing what is     some of it; a file that is too short, where a   zeroes the rest, gives the file its
    cut off             file system zeroes by truncating                length back
    removing files      some of them; after a power cut older ones      removes them
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from litemq.errors import TopicUnusable
from litemq.format.limits import is_folder_name
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.format.queue_entry import BEFORE_START_SIZE, LAYOUTS, QueueEntry
from litemq.store._slice_cy import count_below
from litemq.store._tails_cy import QueueTail
from litemq.store.arguments import check_queue
from litemq.store.fs import File, FileSystem
from litemq.store.open_files import OpenFiles
from litemq.store.queue_files import EntryPart, QueueFiles, read_parts
from litemq.types import TopicQueue

Queues = dict[str, dict[int, QueueTail]]
"""Topic → queue id → tail."""

MAX_DIRTY = 4096
"""Tails that may wait with entries in no file: it bounds their memory, and how long writing all of them takes."""

_NEAR_ENTRIES = 1024
"""So many entries behind the last known end are looked at in one read."""

_CHUNK = 256
_MAX_CHUNKS = 512
"""Chunks of so many entries that are kept: 3 MiB."""

_LOOKED_AT_BYTES = 1 << 18
"""Up to so much is read before it is zeroed: most of it is zeros already."""


class ConsumeQueues:
    """All queues of a store.  Files are opened when needed and kept in a bounded cache."""

    def __init__(self, fs: FileSystem, root: Path, format_name: str, entries_per_file: int, open_files: int) -> None:
        self._fs = fs
        self._root = root
        self._layout = LAYOUTS[format_name]
        self._stride = self._layout.size
        self.filler = self._layout.encode(QueueEntry(0, BEFORE_START_SIZE, 0, 0))
        """Entry of a message that is not there."""
        self._file_bytes = entries_per_file * self._stride
        self._per_file = entries_per_file
        self._files: OpenFiles[tuple[QueueFiles, int]] = OpenFiles(open_files, self._open)
        self.public: Queues = {}
        """Loaded tails of topics that clients use."""
        self.reserved: Queues = {}
        """Loaded tails of LiteMQ's own topics."""
        self.dirty: dict[QueueTail, None] = {}
        """Tails that may have entries in no file yet, in the order in which they got them."""
        self.writes = 0
        self._chunks: OrderedDict[tuple[QueueTail, int], bytearray] = OrderedDict()

    # -- finding queues --------------------------------------------------------------------------

    def all(self) -> list[TopicQueue]:
        """Return every queue that has files or entries, sorted."""
        found = {
            TopicQueue(topic, queue_id) for topic in self._fs.names(self._root) for queue_id in self._ids_on_disk(topic)
        }
        for loaded in (self.public, self.reserved):
            found |= {TopicQueue(topic, queue) for topic, queues in loaded.items() for queue in queues}
        return sorted(found)

    def queues_of(self, topic: str) -> list[int]:
        """Return the queue ids of a topic that have files or entries."""
        return sorted({*self._ids_on_disk(topic), *self._loaded(topic)})

    def _ids_on_disk(self, topic: str) -> list[int]:
        return [int(name) for name in self._names(self._root / topic) if name.isascii() and name.isdigit()]

    def _names(self, directory: Path) -> list[str]:
        try:
            return self._fs.names(directory)
        except NotADirectoryError:  # a stranger's file among the queues
            return []

    def _loaded(self, topic: str) -> dict[int, QueueTail]:
        home = self.reserved if topic.startswith(RESERVED_TOPIC_PREFIX) else self.public
        return home.get(topic, {})

    def find(self, topic: str, queue_id: int) -> QueueTail | None:
        """Return the tail of a queue that exists, loading it when needed."""
        if type(topic) is not str or type(queue_id) is not int:
            check_queue(topic, queue_id)  # a "0" would name the same folder as 0, and get a tail of its own
        tail = self._loaded(topic).get(queue_id)
        if tail is None and is_folder_name(topic) is None:
            directory = self._root / topic / str(queue_id)
            starts = self._starts(directory)
            if starts:
                tail = self._load(topic, queue_id, QueueFiles(directory, starts))
        return tail

    def open(self, topic: str, queue_id: int, first_offset: int = 0) -> QueueTail:
        """Return the tail of a queue; a new one starts at ``first_offset``."""
        tail = self.find(topic, queue_id)
        if tail is None:
            reason = is_folder_name(topic)
            if reason is not None:
                raise TopicUnusable(topic, reason)
            files = QueueFiles(self._root / topic / str(queue_id), [])
            tail = QueueTail(topic, queue_id, self._stride, first_offset, files)
            self._register(tail)
        return tail

    def _starts(self, directory: Path) -> list[int]:
        return [int(name) for name in self._names(directory) if len(name) == 20 and name.isdigit()]

    def _register(self, tail: QueueTail) -> None:
        home = self.reserved if tail.topic.startswith(RESERVED_TOPIC_PREFIX) else self.public
        home.setdefault(tail.topic, {})[tail.queue_id] = tail

    def _load(self, topic: str, queue_id: int, files: QueueFiles) -> QueueTail:
        tail = QueueTail(topic, queue_id, self._stride, 0, files)
        next_offset = 0
        for start in reversed(files.starts):
            first = start // self._stride
            used = self._search(files, first, self._data_end(files, start), lambda entry: not entry.is_written)
            next_offset = used
            if used > first:
                break
        tail.next_offset = tail.opened_at = next_offset
        if next_offset > files.starts[0] // self._stride:
            tail.last_position = self._stored(files, next_offset - 1).position
        self._register(tail)
        return tail

    # -- entries ---------------------------------------------------------------------------------

    def _stored(self, files: QueueFiles, offset: int) -> QueueEntry:
        """Return the entry in the files; one that is not written where there is none."""
        at = offset * self._stride
        start = at - at % self._file_bytes
        if start not in files.starts:
            return QueueEntry(0, 0, 0)
        data = self._file(files, start).read_at(self._stride, at - start)
        if len(data) < self._stride:
            return QueueEntry(0, 0, 0)
        return self._layout.decode(data, 0)

    def _data_end(self, files: QueueFiles, start: int) -> int:
        """Return an offset of the file at ``start`` from which on nothing was ever written."""
        ranges = self._file(files, start).data_ranges(0)
        size = min(ranges[-1][1], self._file_bytes) if ranges else 0
        return (start + size + self._stride - 1) // self._stride

    def _search(self, files: QueueFiles, low: int, high: int, is_behind: Callable[[QueueEntry], bool]) -> int:
        """Return the first stored offset of ``low`` to ``high`` for which ``is_behind`` (false, then true)."""
        while low < high:
            middle = (low + high) // 2
            if is_behind(self._stored(files, middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def entries(self, tail: QueueTail, offset: int, count: int) -> bytes:
        """Return up to ``count`` raw entries from ``offset`` on; fewer at the end of the queue or of a file."""
        written = tail.next_offset - tail.used // self._stride
        count = min(count, tail.next_offset - offset)
        if count <= 0 or offset < 0:
            return b""
        if offset >= written:
            at = (offset - written) * self._stride
            return bytes(memoryview(tail.tail)[at : at + count * self._stride])
        at = offset * self._stride
        start = at - at % self._file_bytes
        if start not in tail.files.starts:
            return b""
        size = min(min(count, written - offset) * self._stride, start + self._file_bytes - at)
        return self._file(tail.files, start).read_at(size, at - start)

    def parts(self, tail: QueueTail, offset: int, count: int) -> list[EntryPart]:
        """Return where the ``count`` entries from ``offset`` on are, as far as the queue has them."""
        found = []
        written = tail.next_offset - tail.used // self._stride
        end = min(offset + count, tail.next_offset)
        while offset < min(end, written):
            at = offset * self._stride
            start = at - at % self._file_bytes
            size = min(min(end, written) * self._stride, start + self._file_bytes) - at
            file = self._file(tail.files, start) if start in tail.files.starts else None
            found.append(EntryPart(file, at - start, size))
            offset += size // self._stride
        if offset < end:
            at = (offset - written) * self._stride
            data = bytes(memoryview(tail.tail)[at : at + (end - offset) * self._stride])
            found.append(EntryPart(None, 0, len(data), data))
        return found

    def chunk(self, tail: QueueTail, offset: int) -> tuple[bytearray | None, int]:
        """Return stored entries among which that of ``offset`` is, and its place; None when they are not in memory.

        Whoever reads a backlog asks for the next ones soon.  Entries in a file do not change any more, so those that
        fill a chunk are kept.
        """
        number = offset // _CHUNK
        first = number * _CHUNK
        key = (tail, number)
        found = self._chunks.get(key)
        if found is None:
            written = tail.next_offset - tail.used // self._stride
            if first + _CHUNK > written:
                return read_parts(self.parts(tail, offset, written - offset), self.filler, nowait=True), 0
            found = read_parts(self.parts(tail, first, _CHUNK), self.filler, nowait=True)
            if found is None:
                return None, 0
            self._chunks[key] = found
            if len(self._chunks) > _MAX_CHUNKS:
                self._chunks.popitem(last=False)
        return found, (offset - first) * self._stride

    def entry(self, tail: QueueTail, offset: int) -> QueueEntry | None:
        """Return one entry; None where the queue has none."""
        data = self.entries(tail, offset, 1)
        return self._layout.decode(data, 0) if data else None

    def walk(self, tail: QueueTail, offset: int) -> Iterator[tuple[int, QueueEntry]]:
        """Yield (offset, entry) from ``offset`` to the end."""
        while data := self.entries(tail, offset, 1024):
            for at in range(0, len(data), self._stride):
                yield offset, self._layout.decode(data, at)
                offset += 1

    def first_offset(self, tail: QueueTail) -> int:
        """Return the first offset that the files hold, present or not."""
        if tail.files.starts:
            return int(tail.files.starts[0]) // self._stride
        return tail.next_offset - tail.used // self._stride

    def offset_at(self, tail: QueueTail, is_behind: Callable[[QueueEntry], bool], low: int = 0) -> int:
        """Return the first offset from ``low`` on whose entry ``is_behind`` (false, then true), else the end."""
        low, high = max(low, self.first_offset(tail)), tail.next_offset
        while low < high:
            middle = (low + high) // 2
            entry = self.entry(tail, middle)
            if entry is None or is_behind(entry):
                high = middle
            else:
                low = middle + 1
        return low

    def min_offset(self, tail: QueueTail, log_start: int) -> int:
        """Return the first offset whose record is still in a log that starts at ``log_start``."""
        files: QueueFiles = tail.files
        if files.min_offset_start != log_start or files.min_offset < 0:
            # A damaged record's entry counts, wherever it stands: a search by halves may meet it first.
            files.min_offset = self.offset_at(
                tail, lambda entry: entry.position >= log_start and not entry.is_before_start
            )
            files.min_offset_start = log_start
        return files.min_offset

    def end_offset(self, tail: QueueTail, end: int) -> int:
        """Return the offset behind the last entry whose record lies before position ``end``."""
        if tail.last_position < end:
            return int(tail.next_offset)
        files: QueueFiles = tail.files
        if not 0 <= files.end_asked <= end:
            offset = self.offset_at(tail, lambda entry: entry.position >= end)
        elif end <= files.end_position:
            return files.end_offset
        else:
            offset = self._end_from(tail, files.end_offset, end)
        found = self.entry(tail, offset)
        if found is not None:
            files.end_asked, files.end_offset, files.end_position = end, offset, found.position
        return offset

    def _end_from(self, tail: QueueTail, low: int, end: int) -> int:
        """Do as ``end_offset`` when it is not below ``low``, and probably not far from it."""
        near = read_parts(self.parts(tail, low, _NEAR_ENTRIES), self.filler, nowait=False)
        assert near is not None  # only a read that must not wait gives None
        below: int = count_below(near, self._stride, end)
        if below < len(near) // self._stride:
            return low + below
        return self.offset_at(tail, lambda entry: entry.position >= end, low + below)

    # -- writing out -----------------------------------------------------------------------------

    def note_dirty(self, tails: list[QueueTail]) -> None:
        """Remember tails that hold entries in no file; the list is emptied."""
        for tail in tails:
            self.dirty[tail] = None
        tails.clear()

    def write_out(self, tail: QueueTail) -> None:
        """Write the tail's entries into the queue's files; not synced."""
        if not tail.used:
            return
        at = (tail.next_offset - tail.used // self._stride) * self._stride
        data = memoryview(bytes(memoryview(tail.tail)[: tail.used]))
        while data:
            start = at - at % self._file_bytes
            if start not in tail.files.starts:
                self._make(tail.files, start, at)
            size = min(len(data), start + self._file_bytes - at)
            self._file(tail.files, start).write_at(data[:size], at - start)
            self.writes += 1
            data = data[size:]
            at += size
        tail.take()  # only now: a failed write leaves the entries where readers find them

    def write_out_all(self) -> None:
        """Write every dirty tail."""
        self._write_out_oldest(len(self.dirty))

    def write_out_most(self) -> None:
        """Write the oldest dirty tails when there are too many."""
        self._write_out_oldest(len(self.dirty) - MAX_DIRTY)

    def _write_out_oldest(self, count: int) -> None:
        for _ in range(count):
            tail = next(iter(self.dirty))
            self.write_out(tail)
            del self.dirty[tail]

    def _make(self, files: QueueFiles, start: int, first: int) -> None:
        """Make the file at ``start`` whose first entry is at byte ``first``."""
        self._fs.make_dirs(files.directory, sync=False)  # a checkpoint syncs all of it
        path = files.path(start)
        self._fs.remove(path)  # a real RocketMQ that is refused the lock has made queue files before it gives up
        file = self._fs.create(path, self._file_bytes)
        file.read_ahead(False)
        if first > start:
            # Offsets that this queue never had here: RocketMQ wants the space before the first one filled.
            file.write_at(self.filler * ((first - start) // self._stride), 0)
        files.starts.append(start)
        files.starts.sort()
        self._files.put((files, start), file)

    # -- cutting ---------------------------------------------------------------------------------

    def truncate(self, tail: QueueTail, next_offset: int) -> None:
        """Forget every entry from ``next_offset`` on, in files too: bytes of the past must not come back."""
        written = tail.next_offset - tail.used // self._stride
        keep = max(0, next_offset - written)
        entries = tail.take()[: keep * self._stride]
        tail.next_offset = min(written, next_offset)
        files: QueueFiles = tail.files
        self._clear_from(files, next_offset)
        for i in range(0, len(entries), self._stride):
            entry = self._layout.decode(entries, i)
            tail.add_entry(entry.position, entry.size, entry.tag_hash, entry.store_time or 0)
        if tail.used:
            self.dirty[tail] = None
        last = self.entry(tail, tail.next_offset - 1) if tail.next_offset > self.first_offset(tail) else None
        tail.last_position = last.position if last else -1
        files.forget()
        self._forget_chunks(tail)

    def _clear_from(self, files: QueueFiles, next_offset: int) -> None:
        """Remove all entries from ``next_offset`` on from the files; the first file stays."""
        at = next_offset * self._stride
        for start in list(files.starts):
            if start >= at and start != files.starts[0]:
                self._drop(files, start)
            elif start + self._file_bytes > at:
                self._clear_rest(self._file(files, start), max(at - start, 0))

    def _clear_rest(self, file: File, at: int) -> None:
        # Not by truncating: a crash would leave a file that a real RocketMQ refuses.
        for first, last in file.data_ranges(at):
            start = max(first, at)
            if last - start > _LOOKED_AT_BYTES or any(file.read_at(last - start, start)):
                file.zero(start, last - start)

    def cut_at(self, position: int, is_sound: Callable[[TopicQueue, int, QueueEntry], bool]) -> None:
        """Drop the entries of every queue that point at or behind ``position``.

        After an unclean stop anything may follow the entries that were synced: holes, half entries, stale ones.
        So the boundary is searched again below a place that does not rise, and the last entry must be ``is_sound``.
        """
        for queue in self.all():
            directory = self._root / queue.topic / str(queue.queue_id)
            starts = self._starts(directory)
            if not starts or is_folder_name(queue.topic) is not None:
                continue
            files = QueueFiles(directory, starts)
            self._drop_leftovers(queue, files, position, is_sound)
            end = self._sound_end(queue, files, position, is_sound)
            tail = QueueTail(queue.topic, queue.queue_id, self._stride, end, files)
            self._register(tail)
            first = starts[0] // self._stride
            last = self._stored(files, end - 1) if end > first else None
            if last is None or (last.is_before_start and not self._is_filled(files, end)):
                # Nothing of it was synced, not even what fills the space before its first entry: it starts anew.
                self._drop_queue(tail)
                continue
            tail.last_position = last.position
            self._clear_from(files, end)
            newest = self._file(files, files.starts[-1])
            if newest.size() < self._file_bytes:
                newest.truncate(self._file_bytes)

    def _is_filled(self, files: QueueFiles, end: int) -> bool:
        """Return whether nothing but fillers stands before offset ``end``: without a hole they may have been synced."""
        for start in files.starts:
            count = min(end * self._stride - start, self._file_bytes) // self._stride
            if count > 0 and self._file(files, start).read_at(count * self._stride, 0) != self.filler * count:
                return False
        return True

    def _sound_end(
        self,
        queue: TopicQueue,
        files: QueueFiles,
        position: int,
        is_sound: Callable[[TopicQueue, int, QueueEntry], bool],
    ) -> int:
        """Return the offset behind the last entry that points before ``position`` and is sound."""

        def is_behind(entry: QueueEntry) -> bool:
            return not entry.is_written or entry.position >= position

        low = files.starts[0] // self._stride
        end = self._search(files, low, self._data_end(files, files.starts[-1]), is_behind)
        while end > low:
            last = self._stored(files, end - 1)
            before = self._stored(files, end - 2) if end - 2 >= low else None
            if before is not None and (is_behind(before) or before.position > last.position):
                end = self._search(files, low, end - 1, is_behind)
            elif last.size == BEFORE_START_SIZE or is_sound(queue, end - 1, last):
                break
            else:
                end -= 1
        return end

    def _drop_leftovers(
        self,
        queue: TopicQueue,
        files: QueueFiles,
        position: int,
        is_sound: Callable[[TopicQueue, int, QueueEntry], bool],
    ) -> None:
        """Remove files before a hole when what follows it was synced.

        Retention removes files without syncing their directory, so a power cut may bring back an older one alone.
        """
        for number in range(len(files.starts) - 1, 0, -1):
            start = files.starts[number]
            if files.starts[number - 1] + self._file_bytes == start:
                continue
            first = start // self._stride
            first = self._search(files, first, first + self._per_file, lambda entry: entry.size != BEFORE_START_SIZE)
            entry = self._stored(files, first)
            if entry.is_written and entry.position < position and is_sound(queue, first, entry):
                for older in files.starts[:number]:
                    self._drop(files, older)
                return

    def is_empty(self, tail: QueueTail) -> bool:
        """Return whether no message has an entry, though the space before the first one may be filled."""
        if tail.used or not tail.files.starts:
            return not tail.used
        last = self.entry(tail, tail.next_offset - 1)
        return last is None or last.is_before_start

    def start_at(self, tail: QueueTail, offset: int) -> None:
        """Let an empty queue start at ``offset``, whatever its files say."""
        files: QueueFiles = tail.files
        for start in list(files.starts):
            self._drop(files, start)
        tail.next_offset = offset
        tail.last_position = -1
        files.forget()
        self._forget_chunks(tail)

    def drop_oldest(self, tail: QueueTail, offset: int) -> bool:
        """Remove the first file when its entries are all below ``offset``, never the last one; return whether."""
        files: QueueFiles = tail.files
        if len(files.starts) < 2 or files.starts[0] + self._file_bytes > offset * self._stride:
            return False
        self._drop(files, files.starts[0])
        files.min_offset_start = -1
        return True

    def trim(self, log_start: Callable[[], int]) -> Iterator[None]:
        """Remove all files that lead only to what lies before the log's start: one look or one file a step.

        There may be time between steps, in which queues and the log's start change.
        """
        for topic in self._fs.names(self._root):
            for queue_id in self._ids_on_disk(topic):
                yield
                tail = self._loaded(topic).get(queue_id)
                starts = tail.files.starts if tail else self._starts(self._root / topic / str(queue_id))
                if len(starts) < 2:
                    continue  # not worth loading: the last file never goes
                tail = self.find(topic, queue_id)
                lowest = self.min_offset(tail, log_start()) if tail else 0
                while tail and self.drop_oldest(tail, lowest):
                    yield

    def drop_topic(self, topic: str) -> None:
        """Remove a topic's queues with their files."""
        for queue_id in self.queues_of(topic):
            self._drop_queue(self.open(topic, queue_id))
        self._remove_empty(self._root / topic)
        self.public.pop(topic, None)
        self.reserved.pop(topic, None)

    def _drop_queue(self, tail: QueueTail) -> None:
        tail.is_gone = True
        self._forget_chunks(tail)
        self._loaded(tail.topic).pop(tail.queue_id, None)  # first: where a file cannot be removed, it is loaded anew
        tail.take()
        for start in list(tail.files.starts):
            self._drop(tail.files, start)
        self._remove_empty(tail.files.directory)

    def _forget_chunks(self, tail: QueueTail) -> None:
        for key in [key for key in self._chunks if key[0] is tail]:
            del self._chunks[key]

    def _remove_empty(self, directory: Path) -> None:
        if self._fs.is_dir(directory) and not self._fs.names(directory):  # a stranger's file keeps its directory
            self._fs.remove_dir(directory)

    # -- files -----------------------------------------------------------------------------------

    def _drop(self, files: QueueFiles, start: int) -> None:
        self._files.drop((files, start))
        self._fs.remove(files.path(start))
        files.starts.remove(start)

    def _open(self, key: tuple[QueueFiles, int]) -> File:
        files, start = key
        file = self._fs.open(files.path(start), write=True)
        file.read_ahead(False)  # most of a file is a hole
        return file

    def _file(self, files: QueueFiles, start: int) -> File:
        return self._files.get((files, start))

    def close(self) -> None:
        """Close all files; tails are not written by this."""
        self._files.clear()
