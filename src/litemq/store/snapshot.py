"""JSON snapshots of the config tables: replaced in one step, with the old one kept as ``.bak``.

Each has an object ``litemq`` with the log position up to which it is true.  A file without it was written by a real
RocketMQ last.  A crash at any point leaves the old file, the new one, or the ``.bak``; all three are followed by a
replay of the log from their own position.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from litemq.format import config_json
from litemq.format.config_json import JsonObject
from litemq.store.fs import FileSystem


def write(fs: FileSystem, path: Path, table: JsonObject) -> None:
    """Replace the file at ``path``; durable on return."""
    data = config_json.write(table)
    new = path.with_name(path.name + ".tmp")
    fs.remove(new)
    file = fs.create(new, 0)
    try:
        file.write_at(data, 0)
        file.sync()  # before the rename: the name must not lead to an empty file
    finally:
        file.close()
    if fs.exists(path):
        fs.rename(path, path.with_name(path.name + ".bak"))
    fs.rename(new, path)  # crash before this: only the .bak, which is read then
    fs.sync_dir(path.parent)


def drop_backups(fs: FileSystem, paths: Iterable[Path]) -> None:
    """Remove the ``.bak`` of each; not synced: one that comes back is read only when its snapshot is damaged too."""
    for path in paths:
        fs.remove(path.with_name(path.name + ".bak"))


def read(fs: FileSystem, path: Path) -> JsonObject | None:
    """Return the table, from the ``.bak`` when the file is missing or damaged; None when there is neither."""
    found = read_file(fs, path)
    return found if found is not None else read_file(fs, path.with_name(path.name + ".bak"))


def read_file(fs: FileSystem, path: Path) -> JsonObject | None:
    """Return the table in one file; None when it is missing or damaged."""
    if not fs.exists(path):
        return None
    file = fs.open(path)
    try:
        data = file.read_at(file.size(), 0)
    finally:
        file.close()
    try:
        return config_json.read(data)
    except config_json.BadConfig:
        return None


def position_of(table: JsonObject | None) -> int | None:
    """Return the log position that a snapshot states; None when a real RocketMQ wrote it."""
    ours = table.get("litemq") if table else None
    position = ours.get("position") if isinstance(ours, dict) else None
    return position if isinstance(position, int) and not isinstance(position, bool) else None
