"""Hooks over calls that change something: count them, or end everything at one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from tests.support.forgetful_fs import PowerCut
from tests.support.hooked_fs import SYNCS, Call, Site

Moment = Literal["before", "half", "after"]
"""Where in a call it ends: not begun, half of a write's bytes written, done but not answered."""

MOMENTS: tuple[Moment, ...] = ("before", "half", "after")


class CallLog:
    """Remembers where each mutating call came from."""

    def __init__(self) -> None:
        self.sites: list[Site] = []

    def before(self, call: Call) -> bool:
        if call.is_mutating:
            self.sites.append(call.site())
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""


class EndAt:
    """Calls ``end`` at the ``number``-th mutating call (from 0) since it was armed; negative: never.

    Calls of all threads count; ``end`` runs in the thread whose call it is.
    """

    def __init__(self, number: int, moment: Moment, end: Callable[[], None]) -> None:
        self._end = end
        self._counting = threading.Lock()
        self.arm(number, moment)

    def arm(self, number: int, moment: Moment) -> None:
        """Count anew from here."""
        with self._counting:
            self._left = number if number >= 0 else 1 << 62
            self._moment = moment
            self._last: Call | None = None

    def before(self, call: Call) -> bool:
        if not call.is_mutating:
            return True
        with self._counting:
            self._left -= 1
            if self._left == -1:
                self._last = call
        if self._last is call and self._moment != "after":
            if self._moment == "half" and call.kind == "write":
                call.write_part(len(call.data) // 2)
            self._end()
        return True

    def after(self, call: Call) -> None:
        if self._last is call and self._moment == "after":
            self._end()


def power_off() -> None:
    """End for ``EndAt``: the machine is off."""
    raise PowerCut


class LeaveOut:
    """Leaves out every call that a line of the store makes; of ``make_dirs``, only that it syncs."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.left_out = 0

    def before(self, call: Call) -> bool:
        if call.kind == self.site.kind and call.site() == self.site:
            self.left_out += 1
            if call.kind == "make_dirs":
                call.fs.make_dirs(call.path, sync=False)
            return False
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""


class NoSync:
    """Leaves out every sync: a dead process loses nothing that it wrote, and a disk takes its time."""

    def before(self, call: Call) -> bool:
        if call.kind == "make_dirs":
            call.fs.make_dirs(call.path, sync=False)
            return False
        return call.kind not in SYNCS

    def after(self, call: Call) -> None:
        """Nothing to do."""
