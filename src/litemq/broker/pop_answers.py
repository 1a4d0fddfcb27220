"""What is asked for by receipt and what the answer is: values, and what they take out of records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from litemq.broker.pop_waits import Key
from litemq.errors import BadField, Busy
from litemq.features.filters import Filter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.features.pop import PopQueue
from litemq.store._slice_cy import Pulled

MOST_MESSAGES = 32
"""Messages of one answer."""
MAX_INVISIBLE_MS = 12 * 3_600_000
_OFFSET = slice(20, 28)
_SYS_FLAG = slice(36, 40)
_BORN_IPV6, _STORE_IPV6 = 0x10, 0x20
_TIMES_AT = 72
"""Where a RocketMQ record with IPv4 addresses says how often it was consumed again."""


@dataclass(frozen=True, slots=True)
class Handed:
    """Messages of one queue in an answer."""

    queue_id: int
    offsets: list[int]


@dataclass(frozen=True, slots=True)
class PopAnswer:
    """Messages as RocketMQ's records; ``pop_ms`` is the generation of all of these deliveries."""

    pop_ms: int
    invisible_ms: int
    rest: int
    """Messages that are there beside these."""
    handed: list[Handed] = field(default_factory=list)
    data: bytes | bytearray = b""
    is_again: bool = False
    """Nothing was found, but not everything was looked at."""


@dataclass(slots=True, eq=False)
class Popping:
    """Somebody who wants messages, or (``is_notice``) wants to know whether there are any; answered once.

    ``give`` takes None when there are none and the time is up.
    """

    group: str
    topic: str
    queue_id: int
    """-1: any."""
    count: int
    invisible_ms: int
    wait_ms: int
    filter: Filter
    give: Callable[[PopAnswer | None], None]
    refuse: Callable[[BaseException], None]
    gone: Callable[[], bool]
    consumer: str = ""
    """Client id of who asks, as far as it is known."""
    is_ordered: bool = False
    begins_at_end: bool = False
    is_notice: bool = False
    deadline_ms: int = 0
    has_waited: bool = False

    @property
    def key(self) -> Key:
        """Return what it waits for."""
        return self.group, self.topic, self.queue_id

    @property
    def is_gone(self) -> bool:
        """Return whether nobody would take an answer."""
        return self.gone()


@dataclass(slots=True)
class Share:
    """What one queue gives to an answer."""

    queue_id: int
    queue: PopQueue
    offsets: list[int] = field(default_factory=list)
    parts: list[bytearray | bytes] = field(default_factory=list)
    size: int = 0
    is_again: bool = False


class TooManyWait(Busy):
    """As many wait as may: the answer has a code of its own."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} requests wait for messages already (limits.parked_pulls); try again in 1000 ms")


def check_invisible(invisible_ms: int, *, least: int = 1) -> None:
    """Refuse a time for which no message is kept from others."""
    if not least <= invisible_ms <= MAX_INVISIBLE_MS:
        raise BadField(f"invisibleTime is {invisible_ms} ms, it must be {least} to {MAX_INVISIBLE_MS}")


def hashes_of(wanted: Filter) -> frozenset[int] | None:
    """Return what the tag of a queue entry must be one of, None: anything."""
    return None if isinstance(wanted, SqlFilter) else wanted.hashes


def offsets_of(found: Pulled) -> list[int]:
    """Return the queue offset of each record."""
    buffer = found.buffer
    return [int.from_bytes(buffer[place + _OFFSET.start : place + _OFFSET.stop], "big") for place, _ in found.places()]


def set_times(found: Pulled, attempts: list[int]) -> None:
    """Let records say how often they were consumed before: what they say, and earlier deliveries of theirs."""
    buffer = found.buffer
    for (place, _), times in zip(found.places(), attempts, strict=True):
        flag = int.from_bytes(buffer[place + _SYS_FLAG.start : place + _SYS_FLAG.stop], "big")
        at = place + _TIMES_AT + 12 * bool(flag & _BORN_IPV6) + 12 * bool(flag & _STORE_IPV6)
        stored = int.from_bytes(buffer[at : at + 4], "big", signed=True)
        buffer[at : at + 4] = (max(stored, 0) + times).to_bytes(4, "big")


def add(share: Share, offsets: list[int], found: Pulled) -> None:
    """Add what was found to a share."""
    data = memoryview(found.buffer)[found.start : found.start + found.size]
    share.offsets += offsets
    share.parts.append(bytes(data) if found.start or found.size < len(found.buffer) else found.buffer)
    share.size += found.size


def runs_of(offsets: list[int]) -> list[tuple[int, int]]:
    """Return (first, count) of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((offset, 1))
    return runs
