"""Kernel: pulls, from the question to the answer or the wait for one.

A ``Pull`` is what a consumer asks of one queue again and again: checked and made once, then asked with a new offset.
Nothing is made for a message, and for a pull only the buffer that it is answered with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.features._long_poll_cy import LongPolls, Waiter
    from cython.cimports.litemq.store._slice_cy import Pulled
    from cython.cimports.litemq.store._tails_cy import QueueTail
else:
    from litemq.features._long_poll_cy import LongPolls, Waiter
    from litemq.store._slice_cy import Pulled
    from litemq.store._tails_cy import QueueTail

from enum import Enum

from litemq.errors import Busy, LiteMQError
from litemq.features.filters.sql_eval import SqlFilter
from litemq.store._tail_pull_cy import PullStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from litemq.features.filters import Filter
    from litemq.store.pull_reader import ColdPull, PullReader

HEAD_ROOM = 512
"""Bytes that are left free before the records: the answer's header is written there, so that nothing is copied."""

_HEAD_ROOM = cython.declare(cython.Py_ssize_t, HEAD_ROOM)
_MAX_SCAN = cython.declare(cython.longlong, 800)
_MAX_PARK_MS = cython.declare(cython.longlong, 30_000)  # clients give up after so long


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


class Verdict(Enum):
    """How a pull without messages ended."""

    NOTHING = "NO_NEW_MESSAGE"
    NO_MATCH = "NO_MATCHED_MESSAGE"
    MOVED = "OFFSET_MOVED"


_FOUND = cython.declare(object, PullStatus.FOUND)
_NO_MATCH = cython.declare(object, PullStatus.NO_MATCH)
_AT_END = cython.declare(object, PullStatus.AT_END)
_EMPTY = cython.declare(object, PullStatus.EMPTY)


@cython.cclass
class Pull(Waiter):  # type: ignore[misc] # what is cimported has no type
    """What a consumer asks for.  Each time it is asked it is answered once: ``give``, ``tell`` or ``refuse``.

    ``offset`` is set by whoever asks, and moves on while a filter lets nothing pass.  ``is_busy`` from then to the
    answer.  ``checked`` is the ``generation`` for which it was allowed.
    """

    if not cython.compiled:
        __slots__ = (
            *("as_rocketmq", "checked", "filter", "group", "hashes", "is_busy", "is_capped", "is_sql", "key"),
            *("max_bytes", "max_count", "names", "offset", "park_ms", "queue_id", "tail", "topic", "until_ms"),
        )

    def __init__(
        self,
        owner: Hashable,
        group: str,
        topic: str,
        queue_id: int,
        wanted: Filter,
        *,
        max_count: int,
        max_bytes: int,
        park_ms: int = 0,
        as_rocketmq: bool = True,
    ) -> None:
        """``max_count`` and ``max_bytes`` at or below 0: as the broker's limits say."""
        super().__init__(owner)
        self.group = group
        self.topic = topic
        self.queue_id = queue_id
        self.filter = wanted
        self.is_sql = isinstance(wanted, SqlFilter)
        self.hashes = None if isinstance(wanted, SqlFilter) else wanted.hashes
        self.names = None if isinstance(wanted, SqlFilter) else wanted.names
        self.max_count = max_count
        self.max_bytes = max_bytes
        self.is_capped = False
        self.park_ms = min(park_ms, _MAX_PARK_MS)
        self.as_rocketmq = as_rocketmq
        self.key = (group, topic)
        self.tail: QueueTail | None = None
        self.offset = 0
        self.until_ms = 0
        self.is_busy = False
        self.checked = -1

    @cython.ccall
    @cython.exceptval(-1)
    def give(self, pulled: Pulled) -> cython.int:
        """Answer with records, behind ``HEAD_ROOM`` free bytes."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def tell(
        self, verdict: object, next_offset: cython.longlong, low: cython.longlong, high: cython.longlong
    ) -> cython.int:
        """Answer without records: a ``Verdict``, and where the queue begins and ends."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def refuse(self, error: object) -> cython.int:
        """Answer that it cannot be answered."""
        return 0


@cython.cclass
class PullCore:
    """Answers pulls: at once, when a queue gets a message that passes, or when their time is up.

    ``woken`` are queues that got messages, as the store lists them; ``resets`` are offsets that groups must be told.
    What is rare is left to a subclass.
    """

    if not cython.compiled:
        __slots__ = (
            *(
                "capped",
                "delivered",
                "found",
                "generation",
                "kept",
                "missed",
                "now_ms",
                "park_refusals",
                "polls",
                "quick",
            ),
            *("reader", "resets", "woken"),
        )

    def __init__(
        self,
        reader: PullReader,
        woken: list[QueueTail],
        resets: dict[tuple[str, str, int], int],
        polls: LongPolls,
        now_ms: Callable[[], int],
    ) -> None:
        self.reader = reader
        self.quick = reader.quick
        self.woken = woken
        self.resets = resets
        self.polls = polls
        self.now_ms = now_ms
        self.generation = 0
        """Rises whenever a pull that was allowed may not be any more, or would be another one."""
        self.kept = 0
        """Pulls that connections remember."""
        self.delivered: dict[tuple[str, str], int] = {}
        """(group, topic) → messages handed out."""
        self.park_refusals = 0
        """Pulls that might not wait because too many others did."""
        self.capped = 0
        """Pulls that asked for more messages than one answer may have."""
        self.found = 0
        self.missed = 0
        """Pulls that were answered with messages, and without."""

    # -- what is rare ----------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def tell_reset(self, pull: Pull) -> cython.bint:
        """Answer a pull whose group must go to another offset; return whether it must."""
        return False

    @cython.ccall
    def open_queue(self, pull: Pull) -> QueueTail:
        """Return the queue that a pull waits for, made when it is not there yet."""
        raise LookupError(pull.topic)

    @cython.ccall
    @cython.exceptval(-1)
    def read_cold(self, pull: Pull, cold: ColdPull) -> cython.int:
        """Let a thread read what is not in memory, then ``judge`` it."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def give_up(self, pull: Pull, error: object) -> cython.int:
        """Answer a pull that failed unexpectedly."""
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def keep_matching(self, pull: Pull, pulled: Pulled) -> cython.int:
        """Leave out what an SQL expression does not let pass."""
        return 0

    # -- looking ---------------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def pull(self, pull: Pull) -> cython.int:
        """Answer a pull from its ``offset`` on, now or later."""
        pull.is_busy = True
        pull.until_ms = 0
        if pull.is_capped:
            self.capped += 1
        if self.resets and self.tell_reset(pull):
            pull.is_busy = False
            return 0
        return self.look(pull, True)

    @cython.ccall
    @cython.exceptval(-1)
    def look(self, pull: Pull, may_park: cython.bint) -> cython.int:
        """Answer with what is there; with nothing there, wait where that is allowed."""
        found: object
        tail: QueueTail | None = pull.tail
        try:
            if tail is None or tail.is_gone:
                tail = pull.tail = self.reader.queue(pull.topic, pull.queue_id)
            if tail is None:
                found = self.reader.pull(pull.topic, pull.queue_id, pull.offset)
            elif pull.offset == tail.next_offset and may_park and pull.park_ms > 0:
                return self.wait(pull, pull.offset, pull.offset, True)
            else:
                scan: cython.longlong = max(_MAX_SCAN, pull.max_count)
                try:
                    found = self.quick.pull(
                        tail,
                        pull.offset,
                        pull.hashes,
                        pull.max_count,
                        pull.max_bytes,
                        scan,
                        _HEAD_ROOM,
                        pull.as_rocketmq,
                    )
                except OSError:
                    found = None  # whoever asks again names it
                if found is None:
                    found = self.reader.pull_from(
                        tail,
                        pull.offset,
                        pull.hashes,
                        pull.max_count,
                        pull.max_bytes,
                        scan,
                        _HEAD_ROOM,
                        pull.as_rocketmq,
                    )
        except LiteMQError as error:
            pull.is_busy = False
            return pull.refuse(error)
        if isinstance(found, Pulled):
            return self.judge(pull, found, may_park)
        return self.read_cold(pull, found)

    @cython.ccall
    @cython.exceptval(-1)
    def judge(self, pull: Pull, found: Pulled, may_park: cython.bint) -> cython.int:
        """Answer with what was found, or wait."""
        status: object = found.status
        if status is _FOUND:
            if pull.is_sql:
                self.keep_matching(pull, found)
            elif pull.names is not None:
                found.keep_tags(pull.names)
            if found.count == 0:
                return self.skip(pull, found, may_park)
            self.delivered[pull.key] = self.delivered.get(pull.key, 0) + found.count
            self.found += 1
            pull.is_busy = False
            return pull.give(found)
        if status is _NO_MATCH:
            return self.skip(pull, found, may_park)
        if status is _AT_END or (status is _EMPTY and pull.offset == 0):
            return self.wait(pull, found.min_offset, found.max_offset, may_park)
        pull.is_busy = False
        return pull.tell(Verdict.MOVED, found.next_offset, found.min_offset, found.max_offset)

    @cython.cfunc
    @cython.exceptval(-1)
    def skip(self, pull: Pull, found: Pulled, may_park: cython.bint) -> cython.int:
        """Nothing of what was looked at is wanted: go on behind it, here if that is the queue's end."""
        pull.offset = found.next_offset
        if may_park and pull.park_ms > 0 and pull.offset >= found.max_offset and self.park(pull, found.max_offset):
            return 0
        self.missed += 1
        pull.is_busy = False
        return pull.tell(Verdict.NO_MATCH, found.next_offset, found.min_offset, found.max_offset)

    @cython.cfunc
    @cython.exceptval(-1)
    def wait(self, pull: Pull, low: cython.longlong, high: cython.longlong, may_park: cython.bint) -> cython.int:
        if may_park and pull.park_ms > 0:
            if not self.park(pull, high):
                # "Nothing found" would have the client ask again at once.
                self.park_refusals += 1
                pull.is_busy = False
                text = f"{self.polls.count} pulls wait already (limits.parked_pulls); try again in 1000 ms"
                return pull.refuse(Busy(text))
            return 0
        self.missed += 1
        pull.is_busy = False
        return pull.tell(Verdict.NOTHING, pull.offset, low, high)

    # -- waiting ---------------------------------------------------------------------------------

    @cython.ccall
    @cython.exceptval(-1)
    def park(self, pull: Pull, high: cython.longlong) -> cython.bint:
        """Let a pull wait for a message at or behind ``high``, its queue's readable end; False: too many wait."""
        tail: QueueTail | None = pull.tail
        if tail is None or tail.is_gone:
            tail = pull.tail = self.open_queue(pull)
        if pull.until_ms == 0:
            pull.until_ms = self.now_ms() + pull.park_ms
        if not self.polls.park(pull, tail, pull.until_ms):
            return False
        if tail.next_offset > high:
            self.woken.append(tail)  # appended, and readable after the next flush
        else:
            tail.watch = self.woken
        return True

    @cython.ccall
    @cython.exceptval(-1)
    def wake(self) -> cython.int:
        """Look again for those whose queues have got messages."""
        tail: QueueTail
        pull: Pull
        now: cython.longlong = -1
        if not self.woken:
            return 0
        tails = dict.fromkeys(self.woken)  # each once, however many of those who wait have named it
        self.woken.clear()
        for tail in tails:
            for pull in self.polls.wake(tail):
                if now < 0:
                    now = self.now_ms()
                self.look_safely(pull, pull.deadline_ms > now)
        return 0

    @cython.ccall
    @cython.exceptval(-1)
    def look_safely(self, pull: Pull, may_park: cython.bint) -> cython.int:
        """``look`` for one of several: whatever goes wrong with it, the others must have their answers."""
        try:
            return self.look(pull, may_park)
        except Exception as error:  # noqa: BLE001 - it is told to the consumer, and to the log
            return self.give_up(pull, error)
