"""Tasks of a rebuild in parts: each walks over some of the log and writes what follows from it below a folder.

A queue's entry has its place, whoever writes it, so that tasks write into the same files, and a task that is done
twice writes the same bytes twice.  Files of the key index depend on every entry before: each is one task's, in a
folder of its own.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from litemq.format import rows
from litemq.store._tails_cy import IndexTail, QueueTail
from litemq.store.deletions import has_changes
from litemq.store.derived import INDEX, QUEUES, Feeder, LooseQueues, Rejected, Sizes
from litemq.store.dispatcher import MAX_OFFSET, keys_only
from litemq.store.fs import File, FileSystem
from litemq.store.key_index import KeyIndex
from litemq.store.log_parts import Part, PartWalk
from litemq.store.log_walk import Damages, Log
from litemq.store.queue_files import QueueFiles
from litemq.store.rebuild import Rebuild, format_of
from litemq.types import TopicQueue

_OPEN_FILES: Final = 256
_ROWS_BETWEEN_WRITES: Final = 1 << 20
_ENDLESS: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rebuild builds, and what."""

    log: Log
    store: Path
    root: Path
    """A folder of this run alone; a task that finds it gone belongs to a run that is over."""
    sizes: Sizes
    now_ms: int
    batch_topics: frozenset[str]
    with_queues: bool
    with_index: bool


@dataclass(slots=True)
class PartFed:
    """What a part of the log gave."""

    records: int = 0
    newest_time: int = 0
    keys: int = 0
    """Entries of the key index."""
    damage: Damages = field(default_factory=Damages)
    torn: list[int] = field(default_factory=list)
    arrived: bool = False
    end: int | None = None
    runs: dict[TopicQueue, tuple[int, int]] = field(default_factory=dict)
    """First and next offset of each queue that got entries."""
    irregular: set[TopicQueue] = field(default_factory=set)
    """Queues whose offsets do not follow each other."""
    changes: list[tuple[bytes, int, int | None]] = field(default_factory=list)
    """Body, position and first position of each change."""
    rejected: Rejected = field(default_factory=Rejected)


@dataclass(frozen=True, slots=True)
class FeedParts:
    """A task: write the queue entries of some parts, and count what the key index gets of them."""

    place: Place
    parts: Sequence[Part]

    def __call__(self) -> list[PartFed]:
        check_there(self.place)
        return [self._feed(part) for part in self.parts]

    def _feed(self, part: Part) -> PartFed:
        place = self.place
        found = PartFed()
        log, fmt = place.log, format_of(place.log, place.store)
        queues = _SharedQueues(log.fs, place.root / QUEUES, fmt.name, place.sizes.queue_entries, _OPEN_FILES)
        feeder = _PartFeeder(queues, _KeyCount(place), place, found)
        if has_changes(fmt):
            feeder.on_change = lambda body, position, origin: found.changes.append((body, position, origin))
        walk, waiting = PartWalk(log, part), 0
        try:
            for batch in walk:
                if not place.with_index:
                    drop_keys(batch.table, batch.count)
                feeder.feed(batch.view, batch.table, batch.count)
                found.records += batch.count
                times = batch.table[rows.STORE_TIME : batch.count * rows.WIDTH : rows.WIDTH]
                found.newest_time = max(found.newest_time, *times)
                waiting += batch.count
                if waiting >= _ROWS_BETWEEN_WRITES:
                    waiting = 0
                    queues.write_out_all()
            queues.write_out_all()
        finally:
            queues.close()
        found.runs = {
            TopicQueue(tail.topic, tail.queue_id): (tail.opened_at, tail.next_offset)
            for home in (queues.public, queues.reserved)
            for tails in home.values()
            for tail in tails.values()
            if tail.next_offset > tail.opened_at
        }
        found.rejected = feeder.rejected
        found.keys = feeder.index.tail.count - 1
        found.damage, found.torn = log.damage, walk.torn
        found.arrived, found.end = walk.arrived, walk.end
        return found


def drop_keys(table: array[int], count: int) -> None:
    """Leave rows without anything that would be indexed."""
    for column in (rows.ID_SIZE, rows.KEYS_SIZE):
        table[column : count * rows.WIDTH : rows.WIDTH] = array("q", bytes(8 * count))


def check_there(place: Place) -> None:
    """Refuse to work for a run that is over.

    Raises:
        FileNotFoundError: it is.
    """
    if not place.log.fs.is_dir(place.root):
        raise FileNotFoundError(2, "the run that wanted it is over", str(place.root))


class _SharedQueues(LooseQueues):
    """Queues into whose files other tasks write at the same time."""

    def find(self, topic: str, queue_id: int) -> QueueTail | None:
        """Return the tail of a queue that had a record here; files are others' business."""
        return self._loaded(topic).get(queue_id)

    def _make(self, files: QueueFiles, start: int, first: int) -> None:
        for folder in (self._root, files.directory.parent, files.directory):
            if not self._fs.is_dir(folder.parent):
                raise FileNotFoundError(2, "the run that wanted it is over", str(folder.parent))
            self._fs.make_dirs(folder, sync=False)
        file = shared_file(self._fs, files.path(start), self._file_bytes)
        file.read_ahead(False)
        files.starts.append(start)
        files.starts.sort()
        self._files.put((files, start), file)


def shared_file(fs: FileSystem, path: Path, size: int) -> File:
    """Open a file of ``size`` bytes that several may make at the same time; it never gets shorter."""
    try:
        return fs.create(path, size)
    except FileExistsError:
        file = fs.open(path, write=True)
        if file.size() < size:
            file.truncate(size)
        return file


class _KeyCount(KeyIndex):
    """Counts entries and keeps none."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.log.fs, place.root, 1, _ENDLESS)

    def write_tail(self, now_ms: int) -> None:
        """Forget the entries."""
        self.tail.tail = bytearray()
        self.tail.used = 0


class _PartFeeder(Feeder):
    """Feeds the entries of one part: a queue begins where its first record here says, and what is odd is noted."""

    def __init__(self, queues: LooseQueues, index: KeyIndex, place: Place, found: PartFed) -> None:
        super().__init__(
            queues,
            index,
            now_ms=lambda: place.now_ms,
            first_offset=lambda _topic, _queue: 0,
            has_batch_queues=lambda topic: topic in place.batch_topics,
            log_start=lambda: 0,
        )
        self.wants_queue = lambda _topic, _queue: place.with_queues
        self.rejected = Rejected()
        self._found = found

    def _mend(self, tails: list[QueueTail | None], table: array[int], row: int, damage_position: int) -> None:
        tail = tails[row]
        assert tail is not None
        offset = table[row * rows.WIDTH + rows.QUEUE_OFFSET]
        if not 0 <= offset < MAX_OFFSET:
            super()._mend(tails, table, row, damage_position)
        elif not tail.files.starts and not tail.used:
            tail.next_offset = tail.opened_at = offset
        else:
            self._found.irregular.add(TopicQueue(tail.topic, tail.queue_id))
            tails[row] = keys_only(tail.topic, tail.queue_id)


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """One file of the key index."""

    path: Path | None
    """None: there was no key for it."""
    is_full: bool

    def moved(self, root: Path) -> IndexBuilt:
        """Return the same file below another name of its run's folder."""
        return self if self.path is None else replace(self, path=root / self.path.parent.name / self.path.name)


@dataclass(frozen=True, slots=True)
class BuildIndex:
    """A task: write one file of the key index."""

    place: Place
    parts: Sequence[Part]
    """The log from where the file begins, or a little before, to its end: one part for each segment."""
    skip: int
    """Entries from there on that are in the file before."""

    def __call__(self) -> IndexBuilt:
        place = self.place
        check_there(place)
        log, sizes = place.log, place.sizes
        folder = place.root / f"{INDEX}-{uuid4().hex}"
        index = _OneFile(log.fs, folder, sizes.index_slots, sizes.index_entries, self.skip)
        feeder = _KeyFeeder(index, place)
        is_full = False
        try:
            for part in self.parts:
                for batch in log.part(part.segment, part.start, part.end):
                    feeder.feed(batch.view, batch.table, batch.count)
        except _Full:
            is_full = True
        try:
            index.write_slots(place.now_ms)
        finally:
            index.close()
        names = log.fs.names(folder)
        return IndexBuilt(folder / names[0] if names else None, is_full)


class _KeyFeeder(_PartFeeder):
    """Feeds keys and no queue."""

    def __init__(self, index: KeyIndex, place: Place) -> None:
        nowhere = LooseQueues(place.log.fs, place.root, format_of(place.log, place.store).name, 1, 1)
        super().__init__(nowhere, index, place, PartFed())
        self.wants_queue = lambda _topic, _queue: False


class _Full(Exception):
    """The file is full, and another entry follows."""


class _OneFile(KeyIndex):
    """One file of a key index, behind entries that are in others."""

    def __init__(self, fs: FileSystem, directory: Path, slots: int, entries: int, skip: int) -> None:
        super().__init__(fs, directory, slots, entries)
        self._is_skipping = skip > 0
        if skip:
            self.tail = IndexTail(1, skip + 1)

    def write_tail(self, now_ms: int) -> None:
        """Write new entries, or forget those that are in another file."""
        if self._is_skipping:
            self.tail.tail = bytearray()
            self.tail.used = 0
        else:
            super().write_tail(now_ms)

    def roll(self, now_ms: int) -> None:
        """Go on to the file's own entries, or end."""
        if not self._is_skipping:
            raise _Full
        keys_done = self.tail.keys_done
        self._is_skipping = False
        self.tail = IndexTail(self._slots, self._entries)
        self.tail.keys_done = keys_done


@dataclass(frozen=True, slots=True)
class RebuildQueues:
    """A task: write some queues in one walk over the whole log, as the rebuild in one walk does."""

    place: Place
    queues: Container[TopicQueue]

    def __call__(self) -> Path:
        place = self.place
        check_there(place)
        root = place.root / f"{QUEUES}-{uuid4().hex}"
        Rebuild(
            *(place.log, place.store, place.sizes, lambda: place.now_ms),
            with_queues=True,
            with_index=False,
            wants_queue=lambda topic, queue_id: TopicQueue(topic, queue_id) in self.queues,
            root=root,
        ).run(None)
        return root / QUEUES
