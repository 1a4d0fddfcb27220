"""Stores that leave out one sync or one zeroing: find the places, and a run that notices."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from functools import partial

from tests.crash.campaign import failure
from tests.crash.lives import run
from tests.crash.workload import Plan, Style, make_plan
from tests.support.hooked_fs import Call, HookedFileSystem, Kind, Site
from tests.support.power_switch import LeaveOut

SAFEGUARDS: frozenset[Kind] = frozenset({"sync", "sync_dir", "sync_all", "zero", "truncate"})
"""Calls that exist only so that a crash does no harm; ``make_dirs`` counts as one where it syncs."""

_STYLES: tuple[Style, ...] = ("mixed", "deletions", "ghosts", "aligned")

_HINTS: dict[tuple[str, str, Kind], Style] = {
    ("recovery", "Recovery._cut", "sync"): "aligned",
    ("segments", "Segments.drop_after", "sync_dir"): "ghosts",
    ("snapshot", "write", "sync_dir"): "deletions",
    ("segments", "Segments.sync_names", "sync_dir"): "retention",
    ("consume_queue", "ConsumeQueues._clear_rest", "zero"): "mixed",
}
"""Where to look first."""


class _Finder:
    """Hook that remembers every place of a safeguard."""

    def __init__(self) -> None:
        self.sites: set[Site] = set()

    def before(self, call: Call) -> bool:
        if call.kind in SAFEGUARDS or (call.kind == "make_dirs" and call.position):
            self.sites.add(call.site())
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""


def find_sites(runs: int) -> list[Site]:
    """Return every line of the store that makes a safeguarding call in so many runs."""
    finder = _Finder()
    for plan in itertools.islice(_plans(), runs):
        run(plan, lambda fs: HookedFileSystem(fs, finder))
    return sorted(finder.sites)


def catch(site: Site, runs: int) -> str | None:
    """Return what goes wrong without the calls of ``site``; None when so many runs notice nothing."""
    logging.disable(logging.CRITICAL)
    hint = _HINTS.get((site.module, site.function, site.kind))
    for plan in itertools.islice(_plans(_STYLES if hint is None else (hint,)), runs):
        error = failure(plan, partial(run, wrap=lambda fs: HookedFileSystem(fs, LeaveOut(site))))
        if error is not None:
            return f"seed {plan.seed}: {error}"
    return None


def _plans(styles: tuple[Style, ...] = _STYLES) -> Iterator[Plan]:
    for seed, style in enumerate(itertools.cycle(styles)):
        yield make_plan(seed, fmt="litemq", style=style)
