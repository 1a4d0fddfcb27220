"""What is known of batch transactions, piece by piece: rows, attempts, decisions, publications, instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from litemq.format.batch_records import Winner

LEAST_BYTES: Final = 16 << 10
"""What a request counts at least: many small ones take memory, too."""


class Key(NamedTuple):
    """A transaction."""

    producer_id: str
    epoch: int

    def __str__(self) -> str:
        return f"epoch {self.epoch} of producer {self.producer_id!r}"


class Place(NamedTuple):
    """Where a staged record stands: its offset in the queue of staged records, and positions now and at first."""

    offset: int
    position: int
    origin: int


@dataclass(slots=True)
class Chunk:
    """The rows of one request."""

    sequence: int
    place: Place
    count: int
    size: int
    checksum: int


@dataclass(slots=True)
class Part:
    """An attempt of a partition."""

    chunks: dict[int, Chunk] = field(default_factory=dict)
    rows: int = 0
    is_sealed: bool = False
    """Whether its rows were counted for a commit: it gets no more."""
    is_in_doubt: bool = False
    """Whether they may have been, before the last start: counting is not recorded."""

    def put(self, chunk: Chunk) -> int:
        """Add a request's rows, or say where they stand now; return how many bytes are new."""
        before = self.chunks.get(chunk.sequence)
        self.chunks[chunk.sequence] = chunk
        if before is not None:
            return 0
        self.rows += chunk.count
        return counted(chunk.size)

    @property
    def size(self) -> int:
        """Return the bytes that it counts."""
        return sum(counted(chunk.size) for chunk in self.chunks.values())


@dataclass(slots=True)
class Open:
    """A transaction that is not ended."""

    coordinator: str
    touched_ms: int
    parts: dict[tuple[int, int], Part] = field(default_factory=dict)
    asked_ms: int = 0


@dataclass(slots=True)
class Memory:
    """The last ended epoch of a producer."""

    epoch: int
    is_committed: bool
    rows: int
    used_ms: int
    coordinator: str
    reason: str
    said_at: int
    """Position of the newest record that says it."""


@dataclass(slots=True)
class Publication:
    """Winning rows on their way to their topics."""

    winners: tuple[Winner, ...]
    parts: dict[tuple[int, int], Part]
    total: int
    said_at: int
    done: int = 0
    """Messages that are in their topics."""
    behind: int = -1
    """Position of the record behind which messages from ``done`` on may stand, as of a start; -1: nowhere."""

    def chunks(self) -> Iterator[tuple[int, Chunk]]:
        """Yield its requests in their order, each with how many messages come before it."""
        first = 0
        for winner in self.winners:
            part = self.parts.get((winner.partition, winner.attempt))
            if part is not None:
                for sequence in sorted(part.chunks):
                    yield first, part.chunks[sequence]
                    first += part.chunks[sequence].count


@dataclass(slots=True)
class Decision:
    """A commit that not every broker has confirmed."""

    winners: tuple[Winner, ...]
    confirmed: tuple[str, ...]
    waiting: set[str]
    rows: int
    told_ms: int
    said_at: int


class Verdict(Enum):
    """What is to be done with rows that are to be staged."""

    STORE = "staged"
    REPEATED = "repeated"
    """They are stored already."""
    COMMITTED = "committed"
    ABORTED = "aborted"


class Limits(NamedTuple):
    """What may be open on a broker."""

    open: int
    parts: int
    producers: int
    staged_bytes: int


class Ask(NamedTuple):
    """An instruction: ask the coordinator what became of a transaction."""

    key: Key
    coordinator: str
    is_expired: bool


class Expire(NamedTuple):
    """An instruction: abort a transaction that this broker decides about."""

    key: Key


class Repeat(NamedTuple):
    """An instruction: tell a broker a decision again."""

    key: Key
    broker: str
    winners: tuple[Winner, ...]


def counted(size: int) -> int:
    """Return the bytes that a request counts."""
    return max(size, LEAST_BYTES)


def shares(winners: tuple[Winner, ...], broker: str) -> tuple[Winner, ...]:
    """Return the winners that have rows on a broker."""
    return tuple(
        Winner(partition, attempt, {broker: rows[broker]}) for partition, attempt, rows in winners if rows.get(broker)
    )
