"""Taking messages out of queues for an answer: first what comes again, then what is new.

What was handed out is recorded before its answer leaves, and before anything that is handed out later, even when this
answer must wait for the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Generator

from litemq.broker.groups import Group, Groups
from litemq.broker.pop_answers import (
    MOST_MESSAGES,
    Handed,
    PopAnswer,
    Popping,
    Share,
    add,
    hashes_of,
    offsets_of,
    runs_of,
    set_times,
)
from litemq.broker.pop_letters import PopLetters
from litemq.broker.pop_queues import PopQueues, is_ordered
from litemq.broker.pop_state import PopStates
from litemq.broker.pull import Puller
from litemq.errors import Busy, LiteMQError
from litemq.features.filters import Filter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.format.pop_records import Kind, PopEntry
from litemq.store._slice_cy import Pulled
from litemq.store._tail_pull_cy import PullStatus
from litemq.store.message_store import MessageStore
from litemq.store.pull_reader import ColdPull

logger = logging.getLogger(__name__)

_MAX_LOOKS = 8
"""Reads of one queue for one answer: a filter may let very little pass."""

Reading = Generator[ColdPull, Pulled, PopAnswer]
Looking = Generator[ColdPull, Pulled, None]


class PopTaking:
    """Collects the messages of answers."""

    def __init__(
        self,
        store: MessageStore,
        groups: Groups,
        puller: Puller,
        states: PopStates,
        queues: PopQueues,
        letters: PopLetters,
    ) -> None:
        self._store = store
        self._groups = groups
        self._puller = puller
        self._states = states
        self._queues = queues
        self._letters = letters
        self.ordered: set[tuple[str, str]] = set()
        """(group, topic) that get one message of a queue at a time."""
        self.handed_out = self.handed_out_again = self.gone = self.refused_full = 0

    def peek(self, popping: Popping) -> PopAnswer:
        """Return messages that would be handed out next, without handing them out: of those in memory."""
        now = self._states.now()
        answer = PopAnswer(now, 0, 0, [])
        data = bytearray()
        left = min(max(popping.count, 1), MOST_MESSAGES)
        for queue_id in self._queues.ids(popping):
            queue = self._queues.open(popping, queue_id)
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
        return PopAnswer(now, 0, self._queues.rest(popping), answer.handed, data)

    def collect(self, popping: Popping) -> Reading:
        """Take messages out of queues, each time beginning with another one; yield what the disk must give."""
        now = self._states.now()
        group = self._groups.known(popping.group)
        answer = PopAnswer(now, popping.invisible_ms, 0)
        if popping.is_notice:
            if any(self._queues.has_any(popping, queue_id, group) for queue_id in self._queues.ids(popping)):
                answer.handed.append(Handed(popping.queue_id, []))
            return answer
        shares: list[Share] = []
        left, room = popping.count, self._puller.limits.pull_bytes
        is_again = False
        for queue_id in self._queues.ids(popping):
            queue = self._queues.open(popping, queue_id)
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
        self._states.record(())
        handed = [Handed(share.queue_id, share.offsets) for share in shares]
        parts = [part for share in shares for part in share.parts]
        count = sum(len(share.offsets) for share in shares)
        name = (popping.group, popping.topic)
        self._puller.delivered[name] = self._puller.delivered.get(name, 0) + count
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return PopAnswer(now, popping.invisible_ms, self._queues.rest(popping), handed, data)

    def _take(self, popping: Popping, group: Group, share: Share, left: int, room: int, now: int) -> Looking:
        """Take from one queue: first what comes again, then what is new."""
        queue = share.queue
        key = (popping.group, popping.topic, share.queue_id)
        queue.expire(now, max(group.max_retries, 0) + 1)
        if queue.dead:
            self._letters.bury(key, queue)
        in_order = is_ordered(popping, group)
        if in_order:
            if queue.is_blocked or queue.dead:
                return
            left = 1
            self.ordered.add(key[:2])
        queue.is_busy = True
        try:
            again = queue.ready(left, now) if queue.ready_count else []
            if in_order and again:
                again = [queue.floor]
            yield from self._take_again(popping, share, again, room, now)
            left -= len(share.offsets)
            if left > 0 and room > share.size and not (in_order and queue.count):
                yield from self._take_new(popping, share, left, room, now)
        finally:
            queue.is_busy = False
            self._states.note_progress(key, queue)

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
                    self._states.record_later(
                        PopEntry(Kind.FINISHED, popping.group, popping.topic, share.queue_id, lost)
                    )
                if held:
                    set_times(found, [queue.attempt(offset)[0] for offset in held])
                    queue.deliver(held, now, until, self._states.holders.number(popping.consumer))
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
            if self._states.in_flight + left > self._puller.limits.pop_in_flight:
                if share.offsets:
                    return
                self.refused_full += 1
                raise Busy(
                    f"{self._states.in_flight} messages are held by receipts on this broker (limits.pop_in_flight): "
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
            queue.hand_out(offsets, found.next_offset, now, until, self._states.holders.number(popping.consumer))
            if offsets:
                self._note_handed(popping, share, offsets, now)
                self.handed_out += len(offsets)
                self._states.in_flight += len(offsets)
                add(share, offsets, found)
                return
        share.is_again = True

    def _note_handed(self, popping: Popping, share: Share, offsets: list[int], now: int) -> None:
        """Have it recorded before anything that is handed out later, even when this answer must wait for the disk."""
        numbers = (share.queue.next, now, now + popping.invisible_ms, *offsets)
        self._states.record_later(PopEntry(Kind.HANDED_OUT, popping.group, popping.topic, share.queue_id, numbers))

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
