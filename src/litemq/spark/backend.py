"""What a reader needs of the place where the log is: files, or brokers.

A backend plans ranges on the driver and opens them on executors, so it is picklable and holds nothing open.  What it
gives are runs of rows that ``format.scan`` filled: how the bytes came is its own business.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from litemq.format.record import Format
from litemq.spark.ranges import QueueRange, Range
from litemq.types import Record


class Chosen(NamedTuple):
    """What of one queue is wanted."""

    low: int
    high: int
    """Offset behind the last one."""
    from_position: int
    """Records before this position are dead: their topic was deleted."""


class Bounds(NamedTuple):
    """One queue as it is now."""

    topic: str
    broker: str
    queue_id: int
    low: int
    """First offset that can be read."""
    high: int
    """Offset behind the last that can be read."""
    incarnation: str
    """Another one when the topic was deleted and made anew; empty where nobody says."""


@dataclass(slots=True)
class Rows:
    """Rows ``first`` to ``count`` of ``table``, whose bytes are in ``view``; good until the next run is asked for."""

    view: memoryview
    table: array[int]
    first: int
    count: int
    base: int
    """Position of the view's first byte."""
    end: int
    """Rows at or behind this position belong to the next range."""


@dataclass(frozen=True, slots=True)
class Unfolded:
    """Messages that one record holds."""

    records: list[Record]


@dataclass(frozen=True, slots=True)
class Damaged:
    """Bytes that are no sound record."""

    position: int
    size: int
    reason: str
    segment: str


@dataclass(slots=True)
class Counters:
    """What was read to answer: bytes of records, of queue entries, and how many reads they took."""

    record_bytes: int = 0
    index_bytes: int = 0
    reads: int = 0


class Backend(Protocol):
    """Files (``files.FileBackend``) or brokers."""

    counters: Counters

    @property
    def format(self) -> Format | None:
        """Format of the records; None while nothing is written."""

    @property
    def identity(self) -> str:
        """Which log this is: what a stream's offsets are checked against."""

    def bounds(self) -> list[Bounds]:
        """Return all queues with messages, or that had some."""

    def offset_at(self, queue: Bounds, time_ms: int) -> int:
        """Return the first offset stored at or after ``time_ms``; ``queue.high`` without one."""

    def bytes_of(self, queue: QueueRange) -> int:
        """Return about how many bytes the records of a range have."""

    def split(self, queue: QueueRange, max_bytes: int, max_records: int) -> list[QueueRange]:
        """Return the range in parts that follow each other."""

    def open(self, part: Range) -> Iterator[Rows | Damaged]:
        """Yield the records of a range in order; runs on an executor."""
