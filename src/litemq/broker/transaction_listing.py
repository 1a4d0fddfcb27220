"""Transactions for people to look at: those that are pending, and those that ended last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from litemq.broker.half_log import Decision
from litemq.broker.half_records import Half
from litemq.broker.transactions import Transactions

_LOOKS: Final = 20_000
_LISTING_S: Final = 0.02
"""Bounds of one page's work, so that nobody waits for it; the page then ends early."""

_STATES: Final = {
    Decision.COMMIT: "committed",
    Decision.ROLLBACK: "rolled_back",
    Decision.GIVEN_UP: "given_up",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """One transaction."""

    offset: int
    half: Half
    state: str
    """``pending``, ``checking`` once its producer group was asked, ``committed``, ``rolled_back``, ``given_up``."""
    checks: int
    next_check_ms: int
    """0: it has ended."""


@dataclass(slots=True)
class TransactionPage:
    """Some transactions; ``next_offset`` is where the next page begins, -1: there is none."""

    found: list[Listed] = field(default_factory=list)
    next_offset: int = -1


def pending_page(transactions: Transactions, *, group: str, topic: str, first: int, most: int) -> TransactionPage:
    """Return pending transactions from an offset on, of a group and for a topic where these are not empty."""
    page = TransactionPage()
    until = time.perf_counter() + _LISTING_S
    for looked, entry in enumerate(transactions.pending.entries(first)):
        if len(page.found) >= most or looked >= _LOOKS or (looked and time.perf_counter() > until):
            page.next_offset = entry.offset
            break
        if group and entry.group and entry.group != group:
            continue
        half = transactions.ends.log.half(entry.offset)
        if half is not None and _is_wanted(half, group, topic):
            state = "checking" if entry.checks else "pending"
            page.found.append(Listed(entry.offset, half, state, entry.checks, entry.due_ms))
    return page


def ended_page(transactions: Transactions, *, group: str, topic: str, most: int) -> TransactionPage:
    """Return transactions that ended last, the last one first, as far as memory and log still tell."""
    page = TransactionPage()
    until = time.perf_counter() + _LISTING_S
    for offset, state in islice(_ended(transactions), _LOOKS):
        if len(page.found) >= most or time.perf_counter() > until:
            break
        half = transactions.ends.log.half(offset)
        if half is not None and _is_wanted(half, group, topic):
            page.found.append(Listed(offset, half, state, half.checks, 0))
    return page


def _ended(transactions: Transactions) -> Iterator[tuple[int, str]]:
    for offset, decision in reversed(transactions.ends.recent.items()):
        state = _STATES.get(decision)
        if state is not None:  # else it was appended again, and is pending elsewhere
            yield offset, state


def _is_wanted(half: Half, group: str, topic: str) -> bool:
    return (not group or half.group == group) and (not topic or half.topic == topic)
