"""Transactional messages: kept apart until their producer says how it ended, or is asked.

A half message waits in ``RMQ_SYS_TRANS_HALF_TOPIC``.  A commit appends the message to its topic and, in the same
write, the op record that ends the half message; a rollback appends the op record alone.  Which ones are pending is
``features/transaction.py``'s; the records are ``half_records``'s.

    crash …                        leaves                           the next start
    before the append of a commit  the half message, pending        asks about it
    within it                      perhaps the commit alone, last   writes its op record
    after it                       both                             replays them

``config/litemqTransactions.json`` is a snapshot of what is pending, with the offsets from which both queues are to be
replayed.  Without one, or in a store that a real RocketMQ wrote last, what is pending may be in its topic all the
same; it is looked for by its id before it is committed or asked about.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from litemq.broker import half_records as records
from litemq.broker.half_records import Half
from litemq.broker.members import Clients
from litemq.broker.retries import Retries
from litemq.broker.system_topics import CHECK_LIMIT_TOPIC, HALF_OP_TOPIC, HALF_TOPIC, dead_topic
from litemq.broker.topics import Topic, Topics
from litemq.config import TransactionConfig
from litemq.errors import (
    Busy,
    CorruptRecord,
    InvalidRequest,
    LiteMQError,
    NoPermission,
    UnknownMessage,
    UnknownTopic,
)
from litemq.features.transaction import Entry, Pending
from litemq.format import message_id, names
from litemq.format.config_json import JsonObject
from litemq.store.message_store import MessageStore
from litemq.store.snapshot import position_of
from litemq.types import Appended, Message, Record
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.connection import Connection

logger = logging.getLogger(__name__)

SNAPSHOT: Final = "litemqTransactions.json"
_ROCKETMQ_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""Its offsets say how far a real RocketMQ has dealt with both queues."""

_SNAPSHOT_EVERY_MS = 10_000
_PENDING_PER_MS = 50
"""A snapshot of so many pending takes its millisecond: many make it come less often."""

_PER_PASS = 500
_PASS_S = 0.005
"""Of every tick: live traffic comes first."""

_NOT_YET_MS = 1_000
_CARRIED_BYTES = 16 << 20
"""Half messages that one pass of retention appends again."""

_RECENT_HALVES = 4_096
_RECENT_BYTES = 8 << 20
_RECENT_ENDS = 16_384


class Decision(IntEnum):
    """How a transaction ended, or did not; the first three are the numbers of request 37."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12
    GIVEN_UP = -1
    """It was asked about too often."""


_WORDS: Final = {
    Decision.COMMIT: "committed",
    Decision.ROLLBACK: "rolled back",
    Decision.GIVEN_UP: "given up after too many checks",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """What a producer says of a transaction, and of which."""

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
        *,
        name: str,
        address: str,
        store_host: bytes,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._topics = topics
        self._retries = retries
        self._clients = clients
        self.config = config
        self._name = name
        self._address = address
        self._store_host = store_host
        self._now_ms = now_ms
        self.pending = Pending()
        self._halves: dict[int, Half] = {}
        """The newest half messages: most are ended at once."""
        self._halves_bytes = 0
        self._ended: dict[int, Decision] = {}
        """How the transactions ended that ended last."""
        self._unsure_end = 0
        """Half messages below this offset may be in their topics although they are pending."""
        self._turn = 0
        self.begun = self.committed = self.rolled_back = self.checks_sent = self.given_up = self.refused = 0
        self._snapshot: JsonObject | None = None
        self._snapshot_position = 0
        self._snapshot_at = 0  # at once: a start without one cannot be sure of anything
        self._changed = True
        self._load()
        store.add_carrier(self.carry_below)

    # -- beginning -------------------------------------------------------------------------------

    def begin(self, message: Message, group: str) -> Appended:
        """Keep a message until its transaction ends.

        Raises:
            NoPermission: the broker takes no transactional messages.
            InvalidRequest: nobody could be asked about it.
        """
        if self.config.reject:
            raise NoPermission("this broker takes no transactional messages (transaction.reject)")
        waiting = records.half_message(message, group)
        if not waiting.properties[records.GROUP]:
            raise InvalidRequest("a transactional message names the group of its producer (property PGROUP)")
        appended = self._store.append(waiting)
        half = Half(appended.queue_offset, appended.position, appended.store_time, waiting)
        self._note(half)
        self._remember(half)
        self.begun += 1
        return appended

    def _note(self, half: Half) -> None:
        due = half.first_due(self.config.first_check_ms)
        self.pending.add(half.offset, due, checks=half.checks, group=half.group)
        self._changed = True

    def _remember(self, half: Half) -> None:
        self._halves[half.offset] = half
        self._halves_bytes += len(half.message.body)
        while len(self._halves) > _RECENT_HALVES or self._halves_bytes > _RECENT_BYTES:
            oldest = self._halves.pop(next(iter(self._halves)))
            self._halves_bytes -= len(oldest.message.body)

    # -- ending ----------------------------------------------------------------------------------

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
        if self.pending.is_pending(half.offset) and not self._was_committed(half):
            match ending.decision:
                case Decision.COMMIT:
                    return self._commit(half)
                case Decision.ROLLBACK:
                    self.rolled_back += 1
                    return self._finish([], half.offset, Decision.ROLLBACK)
            return None
        ended = self._ended.get(half.offset) or self._decision_in_log(half)
        if ending.decision not in (Decision.UNKNOWN, ended):
            wanted = _WORDS[ending.decision]
            raise UnknownMessage(
                f"the transaction {ending.message_id!r} was {_WORDS[ended]}: it cannot be {wanted} any more"
            )
        return None

    def _named(self, ending: Ending) -> Half:
        """Return the half message that an ending names, when it is the one that is meant."""
        half = self._half(ending.offset)
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
        for record in self._store.reader.by_key(HALF_TOPIC, ending.message_id):
            half = records.half_of(record)
            is_named = half.is_carried and (half.origin == ending.position or half.earlier_offset == ending.offset)
            if is_named and self.pending.is_pending(half.offset):
                return half
        return None

    def _commit(self, half: Half) -> Appended:
        topic = self._topics.find(half.topic)
        if topic is None:
            raise UnknownTopic(f"topic {half.topic!r} of the transaction {half.message.message_id!r} was deleted")
        message = records.committed(half, half.queue_id % max(topic.queue_count, 1))
        self.committed += 1
        return self._finish([message], half.offset, Decision.COMMIT)

    def _finish(self, messages: list[Message], offset: int, decision: Decision) -> Appended:
        """Append what a decision makes visible and, behind it, what ends the half message."""
        op = records.op_message(offset, born_time=self._now_ms(), born_host=self._address)
        try:
            appended = self._store.append_whole([*messages, op])[-1]
        except LiteMQError as error:
            if error.appended:  # it is in the log all the same, and must not come a second time
                self._forget(offset, decision)
            raise
        self._forget(offset, decision)
        return appended

    def _forget(self, offset: int, decision: Decision) -> None:
        self.pending.end(offset)
        self._changed = True
        half = self._halves.pop(offset, None)
        if half is not None:
            self._halves_bytes -= len(half.message.body)
        self._ended[offset] = decision
        if len(self._ended) > _RECENT_ENDS:
            del self._ended[next(iter(self._ended))]

    # -- what the log says -----------------------------------------------------------------------

    def _half(self, offset: int) -> Half | None:
        """Return a half message; None when it is gone, damaged or not readable yet."""
        found = self._halves.get(offset)
        if found is not None:
            return found
        record = self._record(HALF_TOPIC, offset)
        return records.half_of(record) if record is not None else None

    def _record(self, topic: str, offset: int) -> Record | None:
        try:
            return self._store.reader.message_at(topic, 0, offset)
        except CorruptRecord as error:
            logger.warning("a record of a transaction is damaged: topic=%s offset=%d reason=%s", topic, offset, error)
            return None

    def _was_committed(self, half: Half) -> bool:
        """Return whether a half message that was there at the start is in its topic; then its end is noted."""
        if half.offset >= self._unsure_end:
            return False
        decision = self._decision_in_log(half)
        if decision is Decision.ROLLBACK:  # it is nowhere
            return False
        self._finish([], half.offset, decision)
        return True

    def _decision_in_log(self, half: Half) -> Decision:
        """Return how a transaction ended that did, as far as records tell: what is nowhere was rolled back."""
        if self._stands_in(half.topic, half):
            return Decision.COMMIT
        if self._stands_in(CHECK_LIMIT_TOPIC, half) or self._stands_in(dead_topic(half.group), half):
            return Decision.GIVEN_UP
        return Decision.ROLLBACK

    def _stands_in(self, topic: str, half: Half) -> bool:
        origin = str(half.origin)
        return any(
            record.prepared_offset == half.position or record.properties.get(names.ORIGIN) == origin
            for record in self._store.reader.by_key(topic, half.message.message_id)
        )

    # -- asking ----------------------------------------------------------------------------------

    def pass_(self, now_ms: int) -> int:
        """Ask about what is due; return how many messages were appended."""
        appended = 0
        until = time.perf_counter() + _PASS_S
        members: dict[str, list[Connection]] = {}
        for entry in self.pending.due(now_ms, _PER_PASS):
            if time.perf_counter() >= until:
                break
            appended += self._look_at(entry, now_ms, members)
        if appended:
            self._store.ask_flush()
        self._save(now_ms)
        return appended

    def _look_at(self, entry: Entry, now_ms: int, members: dict[str, list[Connection]]) -> int:
        """Ask about one transaction, or give it up; return how many messages were appended."""
        later = now_ms + self.config.check_interval_ms
        is_last = entry.checks >= self.config.max_checks
        if entry.group and not is_last and not self._members(entry.group, members):
            self.pending.postpone(entry.offset, later)
            return 0
        half = self._half(entry.offset)
        if half is None:
            self._miss(entry, now_ms)
            return 0
        if self._was_committed(half):
            return 1
        if is_last:
            return self._give_up(half, entry.checks)
        connections = self._members(half.group, members)
        if not connections:
            self.pending.postpone(entry.offset, later)
            return 0
        self._turn += 1
        self._ask(connections[self._turn % len(connections)], half, entry.checks + 1)
        self.pending.checked(entry.offset, later)
        self._changed = True
        return 0

    def _members(self, group: str, known: dict[str, list[Connection]]) -> list[Connection]:
        """Return the producers of a group that take what is sent to them."""
        found = known.get(group)
        if found is None:
            found = known[group] = self._clients.producers(group)
        return [connection for connection in found if connection.is_open and not connection.is_paused]

    def _miss(self, entry: Entry, now_ms: int) -> None:
        """Deal with a half message that cannot be read: not yet, or never again."""
        if entry.offset >= self._store.reader.max_offset(HALF_TOPIC, 0):
            self.pending.postpone(entry.offset, now_ms + _NOT_YET_MS)
            return
        logger.warning("a half message is gone: offset=%d group=%s", entry.offset, entry.group)
        self._forget(entry.offset, Decision.GIVEN_UP)

    def _ask(self, connection: Connection, half: Half, checks: int) -> None:
        unique_id = half.message.message_id
        ext = {
            "topic": half.topic,
            "tranStateTableOffset": str(half.offset),
            "commitLogOffset": str(half.position),
            "msgId": unique_id,
            "transactionId": unique_id,
            "offsetMsgId": message_id.offset_id(self._store_host, half.position),
            "bname": self._name,
        }
        connection.notify(Ask.CHECK_TRANSACTION_STATE, ext, records.checked_record(half, checks, self._address))
        self.checks_sent += 1

    def _give_up(self, half: Half, checks: int) -> int:
        """End a transaction of which nobody could say how it ended."""
        logger.warning(
            "transaction given up: end=%s topic=%s group=%s message_id=%s checks=%d",
            *(self.config.end, half.topic, half.group, half.message.message_id, checks),
        )
        copies: list[Message] = []
        try:
            copy = records.given_up(half, checks)
            if self.config.end == "dead-letter":
                copy = self._retries.never_ended(copy, half.topic, half.queue_id, half.group, checks)
            elif self._topics.find(CHECK_LIMIT_TOPIC) is None:
                self._topics.create(Topic(CHECK_LIMIT_TOPIC, 1, 1))
            copies.append(copy)
        except (InvalidRequest, Busy) as error:  # a group that cannot be a topic's name, or too many topics
            logger.warning("no copy of a transaction: message_id=%s reason=%s", half.message.message_id, error)
        self._finish(copies, half.offset, Decision.GIVEN_UP)
        self.given_up += 1
        return 1

    # -- retention -------------------------------------------------------------------------------

    def carry_below(self, start: int) -> int:
        """Append pending half messages below ``start`` again; return below which position none is left."""
        room = _CARRIED_BYTES
        entry = self.pending.first_from(0)
        while entry is not None:
            record = self._record(HALF_TOPIC, entry.offset)
            if record is not None:
                if record.position >= start:
                    return start
                if room <= 0:
                    return record.position  # the rest with the next pass
                room -= record.size
                self._carry(records.half_of(record), entry)
            entry = self.pending.first_from(entry.offset + 1)
        return start

    def _carry(self, half: Half, entry: Entry) -> None:
        op = records.op_message(half.offset, born_time=self._now_ms(), born_host=self._address)
        appended = self._store.append_whole([records.carried(half, entry.checks), op], is_carried=True)[0]
        self._forget(half.offset, Decision.UNKNOWN)
        self.pending.add(appended.queue_offset, entry.due_ms, checks=entry.checks, group=half.group)

    # -- start and snapshot ----------------------------------------------------------------------

    def _load(self) -> None:
        reader = self._store.reader
        half_end = reader.max_offset(HALF_TOPIC, 0)
        table = self._store.load_table(SNAPSHOT)
        found = self._from_snapshot(table)
        if found is None:
            self._unsure_end = half_end
            half_from, op_from = self._from_rocketmq(reader.min_offset(HALF_TOPIC, 0))
        else:
            half_from, op_from, self._unsure_end = found
        if self._store.was_foreign:
            self._unsure_end = half_end
            passed, _ = self._from_rocketmq(0)
            half_from = max(half_from, passed)
            while (entry := self.pending.first_from(0)) is not None and entry.offset < passed:
                self.pending.end(entry.offset)
        self._replay(half_from, half_end, op_from)
        self._changed = True
        self._mend()
        if self.pending:
            logger.info("transactions pending: count=%d", len(self.pending))

    def _from_snapshot(self, table: JsonObject | None) -> tuple[int, int, int] | None:
        """Take a snapshot in; return from where to replay both queues, and up to which half message nothing is sure."""
        position = position_of(table)
        if table is None or position is None or position > self._store.appended_end:
            return None
        places = [table.get(name) for name in ("half", "op", "unsure")]
        groups, blocks = table.get("groups"), table.get("blocks")
        if not isinstance(groups, list) or not isinstance(blocks, dict):
            return None
        texts = {number: text for number, text in blocks.items() if isinstance(text, str)}
        known = [name for name in groups if isinstance(name, str)]
        numbers = [place for place in places if isinstance(place, int)]
        if len(numbers) != len(places) or not self.pending.load(known, texts):
            return None
        return numbers[0], numbers[1], numbers[2]

    def _from_rocketmq(self, first: int) -> tuple[int, int]:
        """Return up to where a real RocketMQ has dealt with both queues."""
        progress = self._store.progress
        halves = progress.offset(_ROCKETMQ_GROUP, HALF_TOPIC, 0) or 0
        ops = progress.offset(_ROCKETMQ_GROUP, HALF_OP_TOPIC, 0) or 0
        return max(first, halves), ops

    def _replay(self, half_from: int, half_end: int, op_from: int) -> None:
        """Go through what came since: first what ended, so that most half messages need not be read."""
        ended: set[int] = set()
        for record in self._records(HALF_OP_TOPIC, op_from, self._store.reader.max_offset(HALF_OP_TOPIC, 0)):
            for offset in records.ended_offsets(record.body):
                if not self.pending.end(offset):
                    ended.add(offset)
        for record in self._records(HALF_TOPIC, half_from, half_end, without=ended):
            half = records.half_of(record)
            earlier = half.earlier_offset
            if earlier >= 0 and not half.is_carried and earlier in ended:
                continue  # a copy of RocketMQ's; ours is pending although what it was before has ended
            self.pending.end(earlier)
            self._note(half)

    def _records(
        self, topic: str, first: int, end: int, *, without: set[int] | frozenset[int] = frozenset()
    ) -> Iterator[Record]:
        for offset in range(max(first, self._store.reader.min_offset(topic, 0)), end):
            if offset not in without:
                record = self._record(topic, offset)
                if record is not None:
                    yield record

    def _mend(self) -> None:
        """End what the last append before a crash ended, although its op record did not get into the log."""
        for position in self._store.recovered.newest:
            record = self._at(position)
            half = self._at(record.prepared_offset or -1) if record is not None else None
            if half is not None and half.topic == HALF_TOPIC and self.pending.is_pending(half.queue_offset):
                logger.info("transaction ended before a crash: offset=%d", half.queue_offset)
                self._finish([], half.queue_offset, self._decision_in_log(records.half_of(half)))

    def _at(self, position: int) -> Record | None:
        try:
            return self._store.reader.record_at(position)
        except CorruptRecord:
            return None

    def _save(self, now_ms: int) -> None:
        """Write a snapshot now and then, as of a position that is flushed."""
        if self._snapshot is not None and self._store.flushed_end >= self._snapshot_position:
            self._store.save_table(SNAPSHOT, self._snapshot)
            self._snapshot = None
        if self._changed and self._snapshot is None and now_ms >= self._snapshot_at:
            self._snapshot_position = self._store.appended_end
            self._snapshot = self.to_json()
            self._snapshot_at = now_ms + _SNAPSHOT_EVERY_MS + len(self.pending) // _PENDING_PER_MS
            self._changed = False

    def to_json(self) -> JsonObject:
        """Return the snapshot as of the log's end."""
        groups, blocks = self.pending.export()
        queues = {name: self._store.queue(topic, 0).next_offset for name, topic in _QUEUES}
        return {
            "litemq": {"position": self._store.appended_end},
            **queues,
            "unsure": self._unsure_end,
            "groups": list(groups),
            "blocks": dict(blocks),
        }

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        self._store.save_table(SNAPSHOT, self.to_json())

    def report(self) -> dict[str, int]:
        """Return what request 31001 tells."""
        return {
            "pending": len(self.pending),
            "blocks": self.pending.block_count,
            "begun": self.begun,
            "committed": self.committed,
            "rolledBack": self.rolled_back,
            "checksSent": self.checks_sent,
            "givenUp": self.given_up,
            "endsRefused": self.refused,
        }


_QUEUES: Final = (("half", HALF_TOPIC), ("op", HALF_OP_TOPIC))
