"""The sums of the audit: which hours can be compared, and what of groups and queues does not add up."""

from __future__ import annotations

import pytest

from litemq.format.stats_records import HOUR_MS
from litemq.spark.jobs.audit_findings import (
    FOREVER,
    Dead,
    Ends,
    Finding,
    Hour,
    Known,
    Standing,
    Stored,
    balances,
    edges,
    hour_text,
    judged,
    whole_from,
)

H = 500_000 * HOUR_MS
PLACE = ("a", "orders", 0)
KEY = ("a", "orders")


def test_states_of_hours() -> None:
    known = Known(
        counting=frozenset({"a"}),
        marks=(("a", H + 5 * HOUR_MS - 1, H + 5 * HOUR_MS), ("b", H, H)),
        whole_from={KEY: H + HOUR_MS},
        since=H + 2 * HOUR_MS,
        until=H + 8 * HOUR_MS,
    )
    states = {n: known.state(Hour("a", "orders", H + n * HOUR_MS, 1, 1)) for n in range(9)}
    assert states == {
        **dict.fromkeys((0, 1, 8), "partly gone"),
        **dict.fromkeys((4, 5), "incomplete"),
        **dict.fromkeys((2, 3, 6, 7), "whole"),
    }
    assert [n for n in range(12) if known.holds(Hour("a", "orders", H + n * HOUR_MS, 1, 1))] == [*range(2, 8)]
    assert known.state(Hour("b", "orders", H + 3 * HOUR_MS, 1, 1)) == "not counted"


@pytest.mark.parametrize(
    ("state", "sent", "stored", "kind"),
    [
        ("whole", 5, 5, ""),
        ("whole", 5, 4, "lost"),
        ("whole", 4, 5, "uncounted"),
        ("incomplete", 5, 4, "lost"),
        ("incomplete", 4, 5, ""),
        ("partly gone", 5, 4, ""),
        ("partly gone", 4, 5, ""),
        ("not counted", 0, 5, ""),
    ],
)
def test_judgement_of_an_hour(state: str, sent: int, stored: int, kind: str) -> None:
    found = judged(Hour("a", "orders", H, sent, stored), state)
    assert (found.kind if found else "", found.count if found else 1) == (kind, 1)


def test_from_when_on_everything_is_there() -> None:
    queues = {
        PLACE: Ends(0, 9),  # from its beginning
        ("a", "cut", 0): Ends(5, 9),  # since the hour behind its first message
        ("a", "cut", 1): Ends(0, 9),
        ("a", "swept", 0): Ends(9, 9),  # since the hour behind the purge
        ("a", "expired", 0): Ends(9, 9),  # since the hour behind the first message of the broker
        ("b", "nothing", 0): Ends(9, 9),  # nobody knows
        ("a", "anew", 0): Ends(0, 9),  # since the hour behind the deletion
        ("a", "torn", 0): Ends(None, None),
    }
    firsts = {PLACE: H + 1, ("a", "cut", 0): H + 2 * HOUR_MS + 5, ("a", "cut", 1): H + 9 * HOUR_MS}
    changes = [("a", "min-offsets", "swept", H + 3 * HOUR_MS), ("a", "topic-deleted", "anew", H + 4 * HOUR_MS)]
    assert whole_from(queues, firsts, {"a": H + 1}, changes) == {
        ("a", "cut"): H + 3 * HOUR_MS,
        ("a", "swept"): H + 4 * HOUR_MS,
        ("a", "expired"): H + HOUR_MS,
        ("b", "nothing"): FOREVER,
        ("a", "anew"): H + 5 * HOUR_MS,
    }


@pytest.mark.parametrize("offset", [0, 3, 5, 9, 12])
def test_a_queue_is_consumed_pending_and_dead(offset: int) -> None:
    """Whatever retention took, and wherever the group stands."""
    dead = {("g", PLACE): Dead(passed=1 if offset > 4 else 0, waiting=0 if offset > 4 else 1)}
    (one,), wrong = balances([Standing("g", PLACE, offset)], {PLACE: Ends(3, 9)}, {PLACE: Stored(6, 3, 8)}, dead)
    assert (one.stored, one.dead, one.difference) == (6, 1, 0)
    assert one.consumed + one.pending == 5
    assert one.consumed == max(min(offset, 9) - 3 - (offset > 4), 0)
    assert [(finding.kind, finding.count) for finding in wrong] == ([("ahead", 3)] if offset == 12 else [])


def test_a_group_does_not_balance_when_messages_are_gone() -> None:
    (_,), (wrong,) = balances([Standing("g", PLACE, 4)], {PLACE: Ends(0, 9)}, {PLACE: Stored(7, 0, 8)}, {})
    assert (wrong.kind, wrong.count, wrong.group) == ("unbalanced", 2, "g")
    assert wrong.detail == "7 stored, but 4 consumed + 5 pending + 0 dead"


def test_what_was_not_asked_for_is_left_out() -> None:
    assert balances([Standing("g", PLACE, 4)], {}, {}, {}) == ([], [])
    # Nobody says where a queue without messages and entries ends.
    (one,), wrong = balances([Standing("g", PLACE, 4)], {PLACE: Ends(None, None)}, {}, {})
    assert (one.stored, one.consumed, one.pending, wrong) == (0, 0, 0, [])


def test_edges_of_a_queue() -> None:
    def told(ends: Ends, stored: Stored | None) -> list[tuple[str, int, str]]:
        return [(one.kind, one.count, one.detail) for one in edges(PLACE, ends, stored)]

    assert told(Ends(2, 9), Stored(7, 2, 8)) == []
    assert told(Ends(None, None), Stored(7, 2, 8)) == []
    assert told(Ends(2, 8), Stored(7, 2, 8)) == []  # more than the entries knew
    assert told(Ends(0, 9), Stored(7, 2, 8)) == [("gap", 2, "offsets 0 to 1 lead to no message")]
    assert told(Ends(2, 10), Stored(7, 2, 8)) == [("tail", 1, "offset 9, the last of the queue, leads to no message")]
    assert [one[:2] for one in told(Ends(2, 9), None)] == [("tail", 7)]
    assert told(Ends(9, 9), None) == []


def test_a_finding_as_a_row() -> None:
    one = Finding(kind="lost", topic="orders", hour=H, count=3, detail="x")
    assert one.row() == ("lost", "orders", None, None, None, hour_text(H), 3, "x")
    assert hour_text(0) == "1970-01-01T00:00Z"
    assert hour_text(None) is None
