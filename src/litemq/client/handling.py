"""Runs handlers: on threads, or as tasks where they are coroutines; some at a time, none while the breaker is open."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any

from litemq.client._message_cy import Message
from litemq.client.tenure import Tenure, Work
from litemq.client.values import Reject
from litemq.client.worker_threads import WorkerThreads
from litemq.errors import InvalidRequest
from litemq.features.breaker import Breaker

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Any] | Callable[[Any], Awaitable[Any]]
"""Takes a ``Message``, or with ``batch > 1`` a list of them."""

_AHEAD = 256
"""Pieces of work that lie ready for threads, beside those that they have in hand: they need not wait for the loop."""
_TURN = 64
"""Messages of an ordered queue that a thread handles before others have their turn."""
_LOOK_S = 0.1


class Handling:
    """Deals waiting messages of all queues to handlers; ``on_done`` gets what was tried."""

    def __init__(
        self,
        handler: Handler,
        name: str,
        *,
        concurrency: int,
        batch: int,
        is_ordered: bool,
        breaker: Breaker | None,
        on_done: Callable[[Work], None],
    ) -> None:
        self._handler = handler
        self._batch = batch
        self._is_ordered = is_ordered
        self._breaker = breaker
        self._on_done = on_done
        self._most = max(_TURN // batch, 1) * batch if is_ordered else batch
        self._ready: deque[Tenure] = deque()
        self._are_ready: set[Tenure] = set()
        self._in_hand = 0
        self._is_held = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_async = is_async(handler)
        self._limit = concurrency
        self._threads: WorkerThreads[Work] | None = None
        if not self._is_async:
            self._limit += _AHEAD
            self._threads = WorkerThreads(concurrency, name, self._run, self._collect)

    # -- dealing -----------------------------------------------------------------------------------

    def ready(self, tenure: Tenure) -> None:
        """Deal what waits in a queue, as soon as its turn comes."""
        if tenure not in self._are_ready:
            self._are_ready.add(tenure)
            self._ready.append(tenure)
        self._deal()

    def _deal(self) -> None:
        ready = self._ready
        if not ready:
            return
        later: list[Tenure] = []
        while ready and self._in_hand < self._limit:
            tenure = ready.popleft()
            self._are_ready.discard(tenure)
            if not self._may_run(tenure):
                if tenure.waiting and not tenure.running:
                    later.append(tenure)
                continue
            if not self._is_allowed():
                later.append(tenure)
                break
            work = tenure.next_work(self._most)
            if work is None:
                continue
            work.is_probe = self._breaker is not None and self._breaker.state != "closed"
            self._begin(work)
            if tenure.waiting and not self._is_ordered:
                self._are_ready.add(tenure)
                ready.append(tenure)
        for tenure in later:
            self.ready_later(tenure)

    def _may_run(self, tenure: Tenure) -> bool:
        if tenure.is_ended or not tenure.waiting:
            return False
        if not self._is_ordered:
            return True
        now = time.monotonic()
        return not tenure.running and tenure.held_until <= now < tenure.locked_until

    def ready_later(self, tenure: Tenure) -> None:
        """Deal what waits in a queue in a while."""
        if tenure not in self._are_ready:
            self._are_ready.add(tenure)
            self._ready.append(tenure)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        self._deal()

    def _is_allowed(self) -> bool:
        """Return whether the breaker lets a handler run."""
        if self._breaker is None or self._breaker.state == "closed":
            self._is_held = False
            return True
        return self._breaker.allows(time.monotonic())

    def _begin(self, work: Work) -> None:
        self._in_hand += 1
        self._idle.clear()
        if self._threads is not None:
            self._threads.put(work)
            return
        task = asyncio.create_task(self._run_task(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- on a thread, or in a task -------------------------------------------------------------------

    def _run(self, work: Work) -> None:
        messages, batch, handler = work.messages, self._batch, self._handler
        try:
            while work.done < len(messages):
                if not self._goes_on(work):
                    return
                told = handler(messages[work.done] if batch == 1 else messages[work.done : work.done + batch])
                if told is not None:
                    _check_done(told)
                work.done += batch
        except BaseException as error:  # noqa: BLE001 - whatever a handler raises, its message comes again
            work.error = error

    async def _run_task(self, work: Work) -> None:
        messages, batch = work.messages, self._batch
        try:
            while work.done < len(messages) and self._goes_on(work):
                told = await self._handler(
                    messages[work.done] if batch == 1 else messages[work.done : work.done + batch]
                )
                if told is not None:
                    _check_done(told)
                work.done += batch
        except (Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - as above
            work.error = error
        self._collect([work])

    def _goes_on(self, work: Work) -> bool:
        tenure = work.tenure
        if tenure.is_ended or (self._is_held and not work.is_probe):
            return False
        return not self._is_ordered or time.monotonic() < tenure.locked_until

    # -- what is done --------------------------------------------------------------------------------

    def _collect(self, done: list[Work]) -> None:
        breaker = self._breaker
        touched = set()
        for work in done:
            tenure = work.tenure
            work.done = min(work.done, len(work.messages))
            self._in_hand -= 1
            tenure.running -= 1
            if breaker is not None:
                self._count(work, breaker)
            self._on_done(work)
            touched.add(tenure)
            if work.error is not None and self._is_ordered and tenure.waiting:
                self.ready_later(tenure)
        for tenure in touched:
            tenure.release()
            if tenure.waiting and tenure not in self._are_ready:
                self._are_ready.add(tenure)
                self._ready.append(tenure)
            if tenure.is_ended and not tenure.running:
                tenure.left.set()
        self._deal()
        if not self._in_hand:
            self._idle.set()

    def _count(self, work: Work, breaker: Breaker) -> None:
        if work.error is None and not work.done:
            return
        before = breaker.state
        now = time.monotonic()
        well = work.done + isinstance(work.error, Reject)  # a message that is refused was handled
        if well:
            breaker.succeeded(now, count=well)
        if work.error is not None and not isinstance(work.error, Reject):
            breaker.failed(now)
        if breaker.state != before:
            self._is_held = breaker.state != "closed"
            if breaker.state == "open":
                logger.warning("handler fails too often: nothing is handed to it for %g s", breaker.open_s)
            elif breaker.state == "closed":
                logger.info("handler is well again")

    async def handle_now(self, message: Message) -> BaseException | None:
        """Handle one message beside all others; return what went wrong."""
        given: Any = message if self._batch == 1 else [message]
        try:
            if self._is_async:
                told = await self._handler(given)
            else:
                told = await asyncio.get_running_loop().run_in_executor(None, self._handler, given)
            _check_done(told)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whoever asked is told
            return error
        return None

    # -- the end -------------------------------------------------------------------------------------

    @property
    def in_hand(self) -> int:
        """How many pieces of work are under way."""
        return self._in_hand

    def is_caller(self) -> bool:
        """Return whether the caller is a handler."""
        if self._threads is not None and self._threads.has_current():
            return True
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:
            return False

    async def wait(self, timeout: float) -> bool:
        """Wait until nothing is in hand; return whether that is so."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """End threads and tasks; what still runs is left alone, or cancelled when it is a task."""
        if self._timer is not None:
            self._timer.cancel()
        if self._threads is not None:
            self._threads.stop()
            if not self._in_hand:
                self._threads.join(1.0)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _check_done(told: object) -> None:
    """Refuse what a handler returned whose work has not begun: its message would count as handled.

    Raises:
        InvalidRequest: it is a coroutine, or a generator.
    """
    if not isinstance(told, Coroutine | Generator | AsyncGenerator):
        return
    if isinstance(told, Coroutine):
        told.close()  # nobody will await it
    raise InvalidRequest(
        f"the handler returned a {type(told).__name__}, so nothing was done: give the async function itself as the "
        "handler, not a function that calls it; and a handler must not yield"
    )


def is_async(handler: Handler) -> bool:
    """Return whether a handler is a coroutine function, or an object that is called as one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
