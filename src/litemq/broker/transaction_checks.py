"""Asking producers about transactions that nobody ended, and giving up those of which nobody could tell."""

from __future__ import annotations

import logging
import time
from typing import Final

from litemq.broker import half_records as records
from litemq.broker.half_log import Decision
from litemq.broker.half_records import Half
from litemq.broker.members import Clients
from litemq.broker.retries import Retries
from litemq.broker.system_topics import CHECK_LIMIT_TOPIC, HALF_TOPIC
from litemq.broker.topics import Topic, Topics
from litemq.broker.transaction_ends import TransactionEnds
from litemq.config import TransactionConfig
from litemq.errors import Busy, InvalidRequest
from litemq.features.transaction import Entry
from litemq.format import message_id
from litemq.store.message_store import MessageStore
from litemq.types import Message
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.connection import Connection

logger = logging.getLogger(__name__)

_PER_PASS: Final = 500
_PASS_S: Final = 0.005
"""Of every tick: live traffic comes first."""

_NOT_YET_MS: Final = 1_000


class TransactionChecks:
    """Asks about what is due.  Called by the store's owner."""

    def __init__(
        self,
        store: MessageStore,
        ends: TransactionEnds,
        topics: Topics,
        retries: Retries,
        clients: Clients,
        *,
        name: str,
        address: str,
        store_host: bytes,
    ) -> None:
        self._store = store
        self._ends = ends
        self._topics = topics
        self._retries = retries
        self._clients = clients
        self._name = name
        self._address = address
        self._store_host = store_host
        self._turn = 0
        self.sent = self.given_up = 0

    def pass_(self, config: TransactionConfig, now_ms: int) -> int:
        """Ask about what is due; return how many messages were appended."""
        appended = 0
        until = time.perf_counter() + _PASS_S
        members: dict[str, list[Connection]] = {}
        for entry in self._ends.pending.due(now_ms, _PER_PASS):
            if time.perf_counter() >= until:
                break
            appended += self._look_at(entry, config, now_ms, members)
        if appended:
            self._store.ask_flush()
        return appended

    def _look_at(
        self, entry: Entry, config: TransactionConfig, now_ms: int, members: dict[str, list[Connection]]
    ) -> int:
        """Ask about one transaction, or give it up; return how many messages were appended."""
        later = now_ms + config.check_interval_ms
        is_last = entry.checks >= config.max_checks
        if entry.group and not is_last and not self._members(entry.group, members):
            self._ends.pending.postpone(entry.offset, later)
            return 0
        half = self._ends.log.half(entry.offset)
        if half is None:
            self._miss(entry, now_ms)
            return 0
        if self._ends.was_committed(half):
            return 1
        if is_last:
            return self._give_up(half, entry.checks, config)
        connections = self._members(half.group, members)
        if not connections:
            self._ends.pending.postpone(entry.offset, later)
            return 0
        self._turn += 1
        self._ask(connections[self._turn % len(connections)], half, entry.checks + 1)
        self._ends.pending.checked(entry.offset, later)
        self._ends.is_changed = True
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
            self._ends.pending.postpone(entry.offset, now_ms + _NOT_YET_MS)
            return
        logger.warning("a half message is gone: offset=%d group=%s", entry.offset, entry.group)
        self._ends.forget(entry.offset, Decision.GIVEN_UP)

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
        self.sent += 1

    def _give_up(self, half: Half, checks: int, config: TransactionConfig) -> int:
        """End a transaction of which nobody could say how it ended."""
        logger.warning(
            "transaction given up: end=%s topic=%s group=%s message_id=%s checks=%d",
            *(config.end, half.topic, half.group, half.message.message_id, checks),
        )
        copies: list[Message] = []
        try:
            copy = records.given_up(half, checks)
            if config.end == "dead-letter":
                copy = self._retries.never_ended(copy, half.topic, half.queue_id, half.group, checks)
            elif self._topics.find(CHECK_LIMIT_TOPIC) is None:
                self._topics.create(Topic(CHECK_LIMIT_TOPIC, 1, 1))
            copies.append(copy)
        except (InvalidRequest, Busy) as error:  # a group that cannot be a topic's name, or too many topics
            logger.warning("no copy of a transaction: message_id=%s reason=%s", half.message.message_id, error)
        self._ends.finish(copies, half.offset, Decision.GIVEN_UP)
        self.given_up += 1
        return 1
