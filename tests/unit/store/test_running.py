"""The mark of a running store, and what it remembers of the last flush."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.faults import Faults, broken_write, failed_sync
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.unit.store.live_support import bodies, fill, open_store

from litemq.errors import FlushFailed
from litemq.store.fs import OsFileSystem
from litemq.store.running import RunningMark


class LogWrites:
    """Hook that counts the bytes written to the log."""

    def __init__(self) -> None:
        self.size = 0

    def before(self, call: Call) -> bool:
        if call.kind == "write" and "commitlog" in str(call.path):
            self.size += len(call.data)
        return True

    def after(self, call: Call) -> None: ...


def mark_at(path: Path) -> RunningMark:
    return RunningMark(OsFileSystem(), path / "abort")


def test_it_is_there_until_a_clean_stop(tmp_path: Path) -> None:
    mark = mark_at(tmp_path)
    assert not mark.was_there
    mark.close()
    again = mark_at(tmp_path)
    assert again.was_there
    again.remove()
    again.close()
    assert not mark_at(tmp_path).was_there


def test_it_remembers_the_last_flush_of_the_last_run_only(tmp_path: Path) -> None:
    mark = mark_at(tmp_path)
    assert mark.flushed == 0
    mark.note_flushed(12)
    mark.note_flushed(3_000_000_000_000)
    mark.close()
    again = mark_at(tmp_path)
    assert again.flushed == 3_000_000_000_000
    again.close()
    assert mark_at(tmp_path).flushed == 0


@pytest.mark.parametrize("text", [b"", b"12345", b"flushed=", b"flushed=-7", b"flushed=12x", b"\0" * 28])
def test_what_says_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "abort").write_bytes(text)
    mark = mark_at(tmp_path)
    assert mark.was_there
    assert mark.flushed == 0


def test_a_disk_that_takes_no_note_does_no_harm(tmp_path: Path) -> None:
    faults = Faults()
    mark = RunningMark(HookedFileSystem(OsFileSystem(), faults), tmp_path / "abort")
    faults.add(broken_write())
    mark.note_flushed(7)
    assert faults.struck
    mark.close()
    assert mark_at(tmp_path).flushed == 0


def test_after_a_kill_only_what_was_not_flushed_is_written_again(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    sent = fill(store, 40)
    store.flush()
    flushed = store.flushed_end
    sent += fill(store, 5)
    rest = store.appended_end - flushed
    store.abandon()
    writes = LogWrites()
    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), writes)) as again:
        assert bodies(again) == sent
        assert 0 < writes.size <= rest + 4096, "what was flushed is on disk"


def test_after_a_flush_that_failed_all_of_it_is_written_again(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), faults))
    fill(store, 5)
    store.flush()
    flushed = store.flushed_end
    fill(store, 40)
    end = store.appended_end
    faults.add(failed_sync())
    with pytest.raises(FlushFailed):
        store.flush()
    store.abandon()
    writes = LogWrites()
    with open_store(tmp_path, fs=HookedFileSystem(OsFileSystem(), writes)):
        assert writes.size >= end - flushed
