"""Checkpoints of an open store: everything derived on disk, and then the file that says so.

The store's owner writes out what is in memory; the syncs, which take long, run in the worker thread where there is
one.

    crash after …          leaves                           the next start
    writing out            files ahead of the checkpoint    cuts them back to it and scans from there
    syncing, a snapshot    files ahead of the checkpoint    the same
    the checkpoint file    all of it                        scans from the new position
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

from litemq.clock import Clock
from litemq.config import StoreConfig
from litemq.errors import FlushFailed
from litemq.format.checkpoint import Checkpoint
from litemq.format.config_json import JsonObject
from litemq.store import checkpoint, snapshot
from litemq.store.flush import Flusher
from litemq.store.fs import FileSystem
from litemq.store.key_index import SlotWrite
from litemq.store.opening import Parts

_SLOTS_INTERVAL_MS = 30_000


class Checkpointer:
    """Makes checkpoints; called by the store's owner."""

    def __init__(
        self,
        parts: Parts,
        config: StoreConfig,
        fs: FileSystem,
        clock: Clock,
        flusher: Flusher,
        last_time: Callable[[], int],
        save_progress: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._config = config
        self._fs = fs
        self._clock = clock
        self._flusher = flusher
        self._last_time = last_time
        self._save_progress = save_progress
        now = clock.monotonic_ms()
        self._due_at = now + config.checkpoint_interval_ms
        self._slots_at = now + (_SLOTS_INTERVAL_MS if parts.was_clean else 0)
        self.worker: Executor | None = None
        """Runs the syncs; None: the caller does."""
        self.job: Future[None] | None = None
        """The syncs of the last checkpoint that the worker was given."""
        self.covered = parts.log.end if parts.was_clean else -1
        """Position up to which the last checkpoint speaks."""
        self.count = 0

    def is_due(self, now: int) -> bool:
        """Return whether enough was appended, or some and long enough ago."""
        log = self._parts.log
        appended = log.end - max(self.covered, log.start)
        return bool(appended) and (now >= self._due_at or appended >= self._config.checkpoint_bytes)

    def begin(self) -> None:
        """Make a checkpoint, but leave the syncs to the worker; do nothing while it is at the last one's."""
        self.run(wait=self.worker is None)

    def run(self, *, wait: bool) -> None:
        """Make a checkpoint of everything appended so far; on disk on return with ``wait`` or without a worker."""
        parts = self._parts
        parts.log.check_writable()  # after a failure what is derived may lack something: only the log is sure
        if self.job is not None:
            if not wait and not self.job.done():
                return
            self.job.result()
        self._save_progress()  # a snapshot holds nothing that the log does not
        now = self._clock.monotonic_ms()
        self._due_at = now + self._config.checkpoint_interval_ms
        end = parts.log.end
        slots: SlotWrite | None = None
        with parts.log.changing_files():
            parts.queues.write_out_all()
            if now >= self._slots_at or wait:
                self._slots_at = now + _SLOTS_INTERVAL_MS
                slots = parts.index.copy_slots(self._clock.now_ms())
            else:
                parts.index.write_tail(self._clock.now_ms())
        tables = self._snapshots(end)
        time = self._last_time()
        # A real RocketMQ that opens the store after a crash rescans what is newer than these times, and then must
        # meet all that the index's slots do not lead to yet; it removes index files that end later.
        told = parts.index.told_until(time)
        found = Checkpoint(
            log_time=time,
            queue_time=told,
            index_time=told,
            flushed=end,
            derived=end,
            linked=parts.index.linked,
            indexed=parts.index.tail.count,
            checked=True,
        )
        if self.worker is None:
            self._finish(found, tables, slots)
        else:
            self.job = self.worker.submit(self._finish, found, tables, slots)
            if wait:
                self.job.result()

    def _snapshots(self, position: int) -> list[tuple[Path, JsonObject]]:
        """Return the tables that changed as of ``position``, each with its file."""
        now_ms = self._clock.now_ms()
        paths, tables, progress = self._parts.paths, self._parts.tables, self._parts.progress
        answer: list[tuple[Path, JsonObject]] = []
        if tables.changed:
            answer.append((paths.topics, tables.to_topics(position, now_ms)))
            answer.append((paths.groups, tables.to_groups(position, now_ms)))
        if progress.changed:
            answer.append((paths.progress, progress.to_snapshot(position, now_ms)))
        tables.changed = progress.changed = False
        return answer

    def _finish(self, found: Checkpoint, tables: list[tuple[Path, JsonObject]], slots: SlotWrite | None) -> None:
        """Sync, then say so: nothing on disk may cover a position that is not flushed."""
        self._flusher.flush()
        paths = self._parts.paths
        try:
            if slots is not None:
                slots.run()
            self._fs.sync_all(paths.root)
            for path, table in tables:
                snapshot.write(self._fs, path, table)
            checkpoint.write(self._fs, paths.checkpoint, found)
        except OSError as error:
            failed = FlushFailed(f"a checkpoint failed ({error.strerror or error}): open the store again")
            self._parts.log.stop(failed)
            raise failed from error
        self.covered = found.derived or 0
        self.count += 1
