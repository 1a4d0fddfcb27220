"""The messages that benchmarks send: bodies of 128 bytes or given ones, an id, one key and one tag, several queues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from litemq.types import Message

BODY = bytes(range(128))
BORN_HOST = "127.0.0.1:50000"


def make(
    first: int, count: int, *, topics: int = 1, queues: int = 8, bodies: Sequence[bytes] | None = None
) -> list[Message]:
    """Return messages ``first`` to ``first + count``; number n goes to topic n % topics."""
    given = repeat(BODY) if bodies is None else bodies
    return [
        Message(
            f"bench-{n % topics}",
            body,
            queue_id=n // topics % queues,
            message_id=f"7F000001C35000000000{n:012X}",
            keys=(f"order-{n}",),
            tags=("paid",),
            born_time=1_700_000_000_000 + n,
            born_host=BORN_HOST,
        )
        for n, body in zip(range(first, first + count), given, strict=False)
    ]
