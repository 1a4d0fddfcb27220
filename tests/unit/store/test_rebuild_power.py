"""Power cuts while a store is rebuilt, repaired or converted, on a file system that forgets what was not synced."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.support.forgetful_fs import ForgetfulFileSystem, PowerCut
from tests.support.hooked_fs import HookedFileSystem
from tests.support.power_switch import MOMENTS, CallLog, EndAt, power_off
from tests.unit.store.convert_support import SMALL
from tests.unit.store.test_convert_live import CONFIG, FORMATS, state_of

from litemq.clock import ManualClock
from litemq.config import WritableFormat
from litemq.store.convert import convert
from litemq.store.fs import FileSystem
from litemq.store.log_walk import open_log
from litemq.store.message_store import MessageStore
from litemq.store.rebuild import rebuild
from litemq.store.repair import repair
from litemq.store.verify import verify
from litemq.types import Message

STORE = Path("/store")
CUTS = 40


def open_store(fs: FileSystem, fmt: WritableFormat | None = None) -> MessageStore:
    config = CONFIG if fmt is None else replace(CONFIG, format=fmt)
    return MessageStore.open(STORE, config, fs=fs, clock=ManualClock(), background=False)


def new_disk(fmt: WritableFormat) -> ForgetfulFileSystem:
    """Return a disk with a store that was stopped cleanly."""
    disk = ForgetfulFileSystem()
    with open_store(disk, fmt) as store:
        for number in range(60):
            topic = "ab"[number % 2]
            store.append(Message(topic, b"%d" % number * 20, queue_id=number % 3, keys=(f"k{number}",)))
        store.delete_topic("b")
        store.append(Message("b", b"again"))
        store.progress.commit("g", "a", 0, 5)
    return disk


def loosened(disk: ForgetfulFileSystem) -> None:
    """Damage derived files."""
    for path in (STORE / "consumequeue/a/0/00000000000000000000", STORE / "consumequeue/a/2/00000000000000000000"):
        file = disk.open(path, write=True)
        file.write_at(b"\x55" * 30, 20)
        file.sync()
        file.close()


def run_cut(work: Callable[[FileSystem], object], fmt: WritableFormat, seed: int, total: int) -> ForgetfulFileSystem:
    """Do the work until the power fails somewhere; return the disk that is found afterwards."""
    rng = Random(seed)
    disk = new_disk(fmt)
    if work is mend:
        loosened(disk)
    number = rng.choice([rng.randrange(total), total - 1 - rng.randrange(min(20, total))])
    with suppress(PowerCut):
        work(HookedFileSystem(disk, EndAt(number, rng.choice(MOMENTS), power_off)))
    return disk.crash(rng)


def calls(work: Callable[[FileSystem], object], fmt: WritableFormat) -> int:
    disk = new_disk(fmt)
    if work is mend:
        loosened(disk)
    log = CallLog()
    work(HookedFileSystem(disk, log))
    return len(log.sites)


def build(fs: FileSystem) -> object:
    return rebuild(STORE, fs=fs, clock=ManualClock())


def build_smaller(fs: FileSystem) -> object:
    return rebuild(STORE, queue_entries=5, index_slots=9, index_entries=30, fs=fs, clock=ManualClock())


def mend(fs: FileSystem) -> object:
    return repair(STORE, fs=fs, clock=ManualClock())


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("work", [build, build_smaller, mend])
def test_the_store_opens_and_is_whole(work: Callable[[FileSystem], object], fmt: WritableFormat) -> None:
    disk = new_disk(fmt)
    with open_store(disk) as store:
        expected = state_of(store)
    total = calls(work, fmt)
    for seed in range(CUTS):
        disk = run_cut(work, fmt, seed, total)
        if work is mend:
            mend(disk)  # damage that was not mended yet is nothing that an open would find
        with MessageStore.open(STORE, fs=disk, clock=ManualClock(), background=False) as store:
            found = state_of(store)
        assert found | {"log_id": "", "incarnations": {}} == expected | {"log_id": "", "incarnations": {}}, seed
        report = verify(STORE, fs=disk)
        assert report.is_ok, (seed, report.to_json())


@pytest.mark.parametrize("to", ["litemq", "rocketmq", "blueprint", "tmq"])
def test_a_destination_is_complete_or_not_there(to: str) -> None:
    target = Path("/target")

    def work(fs: FileSystem) -> object:
        return convert(STORE, target, to=to, fs=fs, clock=ManualClock(), **SMALL)

    total = calls(work, "litemq")
    for seed in range(CUTS):
        disk = run_cut(work, "litemq", seed, total)
        if disk.exists(target):
            report = verify(target, to, fs=disk)
            assert report.is_ok, (seed, report.to_json())
            assert report.records == open_log_count(disk)
    disk = new_disk("litemq")
    work(disk)
    disk = disk.crash(Random(1))
    assert verify(target, to, fs=disk).records == open_log_count(disk), "durable on return"


def open_log_count(disk: ForgetfulFileSystem) -> int:
    return sum(1 for _ in open_log(STORE, fs=disk).records())
