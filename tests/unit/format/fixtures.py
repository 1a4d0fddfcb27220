"""The store fixtures of ``tests/fixtures``, read with nothing but the format layer."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from litemq.format import _scan_cy, names, rows
from litemq.format.record import FORMATS, ROCKETMQ, TMQ, Format, decode_row
from litemq.types import Record

ROOT = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class Segment:
    """One segment: how people see its name, its first byte's position, its bytes."""

    name: str
    start: int
    data: bytes


@dataclass(frozen=True)
class Case:
    """One line of a ``cases.jsonl``."""

    name: str
    format: Format
    path: Path
    dump: list[dict[str, object]]
    corrupt: list[int]

    def segments(self) -> Iterator[Segment]:
        """Yield the segments in order; ordinal names count, so positions are the running sum of written parts."""
        written = 0
        for path in self._paths():
            data = path.read_bytes()
            digits = path.name.strip().removesuffix(".log")
            start = int(digits) if digits.isdigit() else 0
            if path.suffix == ".log":
                start = written
                written += written_size(data)
            name = str(path.relative_to(self.path)) if self.format is TMQ and self.path.is_dir() else path.name
            yield Segment(name, start, data)

    def _paths(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        folder = self.path / "commitlog"
        files = (folder if folder.is_dir() else self.path).rglob("*")
        return sorted(path for path in files if path.is_file() and path.name != "index")


def written_size(data: bytes) -> int:
    """Return the bytes of the frames in a sound ``litemq`` segment."""
    at = 0
    while (size := int.from_bytes(data[at : at + 4])) not in (0, 0xFFFFFFFF):
        at += 4 + size
    return at


def cases(name: str) -> list[Case]:
    """Return the golden cases of one format."""
    folder = ROOT / name
    return [
        Case(
            case["name"],
            FORMATS[name],
            folder / case["path"],
            [json.loads(line) for line in (folder / case["dump"]).read_text().splitlines()],
            case["corrupt"],
        )
        for case in map(json.loads, (folder / "cases.jsonl").read_text().splitlines())
    ]


def sound_records(case: Case) -> list[Record]:
    return [record for record, _ in sound_records_with_bytes(case)]


def sound_records_with_bytes(case: Case) -> Iterator[tuple[Record, bytes]]:
    """Yield the sound records of a case and their bytes; one damaged frame that is intact is stepped over."""
    for segment in case.segments():
        yield from records_of(case.format, segment, case.corrupt)


def records_of(fmt: Format, segment: Segment, corrupt: list[int]) -> Iterator[tuple[Record, bytes]]:
    view = memoryview(segment.data)
    table = rows.table(7)
    at = 0
    while True:
        count, at, why = _scan_cy.scan(fmt.code, view, at, len(view), segment.start, table, magic=-1)
        for index in range(count):
            record = decode_row(fmt, view, table, index, segment.name)
            place = record.position - segment.start
            yield record, segment.data[place : place + record.size]
        if why >= rows.DAMAGE and segment.start + at in corrupt:
            at += int.from_bytes(view[at : at + 4]) + (4 if fmt.name == "litemq" else 0)
        elif why != rows.ROOM:
            return


@dataclass(frozen=True)
class RocketMQStore:
    """A store that a real RocketMQ 5.4.0 wrote."""

    files: dict[str, bytes]
    messages: list[dict[str, object]]
    meta: dict[str, object]

    def records(self) -> Iterator[Record]:
        for path in sorted(self.files):
            if path.startswith("commitlog/"):
                name = path.removeprefix("commitlog/")
                yield from (
                    record for record, _ in records_of(ROCKETMQ, Segment(name, int(name), self.files[path]), [])
                )

    def below(self, folder: str) -> dict[str, bytes]:
        """Return the files below a folder, by path."""
        return {path: data for path, data in sorted(self.files.items()) if path.startswith(folder + "/")}


@cache
def rocketmq(name: str) -> RocketMQStore:
    """Return ``clean`` or ``killed``, unpacked in memory."""
    with tarfile.open(ROOT / f"rocketmq-5.4.0-{name}.tar.xz") as archive:
        files = {}
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name.removeprefix("store/")] = content.read()
    lines = (ROOT / f"rocketmq-5.4.0-{name}.messages.jsonl").read_text().splitlines()
    meta = json.loads((ROOT / f"rocketmq-5.4.0-{name}.meta.json").read_text())
    return RocketMQStore(files, [json.loads(line) for line in lines], meta)


def as_rocketmq_says(record: Record) -> dict[str, object]:
    """Return a record in the words of the fixture's ``messages.jsonl``, from RocketMQ's own decoder."""
    taken = {
        names.UNIQ_KEY: record.message_id,
        names.TAGS: record.tags[0] if record.tags else None,
        names.KEYS: " ".join(record.keys) or None,
        names.SHARDING_KEY: record.sharding_key,
        names.TRANSACTION_ID: record.transaction_id,
        names.TIMER_DELIVER_MS: str(record.delay_time) if record.delay_time else None,
    }
    return {
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "position": record.position,
        "size": record.size,
        "version": record.version,
        "offset_id": record.offset_id,
        "message_id": record.message_id,
        "tags": taken[names.TAGS],
        "keys": taken[names.KEYS],
        "properties": record.properties | {name: value for name, value in taken.items() if value is not None},
        "stored_body_size": len(record.stored_body),
        "stored_body_sha256": hashlib.sha256(record.stored_body).hexdigest(),
        "body_size": len(record.body),
        "body_sha256": hashlib.sha256(record.body).hexdigest(),
        "body_crc": record.body_crc,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_time": record.born_time,
        "born_host": record.born_host,
        "store_time": record.store_time,
        "store_host": record.store_host,
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
    }
