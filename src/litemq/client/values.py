"""What applications hand to the SDK and get from it, beside messages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from litemq.client._sends_cy import Sent

__all__ = ["Reject", "Retry", "Sent", "Sql", "Tags", "seconds"]


@dataclass(frozen=True, slots=True)
class Tags:
    """Messages with one of these tags: ``*`` for all, ``a || b`` for some.

    >>> Tags("paid || refunded")
    Tags(expression='paid || refunded')
    """

    expression: str = "*"


@dataclass(frozen=True, slots=True)
class Sql:
    """Messages whose properties satisfy an expression of RocketMQ's SQL92.

    >>> Sql("amount > 100 AND region = 'eu'").expression
    "amount > 100 AND region = 'eu'"
    """

    expression: str


class Reject(Exception):
    """Raised by a handler: this message goes to the dead letters now, with this reason.

    >>> raise Reject("unknown order")
    Traceback (most recent call last):
    litemq.client.values.Reject: unknown order
    """


class Retry(Exception):
    """Raised by a handler: deliver this message again, after ``delay`` seconds or more.

    >>> Retry(delay=30).delay
    30.0
    """

    def __init__(self, reason: str = "", *, delay: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.delay = None if delay is None else seconds(delay)


def seconds(time: float | timedelta) -> float:
    """Return a time span in seconds."""
    return time.total_seconds() if isinstance(time, timedelta) else float(time)
