"""Which queues a member of a consumer group reads: RocketMQ's ways, so that every member comes to the same result.

Queues and members are sorted first; a member that is not in the list gets nothing.
"""

from __future__ import annotations

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


STRATEGIES: Final[dict[str, Callable[[Sequence[object], Sequence[str], str], list[object]]]] = {
    "AVG": average,
    "AVG_BY_CIRCLE": circle,
}
"""By the names that clients use."""
