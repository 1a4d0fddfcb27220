"""The store of one broker: the face of this layer.

One thread owns a ``MessageStore`` and calls it; only flushing, the sync half of a checkpoint and the preparation of
the next segment run in threads of their own (``background=False``: everything runs in the caller, for tools and
tests).  ``append`` makes a message visible under ``readable_end``'s rule; ``wait_durable`` makes it survive a power
cut.  The owner calls ``tick`` every second or more often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from litemq.clock import Clock, SystemClock
from litemq.config import StoreConfig
from litemq.errors import Closed, LiteMQError, StoreFull, StoreInUse
from litemq.format._spans_cy import Spans
from litemq.format.config_json import JsonObject
from litemq.format.names import ORIGIN
from litemq.store import retention, snapshot
from litemq.store._tails_cy import QueueTail
from litemq.store.appender import Appender
from litemq.store.arguments import check_number
from litemq.store.changes import Change
from litemq.store.checkpointer import Checkpointer
from litemq.store.commit_log import During, reading_files, write_error
from litemq.store.flush import Flusher
from litemq.store.fs import FileSystem, OsFileSystem, holder_text
from litemq.store.housekeeper import Carrier, Housekeeper
from litemq.store.layout import Paths
from litemq.store.opening import open_parts
from litemq.store.plain_topics import PlainTopics
from litemq.store.pull_reader import PullReader
from litemq.store.reader import Slice
from litemq.store.recovery import Recovered
from litemq.store.retention import Hold
from litemq.store.state_writer import StateWriter
from litemq.types import Appended, Message, Record, TopicQueue

logger = logging.getLogger(__name__)

_RETENTION_INTERVAL_MS = 10_000
_NO_QUEUES: dict[int, QueueTail] = {}


def check_free(path: Path, fs: FileSystem | None = None) -> None:
    """Look whether a store could be opened, before anything else is begun.

    Raises:
        StoreInUse: another process has it open.
    """
    lock = Paths(path).lock
    if (fs or OsFileSystem()).is_locked(lock):
        raise StoreInUse(f"{path} is in use by {holder_text(lock)}; stop it first")


class MessageStore:
    """An open store directory.  One thread owns it and makes all calls: nothing is locked against a second one.

    A second thread that appends in the middle of an append is refused with ``ConcurrentAppend``; other calls that
    overlap are not noticed.
    """

    def __init__(self, root: Path, config: StoreConfig, fs: FileSystem, clock: Clock, *, background: bool) -> None:
        parts = open_parts(root, config, fs, clock)
        self._fs = fs
        self._clock = clock
        self._config = config
        self._parts = parts
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._public = parts.queues.public
        self._dispatcher = parts.dispatcher
        self.tables = parts.tables
        self.progress = parts.progress
        self.recovered: Recovered = parts.recovered
        """What opening found and mended."""
        self.was_clean = parts.was_clean
        self.was_foreign = parts.is_foreign or parts.has_foreign_progress
        """Whether a real RocketMQ wrote here last."""
        parts.log.tail.last_time = parts.recovered.last_time
        self._appender = Appender(
            parts.log,
            parts.dispatcher,
            store_host=config.store_host,
            max_body_bytes=config.max_body_bytes,
            now_ms=clock.now_ms,
        )
        self._flusher = Flusher(parts.log, config, flushed=parts.flushed, note=parts.mark.note_flushed)
        self._dispatcher.on_error = lambda error: self._log.stop(write_error(error))
        self._reader = PullReader(
            parts.log,
            parts.queues,
            parts.index,
            parts.tables,
            lambda: self.readable_end,
            sees_all=config.flush == "async",
        )
        self._state = StateWriter(parts, self._appender, self._flusher, clock)
        self.plain = PlainTopics(self._appender, parts.tables, self._state.find_queue)
        """Topics whose sends ``append_rows`` takes."""
        self._opener = self._state.open_queues  # bound once: the hot path makes no new objects
        self._checkpointer = Checkpointer(
            parts,
            config,
            fs,
            clock,
            self._flusher,
            last_time=lambda: parts.log.tail.last_time,
            save_progress=self._state.save_progress,
        )
        self._housekeeper = Housekeeper(parts, config, fs, clock, self._reader, self._state, self._checkpointer)
        self.may_wait = True
        """Whether an append waits for a flush while the store ``is_choked``; a loop that stops reading must not."""
        self.woken: list[QueueTail] = []
        """Watched queues that have got messages; whoever watches takes them out."""
        self._is_open = True
        self._refuses = False
        now = clock.monotonic_ms()
        self._progress_at = now + config.progress_interval_ms
        self._retention_at = now + _RETENTION_INTERVAL_MS
        self._worker: ThreadPoolExecutor | None = None
        try:
            self._state.adopt()
            self._flusher.flush()
            if parts.is_foreign or parts.has_foreign_progress:
                self.checkpoint()  # at once: a foreign table is the truth as of now, whatever is recorded after it
        except BaseException:
            self.abandon()
            raise
        if background:
            self._worker = self._checkpointer.worker = ThreadPoolExecutor(1, thread_name_prefix="litemq-store")
            self._flusher.start()
        self._set_look()

    @classmethod
    def open(
        cls,
        path: str | Path,
        config: StoreConfig | None = None,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        background: bool = True,
    ) -> MessageStore:
        """Open the store at ``path``; a new one is made where there is nothing.

        Raises:
            StoreInUse: another process has it open.
            BadStore: the path is no store, or the configuration disagrees with it.
            TypeError: the configuration is no ``StoreConfig``.
        """
        if config is not None and not isinstance(config, StoreConfig):
            raise TypeError(f"config must be a StoreConfig, not {type(config).__name__}")
        return cls(
            Path(path), config or StoreConfig(), fs or OsFileSystem(), clock or SystemClock(), background=background
        )

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- ends of the log -------------------------------------------------------------------------

    @property
    def format(self) -> str:
        """Return the name of the record format."""
        return self._log.format.name

    @property
    def start(self) -> int:
        """Return the position of the oldest byte."""
        return self._log.start

    @property
    def appended_end(self) -> int:
        """Return the position behind the newest record."""
        return self._log.end

    @property
    def flushed_end(self) -> int:
        """Return the position up to which the log survives a power cut."""
        return min(self._flusher.flushed, self._log.end)

    @property
    def readable_end(self) -> int:
        """Return the position up to which readers see the log: appended (``async``) or flushed."""
        return self._log.end if self._config.flush == "async" else self.flushed_end

    @property
    def last_store_time(self) -> int:
        """Return the store time of the newest record; 0 without one."""
        return self._log.tail.last_time

    @property
    def failure(self) -> LiteMQError | None:
        """Return why the store takes no more writes; None while it does."""
        return self._log.failure

    # -- append ----------------------------------------------------------------------------------

    def append(self, message: Message) -> Appended:
        """Append one message.  Visible by the rule of ``readable_end``; durable after ``wait_durable``."""
        if self._refuses:
            self._refuse()
        answer = self._appender.append([message], self._public, self._opener)
        if self._log.tail.end >= self._log.tail.look_at:
            self._kick(answer)
        return answer[0]

    def append_many(self, messages: list[Message]) -> list[Appended]:
        """Append messages with one write; all or, after an error, what its ``appended`` lists.

        Raises:
            TypeError: it is no list, or one of something else than messages; nothing was stored.
            ConcurrentAppend: another thread is in the middle of an append; nothing was stored.
            InvalidRequest: a message cannot be stored as it is; none of them was.
            StoreFull: the disk is too full for messages, or a write found it so.
            FlushTimeout: too much is not flushed yet; all of them are in the log.
            StorageError: a write or a flush failed; the store must be opened anew.
        """
        if type(messages) is not list:
            raise TypeError(f"messages must be a list, not {type(messages).__name__}")
        if self._refuses:
            self._refuse()
        answer = self._appender.append(messages, self._public, self._opener)
        if self._log.tail.end >= self._log.tail.look_at:
            self._kick(answer)
        return answer

    def append_whole(self, messages: list[Message], *, is_carried: bool = False) -> list[Appended]:
        """Append messages that belong together with one write into one segment, as far as one can hold them.

        A crash may leave the first of them, and then no record of a later append.  ``is_carried``: what is in the log
        already and would go is taken however full the disk is.
        """
        if self._refuses and not (is_carried and self._is_open):
            self._refuse()
        answer = self._appender.append(messages, self._public, self._opener, is_whole=True)
        if self._log.tail.end >= self._log.tail.look_at:
            self._kick(answer)
        return answer

    def append_state(self, topic: str, body: bytes, *, origin: int | None = None, may_refuse: bool = False) -> Appended:
        """Append a record to one of LiteMQ's own topics; it is taken however full the disk is.

        ``origin`` is where a record that is carried stood first.  ``may_refuse``: what a client brings is refused as
        its messages are.
        """
        if may_refuse and self._refuses:
            self._refuse()
        properties = {} if origin is None else {ORIGIN: str(origin)}
        answer = self._state.append(Message(topic, body, properties=properties, born_time=self._clock.now_ms()))
        if self._log.tail.end >= self._log.tail.look_at:
            self._kick([answer])
        return answer

    @property
    def largest_state(self) -> int:
        """Return the bytes of the largest record that ``append_state`` takes."""
        return self._appender.max_state_record

    def append_rows(self, spans: Spans, first: int) -> int:
        """Append the plain sends from row ``first`` on with one write; return the first row that was not taken.

        It never waits for a flush: see ``is_choked``.  Where the rows went stands in the table.  A row that was not
        taken is no send, or one that wants to be looked at: make a message of it, and go on with ``spans.behind``.

        Raises:
            ConcurrentAppend, StoreFull, StorageError: as for ``append_many``; none of the rows was stored.
        """
        plain = self.plain
        if self._refuses or self._log.failure is not None:
            if not plain.rows.is_send(spans, first):
                return first
            if self._refuses:
                self._refuse()
        row = self._appender.append_rows(plain.rows, spans, first, plain.open_queue)
        if self._log.tail.end >= self._log.tail.look_at:
            self.look_after_log()
        return row

    @property
    def is_choked(self) -> bool:
        """Return whether so much is not flushed yet that nothing should be appended before the next flush."""
        return self._log.end - self._flusher.flushed > self._config.dirty_limit_bytes

    def set_own_properties(self, pairs: tuple[tuple[str, str], ...]) -> None:
        """Name the properties that every message which ``append_rows`` takes gets."""
        self.plain.set_own(pairs)

    def put_plain(self, topic: str, queue_count: int) -> None:
        """Let ``append_rows`` take the sends to the first queues of a topic: they need nothing but storing."""
        self.plain.put(topic, queue_count)

    def drop_plain(self, topic: str) -> None:
        """Let ``append_rows`` take no more sends to a topic."""
        self.plain.drop(topic)

    def _refuse(self) -> None:
        if not self._is_open:
            raise Closed("the store is closed")
        used, floor = self._config.disk_refuse_ratio * 100, self._config.disk_free_floor
        raise StoreFull(
            f"the disk is over {used:.0f} % full (store.disk_refuse_ratio) and has less than {floor} bytes free "
            "(store.disk_free_floor): messages are refused until there is room"
        )

    def wait_durable(self, end: int) -> None:
        """Return when the log is as durable up to ``end`` as the policy asks: at once with ``async``.

        Raises:
            FlushTimeout: it took too long; the messages are stored, and may yet be flushed.
            FlushFailed: what was not flushed before may be lost.
        """
        self._reader.check_open()
        if self._config.flush != "async":
            self._flusher.wait(end)

    def on_flushed(self, told: Callable[[int], None]) -> None:
        """Have ``told`` called with the new flushed end after every flush, by the thread that flushed."""
        self._flusher.on_flushed = told

    def ask_flush(self) -> None:
        """Ask for a flush without waiting for it."""
        self._reader.check_open()
        self._flusher.kick()

    def flush(self) -> int:
        """Make everything appended so far survive a power cut; return the flushed end."""
        self._reader.check_open()
        return self._flusher.flush()

    def _kick(self, answer: list[Appended]) -> None:
        """Called when enough was appended: ask for a flush, wait for it above the dirty limit, make the next file."""
        try:
            self._flusher.kick()
            if self.may_wait and self.is_choked:
                with self._log.during("flush"):
                    self._flusher.wait(self._log.end - self._config.dirty_limit_bytes // 2)
        except LiteMQError as error:
            error.appended = answer
            raise
        self._prepare_segment()

    def look_after_log(self) -> None:
        """Ask for a flush and make the next file: called when the log has grown beyond ``look_at``.

        It never waits, and does not fail: the rows are in the log whatever becomes of a flush.
        """
        with suppress(LiteMQError):  # without a thread it is flushed here; the next call says that it failed
            self._flusher.kick()
        self._prepare_segment()

    def _prepare_segment(self) -> None:
        if self._worker is not None and self._log.room < self._parts.layout.segment_bytes // 2:
            self._worker.submit(self._log.segments.prepare, self._log.segments.last.end)
        self._set_look()

    def _set_look(self) -> None:
        """Say from where on appends are looked at: all of them while messages are refused."""
        config = self._config
        tail = self._log.tail
        tail.look_at = min(tail.end + config.flush_bytes, self._flusher.flushed + config.dirty_limit_bytes + 1)
        if self._refuses or self._log.failure is not None:  # looked at last: the flush thread may just have failed
            tail.look_at = 0

    def _set_refuses(self, refuses: bool) -> None:
        if refuses != self._refuses:
            self._refuses = refuses
            self._set_look()

    # -- tables and progress ---------------------------------------------------------------------

    def apply(self, change: Change, *, origin: int | None = None) -> Appended:
        """Change a table: first a record in the log, then the table."""
        answer = self._state.apply(change, origin=origin)
        if change.op == "topic-deleted":
            self.plain.drop(change.name)
        return answer

    def put_topic(self, topic: str, config: JsonObject | None = None) -> Appended:
        """Create or alter a topic; ``config`` is RocketMQ's object, what it leaves out gets a default."""
        return self._state.put_topic(topic, config)

    def delete_topic(self, topic: str) -> Appended:
        """Delete a topic; created again, its queues go on with their next offsets."""
        answer = self._state.delete_topic(topic)
        self.plain.drop(topic)
        return answer

    def purge(self, topic: str, min_offsets: dict[int, int]) -> Appended:
        """Raise the min offsets of a topic's queues: what is older is gone for readers, what is to come is not."""
        return self._state.purge(topic, min_offsets)

    def put_group(self, group: str, config: JsonObject | None = None) -> Appended:
        """Create or alter a consumer group."""
        return self._state.apply(Change("group", group, {**(config or {}), "groupName": group}))

    def delete_group(self, group: str) -> Appended:
        """Delete a consumer group and its progress."""
        return self._state.apply(Change("group-deleted", group))

    def load_table(self, name: str) -> JsonObject | None:
        """Return the snapshot ``config/NAME``; None when there is none that can be read."""
        self._reader.check_open()
        with reading_files():
            return snapshot.read(self._fs, self._parts.paths.config / name)

    def save_table(self, name: str, table: JsonObject) -> None:
        """Replace the snapshot ``config/NAME``; it must say nothing that is not flushed.

        With a background thread this returns at once; durable when the thread has done it.
        """
        self._reader.check_open()
        path = self._parts.paths.config / name
        if self._worker is None:
            with self._log.changing_files():
                snapshot.write(self._fs, path, table)
        else:
            self._worker.submit(self._save_table, path, table)

    def _save_table(self, path: Path, table: JsonObject) -> None:
        try:
            snapshot.write(self._fs, path, table)
        except OSError as error:  # an older one is there: what it does not say is found in the log
            logger.warning("snapshot not written: path=%s reason=%s", path, error.strerror or error)

    # -- read ------------------------------------------------------------------------------------

    @property
    def reader(self) -> PullReader:
        """Return the way to look into the store."""
        return self._reader

    def read(self, topic: str, queue_id: int, offset: int, *, max_count: int = 32, max_bytes: int = 1 << 20) -> Slice:
        """Return messages of a queue as log bytes; see ``Reader.read``."""
        return self._reader.read(topic, queue_id, offset, max_count=max_count, max_bytes=max_bytes)

    def records(self, topic: str, queue_id: int, offset: int, *, max_count: int = 32) -> list[Record]:
        """Return messages of a queue, decoded."""
        check_number("offset", offset)
        check_number("max_count", max_count)
        end = min(offset + max_count, self._reader.max_offset(topic, queue_id))
        found = (self._reader.message_at(topic, queue_id, at) for at in range(offset, end))
        return [record for record in found if record is not None]

    def queue(self, topic: str, queue_id: int) -> QueueTail:
        """Return a queue to watch: one whose ``watch`` is set to ``woken`` is put there by its next message."""
        return self._state.find_queue(topic, queue_id)

    def queues(self) -> list[TopicQueue]:
        """Return every queue, LiteMQ's own included."""
        self._reader.check_open()
        with reading_files():
            return self._queues.all()

    # -- housekeeping ----------------------------------------------------------------------------

    def configure_retention(self, config: StoreConfig) -> None:
        """Go on with other settings of retention and disk use; all else of ``config`` stays as it was."""
        names = ("retention_hours", "delete_hour", "disk_start_ratio", "disk_force_ratio", "disk_refuse_ratio")
        changes = {name: getattr(config, name) for name in (*names, "disk_free_floor")}
        self._config = self._housekeeper.config = replace(self._config, **changes)

    def add_carrier(self, carry: Carrier) -> None:
        """Have ``carry`` called before segments go: it appends again what still holds and stands only in them."""
        self._housekeeper.carriers.append(carry)

    def tell_of_work(self, during: During) -> None:
        """Tell of what may keep the owner waiting: each of ``flush``, ``roll``, ``checkpoint``, ``retention``."""
        self._log.during = during

    def hold(self, name: str, position: int, *, until_ms: int) -> None:
        """Keep everything from ``position`` on until ``until_ms``; the same name again moves the hold."""
        self._housekeeper.holds[name] = Hold(name, position, until_ms)

    def release(self, name: str) -> None:
        """Give a hold back."""
        self._housekeeper.holds.pop(name, None)

    def save_progress(self) -> None:
        """Append what groups committed since the last record of it."""
        self._state.save_progress()

    def tick(self) -> None:
        """Do what is due: progress records, checkpoint, retention."""
        if self._log.failure is not None:
            return
        now = self._clock.monotonic_ms()
        if self.progress.unsaved and (
            now >= self._progress_at or self.progress.unsaved >= self._config.progress_changes
        ):
            self._progress_at = now + self._config.progress_interval_ms
            self._state.save_progress()
        if self._checkpointer.is_due(now):
            with self._log.during("checkpoint"):
                self._checkpointer.begin()
        with self._log.during("retention"):
            self._housekeeper.remove()  # what an earlier pass decided
            if now >= self._retention_at:
                self._retention_at = now + _RETENTION_INTERVAL_MS
                self.retain()

    def checkpoint(self, *, wait: bool = True) -> None:
        """Write out and sync everything derived, so that a recovery starts here.

        With a background thread only the writing happens here; ``wait=False`` leaves the syncs to the thread.
        """
        self._checkpointer.run(wait=wait)

    def retain(self) -> retention.Plan:
        """Remove segments that may go; refuse messages while the disk is too full.

        With a background thread they go at a later ``tick``, when what was carried is on disk.
        """
        decided = self._housekeeper.plan()
        self._set_refuses(decided.refuse)
        self._housekeeper.carry_out(decided)
        return decided

    def appended(self, topic: str) -> tuple[int, int]:
        """Return how many messages a topic got since the store was opened, and the queue that got most of them.

        What recovery found again counts, too.  Costs little: queues that nobody has used since are not looked at.
        """
        total = most = busiest = 0
        for queue_id, tail in self._public.get(topic, _NO_QUEUES).items():
            count = tail.next_offset - tail.opened_at
            total += count
            if count > most:
                most, busiest = count, queue_id
        return total, busiest

    def counters(self) -> dict[str, int]:
        """Return what happened since the store was opened."""
        return {
            "messages": self._log.tail.messages,
            "log_writes": self._log.writes,
            "log_rolls": self._log.rolls,
            "log_start": self._log.start,
            "log_end": self._log.end,
            "flushed_end": self.flushed_end,
            "flushes": self._flusher.flushes,
            "checkpoints": self._checkpointer.count,
            "segments": len(self._log.segments),
            "segments_removed": self._housekeeper.segments_removed,
            "queue_writes": self._queues.writes,
            "dirty_queues": len(self._queues.dirty),
            "index_rolls": self._index.rolls,
            "index_entries": self._index.tail.count - 1,
            "offset_gaps": self._dispatcher.gaps,
            "unplaced_records": self._dispatcher.unplaced,
            "cold_reads": self._reader.cold_reads,
            "progress_unsaved": self.progress.unsaved,
            "holds": len(self._housekeeper.holds),
            "recovered_records": self.recovered.records,
            "damaged_records": len(self.recovered.damaged),
        }

    # -- closing ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop cleanly: everything on disk, the mark removed.  After a failure it only lets go of the files."""
        if not self._is_open:
            return
        try:
            if self._log.failure is None:
                self.tables.changed = self.progress.changed = True
                self.checkpoint()
                with self._log.changing_files():
                    self._parts.mark.remove()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the store as it is, as a crash would: nothing is flushed, the next start is an unclean one."""
        self._is_open = False
        self._refuses = True
        self._reader.close()
        self._flusher.stop()
        if self._worker is not None:
            self._worker.shutdown()
            self._worker = self._checkpointer.worker = None
        self._log.stop(Closed("the store is closed"))
        self._queues.close()
        self._index.close()
        self._log.segments.close()
        self._parts.mark.close()
        self._parts.lock.release()
