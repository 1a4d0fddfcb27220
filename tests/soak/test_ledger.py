"""The soak's ledger notices what a broker must not do."""

from __future__ import annotations

from tests.soak.ledger import Ledger
from tests.soak.load import ORDERS, RETRIED, TAGGED, dies

PLACE = ("in-order", ORDERS, 0)


def consumed(ledger: Ledger, tenure: str, *offsets: int, at: int = 0) -> None:
    for number, offset in enumerate(offsets):
        ledger.note_sent(ORDERS, offset)
        ledger.note_consumed("in-order", ORDERS, offset)
        ledger.note_ordered(PLACE, tenure, at + number, offset, offset)


def test_all_is_well() -> None:
    ledger = Ledger()
    consumed(ledger, "A", 0, 1, 2, at=0)
    consumed(ledger, "B", 1, 2, 3, at=10)
    assert ledger.problems() == []
    assert ledger.counts() == (4, 4, 2)


def test_a_message_that_nobody_consumed() -> None:
    ledger = Ledger()
    consumed(ledger, "A", 0)
    ledger.note_sent(ORDERS, 5)
    assert ledger.problems() == ["group in-order lacks 1 messages of orders, the first is 5"]


def test_a_message_with_an_unwanted_tag() -> None:
    ledger = Ledger()
    ledger.note_consumed("some-tags", TAGGED, 2)
    assert len(ledger.problems()) == 1


def test_a_gap_in_a_tenure() -> None:
    ledger = Ledger()
    consumed(ledger, "A", 0, 1, 3)
    assert "offset 3 right after 1" in ledger.problems()[0]


def test_a_message_before_one_that_was_sent_before() -> None:
    ledger = Ledger()
    ledger.note_ordered(PLACE, "A", 1, 0, 8)
    ledger.note_ordered(PLACE, "A", 2, 1, 4)
    assert "message 4 after 8" in ledger.problems()[0]


def test_a_gap_between_two_members() -> None:
    ledger = Ledger()
    consumed(ledger, "A", 0, 1, at=0)
    consumed(ledger, "B", 3, 4, at=10)
    assert "began at 3, though only 1 was reached" in ledger.problems()[0]


def test_two_members_at_the_same_time() -> None:
    ledger = Ledger()
    consumed(ledger, "A", 0, 1, 2, at=0)
    consumed(ledger, "B", 1, 2, at=1)
    assert "at the same time" in ledger.problems()[0]
    ledger.restarts_ns.append(0)
    assert not ledger.problems(), "a broker that was started again has forgotten its locks"


def test_a_message_that_dies_is_looked_for_among_the_dead_only() -> None:
    ledger = Ledger()
    assert dies(7)
    ledger.note_sent(RETRIED, 7)
    assert ledger.problems() == []
    assert ledger.dead() == {7}
