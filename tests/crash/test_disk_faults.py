"""A full, broken or read-only disk: writes stop with a named error, reads go on, a restart needs no help."""

from __future__ import annotations

import logging
from random import Random

import pytest
from tests.crash import oracle
from tests.crash.lives import Life, Machine
from tests.crash.model import Memory
from tests.crash.workload import Append, Simple, Workload, config_of
from tests.support import faults as fault
from tests.support.faults import Fault, Faults
from tests.support.hooked_fs import HookedFileSystem

from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.errors import FlushFailed, LiteMQError, StorageError, StoreFull, WriteFailed
from litemq.types import Message

pytestmark = pytest.mark.crash

NAMED = (StoreFull, WriteFailed, FlushFailed)
RUNS = 300
LONG_RUNS = 5_000


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


class Patient:
    """A store on a disk that can fall ill."""

    def __init__(self, config: StoreConfig, seed: int = 0) -> None:
        self.memory = Memory(config)
        self.faults = Faults(seed)
        self.machine = Machine(lambda fs: HookedFileSystem(fs, self.faults))
        self.life = self.open()

    def open(self) -> Life:
        """Open the store and check it."""
        image = oracle.take_image(self.memory, self.machine.disk)
        oracle.check_claims(self.memory, image)
        life = Life(self.memory, self.machine.start_process(), self.machine.disk)
        oracle.check_open(self.memory, life.store, self.machine.disk, image)
        return life

    def check_stopped(self) -> None:
        """Check that the store takes no more writes, and still answers reads."""
        store, memory = self.life.store, self.memory
        assert isinstance(store.failure, NAMED)
        with pytest.raises(NAMED):
            store.append(Message("alpha", b"refused"))
        store.tick()
        memory.flushed = max(memory.flushed, store.flushed_end)
        for position, (message, answer) in memory.messages.items():
            if store.start <= position and answer.end <= store.readable_end:
                record = store.reader.record_at(position)
                assert record is not None
                assert record.body == message.body
        for topic, queue_id in memory.scan(self.machine.disk).queues():
            oracle.read_queue(store, topic, queue_id)

    def recover(self, end: str, seed: int = 0) -> None:
        """Cure the disk and start again, after ``close``, a kill or a power cut; nothing promised may be missing."""
        memory, machine = self.memory, self.machine
        if end == "close":
            self.life.store.close()
        self.faults.cure()
        machine.end_process()
        log = memory.scan(machine.disk)
        memory.note(log)
        oracle.check_written(memory, log)
        if end == "power cut":
            machine.power_cut(Random(seed))
        self.life = self.open()
        self.life.do(Append((Message("alpha", b"taken again|"),), together=False))
        self.life.do(Simple("flush"))

    def cut_power(self, seed: int) -> None:
        """Let the power go, start again, and stop cleanly."""
        self.machine.end_process()
        self.memory.note(self.memory.scan(self.machine.disk))
        self.machine.power_cut(Random(seed))
        self.life = self.open()


def small_store(flush: FlushPolicy = "group", fmt: WritableFormat = "litemq") -> StoreConfig:
    return StoreConfig(
        format=fmt,
        flush=flush,
        segment_bytes=4096,
        queue_entries=16,
        index_slots=16,
        index_entries=40,
        max_body_bytes=1024,
    )


def message(size: int = 100) -> Append:
    return Append((Message("alpha", b"m|" + b"x" * size, keys=("key",)),), together=False)


ENDS = pytest.mark.parametrize("end", ["close", "kill", "power cut"])


@ENDS
@pytest.mark.parametrize(
    ("illness", "error"),
    [
        (fault.disk_full(), StoreFull),
        (fault.disk_full(part=0.5), StoreFull),
        (fault.broken_write(), WriteFailed),
        (fault.broken_write(part=0.5), WriteFailed),
        (fault.failed_sync(), FlushFailed),
        (fault.read_only(), WriteFailed),
    ],
    ids=["full", "full, short write", "broken", "broken, short write", "failed fsync", "read-only"],
)
def test_an_append_fails_by_name_and_the_store_comes_back(illness: Fault, error: type[Exception], end: str) -> None:
    patient = Patient(small_store())
    patient.life.do(message())
    patient.faults.add(_fresh(illness))
    with pytest.raises(error):
        patient.life.do(message())
    patient.check_stopped()
    patient.recover(end)
    patient.cut_power(seed=1)
    patient.life.reopen()


def _fresh(illness: Fault) -> Fault:
    """Return a copy: a fault counts down."""
    return Fault(
        code=illness.code,
        kinds=illness.kinds,
        path=illness.path,
        skip=illness.skip,
        count=illness.count,
        part=illness.part,
    )


def test_a_short_write_leaves_nothing_to_see() -> None:
    patient = Patient(small_store("async"))
    patient.life.do(message())
    end = patient.life.store.appended_end
    patient.faults.add(fault.broken_write(part=0.9))
    with pytest.raises(WriteFailed):
        patient.life.do(message(900))
    assert patient.life.store.appended_end == end
    assert patient.life.store.reader.max_offset("alpha", 0) == 1
    patient.recover("kill")
    assert patient.memory.repairs, "what the short write left was saved"


def test_a_disk_that_is_full_at_a_roll_keeps_the_segment_that_is_there() -> None:
    patient = Patient(small_store())
    patient.faults.add(fault.disk_full(path="*commitlog.new"))
    with pytest.raises(StoreFull):
        patient.life.do(Append(100 * message(500).messages, together=False))
    patient.check_stopped()
    patient.recover("kill")


def test_a_failed_flush_is_not_tried_again() -> None:
    patient = Patient(small_store("async"))
    patient.life.do(message())
    patient.faults.add(fault.failed_sync(count=1))
    before = patient.life.store.flushed_end
    for _ in range(2):
        with pytest.raises(FlushFailed):
            patient.life.store.flush()
    assert patient.faults.struck == 1
    assert patient.life.store.flushed_end == before
    patient.recover("power cut")


def test_a_record_that_cannot_be_read_hurts_nobody_else() -> None:
    patient = Patient(small_store())
    patient.life.do(message())
    patient.faults.add(fault.broken_read(path="*commitlog*", count=1))
    with pytest.raises((OSError, StorageError)):
        patient.life.store.read("alpha", 0, 0)
    assert patient.life.store.read("alpha", 0, 0).sizes
    patient.life.do(message())
    patient.life.reopen()


@pytest.mark.parametrize("skip", range(0, 40, 3))
@pytest.mark.parametrize("kind", ["full", "read-only", "failed fsync"])
def test_a_store_that_could_not_be_opened_opens_when_the_disk_is_well(kind: str, skip: int) -> None:
    patient = Patient(small_store())
    for _ in range(12):
        patient.life.do(message(500))
    patient.machine.end_process()
    patient.memory.note(patient.memory.scan(patient.machine.disk))
    faults = {
        "full": fault.disk_full(skip=skip),
        "read-only": fault.read_only(skip=skip),
        "failed fsync": fault.failed_sync(skip=skip),
    }
    patient.faults.add(faults[kind])
    try:
        patient.life = Life(patient.memory, patient.machine.start_process(), patient.machine.disk)
    except LiteMQError:
        assert patient.faults.struck
    patient.memory.note_opening(patient.memory.scan(patient.machine.disk))
    patient.recover("kill")
    patient.cut_power(seed=skip)


def ill_run(seed: int, fmt: WritableFormat) -> str:
    """Let a store fall ill at a random call of a random life, and return the error's name."""
    rng = Random(seed)
    config = config_of(rng, fmt)
    patient = Patient(config, seed)
    steps = Workload(rng, config, str(seed), "mixed")
    healthy = rng.randint(0, 20)
    for number in range(80):
        if number == healthy:
            patient.faults.add(_random_fault(rng))
        step = steps.random_step()
        if step in (Simple("kill"), Simple("reopen")):
            continue
        try:
            patient.life.do(step)
        except NAMED as error:
            patient.check_stopped()
            patient.recover(rng.choice(("close", "kill", "power cut")), seed)
            if rng.random() < 0.5:
                patient.cut_power(seed + 1)
            patient.life.reopen()
            return type(error).__name__
    return "nothing"


def _random_fault(rng: Random) -> Fault:
    skip, part = rng.choice((0, 0, 1, 2, 3, 5, 8, 13, 21)), rng.choice((0.0, 0.3, 0.5, 0.9))
    path = rng.choice(("*", "*/commitlog*", "*/consumequeue*", "*/index*"))
    return rng.choice(
        (
            fault.disk_full(path=path, skip=skip, part=part),
            fault.broken_write(path=path, skip=skip, part=part),
            fault.failed_sync(path=rng.choice(("*", "*/commitlog*")), skip=skip),
            fault.read_only(skip=skip),
        )
    )


def ill_runs(seeds: range, fmt: WritableFormat) -> set[str]:
    found = set()
    for seed in seeds:
        try:
            found.add(ill_run(seed, fmt))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    return found


formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])


@formats
@pytest.mark.timeout(300)
def test_an_illness_at_any_call(fmt: WritableFormat) -> None:
    assert ill_runs(range(RUNS), fmt) >= {error.__name__ for error in NAMED}


@formats
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_an_illness_at_any_call_for_a_long_time(fmt: WritableFormat) -> None:
    ill_runs(range(RUNS, RUNS + LONG_RUNS), fmt)
