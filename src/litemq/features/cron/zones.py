"""Time zones as spans of time with one offset from UTC, from the standard library's ``zoneinfo``.

Spans are looked for in blocks of 388 days, the first time that somebody asks; after that a zone is integers only.
No zone has changed its offset twice within six days since 1970: looking at every other day finds all changes, and
halving finds the second.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from datetime import datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple
from zoneinfo import TZPATH, ZoneInfo, ZoneInfoNotFoundError, available_timezones

from litemq.errors import UnknownZone

UTC: Final = "UTC"
SHIFT_S: Final = 2 * 86_400
"""More than the clocks of a zone were ever moved at once: Samoa left out a day."""

_BLOCK_BITS: Final = 25
_STEP_S: Final = 2 * 86_400
_MARGIN_S: Final = 2 * SHIFT_S
_FOREVER: Final = 1 << 62
_KNOWN_AS_UTC: Final = frozenset({UTC, "Etc/UTC", "Etc/GMT", "GMT", "Etc/Universal", "Etc/Zulu", "Zulu", "Universal"})
_NOT_ZONES: Final = ("posix/", "right/", "posixrules", "localtime", "Factory", "leapseconds")
"""Files beside those of zones; ``right/`` would count leap seconds."""
_NEAR: Final = 3


class Span(NamedTuple):
    """Seconds since 1970 in UTC, from ``start`` until before ``end``, in which the offset stays."""

    start: int
    end: int
    offset: int
    seen: int
    """Local times below this one have been before the span: it is later than its own start after clocks went back."""


class Zone:
    """The offsets of one zone."""

    __slots__ = ("_blocks", "_info", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._info = _info(name)
        self._blocks: dict[int, tuple[list[int], list[Span]]] = {}

    def span(self, at: int) -> Span:
        """Return the span that holds a second since 1970 in UTC; at most a block of it."""
        if self._info is None:
            return _UTC_SPAN
        block = self._blocks.get(at >> _BLOCK_BITS)
        if block is None:
            block = self._blocks[at >> _BLOCK_BITS] = self._block(at >> _BLOCK_BITS)
        starts, spans = block
        return spans[bisect_right(starts, at) - 1]

    def _block(self, number: int) -> tuple[list[int], list[Span]]:
        # The margin shows clocks that went back shortly before the block.
        start, block_end = (number << _BLOCK_BITS) - _MARGIN_S, number + 1 << _BLOCK_BITS
        spans: list[Span] = []
        offset, seen, at = self._offset(start), -_FOREVER, start
        while at < block_end:
            after = min(at + _STEP_S, block_end)
            if self._offset(after) != offset:
                change = self._change(at, after, offset)
                if change < block_end:
                    spans.append(Span(start, change, offset, seen))
                    start, seen = change, max(seen, change + offset)
                    offset = self._offset(change)
            at = after
        spans.append(Span(start, block_end, offset, seen))
        return [span.start for span in spans], spans

    def _change(self, low: int, high: int, offset: int) -> int:
        """Return the first second with another offset: not ``low``, at most ``high``."""
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._offset(middle) == offset else (low, middle)
        return high

    def _offset(self, at: int) -> int:
        offset = datetime.fromtimestamp(at, self._info).utcoffset()
        return int(offset.total_seconds()) if offset is not None else 0


_UTC_SPAN: Final = Span(-_FOREVER, _FOREVER, 0, -_FOREVER)


@cache  # there are 600 zones, and errors are not cached
def zone(name: str) -> Zone:
    """Return a zone by its IANA name.

    Raises:
        UnknownZone: there is none; names some that are like it.
    """
    return Zone(name)


def _info(name: str) -> ZoneInfo | None:
    """Return the zone of the standard library; None for UTC, which every machine knows."""
    if name in _KNOWN_AS_UTC:
        return None
    if not name or name.startswith(_NOT_ZONES):
        raise UnknownZone(name, near(name))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder, a path that leads elsewhere, too long a name
        raise UnknownZone(name, near(name)) from None


def near(name: str) -> list[str]:
    """Return names of zones that may have been meant: the city alone, other case, slips of the pen."""
    names = sorted(available_timezones() - set(_NOT_ZONES))
    wanted = name.casefold().replace(" ", "_")
    if not wanted or len(wanted) > 64:
        return []
    folded = {known.casefold(): known for known in names}
    city = wanted.rpartition("/")[2]
    same = [known for fold, known in folded.items() if fold == wanted or fold.rpartition("/")[2] == city]
    if same:
        return same[:_NEAR]
    close = difflib.get_close_matches(wanted, folded, _NEAR, cutoff=0.7)
    if not close:
        cities = {fold.rpartition("/")[2]: fold for fold in folded}
        close = [cities[city] for city in difflib.get_close_matches(city, cities, _NEAR, cutoff=0.75)]
    return [folded[fold] for fold in close]


@cache
def data_version() -> str:
    """Return the version of the zones' rules on this machine, as ``2026b``; empty when nothing tells.

    Where it differs from that of stored next runs, these are to be computed anew.
    """
    for folder in TZPATH:
        if not Path(folder, "Europe").exists():
            continue
        try:
            head = Path(folder, "tzdata.zi").read_text("ascii", "replace").partition("\n")[0]
        except OSError:
            return ""
        return head.removeprefix("# version ").strip() if head.startswith("# version ") else ""
    try:
        year, _, release = version("tzdata").partition(".")
    except PackageNotFoundError:
        return ""
    return f"{year}{chr(ord('a') + int(release) - 1)}" if release.isdecimal() and 1 <= int(release) <= 26 else year
