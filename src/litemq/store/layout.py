"""A store directory: its paths, and the format and sizes of what is in it.

The files decide (S-10): an explicit setting that disagrees with them is refused, one that is left out follows them.
``config/store.json`` says who the directory is and which sizes a new file gets.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

from litemq.config import StoreConfig
from litemq.errors import BadStore
from litemq.format import index_file
from litemq.format.config_json import JsonObject
from litemq.format.index_file import DEFAULT_ENTRIES, DEFAULT_SLOTS
from litemq.format.record import FORMATS, LITEMQ, ROCKETMQ, Format
from litemq.store import snapshot
from litemq.store.fs import FileSystem
from litemq.store.log_files import BROKER_TRACE, find
from litemq.store.log_format import STORE_VERSION, check_version, detect_format
from litemq.store.queue_types import queue_folders

logger = logging.getLogger(__name__)

DEFAULT_SEGMENT_BYTES = 1 << 30
DEFAULT_QUEUE_ENTRIES = 300_000


class Paths:
    """Names inside a store directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commit_log = root / "commitlog"
        self.queues = root / "consumequeue"
        self.index = root / "index"
        self.config = root / "config"
        self.store_json = self.config / "store.json"
        self.topics = self.config / "topics.json"
        self.groups = self.config / "subscriptionGroup.json"
        self.progress = self.config / "consumerOffset.json"
        self.checkpoint = root / "checkpoint"
        self.abort = root / "abort"
        self.broker_trace = root / BROKER_TRACE
        self.lock = root / "lock"


@dataclass(frozen=True, slots=True)
class Layout:
    """Format and sizes of one store."""

    format: Format
    segment_bytes: int
    queue_entries: int
    index_slots: int
    index_entries: int
    store_id: str
    created_ms: int

    def to_json(self) -> JsonObject:
        """Return ``config/store.json``."""
        return {
            "version": STORE_VERSION,
            "id": self.store_id,
            "created": self.created_ms,
            "format": self.format.name,
            "segment_bytes": self.segment_bytes,
            "queue_entries": self.queue_entries,
            "index_slots": self.index_slots,
            "index_entries": self.index_entries,
        }


def settle(fs: FileSystem, paths: Paths, config: StoreConfig, now_ms: int) -> Layout:
    """Find out format and sizes of the store at ``paths``, or choose those of a new one.

    Raises:
        BadStore: a setting disagrees with the files, or the files are none that can be written to.
    """
    stated = snapshot.read(fs, paths.store_json) or {}
    _check_version(paths, stated)
    segment_bytes = _segment_bytes(fs, paths.commit_log)
    fmt = _format(fs, paths, stated, config, has_log=segment_bytes is not None)
    stride = fmt.queue_entry_size
    # A power cut may leave a queue's file at any length: what was written down counts for more.
    queue_bytes = None if _size_of(stated, "queue_entries") else _queue_bytes(fs, paths.queues)
    if queue_bytes is not None and queue_bytes % stride:
        raise BadStore(
            f"{paths.queues}: a file of {queue_bytes} bytes holds no whole entries; run `litemq store rebuild`"
        )
    slots, entries = _index_sizes(fs, paths.index, stated, config)
    store_id = stated.get("id")
    created = stated.get("created")
    return Layout(
        format=fmt,
        segment_bytes=_pick(
            "segment_bytes",
            config.segment_bytes,
            segment_bytes or _size_of(stated, "segment_bytes"),
            DEFAULT_SEGMENT_BYTES,
        ),
        queue_entries=_pick(
            "queue_entries",
            config.queue_entries,
            queue_bytes // stride if queue_bytes else _size_of(stated, "queue_entries"),
            DEFAULT_QUEUE_ENTRIES,
        ),
        index_slots=slots,
        index_entries=entries,
        store_id=store_id if isinstance(store_id, str) else str(uuid.uuid4()),
        created_ms=created if isinstance(created, int) else now_ms,
    )


def write_down(fs: FileSystem, paths: Paths, layout: Layout) -> None:
    """Write ``config/store.json`` unless it tells whose directory this is; a damaged one is kept beside it."""
    if fs.exists(paths.store_json):
        stated = snapshot.read_file(fs, paths.store_json)
        if stated is not None and stated.get("id") == layout.store_id:
            return
        damaged = paths.store_json.with_name(paths.store_json.name + ".damaged")
        # Not as .bak, which may be the one that tells.  Crash after this: there is none, and the next start is here.
        fs.rename(paths.store_json, damaged)
        logger.error("damaged file replaced: path=%s kept=%s id=%s", paths.store_json, damaged.name, layout.store_id)
    snapshot.write(fs, paths.store_json, layout.to_json())


def _check_version(paths: Paths, stated: JsonObject) -> None:
    version = stated.get("version", STORE_VERSION)
    if isinstance(version, int) and version > STORE_VERSION:
        raise BadStore(
            f"{paths.root} is a store of version {version}, this program knows {STORE_VERSION}; "
            "use the LiteMQ that wrote it, or a newer one"
        )


def _size_of(stated: JsonObject, name: str) -> int | None:
    """Return a size that ``store.json`` states; None when it is none."""
    value = stated.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _pick(name: str, asked: int | None, found: int | None, default: int) -> int:
    if found is None:
        return asked if asked is not None else default
    if asked is not None and asked != found:
        raise BadStore(f"the store's {name} is {found}, not {asked} as configured; leave the setting out")
    return found


def _format(fs: FileSystem, paths: Paths, stated: JsonObject, config: StoreConfig, *, has_log: bool) -> Format:
    found = None
    if has_log:
        files = find(paths.root, fs)
        check_version(files, fs)
        found = detect_format(files, fs, None)
    if found is None:
        name = stated.get("format") or config.format or LITEMQ.name
        found = FORMATS.get(str(name))
    if found is None or found not in (LITEMQ, ROCKETMQ):
        unwritable = found.name if found else stated.get("format")
        raise BadStore(f"a store of format {unwritable} is not written to; `litemq store convert` makes one that is")
    if config.format is not None and config.format != found.name:
        raise BadStore(f"the store's format is {found.name}, not {config.format} as configured; leave the setting out")
    return found


def _segment_bytes(fs: FileSystem, directory: Path) -> int | None:
    sizes = {
        size
        for name in fs.names(directory)
        if len(name) == 20 and name.isdigit() and (size := _size(fs, directory / name)) > 0
    }
    if len(sizes) > 1:
        raise BadStore(f"{directory}: segments of different sizes {sorted(sizes)}; `litemq store convert` evens them")
    return sizes.pop() if sizes else None


def _queue_bytes(fs: FileSystem, directory: Path) -> int | None:
    for _, _, queue in queue_folders(directory, fs):
        for name in fs.names(queue):
            if len(name) == 20 and name.isdigit():
                size = _size(fs, queue / name)
                if size:
                    return size
    return None


def _index_sizes(fs: FileSystem, directory: Path, stated: JsonObject, config: StoreConfig) -> tuple[int, int]:
    slots, entries = _size_of(stated, "index_slots"), _size_of(stated, "index_entries")
    if slots is None or entries is None:
        slots, entries = _found_index_sizes(fs, directory)  # without a file that tells, any size will do
    return (
        _pick("index_slots", config.index_slots, slots, DEFAULT_SLOTS),
        _pick("index_entries", config.index_entries, entries, DEFAULT_ENTRIES),
    )


def _found_index_sizes(fs: FileSystem, directory: Path) -> tuple[int, int] | tuple[None, None]:
    for name in fs.names(directory):
        if len(name) == 17 and name.isdigit():
            file = fs.open(directory / name)
            try:
                size = file.size()
                header = index_file.decode_header(file.read_at(index_file.HEADER_SIZE, 0).ljust(40, b"\0"))
                slots = index_file.slot_count(size, header, file.read_at)
            finally:
                file.close()
            if slots:
                return slots, index_file.entry_count(size, slots)
    return None, None


def _size(fs: FileSystem, path: Path) -> int:
    file = fs.open(path)
    try:
        return file.size()
    finally:
        file.close()
