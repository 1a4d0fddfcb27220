"""Files: the store's only way to the operating system.

Everything that writes, syncs, names or removes a file goes through a ``FileSystem``, so that tests can put a fake
in its place that forgets, tears, refuses or kills at any call.  Errors are plain ``OSError``; callers name them.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from litemq.store._fs_cy import Descriptor

_FALLOC_FL_ZERO_RANGE = 0x10
_FLOCK = struct.Struct("hhqqi")  # l_type, l_whence, l_start, l_len, l_pid of Linux's struct flock
_libc = ctypes.CDLL(None, use_errno=True)
_ZEROS = bytes(1 << 16)
_RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)

WOULD_BLOCK = -1
"""Answer of ``read_into(…, nowait=True)`` when the bytes are not in the page cache."""

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file."""

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of ``data``; an ``OSError`` leaves any part of it written."""

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to ``size`` bytes; fewer only at the end of the file."""

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        """Fill ``buffer`` and return how many bytes came; fewer only at the end of the file."""

    def read_ahead(self, wanted: bool) -> None:
        """Let reads bring what follows, too, or only what they ask for.

        Behind the growing end of a preallocated file follow zeros: the kernel would make megabytes of them at once.
        """

    def will_need(self, position: int, size: int) -> None:
        """Begin to read bytes that will be asked for soon."""

    def size(self) -> int:
        """Return the file's length."""

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        """Return the (start, end) places at or behind ``position`` outside of which nothing but zeros lies."""

    def sync(self) -> None:
        """Make what was written (and the length) survive a power cut."""

    def zero(self, position: int, size: int) -> None:
        """Make ``size`` bytes read as zeros without writing them one by one; the length does not change."""

    def truncate(self, size: int) -> None:
        """Cut or lengthen the file; new bytes are zeros and take no room."""

    def close(self) -> None:
        """Let go of the file; may be called twice, and happens by itself when nobody refers to the file any more."""


class Lock(Protocol):
    """A lock that is held."""

    def release(self) -> None:
        """Give the lock back; may be called twice."""


class FileSystem(Protocol):
    """The operations on names."""

    def open(self, path: Path, *, write: bool = False) -> File:
        """Open an existing file."""

    def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
        """Make a new file of ``size`` zero bytes, with its disk space when ``reserve``; the name needs ``sync_dir``."""

    def exists(self, path: Path) -> bool: ...

    def is_dir(self, path: Path) -> bool: ...

    def is_own_dir(self, path: Path) -> bool:
        """Return whether a directory that can be renamed is there: no link to one, and no other disk's."""

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory; none when it does not exist."""

    def make_dirs(self, path: Path, *, sync: bool = True) -> None:
        """Make a directory and those above it; their names are durable unless ``sync`` is false."""

    def rename(self, old: Path, new: Path) -> None:
        """Replace ``new`` by ``old`` in one step; the names need ``sync_dir``."""

    def remove(self, path: Path) -> None:
        """Remove a file; nothing happens when there is none."""

    def remove_dir(self, path: Path) -> None:
        """Remove an empty directory; nothing happens when there is none."""

    def sync_dir(self, path: Path) -> None:
        """Make the names of a directory survive a power cut."""

    def sync_all(self, path: Path) -> None:
        """Sync everything on the file system that holds ``path``."""

    def disk(self, path: Path) -> tuple[int, int]:
        """Return (total, free) bytes of the file system that holds ``path``."""

    def lock(self, path: Path) -> Lock | None:
        """Take the POSIX record lock on byte 0 of ``path`` (made when missing); None when another holds it."""

    def is_locked(self, path: Path) -> bool:
        """Return whether somebody, this process included, holds the lock."""


class OsFile(Descriptor):
    """A file of the machine's own file system."""

    __slots__ = ()

    def read_at(self, size: int, position: int) -> bytes:
        data = os.pread(self.fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        have = len(data)
        while have < size:
            data = os.pread(self.fd, size - have, position + have)
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        have = 0
        flags = _RWF_NOWAIT if nowait else 0
        while have < len(buffer):
            try:
                count = os.preadv(self.fd, [buffer[have:]], position + have, flags)
            except BlockingIOError:
                return WOULD_BLOCK
            except OSError as error:
                if not flags or error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
                flags = 0
                continue
            if count == 0:
                break
            have += count
        return have

    def read_ahead(self, wanted: bool) -> None:
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # it is advice: a file system need not take it
                os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_NORMAL if wanted else os.POSIX_FADV_RANDOM)

    def will_need(self, position: int, size: int) -> None:
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self.fd, position, size, os.POSIX_FADV_WILLNEED)

    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        # All at once, before anything is read: reading ahead turns holes into pages, which count as data.
        ranges: list[tuple[int, int]] = []
        try:
            while True:
                start = os.lseek(self.fd, position, os.SEEK_DATA)
                position = os.lseek(self.fd, start, os.SEEK_HOLE)
                ranges.append((start, position))
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole to the end, or nothing there at all
                return ranges
            return [*ranges, (position, self.size())]  # a file system that cannot tell: all may be data

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def zero(self, position: int, size: int) -> None:
        if size <= len(_ZEROS):
            self.write_at(_ZEROS[: max(size, 0)], position)  # quicker than asking for it
            return
        result = _libc.fallocate(self.fd, _FALLOC_FL_ZERO_RANGE, ctypes.c_longlong(position), ctypes.c_longlong(size))
        if result == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code))
        length = self.size()
        if position + size < length:  # not at the end: small, or a file system without the call
            for at in range(position, position + size, len(_ZEROS)):
                self.write_at(_ZEROS[: position + size - at], at)
            return
        os.ftruncate(self.fd, position)
        os.ftruncate(self.fd, max(length, position + size))

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


class OsLock:
    """A POSIX record lock; it ends with the process, however that ends."""

    def __init__(self, fd: int, key: Path) -> None:
        self._fd = fd
        self._key = key

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with _held_guard:
                _held.discard(self._key)


# A record lock does not keep out its own process, and closing any descriptor of the file drops it: remember our own.
_held: set[Path] = set()
_held_guard = threading.Lock()


def _lock_key(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises a RuntimeError when links lead in a circle


def _check_regular(fd: int, path: Path) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))


class OsFileSystem:
    """The machine's own file system."""

    def open(self, path: Path, *, write: bool = False) -> File:
        # O_NONBLOCK: else the open of a pipe would wait for somebody at its other end.
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check_regular(fd, path)
        except OSError:
            os.close(fd)
            raise
        return OsFile(fd)

    def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            if reserve and size:
                self._reserve(fd, size)
            os.ftruncate(fd, size)
        except OSError:
            os.close(fd)
            os.unlink(path)
            raise
        return OsFile(fd)

    @staticmethod
    def _reserve(fd: int, size: int) -> None:
        # Not posix_fallocate: where the file system cannot, glibc would write every block by hand.
        if _libc.fallocate(fd, 0, ctypes.c_longlong(0), ctypes.c_longlong(size)) != 0:
            code = ctypes.get_errno()
            if code not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise OSError(code, os.strerror(code))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_dir(self, path: Path) -> bool:
        return path.is_dir()

    def is_own_dir(self, path: Path) -> bool:
        return path.is_dir() and not path.is_symlink() and not path.is_mount()

    def names(self, path: Path) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def make_dirs(self, path: Path, *, sync: bool = True) -> None:
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            if sync:
                self.sync_dir(new.parent)

    def rename(self, old: Path, new: Path) -> None:
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_dir(self, path: Path) -> None:
        try:
            path.rmdir()
        except FileNotFoundError:
            return

    def sync_dir(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_all(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        finally:
            os.close(fd)

    def disk(self, path: Path) -> tuple[int, int]:
        answer = os.statvfs(path)
        return answer.f_blocks * answer.f_frsize, answer.f_bavail * answer.f_frsize

    def lock(self, path: Path) -> Lock | None:
        key = _lock_key(path)
        with _held_guard:
            if key in _held:
                return None
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
            try:
                _check_regular(fd, path)
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
                if os.fstat(fd).st_size == 0:
                    os.write(fd, b"lock")
            except OSError as error:
                os.close(fd)
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    return None
                raise
            _held.add(key)
        return OsLock(fd, key)

    def is_locked(self, path: Path) -> bool:
        return _holder(path) is not None


def _holder(path: Path) -> int | None:
    """Return the process that holds the lock; None: nobody does."""
    key = _lock_key(path)
    with _held_guard:
        if key in _held:
            return os.getpid()  # and nothing is opened: closing any descriptor of the file would give the lock back
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, question))
            return None if kind == fcntl.F_UNLCK else pid
        finally:
            os.close(fd)


def holder_text(path: Path) -> str:
    """Return who holds the lock, in words for a person."""
    pid = _holder(path)
    if pid is None or pid <= 0:
        return "another process"
    if pid == os.getpid():
        return "this process already"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    command = " ".join(b" ".join(words).decode(errors="replace").split())
    return f"process {pid} ({command[:80]})" if command else f"process {pid}"
