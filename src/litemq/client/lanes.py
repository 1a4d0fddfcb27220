"""Messages that wait to be sent, and how those of one topic become requests, one after the other.

While a request is under way, what is accepted meanwhile waits and becomes the next one: one message at a time when
there are few, large batches when there are many.  ``linger`` adds waiting on purpose.  One request of a topic is
under way at a time, so messages of one queue stay in order whatever has to be tried again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from litemq.client._sends_cy import Outgoing
from litemq.client.running import run
from litemq.client.sending import MAX_BATCH, SendCore, split_batches
from litemq.errors import InvalidRequest, LiteMQError

T = TypeVar("T")

_IDLE_S = 5.0
"""A thread without work for so long ends; the next message starts another one."""


class Pending:
    """A message that was accepted, and the future that tells what becomes of it."""

    __slots__ = ("deadline", "future", "outgoing")

    def __init__(self, outgoing: Outgoing, future: Any, deadline: float) -> None:  # noqa: ANN401 - either kind
        self.outgoing = outgoing
        self.future = future
        self.deadline = deadline


async def deliver_all(core: SendCore, waiting: Sequence[Pending], batch_bytes: int) -> None:
    """Send what waits, and tell its futures."""
    for queue_waiting in _by_sharding_key(core, waiting):
        places = {id(one.outgoing): one for one in queue_waiting}
        for batch in split_batches([one.outgoing for one in queue_waiting], min(batch_bytes, MAX_BATCH)):
            await _deliver(core, [places[id(one)] for one in batch])


async def _deliver(core: SendCore, batch: Sequence[Pending]) -> None:
    try:
        found = await core.deliver([one.outgoing for one in batch], batch[0].deadline)
    except InvalidRequest as error:
        if len(batch) == 1:
            batch[0].future.set_exception(error)
            return
        for one in batch:  # one of them is to blame; the others shall not suffer
            await _deliver(core, [one])
    except LiteMQError as error:
        for one in batch:
            one.future.set_exception(error)
    else:
        for one, sent in zip(batch, found, strict=True):
            one.future.set_result(sent)


def _by_sharding_key(core: SendCore, waiting: Sequence[Pending]) -> list[list[Pending]]:
    """Return what may go to one queue together; order holds within each."""
    if core.chooser.may_stay and all(one.outgoing.message.sharding_key is None for one in waiting):
        return [list(waiting)]
    groups: dict[object, list[Pending]] = {}
    for number, one in enumerate(waiting):
        message = one.outgoing.message
        key: object = message.sharding_key
        if key is None:  # a function may send each elsewhere; a hash sends those of one key to one queue
            key = 0 if core.chooser.may_stay else (message.keys[:1] or number)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


class ThreadLane:
    """Sends what waits for one topic, on a thread that lives while there is something to do."""

    def __init__(self, core: SendCore, topic: str, linger: float, batch_bytes: int) -> None:
        self._core = core
        self._name = f"litemq-send-{topic}"
        self._linger = linger
        self._batch_bytes = batch_bytes
        self._waiting: list[Pending] = []
        self._size = 0
        self._changed = threading.Condition(threading.Lock())
        self._is_running = False
        self._hurries = False

    def put(self, one: Pending) -> None:
        """Have a message sent."""
        with self._changed:
            self._waiting.append(one)
            self._size += one.outgoing.size
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            elif len(self._waiting) == 1 or self._size >= self._batch_bytes:
                self._changed.notify()

    def hurry(self) -> None:
        """Send what waits now, however long it was to linger."""
        with self._changed:
            self._hurries = True
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting and not self._changed.wait_for(lambda: bool(self._waiting), _IDLE_S):
                    self._is_running = False
                    return
                if self._linger > 0:
                    self._changed.wait_for(lambda: self._hurries or self._size >= self._batch_bytes, self._linger)
                self._hurries = False
                taken, self._waiting, self._size = self._waiting, [], 0
            taken = [one for one in taken if one.future.set_running_or_notify_cancel()]
            if not taken:
                continue
            try:
                run(deliver_all(self._core, taken, self._batch_bytes))
            except BaseException as error:  # noqa: BLE001 - whoever waits must be told
                for one in taken:
                    if not one.future.done():
                        one.future.set_exception(error)


class TaskLane:
    """Sends what waits for one topic, in a task that lives while there is something to do."""

    def __init__(self, core: SendCore, linger: float, batch_bytes: int) -> None:
        self._core = core
        self._linger = linger
        self._batch_bytes = batch_bytes
        self._waiting: list[Pending] = []
        self._size = 0
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, one: Pending) -> None:
        """Have a message sent."""
        self._waiting.append(one)
        self._size += one.outgoing.size
        if self._size >= self._batch_bytes:
            self._hurry.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    def hurry(self) -> None:
        """Send what waits now, however long it was to linger."""
        self._hurry.set()

    async def _work(self) -> None:
        while self._waiting:
            if self._linger > 0:
                try:
                    async with asyncio.timeout(self._linger):
                        await self._hurry.wait()
                except TimeoutError:
                    pass
                self._hurry.clear()
            taken, self._waiting, self._size = self._waiting, [], 0
            taken = [one for one in taken if not one.future.done()]
            try:
                await deliver_all(self._core, taken, self._batch_bytes) if taken else None
            except BaseException as error:
                for one in taken:
                    if not one.future.done():
                        one.future.set_exception(error)
                if not isinstance(error, Exception):
                    raise


class Buffer:
    """Counts the bytes that were accepted and not answered yet; safe to use from several threads.

    What is accepted belongs to an era; a flush begins the next one, and waits for the end of those before it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.size = 0
        self.first_error: BaseException | None = None
        self._era = 0
        self._counts = {0: 0}
        self._freed = threading.Condition(threading.Lock())
        self._waiters = 0

    @property
    def count(self) -> int:
        """Return how many messages wait."""
        return sum(self._counts.values())

    def take(self, size: int) -> int | None:
        """Count a message in and return its era; None when it does not fit now.

        One that never would fits into an empty buffer.
        """
        with self._freed:
            return self._take(size)

    def take_within(self, size: int, timeout: float) -> int | None:
        """Count a message in as soon as there is room; None when there is none in time."""
        return self._wait(lambda: self._take(size), timeout)

    def _take(self, size: int) -> int | None:
        if self.size and self.size + size > self.limit:
            return None
        self.size += size
        self._counts[self._era] += 1
        return self._era

    def free(self, size: int, era: int, error: BaseException | None) -> None:
        """Count a message out."""
        with self._freed:
            self.size -= size
            self._counts[era] -= 1
            if error is not None and self.first_error is None:
                self.first_error = error
            if self._waiters:
                self._freed.notify_all()

    def end_era(self) -> int:
        """Begin another era; return the one that ends."""
        with self._freed:
            for era in [era for era, count in self._counts.items() if not count]:
                del self._counts[era]
            self._era += 1
            self._counts[self._era] = 0
            return self._era - 1

    def left(self, era: int) -> int:
        """Return how many messages of an era, and of those before it, wait yet."""
        return sum(count for one, count in list(self._counts.items()) if one <= era)

    def wait_for_end(self, era: int, timeout: float) -> bool:
        """Return whether everything of an era, and of those before it, is answered in time."""
        return self._wait(lambda: not self.left(era) or None, timeout) is not None

    def take_error(self) -> BaseException | None:
        """Return the first error since the last time, once."""
        error, self.first_error = self.first_error, None
        return error

    def _wait(self, condition: Callable[[], T | None], timeout: float) -> T | None:
        with self._freed:
            self._waiters += 1
            found: list[T | None] = [None]

            def is_met() -> bool:
                found[0] = condition()
                return found[0] is not None

            try:
                self._freed.wait_for(is_met, timeout)
            finally:
                self._waiters -= 1
            return found[0]


async def poll_until(condition: Callable[[], bool], deadline: float, sleep: Callable[[float], Awaitable[None]]) -> bool:
    """Return whether a condition came true before ``deadline``, of ``time.monotonic``."""
    pause = 0.0005
    while not condition():
        if time.monotonic() >= deadline:
            return False
        await sleep(pause)
        pause = min(pause * 1.5, 0.02)
    return True
