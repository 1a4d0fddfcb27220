"""Pulling: messages of a queue from an offset on, and the wait for those that are not there yet.

The way that most pulls go is compiled (``_pull_cy``); here is what decides whether one may be asked at all, and what
happens rarely.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future

from litemq.broker._pull_cy import Pull, PullCore, Verdict
from litemq.broker.groups import Groups
from litemq.broker.offsets import Offsets
from litemq.broker.topics import Topics
from litemq.config import LimitsConfig
from litemq.errors import BadField, Busy, LiteMQError, NoPermission
from litemq.features._long_poll_cy import LongPolls, Waiter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.store._slice_cy import Pulled
from litemq.store._tails_cy import QueueTail
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull

logger = logging.getLogger(__name__)


class Puller(PullCore):
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
        super().__init__(store.reader, store.woken, offsets.resets, LongPolls(limits.parked_pulls), now_ms)
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self.limits = limits
        self._cold = cold
        self._on_loop = on_loop
        topics.on_change.append(self._topics_changed)
        groups.on_change.append(lambda _name: self.check_anew())

    def _topics_changed(self, names: list[str]) -> None:
        self.check_anew()
        if any(self._topics.find(name) is None for name in names):
            self._leave_deleted()

    def check_anew(self) -> None:
        """Let no pull be asked again without a look whether it is allowed, and what it would be."""
        self.generation += 1

    def apply_limits(self, limits: LimitsConfig) -> None:
        """Put other limits to work, at once and for everybody."""
        self.limits = limits
        self.polls.limit = limits.parked_pulls
        self.check_anew()

    def check(self, group: str, topic: str, queue_id: int) -> None:
        """Refuse a pull of what is not there or may not be read."""
        self._groups.for_consumer(group)
        found = self._topics.known(topic)
        if not found.is_readable:
            raise NoPermission(f"topic {topic!r} may not be read: its permission is {found.perm}")
        if not 0 <= queue_id < found.read_queues:
            raise BadField(f"queue {queue_id} of topic {topic!r} does not exist: {found.read_queues} can be read")

    def allow(self, pull: Pull) -> None:
        """Take in a pull that was checked: it may be asked until something changes."""
        limits = self.limits
        pull.is_capped = pull.max_count > limits.max_pull_count
        pull.max_count = min(pull.max_count if pull.max_count > 0 else limits.pull_count, limits.max_pull_count)
        pull.max_bytes = min(pull.max_bytes if pull.max_bytes > 0 else limits.pull_bytes, limits.max_pull_bytes)
        pull.checked = self.generation

    # -- what is rare ----------------------------------------------------------------------------

    def tell_reset(self, pull: Pull) -> bool:
        """Answer a pull whose group must go to another offset; return whether it must."""
        reset = self._offsets.take_reset(pull.group, pull.topic, pull.queue_id)
        if reset is None:
            return False
        reader = self._store.reader
        low, high = reader.min_offset(pull.topic, pull.queue_id), reader.max_offset(pull.topic, pull.queue_id)
        pull.tell(Verdict.MOVED, reset, low, high)
        return True

    def open_queue(self, pull: Pull) -> QueueTail:
        """Return the queue that a pull waits for, made when it is not there yet."""
        return self._store.queue(pull.topic, pull.queue_id)

    def read_cold(self, pull: Pull, cold: ColdPull) -> int:
        """Let a thread read what is not in memory: the loop never waits for the disk."""

        self._cold.submit(cold.finish).add_done_callback(
            lambda future: self._on_loop(lambda: self._finish_cold(pull, future))
        )
        return 0

    def _finish_cold(self, pull: Pull, future: Future[Pulled]) -> None:
        try:
            self.judge(pull, future.result(), True)
        except Exception as error:  # noqa: BLE001 - as in ``look_safely``
            self.give_up(pull, error)
        self.wake()  # it may wait now for what came while the disk was busy

    def give_up(self, pull: Pull, error: BaseException) -> int:
        """Answer a pull that failed unexpectedly."""
        pull.is_busy = False
        if not isinstance(error, LiteMQError):
            logger.error("a pull failed: topic=%s queue=%d", pull.topic, pull.queue_id, exc_info=error)
            error = Busy(f"the read failed: {error}")
        pull.refuse(error)
        return 0

    def keep_matching(self, pull: Pull, pulled: Pulled) -> int:
        """Leave out what an SQL expression does not let pass."""
        assert isinstance(pull.filter, SqlFilter)
        reader = self._store.reader
        reader.keep(pulled, [pull.filter.evaluate(properties) for properties in reader.properties(pulled)])
        return 0

    # -- waiting ---------------------------------------------------------------------------------

    def tell_resets(self, topic: str, queue_id: int) -> None:
        """Answer those who wait for a queue and whose group's offset in it was set."""
        queue = self._store.reader.queue(topic, queue_id)
        for waiter in self.polls.wake(queue) if queue is not None else ():
            pull = _pull_of(waiter)
            if (pull.group, topic, queue_id) in self._offsets.resets:
                self.pull(pull)
            elif not self.park(pull, pull.offset):
                self.look_safely(pull, False)

    def _leave_deleted(self) -> None:
        """Answer those who wait for queues that are gone: a new one of the same name would not wake them."""
        for queue in self.polls.queues():
            if isinstance(queue, QueueTail) and queue.is_gone:
                for waiter in self.polls.wake(queue):
                    self.look_safely(_pull_of(waiter), False)

    def expire(self, now_ms: int) -> None:
        """Answer those whose time is up."""
        for waiter in self.polls.due(now_ms):
            self.look_safely(_pull_of(waiter), False)

    def answer_all(self) -> None:
        """Answer every parked pull: the broker stops."""
        for waiter in self.polls.take_all():
            self.look_safely(_pull_of(waiter), False)


def _pull_of(waiter: Waiter) -> Pull:
    assert isinstance(waiter, Pull)  # nothing else is parked
    return waiter
