"""Points in time on the command line: ms since the epoch, ISO 8601, or how long ago: ``30m``."""

from __future__ import annotations

import re
import time
from typing import Final

import click

from litemq.cli.time_range import parse_time

WHEN: Final = "ms since the epoch, ISO 8601 (UTC unless it says otherwise), or how long ago: 90s, 30m, 2h, 1d"
_AGO: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_when(text: str | None) -> int | None:
    """Return a point in time in ms; None for none.

    Raises:
        click.UsageError: the text is no time.
    """
    if text is None:
        return None
    found = _AGO.fullmatch(text.strip())
    if found is None:
        try:
            return parse_time(text)
        except click.UsageError as error:
            raise click.UsageError(f"{text!r} is no time; give {WHEN}") from error
    return time.time_ns() // 1_000_000 - int(found[1]) * _UNITS_MS[found[2]]
