"""Rebuild the derived files of a store in parts, which may be walked by many processes at the same time.

The files equal those of a rebuild in one walk.  A queue whose offsets follow each other from part to part gets its
entries from all of them; any other one, and those of deleted topics, are written by one walk over the whole log.
Everything is built in a folder of this run below ``rebuild.tmp/``; what swaps it in is ``rebuild``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import uuid4

from litemq.errors import StorageError
from litemq.format.queue_entry import BEFORE_START_SIZE, LAYOUTS, QueueEntry
from litemq.format.record import LITEMQ
from litemq.store import _queue_check_cy as kernel
from litemq.store.derived import INDEX, QUEUES, Derived, Rejected
from litemq.store.file_tree import remove_tree
from litemq.store.fs import FileSystem
from litemq.store.log_files import TMQ_INDEX
from litemq.store.log_parts import PART_BYTES, Part, Spread, as_one, can_be_cut, cut, grouped, mended, step_of
from litemq.store.log_walk import Damages, Log
from litemq.store.offline import BUILD
from litemq.store.queue_types import batch_topics, queue_folders
from litemq.store.rebuild import Build, Built, OneWalk, count_entries, format_of, keep_offsets
from litemq.store.rebuild_feed import BuildIndex, FeedParts, IndexBuilt, PartFed, Place, RebuildQueues
from litemq.store.rebuild_tmq import TMP, rebuild_stream
from litemq.store.tables import Tables
from litemq.store.verify_queues import files_of
from litemq.types import TopicQueue

Run = tuple[int, int]
"""First and next offset."""


@dataclass(slots=True)
class PartsBuilt:
    """What was built in parts."""

    records: int = 0
    end: int = 0
    newest_time: int = 0
    index_files: int = 0
    index_entries: int = 0
    damage: Damages = field(default_factory=Damages)
    rejected: Rejected = field(default_factory=Rejected)


class InParts:
    """Does a rebuild with ``spread``, in at least ``least`` tasks of at most ``most`` bytes of the log."""

    def __init__(self, spread: Spread, least: int, most: int = PART_BYTES) -> None:
        self._spread = spread
        self._least = least
        self._most = most
        self._counts: dict[Path, int] | None = None

    def rebuild_tmq(self, log: Log) -> tuple[int, Damages]:
        """Write every index file of a tmq tree anew, each replaced in one step."""
        for folder in (stream.folder for stream in log.files.streams if stream.folder is not None):
            for name in log.fs.names(folder):
                if name.startswith(TMQ_INDEX) and name.endswith(TMP):
                    log.fs.remove(folder / name)  # of a run that was killed
        count = len(log.files.streams)
        share = -(-count // self._least) or 1
        tasks = [partial(_rebuild_streams, log, range(count)[at : at + share]) for at in range(0, count, share)]
        found = self._spread(tasks)
        if log.store is not None:
            log.fs.sync_all(log.store)
        return sum(records for records, _ in found), Damages.of(damage for _, damage in found)

    def build(self, task: Build) -> Built:
        """Build below ``rebuild.tmp/``."""
        if not can_be_cut(task.log):
            return OneWalk().build(task)
        build = PartsBuild(task, self._spread, self._least, self._most)
        built = build.run()
        self._counts = build.counts
        return built

    def count(self, task: Build) -> tuple[int, int]:
        """Return how many queues there are now, and entries of records in them."""
        if self._counts is None:
            return OneWalk().count(task)
        return len(self._counts), sum(self._counts.values())


def _rebuild_streams(log: Log, numbers: range) -> tuple[int, Damages]:
    damage = Damages()
    mark = f".{uuid4().hex}"
    return sum(rebuild_stream(log, number, None, damage.add, mark) for number in numbers), damage


class PartsBuild:
    """One build of a log that can be cut."""

    def __init__(self, task: Build, spread: Spread, least: int, most: int) -> None:
        self.counts: dict[Path, int] = {}
        """Entries in each queue that was built, by its folder."""
        self.tables = Tables()
        """What the changes in the log add up to."""
        self._task = task
        self._log = task.log
        self._fs = task.log.fs
        self._format = format_of(task.log, task.store)
        self._spread = spread
        self._least = least
        self._step = step_of(task.log, least, most)
        self._parts = cut(task.log, self._step)
        self._now_ms = task.now_ms()
        self._place = self._new_place()

    def _new_place(self) -> Place:
        task = self._task
        return Place(
            *(self._log, task.store, task.store / BUILD / uuid4().hex, task.sizes, self._now_ms),
            *(frozenset(batch_topics(self._log)), task.with_queues, task.with_index),
        )

    def run(self) -> PartsBuilt:
        log, fs = self._log, self._fs
        try:
            fs.make_dirs(self._place.root, sync=False)
            fed, index = self._feed()
            log.first_positions[0] = log.files.streams[0].named_start
            log_end = next((one.end for one in reversed(fed) if one.end is not None), log.first_position)
            built = PartsBuilt(
                records=sum(one.records for one in fed),
                end=min((at for one in fed for at in one.torn), default=log_end),
                newest_time=max((one.newest_time for one in fed), default=0),
                damage=Damages.of(one.damage for one in fed),
                rejected=Rejected.of(one.rejected for one in fed),
            )
            if self._task.with_queues:
                self._finish_queues(fed)
            if index is not None:
                built.index_entries = sum(one.keys for one in fed)
                built.index_files = self._finish_index(fed, index)
            return built
        finally:
            self._end()

    def _end(self) -> None:
        """Take the folder away from tasks that may still run, such as a second one of a kind."""
        if self._fs.is_dir(self._place.root):
            self._fs.rename(self._place.root, self._place.root.with_name("over"))

    # -- the walk over the log ---------------------------------------------------------------------

    def _feed(self) -> tuple[list[PartFed], IndexBuilt | None]:
        """Walk over all parts; segments that were cut wrongly, or are damaged, are walked again as one."""
        tasks: list[Callable[[], IndexBuilt | list[PartFed]]] = []
        if self._task.with_index:
            tasks.append(BuildIndex(self._place, self._behind(0), 0))  # first, because it takes longest
        tasks += [FeedParts(self._place, some) for some in grouped(self._parts, self._step)]
        done = self._spread(tasks)
        index = next((one for one in done if isinstance(one, IndexBuilt)), None)
        fed = [one for found in done if isinstance(found, list) for one in found]
        broken = {part.segment for part, one in zip(self._parts, fed, strict=True) if not one.arrived}
        if broken:
            # Begun in the middle of something, a walk may have written entries that are none.
            self._fs.rename(self._place.root, self._place.root.with_name("first"))
            index = index and index.moved(self._place.root.with_name("first"))
            self._place = self._new_place()
            self._fs.make_dirs(self._place.root, sync=False)
            self._parts = mended(self._parts, broken)
            again = self._spread([FeedParts(self._place, some) for some in grouped(self._parts, self._step)])
            fed = [one for found in again for one in found]
        return fed, index

    def _behind(self, at: int) -> list[Part]:
        """Return the log from a part on, as one part for each segment."""
        segments = sorted({part.segment for part in self._parts[at:]})
        return [as_one([part for part in self._parts[at:] if part.segment == number]) for number in segments]

    # -- queues ------------------------------------------------------------------------------------

    def _finish_queues(self, fed: list[PartFed]) -> None:
        task, place, fs = self._task, self._place, self._fs
        derived = Derived(
            *(fs, place.root, self._format, task.sizes),
            now_ms=lambda: self._now_ms,
            batch_topics=place.batch_topics,
            with_index=False,
        )
        fs.make_dirs(place.root / QUEUES, sync=False)
        for change in (change for one in fed for change in one.changes):
            derived.apply(*change)
        self.tables = derived.tables
        regular, odd = joined(fed, frozenset(derived.tables.deletions.dead_below))
        for queue in odd:
            _remove_queue(fs, place.root / QUEUES, queue)
        if odd:
            (walked,) = self._spread([RebuildQueues(place, odd)])
            for topic, queue_id, folder in list(queue_folders(walked, fs)):
                fs.make_dirs(place.root / QUEUES / topic, sync=False)
                fs.rename(folder, place.root / QUEUES / topic / str(queue_id))
        for queue, (first, _) in regular.items():
            self._fill(queue, first)
        keep_offsets(self._log, task.store, derived, task.old_entries)
        self._count(regular)
        fs.rename(place.root / QUEUES, task.store / BUILD / QUEUES)

    def _fill(self, queue: TopicQueue, first: int) -> None:
        """Fill the space before a queue's first entry, as RocketMQ wants it."""
        layout = LAYOUTS[self._format.name]
        per_file = self._task.sizes.queue_entries
        if before := first % per_file:
            start = (first - before) * layout.size
            path = self._place.root / QUEUES / queue.topic / str(queue.queue_id) / f"{start:020d}"
            file = self._fs.open(path, write=True)
            try:
                file.write_at(layout.encode(QueueEntry(0, BEFORE_START_SIZE, 0, 0)) * before, 0)
            finally:
                file.close()

    def _count(self, regular: dict[TopicQueue, Run]) -> None:
        """Count the entries that are there, and compare them with those that were written.

        Raises:
            StorageError: a queue has fewer.
        """
        root = self._place.root / QUEUES
        kind = kernel.LITEMQ if self._format is LITEMQ else kernel.ROCKETMQ
        files = list(files_of(queue_folders(root, self._fs), self._fs, kind, LAYOUTS[self._format.name].size))
        share = -(-len(files) // self._least) or 1
        first = self._log.first_position
        tasks = [partial(count_entries, self._log, files[at : at + share], first) for at in range(0, len(files), share)]
        for found in self._spread(tasks):
            for folder, count in found.items():
                self.counts[folder] = self.counts.get(folder, 0) + count
        for queue, (low, high) in regular.items():
            there = self.counts.get(root / queue.topic / str(queue.queue_id), 0)
            if there != high - low:
                raise StorageError(
                    f"queue {queue.topic}/{queue.queue_id} should have {high - low} entries and has {there}: the disk "
                    "lost some, or another process writes there; nothing was replaced, run it again"
                )

    # -- the key index -----------------------------------------------------------------------------

    def _finish_index(self, fed: list[PartFed], first: IndexBuilt) -> int:
        """Build the files behind the first one, and put all of them together; return how many there are."""
        task, fs = self._task, self._fs
        folder = task.store / BUILD / INDEX
        fs.make_dirs(folder, sync=False)
        places = file_starts([one.keys for one in fed], task.sizes.index_entries - 1)
        more = self._spread([BuildIndex(self._place, self._behind(at), skip) for at, skip in places[1:]])
        paths = [one.path for one in (first, *more) if one.path is not None]
        if len(paths) != len(places):
            raise StorageError(f"{len(places)} index files should have been built, and {len(paths)} were; run it again")
        for number, path in enumerate(paths):
            # Names are times; one behind the other they keep the files in order.
            fs.rename(path, folder / f"{int(paths[0].name) + number:017d}")
        return len(paths)


def joined(fed: Iterable[PartFed], deleted: Container[str]) -> tuple[dict[TopicQueue, Run], set[TopicQueue]]:
    """Return the queues whose offsets follow each other through all parts, and those of which one walk must decide."""
    regular: dict[TopicQueue, Run] = {}
    odd: set[TopicQueue] = set()
    for part in fed:
        odd |= part.irregular
        for queue, (first, end) in part.runs.items():
            before = regular.get(queue)
            if before is not None and before[1] != first:
                odd.add(queue)
            regular[queue] = (first if before is None else before[0], end)
    odd |= {queue for queue in regular if queue.topic in deleted}
    return {queue: run for queue, run in regular.items() if queue not in odd}, odd


def file_starts(keys: list[int], per_file: int) -> list[tuple[int, int]]:
    """Return where each file of the key index begins: (index of a part, its entries that are in files before)."""
    found: list[tuple[int, int]] = []
    total = 0
    for at, count in enumerate(keys):
        while len(found) * per_file < total + count:
            found.append((at, len(found) * per_file - total))
        total += count
    return found


def _remove_queue(fs: FileSystem, root: Path, queue: TopicQueue) -> None:
    remove_tree(fs, root / queue.topic / str(queue.queue_id))
    if fs.is_dir(root / queue.topic) and not fs.names(root / queue.topic):
        fs.remove_dir(root / queue.topic)
