"""Mend a store: cut its torn tail, and rebuild queues and index where they disagree with the log.

The bytes of a torn tail are saved under ``repair/`` before they are zeroed.  After an unclean stop bytes behind a
hole of zeros at the log's end are treated the same way: they were never part of the log, and must not become part
of it when the log grows over them.  Corrupt records stay where they are.

    crash while …        leaves                                  running it again
    saving the tail      a part of a copy, as ``.tmp``           saves it again
    zeroing the tail     some of the tail, and the whole copy    saves and cuts the rest
    rebuilding           see ``offline``                         rebuilds
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from litemq.clock import Clock, SystemClock
from litemq.format.record import TMQ
from litemq.store.convert_source import OnBatch
from litemq.store.derived import INDEX, QUEUES, Sizes
from litemq.store.frames import HEAD_SIZE, Kind, read_head
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.layout import Paths
from litemq.store.log_walk import Log, open_log
from litemq.store.offline import Swap, check_movable, cleared_build, held, open_store
from litemq.store.queue_types import queue_folders
from litemq.store.rebuild import Rebuild, found_sizes
from litemq.store.rebuild_tmq import agrees, rebuild_stream
from litemq.store.repair_queues import can_agree, disagreeing_queues
from litemq.store.segment_walk import Damage, Window
from litemq.store.verify import VerifyReport, verify_log
from litemq.types import TopicQueue

JsonValue = int | bool | list[dict[str, int]]

_WINDOW = 1 << 20


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes that are no record and must go."""

    position: int
    size: int
    path: Path
    """The segment."""
    place: int
    """Where they begin in it."""
    folder: Path
    """Where they are saved."""


@dataclass(slots=True)
class RepairReport:
    """What ``litemq store repair`` prints."""

    cut: list[Cut] = field(default_factory=list)
    corrupt: int = 0
    queues_rebuilt: int = 0
    index_rebuilt: bool = False
    is_ok: bool = True
    """Whether a verify would now find nothing."""

    @property
    def has_work(self) -> bool:
        return bool(self.cut or self.queues_rebuilt or self.index_rebuilt)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that the CLI prints."""
        return {
            "cut": [{"position": cut.position, "bytes": cut.size} for cut in self.cut],
            "corrupt": self.corrupt,
            "queues_rebuilt": self.queues_rebuilt,
            "index_rebuilt": self.index_rebuilt,
            "ok": self.is_ok,
        }


def repair(
    path: Path | str,
    *,
    dry_run: bool = False,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    on_batch: OnBatch | None = None,
) -> RepairReport:
    """Mend the store at ``path``; durable on return.  With ``dry_run`` only say what would be done.

    Raises:
        BadStore: it is no store directory; nothing changed.
        StoreInUse: another process has it open.
    """
    fs = fs or OsFileSystem()
    clock = clock or SystemClock()
    log, store = open_store(path, fs)
    if dry_run:
        return _Repair(log, store, clock.now_ms).foretell(on_batch)
    if log.format is TMQ or log.files.is_tree:  # no broker writes these: there is nothing to hold
        return _Repair(log, store, clock.now_ms).run(on_batch)
    with held(fs, store), cleared_build(fs, store):
        return _Repair(open_log(path, fs=fs, live=False), store, clock.now_ms).run(on_batch)


class _Repair:
    def __init__(self, log: Log, store: Path, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._fs = log.fs
        self._store = store
        self._paths = Paths(store)
        self._now_ms = now_ms
        self._queues: set[TopicQueue] = set()
        self._streams: list[int] = []
        self._are_queues_ok = True
        self._sizes = Sizes()

    def foretell(self, on_batch: OnBatch | None) -> RepairReport:
        """Say what ``run`` would; nothing is changed."""
        report = self._plan(on_batch)
        if report.has_work:
            report.is_ok = not report.corrupt and (self._are_queues_ok or self._can_queues_agree())
        return report

    def _can_queues_agree(self) -> bool:
        return self._log.format is TMQ or can_agree(self._log, self._store)

    def _plan(self, on_batch: OnBatch | None) -> RepairReport:
        """Find out what is wrong, and whether all is well when there is nothing that can be done."""
        log = self._log
        self._queues, self._streams = set(), []
        found = verify_log(log, on_batch=on_batch)
        report = RepairReport(self._cuts(found), found.damage.corrupt)
        report.index_rebuilt = found.index is not None and not found.index.is_ok
        self._are_queues_ok = found.consume_queue is None or found.consume_queue.is_ok
        if not self._are_queues_ok:
            if log.format is TMQ:
                self._streams = [number for number in range(len(log.files.streams)) if not agrees(log, number)]
                report.queues_rebuilt = len(self._streams)
            else:
                self._queues = disagreeing_queues(log, self._store)
                report.queues_rebuilt = len(self._queues)
        report.is_ok = found.is_ok
        return report

    def run(self, on_batch: OnBatch | None) -> RepairReport:
        self._sizes = found_sizes(self._log, self._store)
        report = self._plan(on_batch)
        replaced = {QUEUES: bool(self._queues), INDEX: report.index_rebuilt}
        check_movable(self._fs, self._store, {part for part, is_replaced in replaced.items() if is_replaced})
        for cut in report.cut:
            self._save(cut)
            self._zero(cut)
        if report.has_work:
            self._rebuild(report)
            report.is_ok = verify_log(self._reopened()).is_ok
        if self._fs.exists(self._paths.abort):
            self._fs.sync_all(self._store)  # what a killed process wrote may still wait for the disk
            self._fs.remove(self._paths.abort)
            self._fs.sync_dir(self._store)
        return report

    def _reopened(self) -> Log:
        format_name = None if self._log.format is None else self._log.format.name
        return open_log(self._store, format_name, self._fs, live=False)

    # -- the torn tail ---------------------------------------------------------------------------

    def _cuts(self, found: VerifyReport) -> list[Cut]:
        torn = [damage for damage in found.damage.listed if damage.kind == "torn"]
        if len(torn) < found.damage.torn:  # so much damage that not all of it was listed
            torn = self._all_torn()
        cuts = [self._cut(damage.file.path, damage.start, damage.position, damage.size) for damage in torn]
        if not cuts and self._fs.exists(self._paths.abort) and self._log.format is not TMQ:
            cuts = self._behind_the_end()
        return cuts

    def _all_torn(self) -> list[Damage]:
        torn: list[Damage] = []
        for _ in self._log.batches(on_damage=lambda damage: torn.append(damage) if damage.kind == "torn" else None):
            pass
        return torn

    def _cut(self, path: Path, start: int, position: int, size: int) -> Cut:
        # Positions of a tmq tree are those of a queue: each queue keeps its own.
        home = path.parent if self._log.files.is_tree else self._store
        return Cut(position, size, path, position - start, home / "repair")

    def _behind_the_end(self) -> list[Cut]:
        """Return what stands behind the zeros at which the log ends."""
        fmt = self._log.format
        reached = [found for found in self._log.reached[0] if found.end > found.start] if self._log.reached else []
        if fmt is None or not reached:
            return []
        last = reached[-1]
        file = self._fs.open(last.segment.path)
        try:
            window = Window(file, file.size(), bytearray())
            at = last.end - last.start
            if read_head(fmt, window.read(at, HEAD_SIZE)).kind is not Kind.NOTHING:
                return []
            size = window.end_of_written(at) - at
        finally:
            file.close()
        return [self._cut(last.segment.path, last.start, last.end, size)] if size else []

    def _save(self, cut: Cut) -> None:
        """Copy the bytes aside; an older copy of the same place stays, for it may be the more complete one."""
        self._fs.make_dirs(cut.folder)
        name = f"{cut.position:020d}"
        new = cut.folder / f"{name}.tmp"
        self._fs.remove(new)
        source = self._fs.open(cut.path)
        copy = self._fs.create(new, 0)
        try:
            for at in range(0, cut.size, _WINDOW):
                copy.write_at(source.read_at(min(_WINDOW, cut.size - at), cut.place + at), at)
            copy.sync()  # before the tail is zeroed: the bytes are evidence
        finally:
            copy.close()
            source.close()
        names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))
        self._fs.rename(new, next(cut.folder / free for free in names if not self._fs.exists(cut.folder / free)))
        self._fs.sync_dir(cut.folder)

    def _zero(self, cut: Cut) -> None:
        file = self._fs.open(cut.path, write=True)
        try:
            file.zero(cut.place, cut.size)
            file.sync()
        finally:
            file.close()

    # -- derived files ---------------------------------------------------------------------------

    def _rebuild(self, report: RepairReport) -> None:
        log = self._log = self._reopened()
        if log.format is TMQ:
            for number in self._streams:
                rebuild_stream(log, number)
            self._fs.sync_all(self._store)
            return
        built = Rebuild(
            log,
            self._store,
            self._sizes,
            self._now_ms,
            with_queues=bool(self._queues),
            with_index=report.index_rebuilt,
            wants_queue=lambda topic, queue_id: TopicQueue(topic, queue_id) in self._queues,
        )
        built.run(None)
        built.keep_offsets(self._sizes.queue_entries)
        swap = Swap(
            self._fs, self._store, first_position=log.first_position, end=built.end, newest_time=built.newest_time
        )
        swap.begin()
        for topic, queue_id, folder in list(queue_folders(self._store / QUEUES, self._fs)):
            if TopicQueue(topic, queue_id) in self._queues:
                swap.put_away(QUEUES, topic, folder.name)  # not by its number: ``0`` and ``00`` are the same
        parts: list[tuple[str, ...]] = [(QUEUES, queue.topic, str(queue.queue_id)) for queue in self._queues]
        if report.index_rebuilt:
            parts.append((INDEX,))
        for part in parts:
            swap.put_away(*part)  # also what is no folder
            swap.put_in(*part)
        swap.finish(is_complete=True, keep_abort=False)
