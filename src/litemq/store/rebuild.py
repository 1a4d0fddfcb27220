"""Write the consume queues and the key index of a store anew, from its log alone.

Deletions and min offsets in the log are honoured as a live store honours them.  A queue that has no record in the log
any more keeps its next offset: the log does not say it, and consumers stand on it.  ``batchconsumequeue/`` is left
alone.  New files are built aside and swapped in at the end (``offline``).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Literal, Protocol

from litemq.clock import Clock, SystemClock
from litemq.format import index_file, rows
from litemq.format.record import FORMATS, LITEMQ, TMQ, Format
from litemq.store import _queue_check_cy as kernel
from litemq.store import snapshot
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.convert_source import OnBatch
from litemq.store.derived import INDEX, QUEUES, Derived, Rejected, Sizes
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.layout import Paths
from litemq.store.log_walk import Damages, Log, open_log
from litemq.store.offline import BUILD, Swap, check_movable, cleared_build, held, open_store
from litemq.store.queue_types import batch_topics, queue_folders
from litemq.store.rebuild_tmq import rebuild_tmq
from litemq.store.segment_walk import Damage
from litemq.store.verify_queues import ALL, BLOCKS, NO_DEAD, EntryFile, entry_files, read_entries

Part = Literal["consumequeue", "index"]

_LOOKED_AT: Final = 1000
"""Queue files that are looked at to learn their size."""
_FIRST_STARTS: Final = array("q", [0])


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What ``litemq store rebuild`` prints."""

    records: int = 0
    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    damage: Damages = field(default_factory=Damages)
    """Records that could not be read."""
    rejected: Rejected = field(default_factory=Rejected)
    """Sound records that no queue can have."""

    @property
    def is_ok(self) -> bool:
        """Whether every record of the log was sound and has its entries."""
        return not (self.damage.torn or self.damage.corrupt or self.rejected.count)

    def to_json(self) -> dict[str, int]:
        """Return the object that the CLI prints."""
        return {
            "records": self.records,
            "queues": self.queues,
            "queue_entries": self.queue_entries,
            "index_files": self.index_files,
            "index_entries": self.index_entries,
            "torn": self.damage.torn,
            "corrupt": self.damage.corrupt,
            "rejected": self.rejected.count,
        }


def rebuild(
    path: Path | str,
    *,
    only: Part | None = None,
    queue_entries: int | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    on_batch: OnBatch | None = None,
    how: How | None = None,
) -> RebuildReport:
    """Write the derived files of the store at ``path`` anew; durable on return.

    ``how`` does the work; without one it is done here, in one walk.

    Raises:
        BadStore: it is no store directory, its folders cannot be replaced, or a size is out of range; nothing changed.
        StoreInUse: another process has it open.
    """
    fs = fs or OsFileSystem()
    clock = clock or SystemClock()
    how = how or OneWalk(on_batch)
    log, store = open_store(path, fs)
    if log.format is TMQ or log.files.is_tree:
        records, damage = how.rebuild_tmq(log) if only != INDEX else (0, Damages())
        return RebuildReport(records, len(log.files.streams), records, damage=damage)
    sizes = found_sizes(log, store)
    wanted = Sizes(  # what is not rebuilt keeps its own
        sizes.segment_bytes,
        sizes.queue_entries if queue_entries is None or only == INDEX else queue_entries,
        sizes.index_slots if index_slots is None or only == QUEUES else index_slots,
        sizes.index_entries if index_entries is None or only == QUEUES else index_entries,
    )
    wanted.check()
    parts = [only] if only else [QUEUES, INDEX]
    check_movable(fs, store, parts)
    with held(fs, store), cleared_build(fs, store):
        log = open_log(path, fs=fs, live=False)
        task = Build(log, store, wanted, sizes.queue_entries, clock.now_ms, only)
        built = how.build(task)
        swap = Swap(fs, store, first_position=log.first_position, end=built.end, newest_time=built.newest_time)
        swap.begin()
        for part in parts:
            swap.put_away(part)
        fs.sync_all(store)  # before other sizes are stated: no old file may be read by them
        _state_sizes(fs, store, wanted)
        for part in parts:
            swap.put_in(part)
        swap.finish(is_complete=only is None, keep_abort=True)
        queues, entries = how.count(task) if only != INDEX else (0, 0)
    return RebuildReport(
        built.records, queues, entries, built.index_files, built.index_entries, built.damage, built.rejected
    )


@dataclass(frozen=True, slots=True)
class Build:
    """Which derived files of a held store are to be built below ``rebuild.tmp/``."""

    log: Log
    store: Path
    sizes: Sizes
    old_entries: int
    """Entries of the queue files that are there."""
    now_ms: Callable[[], int]
    only: Part | None

    @property
    def with_queues(self) -> bool:
        return self.only != INDEX

    @property
    def with_index(self) -> bool:
        return self.only != QUEUES


class Built(Protocol):
    """What was built."""

    @property
    def records(self) -> int: ...
    @property
    def end(self) -> int:
        """Return the position behind the last sound record."""

    @property
    def newest_time(self) -> int: ...
    @property
    def index_files(self) -> int: ...
    @property
    def index_entries(self) -> int: ...
    @property
    def damage(self) -> Damages: ...
    @property
    def rejected(self) -> Rejected: ...


class How(Protocol):
    """Who does the work of a rebuild."""

    def rebuild_tmq(self, log: Log) -> tuple[int, Damages]:
        """Write every index file of a tmq tree anew; return how many records they lead to, and what is unreadable."""

    def build(self, task: Build) -> Built:
        """Build aside."""

    def count(self, task: Build) -> tuple[int, int]:
        """Return how many queues there are now, and entries of records in them."""


class OneWalk:
    """Does it here."""

    def __init__(self, on_batch: OnBatch | None = None) -> None:
        self._on_batch = on_batch

    def rebuild_tmq(self, log: Log) -> tuple[int, Damages]:
        return rebuild_tmq(log, self._on_batch)

    def build(self, task: Build) -> Built:
        built = Rebuild(
            *(task.log, task.store, task.sizes, task.now_ms), with_queues=task.with_queues, with_index=task.with_index
        )
        built.run(self._on_batch)
        if task.with_queues:
            built.keep_offsets(task.old_entries)
        return built

    def count(self, task: Build) -> tuple[int, int]:
        found = count_entries(task.log, entry_files(task.log)[0], task.log.first_position)
        return len(found), sum(found.values())


class Rebuild:
    """Builds derived files of a held store below ``rebuild.tmp/``, or below ``root``."""

    def __init__(
        self,
        log: Log,
        store: Path,
        sizes: Sizes,
        now_ms: Callable[[], int],
        *,
        with_queues: bool,
        with_index: bool,
        wants_queue: Callable[[str, int], bool] = lambda _topic, _queue: True,
        root: Path | None = None,
    ) -> None:
        self.records = 0
        self.index_files = 0
        self.index_entries = 0
        self.end = 0
        """Position behind the last sound record."""
        self.newest_time = 0
        self.damage = Damages()
        self._log = log
        self._store = store
        self._format = format_of(log, store)
        self._with_index = with_index
        self._wants_queue = wants_queue
        self._derived = Derived(
            log.fs,
            root or store / BUILD,
            self._format,
            sizes,
            now_ms=now_ms,
            batch_topics=batch_topics(log),
            wants_queue=wants_queue if with_queues else lambda _topic, _queue: False,
            with_index=with_index,
        )

    def run(self, on_batch: OnBatch | None) -> None:
        """Feed the whole log; ``keep_offsets`` may follow, and ``close`` is done."""
        damage: list[Damage] = []
        torn: list[int] = []

        def note(found: Damage) -> None:
            damage[:] = [found]
            if found.kind == "torn":
                torn.append(found.position)

        try:
            for batch in self._log.batches(on_damage=note):
                self._derived.feed(batch.view, batch.table, batch.count, damage[0].position if damage else -1)
                self.records += batch.count
                times = batch.table[rows.STORE_TIME : batch.count * rows.WIDTH : rows.WIDTH]
                self.newest_time = max(self.newest_time, *times)
                if on_batch is not None:
                    on_batch(self._log, batch)
            self._derived.finish()
        finally:
            self._derived.close()
        self.damage = self._log.damage
        self.end = min(torn, default=self._log.end_position)
        if self._with_index:
            self.index_files, self.index_entries = self._derived.index_files, self._derived.index_entries

    @property
    def rejected(self) -> Rejected:
        return self._derived.rejected

    def keep_offsets(self, entries_per_file: int) -> None:
        """Let queues whose records are all gone from the log go on with their next offset."""
        keep_offsets(self._log, self._store, self._derived, entries_per_file, self._wants_queue)


def keep_offsets(
    log: Log,
    store: Path,
    derived: Derived,
    entries_per_file: int,
    wants_queue: Callable[[str, int], bool] = lambda _topic, _queue: True,
) -> None:
    """Let queues whose records are all gone from the log go on with their next offset."""
    fs, first_position = log.fs, log.first_position
    if first_position == 0:
        return
    batched = batch_topics(log)
    old = ConsumeQueues(fs, store / QUEUES, format_of(log, store).name, entries_per_file, 1)
    try:
        for topic, queue_id, _ in queue_folders(store / QUEUES, fs):
            if topic in batched or not wants_queue(topic, queue_id):
                continue
            tail = old.find(topic, queue_id)
            if tail is not None:
                below = old.offset_at(tail, lambda entry: entry.position >= first_position)
                derived.keep_offset(topic, queue_id, below)
    finally:
        old.close()
        derived.close()


def format_of(log: Log, store: Path) -> Format:
    """Return the format of a store, also of one whose log is still empty."""
    if log.format is not None:
        return log.format
    stated = (snapshot.read(log.fs, Paths(store).store_json) or {}).get("format")
    return FORMATS.get(str(stated), LITEMQ)


# -- sizes ---------------------------------------------------------------------------------------


def found_sizes(log: Log, store: Path) -> Sizes:
    """Return the sizes of the derived files that are there, else those that ``store.json`` states, else ours."""
    stated = snapshot.read(log.fs, Paths(store).store_json) or {}
    defaults = Sizes()

    def pick(name: str, found: int | None) -> int:
        other = stated.get(name)
        return found or (other if isinstance(other, int) and other > 0 else getattr(defaults, name))

    slots, entries = _index_sizes(log.fs, store / INDEX)
    return Sizes(
        defaults.segment_bytes,
        pick("queue_entries", _queue_entries(log.fs, store / QUEUES, format_of(log, store).queue_entry_size)),
        pick("index_slots", slots),
        pick("index_entries", entries),
    )


def _queue_entries(fs: FileSystem, root: Path, entry_size: int) -> int | None:
    """Return how many entries most of the queue files have; one that is cut must not decide."""
    paths = (folder / name for _, _, folder in queue_folders(root, fs) for name in fs.names(folder))
    sizes: Counter[int] = Counter()
    for path in islice(paths, _LOOKED_AT):
        file = fs.open(path)
        sizes[file.size()] += 1
        file.close()
    fitting = [size for size, _ in sizes.most_common() if size and size % entry_size == 0]
    return fitting[0] // entry_size if fitting else None


def _index_sizes(fs: FileSystem, folder: Path) -> tuple[int | None, int | None]:
    for name in fs.names(folder):
        if not name.isdigit() or fs.is_dir(folder / name):
            continue
        file = fs.open(folder / name)
        try:
            size = file.size()
            if size < index_file.HEADER_SIZE:
                continue
            header = index_file.decode_header(file.read_at(index_file.HEADER_SIZE, 0))
            slots = index_file.slot_count(size, header, file.read_at)
        finally:
            file.close()
        if slots:
            return slots, index_file.entry_count(size, slots)
    return None, None


def _state_sizes(fs: FileSystem, store: Path, sizes: Sizes) -> None:
    """Let ``store.json`` state the sizes that the files have now: a store that opens believes it."""
    path = Paths(store).store_json
    stated = snapshot.read(fs, path)
    if stated is None:
        return
    now = {name: getattr(sizes, name) for name in ("queue_entries", "index_slots", "index_entries")}
    if any(name in stated and stated[name] != value for name, value in now.items()):
        snapshot.write(fs, path, {**stated, **now})


def count_entries(log: Log, files: Iterable[EntryFile], first_position: int) -> dict[Path, int]:
    """Return for the folder of each consume queue how many entries of records are in its files."""
    sums, counts = array("Q", bytes(8 * BLOCKS)), array("q", bytes(8 * BLOCKS))
    found: dict[Path, int] = {}
    for file in files:
        if file.kind == kernel.BATCH:
            continue
        counters = array("q", bytes(32))
        for data, number in read_entries(log.fs, file):
            kernel.sum_entries(
                *(data, file.kind, file.queue, file.topic, number, _FIRST_STARTS, NO_DEAD),
                *(first_position, first_position, ALL, False, sums, counts, counters),
            )
        folder = file.path.parent
        found[folder] = found.get(folder, 0) + counters[kernel.ENTRIES]
    return found
