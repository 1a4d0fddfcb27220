"""Whole directories: remove one, and build one aside so that nobody ever sees it half done."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from litemq.errors import BadStore
from litemq.store.fs import FileSystem


def remove_tree(fs: FileSystem, path: Path) -> None:
    """Remove a directory with everything in it; nothing happens when there is none."""
    empty_tree(fs, path)
    fs.remove_dir(path)


def empty_tree(fs: FileSystem, path: Path) -> None:
    """Remove everything in a directory, which holds nothing but what we made ourselves."""
    for name in fs.names(path):
        inner = path / name
        if fs.is_dir(inner):
            remove_tree(fs, inner)
        else:
            fs.remove(inner)


def read_all(fs: FileSystem, path: Path) -> bytes:
    """Return the content of a small file."""
    file = fs.open(path)
    try:
        return file.read_at(file.size(), 0)
    finally:
        file.close()


def write_all(fs: FileSystem, path: Path, data: bytes) -> None:
    """Make a file that is not there yet; not synced."""
    file = fs.create(path, 0)
    try:
        file.write_at(data, 0)
    finally:
        file.close()


def check_free(fs: FileSystem, path: Path) -> None:
    """Refuse a place for a new directory that is in use.

    Raises:
        BadStore: it is a file, or a directory that is not empty.
    """
    try:
        if fs.exists(path) and not fs.is_dir(path):
            raise BadStore(f"{path} is a file; give a directory that does not exist or is empty")
        if fs.names(path):
            raise BadStore(f"{path} is not empty; give a directory that does not exist or is empty")
    except OSError as error:
        raise BadStore(f"cannot use {path}: {error.strerror or error}") from error


@contextmanager
def built_aside(fs: FileSystem, path: Path) -> Iterator[Path]:
    """Give a directory beside ``path`` to build in; it becomes ``path`` in one step when the block ends.

    An empty directory at ``path`` is taken as the place to build in, so that its owner and rights stay, and so that
    a place that cannot be renamed (a mount point) is refused before the work and not after it.

        ended by …    leaves
        an error      what was there before: nothing, or the empty directory
        kill -9       ``{path}.partial-…``, which nothing takes for ``path``
    """
    path = path.absolute()
    partial = path.with_name(f"{path.name}.partial-{uuid.uuid4().hex[:8]}")
    made: list[Path] = []
    existed = fs.exists(path)
    try:
        if existed:
            fs.rename(path, partial)
        else:
            made = [folder for folder in (partial, *partial.parents) if not fs.exists(folder)]
            fs.make_dirs(partial)
    except OSError as error:
        raise BadStore(f"cannot build in {path.parent}: {error.strerror or error}") from error
    try:
        yield partial
        fs.sync_all(partial)  # before the rename: the name must not lead to files that are not there after a power cut
        fs.rename(partial, path)
    except BaseException:
        empty_tree(fs, partial)
        if existed:
            fs.rename(partial, path)
        for folder in made:
            fs.remove_dir(folder)
        raise
    fs.sync_dir(path.parent)
