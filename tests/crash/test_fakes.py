"""The fakes themselves: what the forgetful file system keeps, may lose and never invents; faults that strike."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.support import faults as fault
from tests.support.faults import Faults
from tests.support.forgetful_fs import ForgetfulFileSystem, PowerCut
from tests.support.hooked_fs import HookedFileSystem
from tests.support.page_cache import SECTOR
from tests.support.power_switch import MOMENTS, EndAt, Moment, power_off

from litemq.store.fs import File, FileSystem

FOLDER = Path("/store")
A = FOLDER / "a"
B = FOLDER / "b"
SEEDS = range(300)


def new_fs() -> ForgetfulFileSystem:
    fs = ForgetfulFileSystem()
    fs.make_dirs(FOLDER)
    return fs


def durable_file(fs: FileSystem, path: Path, data: bytes) -> File:
    file = fs.create(path, 0)
    file.write_at(data, 0)
    file.sync()
    fs.sync_dir(path.parent)
    return file


def content(fs: FileSystem, path: Path) -> bytes:
    file = fs.open(path)
    return file.read_at(file.size(), 0)


def outcomes(prepare: Callable[[ForgetfulFileSystem], None], path: Path = A) -> set[bytes | None]:
    """Return every content of ``path`` (None: no such file) that a power cut after ``prepare`` leaves."""
    found: set[bytes | None] = set()
    for seed in SEEDS:
        fs = new_fs()
        prepare(fs)
        after = fs.crash(Random(seed))
        found.add(content(after, path) if after.exists(path) else None)
    return found


def test_what_is_synced_survives() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"safe").write_at(b"x", 10)

    assert {data[:4] for data in outcomes(prepare) if data is not None} == {b"safe"}
    assert None not in outcomes(prepare)


def test_what_is_not_synced_is_kept_lost_torn_or_zeros() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"old!").write_at(b"new?", 0)

    assert outcomes(prepare) == {b"new?"[:cut] + b"old!"[cut:] for cut in range(5)}

    def lengthen(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"old!").write_at(b"longer", 0)

    assert outcomes(lengthen) >= {b"old!", b"longer", b"long", b"old!\0\0", b"lld!\0\0"}


def test_sectors_arrive_in_any_order() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        file = durable_file(fs, A, bytes(3 * SECTOR))
        for sector in range(3):
            file.write_at(b"x" * SECTOR, sector * SECTOR)

    whole = {tuple(data[at] for at in range(0, 3 * SECTOR, SECTOR)) for data in outcomes(prepare) if data}
    x = ord("x")
    assert whole == {(a, b, c) for a in (0, x) for b in (0, x) for c in (0, x)}


def test_one_write_is_torn_in_the_middle_too() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, bytes(3 * SECTOR)).write_at(b"x" * 2 * SECTOR, 7)

    found = outcomes(prepare)
    assert any(data and not data[7] and data[SECTOR] for data in found), "its tail without its head"
    assert any(data and data[7] and not data[SECTOR - 1] for data in found), "torn inside a sector"


def test_a_hole_that_was_zeroed_may_come_back_until_it_is_synced() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"ghost").zero(0, 5)

    assert {b"ghost", bytes(5), b"\0host"} <= outcomes(prepare)

    def prepare_synced(fs: ForgetfulFileSystem) -> None:
        file = durable_file(fs, A, b"ghost")
        file.zero(0, 5)
        file.sync()

    assert outcomes(prepare_synced) == {bytes(5)}


def test_what_truncate_cut_off_never_comes_back_behind_it() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        file = durable_file(fs, A, b"ghosts")
        file.truncate(2)
        file.truncate(8)

    assert {b"ghosts", b"gh", b"gh" + bytes(6)} <= outcomes(prepare)
    assert b"ghosts\0\0" not in outcomes(prepare)


@pytest.mark.parametrize("reserve", [False, True])
def test_a_new_file_needs_both_syncs(reserve: bool) -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        fs.create(A, 4, reserve=reserve).write_at(b"new", 0)  # reserved, the length may be any on the way

    def prepare_name(fs: ForgetfulFileSystem) -> None:
        prepare(fs)
        fs.sync_dir(FOLDER)

    def prepare_data(fs: ForgetfulFileSystem) -> None:
        fs.create(A, 4, reserve=reserve).sync()

    assert {None, b"", bytes(4), b"new\0"} <= outcomes(prepare)
    assert None not in outcomes(prepare_name)
    assert {b"", bytes(4), b"new\0"} <= outcomes(prepare_name)
    assert outcomes(prepare_data) == {None, bytes(4)}


def test_names_come_and_go_by_sync_dir() -> None:
    def rename(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"old")
        durable_file(fs, B, b"new")
        fs.rename(B, A)

    def rename_synced(fs: ForgetfulFileSystem) -> None:
        rename(fs)
        fs.sync_dir(FOLDER)

    def remove(fs: ForgetfulFileSystem) -> None:
        durable_file(fs, A, b"old")
        fs.remove(A)

    def remove_synced(fs: ForgetfulFileSystem) -> None:
        remove(fs)
        fs.sync_dir(FOLDER)

    assert outcomes(rename) == {b"old", b"new"}
    assert outcomes(rename, B) == {b"new", None}
    assert outcomes(rename_synced) == {b"new"}
    assert outcomes(remove) == {b"old", None}
    assert outcomes(remove_synced) == {None}


def test_names_change_in_any_order() -> None:
    found = set()
    for seed in SEEDS:
        fs = new_fs()
        durable_file(fs, A, b"")
        fs.remove(A)
        fs.create(B, 0)
        found.add(tuple(fs.crash(Random(seed)).names(FOLDER)))
    assert found == {("a",), ("b",), ("a", "b"), ()}


def test_directories_are_durable_when_made_and_gone_with_their_files() -> None:
    for seed in SEEDS:
        fs = new_fs()
        fs.make_dirs(FOLDER / "x" / "y")
        assert fs.crash(Random(seed)).is_dir(FOLDER / "x" / "y")
    found = set()
    for seed in SEEDS:
        fs = new_fs()
        fs.make_dirs(FOLDER / "x", sync=False)
        found.add(fs.crash(Random(seed)).is_dir(FOLDER / "x"))
    assert found == {False, True}
    fs = new_fs()
    fs.make_dirs(FOLDER / "x")
    durable_file(fs, FOLDER / "x" / "a", b"")
    fs.remove(FOLDER / "x" / "a")
    fs.remove_dir(FOLDER / "x")
    fs.sync_dir(FOLDER)
    assert fs.crash(Random(0)).names(FOLDER) == []


def test_sync_all_covers_everything() -> None:
    def prepare(fs: ForgetfulFileSystem) -> None:
        fs.create(B, 0).write_at(b"data", 0)
        fs.rename(B, A)
        fs.sync_all(FOLDER)

    assert outcomes(prepare) == {b"data"}


def test_a_killed_process_loses_nothing_but_saves_nothing() -> None:
    fs = new_fs()
    fs.create(A, 0).write_at(b"data", 0)
    lock = fs.lock(FOLDER / "lock")
    assert lock is not None
    after = fs.kill()
    assert content(after, A) == b"data"
    assert not after.is_locked(FOLDER / "lock")
    assert {after.crash(Random(seed)).exists(A) for seed in SEEDS} == {False, True}


def test_the_same_seed_forgets_the_same() -> None:
    def after(seed: int) -> list[tuple[str, bytes]]:
        fs = new_fs()
        for number in range(10):
            file = fs.create(FOLDER / str(number), 0)
            for at in range(0, 3000, 300):
                file.write_at(b"x" * 300, at)
        cut = fs.crash(Random(seed))
        return [(name, content(cut, FOLDER / name)) for name in cut.names(FOLDER)]

    assert [after(seed) for seed in range(20)] == [after(seed) for seed in range(20)]


def test_after_the_cut_nothing_answers() -> None:
    fs = new_fs()
    file = durable_file(fs, A, b"data")
    fs.crash(Random(0))
    for call in (lambda: file.write_at(b"x", 0), file.sync, lambda: fs.open(A), lambda: fs.names(FOLDER)):
        with pytest.raises(PowerCut):
            call()


def test_the_switch_cuts_in_a_call() -> None:
    def run(number: int, moment: Moment) -> bytes:
        disk = new_fs()
        fs = HookedFileSystem(disk, EndAt(number, moment, power_off))
        with pytest.raises(PowerCut):
            durable_file(fs, A, b"data")
        return content(disk, A) if disk.exists(A) else b"-"

    assert [run(0, moment) for moment in MOMENTS] == [b"-", b"-", b""]
    assert [run(1, moment) for moment in MOMENTS] == [b"", b"da", b"data"]


# -- faults -----------------------------------------------------------------------------------------------------------


def test_faults_strike_as_planned_and_can_be_cured() -> None:
    faults = Faults()
    fs = HookedFileSystem(new_fs(), faults)
    file = durable_file(fs, A, b"data")
    faults.add(fault.disk_full(path="*/a", skip=1, part=0.5))
    file.write_at(b"1", 0)
    with pytest.raises(OSError, match="No space") as caught:
        file.write_at(b"XXXX", 0)
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(4, 0) == b"XXta"
    fs.create(B, 0).write_at(b"not on this path", 0)
    assert faults.struck == 1
    faults.cure()
    file.write_at(b"fine", 0)
    assert file.read_at(4, 0) == b"fine"


def test_a_read_only_disk_reads() -> None:
    faults = Faults()
    fs = HookedFileSystem(new_fs(), faults)
    file = durable_file(fs, A, b"data")
    faults.add(fault.read_only())
    calls: list[Callable[[], object]] = [
        lambda: file.write_at(b"x", 0),
        lambda: file.zero(0, 1),
        lambda: file.truncate(0),
        lambda: fs.create(B, 0),
        lambda: fs.remove(A),
        lambda: fs.rename(A, B),
        lambda: fs.make_dirs(B),
    ]
    for call in calls:
        with pytest.raises(OSError, match="Read-only"):
            call()
    assert file.read_at(4, 0) == b"data"
    assert content(fs, A) == b"data"


def test_after_a_failed_sync_the_next_one_saves_nothing_of_before() -> None:
    found = set()
    for seed in SEEDS:
        disk = new_fs()
        faults = Faults(seed)
        file = durable_file(HookedFileSystem(disk, faults), A, b"old!")
        faults.add(fault.failed_sync())
        file.write_at(b"new?", 0)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        assert file.read_at(4, 0) == b"new?", "the page cache still has it"
        file.sync()
        found.add(content(disk.crash(Random(seed)), A))
    assert {b"old!", b"new?"} <= found
