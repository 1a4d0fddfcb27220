"""What every file system promises: the real one, the forgetful fake, and either behind a hook."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.forgetful_fs import ForgetfulFileSystem
from tests.support.hooked_fs import HookedFileSystem
from tests.support.power_switch import CallLog

from litemq.store.fs import WOULD_BLOCK, FileSystem, OsFileSystem


def forgetful() -> FileSystem:
    return ForgetfulFileSystem()


def hooked_os() -> FileSystem:
    return HookedFileSystem(OsFileSystem(), CallLog())


def hooked_forgetful() -> FileSystem:
    return HookedFileSystem(ForgetfulFileSystem(), CallLog())


@pytest.fixture(params=[OsFileSystem, forgetful, hooked_os, hooked_forgetful])
def fs(request: pytest.FixtureRequest) -> FileSystem:
    make: Callable[[], FileSystem] = request.param
    return make()


@pytest.fixture
def folder(fs: FileSystem, tmp_path: Path) -> Path:
    path = tmp_path / "store"
    fs.make_dirs(path)
    return path


def write(fs: FileSystem, path: Path, data: bytes) -> None:
    file = fs.create(path, 0)
    file.write_at(data, 0)
    file.close()


def read(fs: FileSystem, path: Path) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(file.size() + 1, 0)
    finally:
        file.close()


# -- files ------------------------------------------------------------------------------------------------------------


def test_what_is_said_about_reading_changes_no_byte(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"abc" * 5000)
    file = fs.open(folder / "a", write=True)
    for wanted in (False, True):
        file.read_ahead(wanted)
        file.will_need(100, 5000)
        file.will_need(14_000, 1 << 20)  # beyond the end
        assert file.read_at(20_000, 0) == b"abc" * 5000
        assert file.size() == 15_000
    file.close()


@pytest.mark.parametrize("reserve", [False, True])
def test_a_new_file_is_zeros_of_the_size_asked_for(fs: FileSystem, folder: Path, reserve: bool) -> None:
    file = fs.create(folder / "a", 5000, reserve=reserve)
    assert file.size() == 5000
    assert file.read_at(6000, 0) == bytes(5000)


def test_create_refuses_a_name_that_is_taken(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"here")
    with pytest.raises(FileExistsError):
        fs.create(folder / "a", 10)
    assert read(fs, folder / "a") == b"here"


def test_create_and_open_need_the_directory_and_the_file(fs: FileSystem, folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fs.create(folder / "none" / "a", 0)
    with pytest.raises(FileNotFoundError):
        fs.open(folder / "a")
    with pytest.raises(FileNotFoundError):
        fs.open(folder / "a", write=True)


def test_open_takes_files_only(fs: FileSystem, folder: Path) -> None:
    with pytest.raises(IsADirectoryError):
        fs.open(folder)


def test_open_neither_waits_for_a_pipe_nor_reads_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with pytest.raises(OSError, match="no regular file"):
            OsFileSystem().open(path)


def test_what_is_written_is_read_by_every_handle(fs: FileSystem, folder: Path) -> None:
    file = fs.create(folder / "a", 10)
    reader = fs.open(folder / "a")
    file.write_at(b"one", 2)
    file.write_at(bytearray(b"two"), 5)
    file.write_at(memoryview(b"..x..")[2:3], 9)
    file.write_at(b"", 50)
    assert reader.read_at(10, 0) == b"\0\0onetwo\0x"
    assert reader.size() == 10


def test_a_write_behind_the_end_lengthens_the_file_with_zeros(fs: FileSystem, folder: Path) -> None:
    file = fs.create(folder / "a", 2)
    file.write_at(b"end", 5)
    assert file.read_at(100, 0) == b"\0\0\0\0\0end"


def test_reads_are_short_only_at_the_end(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"0123456789")
    file = fs.open(folder / "a")
    assert file.read_at(4, 3) == b"3456"
    assert file.read_at(4, 8) == b"89"
    assert file.read_at(4, 10) == b""
    assert file.read_at(4, 1000) == b""
    assert file.read_at(0, 0) == b""


@pytest.mark.parametrize("nowait", [False, True])
def test_read_into_fills_the_buffer_and_leaves_the_rest_alone(fs: FileSystem, folder: Path, nowait: bool) -> None:
    write(fs, folder / "a", b"0123456789")
    file = fs.open(folder / "a")
    buffer = bytearray(b"......")
    answer = file.read_into(memoryview(buffer), 6, nowait=nowait)
    if nowait and answer == WOULD_BLOCK:
        return
    assert (answer, bytes(buffer)) == (4, b"6789..")
    assert file.read_into(memoryview(buffer)[:2], 0) == 2
    assert bytes(buffer) == b"0189.."


def test_a_file_opened_for_reading_takes_no_changes(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"0123456789")
    file = fs.open(folder / "a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(b"x", 0)
    with pytest.raises(OSError):  # noqa: PT011 - EBADF or EINVAL, as the call likes
        file.truncate(1)
    assert read(fs, folder / "a") == b"0123456789"


def test_a_closed_file_is_closed(fs: FileSystem, folder: Path) -> None:
    file = fs.create(folder / "a", 10)
    file.close()
    file.close()
    for call in (lambda: file.read_at(1, 0), lambda: file.write_at(b"x", 0), file.size):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()


@pytest.mark.parametrize(
    ("position", "size"), [(0, 10_000), (1, 9_999), (700, 5_000), (4096, 4096), (9_999, 1), (5, 0)]
)
def test_zero_clears_a_range_and_keeps_the_length(fs: FileSystem, folder: Path, position: int, size: int) -> None:
    data = b"x" * 10_000
    write(fs, folder / "a", data)
    file = fs.open(folder / "a", write=True)
    file.zero(position, size)
    assert file.size() == 10_000
    assert file.read_at(10_000, 0) == data[:position] + bytes(size) + data[position + size :]


def test_truncate_cuts_and_lengthens_with_zeros(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"0123456789")
    file = fs.open(folder / "a", write=True)
    file.truncate(4)
    assert file.read_at(100, 0) == b"0123"
    file.truncate(6)
    assert file.read_at(100, 0) == b"0123\0\0"


@pytest.mark.parametrize("position", [0, 5_000, 100_000, 150_000])
def test_data_ranges_leave_out_zeros_only(fs: FileSystem, folder: Path, position: int) -> None:
    file = fs.create(folder / "a", 200_000)
    file.write_at(b"one", 70)
    file.write_at(b"two", 120_000)
    ranges = file.data_ranges(position)
    assert ranges == sorted(ranges)
    seen = set()
    for start, end in ranges:
        assert position <= start < end <= 200_000
        seen |= {at for at in (*range(70, 73), *range(120_000, 120_003)) if start <= at < end}
    assert seen == {at for at in (*range(70, 73), *range(120_000, 120_003)) if at >= position}


def test_sync_can_be_called_any_time(fs: FileSystem, folder: Path) -> None:
    file = fs.create(folder / "a", 10)
    file.sync()
    file.write_at(b"x", 0)
    file.sync()
    fs.open(folder / "a").sync()
    fs.sync_dir(folder)
    fs.sync_all(folder)
    assert file.read_at(2, 0) == b"x\0"


def test_a_removed_file_stays_readable_through_its_handles(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"old")
    file = fs.open(folder / "a")
    fs.remove(folder / "a")
    write(fs, folder / "a", b"new")
    assert file.read_at(3, 0) == b"old"
    assert read(fs, folder / "a") == b"new"


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_are_sorted_and_none_without_a_directory(fs: FileSystem, folder: Path) -> None:
    for name in ("b", "c", "a"):
        write(fs, folder / name, b"")
    fs.make_dirs(folder / "d")
    assert fs.names(folder) == ["a", "b", "c", "d"]
    assert fs.names(folder / "d") == []
    assert fs.names(folder / "none") == []
    with pytest.raises(NotADirectoryError):
        fs.names(folder / "a")


def test_exists_and_is_dir(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"")
    assert fs.exists(folder / "a")
    assert not fs.is_dir(folder / "a")
    assert fs.exists(folder)
    assert fs.is_dir(folder)
    for path in (folder / "none", folder / "a" / "below"):
        assert not fs.exists(path)
        assert not fs.is_dir(path)


def test_make_dirs_makes_all_that_is_missing(fs: FileSystem, folder: Path) -> None:
    fs.make_dirs(folder / "x" / "y" / "z")
    fs.make_dirs(folder / "x" / "y" / "z")
    assert fs.is_dir(folder / "x" / "y" / "z")
    write(fs, folder / "a", b"")
    with pytest.raises(FileExistsError):
        fs.make_dirs(folder / "a")


def test_make_dirs_without_a_sync_makes_them_too(fs: FileSystem, folder: Path) -> None:
    fs.make_dirs(folder / "x" / "y", sync=False)
    write(fs, folder / "x" / "y" / "a", b"a")
    assert read(fs, folder / "x" / "y" / "a") == b"a"


def test_rename_replaces(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "new", b"new")
    write(fs, folder / "old", b"old")
    fs.rename(folder / "new", folder / "old")
    assert fs.names(folder) == ["old"]
    assert read(fs, folder / "old") == b"new"
    with pytest.raises(FileNotFoundError):
        fs.rename(folder / "new", folder / "old")


def test_rename_moves_directories_between_directories(fs: FileSystem, folder: Path) -> None:
    fs.make_dirs(folder / "one" / "deep")
    fs.make_dirs(folder / "two")
    write(fs, folder / "one" / "deep" / "a", b"a")
    fs.rename(folder / "one" / "deep", folder / "two" / "deep")
    assert fs.names(folder / "one") == []
    assert read(fs, folder / "two" / "deep" / "a") == b"a"
    fs.make_dirs(folder / "one" / "other")
    with pytest.raises(OSError, match="not empty"):
        fs.rename(folder / "one" / "other", folder / "two" / "deep")
    write(fs, folder / "file", b"")
    with pytest.raises(IsADirectoryError):
        fs.rename(folder / "file", folder / "two")
    with pytest.raises(NotADirectoryError):
        fs.rename(folder / "one", folder / "file")


def test_remove_takes_files_only_and_does_not_mind_none(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"")
    fs.remove(folder / "a")
    fs.remove(folder / "a")
    fs.remove(folder / "none" / "a")
    assert fs.names(folder) == []
    fs.make_dirs(folder / "d")
    with pytest.raises(IsADirectoryError):
        fs.remove(folder / "d")


def test_remove_dir_takes_empty_directories_only(fs: FileSystem, folder: Path) -> None:
    fs.make_dirs(folder / "d")
    write(fs, folder / "d" / "a", b"")
    with pytest.raises(OSError, match="not empty"):
        fs.remove_dir(folder / "d")
    fs.remove(folder / "d" / "a")
    fs.remove_dir(folder / "d")
    fs.remove_dir(folder / "d")
    assert fs.names(folder) == []
    write(fs, folder / "a", b"")
    with pytest.raises(NotADirectoryError):
        fs.remove_dir(folder / "a")


def test_sync_dir_needs_a_directory(fs: FileSystem, folder: Path) -> None:
    write(fs, folder / "a", b"")
    with pytest.raises(FileNotFoundError):
        fs.sync_dir(folder / "none")
    with pytest.raises(NotADirectoryError):
        fs.sync_dir(folder / "a")
    with pytest.raises(FileNotFoundError):
        fs.sync_all(folder / "none")


def test_disk_says_total_and_free(fs: FileSystem, folder: Path) -> None:
    total, free = fs.disk(folder)
    assert total >= free >= 0
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the code is what counts
        fs.disk(folder / "none")
    assert caught.value.errno == errno.ENOENT


def test_own_directories(fs: FileSystem, folder: Path) -> None:
    fs.create(folder / "file", 0).close()
    assert fs.is_own_dir(folder)
    assert not fs.is_own_dir(folder / "file")
    assert not fs.is_own_dir(folder / "missing")


# -- the lock ----------------------------------------------------------------------------------------------------------


def test_one_lock_at_a_time(fs: FileSystem, folder: Path) -> None:
    path = folder / "lock"
    assert not fs.is_locked(path)
    lock = fs.lock(path)
    assert lock is not None
    assert fs.exists(path)
    assert fs.is_locked(path)
    assert fs.lock(path) is None
    assert fs.is_locked(path)
    lock.release()
    lock.release()
    assert not fs.is_locked(path)
    again = fs.lock(path)
    assert again is not None
    lock.release()
    assert fs.is_locked(path), "a lock that was given back must not give back another's"
    again.release()


@pytest.mark.parametrize("kind", ["pipe", "loop", "nowhere", "folder"])
def test_a_lock_that_is_no_file_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    put_no_file(path, kind)
    fs = OsFileSystem()
    assert not fs.is_locked(path)
    with pytest.raises(OSError, match="lock"):
        fs.lock(path)


def put_no_file(path: Path, kind: str) -> None:
    """Make something that a name of a store should not be."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.touch()
    else:
        path.symlink_to(path if kind == "loop" else path.parent / "not-mounted" / "lock")
