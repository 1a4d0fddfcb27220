"""What happens to a message whose handler raised: again later, or to the dead letters; what is told of the error."""

from __future__ import annotations

import traceback

from litemq.client.consumer_requests import SendBack
from litemq.client.values import Reject, Retry
from litemq.features.dead_letter import MAX_ERROR, MAX_STACK, head, head_and_tail
from litemq.features.delay_levels import MAX_LEVEL, delay_ms

_DEAD = -1


def after_error(error: BaseException, max_attempts: int | None) -> SendBack:
    """Return how a message is given back whose handler raised."""
    most = None if max_attempts is None else max_attempts - 1
    text, stack = told(error)
    if isinstance(error, Reject):
        return SendBack(_DEAD, None, most, text, stack)
    if isinstance(error, Retry) and error.delay is not None:
        wanted = max(int(error.delay * 1000), 1)
        return SendBack(level_for(wanted), wanted, most, text, stack)
    return SendBack(0, None, most, text, stack)


def give_up(error: BaseException) -> SendBack:
    """Return how a message becomes a dead letter here and now: a rejected one, or one whose attempts are used up."""
    text, stack = told(error)
    return SendBack(_DEAD if isinstance(error, Reject) else 0, None, 0, text, stack)


def level_for(wanted_ms: int) -> int:
    """Return the lowest delay level that waits long enough; the highest where none does.

    >>> level_for(1), level_for(1000), level_for(1001), level_for(10**9)
    (1, 1, 2, 18)
    """
    return next((level for level in range(1, MAX_LEVEL) if delay_ms(level) >= wanted_ms), MAX_LEVEL)


def told(error: BaseException) -> tuple[str, str]:
    """Return an error's text and its stack, as the broker stores them with a dead letter."""
    said = _text_of(error)
    text = said if isinstance(error, Reject) else f"{type(error).__name__}: {said}".removesuffix(": ")
    stack = "".join(traceback.format_exception(error))
    return head(text, MAX_ERROR), head_and_tail(stack, MAX_STACK)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as failed:  # noqa: BLE001 - its message must be given back all the same
        return f"(its text cannot be had: {type(failed).__name__})"
