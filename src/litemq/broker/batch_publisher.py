"""Moves the winning rows of committed batch transactions to their topics, in slices, one each turn of the event loop.

A slice is a ``publishing`` record that says which rows follow, and the messages, each with its own position among the
staged rows in ``__ORIGIN``.  The log is written in order and cut at its end only, so that after a crash the messages
behind the newest such record are those that got there: the next slice begins behind them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from litemq.broker._sent_cy import SentCounts
from litemq.broker.messages import MessageMaker, own_properties
from litemq.broker.staged_rows import read_rows
from litemq.broker.topics import Topics
from litemq.errors import InvalidRequest, LiteMQError
from litemq.features.batch_parts import Chunk, Key, Publication
from litemq.features.batch_transaction import Batches
from litemq.format._staged_cy import messages, skip
from litemq.format.batch_records import Fact, Published, Publishing, Staged
from litemq.format.names import ORIGIN, RESERVED_TOPIC_PREFIX
from litemq.store.message_store import MessageStore
from litemq.types import Appended, Message

logger = logging.getLogger(__name__)

_TURN_S: Final = 0.003
"""Time that a slice should take: live traffic waits as long."""
_FIRST_SLICE: Final = 250
_LARGEST_SLICE: Final = 4_000
_SLICE_BYTES: Final = 512 << 10
_CHOKED_S: Final = 0.01
_TROUBLE_S: Final = 1.0


class Record(Protocol):
    """Appends a fact and takes it in."""

    def __call__(self, fact: Fact, messages: bytes = b"") -> Appended:
        """Do it."""
        ...


@dataclass(slots=True)
class _Cursor:
    """How far a publication has come."""

    chunks: list[tuple[int, Chunk]]
    which: int = 0
    number: int = 0
    """The next message of the chunk; ``at`` in its bytes."""
    at: int = 0
    fact: Staged | None = None
    body: bytes = b""
    lost: int = 0
    counts: list[int] = field(default_factory=list)


class BatchPublisher:
    """Publishes; called by the store's owner."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        core: Batches,
        maker: MessageMaker,
        sent: SentCounts,
        *,
        cluster: str,
        appended: Callable[[], None],
    ) -> None:
        self._store = store
        self._topics = topics
        self._core = core
        self._own = dict(own_properties(cluster))
        self._new_id = maker.new_id
        self._sent = sent
        self._appended = appended
        self.record: Record
        """Set by whom it belongs to."""
        self._cursors: dict[Key, _Cursor] = {}
        self._served: set[str] = set()
        """Producers that had a slice in this round."""
        self._timer: asyncio.Handle | None = None
        self._most = _FIRST_SLICE
        self._slice_bytes = min(_SLICE_BYTES, store.largest_state // 2)
        self._trouble = ""
        self.slices = self.published = self.lost = 0
        self.slowest_s = 0.0

    # -- turns -----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Publish what there is, from the loop's next turn on."""
        if self._timer is None and self._core.publications:
            self._timer = asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        if not self._core.publications or self._store.failure is not None:
            return
        if self._store.is_choked:
            self._store.ask_flush()
            self._timer = loop.call_later(_CHOKED_S, self._turn)
            return
        try:
            is_waiting = not self.publish_slice()
        except LiteMQError as error:
            if str(error) != self._trouble:
                logger.warning("a batch transaction cannot be published now, it is tried again: reason=%s", error)
            self._trouble = str(error)
            self._timer = loop.call_later(_TROUBLE_S, self._turn)
            return
        self._trouble = ""
        if is_waiting:
            self._timer = loop.call_later(_CHOKED_S, self._turn)
        elif self._core.publications:
            self._timer = loop.call_soon(self._turn)

    def close(self) -> None:
        """Publish no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def publish_slice(self) -> bool:
        """Publish the next slice of the producer whose turn it is; False: its rows cannot be read yet."""
        began = time.perf_counter()
        key = self._next()
        goes_on = self._slice(key, self._core.publications[key])
        took = time.perf_counter() - began
        self.slices += 1
        self.slowest_s = max(self.slowest_s, took)
        wanted = int(self._most * _TURN_S / max(took, 1e-6))
        self._most = min(max(wanted, self._most // 2, 1), self._most * 2, _LARGEST_SLICE)
        self._appended()
        return goes_on

    def _next(self) -> Key:
        """Return the oldest publication of the next producer: its epochs follow each other, others need not wait."""
        for key in self._core.publications:
            if key.producer_id not in self._served:
                self._served.add(key.producer_id)
                return key
        self._served.clear()
        key = next(iter(self._core.publications))
        self._served.add(key.producer_id)
        return key

    # -- a slice ---------------------------------------------------------------------------------

    def _slice(self, key: Key, publication: Publication) -> bool:
        cursor = self._cursors.get(key)
        if cursor is None:
            cursor = self._cursors[key] = self._begin(publication)
        if cursor.which < len(cursor.chunks) and cursor.fact is None and not self._load(key, cursor):
            return False
        if cursor.which >= len(cursor.chunks):
            self._finish(key, publication, cursor)
            return True
        fact, (first, chunk) = cursor.fact, cursor.chunks[cursor.which]
        assert fact is not None
        made, at, number = messages(
            *(cursor.body, cursor.at, cursor.number, self._most, self._slice_bytes, fact.topics, cursor.counts),
            *(chunk.place.origin, fact.born_ms, fact.born_host, self._own, self._new_id),
        )
        if made:
            self.record(Publishing(*key, first + cursor.number, number - cursor.number))
            self._append(key, made)
        self.published += len(made)
        cursor.at, cursor.number = at, number
        publication.done = first + number
        if number >= chunk.count:
            cursor.which, cursor.number, cursor.fact, cursor.body = cursor.which + 1, 0, None, b""
            if cursor.which >= len(cursor.chunks):
                self._finish(key, publication, cursor)
        return True

    def _append(self, key: Key, made: list[Message]) -> None:
        try:
            self._note_sent(key, made, self._store.append_many(made))
        except InvalidRequest:
            for message in made:
                try:
                    self._note_sent(key, [message], [self._store.append(message)])
                except InvalidRequest as error:  # the store refuses what it took once: another limit, say
                    self.lost += 1
                    logger.error("a row of %s cannot be published: topic=%s reason=%s", key, message.topic, error)
        except LiteMQError as error:
            if len(error.appended) != len(made):
                raise
            self._note_sent(key, made, [one for one in error.appended if isinstance(one, Appended)])

    def _note_sent(self, key: Key, messages: list[Message], appended: Sequence[Appended]) -> None:
        """Count what became visible; the producer's id stands for its group."""
        for message, one in zip(messages, appended, strict=True):
            self._sent.note(message.topic, key.producer_id, 1, one.store_time)

    def _begin(self, publication: Publication) -> _Cursor:
        cursor = _Cursor(list(publication.chunks()))
        firsts = [first for first, _ in cursor.chunks]
        if firsts:
            cursor.which = max(bisect_right(firsts, publication.done) - 1, 0)
            first, chunk = cursor.chunks[cursor.which]
            cursor.number = publication.done - first
            if cursor.number >= chunk.count:
                cursor.which, cursor.number = cursor.which + 1, 0
        return cursor

    def _load(self, key: Key, cursor: _Cursor) -> bool:
        """Read the next rows that can be read; False when they cannot be yet."""
        while cursor.which < len(cursor.chunks):
            _, chunk = cursor.chunks[cursor.which]
            if chunk.place.position >= self._store.readable_end:
                return False
            found = read_rows(self._store, chunk, key)
            if found is not None:
                cursor.fact, cursor.body = found.fact, found.body
                cursor.counts = [self._queues_of(topic) for topic in found.fact.topics]
                cursor.at = skip(found.body, found.begin, cursor.number)
                return True
            cursor.lost += chunk.count - cursor.number
            cursor.which, cursor.number = cursor.which + 1, 0
        return True

    def _queues_of(self, name: str) -> int:
        """Return the queues of a topic; 0 when it was deleted: its rows go nowhere."""
        topic = self._topics.find(name)
        return 0 if topic is None else max(topic.write_queues, 1)

    def _finish(self, key: Key, publication: Publication, cursor: _Cursor) -> None:
        there = sum(chunk.count for _, chunk in cursor.chunks) - cursor.lost
        if there < publication.total:
            self.lost += publication.total - there
            logger.error(
                "rows of %s are lost, their records are damaged or gone: count=%d", key, publication.total - there
            )
        self.record(Published(*key))
        del self._cursors[key]

    # -- after a start -----------------------------------------------------------------------------

    def resume(self) -> None:
        """Find out which rows a crash left in their topics behind the newest record that announces some."""
        for publication in self._core.publications.values():
            if publication.behind >= 0:
                publication.done = self._found(publication)
                publication.behind = -1

    def _found(self, publication: Publication) -> int:
        """Return how many messages are in their topics."""
        places = sorted((chunk.place.origin, first, chunk.count) for first, chunk in publication.chunks())
        origins = [origin for origin, _, _ in places]
        done = publication.done
        for record in self._store.reader.walk(publication.behind):
            if record.topic.startswith(RESERVED_TOPIC_PREFIX):
                continue
            text = record.properties.get(ORIGIN, "")
            origin = int(text) if text.isascii() and text.isdigit() else -1
            at = bisect_right(origins, origin) - 1
            if at < 0 or not 0 <= origin - places[at][0] < places[at][2]:
                break
            number = places[at][1] + origin - places[at][0]
            if number < done:
                break
            done = number + 1
        return done

    def report(self) -> dict[str, int]:
        """Return what request 31001 tells."""
        return {
            "published": self.published,
            "lost": self.lost,
            "slices": self.slices,
            "slowestSliceUs": int(self.slowest_s * 1e6),
        }
