"""A file system with a hook around every call: to count, fail, skip, cut or kill at any of them.

The hook is asked before each call and told after it.  ``before`` may raise, or return False to leave the call out
(calls that return nothing only).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from litemq.store.fs import Buffer, File, FileSystem, Lock

Kind = Literal[
    "write",
    "sync",
    "zero",
    "truncate",
    "create",
    "rename",
    "remove",
    "remove_dir",
    "make_dirs",
    "sync_dir",
    "sync_all",
    "lock",
    "open",
    "read",
]

MUTATING: frozenset[Kind] = frozenset(
    {
        *("write", "sync", "zero", "truncate", "create", "rename", "remove", "remove_dir", "make_dirs"),
        *("sync_dir", "sync_all", "lock"),
    }
)
"""Calls that change something, or make a change last."""

SYNCS: frozenset[Kind] = frozenset({"sync", "sync_dir", "sync_all"})


class Site(NamedTuple):
    """A line of the store that makes a call."""

    module: str
    function: str
    line: int
    kind: Kind

    def __str__(self) -> str:
        return f"{self.kind} in {self.module}.{self.function} (line {self.line})"


class Call:
    """One call: what, on which path (of a rename: the new one), on which open file, with which bytes."""

    __slots__ = ("data", "file", "fs", "kind", "path", "position")

    def __init__(
        self,
        kind: Kind,
        path: Path,
        fs: FileSystem,
        file: File | None = None,
        data: Buffer = b"",
        position: int = 0,
    ) -> None:
        self.kind = kind
        self.path = path
        self.fs = fs
        self.file = file
        self.data = data
        self.position = position

    @property
    def is_mutating(self) -> bool:
        return self.kind in MUTATING

    def write_part(self, count: int) -> None:
        """Write the first ``count`` bytes of a write."""
        assert self.file is not None, self.kind
        self.file.write_at(bytes(self.data[:count]), self.position)

    def site(self) -> Site:
        """Return the innermost line of the store on the stack; not one of a kernel, which has none when compiled."""
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            folder, _, name = code.co_filename.rpartition("/")
            if folder.endswith("litemq/store") and name != "fs.py" and not name.endswith("_cy.py"):
                return Site(name.removesuffix(".py"), code.co_qualname, frame.f_lineno, self.kind)
            if frame.f_back is None:
                break
            frame = frame.f_back
        return Site("?", "?", 0, self.kind)


class Hook(Protocol):
    """What a hook is asked and told."""

    def before(self, call: Call) -> bool:
        """Return whether the call shall be made."""

    def after(self, call: Call) -> None:
        """Learn that it was made."""


class HookedFile:
    """An open file whose calls pass the hook."""

    __slots__ = ("_fs", "_hook", "_inner", "_path")

    def __init__(self, fs: FileSystem, path: Path, inner: File, hook: Hook) -> None:
        self._fs = fs
        self._path = path
        self._inner = inner
        self._hook = hook

    def write_at(self, data: Buffer, position: int) -> None:
        call = Call("write", self._path, self._fs, self._inner, data, position)
        if self._hook.before(call):
            self._inner.write_at(data, position)
            self._hook.after(call)

    def read_at(self, size: int, position: int) -> bytes:
        self._hook.before(Call("read", self._path, self._fs, self._inner, position=position))
        return self._inner.read_at(size, position)

    def read_into(self, buffer: memoryview, position: int, *, nowait: bool = False) -> int:
        self._hook.before(Call("read", self._path, self._fs, self._inner, position=position))
        return self._inner.read_into(buffer, position, nowait=nowait)

    def read_ahead(self, wanted: bool) -> None:
        self._inner.read_ahead(wanted)

    def will_need(self, position: int, size: int) -> None:
        self._inner.will_need(position, size)

    def size(self) -> int:
        return self._inner.size()

    def data_ranges(self, position: int) -> list[tuple[int, int]]:
        self._hook.before(Call("read", self._path, self._fs, self._inner, position=position))
        return self._inner.data_ranges(position)

    def sync(self) -> None:
        call = Call("sync", self._path, self._fs, self._inner)
        if self._hook.before(call):
            self._inner.sync()
            self._hook.after(call)

    def zero(self, position: int, size: int) -> None:
        call = Call("zero", self._path, self._fs, self._inner, position=position)
        if self._hook.before(call):
            self._inner.zero(position, size)
            self._hook.after(call)

    def truncate(self, size: int) -> None:
        call = Call("truncate", self._path, self._fs, self._inner, position=size)
        if self._hook.before(call):
            self._inner.truncate(size)
            self._hook.after(call)

    def close(self) -> None:
        self._inner.close()


class HookedFileSystem:
    """Passes every call on to ``inner`` by way of ``hook``."""

    def __init__(self, inner: FileSystem, hook: Hook) -> None:
        self._inner = inner
        self._hook = hook

    def open(self, path: Path, *, write: bool = False) -> File:
        self._hook.before(Call("open", path, self._inner, position=int(write)))
        return HookedFile(self._inner, path, self._inner.open(path, write=write), self._hook)

    def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
        call = Call("create", path, self._inner)
        self._hook.before(call)
        file = self._inner.create(path, size, reserve=reserve)
        self._hook.after(call)
        return HookedFile(self._inner, path, file, self._hook)

    def exists(self, path: Path) -> bool:
        return self._inner.exists(path)

    def is_dir(self, path: Path) -> bool:
        return self._inner.is_dir(path)

    def is_own_dir(self, path: Path) -> bool:
        return self._inner.is_own_dir(path)

    def names(self, path: Path) -> list[str]:
        return self._inner.names(path)

    def make_dirs(self, path: Path, *, sync: bool = True) -> None:
        call = Call("make_dirs", path, self._inner, position=int(sync))
        if self._hook.before(call):
            self._inner.make_dirs(path, sync=sync)
            self._hook.after(call)

    def rename(self, old: Path, new: Path) -> None:
        call = Call("rename", new, self._inner)
        if self._hook.before(call):
            self._inner.rename(old, new)
            self._hook.after(call)

    def remove(self, path: Path) -> None:
        call = Call("remove", path, self._inner)
        if self._hook.before(call):
            self._inner.remove(path)
            self._hook.after(call)

    def remove_dir(self, path: Path) -> None:
        call = Call("remove_dir", path, self._inner)
        if self._hook.before(call):
            self._inner.remove_dir(path)
            self._hook.after(call)

    def sync_dir(self, path: Path) -> None:
        call = Call("sync_dir", path, self._inner)
        if self._hook.before(call):
            self._inner.sync_dir(path)
            self._hook.after(call)

    def sync_all(self, path: Path) -> None:
        call = Call("sync_all", path, self._inner)
        if self._hook.before(call):
            self._inner.sync_all(path)
            self._hook.after(call)

    def disk(self, path: Path) -> tuple[int, int]:
        return self._inner.disk(path)

    def lock(self, path: Path) -> Lock | None:
        call = Call("lock", path, self._inner)
        self._hook.before(call)
        lock = self._inner.lock(path)
        self._hook.after(call)
        return lock

    def is_locked(self, path: Path) -> bool:
        return self._inner.is_locked(path)
