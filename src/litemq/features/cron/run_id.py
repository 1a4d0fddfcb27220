"""What a run gets from its job's id and its scheduled time alone: a message id and its part of the jitter.

So a run that is planned again after a crash is the same message, and duplicates are refused.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b

from litemq.format.message_id import unique_id


def message_id(job_id: str, fire_ms: int) -> str:
    """Return the message id of a run: 32 digits, with the time where RocketMQ's tools look for it.

    The other 96 bits are a hash, so ids of different runs differ.
    """
    digest = _digest(b"id", job_id, fire_ms)
    at = datetime.fromtimestamp(fire_ms / 1000, UTC)
    month = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return unique_id(
        digest[:4],
        process_id=int.from_bytes(digest[4:6]),
        loader_hash=int.from_bytes(digest[6:10]),
        month_ms=fire_ms - int(month.timestamp()) * 1000,
        counter=int.from_bytes(digest[10:12]),
    )


def jitter(job_id: str, fire_ms: int, most_ms: int) -> int:
    """Return how long a run waits: 0 to ``most_ms``, evenly spread over jobs and times."""
    return int.from_bytes(_digest(b"jitter", job_id, fire_ms)) % (most_ms + 1) if most_ms else 0


def _digest(purpose: bytes, job_id: str, fire_ms: int) -> bytes:
    return blake2b(b"%d %s" % (fire_ms, job_id.encode()), digest_size=12, person=purpose).digest()
