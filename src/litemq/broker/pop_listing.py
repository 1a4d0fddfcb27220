"""What a group holds by receipts, for people to look at, page by page."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from litemq.broker.pop_state import PopStates
from litemq.errors import CorruptRecord
from litemq.features.pop import Held
from litemq.store.message_store import MessageStore

_LISTING_S: Final = 0.02
"""Of one page's work, so that nobody waits for it; the page then ends early."""

Place = tuple[str, int, int]
"""Topic, queue, offset."""


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """One message that a group holds."""

    topic: str
    queue_id: int
    held: Held
    message_id: str
    """Empty when its record is gone or damaged."""
    consumer: str
    """Empty when it is not known: it was handed out before the broker's last start."""


@dataclass(slots=True)
class HeldPage:
    """Some held messages, by topic, queue and offset; ``after`` is where the next page begins, None: there is none."""

    found: list[HeldMessage] = field(default_factory=list)
    after: Place | None = None
    count: int = 0
    """All that the group holds."""


def held_page(store: MessageStore, states: PopStates, group: str, *, topic: str, first: Place, most: int) -> HeldPage:
    """Return what a group holds from a place on, of one topic where it is not empty."""
    page = HeldPage()
    until = time.perf_counter() + _LISTING_S
    topics = sorted(known for of, known in states.of if of == group and topic in ("", known))
    queues = [
        (known, queue_id, states.of[group, known][queue_id])
        for known in topics
        for queue_id in sorted(states.of[group, known])
    ]
    page.count = sum(queue.count for *_, queue in queues)
    for known, queue_id, queue in queues:
        if (known, queue_id) < first[:2]:
            continue
        for held in queue.held(first[2] if (known, queue_id) == first[:2] else 0):
            if len(page.found) >= most or (page.found and time.perf_counter() > until):
                page.after = (known, queue_id, held.offset)
                return page
            message_id = _message_id(store, known, queue_id, held.offset)
            page.found.append(HeldMessage(known, queue_id, held, message_id, states.holders.name(held.holder)))
    return page


def _message_id(store: MessageStore, topic: str, queue_id: int, offset: int) -> str:
    try:
        record = store.reader.message_at(topic, queue_id, offset)
    except CorruptRecord:
        return ""
    return record.message_id or "" if record is not None else ""
