"""The bodies that every library sends: 128 bytes, 256 kinds in turn, so that a reader can be checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

SIZE = 128
_KINDS = [bytes([kind]) + b"." * (SIZE - 1) for kind in range(256)]


def bodies(count: int) -> Iterator[bytes]:
    """Yield that many bodies."""
    return itertools.islice(itertools.cycle(_KINDS), count)


def shares(count: int, size: int) -> Iterator[list[bytes]]:
    """Yield that many bodies in lists of ``size``."""
    every = bodies(count)
    while share := list(itertools.islice(every, size)):
        yield share


def checksum(count: int) -> int:
    """Return what a reader of that many bodies, sent in one go, must get by adding ``body[0] + len(body)`` of each."""
    rounds, rest = divmod(count, len(_KINDS))
    return count * SIZE + rounds * sum(range(len(_KINDS))) + sum(range(rest))
