"""A file system in memory that forgets, at a power cut, whatever was not synced.

Data and length of a file become durable by ``sync`` (see ``page_cache``), names by ``sync_dir`` of their directory, a
directory by ``make_dirs`` (unless told not to sync), everything by ``sync_all``.  The rest may survive or not:

    fs.crash(rng)   a power cut: returns the file system that the machine finds afterwards; equal seeds, equal result
    fs.kill()       the process died: everything written is there, but still not safe from a power cut

Both end the old file system: every later call on it or on its files raises ``PowerCut``, so that a forgotten thread
cannot reach the new one.
"""

from __future__ import annotations

import errno
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.page_cache import ANY, Fate, PageCache

from litemq.store.fs import WOULD_BLOCK, Buffer, File, Lock

GIB = 1 << 30

_ONE_FATE: tuple[Fate | None, ...] = ("lost", "kept", None, None, None, None)
"""The same for all files; None: each file has its own."""


class PowerCut(BaseException):
    """The machine is off.  Not an ``Exception``: nothing in the store may catch it."""


class _Directory:
    __slots__ = ("disk", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.disk: dict[str, _Node] = {}


_Node = PageCache | _Directory
_Edit = tuple[_Directory, str, _Node | None]


@dataclass(slots=True)
class _Disk:
    """What outlives a process."""

    root: _Directory = field(default_factory=_Directory)
    names: list[tuple[_Edit, ...]] = field(default_factory=list)
    """Changes of names that are not durable yet, oldest first; the edits of one change come together."""
    total_bytes: int = 1000 * GIB
    free_bytes: int = 900 * GIB


class ForgetfulFile:
    """An open file."""

    __slots__ = ("_content", "_fs", "_write", "path")

    def __init__(self, fs: ForgetfulFileSystem, path: Path, content: PageCache, *, write: bool) -> None:
        self.path = path
        self._fs = fs
        self._content: PageCache | None = content
        self._write = write

    def write_at(self, data: Buffer, position: int) -> None:
        with self._fs.running:
            self._writable().write(position, bytes(data))

    def read_at(self, size: int, position: int) -> bytes:
        with self._fs.running:
            return bytes(self._open().cache[position : position + size])

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        with self._fs.running:
            if nowait and self._fs.is_cold:
                return WOULD_BLOCK
            data = self._open().cache[position : position + len(buffer)]
            buffer[: len(data)] = data
            return len(data)

    def read_ahead(self, wanted: bool) -> None:
        self._open()

    def will_need(self, position: int, size: int) -> None:
        self._open()

    def size(self) -> int:
        with self._fs.running:
            return len(self._open().cache)

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        with self._fs.running:
            content = bytes(self._open().cache[position:])
            start = len(content) - len(content.lstrip(b"\0"))
            end = len(content.rstrip(b"\0"))
            return [(position + start, position + end)] if start < end else []

    def sync(self) -> None:
        with self._fs.running:
            self._open().sync()

    def fail_sync(self, rng: Random) -> None:
        """Lose dirty pages as a failed ``sync`` does; raising the error is the caller's part."""
        with self._fs.running:
            self._open().fail_sync(rng)

    def zero(self, position: int, size: int) -> None:
        with self._fs.running:
            self._writable().zero(position, size)

    def truncate(self, size: int) -> None:
        with self._fs.running:
            self._writable().truncate(size)

    def close(self) -> None:
        self._content = None

    def _open(self) -> PageCache:
        if self._content is None:
            raise _error(errno.EBADF, self.path)
        return self._content

    def _writable(self) -> PageCache:
        content = self._open()
        if not self._write:
            raise _error(errno.EBADF, self.path)
        return content


class ForgetfulLock:
    """A lock that is held until it is released or the process ends."""

    def __init__(self, held: dict[int, ForgetfulLock], key: int) -> None:
        self._held = held
        self._key = key
        held[key] = self

    def release(self) -> None:
        if self._held.get(self._key) is self:
            del self._held[self._key]


class _Running:
    """One call at a time, and none after the end."""

    def __init__(self) -> None:
        self.is_over = False
        self.lock = threading.RLock()

    def __enter__(self) -> None:
        self.lock.acquire()
        if self.is_over:
            self.lock.release()
            raise PowerCut

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def end(self) -> None:
        """Let no call begin any more; one of another thread that is under way comes to its end first."""
        with self.lock:
            self.is_over = True


class ForgetfulFileSystem:
    """The fake; begins with an empty root directory."""

    def __init__(self, disk: _Disk | None = None) -> None:
        self.running = _Running()
        self.is_cold = False
        """Whether reads with ``nowait`` find nothing in the page cache."""
        self._disk = disk or _Disk()
        self._held: dict[int, ForgetfulLock] = {}

    # -- the ends ---------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Let every later call raise ``PowerCut``."""
        self.running.end()

    def kill(self) -> ForgetfulFileSystem:
        """End the process and return what the next one finds."""
        self.stop()
        return ForgetfulFileSystem(self._disk)

    def crash(self, rng: Random, *, fate: Fate | None = None) -> ForgetfulFileSystem:
        """Cut the power and return what the next start of the machine finds.

        ``fate`` is that of every file; without it the seed decides.
        """
        self.stop()
        names = self._names_after_power_cut(rng)
        one_fate: Fate | None = rng.choice(_ONE_FATE) if fate is None else fate
        made: dict[int, _Node] = {}

        def survivor(node: _Node) -> _Node:
            if id(node) not in made:
                if isinstance(node, PageCache):
                    its_fate: Fate = rng.choice(ANY) if one_fate is None else one_fate
                    made[id(node)] = PageCache(node.after_power_cut(rng, its_fate))
                else:
                    made[id(node)] = copy = _Directory()
                    for name, child in names.get(id(node), node.disk).items():
                        copy.entries[name] = survivor(child)
                    copy.disk = dict(copy.entries)
            return made[id(node)]

        root = survivor(self._disk.root)
        assert isinstance(root, _Directory)
        return ForgetfulFileSystem(_Disk(root, [], self._disk.total_bytes, self._disk.free_bytes))

    def _names_after_power_cut(self, rng: Random) -> dict[int, dict[str, _Node]]:
        pending = self._disk.names
        fate = rng.choice(ANY)
        if fate == "ordered":
            pending = pending[: rng.randint(0, len(pending))]
        elif fate in ("scattered", "recent"):
            pending = [change for change in pending if rng.random() < 0.5]
        elif fate == "lost":
            pending = []
        names: dict[int, dict[str, _Node]] = {}
        for change in pending:
            for directory, name, node in change:
                entries = names.setdefault(id(directory), dict(directory.disk))
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        return names

    def durable(self, path: Path) -> bytes | None:
        """Return what of a file survives any power cut from now on, or survived it; None when its name may not."""
        with self.running.lock:
            parent = self._directory(path.parent)
            node = parent.disk.get(path.name)
            return bytes(node.disk) if isinstance(node, PageCache) and parent.entries.get(path.name) is node else None

    def fail_sync_all(self, rng: Random) -> None:
        """Lose dirty pages as a failed ``sync_all`` does."""
        with self.running:
            for content in self._files():
                content.fail_sync(rng)

    def set_disk(self, *, total_bytes: int, free_bytes: int) -> None:
        """Set what ``disk`` answers."""
        self._disk.total_bytes = total_bytes
        self._disk.free_bytes = free_bytes

    # -- FileSystem ---------------------------------------------------------------------------------------------------

    def open(self, path: Path, *, write: bool = False) -> File:
        with self.running:
            node = self._node(path)
            if isinstance(node, _Directory):
                raise _error(errno.EISDIR, path)
            return ForgetfulFile(self, path, node, write=write)

    def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
        with self.running:
            parent = self._directory(path.parent)
            if path.name in parent.entries:
                raise _error(errno.EEXIST, path)
            content = PageCache()
            if reserve:  # a file system gives room in several steps, and journals the length after each
                content.truncate(size // 3)
                content.truncate(size // 2)
            content.truncate(size)
            self._rename(((parent, path.name, content),))
            return ForgetfulFile(self, path, content, write=True)

    def exists(self, path: Path) -> bool:
        with self.running:
            return self._find(path) is not None

    def is_dir(self, path: Path) -> bool:
        with self.running:
            return isinstance(self._find(path), _Directory)

    def is_own_dir(self, path: Path) -> bool:
        return self.is_dir(path)

    def names(self, path: Path) -> list[str]:
        with self.running:
            if self._find(path) is None:
                return []
            return sorted(self._directory(path).entries)

    def make_dirs(self, path: Path, *, sync: bool = True) -> None:
        with self.running:
            directory = self._disk.root
            for name in _parts(path):
                child = directory.entries.get(name)
                if child is None:
                    child = _Directory()
                    self._rename(((directory, name, child),))
                    if sync:
                        self._sync_dir(directory)
                if not isinstance(child, _Directory):
                    raise _error(errno.EEXIST, path)
                directory = child

    def rename(self, old: Path, new: Path) -> None:
        with self.running:
            node = self._node(old)
            parent = self._directory(new.parent)
            target = parent.entries.get(new.name)
            if isinstance(target, _Directory):
                if not isinstance(node, _Directory):
                    raise _error(errno.EISDIR, new)
                if target.entries:
                    raise _error(errno.ENOTEMPTY, new)
            elif target is not None and isinstance(node, _Directory):
                raise _error(errno.ENOTDIR, new)
            if target is not node:
                self._rename(((self._directory(old.parent), old.name, None), (parent, new.name, node)))

    def remove(self, path: Path) -> None:
        with self.running:
            node = self._find(path)
            if isinstance(node, _Directory):
                raise _error(errno.EISDIR, path)
            if node is not None:
                self._rename(((self._directory(path.parent), path.name, None),))

    def remove_dir(self, path: Path) -> None:
        with self.running:
            if self._find(path) is None:
                return
            if self._directory(path).entries:
                raise _error(errno.ENOTEMPTY, path)
            self._rename(((self._directory(path.parent), path.name, None),))

    def sync_dir(self, path: Path) -> None:
        with self.running:
            self._sync_dir(self._directory(path))

    def sync_all(self, path: Path) -> None:
        with self.running:
            self._directory(path)
            for content in self._files():
                content.sync()
            for directory in self._directories():
                directory.disk = dict(directory.entries)
            self._disk.names.clear()

    def disk(self, path: Path) -> tuple[int, int]:
        with self.running:
            self._node(path)
            return self._disk.total_bytes, self._disk.free_bytes

    def lock(self, path: Path) -> Lock | None:
        with self.running:
            node = self._find(path)
            if node is None:
                self.create(path, 0)
                node = self._node(path)
            if not isinstance(node, PageCache):
                raise _error(errno.EISDIR, path)
            if id(node) in self._held:
                return None
            if not node.cache:
                node.write(0, b"lock")
            return ForgetfulLock(self._held, id(node))

    def is_locked(self, path: Path) -> bool:
        with self.running:
            return id(self._find(path)) in self._held

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _find(self, path: Path) -> _Node | None:
        node: _Node = self._disk.root
        for name in _parts(path):
            child = node.entries.get(name) if isinstance(node, _Directory) else None
            if child is None:
                return None
            node = child
        return node

    def _node(self, path: Path) -> _Node:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _directory(self, path: Path) -> _Directory:
        node = self._node(path)
        if not isinstance(node, _Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def _rename(self, edits: tuple[_Edit, ...]) -> None:
        for directory, name, node in edits:
            if node is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = node
        self._disk.names.append(edits)

    def _sync_dir(self, directory: _Directory) -> None:
        directory.disk = dict(directory.entries)
        rest = (tuple(edit for edit in change if edit[0] is not directory) for change in self._disk.names)
        self._disk.names = [change for change in rest if change]

    def _directories(self) -> list[_Directory]:
        found = [self._disk.root]
        for directory in found:
            found.extend(child for child in directory.entries.values() if isinstance(child, _Directory))
        return found

    def _files(self) -> list[PageCache]:
        children = (child for directory in self._directories() for child in directory.entries.values())
        return [child for child in children if isinstance(child, PageCache)]


def _parts(path: Path) -> tuple[str, ...]:
    return path.parts[1:] if path.is_absolute() else path.parts


def _error(code: int, path: Path) -> OSError:
    return OSError(code, os.strerror(code), str(path))
