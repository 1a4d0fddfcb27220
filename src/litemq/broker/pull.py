"""Pulling: messages of a queue from an offset on, and the wait for those that are not there yet.

A pull is answered exactly once, through its ``reply``: at once, when its queue gets a message that its filter lets
pass, when its time is up, or when a thread has read what was not in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from litemq.broker.groups import Groups
from litemq.broker.offsets import Offsets
from litemq.broker.topics import Topics
from litemq.config import LimitsConfig
from litemq.errors import BadField, Busy, LiteMQError, NoPermission
from litemq.features.filters import Filter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.features.long_poll import LongPolls, Parked
from litemq.store._slice_cy import Pulled
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull, PullStatus

logger = logging.getLogger(__name__)

HEAD_ROOM = 512
"""Bytes that are left free before the records: the answer's header is written there, so that nothing is copied."""

_MAX_SCAN = 800
_MAX_PARK_MS = 30_000
"""Clients give up after so long."""


class Verdict(Enum):
    """How a pull ended."""

    FOUND = "FOUND"
    NOTHING = "NO_NEW_MESSAGE"
    NO_MATCH = "NO_MATCHED_MESSAGE"
    MOVED = "OFFSET_MOVED"


class PullAnswer(NamedTuple):
    """The answer to a pull; ``pulled`` holds the records when there are any."""

    verdict: Verdict
    next_offset: int
    min_offset: int
    max_offset: int
    pulled: Pulled | None = None


Reply = Callable[[PullAnswer | LiteMQError], None]


@dataclass(slots=True)
class Pull:
    """What a consumer asks for; ``offset`` moves on while a filter lets nothing pass."""

    group: str
    topic: str
    queue_id: int
    offset: int
    max_count: int
    max_bytes: int
    filter: Filter
    reply: Reply
    owner: Hashable
    """The connection: it takes its parked pulls along."""
    park_ms: int = 0
    as_rocketmq: bool = True
    deadline_ms: int = 0


class Puller:
    """Answers pulls of one broker."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        limits: LimitsConfig,
        *,
        cold: Executor,
        on_loop: Callable[[Callable[[], None]], object],
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self.limits = limits
        self._cold = cold
        self._on_loop = on_loop
        self._now_ms = now_ms
        self.polls: LongPolls[Pull] = LongPolls(limits.parked_pulls)
        self.delivered: dict[tuple[str, str], int] = {}
        """(group, topic) → messages handed out."""
        self.park_refusals = 0
        """Pulls that might not wait because too many others did."""
        self.capped = 0
        """Pulls that asked for more messages than one answer may have."""
        self.found = 0
        self.missed = 0
        """Pulls that were answered with messages, and without."""

    def check(self, group: str, topic: str, queue_id: int) -> None:
        """Refuse a pull of what is not there or may not be read."""
        self._groups.for_consumer(group)
        found = self._topics.known(topic)
        if not found.is_readable:
            raise NoPermission(f"topic {topic!r} may not be read: its permission is {found.perm}")
        if not 0 <= queue_id < found.read_queues:
            raise BadField(f"queue {queue_id} of topic {topic!r} does not exist: {found.read_queues} can be read")

    def pull(self, pull: Pull) -> None:
        """Answer a pull now or later."""
        reset = self._offsets.take_reset(pull.group, pull.topic, pull.queue_id) if self._offsets.resets else None
        if reset is not None:
            low, high = self._bounds(pull)
            pull.reply(PullAnswer(Verdict.MOVED, reset, low, high))
            return
        limits = self.limits
        if pull.max_count > limits.max_pull_count:
            self.capped += 1
        pull.max_count = min(pull.max_count if pull.max_count > 0 else limits.pull_count, limits.max_pull_count)
        pull.max_bytes = min(pull.max_bytes if pull.max_bytes > 0 else limits.pull_bytes, limits.max_pull_bytes)
        pull.deadline_ms = self._now_ms() + min(pull.park_ms, _MAX_PARK_MS) if pull.park_ms > 0 else 0
        self._try(pull)

    # -- looking ---------------------------------------------------------------------------------

    def _try(self, pull: Pull, *, may_park: bool = True) -> None:
        wanted = pull.filter
        try:
            found = self._store.reader.pull(
                pull.topic,
                pull.queue_id,
                pull.offset,
                max_count=pull.max_count,
                max_bytes=pull.max_bytes,
                tag_hashes=None if isinstance(wanted, SqlFilter) else wanted.hashes,
                max_scan=max(_MAX_SCAN, pull.max_count),
                as_rocketmq=pull.as_rocketmq,
                head_room=HEAD_ROOM,
            )
        except LiteMQError as error:
            pull.reply(error)
            return
        if isinstance(found, Pulled):
            self._judge(pull, found, may_park=may_park)
        else:
            self._read_cold(pull, found)

    def _read_cold(self, pull: Pull, cold: ColdPull) -> None:
        """Let a thread read what is not in memory: the loop never waits for the disk."""

        def done(future: Future[Pulled]) -> None:
            error = future.exception()
            if isinstance(error, LiteMQError):
                self._on_loop(lambda: pull.reply(error))
            elif error is not None:
                logger.error("a cold read failed", exc_info=error)
                self._on_loop(lambda: pull.reply(Busy(f"the read failed: {error}")))
            else:
                self._on_loop(lambda: self._judge(pull, future.result(), may_park=True))

        self._cold.submit(cold.finish).add_done_callback(done)

    def _judge(self, pull: Pull, found: Pulled, *, may_park: bool) -> None:
        match found.status:
            case PullStatus.FOUND:
                self._give(pull, found, may_park=may_park)
            case PullStatus.NO_MATCH:
                self._skip(pull, found, may_park=may_park)
            case PullStatus.AT_END:
                self._wait(pull, found, may_park=may_park)
            case PullStatus.EMPTY if pull.offset == 0:
                self._wait(pull, found, may_park=may_park)
            case _:
                pull.reply(PullAnswer(Verdict.MOVED, found.next_offset, found.min_offset, found.max_offset))

    def _give(self, pull: Pull, found: Pulled, *, may_park: bool) -> None:
        if isinstance(pull.filter, SqlFilter):
            reader = self._store.reader
            reader.keep(found, [pull.filter.evaluate(properties) for properties in reader.properties(found)])
        elif pull.filter.names is not None:
            found.keep_tags(pull.filter.names)
        if not found.count:
            self._skip(pull, found, may_park=may_park)
            return
        key = (pull.group, pull.topic)
        self.delivered[key] = self.delivered.get(key, 0) + found.count
        self.found += 1
        pull.reply(PullAnswer(Verdict.FOUND, found.next_offset, found.min_offset, found.max_offset, found))

    def _skip(self, pull: Pull, found: Pulled, *, may_park: bool) -> None:
        """Nothing of what was looked at is wanted: go on behind it, here if that is the queue's end."""
        pull.offset = found.next_offset
        if may_park and pull.deadline_ms and pull.offset >= found.max_offset and self._park(pull):
            return
        self.missed += 1
        pull.reply(PullAnswer(Verdict.NO_MATCH, found.next_offset, found.min_offset, found.max_offset))

    def _wait(self, pull: Pull, found: Pulled, *, may_park: bool) -> None:
        if may_park and pull.deadline_ms:
            if not self._park(pull):
                # "Nothing found" would have the client ask again at once.
                self.park_refusals += 1
                pull.reply(Busy(f"{len(self.polls)} pulls wait already (limits.parked_pulls); try again in 1000 ms"))
            return
        self.missed += 1
        pull.reply(PullAnswer(Verdict.NOTHING, pull.offset, found.min_offset, found.max_offset))

    def _bounds(self, pull: Pull) -> tuple[int, int]:
        reader = self._store.reader
        return reader.min_offset(pull.topic, pull.queue_id), reader.max_offset(pull.topic, pull.queue_id)

    # -- waiting ---------------------------------------------------------------------------------

    def _park(self, pull: Pull) -> bool:
        queue = (pull.topic, pull.queue_id)
        if not self.polls.park(queue, pull, owner=pull.owner, deadline_ms=pull.deadline_ms):
            return False
        self._store.watch(*queue)
        return True

    def wake(self) -> None:
        """Look again for those whose queues have got messages."""
        woken = self._store.woken
        if not woken:
            return
        tails = woken[:]
        woken.clear()
        for tail in tails:
            self._look_again(self.polls.wake((tail.topic, tail.queue_id)))

    def _look_again(self, parked: list[Parked[Pull]]) -> None:
        now = self._now_ms()
        for item in parked:
            self._try(item.pull, may_park=item.deadline_ms > now)

    def tell_resets(self, topic: str, queue_id: int) -> None:
        """Answer those who wait for a queue and whose group's offset in it was set."""
        for item in self.polls.wake((topic, queue_id)):
            pull = item.pull
            if (pull.group, topic, queue_id) in self._offsets.resets:
                self.pull(pull)
            elif not self._park(pull):
                self._try(pull, may_park=False)

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is up."""
        for item in self.polls.due(now_ms):
            self._try(item.pull, may_park=False)

    def answer_all(self) -> None:
        """Answer every parked pull: the broker stops."""
        for item in self.polls.take_all():
            self._try(item.pull, may_park=False)
