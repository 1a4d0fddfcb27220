"""Pauses of the event loop, and what each was spent on.

A timer of the loop ticks every 10 ms.  A tick that is late tells of a pause: of at least that lateness, at most 10 ms
more, and the longer is told.  Work that is known to take long is marked (``during``); garbage collection tells of
itself.  What the operating system gave to others while the loop's thread could have run is measured, too, so that a
busy machine is not taken for a slow broker.

A loop that idles is woken every 50 ms only, to leave the CPU to others: what blocks it for less than that, is not
marked and happens between two ticks goes unseen then.

The core (``note``) takes measured times and has no clock; the loop and ``Meter`` are its shell.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

GARBAGE: Final = "garbage collection"
MACHINE: Final = "machine"
"""The operating system, or the host of a virtual machine, ran somebody else."""
THREADS: Final = "threads"
"""Another thread of this process held the interpreter."""
OTHER: Final = "other"

_MS: Final = 1_000_000
_BUSY_NS: Final = 10 * _MS
"""Time between two ticks."""
_IDLE_NS: Final = 50 * _MS
"""… of a loop that has nothing to do."""
_IDLE_SHARE: Final = 0.03
"""A loop that uses less of a CPU idles; the ticks themselves take one hundredth."""
_IDLE_TICKS: Final = 10
"""… for so many ticks."""
_LIMIT_MS: Final = 20.0
_TOLD_MS: Final = 100.0
"""A longer pause is a line of the log."""
_KEPT: Final = 100
_STEAL_EVERY: Final = 100
"""Ticks between two looks at what the host took: the file is long."""


class Sample(NamedTuple):
    """Times in nanoseconds, each from a start of its own."""

    wall: int
    thread_cpu: int
    """CPU time of the loop's thread."""
    process_cpu: int
    not_run: int
    """Time that the thread could have run but was not given a CPU; 0 where nobody counts it."""


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause of the loop."""

    at_ms: int
    """Wall clock at its end."""
    took_ms: float
    cause: str
    cpu_ms: float
    """CPU time that the loop's thread got meanwhile."""
    threads_ms: float
    """… and the other threads of the process."""
    not_run_ms: float
    """Time that the thread waited for a CPU."""
    stolen_ms: float
    """Time that the host took from the machine, in about the last second."""
    marked_ms: Mapping[str, float]
    """Time spent on each marked cause."""

    @property
    def is_own(self) -> bool:
        """Return whether the broker is to blame."""
        return self.cause != MACHINE


class Pauses:
    """Watches one loop.  Everything is called on it, but garbage collection may come from any thread."""

    def __init__(self, meter: Callable[[], Sample] | None = None, stolen: Callable[[], int] | None = None) -> None:
        self._meter = meter or Meter().read
        self._stolen = stolen or stolen_ns
        self._marked: Counter[str] = Counter()
        self._garbage_ns = 0
        self._garbage_since = 0
        self._before: Sample | None = None
        self._stolen_before = 0
        self._ticks = 0
        self._idle_ticks = 0
        self.interval_ns = _BUSY_NS
        """Time to the next tick."""
        self._timer: asyncio.TimerHandle | None = None
        self.last: deque[Pause] = deque(maxlen=_KEPT)
        """The newest pauses."""
        self.count: Counter[str] = Counter()
        self.total_ms: Counter[str] = Counter()
        self.longest_ms: dict[str, float] = {}

    # -- marks -----------------------------------------------------------------------------------

    @contextmanager
    def during(self, cause: str) -> Iterator[None]:
        """Mark what the loop's thread does; within another mark only the inner one counts."""
        started, inner = time.monotonic_ns(), self._marked.total() + self._garbage_ns
        try:
            yield
        finally:
            inside = self._marked.total() + self._garbage_ns - inner
            self._marked[cause] += max(0, time.monotonic_ns() - started - inside)

    def on_garbage(self, phase: str, _info: Mapping[str, int]) -> None:
        """Count the time of garbage collection; one of ``gc.callbacks``."""
        if phase == "start":
            self._garbage_since = time.monotonic_ns()
        elif self._garbage_since:
            self._garbage_ns += time.monotonic_ns() - self._garbage_since
            self._garbage_since = 0

    # -- watching --------------------------------------------------------------------------------

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._before = self._meter()
        self._stolen_before = self._stolen()
        gc.callbacks.append(self.on_garbage)
        self._wind()

    def stop(self) -> None:
        """Watch no more; what was seen stays."""
        with suppress(ValueError):
            gc.callbacks.remove(self.on_garbage)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for cause, count in self.count.most_common():
            logger.info("loop pauses: cause=%s count=%d longest_ms=%.0f", cause, count, self.longest_ms[cause])

    def _wind(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.interval_ns / 1e9, self._tick)

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % _STEAL_EVERY == 0:
            self._stolen_before = self._stolen()
        self.note(self._meter())
        self._wind()

    def note(self, now: Sample) -> None:
        """Take in the measured times of a tick, and choose when the next one is."""
        before, self._before = self._before, now
        if before is None:
            return
        marked = self._take_marks() if self._marked or self._garbage_ns else {}
        took = max(now.wall - before.wall - self.interval_ns + _BUSY_NS, max(marked.values(), default=0))
        if took > _LIMIT_MS * _MS:
            stolen = self._stolen()
            self._add(_judge(took, before, now, marked, stolen - self._stolen_before))
            self._stolen_before = stolen
        is_idle = now.thread_cpu - before.thread_cpu < (now.wall - before.wall) * _IDLE_SHARE
        self._idle_ticks = self._idle_ticks + 1 if is_idle else 0
        self.interval_ns = _IDLE_NS if self._idle_ticks >= _IDLE_TICKS else _BUSY_NS

    def _take_marks(self) -> dict[str, int]:
        marked = {**self._marked, GARBAGE: self._garbage_ns} if self._garbage_ns else dict(self._marked)
        self._marked.clear()
        self._garbage_ns = 0
        return marked

    def _add(self, pause: Pause) -> None:
        self.last.append(pause)
        self.count[pause.cause] += 1
        self.total_ms[pause.cause] += round(pause.took_ms)
        self.longest_ms[pause.cause] = max(pause.took_ms, self.longest_ms.get(pause.cause, 0.0))
        if pause.took_ms >= _TOLD_MS:
            logger.warning(
                "loop paused: took_ms=%.0f cause=%s cpu_ms=%.0f threads_ms=%.0f not_run_ms=%.0f stolen_ms=%.0f",
                pause.took_ms,
                pause.cause,
                pause.cpu_ms,
                pause.threads_ms,
                pause.not_run_ms,
                pause.stolen_ms,
            )

    def report(self) -> dict[str, object]:
        """Return what was seen: by cause, and the newest pauses."""
        return {
            "limit_ms": _LIMIT_MS,
            "causes": {
                cause: {"count": count, "total_ms": self.total_ms[cause], "longest_ms": self.longest_ms[cause]}
                for cause, count in self.count.most_common()
            },
            "longest_own_ms": max((ms for cause, ms in self.longest_ms.items() if cause != MACHINE), default=0.0),
            "last": [asdict(pause) for pause in self.last],
        }


def _judge(took: int, before: Sample, now: Sample, marked: Mapping[str, int], stolen: int) -> Pause:
    """Name what took at least half of the time that the loop was late; the surest witness is heard first."""
    half = (took - _BUSY_NS) / 2
    not_run = now.not_run - before.not_run
    cpu = now.thread_cpu - before.thread_cpu
    threads = max(0, now.process_cpu - before.process_cpu - cpu)
    cause = OTHER
    if not_run >= half:
        cause = MACHINE
    elif marked and max(marked.values()) >= half:
        cause = max(marked, key=lambda name: marked[name])
    elif cpu < half and threads >= half:
        cause = THREADS
    elif cpu < half and not_run + stolen >= half:
        cause = MACHINE
    return Pause(
        at_ms=time.time_ns() // _MS,
        took_ms=round(took / _MS, 1),
        cause=cause,
        cpu_ms=round(cpu / _MS, 1),
        threads_ms=round(threads / _MS, 1),
        not_run_ms=round(not_run / _MS, 1),
        stolen_ms=round(stolen / _MS, 1),
        marked_ms={name: round(ns / _MS, 1) for name, ns in marked.items()},
    )


class Meter:
    """Reads the times of the thread that makes it; on Linux also how long it waited for a CPU."""

    def __init__(self) -> None:
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def read(self) -> Sample:
        """Return the times as of now."""
        return Sample(time.monotonic_ns(), time.thread_time_ns(), time.process_time_ns(), self._not_run())

    def _not_run(self) -> int:
        if self._file is None:
            return 0
        try:
            return int(os.pread(self._file, 64, 0).split()[1])  # CPU time, time waited, number of slices
        except (OSError, IndexError, ValueError):
            return 0


def stolen_ns() -> int:
    """Return the time that the host of a virtual machine took from all its CPUs; 0 where nobody counts it."""
    try:
        with open("/proc/stat", "rb") as file:  # noqa: PTH123 - read every second: Path would double its cost
            return int(file.readline().split()[8]) * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    except (OSError, IndexError, ValueError):
        return 0
