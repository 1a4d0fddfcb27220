"""Batch transactions: rows are staged in ``LITEMQ_SYS_STAGE``, and published when their producer's driver says so.

Every fact is recorded before it is true (``format/batch_records``); ``features/batch_transaction`` knows what follows
from it, ``batch_publisher`` moves winning rows to their topics, ``batch_peers`` speaks with other brokers.

    crash …                         leaves                                  the next start
    before the append of rows       nothing of them                         the writer stages them again
    before that of the decision     rows, open                              a repeated commit, or expiry, ends it
    after it                        the decision                            publishes
    while messages are published    some behind the newest ``publishing``   counts them, goes on with the next one

``config/litemqBatches.json`` is a snapshot as of a flushed position; start = snapshot + the records behind it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from litemq.broker.batch_publisher import BatchPublisher
from litemq.broker.limits import SendLimits
from litemq.broker.send import Sender, Wish
from litemq.broker.slots import Slots
from litemq.broker.staged_rows import read_rows
from litemq.broker.system_topics import DEAD_PREFIX, RETRY_PREFIX
from litemq.config import TransactionConfig
from litemq.errors import BadBody, BadField, CorruptRecord, FlushTimeout, LiteMQError, NoPermission, RecordTooLarge
from litemq.features import batch_dump
from litemq.features.batch_parts import LEAST_BYTES, Chunk, Key, Limits, Memory, Place, Verdict
from litemq.features.batch_transaction import Batches
from litemq.format import batch_records
from litemq.format._staged_cy import check
from litemq.format._text_cy import crc32c
from litemq.format.batch_records import Confirmed, Ended, Fact, Staged, Winner
from litemq.format.config_json import JsonObject
from litemq.format.names import ORIGIN, STAGE_SNAPSHOT, STAGE_TOPIC
from litemq.store.message_store import MessageStore
from litemq.store.snapshot import position_of
from litemq.types import Appended, Record

logger = logging.getLogger(__name__)

SNAPSHOT: Final = STAGE_SNAPSHOT
_SNAPSHOT_EVERY_MS = 10_000
_ENTRIES_PER_STEP = 10_000
"""A snapshot of so many more producers and requests comes so much later again."""
_LARGEST_STAGE = 4 << 20
_MAX_PROPERTIES = 32_767 - 1024
"""What is stored says more."""
_MAX_PRODUCER_ID = 255
_CARRIED_BYTES = 16 << 20
"""Rows that one pass of retention appends again."""
_CARRIED_FACTS = 2_000
"""What holds of ended transactions that it says again: all else waits meanwhile."""
_DUTY_EVERY_MS = 1_000
_USED_ANEW_MS = 86_400_000
"""A producer whose last epoch is asked about is recorded as used again after so long."""
_FLUSH_LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class Staging:
    """Rows that a writer brings."""

    key: Key
    partition: int
    attempt: int
    sequence: int
    coordinator: str
    topics: tuple[str, ...]
    messages: bytes
    born_ms: int
    born_host: str


class BatchTransactions:
    """Stages, ends and remembers.  Called by the store's owner."""

    def __init__(
        self,
        store: MessageStore,
        sender: Sender,
        send_limits: SendLimits,
        publisher: BatchPublisher,
        slots: Slots,
        core: Batches,
        config: TransactionConfig,
        *,
        max_body: int,
        flush_timeout_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._sender = sender
        self._send_limits = send_limits
        self._publisher = publisher
        self._publisher.record = self.record
        self.slots = slots
        self.core = core
        self.config = config
        self._max_body = max_body
        self._flush_timeout_s = flush_timeout_ms / 1000
        self._now_ms = now_ms
        self.largest_stage = min(_LARGEST_STAGE, store.largest_state // 4)
        """Bytes of the messages of one request."""
        self.staged = self.staged_again = self.committed = self.aborted = self.refused = 0
        self._snapshot: JsonObject | None = None
        self._snapshot_position = 0
        self._saved_position = 0
        """Of the newest snapshot that is written, or about to be."""
        self._snapshot_at = 0
        self._duty_at = 0
        self._changed = False
        self._load()
        store.add_carrier(self.carry_below)

    @property
    def limits(self) -> Limits:
        """Return what may be open."""
        config = self.config
        return Limits(config.batch_open, config.batch_parts, config.batch_producers, config.batch_staged_bytes)

    # -- staging ---------------------------------------------------------------------------------

    def stage(self, staging: Staging) -> tuple[Verdict, int]:
        """Keep rows until their transaction ends; return what became of them, and how many there are.

        Raises:
            StaleEpoch, TransactionOver, RowsMissing, Busy: as ``Batches.stage``.
            BadBody, BadField, RecordTooLarge, NotSupported: a message could not be published.
        """
        try:
            return self._stage(staging)
        except LiteMQError:
            self.refused += 1
            raise

    def _stage(self, staging: Staging) -> tuple[Verdict, int]:
        self._check_key(staging.key)
        if staging.key.epoch not in self.core.open.get(staging.key.producer_id, ()):
            self.slots.check_named(staging.key.producer_id, staging.coordinator)
        self._send_limits.check_waiting()
        if self.config.reject:
            raise NoPermission("this broker takes no transactional messages (transaction.reject)")
        size = len(staging.messages)
        if size > self.largest_stage:
            raise RecordTooLarge(what="the messages of one stage request", size=size, limit=self.largest_stage)
        queue_counts = [self._queues_of(topic) for topic in staging.topics]
        count = check(staging.messages, queue_counts, self._max_body, _MAX_PROPERTIES)
        if not count:
            raise BadBody("the request holds no message")
        fact = Staged(
            producer_id=staging.key.producer_id,
            epoch=staging.key.epoch,
            partition=staging.partition,
            attempt=staging.attempt,
            sequence=staging.sequence,
            coordinator=staging.coordinator,
            count=count,
            size=size,
            checksum=crc32c(staging.messages),
            topics=staging.topics,
            born_ms=staging.born_ms,
            born_host=staging.born_host,
        )
        verdict = self.core.stage(fact, self.limits)
        if verdict is Verdict.STORE:
            self.record(fact, staging.messages)
            self.staged += count
        else:
            self.staged_again += count
            self._use(staging.key)
        return verdict, count

    def _check_key(self, key: Key) -> None:
        if not 0 < len(key.producer_id.encode()) <= _MAX_PRODUCER_ID:
            raise BadField(f"the producer id has {len(key.producer_id.encode())} bytes, 1 to {_MAX_PRODUCER_ID} fit")
        if key.epoch < 0:
            raise BadField(f"the epoch is {key.epoch}, it must be 0 or more")

    def _queues_of(self, name: str) -> int:
        if name.startswith((RETRY_PREFIX, DEAD_PREFIX)):
            raise NoPermission(f"a batch transaction cannot send to topic {name!r}")
        return self._sender.topic_for(name, Wish("")).write_queues

    # -- ending ----------------------------------------------------------------------------------

    def prepare(self, key: Key, winners: tuple[Winner, ...]) -> int:
        """Count winning rows before the coordinator decides; return up to where the log must be flushed.

        Raises:
            RowsMissing: they are not staged as the winners say.
            StaleEpoch, TransactionOver: it ended.
        """
        self._check_key(key)
        known = self.core.commit(key, winners, "", self._now_ms())
        if not isinstance(known, Memory):
            self.core.count(key, winners, seal=True)
        return self._store.appended_end

    def commit(self, key: Key, winners: tuple[Winner, ...], coordinator: str) -> tuple[Memory, int]:
        """Commit, or say how it was committed; return up to where the log must be flushed, too.

        On the coordinator this is the decision; elsewhere it was made.

        Raises:
            RowsMissing, StaleEpoch, TransactionOver: as ``Batches.commit``; nothing happened.
            NotCoordinator: another broker decides about this producer.
        """
        self._check_key(key)
        if coordinator == self.core.name:
            self.slots.check(key.producer_id)
        found = self.core.commit(key, winners, coordinator, self._now_ms())
        if isinstance(found, Memory):
            self._use(key)
            return found, self._store.appended_end
        return self._ended(found)

    def abort(self, key: Key, coordinator: str, reason: str) -> tuple[Memory | None, int]:
        """Abort, or say that it was aborted before; None where there is nothing to abort.

        Raises:
            TransactionOver: it was committed; nothing happened.
            StaleEpoch: a later epoch ended.
            NotCoordinator: another broker decides about this producer.
        """
        self._check_key(key)
        if coordinator == self.core.name:
            self.slots.check(key.producer_id)
        elif key.epoch not in self.core.open.get(key.producer_id, {}):
            return None, self._store.appended_end
        found = self.core.abort(key, coordinator, reason, self._now_ms())
        if isinstance(found, Memory):
            self._use(key)
            return found, self._store.appended_end
        return self._ended(found)

    def drop(self, key: Key, partition: int, attempt: int) -> tuple[Memory | None, int]:
        """Drop staged rows of an attempt, or all of them (-1); the transaction stays open.

        Returned is how it ended, when it had: then nothing is dropped.
        """
        found = self.core.drop(key, partition, attempt)
        if isinstance(found, Memory):
            return found, self._store.appended_end
        if found is not None:
            self.record(found)
        return None, self._store.appended_end

    def _ended(self, fact: Ended) -> tuple[Memory, int]:
        key = Key(fact.producer_id, fact.epoch)
        self.core.check_producers(key, self.limits)
        end = self.record(fact).end
        if fact.is_committed:
            self.committed += 1
        else:
            self.aborted += 1
        self._publisher.wake()
        memory = Memory(key.epoch, fact.is_committed, fact.rows, fact.used_ms, fact.coordinator, fact.reason, end)
        return memory, end

    def confirm(self, key: Key, broker: str) -> None:
        """Note that a broker has a decision."""
        if key in self.core.decisions:
            self.record(Confirmed(*key, broker))

    def _use(self, key: Key) -> None:
        known, now = self.core.memories.get(key.producer_id), self._now_ms()
        if known is None:
            return
        is_old = now - known.used_ms >= min(_USED_ANEW_MS, self.config.batch_memory_ms // 2)
        self.core.use(key.producer_id, now)
        self._changed = True
        if is_old:
            self.record(self.core.fact_of(Key(key.producer_id, known.epoch)))

    async def durable(self, end: int) -> None:
        """Return when the log is flushed up to a position, whatever the policy: others rely on it.

        Raises:
            FlushTimeout: it takes too long.
        """
        if self._store.flushed_end >= end:
            return
        self._store.ask_flush()
        until = asyncio.get_running_loop().time() + self._flush_timeout_s
        while self._store.flushed_end < end:
            if self._store.failure is not None:
                raise self._store.failure
            if asyncio.get_running_loop().time() >= until:
                raise FlushTimeout("recorded, but not flushed in time: ask again")
            await asyncio.sleep(_FLUSH_LOOK_S)

    def ended_until(self, key: Key) -> int:
        """Return up to where the log must be flushed before anybody hears how a transaction ended; 0: it has not."""
        known = self.core.memories.get(key.producer_id)
        return known.said_at + 1 if known is not None and known.epoch >= key.epoch else 0

    # -- recording -------------------------------------------------------------------------------

    def record(self, fact: Fact, messages: bytes = b"") -> Appended:
        """Append a fact, and take it in."""
        body = batch_records.encode(fact, messages)
        try:
            appended = self._store.append_state(STAGE_TOPIC, body, may_refuse=bool(messages))
        except LiteMQError as error:
            for there in error.appended:  # it is in the log all the same
                assert isinstance(there, Appended)
                self._take_in(fact, there)
            raise
        self._take_in(fact, appended)
        return appended

    def _take_in(self, fact: Fact, appended: Appended) -> None:
        place = Place(appended.queue_offset, appended.position, appended.position)
        self.core.apply(fact, place, self._now_ms())
        self._changed = True

    # -- duties ----------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Forget what is old, and write a snapshot now and then."""
        self._save(now_ms)
        if now_ms >= self._duty_at:
            self._duty_at = now_ms + _DUTY_EVERY_MS
            self.core.forget(now_ms, self.config.batch_memory_ms)
            self._publisher.wake()

    # -- retention -------------------------------------------------------------------------------

    def carry_below(self, start: int) -> int:
        """Say again what holds and stands below ``start``; return below which position none is left.

        A start replays what is behind the snapshot: that must stay.
        """
        if self._changed or self._snapshot is not None:
            start = min(start, self._saved_position)
        room = _CARRIED_BYTES
        below = [
            (chunk.place.position, key, place, chunk)
            for key, place, part in self.core.parts()
            for chunk in part.chunks.values()
            if chunk.place.position < start
        ]
        for position, key, place, chunk in sorted(below, key=lambda one: one[0]):
            if room <= 0:
                start = position  # the rest with the next pass
                break
            room -= chunk.size
            self._carry(key, place, chunk)
        said = self.core.said_before(start)
        for key in sorted(said[:_CARRIED_FACTS]):  # epochs in their order: an end drops rows of earlier ones
            self.record(self.core.fact_of(key))
        return start if len(said) <= _CARRIED_FACTS else min(start, self.core.said_at(said[_CARRIED_FACTS]))

    def _carry(self, key: Key, place: tuple[int, int], chunk: Chunk) -> None:
        rows = read_rows(self._store, chunk, key)
        if rows is None:
            logger.error(
                "staged rows are lost: %s partition=%d attempt=%d position=%d", key, *place, chunk.place.position
            )
            return
        appended = self._store.append_state(STAGE_TOPIC, rows.body, origin=chunk.place.origin)
        chunk.place = Place(appended.queue_offset, appended.position, chunk.place.origin)
        self._changed = True

    # -- start and snapshot ----------------------------------------------------------------------

    def _load(self) -> None:
        reader = self._store.reader
        first = self._from_snapshot(self._store.load_table(SNAPSHOT))
        for offset in range(max(first, reader.min_offset(STAGE_TOPIC, 0)), reader.max_offset(STAGE_TOPIC, 0)):
            try:
                record = reader.message_at(STAGE_TOPIC, 0, offset)
                if record is not None:
                    self._replay(record, offset)
            except (CorruptRecord, ValueError) as error:
                logger.error("a record of batch transactions is damaged: offset=%d reason=%s", offset, error)
        self.core.doubt()
        self._publisher.resume()
        self._changed = bool(self.core.memories or self.core.open)
        if self.core.open_count or self.core.publications:
            counts = self.core.open_count, len(self.core.publications)
            logger.info("batch transactions found: open=%d publishing=%d", *counts)

    def _replay(self, record: Record, offset: int) -> None:
        found = batch_records.decode(record.body)
        if found is not None:
            place = Place(offset, record.position, int(record.properties.get(ORIGIN, record.position)))
            self.core.apply(found[0], place, record.store_time or 0)

    def _from_snapshot(self, table: JsonObject | None) -> int:
        position, after, state = position_of(table), None, None
        if table is not None:
            after, state = table.get("offset"), table.get("state")
        if position is None or position > self._store.appended_end or not isinstance(after, int):
            return 0
        try:
            self.core.take(batch_dump.load(self.core.name, json.loads(str(state))))
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("the snapshot of batch transactions cannot be read, its records are: reason=%s", error)
            return 0
        self._saved_position = position
        return after

    def _save(self, now_ms: int) -> None:
        if self._snapshot is not None and self._store.flushed_end >= self._snapshot_position:
            self._store.save_table(SNAPSHOT, self._snapshot)
            self._snapshot, self._saved_position = None, self._snapshot_position
        if self._changed and self._snapshot is None and now_ms >= self._snapshot_at:
            self._snapshot, self._snapshot_position = self.to_json(), self._store.appended_end
            requests = self.core.staged_bytes // LEAST_BYTES  # as many as there can be
            steps = 1 + (len(self.core.memories) + requests) // _ENTRIES_PER_STEP
            self._snapshot_at = now_ms + _SNAPSHOT_EVERY_MS * steps
            self._changed = False

    def to_json(self) -> JsonObject:
        """Return the snapshot as of the log's end."""
        return {
            "litemq": {"position": self._store.appended_end},
            "offset": self._store.queue(STAGE_TOPIC, 0).next_offset,
            "state": json.dumps(batch_dump.dump(self.core), ensure_ascii=False, separators=(",", ":")),
        }

    def stop(self) -> None:
        """Publish no more: the rest follows after the next start."""
        self._publisher.close()

    def close(self) -> None:
        """Write the last snapshot; the log must be flushed."""
        if self._changed or self.core.memories or self.core.open:
            self._store.save_table(SNAPSHOT, self.to_json())

    # -- telling ---------------------------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        """Return the transactions that are not done: open, publishing, or not confirmed everywhere."""
        core, now = self.core, self._now_ms()
        keys = {Key(name, epoch) for name, epochs in core.open.items() for epoch in epochs}
        answer = []
        for key in sorted(keys | core.publications.keys() | core.decisions.keys()):
            found = core.open.get(key.producer_id, {}).get(key.epoch)
            state = core.state(key)
            if found is None:
                state["state"] = "committed"
            age = now - found.touched_ms if found is not None else None
            coordinator = found.coordinator if found is not None else core.fact_of(key).coordinator
            answer.append({"producer_id": key.producer_id, "epoch": key.epoch, **state} | {
                "coordinator": coordinator, "idle_ms": age,
            })  # fmt: skip
        return answer

    def decided(self, key: Key, broker: str, *, is_expired: bool) -> dict[str, Any]:
        """Return what this coordinator says to a broker that holds rows; an expired transaction is aborted now."""
        state, winners = self.core.decided(key, broker)
        if state == "open" and is_expired:
            self.abort(key, self.core.name, "expired (transaction.batch_expiry_ms)")
            state = "aborted"
        return {"decision": state, "winners": [list(winner) for winner in winners]}

    def report(self) -> dict[str, int]:
        """Return what request 31001 tells."""
        core = self.core
        return {
            "open": core.open_count,
            "stagedBytes": core.staged_bytes,
            "producers": len(core.memories),
            "publishing": len(core.publications),
            "unconfirmed": len(core.decisions),
            "staged": self.staged,
            "stagedAgain": self.staged_again,
            "committed": self.committed,
            "aborted": self.aborted,
            "refused": self.refused,
            **self._publisher.report(),
        }
