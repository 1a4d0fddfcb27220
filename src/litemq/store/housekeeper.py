"""Retention of an open store: looks at disk and segments, and removes what ``retention.plan`` lets go.

Live state is carried first, and a segment goes only when a checkpoint covers what was carried: with a worker that
is at a later ``remove``.  Files of queues follow over several calls.  What a crash leaves: ``retention``.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from litemq.clock import Clock
from litemq.config import StoreConfig
from litemq.store import retention, snapshot
from litemq.store.checkpointer import Checkpointer
from litemq.store.commit_log import reading_files
from litemq.store.fs import FileSystem
from litemq.store.opening import Parts
from litemq.store.reader import Reader
from litemq.store.retention import Hold, Plan, SegmentFacts
from litemq.store.state_writer import StateWriter

logger = logging.getLogger(__name__)

Carrier = Callable[[int], int]
"""Appends again what is live and stands only below a position; returns below which position all of it was."""

_TRIM_MS = 20
"""Time that a call spends on the files of queues: there may be 80 000 of them, and appends wait."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Segments below ``start`` go when everything below ``carried_end`` is in a checkpoint."""

    start: int
    forced: bool
    carried_end: int


class Housekeeper:
    """Removes old segments; called by the store's owner."""

    def __init__(
        self,
        parts: Parts,
        config: StoreConfig,
        fs: FileSystem,
        clock: Clock,
        reader: Reader,
        state: StateWriter,
        checkpointer: Checkpointer,
    ) -> None:
        self._parts = parts
        self._log = parts.log
        self.config = config
        self._fs = fs
        self._clock = clock
        self._reader = reader
        self._state = state
        self._checkpointer = checkpointer
        self._refuses = False
        self.holds: dict[str, Hold] = {}
        self.carriers: list[Carrier] = []
        """Who else has state in the log."""
        self.removal: Removal | None = None
        """What was decided and waits for a checkpoint."""
        self._trimmed = parts.log.start
        """The log's start when the last round through the queues began."""
        self._round: Iterator[None] | None = None
        self.segments_removed = 0

    def plan(self) -> Plan:
        """Decide what goes, and whether messages are refused."""
        self._log.check_writable()
        with reading_files():
            total, free = self._fs.disk(self._parts.paths.root)
        now_ms = self._clock.now_ms()
        self.holds = {name: hold for name, hold in self.holds.items() if hold.until_ms > now_ms}
        decided = retention.plan(
            self._facts(), list(self.holds.values()), self.config, now_ms=now_ms, total=total, free=free
        )
        if decided.refuse != self._refuses:
            logger.warning("disk use: messages are %s", "refused" if decided.refuse else "taken again")
        self._refuses = decided.refuse
        return decided

    def _facts(self) -> list[SegmentFacts]:
        """Return what one pass must know; a segment's times end where the next one's begin."""
        answer = []
        for segment, later in itertools.pairwise(list(self._log.segments)[: retention.MAX_SEGMENTS_PER_PASS + 1]):
            first_time = self._reader.first_time(later)
            if first_time is None:
                break
            answer.append(SegmentFacts(segment.start, segment.end, first_time))
        return answer

    def carry_out(self, decided: Plan) -> None:
        """Carry what is live to the tail, and remove the segments as soon as it is on disk."""
        waiting, self.removal = self.removal, None
        start = decided.start
        if start is None:
            return
        if waiting is None:
            start, carried_end = self._carry(start)
            if start <= self._log.start:
                return
        else:
            # What goes was carried by an earlier pass.  To carry more would put it off, with a checkpoint that takes
            # longer than a pass for ever.
            start, carried_end = min(start, waiting.start), waiting.carried_end
        self.removal = Removal(start, decided.forced, carried_end)
        self.remove()

    def _carry(self, start: int) -> tuple[int, int]:
        """Append what lives below ``start`` again; return where the log may start, and its end behind the copies."""
        end = self._log.end
        possible = self._state.carry_below(start)
        for carry in self.carriers:
            possible = min(possible, carry(possible))
        if possible < start:
            segment = self._log.segments.find(possible)
            start = segment.start if segment is not None else self._log.start
        carried, freed = self._log.end - end, start - self._log.start
        if carried >= freed > 0:
            logger.warning("retention frees nothing: carried=%d freed=%d", carried, freed)
        return start, self._log.end

    def remove(self) -> None:
        """Remove what earlier passes let go, as far as it can go by now; of queue files some with each call."""
        self._remove_segments()
        self._trim_queues()

    def _remove_segments(self) -> None:
        """Remove what a plan lets go once what was carried is on disk: it must be before its first home goes."""
        removal = self.removal
        if removal is None:
            return
        if self._checkpointer.covered < removal.carried_end:
            self._checkpointer.begin()
        if self._checkpointer.covered < removal.carried_end:
            return
        self.removal = None
        parts, log = self._parts, self._log
        start = self._allowed_start(removal)
        with log.changing_files():
            # Read instead of a damaged snapshot, an older one would bring back what was deleted since: the log that
            # is left does not say so any more.
            snapshot.drop_backups(self._fs, (parts.paths.topics, parts.paths.groups, parts.paths.progress))
            while log.segments.first.end <= start:
                segment = log.segments.drop_first()
                self.segments_removed += 1
                logger.info("segment removed: start=%d", segment.start)
                log.segments.sync_names()  # one after the other: a power cut must not leave a hole
            parts.tables.deletions.forget_below(log.start)
            parts.index.drop_below(log.start)

    def _trim_queues(self) -> None:
        """Go on with the round through the queues, or begin one when segments went since the last one began."""
        if self._round is None:
            if self._trimmed == self._log.start:
                return
            self._trimmed = self._log.start
            self._round = self._parts.queues.trim(lambda: self._log.start)
        until = self._clock.monotonic_ms() + _TRIM_MS
        with self._log.changing_files():
            for _ in self._round:
                if self._clock.monotonic_ms() >= until:
                    return
        self._round = None

    def _allowed_start(self, removal: Removal) -> int:
        """Return the position below which segments go now: a reader may have come since it was decided."""
        now_ms = self._clock.now_ms()
        if not removal.forced:
            return min(removal.start, retention.held_from(self.holds.values(), now_ms))
        names = retention.losers(self.holds.values(), removal.start, now_ms)
        if names:
            logger.warning("the disk is full: holds lose: names=%s", ", ".join(names))
        return removal.start
