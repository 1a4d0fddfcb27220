"""Who sent what and who consumed what; says at the end what is missing, out of order or handled by two at once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from tests.soak.load import GROUPS, RETRIED, dies, wants
from tests.support.push_consumer import Place

_TRUST_NS = 60 * 10**9


@dataclass(slots=True)
class Tenure:
    """What one client did with a queue while it had it."""

    began_ns: int
    ended_ns: int
    first: int
    last: int
    serial: int


@dataclass(slots=True)
class Ledger:
    """Notes of a soak; one byte per message and group."""

    sent: dict[str, bytearray] = field(default_factory=dict)
    """Topic → 1 at each serial that was acknowledged."""
    seen: dict[tuple[str, str], bytearray] = field(default_factory=dict)
    """(group, topic) → how often each serial was consumed, at most 255."""
    tenures: dict[Place, dict[str, Tenure]] = field(default_factory=dict)
    """Of ordered groups only."""
    restarts_ns: list[int] = field(default_factory=list)
    """When the broker was started again: as RocketMQ's, it has forgotten its locks by then."""
    wrong: list[str] = field(default_factory=list)

    def note_sent(self, topic: str, serial: int) -> None:
        """A send was acknowledged."""
        _add(self.sent.setdefault(topic, bytearray()), serial)

    def note_consumed(self, group: str, topic: str, serial: int) -> None:
        """A group has consumed a message; ``topic`` is the one that it was sent to."""
        if not wants(group, topic, serial):
            self._complain(f"group {group} got message {serial} of {topic}, which it does not want")
        _add(self.seen.setdefault((group, topic), bytearray()), serial)

    def note_ordered(self, place: Place, tenure: str, at_ns: int, offset: int, serial: int) -> None:
        """A member of an ordered group has consumed a message."""
        known = self.tenures.setdefault(place, {}).get(tenure)
        if known is None:
            self.tenures[place][tenure] = Tenure(at_ns, at_ns, offset, offset, serial)
            return
        if offset > known.last + 1 and not self._has_forgotten_locks(at_ns):
            self._complain(f"{place}: offset {offset} right after {known.last} in tenure {tenure}")
        if offset > known.last and serial <= known.serial:
            self._complain(f"{place}: message {serial} after {known.serial}, though it was sent before")
        known.ended_ns = at_ns
        known.last, known.serial = max((known.last, known.serial), (offset, serial))

    def missing(self) -> dict[tuple[str, str], list[int]]:
        """Return by (group, topic) what was sent, is wanted, and was not consumed yet."""
        found = {}
        for group, spec in GROUPS.items():
            for topic in spec.topics:
                seen = self.seen.get((group, topic), b"")
                lacks = [
                    serial
                    for serial, was_sent in enumerate(self.sent.get(topic, b""))
                    if was_sent
                    and not (serial < len(seen) and seen[serial])
                    and wants(group, topic, serial)
                    and not (topic == RETRIED and dies(serial))
                ]
                if lacks:
                    found[group, topic] = lacks
        return found

    def dead(self) -> set[int]:
        """Return the serials that must be among the dead letters."""
        return {serial for serial, was_sent in enumerate(self.sent.get(RETRIED, b"")) if was_sent and dies(serial)}

    def problems(self) -> list[str]:
        """Return all that went wrong."""
        found = list(self.wrong)
        for (group, topic), serials in self.missing().items():
            found.append(f"group {group} lacks {len(serials)} messages of {topic}, the first is {serials[0]}")
        for place, tenures in self.tenures.items():
            found += self._order_problems(place, sorted(tenures.values(), key=lambda tenure: tenure.began_ns))
        return found

    def counts(self) -> tuple[int, int, int]:
        """Return how many messages were sent, consumed for the first time, and consumed again."""
        sent = sum(len(bits) - bits.count(0) for bits in self.sent.values())
        first = sum(len(times) - times.count(0) for times in self.seen.values())
        return sent, first, sum(sum(times) for times in self.seen.values()) - first

    def _order_problems(self, place: Place, tenures: list[Tenure]) -> list[str]:
        """Return what is wrong with those who had an ordered queue, one after the other."""
        found = []
        for before, after in itertools.pairwise(tenures):
            if after.began_ns < before.ended_ns and not self._has_forgotten_locks(after.began_ns):
                found.append(f"{place}: two members consumed it at the same time")
        reached = -1
        for tenure in tenures:
            if tenure.first > reached + 1:
                found.append(f"{place}: somebody began at {tenure.first}, though only {reached} was reached")
            reached = max(reached, tenure.last)
        return found

    def _has_forgotten_locks(self, at_ns: int) -> bool:
        """Return whether somebody may still trust a lock from before a restart."""
        return any(0 <= at_ns - restart < _TRUST_NS for restart in self.restarts_ns)

    def _complain(self, text: str) -> None:
        if len(self.wrong) < 50:
            self.wrong.append(text)


def _add(counts: bytearray, serial: int) -> None:
    if serial >= len(counts):
        counts.extend(bytes(serial + 1024 - len(counts)))
    if counts[serial] < 255:
        counts[serial] += 1
