"""Work on the files of a store that nobody has open: hold it, and replace its derived files safely.

crash while …                      leaves                                        the next start
new files are built                ``rebuild.tmp/``, everything else untouched   ignores it
the mark is set                    ``abort``, perhaps a low checkpoint           scans more than it must
files are swapped                  ``abort``, and a checkpoint that trusts no    feeds all queues and the index
                                   derived file                                  from the log
the mark is taken back             new files, ``abort`` or not                   is a clean one, or scans a little
"""

from __future__ import annotations

import errno
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from litemq.errors import BadStore, StoreInUse
from litemq.format import checkpoint as layout
from litemq.format.checkpoint import Checkpoint
from litemq.format.record import TMQ
from litemq.store import checkpoint
from litemq.store.file_tree import read_all, remove_tree, write_all
from litemq.store.fs import FileSystem, holder_text
from litemq.store.layout import Paths
from litemq.store.log_files import TMQ_INDEX
from litemq.store.log_walk import Log, open_log

BUILD: Final = "rebuild.tmp"
"""Directory in a store in which new files are built and old ones are put away."""
_NO_FILE: Final = (errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENXIO)
"""Errors of a lock that is a pipe, a directory, a socket, or a link that leads nowhere."""


def open_store(path: Path | str, fs: FileSystem) -> tuple[Log, Path]:
    """Open the log of a store directory that nobody else has open, and whose derived files can be replaced.

    Raises:
        BadStore: it is no store directory, or something else stands where a folder of derived files belongs.
        StoreInUse: another process has it open.
    """
    log = open_log(path, fs=fs)
    if log.store is None:
        raise BadStore(f"{path} is no store directory but a {log.files.kind}; give the directory that holds commitlog/")
    if log.live is not None:
        raise StoreInUse(f"{path} is in use by {holder_text(log.store / 'lock')}; stop it first")
    if log.files.is_tree or log.format is TMQ:
        _check_tmq(log)
    else:
        _check_folders(fs, log.store)
    return log, log.store


def check_movable(fs: FileSystem, store: Path, parts: Container[str]) -> None:
    """Refuse to replace folders that are links or mount points: what they lead to can neither be renamed nor removed.

    Raises:
        BadStore: there is one below ``parts``.
    """
    for folder in _derived_folders(fs, store):
        if folder.relative_to(store).parts[0] in parts and not fs.is_own_dir(folder):
            raise BadStore(f"{folder} is a link or a mount point and cannot be replaced; move the folder itself there")


def _check_folders(fs: FileSystem, store: Path) -> None:
    """Refuse a store in which a link that leads nowhere, a file or a pipe stands where a folder belongs.

    Half way through a swap it would be too late.  A missing folder is fine: it is made.
    """
    for folder in _derived_folders(fs, store):
        _check_folder(fs, folder)


def _derived_folders(fs: FileSystem, store: Path) -> Iterator[Path]:
    """Yield what stands where folders of derived files belong, each before what is in it."""
    paths = Paths(store)
    names = fs.names(store)  # also those of links that lead nowhere
    if paths.index.name in names:
        yield paths.index
    if paths.queues.name not in names:
        return
    yield paths.queues
    for topic in fs.names(paths.queues):
        yield paths.queues / topic
        for queue in fs.names(paths.queues / topic):
            if queue.isascii() and queue.isdigit():
                yield paths.queues / topic / queue


def _check_folder(fs: FileSystem, path: Path) -> None:
    if fs.is_dir(path):
        return
    if not fs.exists(path):
        raise BadStore(f"{path} is a link that leads nowhere; mount its disk, or remove the link")
    raise BadStore(f"{path} is no folder; move it away")


def _check_tmq(log: Log) -> None:
    for stream in log.files.streams:
        if stream.folder is not None and log.fs.is_dir(stream.folder / TMQ_INDEX):
            raise BadStore(f"{stream.folder / TMQ_INDEX} is a folder where an index file belongs; move it away")


@contextmanager
def held(fs: FileSystem, store: Path) -> Iterator[None]:
    """Hold the store's lock.

    Raises:
        BadStore: what stands in the lock's place cannot be locked.
        StoreInUse: another process does.
    """
    path = Paths(store).lock
    existed = fs.exists(path)
    try:
        lock = fs.lock(path)
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        raise BadStore(
            f"{path} cannot be locked: {error.strerror}; remove it when no process has the store open"
        ) from error
    if lock is None:
        raise StoreInUse(f"{store} is in use by {holder_text(path)}; stop it first")
    try:
        yield
    finally:
        if not existed:
            fs.remove(path)
        lock.release()


class Swap:
    """Replaces derived files of a held store by those built below ``build``."""

    def __init__(self, fs: FileSystem, store: Path, *, first_position: int, end: int, newest_time: int) -> None:
        """``end`` is the position behind the last sound record, ``newest_time`` the latest store time before it."""
        self.build = store / BUILD
        self._fs = fs
        self._store = store
        self._paths = Paths(store)
        self._first_position = first_position
        self._end = end
        self._newest_time = newest_time
        self._had_abort = fs.exists(self._paths.abort)
        self._checkpoint = read_all(fs, self._paths.checkpoint) if fs.exists(self._paths.checkpoint) else None
        self._put_away = 0

    def begin(self) -> None:
        """Sync what was built, then make sure that a crash from here on is mended by the next start."""
        fs, paths = self._fs, self._paths
        fs.sync_all(self._store)
        if not self._had_abort:
            fs.create(paths.abort, 0).close()
            fs.sync_dir(self._store)
        nothing_derived = Checkpoint(flushed=self._end, derived=self._first_position, checked=True)
        checkpoint.write(fs, paths.checkpoint, nothing_derived)

    def put_away(self, *parts: str) -> None:
        """Take the directory at ``parts`` out of the store; it may be missing."""
        old = self._store.joinpath(*parts)
        if self._fs.exists(old):
            self._fs.rename(old, self.build / f"old-{self._put_away}")
            self._put_away += 1
            if len(parts) > 1 and not self._fs.names(old.parent):
                self._fs.remove_dir(old.parent)  # a topic without queues

    def put_in(self, *parts: str) -> None:
        """Bring the directory at ``parts`` that was built, if it was, into the store."""
        new = self.build.joinpath(*parts)
        if self._fs.exists(new):
            place = self._store.joinpath(*parts)
            self._fs.make_dirs(place.parent)
            self._fs.rename(new, place)

    def finish(self, *, is_complete: bool, keep_abort: bool) -> None:
        """Sync, and say again how far the derived files can be trusted: to the end when they are complete."""
        fs, paths = self._fs, self._paths
        fs.sync_all(self._store)
        before = layout.decode(self._checkpoint) if self._checkpoint is not None else None
        if before is not None and not before.is_ours:
            _restore(fs, paths.checkpoint, self._checkpoint)  # a real RocketMQ's: its times are true as ever
        elif is_complete:
            time = self._newest_time
            found = Checkpoint(time, time, time, flushed=self._end, derived=self._end, checked=True)
            checkpoint.write(fs, paths.checkpoint, found)
        elif before is not None:
            flushed, derived = before.flushed or 0, before.derived or 0
            found = replace(before, flushed=min(flushed, self._end), derived=min(derived, self._end))
            checkpoint.write(fs, paths.checkpoint, found)
        else:
            fs.remove(paths.checkpoint)
        if not (keep_abort and self._had_abort):
            fs.remove(paths.abort)
        fs.sync_dir(self._store)


def _restore(fs: FileSystem, path: Path, data: bytes | None) -> None:
    new = path.with_name(path.name + ".tmp")
    fs.remove(new)
    write_all(fs, new, data or b"")
    fs.rename(new, path)


@contextmanager
def cleared_build(fs: FileSystem, store: Path) -> Iterator[None]:
    """Begin and end without ``rebuild.tmp/``: neither an interrupted run nor an error leaves it for long."""
    remove_tree(fs, store / BUILD)
    try:
        yield
    finally:
        remove_tree(fs, store / BUILD)
