"""The load of ``litemq bench``: threads that send or consume until a number or a time is reached.

A worker counts on its own thread; a watcher adds up.  With a rate, messages are due at fixed times, and a latency
begins when its message was due, not when it was sent: a stall shows in every message that had to wait for it.
"""

from __future__ import annotations

import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final, Protocol

from litemq.cli.histogram import Histogram
from litemq.client._message_cy import Message
from litemq.client.producer import Producer
from litemq.client.values import Sent

_DUE: Final = struct.Struct(">Q")
"""Monotonic ns at which a message was due; at the beginning of each body."""
MIN_SIZE: Final = _DUE.size
IDLE_S: Final = 0.05
_LONGEST_S: Final = 3600.0
"""Older due times are another boot's, or another program's bytes."""


class Consuming(Protocol):
    """What of ``PullConsumer`` is needed here."""

    def poll(self, max_messages: int = ..., timeout: float = ...) -> list[Message]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be done."""

    topic: str
    count: int | None = None
    seconds: float | None = None
    size: int = 1024
    threads: int = 1
    in_flight: int = 1
    batch: int = 1
    rate: float | None = None
    """Messages a second of all threads together."""

    def without_end(self) -> Plan:
        """Return the same for somebody who is told when it is over."""
        return replace(self, count=None, seconds=None)


class Worker:
    """What one thread has done so far; read by the watcher while it works."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.latencies = Histogram()
        self.last_at = 0.0
        """When something was done last, in monotonic seconds."""

    def done(self, count: int, size: int, latency_s: float | None) -> None:
        """Count messages, of together ``size`` bytes, that took so long each; None: nobody knows."""
        self.count += count
        self.bytes += size
        self.last_at = time.monotonic()
        if latency_s is not None:
            self.latencies.add(latency_s, count)


class Load:
    """Runs workers on threads until they are done, somebody stops them, or one fails."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.workers: list[Worker] = []
        self.stopped = threading.Event()
        self.error: BaseException | None = None
        self.began = 0.0
        self.expected = 0
        """Messages that should be there at the end; 0: nobody said."""
        self._left = plan.count
        self._lock = threading.Lock()

    def run(self, work: Sequence[Callable[[Worker], None]], watch: Callable[[], None], every_s: float = 1.0) -> None:
        """Run each on a thread of its own, and ``watch`` every second; Ctrl-C ends all and is raised.

        Raises:
            Exception: of the first that failed.
        """
        self.workers = [Worker() for _ in work]
        threads = [
            threading.Thread(target=self._run_one, args=(one, worker), name=f"bench-{number}", daemon=True)
            for number, (one, worker) in enumerate(zip(work, self.workers, strict=True))
        ]
        self.began = time.monotonic()
        end = None if self.plan.seconds is None else self.began + self.plan.seconds
        try:
            for thread in threads:
                thread.start()
            self._wait(threads, watch, every_s, end)
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()
        if self.error is not None:
            raise self.error

    def _wait(
        self, threads: Sequence[threading.Thread], watch: Callable[[], None], every_s: float, end: float | None
    ) -> None:
        shown = self.began + every_s
        while any(thread.is_alive() for thread in threads):
            now = time.monotonic()
            if end is not None and now >= end:
                return
            if now >= shown:
                watch()
                shown += every_s
            until = shown if end is None else min(shown, end)
            alive = next((thread for thread in threads if thread.is_alive()), None)
            if alive is not None:
                alive.join(max(until - now, 0.0))

    def _run_one(self, work: Callable[[Worker], None], worker: Worker) -> None:
        try:
            work(worker)
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that asked
            self.fail(error)

    def take(self, count: int) -> int:
        """Return how many of ``count`` messages are still to be sent; 0 at the end."""
        if self.stopped.is_set():
            return 0
        if self._left is None:
            return count
        with self._lock:
            taken = min(count, self._left)
            self._left -= taken
            return taken

    def turns(self) -> Iterator[tuple[int, float]]:
        """Yield (how many messages, when they were due in monotonic seconds) for one thread."""
        plan = self.plan
        gap = 0.0 if plan.rate is None else plan.batch * plan.threads / plan.rate
        due = time.monotonic()
        while True:
            now = time.monotonic()
            if gap:
                if due > now and self.stopped.wait(due - now):
                    return
            else:
                due = now
            count = self.take(plan.batch)
            if not count:
                return
            yield count, due
            due += gap

    def fail(self, error: BaseException) -> None:
        """End it; the first error is raised by ``run``."""
        if self.error is None:
            self.error = error
        self.stopped.set()

    @property
    def is_short(self) -> bool:
        """Whether messages are missing at the end."""
        return self.total < self.expected

    @property
    def took(self) -> float:
        """Seconds from the beginning to the last message."""
        return max((worker.last_at for worker in self.workers), default=0.0) - self.began if self.total else 0.0

    @property
    def total(self) -> int:
        """Messages of all workers."""
        return sum(worker.count for worker in self.workers)

    @property
    def total_bytes(self) -> int:
        """Bytes of all bodies."""
        return sum(worker.bytes for worker in self.workers)

    def latencies(self) -> Histogram:
        """Return the latencies of all workers."""
        found = Histogram()
        for worker in self.workers:
            found.merge(worker.latencies)
        return found


def sending(load: Load, producer: Producer) -> Callable[[Worker], None]:
    """Return the work of a thread that sends: one at a time, in batches, or with several under way."""
    plan = load.plan

    def message(due: float) -> Message:
        return Message(plan.topic, body_of(due, plan.size))

    def one_by_one(worker: Worker) -> None:
        for count, due in load.turns():
            if plan.batch > 1:
                producer.send_batch([message(due) for _ in range(count)])
            else:
                producer.send(message(due))
            worker.done(count, count * plan.size, time.monotonic() - due)

    def pipelined(worker: Worker) -> None:
        waiting: deque[_UnderWay] = deque()

        def settle(most: int) -> None:
            while len(waiting) > most or (waiting and waiting[0].future.done()):
                one = waiting.popleft()
                one.future.result()
                worker.done(1, plan.size, (one.ended or time.monotonic()) - one.due)

        for _, due in load.turns():
            waiting.append(_UnderWay(producer.send_async(message(due)), due))
            settle(plan.in_flight - 1)
        settle(0)

    return one_by_one if plan.in_flight == 1 else pipelined


class _UnderWay:
    """A message that is being sent; it notes when it was answered, not when somebody looked."""

    __slots__ = ("due", "ended", "future")

    def __init__(self, future: Future[Sent], due: float) -> None:
        self.future = future
        self.due = due
        self.ended = 0.0
        future.add_done_callback(self._note)

    def _note(self, _future: Future[Sent]) -> None:
        self.ended = time.monotonic()


def consuming(
    load: Load, consumer: Consuming, *, most: int, knows_due: bool, is_over: Callable[[int, float], bool]
) -> Callable[[Worker], None]:
    """Return the work of a thread that consumes and touches every body.

    Args:
        load: what it is part of.
        consumer: polls.
        most: messages of one poll.
        knows_due: the bodies say when they were due: latencies are theirs.
        is_over: asked with how many came, and for how many seconds none did.
    """

    def work(worker: Worker) -> None:
        last = time.monotonic()
        while not load.stopped.is_set():
            left = most if load.plan.count is None else min(most, load.plan.count - worker.count)
            found = consumer.poll(max_messages=left, timeout=IDLE_S)
            now = time.monotonic()
            for message in found:
                body = message.body
                due = due_of(body, now) if knows_due else None
                worker.done(1, len(body), None if due is None else now - due)
            if found:
                last = now
            if is_over(worker.count, now - last):
                return

    return work


def body_of(due: float, size: int) -> bytes:
    """Return a body of a size that says when it was due."""
    return _DUE.pack(int(due * 1e9)) + bytes(max(size - MIN_SIZE, 0))


def due_of(body: bytes, now: float) -> float | None:
    """Return when a message was due, on this machine's monotonic clock; None when it is none of this run."""
    if len(body) < MIN_SIZE:
        return None
    due: float = _DUE.unpack_from(body)[0] / 1e9
    return due if now - _LONGEST_S < due <= now else None
