"""Verify: the golden cases, the real stores, and planted damage of each kind, counted exactly."""

from __future__ import annotations

import random
import shutil
import struct
from array import array
from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles, expected_index, expected_queues
from tests.unit.store.walk_support import CASES, FIXTURES, GoldenCase, unpack_rocketmq

from litemq.format.checkpoint import Checkpoint, encode
from litemq.store import _sort_cy, verify_index, verify_queues
from litemq.store.changes import Change
from litemq.store.changes import encode as encode_change
from litemq.store.fs import OsFileSystem
from litemq.store.verify import VerifyReport, verify
from litemq.types import Message

Counts = dict[str, int]


def queues_of(report: VerifyReport) -> Counts:
    found = report.consume_queue
    assert found is not None
    return {
        "entries": found.entries,
        "missing": found.missing,
        "wrong": found.wrong,
        "dangling": found.dangling,
    }


def index_of(report: VerifyReport) -> Counts:
    found = report.index
    assert found is not None
    return {"entries": found.entries, "missing": found.missing, "wrong": found.wrong}


def fill(store: StoreFiles, count: int = 120) -> StoreFiles:
    for number in range(count):
        store.add(
            Message(
                f"topic-{number % 3}",
                b"x" * (number % 60),
                queue_id=number % 2,
                message_id=f"id-{number}",
                keys=(f"k{number}", "same") if number % 4 else (),
                tags=("TagA",) if number % 5 else (),
                status=(0, 2, 1, 3)[number % 4] if number % 7 == 0 else 0,
            )
        )
    return store


def sound(store: StoreFiles) -> set[int]:
    return {put.position for put in store.puts}


class TestGolden:
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_counts_and_damage(self, case: GoldenCase) -> None:
        for fmt in case.formats:
            report = verify(case.path, fmt)
            assert report.records == len(case.dump)
            assert report.bytes == sum(int(str(record["size"])) for record in case.dump)
            assert report.unchecked == case.unchecked
            assert [d.position for d in report.damage.listed if d.kind == "torn"] == case.torn
            assert [d.position for d in report.damage.listed if d.kind == "corrupt"] == case.corrupt
            assert report.is_ok == (case.status == 0)

    @pytest.mark.parametrize("fmt", ["litemq", "blueprint", "tmq"])
    def test_stores_are_whole(self, fmt: str) -> None:
        shown = verify(FIXTURES / fmt / "store").to_json()
        assert shown["ok"] is True
        assert shown["consume_queue"] == {
            "queues": {"litemq": 8, "blueprint": 4, "tmq": 3}[fmt],
            "entries": {"litemq": 10, "blueprint": 8, "tmq": 10}[fmt],
            "missing": 0,
            "wrong": 0,
            "dangling": 0,
        }
        index = {"litemq": {"files": 1, "entries": 13}, "blueprint": {"files": 1, "entries": 6}}.get(fmt)
        assert shown["index"] == (None if index is None else index | {"missing": 0, "wrong": 0})

    def test_the_object_has_exactly_the_keys_of_the_contract(self) -> None:
        shown = verify(FIXTURES / "litemq" / "flipped").to_json()
        assert list(shown) == [
            *("path", "format", "segments", "records", "bytes", "unchecked", "torn", "corrupt", "damage"),
            *("skipped_bytes", "consume_queue", "index", "ok"),
        ]
        assert shown["damage"] == [
            {
                "kind": "corrupt",
                "segment": "flipped",
                "position": 176,
                "reason": shown["damage"][0]["reason"],  # type: ignore[index]
            }
        ]
        assert shown["consume_queue"] is None
        assert shown["index"] is None


class TestRealStores:
    def test_clean(self, tmp_path: Path) -> None:
        report = verify(unpack_rocketmq("clean", tmp_path))
        assert report.is_ok
        assert (report.records, report.consume_queue) == (516, verify_queues.QueueReport(24, 516))
        assert report.index == verify_index.IndexReport(3, 1587)

    def test_killed(self, tmp_path: Path) -> None:
        report = verify(unpack_rocketmq("killed", tmp_path))
        assert not report.is_ok
        assert [(d.kind, d.position) for d in report.damage.listed] == [("torn", 633854)]
        # 578 sound records: two entries were zeroed, and one more points at the torn record.
        assert queues_of(report) == {"entries": 577, "missing": 2, "wrong": 0, "dangling": 1}
        # The torn record's id, key and tag were indexed before the crash.
        assert index_of(report) == {"entries": 1776, "missing": 0, "wrong": 3}

    def test_batch_queues(self, tmp_path: Path) -> None:
        store = unpack_rocketmq("clean", tmp_path)
        file = store / "batchconsumequeue" / "Columnar" / "0" / f"{0:020d}"
        data = bytearray(file.read_bytes())
        unit = bytes(data[46:92])
        data[46:92] = bytes(46)
        file.write_bytes(data)
        assert queues_of(verify(store)) == {"entries": 515, "missing": 1, "wrong": 0, "dangling": 0}
        for at in (11, 19, 27, 35, 37):  # size, tags, time, base offset, messages
            wrong = bytearray(unit)
            wrong[at] ^= 1
            data[46:92] = wrong
            file.write_bytes(data)
            missing = 1 if at == 35 else 0
            assert queues_of(verify(store)) == {"entries": 516, "missing": missing, "wrong": 1, "dangling": 0}
        (store / "config" / "topics.json").unlink()
        (store / "config" / "topics.json.bak").unlink()
        data[46:92] = unit
        file.write_bytes(data)
        assert verify(store).is_ok, "a topic with batch queues only is one of that type"

    def test_without_batch_queues_their_records_have_no_entries(self, tmp_path: Path) -> None:
        store = unpack_rocketmq("clean", tmp_path)
        shutil.rmtree(store / "batchconsumequeue")
        assert queues_of(verify(store)) == {"entries": 512, "missing": 4, "wrong": 0, "dangling": 0}


@pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
class TestPlanted:
    def test_nothing(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        report = verify(store.write())
        assert report.is_ok
        assert queues_of(report) == expected_queues(store, sound(store))
        assert index_of(report) == expected_index(store, sound(store))

    def test_zeroed_entry_is_missing(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        entries = store.queues["topic-0", 0]
        entries[3] = bytes(store.entry_size)
        assert queues_of(verify(store.write())) == expected_queues(store, sound(store))
        assert expected_queues(store, sound(store))["missing"] == 1

    @pytest.mark.parametrize("at", [11, 15])
    def test_wrong_size_and_tag(self, fmt: str, at: int, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        entry = bytearray(store.queues["topic-0", 0][3])
        entry[at if fmt == "litemq" or at == 11 else 19] ^= 1
        store.queues["topic-0", 0][3] = bytes(entry)
        counts = queues_of(verify(store.write()))
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (0, 1, 0)

    @pytest.mark.parametrize("has_extension", [False, True])
    def test_a_tag_far_below_zero(self, fmt: str, has_extension: bool, tmp_path: Path) -> None:
        """RocketMQ: the address of an extension, where there are any."""
        store = fill(StoreFiles(tmp_path, fmt))
        entry = bytearray(store.queues["topic-0", 0][3])
        entry[12] ^= 0x80
        store.queues["topic-0", 0][3] = bytes(entry)
        path = store.write()
        if has_extension:
            (path / "consumequeue_ext").mkdir()
        counts = queues_of(verify(path))
        is_address = fmt == "rocketmq" and has_extension
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (0, 0 if is_address else 1, 0)

    def test_an_entry_that_points_into_a_record(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        entry = bytearray(store.queues["topic-0", 0][3])
        entry[7] ^= 1
        store.queues["topic-0", 0][3] = bytes(entry)
        counts = queues_of(verify(store.write()))
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (1, 0, 1)

    @pytest.mark.parametrize("position", [-5, 1 << 40, 1 << 62])
    def test_an_entry_that_points_out_of_the_log(self, fmt: str, position: int, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        entry = store.queues["topic-0", 0][3]
        store.queues["topic-0", 0][3000] = struct.pack(">q", position) + entry[8:]
        counts = queues_of(verify(store.write()))
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (0, 0, 1)

    def test_swapped_entries(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        entries = store.queues["topic-0", 0]
        entries[1], entries[2] = entries[2], entries[1]
        counts = queues_of(verify(store.write()))
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (2, 2, 0)

    def test_entry_of_a_prepared_record(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        prepared = next(put for put in store.puts if put.message.status == 1)
        store.queues[prepared.queue][500] = store.entry_of(prepared)
        assert queues_of(verify(store.write()))["wrong"] == 1

    def test_entry_of_another_queue(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        store.queues["topic-0", 7] = dict(store.queues["topic-0", 0])
        counts = queues_of(verify(store.write()))
        assert counts["wrong"] == len(store.queues["topic-0", 0])
        assert (counts["missing"], counts["dangling"]) == (0, 0)

    def test_fill_before_the_first_offset_is_no_entry(self, fmt: str, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, fmt)
        store.add(Message("t", b"x"), queue_offset=5)
        for number in range(5):
            store.queues["t", 0][number] = struct.pack(">qi", 0, 0x7FFFFFFF).ljust(store.entry_size, b"\0")
        report = verify(store.write())
        assert report.is_ok
        assert queues_of(report)["entries"] == 1

    def test_entries_below_the_first_segment_do_not_count(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        store.write()
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
        left = {put.position for put in store.puts if put.position >= 4096}
        report = verify(tmp_path)
        assert report.is_ok
        assert queues_of(report) == expected_queues(store, left, 4096)
        assert index_of(report)["entries"] == sum(position >= 4096 for _, position, _ in store.entries)

    def test_no_queues_at_all(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        shutil.rmtree(store.write() / "consumequeue")
        shutil.rmtree(tmp_path / "index")
        report = verify(tmp_path)
        assert report.index is None
        assert queues_of(report)["missing"] == sum(put.has_entry for put in store.puts)
        assert not report.is_ok

    def test_the_log_lost_records(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        victims = {store.puts[10].position, store.puts[40].position}
        for position in victims:
            start = position // 4096 * 4096
            store.segments[start][position - start + 8] ^= 1  # litemq: a text; rocketmq: the body's checksum
        report = verify(store.write())
        left = sound(store) - victims
        assert {d.position for d in report.damage.listed} == victims
        assert queues_of(report) == expected_queues(store, left)
        assert index_of(report) == expected_index(store, left)

    def test_records_without_a_folder_have_no_entries(self, fmt: str, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, fmt)
        for topic in ("", ".", "..", "a/b", "a\0b"):
            store.add(Message(topic, b"x", message_id="m", keys=("k",)))
        store.queues.clear()
        store.entries.clear()
        store.add(Message("fine", b"x"))
        assert verify(store.write()).is_ok


class TestRandomDamage:
    @pytest.mark.parametrize("seed", range(60))
    def test_counts_as_brute_force_does(self, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        chance = random.Random(seed)
        fmt = chance.choice(["litemq", "rocketmq"])
        store = fill(StoreFiles(tmp_path, fmt, queue_entries=chance.choice([7, 40])), chance.randrange(20, 160))
        if chance.random() < 0.5:  # few entries at a time, and several groups
            monkeypatch.setattr(verify_queues, "_MAX_COLLECTED", 5)
            monkeypatch.setattr(verify_index, "_MAX_COLLECTED", 5)
        for _ in range(chance.randrange(1, 8)):
            self.damage_queue(store, chance)
        for _ in range(chance.randrange(4)):
            self.damage_index(store, chance)
        left = sound(store)
        for _ in range(chance.randrange(3)):
            put = chance.choice(store.puts)
            if put.position in left:
                start = put.position // store.segment_size * store.segment_size
                store.segments[start][put.position - start + 8] ^= 1
                left.discard(put.position)
        report = verify(store.write())
        assert report.records == len(left)
        assert queues_of(report) == expected_queues(store, left)
        assert index_of(report) == expected_index(store, left)

    def damage_queue(self, store: StoreFiles, chance: random.Random) -> None:
        queue = chance.choice(sorted(store.queues))
        number = chance.choice(sorted(store.queues[queue]))
        entry = bytearray(store.queues[queue][number])
        match chance.randrange(5):
            case 0:
                entry = bytearray(store.entry_size)
            case 1:
                entry[chance.randrange(len(entry))] ^= 1 << chance.randrange(8)
            case 2:
                entry[:8] = struct.pack(">q", chance.choice(store.puts).position)
            case 3:
                entry = bytearray(store.entry_of(chance.choice(store.puts)))
            case _:
                entry = bytearray(chance.randbytes(len(entry)))
        store.queues[queue][chance.choice([number, number + 50])] = bytes(entry)

    def damage_index(self, store: StoreFiles, chance: random.Random) -> None:
        number = chance.randrange(len(store.entries))
        match chance.randrange(4):
            case 0:
                del store.entries[number]
            case 1:
                store.entries[number][1] = chance.choice([chance.randrange(40_000), store.puts[0].position])
            case 2:
                store.entries[number][0] = chance.randrange(1 << 31)
            case _:
                store.entries.insert(number, list(chance.choice(store.entries)))


class TestIndex:
    def test_an_entry_that_its_slot_does_not_lead_to_is_missing(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        path = store.write() / "index" / store.index_name
        data = bytearray(path.read_bytes())
        entries_at = 40 + 4 * store.slots
        (previous,) = struct.unpack_from(">i", data, entries_at + 20 * len(store.entries) + 16)
        assert previous
        struct.pack_into(">i", data, entries_at + 20 * len(store.entries) + 16, 0)
        lost = set()
        while previous:
            lost.add(previous)
            (previous,) = struct.unpack_from(">i", data, entries_at + 20 * previous + 16)
        path.write_bytes(data)
        counts = index_of(verify(tmp_path))
        assert counts == expected_index(store, sound(store), frozenset(lost))
        assert counts["missing"] == len(lost)

    def test_a_chain_that_leads_forward_ends(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        path = store.write() / "index" / store.index_name
        data = bytearray(path.read_bytes())
        for number in range(1, len(store.entries) + 1):
            struct.pack_into(">i", data, 40 + 4 * store.slots + 20 * number + 16, number)
        path.write_bytes(data)
        newest = len({value % store.slots for value, _, _ in store.entries})
        assert index_of(verify(tmp_path))["missing"] == len(store.entries) - newest

    def test_a_file_without_a_slot_count_is_all_wrong(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        path = store.write() / "index" / store.index_name
        data = bytearray(path.read_bytes())
        slots = struct.unpack_from(f">{store.slots}i", data, 40)
        struct.pack_into(f">{store.slots}i", data, 40, *slots[1:], slots[0])
        path.write_bytes(data)
        report = verify(tmp_path)
        assert report.index is not None
        assert report.index.wrong == report.index.entries == len(store.entries)
        assert report.index.missing == sum(len(put.keys) for put in store.puts)

    @pytest.mark.parametrize("size", [0, 39, 40, 100])
    def test_a_cut_file(self, size: int, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        path = store.write() / "index" / store.index_name
        path.write_bytes(path.read_bytes()[:size])
        report = verify(tmp_path)
        assert report.index is not None
        assert report.index.missing == sum(len(put.keys) for put in store.puts)

    def test_a_count_beyond_the_file_costs_nothing(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        path = store.write() / "index" / store.index_name
        data = bytearray(path.read_bytes())
        struct.pack_into(">i", data, 36, 0x7FFFFFFF)
        path.write_bytes(data)
        report = verify(tmp_path)
        assert report.index is not None
        assert report.index.entries <= len(data) // 20

    def test_many_slots_are_found_from_few(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, slots=20_011, index_entries=1000), 200)
        assert verify(store.write()).is_ok

    def test_several_files_and_a_tag_entry_between(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        store.write()
        entries = store.entries
        store.entries = [*entries[:50], [12345, entries[49][1], 0]]
        (tmp_path / "index" / "20240101000000000").write_bytes(store.index_bytes())
        store.entries = entries[50:]
        (tmp_path / "index" / "20230101000000000").write_bytes(store.index_bytes())
        report = verify(tmp_path)
        assert report.is_ok
        assert report.index == verify_index.IndexReport(2, len(entries) + 1)


class TestTmq:
    def copy(self, tmp_path: Path) -> Path:
        shutil.copytree(FIXTURES / "tmq" / "store", tmp_path / "store")
        for path in (tmp_path / "store").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return tmp_path / "store" / "news" / "0" / "index"

    @pytest.mark.parametrize(
        ("at", "counts"),
        [
            (24 + 19, (10, 0, 1, 0)),  # length
            (24 + 7, (10, 1, 0, 1)),  # place
            (24 + 3, (10, 1, 0, 1)),  # segment
            (24 + 15, (10, 0, 0, 0)),  # the end is not looked at
        ],
    )
    def test_planted(self, at: int, counts: tuple[int, ...], tmp_path: Path) -> None:
        index = self.copy(tmp_path)
        data = bytearray(index.read_bytes())
        data[at] ^= 0x40
        index.write_bytes(data)
        assert tuple(queues_of(verify(tmp_path / "store")).values()) == counts

    def test_no_index_file(self, tmp_path: Path) -> None:
        self.copy(tmp_path).unlink()
        assert queues_of(verify(tmp_path / "store")) == {"entries": 3, "missing": 7, "wrong": 0, "dangling": 0}

    def test_an_index_without_a_log(self, tmp_path: Path) -> None:
        index = self.copy(tmp_path)
        for segment in index.parent.glob("0*"):
            segment.unlink()
        assert queues_of(verify(tmp_path / "store")) == {"entries": 10, "missing": 0, "wrong": 0, "dangling": 7}


class TestDeletions:
    def change(self, store: StoreFiles, change: Change) -> None:
        store.add(Message("LITEMQ_SYS_CHANGES", encode_change(change)))

    @pytest.mark.parametrize("fmt", ["litemq", "rocketmq"])
    def test_records_of_a_deleted_topic_have_no_entries(self, fmt: str, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, fmt))
        del store.queues["topic-1", 0]
        del store.queues["topic-1", 1]
        self.change(store, Change("topic-deleted", "topic-1", offsets={0: 20, 1: 20}))
        store.add(Message("topic-1", b"again", message_id="new"), queue_offset=20)
        assert verify(store.write()).is_ok
        del store.queues["topic-1", 0]
        shutil.rmtree(tmp_path / "consumequeue" / "topic-1")
        assert queues_of(verify(tmp_path))["missing"] == 1

    def test_purged_offsets_may_have_entries_or_not(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        self.change(store, Change("min-offsets", "topic-0", offsets={0: 5}))
        assert verify(store.write()).is_ok
        for number in range(5):
            store.queues["topic-0", 0][number] = bytes(24)
        assert verify(store.write()).is_ok
        store.queues["topic-0", 0][5] = bytes(24)
        assert queues_of(verify(store.write()))["missing"] == 1

    def test_a_purge_does_not_excuse_the_keys_of_a_prepared_message(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        self.change(store, Change("min-offsets", "topic-0", offsets={0: 5}))
        store.add(Message("topic-0", b"", keys=("half",), status=1))
        assert verify(store.write()).is_ok
        store.entries.pop()
        assert index_of(verify(store.write()))["missing"] == 1


class TestLive:
    def test_what_the_checkpoint_does_not_cover_is_not_missing(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        derived, flushed = store.puts[60].position, store.puts[90].position
        for queue, entries in store.queues.items():
            for number in [n for n, data in entries.items() if struct.unpack_from(">q", data)[0] >= derived]:
                entries[number] = bytes(24)
            assert queue
        store.entries = [entry for entry in store.entries if entry[1] < derived]
        store.write()
        (tmp_path / "checkpoint").write_bytes(encode(Checkpoint(flushed=flushed, derived=derived)))
        assert not verify(tmp_path).is_ok
        lock = OsFileSystem().lock(tmp_path / "lock")
        assert lock is not None
        try:
            report = verify(tmp_path)
            assert report.is_ok
            assert report.records == 90
        finally:
            lock.release()

    def test_a_foreign_writers_queues_may_lag(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path, "rocketmq"))
        last = [put for put in store.puts if put.has_entry][-3:]
        for put in last:
            store.queues[put.queue][put.queue_offset] = bytes(20)
        store.entries = [entry for entry in store.entries if entry[1] < last[0].position]
        store.write()
        lock = OsFileSystem().lock(tmp_path / "lock")
        assert lock is not None
        try:
            assert verify(tmp_path).is_ok
        finally:
            lock.release()
        assert queues_of(verify(tmp_path))["missing"] == 3


class TestBounds:
    def test_segments_far_apart_cost_no_memory(self, tmp_path: Path) -> None:
        store = fill(StoreFiles(tmp_path))
        store.write()
        far = StoreFiles(tmp_path / "far", first_segment=1 << 61)
        far.add(Message("topic-0", b"x"), queue_offset=1000)
        name = f"{1 << 61:020d}"
        (tmp_path / "commitlog" / name).write_bytes(far.segments[1 << 61])
        counts = queues_of(verify(tmp_path))
        assert (counts["missing"], counts["wrong"], counts["dangling"]) == (1, 0, 0)

    @pytest.mark.parametrize("seed", range(20))
    def test_sort(self, seed: int) -> None:
        chance = random.Random(seed)
        width = chance.randrange(1, 5)
        count = chance.randrange(60)
        table = array("q", [chance.randrange(-3, 3) for _ in range(width * count)])
        expected = sorted(tuple(table[i * width : (i + 1) * width]) for i in range(count))
        _sort_cy.sort_rows(table, width, width, count)
        assert [tuple(table[i * width : (i + 1) * width]) for i in range(count)] == expected
