"""Transactional messages: kept apart until their producer says how it ended, or is asked.

A half message waits in ``RMQ_SYS_TRANS_HALF_TOPIC`` until it is ended (``transaction_ends``).  Which ones are pending
is ``features/transaction.py``'s; the records are ``half_records``'s; ``transaction_checks`` asks about them, and
``transaction_state`` takes them across a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from litemq.broker import half_records as records
from litemq.broker._sent_cy import SentCounts
from litemq.broker.half_log import Decision
from litemq.broker.half_records import Half
from litemq.broker.members import Clients
from litemq.broker.retries import Retries
from litemq.broker.topics import Topics
from litemq.broker.transaction_checks import TransactionChecks
from litemq.broker.transaction_ends import TransactionEnds
from litemq.broker.transaction_state import TransactionState
from litemq.config import TransactionConfig
from litemq.errors import InvalidRequest, NoPermission, UnknownMessage, UnknownTopic
from litemq.features.transaction import Pending
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message

logger = logging.getLogger(__name__)

_WORDS: Final = {
    Decision.COMMIT: "committed",
    Decision.ROLLBACK: "rolled back",
    Decision.GIVEN_UP: "given up after too many checks",
}


@dataclass(slots=True)  # frozen, it would take three times as long to make, for every transaction
class Ending:
    """What a producer says of a transaction, and of which; treat it as a value."""

    group: str
    offset: int
    """Of the half message, in the half queue."""
    position: int
    message_id: str
    decision: Decision


class Transactions:
    """Keeps half messages, ends them and asks about them.  Called by the store's owner."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        retries: Retries,
        clients: Clients,
        config: TransactionConfig,
        sent: SentCounts,
        *,
        name: str,
        address: str,
        store_host: bytes,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self.config = config
        self.ends = TransactionEnds(store, sent, address=address, now_ms=now_ms)
        self.checks = TransactionChecks(
            store, self.ends, topics, retries, clients, name=name, address=address, store_host=store_host
        )
        self.state = TransactionState(store, self.ends, first_check_ms=config.first_check_ms)
        self.begun = self.committed = self.rolled_back = self.refused = 0
        store.add_carrier(self.state.carry_below)

    @property
    def pending(self) -> Pending:
        """Return which half messages are not ended."""
        return self.ends.pending

    def begin(self, message: Message, group: str) -> Appended:
        """Keep a message until its transaction ends.

        Raises:
            NoPermission: the broker takes no transactional messages.
            InvalidRequest: nobody could be asked about it.
        """
        waiting = self.waiting(message, group)
        appended = self._store.append(waiting)
        self.note_begun(waiting, appended)
        return appended

    def waiting(self, message: Message, group: str) -> Message:
        """Return what is stored for a message until its transaction ends; raises as ``begin`` does."""
        if self.config.reject:
            raise NoPermission("this broker takes no transactional messages (transaction.reject)")
        waiting = records.half_message(message, group)
        if not waiting.properties[records.GROUP]:
            raise InvalidRequest("a transactional message names the group of its producer (property PGROUP)")
        return waiting

    def note_begun(self, waiting: Message, appended: Appended) -> None:
        """Note what was appended of ``waiting``."""
        half = Half(appended.queue_offset, appended.position, appended.store_time, waiting)
        self.ends.note(half, self.config.first_check_ms)
        self.ends.log.remember(half)
        self.begun += 1

    def end(self, ending: Ending) -> Appended | None:
        """End a transaction as its producer says; None when nothing had to be appended.

        Raises:
            UnknownMessage: there is no such transaction, it is somebody else's, or it ended otherwise.
            UnknownTopic: the topic of the message was deleted.
        """
        try:
            return self._end(ending)
        except InvalidRequest as error:
            self.refused += 1
            logger.debug("end of a transaction refused: group=%s reason=%s", ending.group, error)
            raise

    def _end(self, ending: Ending) -> Appended | None:
        half = self._named(ending)
        if self.pending.is_pending(half.offset) and not self.ends.was_committed(half):
            match ending.decision:
                case Decision.COMMIT:
                    return self._commit(half)
                case Decision.ROLLBACK:
                    appended = self.ends.finish([], half.offset, Decision.ROLLBACK)
                    self.rolled_back += 1
                    return appended
            return None
        ended = self.ends.decision(half)
        if ending.decision not in (Decision.UNKNOWN, ended):
            wanted = _WORDS[ending.decision]
            raise UnknownMessage(
                f"the transaction {ending.message_id!r} was {_WORDS[ended]}: it cannot be {wanted} any more"
            )
        return None

    def _named(self, ending: Ending) -> Half:
        """Return the half message that an ending names, when it is the one that is meant."""
        half = self.ends.log.half(ending.offset)
        if half is not None and half.position == ending.position and self.pending.is_pending(half.offset):
            self._check(half, ending)
            return half
        later = self._copy_of(ending)
        if later is not None:
            self._check(later, ending)
            return later
        if half is None:
            raise UnknownMessage(
                f"there is no half message at offset {ending.offset}: nothing is known of the transaction "
                f"{ending.message_id!r}"
            )
        if half.position != ending.position:
            raise UnknownMessage(
                f"the half message at offset {ending.offset} stands at position {half.position}, "
                f"not at {ending.position} (commitLogOffset)"
            )
        self._check(half, ending)
        return half

    def _check(self, half: Half, ending: Ending) -> None:
        if half.group != ending.group:
            raise UnknownMessage(
                f"the transaction {ending.message_id!r} was begun by producer group {half.group!r}, "
                f"not by {ending.group!r}"
            )
        if half.message.message_id != ending.message_id:  # a position may be used again after a power cut
            raise UnknownMessage(
                f"the half message at offset {ending.offset} is {half.message.message_id!r}, "
                f"not {ending.message_id!r}: the handle is stale"
            )

    def _copy_of(self, ending: Ending) -> Half | None:
        """Return the pending copy of a half message whose segment had to go, named by what it was before."""
        for half in self.ends.log.with_id(ending.message_id):
            is_named = half.is_carried and (half.origin == ending.position or half.earlier_offset == ending.offset)
            if is_named and self.pending.is_pending(half.offset):
                return half
        return None

    def _commit(self, half: Half) -> Appended:
        appended = self.ends.finish([self._visible(half)], half.offset, Decision.COMMIT)
        self.committed += 1
        return appended

    def _visible(self, half: Half) -> Message:
        topic = self._topics.find(half.topic)
        if topic is None:
            raise UnknownTopic(f"topic {half.topic!r} of the transaction {half.message.message_id!r} was deleted")
        return records.committed(half, half.queue_id % max(topic.queue_count, 1))

    def ordinary_end(self, ending: Ending) -> list[Message] | None:
        """Return what an end makes visible of a transaction that was just begun; None: ``end`` must look closer.

        What it returns is to be appended with the op record behind it, and then ``note_ended``.
        """
        half = self.ends.log.newest(ending.offset)
        if half is None or half.position != ending.position or not self.pending.is_pending(half.offset):
            return None
        self._check(half, ending)
        return [self._visible(half)] if ending.decision is Decision.COMMIT else []

    def note_ended(self, offset: int, decision: Decision) -> None:
        """Note what was appended of an ``ordinary_end``."""
        self.ends.forget(offset, decision)
        if decision is Decision.COMMIT:
            self.committed += 1
        else:
            self.rolled_back += 1

    def pass_(self, now_ms: int) -> int:
        """Ask about what is due; return how many messages were appended."""
        appended = self.checks.pass_(self.config, now_ms)
        self.state.save(now_ms)
        return appended

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self.state.close()

    def report(self) -> dict[str, int]:
        """Return what request 31001 tells."""
        return {
            "pending": len(self.pending),
            "blocks": self.pending.block_count,
            "begun": self.begun,
            "committed": self.committed,
            "rolledBack": self.rolled_back,
            "checksSent": self.checks.sent,
            "givenUp": self.checks.given_up,
            "endsRefused": self.refused,
        }
