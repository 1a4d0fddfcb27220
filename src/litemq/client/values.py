"""What applications hand to the SDK and get from it, beside messages."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from litemq.client._sends_cy import Sent
from litemq.errors import InvalidRequest

__all__ = ["Reject", "Retry", "Sent", "Sql", "Tags", "check_count", "seconds"]

_LONGEST_S: Final = threading.TIMEOUT_MAX
"""Nothing waits longer, whatever is asked for: infinity is this."""


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
    """Return a time span in seconds.

    Raises:
        InvalidRequest: it is none.
    """
    try:
        found = time.total_seconds() if isinstance(time, timedelta) else float(time)
    except (TypeError, ValueError):
        found = math.nan
    if math.isnan(found):
        raise InvalidRequest(f"a time must be seconds, as a number, or a timedelta, not {time!r}")
    return max(-_LONGEST_S, min(found, _LONGEST_S))


def check_count(what: str, count: int) -> None:
    """Refuse what is no number from 1 on.

    Raises:
        InvalidRequest: names it.
    """
    given: object = count
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InvalidRequest(f"{what} must be a whole number from 1 on, not {count!r}")
