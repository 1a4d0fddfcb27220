"""The cheap future does what the standard one does, also when threads come between its steps."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.client._sends_cy import Sent
from litemq.client.sent_future import SentFuture

SENT = Sent("ID", "t", "b", 0, 0)
STEPS = ("run", "result", "error", "cancel", "callback", "done", "running", "cancelled")


def do(future: Future[Sent], step: str, calls: list[object]) -> object:
    """Take a step as the producer and its user may; return what is seen of it."""
    settled = future.done()
    match step:
        case "run":
            return None if settled or future.running() else future.set_running_or_notify_cancel()
        case "result":
            if not settled:
                future.set_result(SENT)
            return None
        case "error":
            if not settled:
                future.set_exception(ValueError("no"))
            return None
        case "cancel":
            return future.cancel()
        case "callback":
            future.add_done_callback(lambda done: calls.append(done.cancelled()))
            return None
        case "done":
            return future.done()
        case "running":
            return future.running()
        case _:
            return future.cancelled()


@given(st.lists(st.sampled_from(STEPS), max_size=12))
def test_it_does_what_the_standard_one_does(steps: list[str]) -> None:
    seen = []
    for future in (Future[Sent](), SentFuture()):
        calls: list[object] = []
        answers: list[object] = [do(future, step, calls) for step in steps]
        if future.done():
            try:
                answers.append(future.result(0))
            except (CancelledError, ValueError) as error:
                answers.append(type(error))
            answers.append(None if future.cancelled() else type(future.exception(0)))
        else:
            with pytest.raises(TimeoutError):
                future.result(0)
        seen.append((answers, calls))
    assert seen[0] == seen[1]


def test_who_waits_is_woken() -> None:
    futures = [SentFuture() for _ in range(200)]

    def finish() -> None:
        for future in futures:
            future.set_result(SENT)

    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(lambda: [future.result(20) for future in futures])
        completed = pool.submit(lambda: len(list(as_completed(futures, 20))))
        pool.submit(finish)
        assert waiting.result(20) == [SENT] * 200
        assert completed.result(20) == 200
    assert not wait(futures, 0).not_done


def test_asyncio_takes_it() -> None:
    async def test() -> Sent:
        future = SentFuture()
        threading.Timer(0.01, future.set_result, (SENT,)).start()
        async with asyncio.timeout(10):
            return await asyncio.wrap_future(future)

    assert asyncio.run(test()) == SENT


def take_back(future: SentFuture, barrier: threading.Barrier, answers: list[bool]) -> None:
    barrier.wait()
    answers.append(future.cancel())


def test_it_is_sent_or_taken_back_never_both() -> None:
    for _ in range(300):
        future = SentFuture()
        barrier = threading.Barrier(2)
        taken_back: list[bool] = []

        thread = threading.Thread(target=take_back, args=(future, barrier, taken_back))
        thread.start()
        barrier.wait()
        is_sent = future.set_running_or_notify_cancel()
        thread.join()
        assert is_sent != taken_back[0]


def test_nothing_else_is_made_up() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = SentFuture().nonsense
