"""What a piece of work costs: time, and CPU of all processes that take part."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.memory import touch_memory

Work = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Cost:
    """One run."""

    cpu_us: float
    """CPU microseconds a row: of this process, its JVM, Spark's Python workers, and brokers."""
    rate: float
    """Rows a second."""

    def to_json(self) -> dict[str, float]:
        """Return it as it is kept."""
        return asdict(self)


def family(*roots: int) -> set[int]:
    """Return processes and all that they started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = set(roots), list(roots)
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def cpu_s(*roots: int) -> float:
    """Return the CPU time of processes, of those that they started, and of those that these have waited for."""
    total = 0
    for pid in family(*roots):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(field) for field in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


class Watch:
    """CPU of processes that come and go, looked at a few times a second while a block runs.

    What an executor started does not count as the worker's own once the executor is gone, so every process is noted.
    """

    def __init__(self, *roots: int) -> None:
        self._roots = roots
        self._seen: dict[tuple[int, str], int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._note()
        self._before = sum(self._seen.values())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def add(self, pid: int) -> None:
        """Watch another process, too, which has just been started."""
        self._roots = (*self._roots, pid)

    @property
    def cpu_s(self) -> float:
        """Return the CPU time since the block began."""
        return (sum(self._seen.values()) - self._before) / os.sysconf("SC_CLK_TCK")

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            self._note()

    def _note(self) -> None:
        for pid in family(*self._roots):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self._seen[pid, fields[19]] = int(fields[11]) + int(fields[12])  # its start time tells it from a later one


def measure(work: Work, rows: int, *others: int) -> Cost:
    """Run something once; ``others`` are processes that work for it and were not started by it."""
    touch_memory()
    before, began = cpu_s(os.getpid(), *others), time.perf_counter()
    work()
    took = time.perf_counter() - began
    return Cost((cpu_s(os.getpid(), *others) - before) / rows * 1e6, rows / took)


def in_turns(one: Work, two: Work, rows: int, pairs: int, *others: int) -> tuple[list[Cost], list[Cost]]:
    """Run two kinds of work in turns, another one first each time; a pair before that warms up and does not count."""
    ones: list[Cost] = []
    twos: list[Cost] = []
    for number in range(pairs + 1):
        turns = [(one, ones), (two, twos)]
        for work, costs in reversed(turns) if number % 2 else turns:
            costs.append(measure(work, rows, *others))
    return ones[1:], twos[1:]


def rate(costs: list[Cost]) -> float:
    """Return the median of rows a second."""
    return statistics.median(cost.rate for cost in costs)


def cpu(costs: list[Cost]) -> float:
    """Return the median of CPU microseconds a row."""
    return statistics.median(cost.cpu_us for cost in costs)
