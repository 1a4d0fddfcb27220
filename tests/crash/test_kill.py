"""``kill -9`` at every call that changes a file, on real files."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.crash import oracle
from tests.crash.lives import Life
from tests.crash.model import Memory
from tests.crash.notes import Notes, Request, encode
from tests.crash.workload import Append
from tests.support.killer_fs import real_fs
from tests.support.power_switch import MOMENTS, Moment

from litemq.config import StoreConfig, WritableFormat
from litemq.types import Message

pytestmark = pytest.mark.crash
formats = pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    "segment_bytes": 4096,
    "queue_entries": 8,
    "index_slots": 16,
    "index_entries": 30,
    "max_body_bytes": 1024,
    "checkpoint_interval_ms": 1000,
    "progress_interval_ms": 1000,
    "retention_hours": 1,
    "delete_hour": None,
    "open_files": 3,
}

FAULT_POINTS = {
    *("appender", "commit_log", "segments", "flush", "checkpoint", "snapshot", "consume_queue", "key_index"),
    *("running", "checkpointer", "opening"),
}
"""Modules whose calls must be among those that are killed at."""


class Killer:
    """The process that forks writers and lets them die."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, request: Request) -> int:
        """Return the exit status of a writer, minus the signal that killed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(encode(request))
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@pytest.fixture
def killer(caplog: pytest.LogCaptureFixture) -> Iterator[Killer]:
    caplog.set_level(logging.CRITICAL)
    process = Killer()
    yield process
    process.close()


def moments(kind: str) -> tuple[Moment, ...]:
    return MOMENTS if kind == "write" else ("before", "after")


def new_store(folder: Path, fmt: WritableFormat) -> Path:
    """Make a place for a store, and return the path of its notes."""
    folder.mkdir()
    config = StoreConfig(format=fmt, flush="group", **SETTINGS)  # type: ignore[arg-type]
    Notes(Memory(config, root=folder / "store")).save(folder / "notes")
    return folder / "notes"


def check(path: Path) -> None:
    """Open a store that was killed, compare it with the notes, use it and close it."""
    notes = Notes.load(path)
    memory, fs = notes.memory, real_fs()
    log = memory.scan(fs)
    if notes.is_open:
        memory.note(log)
        oracle.check_written(memory, log)
    else:
        memory.note_opening(log)
    image = oracle.take_image(memory, fs)
    oracle.check_claims(memory, image)
    life = Life(memory, fs, fs)
    oracle.check_open(memory, life.store, fs, image)
    life.do(Append((Message("alpha", b"the end|"),), together=False))
    life.reopen()
    oracle.check_reads(memory, life.store, memory.scan(fs))
    life.store.close()


def sites_of(folder: Path) -> list[tuple[str, str]]:
    """Return (kind, place) of each call that a writer made."""
    found: list[tuple[str, str]] = json.loads((folder / "sites").read_text())
    return found


def some_calls(sites: list[tuple[str, str]]) -> list[int]:
    """Return the first, a middle and the last call of every place."""
    by_site: dict[str, list[int]] = {}
    for number, (_, site) in enumerate(sites):
        by_site.setdefault(site, []).append(number)
    return sorted({calls[at] for calls in by_site.values() for at in (0, len(calls) // 2, -1)})


@contextmanager
def explained(text: str) -> Iterator[None]:
    """Let a failure say when it happened."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


def kill_at(killer: Killer, folder: Path, fmt: WritableFormat, sites: list[tuple[str, str]], number: int) -> None:
    """Kill a writer at a call, at each moment of it, and check what it leaves."""
    kind, site = sites[number]
    for moment in moments(kind):
        path = new_store(folder, fmt)
        assert killer.run(Request(str(path), number, moment, steps=True)) == -signal.SIGKILL, site
        with explained(f"killed {moment} call {number}: {site}"):
            check(path)
        shutil.rmtree(folder)


def whole_life(killer: Killer, folder: Path, fmt: WritableFormat) -> list[tuple[str, str]]:
    """Let a writer live to its end, and return the calls that it made."""
    path = new_store(folder, fmt)
    assert killer.run(Request(str(path), -1, "before", steps=True)) == 0
    check(path)
    return sites_of(folder)


@formats
@pytest.mark.timeout(600)
def test_a_writer_killed_at_any_fault_point_loses_nothing(killer: Killer, tmp_path: Path, fmt: WritableFormat) -> None:
    sites = whole_life(killer, tmp_path / "whole", fmt)
    assert {site.split()[2].partition(".")[0] for _, site in sites} >= FAULT_POINTS
    for number in some_calls(sites):
        kill_at(killer, tmp_path / "killed", fmt, sites, number)


@formats
@pytest.mark.timeout(600)
def test_a_recovery_killed_at_any_call_is_done_by_the_next_one(
    killer: Killer, tmp_path: Path, fmt: WritableFormat
) -> None:
    base = tmp_path / "base"
    calls = len(whole_life(killer, tmp_path / "whole", fmt))
    path = new_store(base, fmt)
    assert killer.run(Request(str(path), calls - 1, "after", steps=True)) == -signal.SIGKILL
    tear(path)
    assert killer.run(Request(str(copy_of(base, tmp_path / "recovered")), -1, "before", steps=False)) == 0
    sites = sites_of(tmp_path / "recovered")
    assert {site.split()[2].partition(".")[0] for _, site in sites} >= {"recovery", "key_index"}
    for number, (kind, site) in enumerate(sites):
        for moment in moments(kind):
            path = copy_of(base, tmp_path / "killed")
            assert killer.run(Request(str(path), number, moment, steps=False)) == -signal.SIGKILL, site
            with explained(f"killed {moment} call {number}: {site}"):
                check(path)
            shutil.rmtree(tmp_path / "killed")


def tear(path: Path) -> None:
    """Damage a record behind the checkpoint, with sound ones behind it, also in the next segment."""
    notes = Notes.load(path)
    memory, fs = notes.memory, real_fs()
    memory.note(memory.scan(fs))
    end = oracle.checkpointed(memory, fs)
    torn = next(record for record in memory.legit.values() if record.position > end)
    assert max(memory.legit) // 4096 > torn.position // 4096
    file = fs.open(memory.root / "commitlog" / f"{torn.position - torn.position % 4096:020d}", write=True)
    file.write_at(bytes(60), torn.position % 4096 + 20)
    file.close()
    memory.flushed = torn.position
    memory.messages = {at: found for at, found in memory.messages.items() if at < torn.position}
    notes.is_open = False
    notes.save(path)


def copy_of(base: Path, folder: Path) -> Path:
    """Copy a store with its notes, and return the path of these."""
    shutil.copytree(base, folder)
    notes = Notes.load(folder / "notes")
    notes.memory.root = folder / "store"
    notes.save(folder / "notes")
    return folder / "notes"


@formats
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_writer_killed_at_any_call_loses_nothing(killer: Killer, tmp_path: Path, fmt: WritableFormat) -> None:
    sites = whole_life(killer, tmp_path / "whole", fmt)
    for number in range(len(sites)):
        kill_at(killer, tmp_path / "killed", fmt, sites, number)
