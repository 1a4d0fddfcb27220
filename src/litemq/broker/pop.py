"""Consuming by receipts: messages are handed out for a time, and are acknowledged or come again.

A redelivery serves the record that is there: no copy goes into the topic.  What was handed out stands in the log before
its answer leaves, and what was acknowledged before it is confirmed (``pop_state``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future

from litemq.broker.groups import Groups
from litemq.broker.offsets import Offsets
from litemq.broker.pop_answers import (
    MOST_MESSAGES,
    PopAnswer,
    Popping,
    TooManyWait,
    check_invisible,
)
from litemq.broker.pop_letters import PopLetters
from litemq.broker.pop_queues import PopQueues
from litemq.broker.pop_receipts import PopReceipts
from litemq.broker.pop_state import Key, PopStates
from litemq.broker.pop_taking import PopTaking, Reading
from litemq.broker.pop_waits import Waiting, Watch
from litemq.broker.pull import Puller
from litemq.broker.retries import Retries
from litemq.broker.topics import Topics
from litemq.errors import BadField
from litemq.store._slice_cy import Pulled
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_MAX_WAIT_MS = 30_000
_COUNT_EVERY_MS = 1_000


class Pops:
    """Hands out messages by receipts, takes receipts back, and buries what was handed out too often."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        retries: Retries,
        puller: Puller,
        *,
        cold: Executor,
        on_loop: Callable[[Callable[[], None]], object],
        now_ms: Callable[[], int],
        appended: Callable[[], None],
    ) -> None:
        """``appended`` is called when dead letters were."""
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._puller = puller
        self._cold = cold
        self._on_loop = on_loop
        self.states = PopStates(store, now_ms=now_ms)
        self.receipts = PopReceipts(groups, self.states)
        self._queues = PopQueues(store, topics, offsets, self.states)
        self._letters = PopLetters(store, retries, self.states, appended=appended)
        self._taking = PopTaking(store, groups, puller, self.states, self._queues, self._letters)
        self.waiting: Waiting[Popping] = Waiting(puller.limits.parked_pulls)
        self._watches: dict[tuple[str, int], Watch] = {}
        self._is_open = True
        self._count_at = 0
        self.refused_waiting = 0
        topics.on_change.append(self._topics_changed)
        groups.on_change.append(self._group_changed)
        offsets.on_reset.append(self._reset)

    # -- asking ----------------------------------------------------------------------------------

    def pop(self, popping: Popping) -> None:
        """Answer now, or when there is something, or when the time is up."""
        self._puller.check(popping.group, popping.topic, max(popping.queue_id, 0))
        if not 1 <= popping.count <= MOST_MESSAGES:
            raise BadField(f"maxMsgNums is {popping.count}, it must be 1 to {MOST_MESSAGES}")
        check_invisible(popping.invisible_ms)
        popping.deadline_ms = self.states.now() + min(max(popping.wait_ms, 0), _MAX_WAIT_MS)
        ids = self._queues.ids(popping, turns=False)
        if popping.begins_at_end and len(self.states.of.get((popping.group, popping.topic), ())) < len(ids):
            for queue_id in ids:  # all at once: what comes from now on is wanted, wherever it is looked for first
                self._queues.open(popping, queue_id)
        self._go(popping)

    def peek(self, popping: Popping) -> PopAnswer:
        """Return messages that would be handed out next, without handing them out: of those in memory."""
        self._puller.check(popping.group, popping.topic, max(popping.queue_id, 0))
        return self._taking.peek(popping)

    def waits(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many wait for a queue, -1: for any."""
        return self.waiting.length(group, topic, queue_id)

    def _go(self, popping: Popping) -> None:
        """Look for messages, with the answer or the wait as the end of it."""
        self._drive(popping, self._taking.collect(popping), None)

    def _drive(self, popping: Popping, reading: Reading, found: Pulled | None) -> bool:
        """Go on until the answer, or until the disk must be waited for; return whether there was something."""
        try:
            cold = next(reading) if found is None else reading.send(found)
        except StopIteration as stop:
            return self._end(popping, stop.value)
        except Exception as error:  # noqa: BLE001 - it is told to the consumer
            popping.refuse(error)
            return True
        self._cold.submit(cold.finish).add_done_callback(
            lambda future: self._on_loop(lambda: self._go_on(popping, reading, future))
        )
        return True

    def _go_on(self, popping: Popping, reading: Reading, future: Future[Pulled]) -> None:
        error = future.exception()
        if error is None:
            self._drive(popping, reading, future.result())
        else:
            try:
                reading.throw(error)
            except StopIteration as stop:
                self._end(popping, stop.value)
            except Exception as raised:  # noqa: BLE001 - as above
                popping.refuse(raised)
        self._serve_topic(popping.topic)  # others have passed by what was being read

    def _end(self, popping: Popping, answer: PopAnswer) -> bool:
        """Give an answer, or let one wait that has none; return whether there was something."""
        if answer.handed:
            popping.give(answer)
            return True
        if not self._is_open or popping.deadline_ms <= self.states.now():
            popping.give(None)
            return True
        if answer.is_again:
            self._on_loop(lambda: self._go(popping))
            return True
        if not self._wait(popping):
            self.refused_waiting += 1
            popping.refuse(TooManyWait(self.waiting.count))
        return False

    def _wait(self, popping: Popping) -> bool:
        if not self.waiting.add(popping, again=popping.has_waited):
            return False
        popping.has_waited = True
        for queue_id in self._queues.ids(popping, turns=False):
            place = (popping.topic, queue_id)
            if place not in self._watches:
                watch = Watch(self, self._puller, *place, self._noticed)
                high = self._store.reader.max_offset(*place)
                if watch.begin(self._store.queue(*place), high):
                    self._watches[place] = watch
        return True

    def _noticed(self, watch: Watch) -> None:
        """A queue that is waited for has got a message, or was watched long enough."""
        place = (watch.topic, watch.queue_id)
        if self._watches.get(place) is watch:
            del self._watches[place]
        self._serve_topic(watch.topic)

    def _serve_topic(self, topic: str) -> None:
        for key in self.waiting.keys(topic):
            self._serve(key)

    def _serve(self, key: Key) -> None:
        """Answer those who wait for a queue, one after the other, while there is something."""
        while self._is_open and (popping := self.waiting.take(key)) is not None:
            found = self._drive(popping, self._taking.collect(popping), None)
            if not found:
                break

    # -- receipts --------------------------------------------------------------------------------

    def acknowledge(self, group: str, topic: str, queue_id: int, receipts: Iterable[tuple[int, int]]) -> list[int]:
        """Be done with messages, each given as offset and generation; return the offsets whose receipt is not good."""
        before = self.receipts.acknowledged
        wrong = self.receipts.acknowledge(group, topic, queue_id, receipts)
        if self.receipts.acknowledged > before and self.waiting.count and (group, topic) in self._taking.ordered:
            self._serve_topic(topic)  # the next one may go
        return wrong

    # -- time and change -------------------------------------------------------------------------

    def tick(self, _now_ms: int) -> None:
        """Do what is due: messages whose time is over, members whose wait is."""
        now = self.states.now()
        self.waiting.limit = self._puller.limits.parked_pulls
        self.receipts.settle()
        served: set[str] = set()
        for key, queue in list(self.states.all()):
            if queue.due_ms > now and not queue.dead:
                continue
            group = self._groups.find(key[0])
            if group is not None:
                queue.expire(now, max(group.max_retries, 0) + 1)
            if queue.dead and not queue.is_busy:
                self._letters.bury(key, queue)
            served.add(key[1])
        for topic in served:
            self._serve_topic(topic)
        for popping in self.waiting.due(now):
            self._drive(popping, self._taking.collect(popping), None)
        if now >= self._count_at:
            self._count_at = now + _COUNT_EVERY_MS
            self.states.count()
        self.states.save(now)

    def _reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """An operator has set a group's offset: what it holds by receipts is forgotten."""
        if self.states.find(group, topic, queue_id) is not None:
            self._offsets.resets.pop((group, topic, queue_id), None)
            self.states.begin(group, topic, queue_id, offset)
            self._serve_topic(topic)

    def _topics_changed(self, names: list[str]) -> None:
        for name in names:
            if self._topics.find(name) is None:
                self.states.forget(topic=name)
                self._refuse_waiting(name)

    def _group_changed(self, name: str) -> None:
        if self._groups.find(name) is None:
            self.states.forget(group=name)

    def _refuse_waiting(self, topic: str) -> None:
        """Answer those who wait for a topic that is gone."""
        for key in self.waiting.keys(topic):
            while (popping := self.waiting.take(key)) is not None:
                self._drive(popping, self._taking.collect(popping), None)

    def answer_all(self) -> None:
        """Answer everyone who waits: the broker stops."""
        self._is_open = False
        for popping in self.waiting.take_all():
            popping.give(None)
        self.receipts.settle()

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self.states.close()

    def report(self) -> dict[str, int]:
        """Return what happened since the start, and what is held now."""
        return {
            "handedOut": self._taking.handed_out,
            "handedOutAgain": self._taking.handed_out_again,
            "acknowledged": self.receipts.acknowledged,
            "changed": self.receipts.changed,
            "stale": self.receipts.stale,
            "dead": self._letters.dead,
            "gone": self._taking.gone + self._letters.gone,
            "inFlight": self.states.count(),
            "ready": sum(queue.ready_count for _, queue in self.states.all()),
            "waiting": self.waiting.count,
            "refusedInFlight": self._taking.refused_full,
            "refusedWaiting": self.refused_waiting,
            "records": self.states.records,
        }
