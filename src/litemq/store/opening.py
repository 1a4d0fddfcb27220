"""Opening a store directory: take its lock, settle what it is, recover it, and hand out the parts.

Opening changes nothing before the lock is held and format and sizes are settled.
"""

from __future__ import annotations

import heapq
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from litemq.clock import Clock
from litemq.config import StoreConfig
from litemq.errors import BadStore, CorruptRecord, StoreInUse
from litemq.format import index_file, rows
from litemq.format._scan_cy import scan
from litemq.format.checkpoint import Checkpoint
from litemq.format.index_file import IndexEntry
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC
from litemq.format.queue_entry import BEFORE_START_SIZE, QueueEntry
from litemq.format.record import decode_row
from litemq.store import changes, checkpoint, snapshot
from litemq.store.commit_log import NO_SPACE, CommitLog, write_error
from litemq.store.consume_queue import ConsumeQueues
from litemq.store.dispatcher import Dispatcher
from litemq.store.frames import Kind, read_head
from litemq.store.fs import FileSystem, Lock, holder_text
from litemq.store.key_index import KeyIndex
from litemq.store.layout import Layout, Paths, settle, write_down
from litemq.store.progress import Progress
from litemq.store.recovery import Recovered, Recovery
from litemq.store.running import RunningMark
from litemq.store.segments import Segments
from litemq.store.tables import Tables
from litemq.types import TopicQueue

logger = logging.getLogger(__name__)

_RECOVERY_SLACK_MS = 3_000
"""RocketMQ's checkpoint times may be this much ahead of what reached the disk."""


@dataclass(slots=True)
class Parts:
    """Everything that an open store consists of."""

    paths: Paths
    layout: Layout
    lock: Lock
    mark: RunningMark
    log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex
    dispatcher: Dispatcher
    tables: Tables
    progress: Progress
    recovered: Recovered
    flushed: int
    """Position up to which the log is known to be on disk."""
    was_clean: bool
    """Whether the last stop was a clean one."""
    is_foreign: bool
    """Whether the tables have no records in the log: a real RocketMQ wrote them, or the log lost its end."""
    has_foreign_progress: bool
    """… or the group progress."""
    is_ahead: bool
    """Whether files on disk speak of a part of the log that is gone: they must be replaced before it is there again."""


def open_parts(root: Path, config: StoreConfig, fs: FileSystem, clock: Clock) -> Parts:
    """Open the store at ``root``, making it when there is none.

    Raises:
        StoreInUse: another process (or another part of this one) has it open.
        StoreFull: the disk has no room for what opening writes; nothing is lost.
        BadStore: it is no store, or one that cannot be written to.
    """
    try:
        return _open_parts(Paths(root), config, fs, clock)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise write_error(error) from error
        name = f" ({error.filename})" if error.filename is not None else ""
        raise BadStore(f"{root} cannot be opened: {error.strerror or error}{name}") from error


def _open_parts(paths: Paths, config: StoreConfig, fs: FileSystem, clock: Clock) -> Parts:
    _check_place(fs, paths)
    fs.make_dirs(paths.root)
    lock = fs.lock(paths.lock)
    if lock is None:
        raise StoreInUse(f"{paths.root} is in use by {holder_text(paths.lock)}; stop it first")
    try:
        return _Opening(paths, config, fs, clock, lock).run()
    except BaseException:
        lock.release()
        raise


def _check_place(fs: FileSystem, paths: Paths) -> None:
    """Refuse what cannot be a path, and a directory that holds something else."""
    if "\0" in str(paths.root):
        raise BadStore(f"{str(paths.root)!r} cannot be a path: it holds a zero byte")
    if fs.exists(paths.root) and not fs.is_dir(paths.root):
        raise BadStore(f"{paths.root} is a file, not a store directory")
    names = fs.names(paths.root)
    if names and not fs.is_dir(paths.commit_log) and not set(names) <= {"lock", "config", "abort"}:
        raise BadStore(f"{paths.root} is no store (it has no commitlog/) and is not empty; choose another directory")


class _Opening:
    def __init__(self, paths: Paths, config: StoreConfig, fs: FileSystem, clock: Clock, lock: Lock) -> None:
        self._paths = paths
        self._config = config
        self._fs = fs
        self._clock = clock
        self._lock = lock

    def run(self) -> Parts:
        fs, paths = self._fs, self._paths
        layout = settle(fs, paths, self._config, self._clock.now_ms())
        fs.make_dirs(paths.commit_log)
        fs.make_dirs(paths.config)
        write_down(fs, paths, layout)
        mark = RunningMark(fs, paths.abort)
        was_clean = not mark.was_there
        segments = Segments.open(fs, paths.commit_log, layout.segment_bytes, self._config.open_files)
        if not len(segments):
            # Ours from the first byte on: without it a crash would be judged as one of a real RocketMQ's store.
            checkpoint.write(fs, paths.checkpoint, Checkpoint(flushed=0, derived=0, checked=True))
            segments.add(0)
        found = self._checkpoint(segments.first.start)
        tables = Tables(layout.format)
        tables.load(snapshot.read(fs, paths.topics), snapshot.read(fs, paths.groups))
        queues = ConsumeQueues(fs, paths.queues, layout.format.name, layout.queue_entries, self._config.open_files)
        index = KeyIndex(fs, paths.index, layout.index_slots, layout.index_entries, self._config.open_files)
        dispatcher = Dispatcher(
            queues,
            index,
            now_ms=self._clock.now_ms,
            first_offset=tables.first_offset,
            has_batch_queues=tables.has_batch_queues,
            log_start=lambda: segments.first.start,
        )
        log = CommitLog(segments, layout.format, end=segments.last.end)
        start = self._scan_start(found, log, queues, was_clean=was_clean)
        trusted = was_clean and log.start < start == found.derived == found.flushed
        self._cut_derived(start, log, queues, index, found, trusted=trusted)
        for position, body, origin in _bodies(log, queues, CHANGES_TOPIC, tables.replay_from):
            change = changes.decode(body)
            if change is not None and position < start:
                tables.replay(change, position, origin)

        def on_change(body: bytes, position: int, origin: int | None) -> None:
            change = changes.decode(body)
            if change is None:
                return
            tables.replay(change, position, origin)
            if change.op == "topic-deleted":
                queues.drop_topic(change.name)

        dispatcher.on_change = on_change
        recovery = Recovery(
            fs,
            paths.root,
            segments,
            layout.format,
            dispatcher,
            flushed=found.flushed,
            checked_from=found.checked_from,
        )
        recovered = recovery.run(start, clean=was_clean, noted=mark.flushed)
        recovered.last_time = max(recovered.last_time, found.log_time)
        if recovered.end >= segments.last.end:
            segments.add(recovered.end)
        self._start_empty(queues, tables)
        dispatcher.forget_queues()
        log = CommitLog(segments, layout.format, end=recovered.end)
        if recovered.is_hidden:
            log.roll()
        progress = Progress()
        progress_from = self._replay_progress(progress, log, queues, tables)
        claims = (found.flushed, found.derived, tables.topics_from, tables.groups_from, progress_from)
        is_ahead = any(claim is not None and claim > recovered.end for claim in claims)
        if not found.checked and not is_ahead:
            self._check_from_here(replace(found, flushed=recovered.end, derived=start, checked=True), log)
        return Parts(
            paths,
            layout,
            self._lock,
            mark,
            log,
            queues,
            index,
            dispatcher,
            tables,
            progress,
            recovered,
            min(max(found.flushed if found.flushed is not None else 0, log.start), log.end),
            was_clean,
            is_foreign=tables.is_foreign or is_ahead,
            has_foreign_progress=progress_from is None or is_ahead,
            is_ahead=is_ahead,
        )

    def _checkpoint(self, log_start: int) -> Checkpoint:
        """Return the checkpoint; where queues or index were removed by hand it covers none of them any more."""
        fs, paths = self._fs, self._paths
        found = checkpoint.read(fs, paths.checkpoint) or Checkpoint()
        self._has_derived = bool(fs.names(paths.queues)) and fs.is_dir(paths.index)
        if found.is_ours and not self._has_derived:
            found = replace(found, derived=log_start)
            checkpoint.write(fs, paths.checkpoint, found)  # before the folders are back, which look as if all was well
        fs.make_dirs(paths.queues)
        fs.make_dirs(paths.index)
        if fs.exists(paths.broker_trace):
            # A RocketMQ broker ran here, and its records need have no checksums.  It may have died before its
            # first checkpoint, so that ours looks as if nobody had been here since.
            if found.checked:
                found = replace(found, checked=False)
                checkpoint.write(fs, paths.checkpoint, found)
            fs.remove(paths.broker_trace)
            fs.sync_dir(paths.root)
        return found

    def _check_from_here(self, found: Checkpoint, log: CommitLog) -> None:
        """Bring the log to disk and say so: what is appended from now on has checksums, whatever was there before.

        Before the first append: one that is torn must not be taken for a record of another writer.
        """
        for segment in log.segments.between(log.start, log.end):
            segment.file.sync()
        checkpoint.write(self._fs, self._paths.checkpoint, found)

    # -- where to scan from ----------------------------------------------------------------------

    def _scan_start(self, found: Checkpoint, log: CommitLog, queues: ConsumeQueues, *, was_clean: bool) -> int:
        """Return the position up to which derived files can be trusted."""
        if found.derived is not None:
            start = max(found.derived, log.start)
            return start if log.segments.find(start) is not None or start == log.end else log.start
        if not self._has_derived:
            return log.start
        if was_clean:
            newest = max((self._last_position(queues, queue) for queue in queues.all()), default=-1)
            segment = log.segments.find(newest)
            return segment.start if segment else log.start
        return self._foreign_start(found, log)

    @staticmethod
    def _last_position(queues: ConsumeQueues, queue: TopicQueue) -> int:
        tail = queues.find(queue.topic, queue.queue_id)
        return tail.last_position if tail else -1

    @staticmethod
    def _foreign_start(found: Checkpoint, log: CommitLog) -> int:
        """Return the newest segment whose first record is older than what RocketMQ's checkpoint is sure of."""
        safe_ms = min(found.log_time, found.queue_time, found.index_time) - _RECOVERY_SLACK_MS
        start = log.start
        for segment in log.segments:
            row = _row(log, segment.start)
            if row is None or not 0 < row[rows.STORE_TIME] <= safe_ms:
                break
            start = segment.start
        return start

    # -- derived files ---------------------------------------------------------------------------

    def _cut_derived(
        self, start: int, log: CommitLog, queues: ConsumeQueues, index: KeyIndex, found: Checkpoint, *, trusted: bool
    ) -> None:
        if trusted:
            index.load()
            return

        def is_sound(queue: TopicQueue, offset: int, entry: QueueEntry) -> bool:
            if entry.position < log.start:
                return True
            head = read_head(log.format, log.read(entry.position, 8))
            if head.kind is not Kind.RECORD or head.size != entry.size:
                return False
            row = _row(log, entry.position)
            return row is None or (row[rows.QUEUE_ID], row[rows.QUEUE_OFFSET]) == (queue.queue_id, offset)

        def has_key(entry: IndexEntry) -> bool:
            if entry.position < log.start:
                return True
            head = read_head(log.format, log.read(entry.position, 8))
            if head.kind is not Kind.RECORD:
                return False
            data = log.read(entry.position, head.size)
            table = rows.table(1)
            if not scan(log.format.code, data, 0, len(data), entry.position, table)[0]:
                return True  # damaged since
            try:
                record = decode_row(log.format, memoryview(data), table, 0, "")
            except CorruptRecord:
                return True
            keys = (record.message_id or "", *record.keys, *(f"T#{tag}" for tag in record.tags))  # RocketMQ's, the last
            return entry.hash in {index_file.key_hash(index_file.key_text(record.topic, key)) for key in keys}

        queues.cut_at(start, is_sound)
        indexed = found.indexed if start == found.derived else 0
        index.cut_at(start, has_key, time_of=partial(_time_of, log), linked=found.linked, indexed=indexed)

    @staticmethod
    def _start_empty(queues: ConsumeQueues, tables: Tables) -> None:
        """Let queues without messages start where the tables say, if that is further than their files say.

        A power cut may leave a part of what fills the space before the first entry, and take the record with it.
        """
        for topic, tails in queues.public.items():
            for queue_id, tail in tails.items():
                first = tables.first_offset(topic, queue_id)
                if tail.next_offset < first and queues.is_empty(tail):
                    queues.start_at(tail, first)

    # -- state in the log ------------------------------------------------------------------------

    def _replay_progress(self, progress: Progress, log: CommitLog, queues: ConsumeQueues, tables: Tables) -> int | None:
        """Bring group progress to the log's end; return the position of the snapshot, None for RocketMQ's."""
        first = progress.load(snapshot.read(self._fs, self._paths.progress))
        if first is not None:
            # In log order: what a group committed before it, or its topic, was deleted must not come back.
            commits = ((*found, PROGRESS_TOPIC) for found in _bodies(log, queues, PROGRESS_TOPIC, first))
            deletions = ((*found, CHANGES_TOPIC) for found in _bodies(log, queues, CHANGES_TOPIC, first))
            for position, body, _, topic in heapq.merge(commits, deletions):
                if topic == PROGRESS_TOPIC:
                    progress.replay(body, position)
                elif (change := changes.decode(body)) is not None and change.op == "topic-deleted":
                    progress.forget(topic=change.name)
                elif change is not None and change.op == "group-deleted":
                    progress.forget(group=change.name)
        for group, topic, queue_id in progress.all_keys():
            if tables.has_batch_queues(topic):
                continue  # where they end is for RocketMQ to know
            tail = queues.find(topic, queue_id)
            end = tail.next_offset if tail is not None else tables.first_offset(topic, queue_id)
            if progress.clamp(group, topic, queue_id, end):
                logger.warning("progress brought down to the queue's end: group=%s topic=%s", group, topic)
        return first


def _row(log: CommitLog, position: int) -> list[int] | None:
    """Return the row of the record at ``position``; None when it is not sound."""
    found = _record(log, position)
    return found[1] if found else None


def _time_of(log: CommitLog, position: int) -> int | None:
    """Return the store time of the record at ``position``; None when it is not sound."""
    row = _row(log, position)
    return row[rows.STORE_TIME] if row else None


def _record(log: CommitLog, position: int) -> tuple[bytes, list[int]] | None:
    """Return bytes and row of the record at ``position``; None when it is not sound."""
    head = read_head(log.format, log.read(position, 8))
    if head.kind is not Kind.RECORD:
        return None
    data = log.read(position, head.size)
    table = rows.table(1)
    count, _, _ = scan(log.format.code, data, 0, len(data), position, table)
    return (data, table.tolist()) if count else None


def _bodies(log: CommitLog, queues: ConsumeQueues, topic: str, first: int) -> Iterator[tuple[int, bytes, int | None]]:
    """Yield position, body and origin of the records of a reserved topic from position ``first`` on."""
    tail = queues.find(topic, 0)
    if tail is None:
        return
    first = max(first, log.start)
    for _, entry in queues.walk(tail, queues.offset_at(tail, lambda entry: entry.position >= first)):
        found = _record(log, entry.position) if entry.size != BEFORE_START_SIZE else None
        if found is None:
            continue
        data, row = found
        if data[row[rows.TOPIC_AT] : row[rows.TOPIC_AT] + row[rows.TOPIC_SIZE]] == topic.encode():
            body = data[row[rows.BODY_AT] : row[rows.BODY_AT] + row[rows.BODY_SIZE]]
            yield entry.position, body, row[rows.ORIGIN] if row[rows.ORIGIN] >= 0 else None


def new_log_id() -> str:
    """Return an id for a log that has none."""
    return str(uuid.uuid4())
