"""The checkpoint file: how far the log is flushed and how far derived files are on disk.

Replaced in one step (write, sync, rename, sync of the directory), so that a crash leaves the old or the new one.
It may lag behind the truth, never run ahead of it.
"""

from __future__ import annotations

from pathlib import Path

from litemq.format import checkpoint as layout
from litemq.format.checkpoint import Checkpoint
from litemq.store.fs import FileSystem


def write(fs: FileSystem, path: Path, found: Checkpoint) -> None:
    """Replace the file; durable on return."""
    new = path.with_name(path.name + ".tmp")
    fs.remove(new)
    file = fs.create(new, 0)
    try:
        file.write_at(layout.encode(found), 0)
        file.sync()
    finally:
        file.close()
    fs.rename(new, path)
    fs.sync_dir(path.parent)


def read(fs: FileSystem, path: Path) -> Checkpoint | None:
    """Return what the file says; None without one."""
    if not fs.exists(path):
        return None
    file = fs.open(path)
    try:
        return layout.decode(file.read_at(layout.SIZE, 0))
    finally:
        file.close()
