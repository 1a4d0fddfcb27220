"""Parts of a log that one task reads: picklable values, and how many of them make a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

NO_END: Final = (1 << 63) - 1


class LogRange(NamedTuple):
    """All records that start in ``start`` to ``end`` of one log, whatever their queue."""

    stream: int
    """Which log; above 0 in a tmq tree only."""
    start: int
    """Where a record starts; -1: the log's first byte."""
    end: int
    size: int
    """Bytes, as far as the planner knows."""


class QueueRange(NamedTuple):
    """The messages of one queue from offset ``start`` to before ``end``."""

    topic: str
    broker: str
    queue_id: int
    start: int
    end: int
    size: int = 0


Range = LogRange | QueueRange


def grouped(parts: Iterable[Range], max_bytes: int, least: int) -> list[tuple[Range, ...]]:
    """Return partitions: neighbours together up to ``max_bytes``, smaller ones where ``least`` asks for more.

    Their order is that of the ranges, so the same ranges always give the same partitions.
    """
    every = list(parts)
    total = sum(part.size for part in every)
    if least > 1:
        max_bytes = max(1, min(max_bytes, -(-total // least)))
    found: list[list[Range]] = []
    size = 0
    for part in every:
        if not found or size + part.size > max_bytes:
            found.append([])
            size = 0
        found[-1].append(part)
        size += part.size
    return [tuple(group) for group in found]


def step_of(total: int, max_bytes: int, least: int) -> int:
    """Return after how many bytes a log is cut."""
    return max(1, min(max_bytes, -(-total // least)) if least > 1 else max_bytes)


def cut(stream: int, boundaries: Sequence[int], first: int, last: int, end: int) -> list[LogRange]:
    """Return the ranges between boundaries.

    ``last`` is where the log ends as far as one knows, ``end`` up to where it is read.
    The first range takes in the log's very first byte, wherever that is.
    """
    starts = [-1, *boundaries]
    ends = [*boundaries, end]
    known = [first, *boundaries, max(last, first)]
    return [
        LogRange(stream, start, stop, max(0, known[at + 1] - known[at]))
        for at, (start, stop) in enumerate(zip(starts, ends, strict=True))
    ]
