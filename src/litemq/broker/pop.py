"""Consuming by receipts: messages are handed out for a time, and are acknowledged or come again.

A redelivery serves the record that is there: no copy goes into the topic.  What was handed out stands in the log before
its answer leaves, and what was acknowledged before it is confirmed (``pop_state``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Executor, Future

from litemq.broker.groups import Group, Groups
from litemq.broker.offsets import Offsets
from litemq.broker.pop_answers import (
    MOST_MESSAGES,
    Handed,
    PopAnswer,
    Popping,
    Share,
    TooManyWait,
    add,
    check_invisible,
    hashes_of,
    offsets_of,
    runs_of,
    set_times,
)
from litemq.broker.pop_state import Key, PopStates
from litemq.broker.pop_waits import Waiting, Watch
from litemq.broker.pull import Puller
from litemq.broker.retries import Retries
from litemq.broker.topics import Topics
from litemq.errors import BadField, Busy, CorruptRecord, LiteMQError, StaleReceipt
from litemq.features.filters import Filter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.features.pop import PopQueue, Standing
from litemq.format.pop_records import Kind, PopEntry
from litemq.store._slice_cy import Pulled
from litemq.store._tail_pull_cy import PullStatus
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull

logger = logging.getLogger(__name__)

_MAX_WAIT_MS = 30_000
_MAX_LOOKS = 8
"""Reads of one queue for one answer: a filter may let very little pass."""
_LETTERS_AT_ONCE = 100
_COUNT_EVERY_MS = 1_000
Reading = Generator[ColdPull, Pulled, PopAnswer]
Looking = Generator[ColdPull, Pulled, None]


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
        self._retries = retries
        self._puller = puller
        self._cold = cold
        self._on_loop = on_loop
        self._appended = appended
        self.states = PopStates(store, now_ms=now_ms)
        self.waiting: Waiting[Popping] = Waiting(puller.limits.parked_pulls)
        self._watches: dict[tuple[str, int], Watch] = {}
        self._ordered: set[tuple[str, str]] = set()
        """(group, topic) that get one message of a queue at a time."""
        self._trouble = ""
        self._turns: dict[tuple[str, str], int] = {}
        self._is_open = True
        self._count_at = 0
        self.handed_out = self.handed_out_again = self.acknowledged = self.changed = 0
        self.stale = self.dead = self.gone = self.refused_full = self.refused_waiting = 0
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
        ids = self._queue_ids(popping, turns=False)
        if popping.begins_at_end and len(self.states.of.get((popping.group, popping.topic), ())) < len(ids):
            for queue_id in ids:  # all at once: what comes from now on is wanted, wherever it is looked for first
                self._open(popping, queue_id)
        self._go(popping)

    def peek(self, popping: Popping) -> PopAnswer:
        """Return messages that would be handed out next, without handing them out: of those in memory."""
        self._puller.check(popping.group, popping.topic, max(popping.queue_id, 0))
        now = self.states.now()
        answer = PopAnswer(now, 0, 0, [])
        data = bytearray()
        left = min(max(popping.count, 1), MOST_MESSAGES)
        for queue_id in self._queue_ids(popping):
            queue = self._open(popping, queue_id)
            found = self._store.reader.pull(
                popping.topic,
                queue_id,
                queue.next,
                max_count=left,
                max_bytes=self._puller.limits.pull_bytes - len(data),
                tag_hashes=hashes_of(popping.filter),
            )
            if isinstance(found, Pulled) and found.status is PullStatus.FOUND:
                self._keep(popping.filter, found)
                answer.handed.append(Handed(queue_id, offsets_of(found)))
                data += memoryview(found.buffer)[found.start :]
                left -= found.count
            if left <= 0 or len(data) >= self._puller.limits.pull_bytes:
                break
        return PopAnswer(now, 0, self._rest(popping), answer.handed, data)

    def waits(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many wait for a queue, -1: for any."""
        return self.waiting.length(group, topic, queue_id)

    def _go(self, popping: Popping) -> None:
        """Look for messages, with the answer or the wait as the end of it."""
        self._drive(popping, self._collect(popping), None)

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
        for queue_id in self._queue_ids(popping, turns=False):
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
            found = self._drive(popping, self._collect(popping), None)
            if not found:
                break

    # -- collecting ------------------------------------------------------------------------------

    def _collect(self, popping: Popping) -> Reading:
        """Take messages out of queues, each time beginning with another one; yield what the disk must give."""
        now = self.states.now()
        group = self._groups.known(popping.group)
        answer = PopAnswer(now, popping.invisible_ms, 0)
        if popping.is_notice:
            if any(self._has_any(popping, queue_id, group) for queue_id in self._queue_ids(popping)):
                answer.handed.append(Handed(popping.queue_id, []))
            return answer
        shares: list[Share] = []
        left, room = popping.count, self._puller.limits.pull_bytes
        is_again = False
        for queue_id in self._queue_ids(popping):
            queue = self._open(popping, queue_id)
            if queue.is_busy:
                continue
            share = Share(queue_id, queue)
            try:
                yield from self._take(popping, group, share, left, room if shares else max(room, 1), now)
            except LiteMQError:
                if not shares and not share.offsets:
                    raise
                logger.warning("a queue gave nothing: topic=%s queue=%d", popping.topic, queue_id, exc_info=True)
            is_again = is_again or share.is_again
            if share.offsets:
                shares.append(share)
                left -= len(share.offsets)
                room -= share.size
            if left <= 0 or room <= 0:
                break
        if not shares:
            return PopAnswer(now, popping.invisible_ms, 0, is_again=is_again)
        self.states.record(())
        handed = [Handed(share.queue_id, share.offsets) for share in shares]
        parts = [part for share in shares for part in share.parts]
        count = sum(len(share.offsets) for share in shares)
        name = (popping.group, popping.topic)
        self._puller.delivered[name] = self._puller.delivered.get(name, 0) + count
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return PopAnswer(now, popping.invisible_ms, self._rest(popping), handed, data)

    def _take(self, popping: Popping, group: Group, share: Share, left: int, room: int, now: int) -> Looking:
        """Take from one queue: first what comes again, then what is new."""
        queue = share.queue
        key = (popping.group, popping.topic, share.queue_id)
        queue.expire(now, max(group.max_retries, 0) + 1)
        if queue.dead:
            self._bury(key, queue)
        is_ordered = popping.is_ordered or group.config.get("consumeMessageOrderly") is True
        if is_ordered:
            if queue.is_blocked or queue.dead:
                return
            left = 1
            self._ordered.add(key[:2])
        queue.is_busy = True
        try:
            again = queue.ready(left, now) if queue.ready_count else []
            if is_ordered and again:
                again = [queue.floor]
            yield from self._take_again(popping, share, again, room, now)
            left -= len(share.offsets)
            if left > 0 and room > share.size and not (is_ordered and queue.count):
                yield from self._take_new(popping, share, left, room, now)
        finally:
            queue.is_busy = False
            self.states.note_progress(key, queue)

    def _take_again(self, popping: Popping, share: Share, again: list[int], room: int, now: int) -> Looking:
        queue, until = share.queue, now + popping.invisible_ms
        for first, count in runs_of(again):
            at = first
            while at < first + count and room > share.size:
                found = yield from self._read(
                    popping.topic, share.queue_id, at, first + count - at, room - share.size, None
                )
                behind = first + count
                offsets: list[int] = []
                if found.status is PullStatus.FOUND:
                    offsets = offsets_of(found)
                    behind = min(max(found.next_offset, at + 1), behind)
                elif found.status is PullStatus.TOO_SMALL:
                    behind = min(found.next_offset, behind)
                held = [offset for offset in offsets if queue.attempt(offset)[0] and queue.attempt(offset)[1] < now]
                if len(held) < len(offsets):  # acknowledged while the disk was busy
                    self._store.reader.keep(found, [offset in held for offset in offsets])
                lost = [offset for offset in range(at, behind) if offset not in offsets and queue.finish(offset)]
                if lost:
                    self.gone += len(lost)
                    self.states.record_later(
                        PopEntry(Kind.FINISHED, popping.group, popping.topic, share.queue_id, lost)
                    )
                if held:
                    set_times(found, [queue.attempt(offset)[0] for offset in held])
                    queue.deliver(held, now, until)
                    self._note_handed(popping, share, held, now)
                    self.handed_out_again += len(held)
                    add(share, held, found)
                at = behind

    def _take_new(self, popping: Popping, share: Share, left: int, room: int, now: int) -> Looking:
        queue, until = share.queue, now + popping.invisible_ms
        wanted = hashes_of(popping.filter)
        for _ in range(_MAX_LOOKS):
            tail = self._store.reader.queue(popping.topic, share.queue_id)
            if tail is None or tail.next_offset == queue.next:
                return
            if self.states.in_flight + left > self._puller.limits.pop_in_flight:
                if share.offsets:
                    return
                self.refused_full += 1
                raise Busy(
                    f"{self.states.in_flight} messages are held by receipts on this broker (limits.pop_in_flight): "
                    "acknowledge some; try again in 1000 ms"
                )
            found = yield from self._read(
                popping.topic, share.queue_id, queue.next, left, max(room - share.size, 1), wanted
            )
            if found.status in (PullStatus.TOO_SMALL, PullStatus.TOO_LARGE):
                queue.next = found.next_offset
                continue
            if found.status is PullStatus.FOUND:
                self._keep(popping.filter, found)
            elif found.status is not PullStatus.NO_MATCH:
                return
            offsets = offsets_of(found) if found.count else []
            queue.hand_out(offsets, found.next_offset, now, until)
            if offsets:
                self._note_handed(popping, share, offsets, now)
                self.handed_out += len(offsets)
                self.states.in_flight += len(offsets)
                add(share, offsets, found)
                return
        share.is_again = True

    def _note_handed(self, popping: Popping, share: Share, offsets: list[int], now: int) -> None:
        """Have it recorded before anything that is handed out later, even when this answer must wait for the disk."""
        numbers = (share.queue.next, now, now + popping.invisible_ms, *offsets)
        self.states.record_later(PopEntry(Kind.HANDED_OUT, popping.group, popping.topic, share.queue_id, numbers))

    def _read(
        self, topic: str, queue_id: int, offset: int, count: int, room: int, wanted: frozenset[int] | None
    ) -> Generator[ColdPull, Pulled, Pulled]:
        found = self._store.reader.pull(
            topic, queue_id, offset, max_count=count, max_bytes=room, tag_hashes=wanted, as_rocketmq=True
        )
        if isinstance(found, Pulled):
            return found
        return (yield found)

    def _keep(self, wanted: Filter, found: Pulled) -> None:
        """Leave out what a filter does not let pass."""
        reader = self._store.reader
        if isinstance(wanted, SqlFilter):
            reader.keep(found, [wanted.evaluate(properties) for properties in reader.properties(found)])
        elif wanted.names is not None:
            reader.keep_tags(found, wanted.names)

    # -- queues ----------------------------------------------------------------------------------

    def _queue_ids(self, popping: Popping, *, turns: bool = True) -> Sequence[int]:
        """Return the queues that are asked, each time beginning with another one."""
        count = self._topics.known(popping.topic).read_queues
        if popping.queue_id >= 0:
            return (popping.queue_id,) if popping.queue_id < count else ()
        if not turns:
            return range(count)
        name = (popping.group, popping.topic)
        first = self._turns.get(name, 0) % max(count, 1)
        self._turns[name] = first + 1
        return [*range(first, count), *range(first)]

    def _open(self, popping: Popping, queue_id: int) -> PopQueue:
        """Return the state of a queue, brought in line with what others did to the group's progress."""
        key = (popping.group, popping.topic, queue_id)
        reset = self._offsets.resets.pop(key, None) if self._offsets.resets else None
        queue = self.states.find(*key)
        committed = self._store.progress.offset(*key)
        if reset is not None:
            return self.states.begin(*key, reset)
        if queue is None:
            reader = self._store.reader
            if committed is None:
                low, high = reader.min_offset(*key[1:]), reader.max_offset(*key[1:])
                committed = high if popping.begins_at_end else low
            return self.states.begin(*key, committed)
        if committed is not None and committed != queue.told:
            if committed < queue.floor:
                return self.states.begin(*key, committed)
            queue.advance(committed)
            self.states.note_progress(key, queue)
        return queue

    def _has_any(self, popping: Popping, queue_id: int, group: Group) -> bool:
        queue = self._open(popping, queue_id)
        queue.expire(self.states.now(), max(group.max_retries, 0) + 1)
        if (popping.is_ordered or group.config.get("consumeMessageOrderly") is True) and queue.is_blocked:
            return False
        return (
            queue.ready_count > len(queue.dead) or self._store.reader.max_offset(popping.topic, queue_id) > queue.next
        )

    def _rest(self, popping: Popping) -> int:
        total = 0
        queues = self.states.of.get((popping.group, popping.topic), {})
        for queue_id in self._queue_ids(popping, turns=False):
            queue, tail = queues.get(queue_id), self._store.reader.queue(popping.topic, queue_id)
            if queue is not None and tail is not None:
                total += max(tail.next_offset - queue.next, 0) + queue.ready_count
        return total

    # -- receipts --------------------------------------------------------------------------------

    def acknowledge(self, group: str, topic: str, queue_id: int, receipts: Iterable[tuple[int, int]]) -> list[int]:
        """Be done with messages, each given as offset and generation; return the offsets whose receipt is not good."""
        self._groups.known(group)
        key = (group, topic, queue_id)
        queue = self.states.find(*key)
        good: list[int] = []
        wrong = []
        for offset, generation in receipts:
            if queue is None or queue.acknowledge(offset, generation) is not Standing.GOOD:
                wrong.append(offset)
            else:
                good += (offset, generation)
        self.stale += len(wrong)
        if queue is not None and good:
            self.acknowledged += len(good) // 2
            self.states.in_flight -= len(good) // 2
            self.states.record_later(PopEntry(Kind.ACKNOWLEDGED, *key, good))
            self.states.note_progress(key, queue)
            if key[:2] in self._ordered and self.waiting.count:
                self._serve_topic(topic)  # the next one may go
        return wrong

    def change(self, group: str, topic: str, queue_id: int, offset: int, generation: int, invisible_ms: int) -> int:
        """Let a message be invisible for so long from now; return the new generation.

        Raises:
            StaleReceipt: the receipt is not that of the last delivery.
        """
        self._groups.known(group)
        check_invisible(invisible_ms, least=0)
        key = (group, topic, queue_id)
        queue = self.states.find(*key)
        now = self.states.now()
        until = now + invisible_ms
        changed = queue.change(offset, generation, now, until) if queue is not None else 0
        if not changed:
            self.stale += 1
            raise self.why_stale(group, topic, queue_id, offset, generation)
        self.changed += 1
        until = max(until, changed + 1)
        self.states.record([PopEntry(Kind.CHANGED, *key, (offset, generation, changed, until))])
        return changed

    def why_stale(self, group: str, topic: str, queue_id: int, offset: int, generation: int) -> StaleReceipt:
        """Return what is wrong with a receipt."""
        place = f"message {offset} of queue {queue_id} of topic {topic!r}"
        queue = self.states.find(group, topic, queue_id)
        standing = queue.check(offset, generation) if queue is not None else Standing.NOT_HELD
        if standing is Standing.DELIVERED_AGAIN:
            return StaleReceipt(f"the receipt is stale: {place} was delivered again to group {group!r} since")
        return StaleReceipt(
            f"the receipt is stale: group {group!r} does not hold {place}; it is acknowledged already, or a dead letter"
        )

    def settle(self) -> int:
        """Record what was acknowledged; return the end of the log behind it."""
        return self.states.record(())

    # -- dead letters ----------------------------------------------------------------------------

    def _bury(self, key: Key, queue: PopQueue) -> None:
        """Make dead letters of what was handed out too often, in the log before it is finished.

        A crash in between brings a letter twice, and loses none.
        """
        group, topic, queue_id = key
        offsets = queue.take_dead(_LETTERS_AT_ONCE)
        letters = []
        for offset in offsets:
            try:
                record = self._store.reader.message_at(topic, queue_id, offset)
            except CorruptRecord:
                record = None
            if record is not None:
                letters.append(self._retries.exhausted(record, group, queue.attempt(offset)[0]))
        try:
            if letters:
                self._store.append_many(letters)
        except LiteMQError as error:
            queue.dead.extendleft(reversed(offsets))
            if str(error) != self._trouble:  # it is tried again ten times a second
                self._trouble = str(error)
                logger.warning("dead letters not stored: group=%s topic=%s reason=%s", group, topic, error)
            return
        finished = [offset for offset in offsets if queue.finish(offset)]
        self.dead += len(letters)
        self.gone += len(offsets) - len(letters)
        if finished:
            self.states.record([PopEntry(Kind.FINISHED, *key, finished)])
            self.states.note_progress(key, queue)
        if letters:
            self._appended()

    # -- time and change -------------------------------------------------------------------------

    def tick(self, _now_ms: int) -> None:
        """Do what is due: messages whose time is over, members whose wait is."""
        now = self.states.now()
        self.waiting.limit = self._puller.limits.parked_pulls
        self.settle()
        served: set[str] = set()
        for key, queue in list(self.states.all()):
            if queue.due_ms > now and not queue.dead:
                continue
            group = self._groups.find(key[0])
            if group is not None:
                queue.expire(now, max(group.max_retries, 0) + 1)
            if queue.dead and not queue.is_busy:
                self._bury(key, queue)
            served.add(key[1])
        for topic in served:
            self._serve_topic(topic)
        for popping in self.waiting.due(now):
            self._drive(popping, self._collect(popping), None)
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
                self._drive(popping, self._collect(popping), None)

    def answer_all(self) -> None:
        """Answer everyone who waits: the broker stops."""
        self._is_open = False
        for popping in self.waiting.take_all():
            popping.give(None)
        self.settle()

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self.states.close()

    def report(self) -> dict[str, int]:
        """Return what happened since the start, and what is held now."""
        return {
            "handedOut": self.handed_out,
            "handedOutAgain": self.handed_out_again,
            "acknowledged": self.acknowledged,
            "changed": self.changed,
            "stale": self.stale,
            "dead": self.dead,
            "gone": self.gone,
            "inFlight": self.states.count(),
            "ready": sum(queue.ready_count for _, queue in self.states.all()),
            "waiting": self.waiting.count,
            "refusedInFlight": self.refused_full,
            "refusedWaiting": self.refused_waiting,
            "records": self.states.records,
        }
