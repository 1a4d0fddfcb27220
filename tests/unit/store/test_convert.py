"""Convert every fixture to every format; what comes out is complete, sound, and exactly accounted for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.store.convert_support import (
    FIXTURES,
    LAZY,
    NAMES,
    PLACEMENT,
    SMALL,
    Fixture,
    by_queue,
    contents,
    is_sound,
    lost,
    records,
    tree,
)
from tests.unit.store.walk_support import unpack_rocketmq

from litemq.clock import ManualClock
from litemq.errors import BadStore
from litemq.format import checkpoint, config_json
from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.store import convert_source
from litemq.store.convert import convert
from litemq.store.log_walk import open_log
from litemq.store.tmq_log import TmqLog
from litemq.types import LogPosition, Message, QueueOffset


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("fixture", FIXTURES, ids=str)
def test_every_fixture_to_every_format(fixture: Fixture, to: str, tmp_path: Path) -> None:
    source, target = fixture.open(tmp_path), tmp_path / "target"
    before = contents(source, fixture.format)
    report = convert(source, target, to=to, from_format=fixture.format, **SMALL)
    assert (report.records, report.torn, report.corrupt) == (len(before), fixture.torn, fixture.corrupt)
    assert report.rejected == []
    assert report.is_ok == (not fixture.torn and not fixture.corrupt)
    if not before:
        return
    after = contents(target, to)
    assert report.dropped == lost(before, after)
    assert is_sound(target, to)
    assert not (target / "abort").exists()
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_a_rocketmq_store_to_litemq_and_back(name: str, tmp_path: Path) -> None:
    source = unpack_rocketmq(name, tmp_path)
    there, back = tmp_path / "there", tmp_path / "back"
    assert convert(source, there, to="litemq", **SMALL).dropped == {}
    assert convert(there, back, to="rocketmq", segment_size=131_072, queue_entries=60).dropped == {}
    assert contents(back) == contents(source)
    assert contents(there) == [
        {key: zero_for_null(key, value) for key, value in record.items()} for record in contents(source)
    ]
    assert tree(back, "config").keys() >= {"config/topics.json", "config/consumerOffset.json"}
    for path, digest in tree(source, "config").items():
        if path.endswith(".json"):
            assert tree(back, "config")[path] == digest
    if name == "clean":  # positions are new where fillers fall elsewhere; here they do not
        assert tree(back, "consumequeue") == tree(source, "consumequeue")
        unit = 46
        batch = "batchconsumequeue/Columnar/0/00000000000000000000"
        assert (back / batch).read_bytes()[: 5 * unit] == (source / batch).read_bytes()[: 5 * unit]


def zero_for_null(key: str, value: object) -> object:
    """Return what ``litemq`` shows for a value that RocketMQ does not have."""
    if value is not None:
        return value
    if key == "broadcast":
        return False
    return "" if key in ("message_id", "transaction_id", "sharding_key") else 0


def test_litemq_to_rocketmq_and_back(tmp_path: Path) -> None:
    fixture = next(fixture for fixture in FIXTURES if str(fixture) == "litemq-store")
    source, there, back = fixture.open(tmp_path), tmp_path / "there", tmp_path / "back"
    convert(source, there, to="rocketmq", **SMALL)
    convert(there, back, to="litemq", **SMALL)
    assert lost(contents(source), contents(back)) == {"properties": 1}, "a property with an empty value"
    old, new = by_queue(records(source)), by_queue(records(back))
    assert [record for record, other in zip(old, new, strict=True) if record.properties != other.properties] == [
        record for record in old if "" in record.properties.values() or "" in record.properties
    ]


def test_a_copy_of_the_same_format_is_compact(tmp_path: Path) -> None:
    source = unpack_rocketmq("clean", tmp_path)
    report = convert(source, tmp_path / "copy", to="rocketmq")
    assert (report.segments, report.dropped) == (1, {})
    assert contents(tmp_path / "copy") == contents(source)
    log = tmp_path / "copy" / "commitlog" / "00000000000000000000"
    assert (log.stat().st_size, log.stat().st_blocks * 512 < 1 << 20) == (1 << 30, True), "sparse"
    queue = tmp_path / "copy" / "consumequeue" / "Orders" / "0" / "00000000000000000000"
    assert queue.stat().st_size == 20 * 300_000
    index = next((tmp_path / "copy" / "index").iterdir())
    assert index.stat().st_size == 40 + 4 * 5_000_000 + 20 * 20_000_000


@pytest.mark.parametrize("to", ["litemq", "rocketmq", "blueprint"])
def test_records_never_cross_a_segment(to: str, tmp_path: Path) -> None:
    source = unpack_rocketmq("clean", tmp_path)
    report = convert(source, tmp_path / "target", to=to, segment_size=131_072)
    names = sorted(path.name for path in (tmp_path / "target" / "commitlog").iterdir())
    assert names == [f"{131_072 * number:020d}" for number in range(len(names))]
    assert report.segments == len(names) > 1
    assert contents(tmp_path / "target", to) != []
    assert is_sound(tmp_path / "target")


def test_the_report_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    source = unpack_rocketmq("killed", tmp_path)
    found = convert(source, tmp_path / "target", to="tmq", **SMALL).to_json()
    assert found.keys() >= {
        *("source", "destination", "from", "to", "records", "bytes", "segments", "torn", "corrupt", "dropped"),
        *("rejected", "seconds"),
    }
    assert (found["from"], found["to"], found["torn"]) == ("rocketmq", "tmq", 1)
    json.dumps(found)
    assert found["bytes"] == sum(record.size for record in records(tmp_path / "target"))
    assert found["segments"] == open_log(tmp_path / "target").segment_count


def test_the_checkpoint_says_that_everything_is_there(tmp_path: Path) -> None:
    source = unpack_rocketmq("clean", tmp_path)
    convert(source, tmp_path / "target", to="rocketmq")
    log = open_log(tmp_path / "target")
    newest = max(record.store_time or 0 for record in log.records())
    found = checkpoint.decode((tmp_path / "target" / "checkpoint").read_bytes())
    end = log.end_position
    assert found == checkpoint.Checkpoint(newest, newest, newest, flushed=end, derived=end, checked=True)


@pytest.mark.parametrize(("source_format", "to"), [("tmq", "litemq"), ("rocketmq", "blueprint"), ("litemq", "tmq")])
def test_topics_are_made_from_the_records(source_format: str, to: str, tmp_path: Path) -> None:
    fixture = next(fixture for fixture in FIXTURES if fixture.format == source_format)
    source = fixture.open(tmp_path)
    convert(source, tmp_path / "target", to=to, **SMALL)
    table = config_json.read((tmp_path / "target" / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert isinstance(table, dict)
    highest: dict[str, int] = {}
    for record in records(source):
        highest[record.topic] = max(record.queue_id, highest.get(record.topic, 0))
    found = {name: entry["readQueueNums"] for name, entry in table.items() if isinstance(entry, dict)}
    assert found == {topic: queue + 1 for topic, queue in highest.items()}


def test_tmq_queues_are_merged_by_born_time(tmp_path: Path) -> None:
    """Queues keep their order, even when a record was born before the one in front of it."""
    times = {("a", 0): [10, 40, 41], ("a", 1): [20, 5, 50], ("b", 0): [30, 30, 60]}
    for (topic, queue), born in times.items():
        folder = tmp_path / "source" / topic / str(queue)
        folder.mkdir(parents=True)
        data = b""
        for number, time in enumerate(born):
            message = Message(topic, b"%d" % time, queue_id=queue, born_time=time)
            data += FORMATS["tmq"].write(message, Placement(LogPosition(len(data)), QueueOffset(number)))
        (folder / f"{0:020d}").write_bytes(data)
    convert(tmp_path / "source", tmp_path / "target", to="litemq", **SMALL)
    assert [record.body for record in records(tmp_path / "target")] == [
        *(b"10", b"20", b"5", b"30", b"30", b"40", b"41", b"50", b"60")
    ]


def test_many_queues_are_merged_with_few_files_and_small_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert_source, "_OPEN_FILES", 2)
    monkeypatch.setattr(convert_source, "_MERGE_BYTES", 0)
    log = TmqLog(LAZY, tmp_path / "source", segment_size=9000)
    for number in range(2000):
        log.append(Message(f"t{number % 7}", b"%d" % number * 20, queue_id=number % 3, born_time=number))
    log.append(Message("t0", bytes(20_000), queue_id=0, born_time=2000))
    log.close()
    report = convert(tmp_path / "source", tmp_path / "target", to="litemq", fs=LAZY, **SMALL)
    assert report.records == 2001
    assert [record.born_time for record in records(tmp_path / "target")] == [*range(2001)]
    assert is_sound(tmp_path / "target")


def test_a_source_in_pieces(tmp_path: Path) -> None:
    """A directory of segments and a single segment are sources too."""
    source = unpack_rocketmq("clean", tmp_path)
    whole = contents(source)
    convert(source / "commitlog", tmp_path / "from-log", to="litemq", **SMALL)
    assert len(contents(tmp_path / "from-log")) == len(whole)
    report = convert(source / "commitlog" / "00000000000000131072", tmp_path / "from-file", to="rocketmq", **SMALL)
    assert report.records == len(records(source / "commitlog" / "00000000000000131072")) > 0
    assert is_sound(tmp_path / "from-file")


# -- rejected ------------------------------------------------------------------------------------


def write_log(folder: Path, fmt: str, messages: list[Message]) -> Path:
    folder.mkdir(parents=True)
    data = b""
    for number, message in enumerate(messages):
        data += FORMATS[fmt].write(message, Placement(LogPosition(len(data)), QueueOffset(number), 7))
    (folder / f"{0:020d}").write_bytes(data)
    return folder


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("topic", ["", ".", "..", "../out", "/etc", "a/b", "a\0b", "x" * 256])
def test_a_topic_that_is_no_folder_name_is_rejected(topic: str, to: str, tmp_path: Path) -> None:
    source = write_log(tmp_path / "in" / "log", "litemq", [Message("a", b"1"), Message(topic, b"2"), Message("b", b"")])
    report = convert(source, tmp_path / "in" / "target", to=to, **SMALL)
    position = records(source)[1].position
    assert [where for where, _ in report.rejected] == [position]
    assert (report.records, report.is_ok) == (2, False)
    assert [record.topic for record in records(tmp_path / "in" / "target")] == ["a", "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["log", "target"]


def test_what_is_too_long_is_rejected(tmp_path: Path) -> None:
    long = Message("a", b"", properties={f"p{number}": "x" * 60_000 for number in range(2)})
    source = write_log(tmp_path / "log", "litemq", [Message("a", b"1"), long, Message("a", b"2")])
    for to in ("rocketmq", "blueprint", "tmq"):
        report = convert(source, tmp_path / to, to=to, **SMALL)
        assert [reason.split()[0] for _, reason in report.rejected] == ["properties"], to
        assert [record.body for record in records(tmp_path / to)] == [b"1", b"2"]
    report = convert(source, tmp_path / "small", to="litemq", segment_size=4096)
    assert [reason.split()[:2] for _, reason in report.rejected] == [["the", "record"]]
    assert is_sound(tmp_path / "small")
    report = convert(source, tmp_path / "blue", to="blueprint", segment_size=128)
    assert (report.records, report.rejected_count) == (2, 1), "a record larger than a segment gets one of its size"


def test_many_rejected_records_are_counted_and_some_named(tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", "litemq", [Message("a/b", b"")] * 1500)
    report = convert(source, tmp_path / "target", to="rocketmq", **SMALL)
    assert (report.rejected_count, len(report.rejected)) == (1500, 1000)
    assert report.to_json()["rejected_count"] == 1500


# -- refused -------------------------------------------------------------------------------------


def test_a_destination_in_use_is_refused(tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", "litemq", [Message("a", b"1")])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    (tmp_path / "file").write_text("x")
    before = tree(tmp_path)
    for place in (tmp_path / "full", tmp_path / "file", source, source / "inner", tmp_path / "file" / "inner"):
        with pytest.raises(BadStore):
            convert(source, place, to="litemq")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_size": 0},
        {"segment_size": 1 << 40},
        {"queue_entries": 0},
        {"index_slots": -1},
        {"index_entries": 1},
        {"to": "kafka"},
        {"from_format": "kafka"},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong: dict[str, int | str], tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", "litemq", [Message("a", b"1")])
    with pytest.raises(BadStore):
        convert(source, tmp_path / "target", **{"to": "litemq", **wrong})  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_an_empty_destination_is_filled_in_place(tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", "litemq", [Message("a", b"1")])
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    inode = target.stat().st_ino
    report = convert(source, target, to="litemq", clock=ManualClock(), **SMALL)
    assert (target.stat().st_ino, target.stat().st_mode & 0o777) == (inode, 0o700)
    assert report.records == 1


def test_missing_parents_are_made(tmp_path: Path) -> None:
    source = write_log(tmp_path / "log", "litemq", [Message("a", b"1")])
    assert convert(source, tmp_path / "a" / "b" / "target", to="tmq").records == 1
    assert len(records(tmp_path / "a" / "b" / "target")) == 1


def test_the_compared_keys_are_those_that_are_no_placement() -> None:
    from litemq.format.limits import RECORD_KEYS
    from litemq.store.convert_tally import COMPARED

    assert {*COMPARED, "body_size"} == {*RECORD_KEYS} - PLACEMENT
