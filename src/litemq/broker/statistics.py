"""What a broker has done: by topic, by group, and altogether.

Nothing is counted when a message passes.  Every ten seconds, a share of the topics at each tick, the store tells by the
ends of its queues how many messages came; a request looks anew at what it asks for.  Sizes of single topics are
estimates: the size of the newest message times their number.
"""

from __future__ import annotations

import time
from collections import deque

from litemq.broker.meters import Meter, Rates
from litemq.broker.pull import Puller
from litemq.broker.retries import Retries
from litemq.broker.system_topics import HALF_OP_TOPIC, HALF_TOPIC
from litemq.broker.topics import Topics
from litemq.clock import Clock
from litemq.format.names import CHANGES_TOPIC, POP_TOPIC, PROGRESS_TOPIC, STAGE_TOPIC, STATS_TOPIC
from litemq.store.message_store import MessageStore

_SECOND_MS = 1_000
_ROUND_MS = 10_000
_TOPICS_AT_ONCE = 500
_TRAFFIC = 20
"""A topic with traffic takes as long as so many without."""
_KEPT_MS = 86_400_000
_OWN_TOPICS = (CHANGES_TOPIC, PROGRESS_TOPIC, POP_TOPIC, STAGE_TOPIC, STATS_TOPIC, HALF_TOPIC, HALF_OP_TOPIC)

Key = tuple[str, str]
"""Group and topic."""


class Statistics:
    """Looks at the broker's parts on the tick.  Called on the loop."""

    def __init__(self, store: MessageStore, topics: Topics, puller: Puller, retries: Retries, clock: Clock) -> None:
        self._store = store
        self._topics = topics
        self._puller = puller
        self._retries = retries
        self._clock = clock
        self.boot_ms = clock.now_ms()
        self.log_start = store.appended_end
        """Where the log ended at the start."""
        self.puts: dict[str, Meter] = {}
        self.gets: dict[Key, Meter] = {}
        self.backs: dict[Key, Meter] = {}
        self.put = Meter(self.boot_ms)
        self.got = Meter(self.boot_ms)
        self.rates = Rates("put", "got", "found", "missed")
        self._seen_put = {topic.name: total for topic in topics.all() if (total := store.appended(topic.name)[0])}
        """Topic → what the store had said when it was looked at last."""
        self._seen: dict[Key, int] = {}
        self._seen_back: dict[Key, int] = {}
        self._gone = 0
        """Messages handed out to groups, or of topics, that were deleted."""
        self._stored_before = self._stored()
        self._second_at = 0
        self._round_at = 0
        self._round: deque[str] = deque()
        self._day = self._today()
        self.morning = (0, 0)
        """Messages put and got when the day began."""
        self.yesterday = (0, 0)
        topics.on_change.append(self._topics_changed)
        self.tick(self.boot_ms)

    # -- looking ---------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Take down what is due."""
        mono = self._clock.monotonic_ms()
        if mono >= self._second_at:
            self._second_at = mono + _SECOND_MS
            self.rates.sample(mono, self.put_total, self.got_total, self._puller.found, self._puller.missed)
            self._turn_day()
        if mono >= self._round_at and not self._round:
            self._round_at = mono + _ROUND_MS
            self._round.extend(topic.name for topic in self._topics.all())
            self._look_at_groups(now_ms)
            self.look_at_broker(now_ms)
        budget = _TOPICS_AT_ONCE
        while self._round and budget > 0:
            budget -= self.look_at(self._round.popleft(), now_ms)

    def look_at(self, name: str, now_ms: int) -> int:
        """Count what came to a topic since it was looked at last; return what that cost, a topic at rest being 1."""
        if self._topics.find(name) is None:
            return 1
        total, queue_id = self._store.appended(name)
        came = total - self._seen_put.get(name, 0)
        if came <= 0:
            return 1
        self._seen_put[name] = total
        meter = self.puts.get(name)
        if meter is None:
            meter = self.puts[name] = Meter(self._last_round(now_ms))
        reader = self._store.reader
        newest = reader.entries(name, queue_id, reader.max_offset(name, queue_id) - 1, 1)
        meter.add(came, came * newest[0].size if newest else 0, now_ms)
        return _TRAFFIC

    def _look_at_groups(self, now_ms: int) -> None:
        for key in list(self._puller.delivered):
            self.look_at_group(key, now_ms)
        for key in list(self._retries.sent_back):
            self.look_at_back(key, now_ms)
        for meters in (self.gets, self.backs):
            for key in [key for key, meter in meters.items() if now_ms - meter.changed_ms > _KEPT_MS]:
                del meters[key]

    def look_at_group(self, key: Key, now_ms: int) -> None:
        """Count what a group got of a topic since it was looked at last."""
        size = self._size_of(key[1])
        self._take(self.gets, self._seen, key, self._puller.delivered.get(key, 0), size, now_ms)

    def look_at_back(self, key: Key, now_ms: int) -> None:
        """Count what a group sent back of a topic since it was looked at last."""
        self._take(self.backs, self._seen_back, key, self._retries.sent_back.get(key, 0), 0, now_ms)

    def _take(
        self, meters: dict[Key, Meter], seen: dict[Key, int], key: Key, total: int, size: int, now_ms: int
    ) -> None:
        """Count what came to one of many totals."""
        came = total - seen.get(key, 0)
        if came <= 0:
            return
        seen[key] = total
        if key not in meters:
            meters[key] = Meter(self._last_round(now_ms))
        meters[key].add(came, came * size, now_ms)

    def _last_round(self, now_ms: int) -> int:
        """Return since when something may have come that is met for the first time."""
        return max(self.boot_ms, now_ms - _ROUND_MS)

    def look_at_broker(self, now_ms: int) -> None:
        """Count what the whole broker took in and gave out since it was looked at last."""
        for meter, total in ((self.put, self.put_total), (self.got, self.got_total)):
            if total > meter.count:
                meter.add(total - meter.count, 0, now_ms)

    def _size_of(self, topic: str) -> int:
        """Return the size of a topic's messages, as far as it is known."""
        meter = self.puts.get(topic)
        return meter.size // meter.count if meter is not None and meter.count else 0

    # -- totals ----------------------------------------------------------------------------------

    @property
    def put_total(self) -> int:
        """Return how many messages were stored since the start, LiteMQ's own records left out."""
        return self._stored() - self._stored_before

    @property
    def got_total(self) -> int:
        """Return how many messages were handed out since the start."""
        return sum(self._puller.delivered.values()) + self._gone

    def _stored(self) -> int:
        """Return a number that grows with every message, and with none of LiteMQ's own records."""
        reader = self._store.reader
        return self._store.counters()["messages"] - sum(reader.max_offset(topic, 0) for topic in _OWN_TOPICS)

    # -- days ------------------------------------------------------------------------------------

    def _today(self) -> int:
        return time.localtime(self._clock.now_ms() / 1000).tm_yday

    def _turn_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day = today
            self.yesterday, self.morning = self.morning, (self.put_total, self.got_total)

    # -- what comes and goes ---------------------------------------------------------------------

    def _topics_changed(self, names: list[str]) -> None:
        for name in names:
            if self._topics.find(name) is None:
                self._seen_put.pop(name, None)
                self.puts.pop(name, None)
                self._forget([key for key in self._puller.delivered if key[1] == name])

    def forget_group(self, group: str) -> None:
        """Forget a group that was deleted."""
        self._forget([key for key in self._puller.delivered if key[0] == group])

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            self._gone += self._puller.delivered.pop(key)
            self._retries.sent_back.pop(key, None)
            for known in (self.gets, self.backs, self._seen, self._seen_back):
                known.pop(key, None)
