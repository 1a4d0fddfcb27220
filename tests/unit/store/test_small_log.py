"""Small writable logs of the older formats: append, get by number, roll, reopen, and what a walk says of them."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import NoReturn, Protocol

import pytest
from tests.unit.format import fixtures

from litemq.errors import BadStore, CorruptRecord, InvalidRequest, RecordTooLarge, TopicUnusable, TornRecord
from litemq.format import queue_entry
from litemq.store import small_log
from litemq.store.blueprint_log import BlueprintLog
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.log_walk import open_log
from litemq.store.tmq_log import TmqLog
from litemq.types import Appended, Message, Record, Status

FS = OsFileSystem()


class SmallLog(Protocol):
    def append(self, message: Message, *, queue_offset: int | None = None) -> Appended: ...
    def get(self, topic: str, queue_id: int, number: int, /) -> Record | None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def blueprint(root: Path, fs: FileSystem = FS) -> SmallLog:
    return BlueprintLog(fs, root, segment_size=400, queue_entries=4)


def tmq(root: Path, fs: FileSystem = FS) -> SmallLog:
    return TmqLog(fs, root, segment_size=400)


class Open(Protocol):
    def __call__(self, root: Path, fs: FileSystem = FS) -> SmallLog: ...


EACH = pytest.mark.parametrize("open_small", [blueprint, tmq])


def message(number: int) -> Message:
    topic = ("orders", "订单")[number % 3 == 2]
    body = bytes(range(number % 50)) * (number % 4)
    return Message(topic, body, queue_id=number % 2, message_id=f"m{number}", tags=("t",), born_time=number)


def walk(root: Path) -> list[Record]:
    log = open_log(root, fs=FS)
    records = list(log.records())
    assert not log.damage.listed
    return records


@EACH
def test_append_and_get(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    counts: dict[tuple[str, int], int] = {}
    for number in range(60):
        sent = message(number)
        queue = (sent.topic, sent.queue_id)
        appended = log.append(sent)
        assert appended.queue_offset == counts.get(queue, 0)
        counts[queue] = appended.queue_offset + 1
        found = log.get(*queue, appended.queue_offset)
        assert found is not None
        assert (found.body, found.message_id, found.position) == (sent.body, sent.message_id, appended.position)
        assert found.position + found.size == appended.end
    for queue, count in counts.items():
        assert log.get(*queue, count) is None
        assert log.get(*queue, -1) is None
    assert log.get("orders", 7, 0) is None
    assert log.get("none", 0, 0) is None


@EACH
def test_a_walk_finds_what_was_appended(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    for number in range(60):
        log.append(message(number))
    log.close()
    found = {record.message_id: record for record in walk(tmp_path)}
    assert {name: record.body for name, record in found.items()} == {f"m{n}": message(n).body for n in range(60)}
    assert len({record.segment for record in found.values()}) > 4, "it rolled"


@EACH
def test_reopen_goes_on_where_it_ended(open_small: Open, tmp_path: Path) -> None:
    """The same files as from a log that was never closed."""
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    log = open_small(whole)
    for number in range(60):
        log.append(message(number))
        if number % 7 == 0:
            again = open_small(pieces)
        again.append(message(number))
        if number % 7 == 6:
            again.close()
    log.close()
    again.close()
    assert files(whole) == files(pieces)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@EACH
def test_queue_files_are_made_anew(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    for number in range(30):
        log.append(message(number))
    log.close()
    before = files(tmp_path)
    for path in tmp_path.rglob("*"):
        if path.name == "index":
            path.write_bytes(path.read_bytes()[:-24] if path.parent.name == "0" else path.read_bytes() + b"x" * 24)
        elif "consumequeue" in path.parts and path.is_file():
            path.write_bytes(bytes(80))
    again = open_small(tmp_path)
    for number in range(30):
        again.get(message(number).topic, message(number).queue_id, 0)
    again.close()
    assert files(tmp_path) == before


@EACH
def test_a_large_record_gets_a_segment_of_its_own(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.append(Message("t", b"small"))
    large = log.append(Message("t", b"x" * 2000))
    log.append(Message("t", b"small"))
    log.close()
    assert [len(record.body) for record in walk(tmp_path)] == [5, 2000, 5]
    assert large.end - large.position > 2000
    again = open_small(tmp_path)
    found = again.get("t", 0, 1)
    assert found is not None
    assert len(found.body) == 2000


@EACH
def test_given_queue_offsets_are_kept(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    for offset in (6, 7, 10):
        assert log.append(Message("t", b"%d" % offset), queue_offset=offset).queue_offset == offset
    assert log.append(Message("t", b"next")).queue_offset == 11
    log.close()
    assert [record.queue_offset for record in walk(tmp_path)] == [6, 7, 10, 11]


@EACH
def test_what_does_not_fit_changes_nothing(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.append(Message("t", b"1"))
    log.flush()
    before = files(tmp_path)
    for topic in ("", ".", "..", "a/b", "../escape", "x" * 256):
        with pytest.raises(TopicUnusable):
            log.append(Message(topic, b""))
    with pytest.raises(RecordTooLarge):
        log.append(Message("t", b"", properties={"a": "x" * 65536}))
    for queue_id in (-1, -(1 << 31)):
        with pytest.raises(InvalidRequest):
            log.append(Message("t", b"", queue_id=queue_id))
    log.flush()
    assert files(tmp_path) == before
    assert log.append(Message("t", b"2")).queue_offset == 1


@EACH
def test_a_damaged_log_is_not_written_to(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path)
    for number in range(3):
        log.append(Message("t", b"body", properties={"n": str(number)}))
    log.close()
    segment = next(path for path in tmp_path.rglob("0" * 20) if "consumequeue" not in path.parts)
    sound = segment.read_bytes()
    size = int.from_bytes(sound[:4])

    def open_and_use() -> None:
        open_small(tmp_path).append(Message("t", b""))

    segment.write_bytes(sound[: 2 * size + 30].ljust(len(sound), b"\0"))
    with pytest.raises(TornRecord, match="repair"):
        open_and_use()
    segment.write_bytes(sound[: size + 4] + b"\xff" * 30 + sound[size + 34 :])
    with pytest.raises(CorruptRecord, match="repair"):
        open_and_use()
    segment.write_bytes(sound)
    open_and_use()


@EACH
def test_many_appends_are_written_in_between(open_small: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_log, "MOST_WAITING", 300)
    log = open_small(tmp_path)
    for number in range(40):
        log.append(message(number))
    assert len(list(tmp_path.rglob("*"))) > 5, "something is on disk before anybody asks"
    again = open_small(tmp_path / "again")
    for number in range(40):
        again.append(message(number))
    log.close()
    again.close()
    assert {record.message_id for record in walk(tmp_path / "again")} == {f"m{n}" for n in range(40)}
    reopened = open_small(tmp_path / "again")
    assert reopened.get("orders", 0, 0) is not None


# ── blueprint alone ──


def test_prepared_and_rolled_back_records_have_no_entry(tmp_path: Path) -> None:
    log = BlueprintLog(FS, tmp_path)
    for status in Status:
        log.append(Message("t", b"x", status=status), queue_offset=status)
    assert [log.get("t", 0, status) is not None for status in Status] == [True, False, True, False]
    log.close()
    assert [record.status for record in walk(tmp_path)] == ["normal", "prepared", "committed", "rolled_back"]


def test_blueprint_s_files(tmp_path: Path) -> None:
    """Queue files as RocketMQ's: named by byte, filled before the first offset, hash of the tag."""
    log = BlueprintLog(FS, tmp_path, segment_size=400, queue_entries=4)
    log.append(Message("t", b"", tags=("TagA",)), queue_offset=6, store_time=5)
    log.append(Message("t", b""), queue_offset=8)
    log.close()
    folder = tmp_path / "consumequeue" / "t" / "0"
    assert sorted(path.name for path in folder.iterdir()) == [f"{80:020d}", f"{160:020d}"]
    data = (folder / f"{80:020d}").read_bytes()
    entries = [queue_entry.decode_rocketmq(data, at) for at in range(0, 80, 20)]
    assert [entry.is_before_start for entry in entries] == [True, True, False, False]
    assert entries[2] == queue_entry.QueueEntry(0, 74, 2598919)
    assert not entries[3].is_written
    assert [(path.name, path.stat().st_size) for path in (tmp_path / "commitlog").iterdir()] == [("0" * 20, 400)]
    assert [record.store_time for record in walk(tmp_path)] == [5, 0]


def test_blueprint_queue_files_decide_their_size(tmp_path: Path) -> None:
    BlueprintLog(FS, tmp_path, queue_entries=4).close()
    assert files(tmp_path) == {}, "nothing appended, nothing made"
    log = BlueprintLog(FS, tmp_path, segment_size=400, queue_entries=4)
    log.append(Message("t", b""))
    log.close()
    again = BlueprintLog(FS, tmp_path, segment_size=400, queue_entries=1000)
    for _ in range(5):
        again.append(Message("t", b""))
    assert again.get("t", 0, 5) is not None
    again.close()
    assert len(list((tmp_path / "consumequeue" / "t" / "0").iterdir())) == 2


# ── tmq alone ──


def test_tmq_writes_the_fixture_byte_for_byte(tmp_path: Path) -> None:
    source = fixtures.ROOT / "tmq" / "store"
    log = TmqLog(FS, tmp_path, segment_size=400)
    case = next(case for case in fixtures.cases("tmq") if case.name == "store")
    for record in fixtures.sound_records(case):
        log.append(
            Message(
                record.topic,
                record.body,
                queue_id=record.queue_id,
                message_id=record.message_id or "",
                tags=record.tags,
                keys=record.keys,
                properties=record.properties,
                sharding_key=record.sharding_key or "",
                born_time=record.born_time,
            )
        )
    log.close()
    assert files(tmp_path) == files(source)


def test_tmq_goes_on_behind_names_with_spaces(tmp_path: Path) -> None:
    case = next(case for case in fixtures.cases("tmq") if case.name == "spaces")
    for path in case.path.rglob("*"):
        if path.is_file():
            target = tmp_path / path.relative_to(case.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    log = TmqLog(FS, tmp_path)
    found = log.get("news", 0, 5)
    assert found is not None
    assert (found.message_id, found.segment) == ("p5", "news/0/                 342")
    assert log.append(Message("news", b"x" * 300)).queue_offset == 7
    log.close()
    assert [record.body for record in walk(tmp_path) if record.queue_offset == 7] == [b"x" * 300]


def test_ordinal_names_are_not_continued(tmp_path: Path) -> None:
    log = TmqLog(FS, tmp_path, segment_size=100)
    for _ in range(3):
        log.append(Message("t", b"x" * 30))
    log.close()
    for number, path in enumerate(sorted((tmp_path / "t" / "0").glob("0*"))):
        path.rename(path.with_name(f"{number:020d}.log"))
    with pytest.raises(BadStore, match="count files"):
        TmqLog(FS, tmp_path).append(Message("t", b""))


def test_tmq_counts_records_not_offsets(tmp_path: Path) -> None:
    log = TmqLog(FS, tmp_path)
    for offset in (100, 0, 101):
        log.append(Message("t", b"%d" % offset), queue_offset=offset)
    bodies = [log.get("t", 0, number) for number in range(4)]
    assert [record.body if record else None for record in bodies] == [b"100", b"0", b"101", None]
    assert log.append(Message("t", b"")).queue_offset == 102


# ── a disk that says no ──


class FullDisk(OsFileSystem):
    """Refuses to make files."""

    def create(self, path: Path, size: int, *, reserve: bool = False) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))


@EACH
def test_errors_of_the_disk_come_through(open_small: Open, tmp_path: Path) -> None:
    log = open_small(tmp_path, FullDisk())
    log.append(Message("t", b""))
    with pytest.raises(OSError, match="No space left"):
        log.flush()
