"""The runs of the near future in memory, over an ordered index of all of them that is elsewhere.

Sans-IO.  Memory holds every entry whose key, (due time, job id), is at or below a bound, and none above: what is due is
never missed because it was not loaded.  ``wanted`` says when to load more (an hour's runs, ten minutes ahead), as an
instruction that the caller carries out and answers.  When memory is full, the bound comes nearer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

LEAD_MS: Final = 600_000
WINDOW_MS: Final = 3_600_000
DEFAULT_LIMIT: Final = 250_000
_SLACK: Final = 1_024

Key = tuple[int, str]


class Entry(NamedTuple):
    """The next run of a job; entries are in the order of their keys."""

    due_ms: int
    job_id: str
    fire_ms: int

    @property
    def key(self) -> Key:
        """Return what an index is ordered by."""
        return self.due_ms, self.job_id


@dataclass(frozen=True, slots=True)
class Load:
    """Read entries with keys above ``after`` that are due before ``until_ms``: the first ``most``, in order."""

    after: Key
    until_ms: int
    most: int


class NearRuns:
    """What is due soon.

    Whoever changes the index says so here (``put``, ``remove``); taken entries are gone from here until they are put
    again, and stay in the index until their runs are published.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 2:
            raise ValueError(f"memory must have room for 2 entries, not {limit}")
        self._limit = limit
        self._bound: Key = (-1, "")
        self._runs: dict[str, Entry] = {}
        self._heap: list[Entry] = []
        """All of ``_runs``, and some that were replaced or removed."""
        self._loading: Load | None = None
        self._changed: dict[str, Entry | None] = {}
        """By job, what was put above the bound, or removed, while entries were being loaded."""

    def __len__(self) -> int:
        return len(self._runs)

    def put(self, entry: Entry) -> None:
        """Note the next run of a job, in place of the one before."""
        self._runs.pop(entry.job_id, None)
        if self._loading is not None:
            self._changed[entry.job_id] = entry
        if entry.key <= self._bound:
            self._add(entry)
            if len(self._runs) > self._limit:
                self._shrink()

    def remove(self, job_id: str) -> None:
        """Note that a job has no next run."""
        self._runs.pop(job_id, None)
        if self._loading is not None:
            self._changed[job_id] = None

    def take(self, now_ms: int, most: int) -> list[Entry]:
        """Take out what is due, in order, at most ``most``: a burst is handed out in slices."""
        found: list[Entry] = []
        while len(found) < most and (first := self._first()) is not None and first.due_ms <= now_ms:
            heappop(self._heap)
            del self._runs[first.job_id]
            if self._loading is not None:  # what is being read may still have it
                self._changed[first.job_id] = None
            found.append(first)
        return found

    def wanted(self, now_ms: int) -> Load | None:
        """Return what to load now; None while nothing is wanted, or the last one was not answered."""
        if self._loading is not None or self._bound[0] > now_ms + LEAD_MS or not self._has_room():
            return None
        self._changed = {}
        self._loading = Load(self._bound, now_ms + LEAD_MS + WINDOW_MS, self._limit - len(self._runs))
        return self._loading

    def loaded(self, load: Load, entries: Sequence[Entry]) -> None:
        """Take in what was read for the last ``wanted``; an empty answer means that there is nothing."""
        if load is not self._loading:
            raise ValueError(f"{load} was not asked for, or was answered already")
        self._loading = None
        if self._bound < load.after:  # memory ran full meanwhile: what was read does not follow it any more
            return
        self._bound = entries[-1].key if len(entries) >= load.most else max(self._bound, (load.until_ms, ""))
        for entry in entries:
            if entry.job_id not in self._changed:
                self._add(entry)
        for changed in self._changed.values():
            if changed is not None and changed.key <= self._bound and changed.job_id not in self._runs:
                self._add(changed)
        self._changed = {}
        if len(self._runs) > self._limit:
            self._shrink()

    def failed(self, load: Load) -> None:
        """Note that a ``wanted`` cannot be answered: it will be wanted again."""
        if load is self._loading:
            self._loading = None

    def wake_ms(self) -> int | None:
        """Return when to ask next: the first entry is due, or more is to be loaded; None: when that is answered."""
        first = self._first()
        load_ms = self._bound[0] - LEAD_MS if self._loading is None and self._has_room() else None
        times = [time for time in (load_ms, first.due_ms if first is not None else None) if time is not None]
        return min(times, default=None)

    def _has_room(self) -> bool:
        return len(self._runs) * 2 <= self._limit

    def _first(self) -> Entry | None:
        """Return the first entry, and drop what is stale before it."""
        while self._heap and self._runs.get(self._heap[0].job_id) is not self._heap[0]:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _add(self, entry: Entry) -> None:
        self._runs[entry.job_id] = entry
        heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._runs) + _SLACK:
            self._heap = list(self._runs.values())
            heapify(self._heap)

    def _shrink(self) -> None:
        """Forget the later part; it is in the index."""
        kept = sorted(self._runs.values())[: max(self._limit * 3 // 4, 1)]
        self._bound = kept[-1].key
        self._runs = {entry.job_id: entry for entry in kept}
        self._heap = kept
