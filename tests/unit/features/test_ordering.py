"""Queue locks: granted when free, ended or the client's own."""

from __future__ import annotations

from litemq.features.ordering import LEASE_MS, QueueLocks

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


def test_one_client_at_a_time() -> None:
    locks = QueueLocks()
    assert locks.lock("g", "x", [A0, A1], 0) == {A0, A1}
    assert locks.lock("g", "y", [A1, B0], 1) == {B0}
    assert locks.lock("h", "y", [A1], 1) == {A1}  # another group
    assert locks.holder("g", A1, 1) == "x"
    assert locks.holder("g", B0, 1) == "y"
    assert locks.holder("other", A0, 1) is None
    assert len(locks) == 4


def test_a_lease_ends_and_is_renewed() -> None:
    locks = QueueLocks()
    locks.lock("g", "x", [A0, A1], 0)
    locks.lock("g", "x", [A1], 20_000)
    assert locks.lock("g", "y", [A0, A1], LEASE_MS) == set()
    assert locks.lock("g", "y", [A0, A1], LEASE_MS + 1) == {A0}
    assert locks.holder("g", A1, 20_000 + LEASE_MS) == "x"
    assert locks.holder("g", A1, 20_001 + LEASE_MS) is None
    assert len(locks) == 2


def test_unlocking_takes_only_ones_own() -> None:
    locks = QueueLocks()
    locks.lock("g", "x", [A0], 0)
    locks.unlock("g", "y", [A0])
    assert locks.holder("g", A0, 0) == "x"
    locks.unlock("g", "x", [A0, A1])
    assert locks.holder("g", A0, 0) is None
    assert len(locks) == 0
    locks.unlock("g", "x", [A0])
    assert locks.lock("g", "y", [A0], 0) == {A0}


def test_whether_a_group_consumes_in_order() -> None:
    locks = QueueLocks()
    assert not locks.has_live_locks("g", 0)
    locks.lock("g", "x", [A0], 0)
    assert locks.has_live_locks("g", LEASE_MS)
    assert not locks.has_live_locks("g", LEASE_MS + 1)
    assert not locks.has_live_locks("h", 0)


def test_the_number_is_bounded_until_leases_end() -> None:
    locks = QueueLocks(limit=2)
    assert locks.lock("g", "x", [A0, A1, B0], 0) == {A0, A1}
    assert locks.lock("h", "x", [A0], 0) == set()
    assert locks.lock("g", "x", [A0, A1], 1) == {A0, A1}  # renewing needs no room
    locks.expire(LEASE_MS + 1)
    assert len(locks) == 2
    locks.expire(LEASE_MS + 2)
    assert len(locks) == 0
    assert locks.lock("h", "x", [A0], LEASE_MS + 2) == {A0}
