"""Making the log durable: which position is on disk, and who waits for it.

One fdatasync at a time covers everything that was written before it began (group commit).  A failed one is not
tried again, because what it lost is unknown: the log takes no more writes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from litemq.config import StoreConfig
from litemq.errors import FlushFailed, FlushTimeout
from litemq.store.commit_log import CommitLog

logger = logging.getLogger(__name__)


class Flusher:
    """Knows the flushed end; with ``start`` it runs a thread, without one the caller flushes.

    The thread flushes when a waiter asks for it, and every ``flush_interval_ms`` when something is dirty: with
    ``async`` nobody waits below the dirty limit, with ``group`` and ``sync`` nobody reads what is not flushed.
    """

    def __init__(
        self, log: CommitLog, config: StoreConfig, *, flushed: int, note: Callable[[int], None] = lambda _end: None
    ) -> None:
        self._log = log
        self._note = note
        self._config = config
        self.flushed = flushed
        self.flushes = 0
        self.on_flushed: Callable[[int], None] | None = None
        """Called by whoever flushed, mostly the flush thread, with the new flushed end; what it raises is logged."""
        self._one = threading.Lock()
        self._changed = threading.Condition()
        self._wanted = False
        self._failed: FlushFailed | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def has_thread(self) -> bool:
        """Return whether flushing happens in the background."""
        return self._thread is not None

    def start(self) -> None:
        """Flush in a thread from now on."""
        self._thread = threading.Thread(target=self._run, name="litemq-flush", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; nothing is flushed by this."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def flush(self) -> int:
        """Flush everything written so far; return the flushed end."""
        with self._one:
            self._check()
            target = self._log.end
            if target > self.flushed:
                self._sync(target)
        return self.flushed

    @property
    def _failure(self) -> FlushFailed | None:
        """Return the flush that failed, though the log may have stopped for another reason before."""
        failure = self._log.failure
        return self._failed or (failure if isinstance(failure, FlushFailed) else None)

    def _check(self) -> None:
        failure = self._failure
        if failure is not None:
            raise FlushFailed(*failure.args)  # a new one: raised again, the old would grow

    def _sync(self, target: int) -> None:
        try:
            for segment in self._log.segments.between(self.flushed, target):
                segment.file.sync()
        except OSError as error:
            failed = FlushFailed(
                f"a flush failed ({error.strerror or error}): what it lost is unknown, open the store again"
            )
            self._fail(failed)
            raise failed from error
        self.flushes += 1
        self._note(target)
        with self._changed:
            self.flushed = target
            self._changed.notify_all()
        if self.on_flushed is not None:
            try:
                self.on_flushed(target)
            except Exception:
                logger.exception("a listener to flushes failed: flushed=%d", target)

    def _fail(self, failed: FlushFailed) -> None:
        self._log.stop(failed)
        with self._changed:
            self._failed = failed
            self._changed.notify_all()

    def kick(self) -> None:
        """Ask the thread for a flush."""
        if self._thread is None:
            self.flush()
            return
        with self._changed:
            self._wanted = True
            self._changed.notify_all()

    def wait(self, end: int, *, timeout_ms: int | None = None) -> None:
        """Return when everything before ``end`` is on disk; ``FlushTimeout`` says it is not known in time."""
        if self.flushed >= end:
            return
        if self._thread is None:
            self.flush()
            return
        self.kick()
        limit_ms = self._config.flush_timeout_ms if timeout_ms is None else timeout_ms
        with self._changed:
            done = self._changed.wait_for(
                lambda: self.flushed >= end or self._failure is not None or self._stopping,
                limit_ms / 1000,
            )
        if self.flushed >= end:
            return
        self._check()
        raise FlushTimeout(
            f"position {end} was not flushed within {limit_ms} ms" if not done else "the store was closed meanwhile"
        )

    def _run(self) -> None:
        interval_s = self._config.flush_interval_ms / 1000
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._stopping, interval_s)
                if self._stopping:
                    return
                self._wanted = False
            try:
                self.flush()
            except FlushFailed as failed:
                logger.error("flush failed: writes stop: %s", failed)
                return
            except Exception as error:  # whatever ends the thread, nothing more may be taken that nobody flushes
                logger.exception("the flush thread failed: writes stop")
                self._fail(FlushFailed(f"a flush failed ({type(error).__name__}: {error}): open the store again"))
                return
