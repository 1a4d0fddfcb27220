"""What is pending, and the one write that ends a transaction.

A commit appends the message to its topic and, in the same write, the op record that ends the half message; a rollback
appends the op record alone.

    crash …                        leaves                           the next start
    before the append of a commit  the half message, pending        asks about it
    within it                      perhaps the commit alone, last   writes its op record
    after it                       both                             replays them
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from litemq.broker import half_records as records
from litemq.broker._sent_cy import SentCounts
from litemq.broker.half_log import Decision, HalfLog
from litemq.broker.half_records import Half
from litemq.errors import LiteMQError
from litemq.features.transaction import Pending
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message

_RECENT_ENDS: Final = 16_384


class TransactionEnds:
    """Knows which half messages are pending, and ends them."""

    def __init__(self, store: MessageStore, sent: SentCounts, *, address: str, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._sent = sent
        self._address = address
        self._now_ms = now_ms
        self.log = HalfLog(store)
        self.pending = Pending()
        self.recent: OrderedDict[int, Decision] = OrderedDict()
        """How the transactions ended that ended last."""
        self.unsure_end = 0
        """Half messages below this offset may be in their topics although they are pending."""
        self.is_changed = True
        """Since the last snapshot."""

    def note(self, half: Half, first_check_ms: int) -> None:
        """Note a half message that stands in the log."""
        self.pending.add(half.offset, half.first_due(first_check_ms), checks=half.checks, group=half.group)
        self.is_changed = True

    def op(self, offset: int) -> Message:
        """Return what ends a half message."""
        return records.op_message(offset, born_time=self._now_ms(), born_host=self._address)

    def finish(self, messages: list[Message], offset: int, decision: Decision) -> Appended:
        """Append what a decision makes visible and, behind it, what ends the half message."""
        try:
            appended = self._store.append_whole([*messages, self.op(offset)])
        except LiteMQError as error:
            if error.appended:  # it is in the log all the same, and must not come a second time
                self.forget(offset, decision)
            raise
        self.forget(offset, decision)
        if decision is Decision.COMMIT:
            for message, one in zip(messages, appended, strict=False):
                self.note_sent(message, one)
        return appended[-1]

    def note_sent(self, message: Message, appended: Appended) -> None:
        """Count what a commit made visible."""
        self._sent.note(message.topic, message.properties.get(records.GROUP, ""), 1, appended.store_time)

    def forget(self, offset: int, decision: Decision) -> None:
        """Note that a transaction has ended."""
        self.pending.end(offset)
        self.is_changed = True
        self.log.drop(offset)
        self.recent[offset] = decision
        if len(self.recent) > _RECENT_ENDS:
            self.recent.popitem(last=False)

    def decision(self, half: Half) -> Decision:
        """Return how a transaction ended that did."""
        return self.recent.get(half.offset) or self.log.decision(half)

    def was_committed(self, half: Half) -> bool:
        """Return whether a half message that was there at the start is in its topic; then its end is noted."""
        if half.offset >= self.unsure_end:
            return False
        decision = self.log.decision(half)
        if decision is Decision.ROLLBACK:  # it is nowhere
            return False
        self.finish([], half.offset, decision)
        return True

    def carry(self, half: Half, due_ms: int, checks: int) -> None:
        """Append a half message again whose segment has to go, and let the copy be pending in its stead."""
        appended = self._store.append_whole([records.carried(half, checks), self.op(half.offset)], is_carried=True)[0]
        self.forget(half.offset, Decision.UNKNOWN)
        self.pending.add(appended.queue_offset, due_ms, checks=checks, group=half.group)
