"""What is done with a receipt: a message is acknowledged, or is to stay invisible for longer or shorter."""

from __future__ import annotations

from collections.abc import Iterable

from litemq.broker.groups import Groups
from litemq.broker.pop_answers import check_invisible
from litemq.broker.pop_state import PopStates
from litemq.errors import StaleReceipt
from litemq.features.pop import Standing
from litemq.format.pop_records import Kind, PopEntry


class PopReceipts:
    """Takes receipts back."""

    def __init__(self, groups: Groups, states: PopStates) -> None:
        self._groups = groups
        self._states = states
        self.acknowledged = self.changed = self.stale = 0

    def acknowledge(self, group: str, topic: str, queue_id: int, receipts: Iterable[tuple[int, int]]) -> list[int]:
        """Be done with messages, each given as offset and generation; return the offsets whose receipt is not good."""
        self._groups.known(group)
        key = (group, topic, queue_id)
        queue = self._states.find(*key)
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
            self._states.in_flight -= len(good) // 2
            self._states.record_later(PopEntry(Kind.ACKNOWLEDGED, *key, good))
            self._states.note_progress(key, queue)
        return wrong

    def change(self, group: str, topic: str, queue_id: int, offset: int, generation: int, invisible_ms: int) -> int:
        """Let a message be invisible for so long from now; return the new generation.

        Raises:
            StaleReceipt: the receipt is not that of the last delivery.
        """
        self._groups.known(group)
        check_invisible(invisible_ms, least=0)
        key = (group, topic, queue_id)
        queue = self._states.find(*key)
        now = self._states.now()
        until = now + invisible_ms
        changed = queue.change(offset, generation, now, until) if queue is not None else 0
        if not changed:
            self.stale += 1
            raise self.why_stale(group, topic, queue_id, offset, generation)
        self.changed += 1
        until = max(until, changed + 1)
        self._states.record([PopEntry(Kind.CHANGED, *key, (offset, generation, changed, until))])
        return changed

    def why_stale(self, group: str, topic: str, queue_id: int, offset: int, generation: int) -> StaleReceipt:
        """Return what is wrong with a receipt."""
        place = f"message {offset} of queue {queue_id} of topic {topic!r}"
        queue = self._states.find(group, topic, queue_id)
        standing = queue.check(offset, generation) if queue is not None else Standing.NOT_HELD
        if standing is Standing.DELIVERED_AGAIN:
            return StaleReceipt(f"the receipt is stale: {place} was delivered again to group {group!r} since")
        return StaleReceipt(
            f"the receipt is stale: group {group!r} does not hold {place}; it is acknowledged already, or a dead letter"
        )

    def settle(self) -> int:
        """Record what was acknowledged; return the end of the log behind it."""
        return self._states.record(())
