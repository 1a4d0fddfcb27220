"""On which brokers a topic's queues are.

even                     dealt round-robin over the masters, in the order of their names
exclusive:BROKER         all on one
BROKER=4,BROKER=2        as many as listed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from litemq.errors import InvalidRequest
from litemq.format.limits import MAX_QUEUES

EVEN: Final = "even"
_EXCLUSIVE: Final = "exclusive:"


def place(placement: str, brokers: Collection[str], queue_count: int | None = None) -> Mapping[str, int]:
    """Return how many queues of a new topic each broker gets, only those that get any.

    Args:
        placement: as above.
        brokers: names of the masters.
        queue_count: of the whole topic; with a list of brokers it may be left out.

    Raises:
        InvalidRequest: the placement cannot be read, or names what is not there.
    """
    if not brokers:
        raise InvalidRequest("no broker is there to place queues on")
    if queue_count is not None and not 1 <= queue_count <= MAX_QUEUES:
        raise InvalidRequest(f"a topic has 1 to {MAX_QUEUES} queues, not {queue_count}")
    if "=" in placement and not placement.startswith(_EXCLUSIVE):
        return _listed(placement, brokers, queue_count)
    if queue_count is None:
        raise InvalidRequest(f"placement {placement!r} needs the number of queues")
    if placement == EVEN:
        return _even(brokers, queue_count)
    if placement.startswith(_EXCLUSIVE):
        return {_known(placement.removeprefix(_EXCLUSIVE).strip(), brokers, placement): queue_count}
    raise InvalidRequest(f"placement {placement!r} must be even, exclusive:BROKER or BROKER=COUNT,…")


def _even(brokers: Collection[str], queue_count: int) -> Mapping[str, int]:
    names = sorted(set(brokers))
    each, more = divmod(queue_count, len(names))
    return {name: count for index, name in enumerate(names) if (count := each + (index < more))}


def _listed(placement: str, brokers: Collection[str], queue_count: int | None) -> Mapping[str, int]:
    placed: dict[str, int] = {}
    for part in placement.split(","):
        name, _, count = (text.strip() for text in part.partition("="))
        _known(name, brokers, placement)
        if name in placed:
            raise InvalidRequest(f"placement {placement!r} names broker {name!r} twice")
        if not (count.isascii() and count.isdecimal() and len(count) <= 7 and 1 <= int(count) <= MAX_QUEUES):
            raise InvalidRequest(f"placement {placement!r}: {part.strip()!r} needs a number from 1 to {MAX_QUEUES}")
        placed[name] = int(count)
    total = sum(placed.values())
    if queue_count not in (None, total):
        raise InvalidRequest(f"placement {placement!r} has {total} queues, {queue_count} were asked for")
    return placed


def _known(name: str, brokers: Collection[str], placement: str) -> str:
    if name not in brokers:
        there = ", ".join(sorted(brokers)[:20])
        raise InvalidRequest(f"placement {placement!r} names broker {name!r}; there are {there}")
    return name
