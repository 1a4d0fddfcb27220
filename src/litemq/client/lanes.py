"""Messages that wait to be sent, and how those of one topic become requests, one after the other.

While a request is under way, what is accepted meanwhile waits and becomes the next one: one message at a time when
there are few, large batches when there are many.  ``linger`` adds waiting on purpose.  One request of a topic is
under way at a time, so messages of one queue stay in order whatever has to be tried again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from litemq.client._sends_cy import Outgoing, Sent, has_sharding_keys, split_batches
from litemq.client._sent_futures_cy import claim, finish, tally
from litemq.client.running import run
from litemq.client.sending import MAX_BATCH, SendCore
from litemq.errors import InvalidRequest, LiteMQError

T = TypeVar("T")

_IDLE_S = 5.0
"""A thread without work for so long ends; the next message starts another one."""


OnDone = Callable[[list[Outgoing], BaseException | None], None]
"""Gets messages whose futures know what became of them, and what went wrong."""


async def deliver_all(core: SendCore, waiting: list[Outgoing], batch_bytes: int, on_done: OnDone) -> None:
    """Send what waits, and tell its futures."""
    for group in _groups(core, waiting):
        for batch in split_batches(group, min(batch_bytes, MAX_BATCH)):
            await _deliver(core, batch, on_done)


async def _deliver(core: SendCore, batch: list[Outgoing], on_done: OnDone) -> None:
    try:
        found = await core.deliver(batch, batch[0].deadline)
    except LiteMQError as error:
        if isinstance(error, InvalidRequest) and len(batch) > 1:
            for one in batch:  # one of them is to blame; the others shall not suffer
                await _deliver(core, [one], on_done)
            return
        for one in batch:
            one.future.set_exception(error)
        on_done(batch, error)
    else:
        finish(batch, found)
        on_done(batch, None)


def _groups(core: SendCore, waiting: list[Outgoing]) -> list[list[Outgoing]]:
    """Return what may go to one queue together; order holds within each."""
    may_stay = core.chooser.may_stay
    if may_stay and not has_sharding_keys(waiting):
        return [waiting]
    groups: dict[object, list[Outgoing]] = {}
    for number, one in enumerate(waiting):
        key: object = one.message.sharding_key
        if key is None:  # a function may send each elsewhere; a hash sends those of one key to one queue
            key = 0 if may_stay else (one.message.keys[:1] or number)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


class ThreadLane:
    """Sends what waits for one topic, on a thread that lives while there is something to do."""

    def __init__(self, core: SendCore, topic: str, linger: float, batch_bytes: int, on_done: OnDone) -> None:
        self._core = core
        self._name = f"litemq-send-{topic}"
        self._linger = linger
        self._batch_bytes = batch_bytes
        self._on_done = on_done
        self._waiting: list[Outgoing] = []
        self._size = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_running = False
        self._hurries = False

    def put(self, one: Outgoing) -> None:
        """Have a message sent."""
        with self._lock:
            self._waiting.append(one)
            self._size += one.size
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
            claimed = claim(taken)
            if len(claimed) < len(taken):
                self._on_done([one for one in taken if one.future.cancelled()], None)
            try:
                run(deliver_all(self._core, claimed, self._batch_bytes, self._on_done))
            except BaseException as error:  # noqa: BLE001 - whoever waits must be told
                fail_rest(claimed, error, self._on_done)


class TaskLane:
    """Sends what waits for one topic, in a task that lives while there is something to do."""

    def __init__(self, core: SendCore, linger: float, batch_bytes: int, on_done: OnDone) -> None:
        self._core = core
        self._linger = linger
        self._batch_bytes = batch_bytes
        self._on_done = on_done
        self._waiting: list[Outgoing] = []
        self._size = 0
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def put(self, one: Outgoing) -> None:
        """Have a message sent."""
        self._waiting.append(one)
        self._size += one.size
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
            waiting = [one for one in taken if not one.future.done()]
            if len(waiting) < len(taken):
                self._on_done([one for one in taken if one.future.done()], None)
            for one in waiting:  # who cancels from here on is not told, but does not disturb the others
                one.future = Told(one.future)
            try:
                await deliver_all(self._core, waiting, self._batch_bytes, self._on_done)
            except BaseException as error:
                fail_rest(waiting, error, self._on_done)
                if not isinstance(error, Exception):
                    raise


class Told:
    """An asyncio future that may have been cancelled meanwhile."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Sent]) -> None:
        self._future = future

    def done(self) -> bool:
        """Return whether it needs no answer."""
        return self._future.done()

    def set_result(self, sent: Sent) -> None:
        """Tell where the message is."""
        if not self._future.done():
            self._future.set_result(sent)

    def set_exception(self, error: BaseException) -> None:
        """Tell what went wrong."""
        if not self._future.done():
            self._future.set_exception(error)


def fail_rest(taken: list[Outgoing], error: BaseException, on_done: OnDone) -> None:
    """Tell those that know nothing yet what went wrong."""
    rest = [one for one in taken if not one.future.done()]
    for one in rest:
        one.future.set_exception(error)
    on_done(rest, error)


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
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._waiters = 0

    @property
    def count(self) -> int:
        """Return how many messages wait."""
        return sum(self._counts.values())

    def take(self, size: int) -> int | None:
        """Count a message in and return its era; None when it does not fit now.

        One that never would fits into an empty buffer.
        """
        with self._lock:  # as ``_take``: a call less for each message
            if self.size and self.size + size > self.limit:
                return None
            self.size += size
            self._counts[self._era] += 1
            return self._era

    def take_within(self, size: int, timeout: float) -> int | None:
        """Count a message in as soon as there is room; None when there is none in time."""
        return self._wait(lambda: self._take(size), timeout)

    def _take(self, size: int) -> int | None:
        if self.size and self.size + size > self.limit:
            return None
        self.size += size
        self._counts[self._era] += 1
        return self._era

    def free(self, done: list[Outgoing], error: BaseException | None) -> None:
        """Count messages out."""
        with self._lock:
            size, counts = tally(done)
            self.size -= size
            for era, count in counts.items():
                self._counts[era] -= count
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
