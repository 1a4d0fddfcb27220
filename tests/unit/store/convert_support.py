"""What tests of convert, rebuild and repair share: sources, and an independent view of what a conversion lost."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tests.unit.store.walk_support import CASES, unpack_rocketmq

from litemq.format.record import FORMATS, to_json
from litemq.store.fs import OsFileSystem
from litemq.store.log_walk import open_log
from litemq.store.verify import verify
from litemq.types import Record

PLACEMENT = frozenset(
    {
        *("format", "version", "segment", "position", "size", "check", "log_offset", "offset_id", "body_crc"),
        *("compression", "stored_body_size"),
    }
)
"""Keys of the record object that a conversion may change without losing anything."""

NAMES = tuple(FORMATS)


class FileSizes(TypedDict):
    """Sizes that ``convert`` takes."""

    segment_size: int
    queue_entries: int
    index_slots: int
    index_entries: int


SMALL: FileSizes = {"segment_size": 1 << 20, "queue_entries": 100, "index_slots": 101, "index_entries": 1000}


class LazyFileSystem(OsFileSystem):
    """The machine's own, but for syncs: they would wait for everything that anybody writes to the same disk."""

    def sync_all(self, path: Path) -> None:
        """Nothing."""

    def sync_dir(self, path: Path) -> None:
        """Nothing."""


LAZY = LazyFileSystem()


@dataclass(frozen=True)
class Fixture:
    """A log of ``tests/fixtures``."""

    name: str
    format: str
    torn: int
    corrupt: int
    path: Path | None = None

    def __str__(self) -> str:
        return f"{self.format}-{self.name}"

    def open(self, folder: Path) -> Path:
        """Return where it is; RocketMQ's are unpacked into ``folder``."""
        return self.path or unpack_rocketmq(self.name, folder)


FIXTURES = [
    *(Fixture(case.name, case.format, len(case.torn), len(case.corrupt), case.path) for case in CASES),
    Fixture("clean", "rocketmq", 0, 0),
    Fixture("killed", "rocketmq", 1, 0),
]


def records(path: Path, format_name: str | None = None) -> list[Record]:
    return list(open_log(path, format_name).records())


def by_queue(found: list[Record]) -> list[Record]:
    """Return the records queue by queue, each in the order of the log."""
    return sorted(found, key=lambda record: (record.topic, record.queue_id))


def content(record: Record) -> dict[str, object]:
    """Return the record object without what says where and how it is stored."""
    return {key: value for key, value in to_json(record).items() if key not in PLACEMENT}


def contents(path: Path, format_name: str | None = None) -> list[dict[str, object]]:
    return [content(record) for record in by_queue(records(path, format_name))]


def plain(value: object) -> object:
    return None if value in (None, 0, "", False, "normal", "0.0.0.0:0") or value in ([], {}) else value


def lost(before: list[dict[str, object]], after: list[dict[str, object]]) -> dict[str, int]:
    """Return, for each key, how many records have another value, by the words of the contract."""
    found: Counter[str] = Counter()
    for old, new in zip(before, after, strict=True):
        found.update(key for key in old if plain(old[key]) != plain(new[key]))
    return dict(found)


def is_sound(path: Path, format_name: str | None = None) -> bool:
    report = verify(path, format_name)
    if not report.is_ok:
        print(report.to_json())  # noqa: T201 - pytest shows it when the test fails
    return report.is_ok


def copy_store(source: Path, target: Path) -> Path:
    """Copy a store that a test will change."""
    shutil.copytree(source, target)
    return target


def tree(root: Path, *below: str) -> dict[str, str]:
    """Return a digest of each file below a folder."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.joinpath(*below).rglob("*"))
        if path.is_file()
    }
