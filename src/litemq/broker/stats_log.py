"""What the broker did, into the log: records of ``LITEMQ_SYS_STATS``, once a second and only what is new.

They let ``litemq pipeline audit`` compare what producers were told with what is in the log.

    stop …          leaves                                          the next start
    clean           every count in a record                         goes on
    crash           up to a second of sends that are not counted    says that the hours around it are not complete
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from litemq.broker._sent_cy import SentCounts
from litemq.broker.pull import Puller
from litemq.clock import Clock
from litemq.errors import CorruptRecord
from litemq.format.names import RESERVED_TOPIC_PREFIX, STATS_TOPIC
from litemq.format.stats_records import HOUR_MS, encode_counts, encode_incomplete
from litemq.store.message_store import MessageStore

_INTERVAL_MS: Final = 1_000
_PAIRS_AT_A_TIME: Final = 1_000
"""So many pairs of group and topic are looked at in a second at most."""
_FLUSH_MS: Final = 5_000
"""What was taken in so long behind the last record of a log that was cut may be gone with it."""

Counted = dict[str, dict[str, int]]


class StatsLog:
    """Writes down what ``sent``, the puller and the store's progress count.  Called on the loop."""

    def __init__(self, store: MessageStore, sent: SentCounts, puller: Puller, clock: Clock) -> None:
        self._store = store
        self._sent = sent
        self._puller = puller
        self._clock = clock
        self._due_at = clock.monotonic_ms() + _INTERVAL_MS
        self._delivered_at = self._due_at
        self._delivered: dict[tuple[str, str], int] = {}
        """What the puller had told when it was asked last."""
        self._begin()

    def tick(self, _now_ms: int) -> None:
        """Write what came, once a second."""
        now = self._clock.monotonic_ms()
        if now >= self._due_at:
            self._due_at = now + _INTERVAL_MS
            delivered: Counted = {}
            if now >= self._delivered_at:
                delivered = self._take_delivered()
                self._delivered_at = now + _INTERVAL_MS * max(1, len(self._delivered) // _PAIRS_AT_A_TIME)
            self._write(delivered)

    def close(self) -> None:
        """Write what is left; nothing may be sent any more."""
        if self._store.failure is None:
            self._store.save_progress()  # what groups confirmed last counts, too
            self._write(self._take_delivered())

    def _write(self, delivered: Counted) -> None:
        now = self._clock.now_ms()
        now_hour = now - now % HOUR_MS
        acked = self._take_acked()
        hours: dict[int, dict[str, Mapping[str, Mapping[str, int]]]] = {}
        for hour, sent in self._sent.take():
            hours[hour] = {"sent": sent}
        if delivered or acked:
            hours.setdefault(now_hour, {}).update(delivered=delivered, acked=acked)
        for hour, counts in hours.items():
            for body in encode_counts(hour, counts, self._store.largest_state // 2):
                self._store.append_state(STATS_TOPIC, body)

    def _take_acked(self) -> Counted:
        """Return what groups confirmed; of a queue's first offset no more than the group was handed out."""
        found: Counted = {}
        for (group, topic), (moved, first) in self._store.progress.take_moves().items():
            count = moved + min(first, self._puller.delivered.get((group, topic), 0))
            if count:
                found.setdefault(group, {})[topic] = count
        return found

    def _take_delivered(self) -> Counted:
        found: Counted = {}
        totals = self._puller.delivered
        for (group, topic), total in totals.items():
            came = total - self._delivered.get((group, topic), 0)
            if came > 0:
                found.setdefault(group, {})[topic] = came
        self._delivered = dict(totals)
        return found

    # -- the start -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Say which hours are not complete, where some are."""
        store, now = self._store, self._clock.now_ms()
        last = self._last_record()
        if store.was_foreign:
            self._mark(last, now, "a real RocketMQ wrote here, or the log lost its end")
        elif not store.was_clean:
            self._mark(last, min(now, max(last, store.last_store_time) + _FLUSH_MS), "the broker was not stopped")
        elif not store.reader.max_offset(STATS_TOPIC, 0) and self._has_messages():
            self._mark(0, now, "nothing was counted before")

    def _mark(self, since: int, until: int, why: str) -> None:
        self._store.append_state(STATS_TOPIC, encode_incomplete(since, until, why))

    def _last_record(self) -> int:
        """Return when the newest record was written; 0 when nobody knows."""
        reader = self._store.reader
        end = reader.max_offset(STATS_TOPIC, 0)
        try:
            record = reader.message_at(STATS_TOPIC, 0, max(end - 1, 0))
        except CorruptRecord:
            record = None
        return (record.store_time or 0) if record is not None else 0

    def _has_messages(self) -> bool:
        reader = self._store.reader
        return any(
            reader.max_offset(queue.topic, queue.queue_id) > 0
            for queue in self._store.queues()
            if not queue.topic.startswith(RESERVED_TOPIC_PREFIX)
        )
