"""Flushing: what is on disk, who waits for it, and what a failed flush means."""

from __future__ import annotations

import errno
import gc
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest
from tests.support.faults import Fault, Faults, broken_write, failed_sync
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import SEGMENT, bodies, fill, open_store, small

from litemq.clock import ManualClock
from litemq.errors import Closed, FlushFailed, FlushTimeout, LiteMQError, WriteFailed
from litemq.store.fs import OsFileSystem
from litemq.types import Appended, Message

LOG = "*/commitlog*"


class Gate:
    """Hook that lets syncs of the log wait."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.opened.set()
        self.waiting = threading.Event()
        self.syncs = 0

    def before(self, call: Call) -> bool:
        if call.kind == "sync" and "commitlog" in str(call.path):
            self.waiting.set()
            self.opened.wait(30)
            self.syncs += 1
        return True

    def after(self, call: Call) -> None: ...


class Surprise:
    """Hook that lets syncs end in an error that no disk has."""

    is_due = False

    def before(self, call: Call) -> bool:
        if self.is_due and call.kind == "sync":
            raise ValueError("a surprise")
        return True

    def after(self, call: Call) -> None: ...


# -- without a thread ------------------------------------------------------------------------------------------------


def test_a_flush_reaches_the_end_and_costs_nothing_twice(tmp_path: Path) -> None:
    gate = Gate()
    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), gate)) as store:
        fill(store, 3)
        assert store.flushed_end < store.appended_end
        assert store.flush() == store.flushed_end == store.appended_end
        syncs, flushes = gate.syncs, store.counters()["flushes"]
        store.flush()
        assert (gate.syncs, store.counters()["flushes"]) == (syncs, flushes)


def test_a_flush_covers_every_segment_written_since(tmp_path: Path) -> None:
    disk = ForgetfulFileSystem()
    store = open_store(tmp_path, fs=disk)
    sent = fill(store, 300)
    assert store.appended_end > 2 * SEGMENT
    store.flush()
    with open_store(tmp_path, fs=disk.crash(Random(1))) as again:
        assert bodies(again) == sent


@pytest.mark.parametrize("policy", ["group", "sync"])
def test_a_wait_flushes_when_there_is_no_thread(tmp_path: Path, policy: str) -> None:
    with open_store(tmp_path, small(flush=policy)) as store:
        answer = store.append(Message("orders", b"one"))
        store.wait_durable(answer.end)
        assert store.flushed_end >= answer.end


def test_many_dirty_bytes_are_flushed_on_the_way(tmp_path: Path) -> None:
    with open_store(tmp_path, small(flush_bytes=4096)) as store:
        for _ in range(50):
            store.append(Message("orders", b"." * 1000))
            assert store.appended_end - store.flushed_end < 4096 + 1200


# -- with a thread ---------------------------------------------------------------------------------------------------


def until(condition: object, seconds: float = 20) -> None:
    """Wait for a thread to bring a condition about."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


@pytest.mark.parametrize("policy", ["async", "group", "sync"])
def test_what_is_dirty_is_flushed_soon_by_itself(tmp_path: Path, policy: str) -> None:
    """With every policy: a reader of ``group`` must not wait for the next waiter."""
    with open_store(tmp_path, small(flush=policy, flush_interval_ms=10), background=True) as store:
        answer = store.append(Message("orders", b"one"))
        until(lambda: store.flushed_end >= answer.end)
        assert bodies(store) == [b"one"]


@pytest.mark.parametrize("policy", ["group", "sync"])
def test_a_waiter_wakes_when_its_message_is_flushed(tmp_path: Path, policy: str) -> None:
    gate = Gate()
    fs = HookedFileSystem(OsFileSystem(), gate)
    config = small(flush=policy, flush_interval_ms=60_000, flush_timeout_ms=20_000)
    with open_store(tmp_path, config, fs=fs, background=True) as store:
        gate.opened.clear()
        gate.waiting.clear()
        answer = store.append(Message("orders", b"one"))
        threading.Timer(0.05, gate.opened.set).start()
        assert store.reader.max_offset("orders", 0) == 0
        store.wait_durable(answer.end)
        assert store.flushed_end >= answer.end
        assert store.reader.max_offset("orders", 0) == 1


def test_one_flush_serves_all_that_came_before_it(tmp_path: Path) -> None:
    gate = Gate()
    fs = HookedFileSystem(OsFileSystem(), gate)
    ends: list[int] = []
    with open_store(tmp_path, small(flush="group", flush_interval_ms=60_000), fs=fs, background=True) as store:
        store._flusher.on_flushed = ends.append
        gate.opened.clear()
        gate.waiting.clear()
        first = store.append(Message("orders", b"first"))
        store._flusher.kick()
        until(gate.waiting.is_set)
        last = [store.append(Message("orders", b"more")) for _ in range(10)][-1]
        syncs = gate.syncs
        waiters = [threading.Thread(target=store._flusher.wait, args=(last.end - i,)) for i in range(5)]
        for waiter in waiters:
            waiter.start()
        gate.opened.set()
        for waiter in waiters:
            waiter.join()
        assert gate.syncs <= syncs + 2
        assert ends[0] == first.end
        assert ends[-1] >= last.end


@pytest.mark.parametrize("policy", ["group", "sync"])
def test_a_slow_disk_is_a_timeout_and_no_loss(tmp_path: Path, policy: str) -> None:
    gate = Gate()
    fs = HookedFileSystem(OsFileSystem(), gate)
    with open_store(tmp_path, small(flush=policy, flush_timeout_ms=30), fs=fs, background=True) as store:
        gate.opened.clear()
        answer = store.append(Message("orders", b"one"))
        with pytest.raises(FlushTimeout, match="not flushed within 30 ms"):
            store.wait_durable(answer.end)
        assert store.failure is None
        gate.opened.set()
        until(lambda: store.flushed_end >= answer.end)
        assert bodies(store) == [b"one"]


def test_above_the_dirty_limit_an_append_waits(tmp_path: Path) -> None:
    gate = Gate()
    fs = HookedFileSystem(OsFileSystem(), gate)
    config = small(flush_bytes=2000, dirty_limit_bytes=6000, flush_interval_ms=60_000, flush_timeout_ms=30)
    with open_store(tmp_path, config, fs=fs, background=True) as store:
        store.append(Message("orders", b"first"))
        store.flush()
        gate.opened.clear()
        told: list[str] = []

        def during(work: str) -> nullcontext[None]:
            told.append(work)
            return nullcontext()

        store.tell_of_work(during)
        sent = 0
        with pytest.raises(FlushTimeout):  # noqa: PT012 - whichever of them meets the limit
            for sent in range(100):  # noqa: B007
                store.append(Message("orders", b"." * 1000))
        assert 4 <= sent <= 10
        assert told == ["flush"]
        assert store.appended_end - store.flushed_end <= 6000 + 4000
        gate.opened.set()
        until(lambda: store.flushed_end == store.appended_end)
        store.append(Message("orders", b"." * 1000))
        assert len(bodies(store)) == sent + 3  # the one that met the limit is stored


@pytest.mark.parametrize("background", [False, True])
def test_the_dirty_limit_holds_below_the_flush_bytes(tmp_path: Path, background: bool) -> None:
    config = small(flush_bytes=1 << 30, dirty_limit_bytes=6000, flush_interval_ms=60_000)
    with open_store(tmp_path, config, background=background) as store:
        for _ in range(50):
            store.append(Message("orders", b"." * 1000))
            assert store.appended_end - store.flushed_end <= 6000


@pytest.mark.parametrize("flush_bytes", [1, 2000, 5999])
def test_never_more_is_dirty_than_the_limit_and_one_call(tmp_path: Path, flush_bytes: int) -> None:
    gate = Gate()
    fs = HookedFileSystem(OsFileSystem(), gate)
    config = small(flush_bytes=flush_bytes, dirty_limit_bytes=6000, flush_interval_ms=60_000, flush_timeout_ms=1)
    with open_store(tmp_path, config, fs=fs, background=True) as store:
        store.append(Message("orders", b"first"))
        store.flush()
        gate.opened.clear()
        with pytest.raises(FlushTimeout):  # noqa: PT012 - whichever of them meets the limit
            for _ in range(100):
                store.append(Message("orders", b"." * 300))
        assert 6000 < store.appended_end - store.flushed_end < 6000 + 600
        gate.opened.set()


@pytest.mark.parametrize("error", [FlushTimeout, FlushFailed])
def test_an_error_of_the_dirty_limit_lists_what_was_appended(tmp_path: Path, error: type[LiteMQError]) -> None:
    gate, faults = Gate(), Faults()
    fs = HookedFileSystem(HookedFileSystem(OsFileSystem(), gate), faults)
    config = small(flush_bytes=1000, dirty_limit_bytes=2000, flush_interval_ms=60_000, flush_timeout_ms=30)
    with open_store(tmp_path, config, fs=fs, background=error is FlushTimeout) as store:
        if error is FlushTimeout:
            gate.opened.clear()
        else:
            faults.add(failed_sync(path=LOG))
        messages = [Message("orders", b"%d" % number + b"." * 500) for number in range(9)]
        with pytest.raises(error) as raised:
            store.append_many(messages)
        assert [answer.queue_offset for answer in appended(raised.value)] == list(range(9))
        assert bodies(store) == [message.body for message in messages]
        if error is FlushTimeout:
            with pytest.raises(error) as raised:
                store.append(messages[0])
            assert [answer.queue_offset for answer in appended(raised.value)] == [9]
        gate.opened.set()


def appended(error: LiteMQError) -> list[Appended]:
    """Return the answers that an error holds."""
    return [answer for answer in error.appended if isinstance(answer, Appended)]


# -- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("policy", ["async", "group", "sync"])
def test_a_failed_flush_stops_writes_and_reads_go_on(tmp_path: Path, policy: str, background: bool) -> None:
    faults = Faults()
    disk = ForgetfulFileSystem()
    config = small(flush=policy, flush_interval_ms=60_000)
    store = open_store(tmp_path, config, fs=HookedFileSystem(disk, faults), background=background)
    sent = fill(store, 5)
    store.flush()
    answer = store.append(Message("orders", b"perhaps lost"))
    faults.add(failed_sync(path=LOG))
    with pytest.raises(FlushFailed, match="open the store again"):
        store.flush() if policy == "async" else store.wait_durable(answer.end)
    for again in (store.flush, lambda: store.append(Message("orders", b"not taken")), store.checkpoint, store.retain):
        with pytest.raises(FlushFailed):
            again()
    if policy != "async":
        with pytest.raises(FlushFailed):
            store.wait_durable(answer.end)
    store.tick()
    assert store.flushed_end < answer.end
    assert bodies(store)[:5] == sent
    store.close()
    with open_store(tmp_path, config, fs=disk.kill()) as again_open:
        assert not again_open.was_clean
        assert bodies(again_open)[:5] == sent
        again_open.append(Message("orders", b"taken"))


def test_a_flush_that_failed_after_a_failed_write_is_not_tried_again(tmp_path: Path) -> None:
    """Linux tells of lost pages once: the next fdatasync would succeed, and be a lie."""
    faults = Faults()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    fill(store, 3)
    faults.add(broken_write(path=LOG, count=1))
    with pytest.raises(WriteFailed):
        store.append(Message("orders", b"x"))
    faults.add(failed_sync(path=LOG, count=1))
    with pytest.raises(FlushFailed):
        store.flush()
    with pytest.raises(FlushFailed):
        store.flush()
    assert store.flushed_end < store.appended_end
    assert isinstance(store.failure, WriteFailed)  # the first reason stays
    store.close()


def test_a_failure_in_the_thread_wakes_whoever_waits(tmp_path: Path) -> None:
    faults = Faults()
    fs = HookedFileSystem(OsFileSystem(), faults)
    config = small(flush="group", flush_interval_ms=60_000, flush_timeout_ms=60_000)
    store = open_store(tmp_path, config, fs=fs, background=True)
    answer = store.append(Message("orders", b"one"))
    faults.add(failed_sync(path=LOG))
    began = time.monotonic()
    with pytest.raises(FlushFailed):
        store.wait_durable(answer.end)
    with pytest.raises(FlushFailed):
        store.wait_durable(answer.end)
    assert time.monotonic() - began < 30
    store.close()


def test_a_flush_thread_never_ends_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever ends it: what is appended after that would be flushed by no one."""
    surprise = Surprise()
    config = small(flush="group", flush_interval_ms=60_000, flush_timeout_ms=20_000)
    store = open_store(tmp_path, config, fs=HookedFileSystem(OsFileSystem(), surprise), background=True)
    answer = store.append(Message("orders", b"one"))
    surprise.is_due = True
    with pytest.raises(FlushFailed, match="ValueError: a surprise"):
        store.wait_durable(answer.end)
    with pytest.raises(FlushFailed):
        store.append(Message("orders", b"two"))
    assert "a surprise" in caplog.text
    store.close()


def test_a_listener_that_fails_costs_no_flush(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(end: int) -> None:
        raise ValueError(f"a surprise at {end}")

    with open_store(tmp_path, small(flush="group", flush_interval_ms=60_000), background=True) as store:
        store._flusher.on_flushed = fail
        for body in (b"one", b"two"):
            answer = store.append(Message("orders", body))
            store.wait_durable(answer.end)
            store.flush()  # returns when the thread is through with its own
            assert f"a surprise at {answer.end}" in caplog.text
        assert bodies(store) == [b"one", b"two"]


def test_a_failed_flush_above_the_dirty_limit_is_no_hang(tmp_path: Path) -> None:
    faults = Faults()
    fs = HookedFileSystem(OsFileSystem(), faults)
    config = small(flush_bytes=2000, dirty_limit_bytes=4000, flush_interval_ms=60_000, flush_timeout_ms=60_000)
    store = open_store(tmp_path, config, fs=fs, background=True)
    faults.add(failed_sync(path=LOG))
    with pytest.raises(FlushFailed):  # noqa: PT012 - whichever of them meets it
        for _ in range(100):
            store.append(Message("orders", b"." * 1000))
    store.close()


def test_a_checkpoint_that_fails_stops_writes(tmp_path: Path) -> None:
    for number, background in enumerate((False, True)):
        faults = Faults()
        fs = HookedFileSystem(OsFileSystem(), faults)
        clock = ManualClock()
        store = open_store(tmp_path / str(number), clock=clock, fs=fs, background=background)
        sent = fill(store, 5)
        faults.add(Fault(code=errno.EIO, kinds=frozenset({"sync_all"})))
        with pytest.raises(FlushFailed, match="checkpoint"):
            store.checkpoint()
        with pytest.raises(FlushFailed):
            store.append(Message("orders", b"x"))
        clock.advance(60_000)
        store.tick()
        assert bodies(store) == sent
        store.close()
        faults.cure()
        with open_store(tmp_path / str(number), clock=clock) as again:
            assert bodies(again) == sent


def test_a_closed_store_is_not_flushed(tmp_path: Path) -> None:
    store = open_store(tmp_path, small(flush="group"), background=True)
    answer = store.append(Message("orders", b"one"))
    store.abandon()
    with pytest.raises(Closed):
        store.flush()
    with pytest.raises(Closed):
        store.wait_durable(answer.end)
    store.close()


def test_threads_end_with_the_store(tmp_path: Path) -> None:
    gc.collect()  # what earlier tests left open is not ours to count
    before = threading.active_count()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        store = open_store(tmp_path, background=True)
        assert threading.active_count() > before
        fill(store, 3)
        store.close()
        store.close()
        assert threading.active_count() == before
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
