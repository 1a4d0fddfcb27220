"""What an audit finds: the kinds of findings, and the sums that decide about them.  No Spark, no files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from litemq.format.stats_records import HOUR_MS
from litemq.spark.jobs.job import Cell

COLUMNS: Final = ("kind", "topic", "broker", "queue_id", "group", "hour", "count", "detail")

FOREVER: Final = 1 << 62

Place = tuple[str, str, int]
"""Broker, topic, queue id; the broker is empty for store files."""


class Ends(NamedTuple):
    """A queue at the cut: its first offset, and the one behind its last; None where only the messages tell.

    Store files that were not closed may hold more than ``high``.
    """

    low: int | None
    high: int | None


class Standing(NamedTuple):
    """Where a group goes on in a queue."""

    group: str
    place: Place
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that does not add up."""

    kind: str
    """``lost``, ``uncounted``, ``gap``, ``double-offset``, ``double-id``, ``tail``, ``ahead`` or ``unbalanced``."""
    topic: str = ""
    broker: str = ""
    queue_id: int | None = None
    group: str = ""
    hour: int | None = None
    """Its first millisecond."""
    count: int = 1
    detail: str

    def row(self) -> tuple[Cell, ...]:
        """Return it as a row of a report."""
        where = (self.topic or None, self.broker or None, self.queue_id, self.group or None)
        return (self.kind, *where, hour_text(self.hour), self.count, self.detail)


def hour_text(hour: int | None) -> str | None:
    """Return an hour as a person writes it."""
    return None if hour is None else datetime.fromtimestamp(hour / 1000, UTC).strftime("%Y-%m-%dT%H:00Z")


def hour_of(time_ms: int) -> int:
    """Return the first millisecond of the hour of a time."""
    return time_ms - time_ms % HOUR_MS


# -- sent = stored -------------------------------------------------------------------------------


class Hour(NamedTuple):
    """What one broker says of one topic and hour."""

    broker: str
    topic: str
    hour: int
    sent: int
    stored: int


@dataclass(slots=True)
class Known:
    """How far what is known of hours can be compared."""

    counting: frozenset[str] = frozenset()
    """Brokers that count what is sent."""
    marks: tuple[tuple[str, int, int], ...] = ()
    """(broker, since, until): not everything was counted."""
    whole_from: Mapping[tuple[str, str], int] | None = None
    """(broker, topic) → from when on all of its messages are there; from the first on where it says nothing."""
    since: int = 0
    until: int = FOREVER
    """The range that was asked for."""

    def holds(self, one: Hour) -> bool:
        """Return whether some of an hour was asked for."""
        return one.hour < self.until and self.since < one.hour + HOUR_MS

    def state(self, one: Hour) -> str:
        """Return ``whole``, ``incomplete`` (sends are missing in the counts), ``partly gone`` or ``not counted``."""
        if one.broker not in self.counting:
            return "not counted"
        begin = (self.whole_from or {}).get((one.broker, one.topic), 0)
        if one.hour < max(begin, self.since) or one.hour + HOUR_MS > self.until:
            return "partly gone"
        for broker, since, until in self.marks:
            if broker == one.broker and since < one.hour + HOUR_MS and until >= one.hour:
                return "incomplete"
        return "whole"


def judged(one: Hour, state: str) -> Finding | None:
    """Return what is wrong with an hour."""
    missing = one.sent - one.stored
    if missing > 0 and state in ("whole", "incomplete"):
        return Finding(
            kind="lost",
            topic=one.topic,
            broker=one.broker,
            hour=one.hour,
            count=missing,
            detail=f"{one.sent} sends were acknowledged, {one.stored} messages are stored",
        )
    if missing < 0 and state == "whole":
        return Finding(
            kind="uncounted",
            topic=one.topic,
            broker=one.broker,
            hour=one.hour,
            count=-missing,
            detail=f"{one.stored} messages are stored, {one.sent} sends were acknowledged",
        )
    return None


def whole_from(
    queues: Mapping[Place, Ends],
    firsts: Mapping[Place, int],
    earliest: Mapping[str, int],
    changes: Iterable[tuple[str, str, str, int]],
) -> dict[tuple[str, str], int]:
    """Return (broker, topic) → the first hour of which every message that was ever stored is there.

    ``firsts``: when the first message of each queue was stored; ``earliest``: of each broker; ``changes``: (broker,
    what, topic, when) of deletions and purges.
    """
    found: dict[tuple[str, str], int] = {}
    purged: dict[tuple[str, str], int] = {}

    def not_before(key: tuple[str, str], hour: int) -> None:
        found[key] = max(found.get(key, 0), hour)

    for broker, what, topic, when in changes:
        key = (broker, topic)
        behind = hour_of(when) + HOUR_MS
        purged[key] = max(purged.get(key, 0), behind)
        if what == "topic-deleted":
            not_before(key, behind)
    for place, ends in queues.items():
        key = place[:2]
        if not ends.low:
            continue
        if place in firsts:
            not_before(key, hour_of(firsts[place]) + HOUR_MS)
        else:
            known = earliest.get(place[0])
            not_before(key, max(purged.get(key, 0), FOREVER if known is None else hour_of(known) + HOUR_MS))
    return found


# -- stored = consumed + pending + dead ----------------------------------------------------------


class Stored(NamedTuple):
    """The messages of one queue that are there."""

    messages: int
    first: int
    last: int
    """Queue offsets."""


class Dead(NamedTuple):
    """Dead letters of a group with their origin in one queue: below where the group goes on, and from there on."""

    passed: int = 0
    waiting: int = 0


@dataclass(slots=True)
class Balance:
    """One group and topic."""

    group: str
    topic: str
    stored: int = 0
    consumed: int = 0
    pending: int = 0
    dead: int = 0

    @property
    def difference(self) -> int:
        """Return by how many messages the sum is off."""
        return self.stored - self.consumed - self.pending - self.dead


def end_of(ends: Ends, stored: Stored | None) -> int:
    """Return the offset behind the last of a queue."""
    return max(ends.high or 0, stored.last + 1 if stored is not None else 0)


def balances(
    standings: Iterable[Standing],
    queues: Mapping[Place, Ends],
    stored: Mapping[Place, Stored],
    dead: Mapping[tuple[str, Place], Dead],
) -> tuple[list[Balance], list[Finding]]:
    """Compare what is in the log with what groups and queue entries say."""
    found: dict[tuple[str, str], Balance] = {}
    wrong: list[Finding] = []
    for group, place, offset in standings:
        there = stored.get(place)
        ends = queues.get(place)
        if ends is None and there is None:
            continue  # the topic is gone, or was not asked for
        ends = ends or Ends(None, None)
        end = end_of(ends, there)
        low = ends.low if ends.low is not None else there.first if there is not None else end
        if offset > end and (there is not None or ends.high is not None):
            wrong.append(
                Finding(
                    kind="ahead",
                    topic=place[1],
                    broker=place[0],
                    queue_id=place[2],
                    group=group,
                    count=offset - end,
                    detail=f"the group goes on with offset {offset}, the queue ends at {end}",
                )
            )
        at = min(max(offset, low), end)
        letters = dead.get((group, place), Dead())
        balance = found.setdefault((group, place[1]), Balance(group, place[1]))
        balance.stored += there.messages if there is not None else 0
        balance.consumed += at - low - letters.passed
        balance.pending += end - at - letters.waiting
        balance.dead += letters.passed + letters.waiting
    for balance in found.values():
        if balance.difference:
            said = f"{balance.consumed} consumed + {balance.pending} pending + {balance.dead} dead"
            wrong.append(
                Finding(
                    kind="unbalanced",
                    topic=balance.topic,
                    group=balance.group,
                    count=abs(balance.difference),
                    detail=f"{balance.stored} stored, but {said}",
                )
            )
    return [found[key] for key in sorted(found)], wrong


# -- queues --------------------------------------------------------------------------------------


def edges(place: Place, ends: Ends, stored: Stored | None) -> list[Finding]:
    """Return what is missing at both ends of a queue."""
    low, high = ends.low, ends.high
    found = []
    if stored is None:
        if low is not None and high is not None and low < high:
            found.append(_edge(place, "tail", low, high))
        return found
    if low is not None and low < stored.first:
        found.append(_edge(place, "gap", low, stored.first))
    if high is not None and stored.last + 1 < high:
        found.append(_edge(place, "tail", stored.last + 1, high))
    return found


def _edge(place: Place, kind: str, start: int, end: int) -> Finding:
    broker, topic, queue_id = place
    detail = without_message(start, end, ", the last of the queue," if kind == "tail" else "")
    return Finding(kind=kind, topic=topic, broker=broker, queue_id=queue_id, count=end - start, detail=detail)


def without_message(start: int, end: int, more: str = "") -> str:
    """Return the words for offsets that lead to no message."""
    if end - start == 1:
        return f"offset {start}{more} leads to no message"
    return f"offsets {start} to {end - 1}{more} lead to no message"
