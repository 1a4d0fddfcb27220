"""Tell the format of a log from its first record, and refuse what a newer LiteMQ wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from litemq.errors import BadStore, UnknownFormat
from litemq.format import config_json, litemq
from litemq.format.record import FORMATS, TMQ, Format, detect
from litemq.store.frames import HEAD_SIZE, SIZE_FIELD
from litemq.store.fs import FileSystem
from litemq.store.log_files import LogFiles

STORE_VERSION: Final = 1
"""Version of the store directory as a whole that this program knows."""

_BLOCK: Final = 4096
_MAX_CONFIG: Final = 1 << 20


def detect_format(files: LogFiles, fs: FileSystem, named: Format | None) -> Format | None:
    """Return the format of the log, which its first record decides unless it was named; None: nothing is written.

    Raises:
        UnknownFormat: the first record is of no known format or version.
    """
    for stream in files.streams:
        for segment in stream.segments:
            start = _read(segment.path, fs, _BLOCK)
            found = _of_segment(segment.path, start, named)
            if found is not None:
                return _fitting(files, found, segment.path)
    return None


def _of_segment(path: Path, start: bytes, named: Format | None) -> Format | None:
    head = start[:HEAD_SIZE]
    if not any(head[:SIZE_FIELD]):
        if named is None and any(start):
            raise UnknownFormat(f"{path} does not begin with a record")
        return None
    if named is not None:
        return named
    _refuse_other_version(path, head)
    found = detect(head) or _of_cut_magic(head)
    if found is not None:
        return found
    if head[:SIZE_FIELD] == litemq.FILLER.to_bytes(4):
        return None  # a filler and nothing else: the next segment tells
    if len(head) <= SIZE_FIELD:
        raise UnknownFormat(f"{path} has {len(head)} bytes, too few to tell its format")
    magic = head[SIZE_FIELD:].hex().upper()
    raise UnknownFormat(f"the first record of {path} has the unknown magic 0x{magic}")


def _of_cut_magic(head: bytes) -> Format | None:
    """Return the only format whose magic begins like the one that the end of the file cuts."""
    cut = head[SIZE_FIELD:]
    if not cut or len(head) >= HEAD_SIZE:
        return None
    fits = [known for known in FORMATS.values() if any(magic.to_bytes(4).startswith(cut) for magic in known.magics)]
    return fits[0] if len(fits) == 1 else None


def _refuse_other_version(path: Path, head: bytes) -> None:
    family = litemq.MAGIC.to_bytes(4)[:3]
    if len(head) == HEAD_SIZE and head[SIZE_FIELD:-1] == family and head[-1] != litemq.MAGIC & 0xFF:
        raise UnknownFormat(
            f"{path} holds records of version {head[-1]} of the format litemq, this program knows version "
            f"{litemq.MAGIC & 0xFF}: use the LiteMQ that wrote it, or a newer one"
        )


def _fitting(files: LogFiles, found: Format, path: Path) -> Format:
    if files.is_tree and found is not TMQ:
        raise BadStore(
            f"{path} is of format {found.name}, but only tmq keeps a log for each queue; give its own folder"
        )
    return found


def check_version(files: LogFiles, fs: FileSystem) -> None:
    """Refuse a store directory whose ``config/store.json`` names a version or format that is not known here.

    A file that cannot be read as JSON says nothing: the log itself decides.
    """
    if files.store is None or files.is_tree:
        return
    path = files.store / "config" / "store.json"
    if not fs.exists(path):
        return
    try:
        stated = config_json.read(_read(path, fs, _MAX_CONFIG))
    except config_json.BadConfig:
        return
    version = stated.get("version", STORE_VERSION)
    if isinstance(version, int) and version > STORE_VERSION:
        raise BadStore(
            f"{files.path} is a store of version {version}, this program knows {STORE_VERSION}; "
            "use the LiteMQ that wrote it, or a newer one"
        )
    name = stated.get("format")
    if isinstance(name, str) and name not in FORMATS:
        raise BadStore(
            f"{files.path} is a store of the unknown format {name!r}; use the LiteMQ that wrote it, or a newer one"
        )


def _read(path: Path, fs: FileSystem, size: int) -> bytes:
    file = fs.open(path)
    try:
        return file.read_at(size, 0)
    finally:
        file.close()
