"""``--time FROM..TO``: ms since the epoch or ISO 8601, either end may be empty."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

_MS: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_ISO_MS: Final = 1000


def parse_range(text: str) -> tuple[int | None, int | None]:
    """Return both ends in ms; None where an end is empty.

    Raises:
        click.UsageError: the text is no range, or ends before it begins.
    """
    start, dots, end = text.partition("..")
    if not dots:
        raise click.UsageError(
            f"--time {text!r} is no range; write FROM..TO, for example 2024-01-01..2024-01-31T12:00Z"
        )
    first, last = parse_time(start), parse_time(end)
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"--time {text!r} ends before it begins; write FROM..TO, the earlier time first")
    return first, last


def parse_time(text: str) -> int | None:
    """Return a time in ms, None for an empty text; ISO 8601 without an offset is UTC, as times are printed."""
    text = text.strip()
    if not text:
        return None
    if _MS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no time; give ms since the epoch or ISO 8601") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * _ISO_MS + elapsed.microseconds // 1000
