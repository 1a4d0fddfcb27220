"""Which queues a member of a consumer group reads: RocketMQ's ways, so that every member comes to the same result.

Queues and members are sorted first; a member that is not in the list gets nothing.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

Q = TypeVar("Q")


def average(queues: Sequence[Q], members: Sequence[str], member: str) -> list[Q]:
    """Return neighbours: as many queues for each member, the first ones get one more."""
    if member not in members:
        return []
    index, count, rest = members.index(member), len(members), len(queues) % len(members)
    size = 1 if len(queues) <= count else len(queues) // count + (1 if index < rest else 0)
    start = index * size if index < rest else index * size + rest
    return list(queues[start : start + size])


def circle(queues: Sequence[Q], members: Sequence[str], member: str) -> list[Q]:
    """Return every n-th queue, dealt like cards."""
    if member not in members:
        return []
    return list(queues[members.index(member) :: len(members)])


VIRTUAL_NODES: Final = 10
"""Places of each member on the ring; as many as RocketMQ's."""


def consistent_hash(
    queues: Sequence[Q], members: Sequence[str], member: str, *, key: Callable[[Q], str] = str
) -> list[Q]:
    """Return the queues whose place on a ring of hashes is followed by one of the member's places.

    Who joins takes queues from others, who leaves hands its own out; all other queues stay where they are.

    Args:
        key: the text of a queue whose hash is its place.
    """
    if member not in members:
        return []
    ring = sorted((_place(f"{each}-{number}"), each) for each in members for number in range(VIRTUAL_NODES))
    places = [place for place, _ in ring]
    return [queue for queue in queues if ring[bisect_left(places, _place(key(queue))) % len(ring)][1] == member]


def _place(text: str) -> int:
    """Return a place on the ring: 32 bits of MD5, which here only spreads."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def same_room(
    queues: Sequence[Q],
    members: Sequence[str],
    member: str,
    *,
    room_of_queue: Callable[[Q], str],
    room_of_member: Callable[[str], str],
) -> list[Q]:
    """Return queues whose broker is in the member's own room, and a share of those in rooms without members."""
    room = room_of_member(member)
    inhabited = {room_of_member(each) for each in members}
    near = [queue for queue in queues if room_of_queue(queue) == room]
    far = [queue for queue in queues if room_of_queue(queue) not in inhabited]
    neighbours = [each for each in members if room_of_member(each) == room]
    return [*average(near, neighbours, member), *average(far, members, member)]


STRATEGIES: Final[dict[str, Callable[[Sequence[object], Sequence[str], str], list[object]]]] = {
    "AVG": average,
    "AVG_BY_CIRCLE": circle,
}
"""By the names that clients use."""
