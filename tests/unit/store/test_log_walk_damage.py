"""Torn or corrupt, where a walk goes on, and that nothing in a file can ask for memory."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.walk_support import some_records

from litemq.format import _scan_cy, rows
from litemq.format.checkpoint import Checkpoint, encode
from litemq.store import log_walk
from litemq.store.fs import OsFileSystem
from litemq.store.log_walk import open_log
from litemq.types import Message

FORMATS = ["litemq", "rocketmq", "blueprint", "tmq"]


def walk(path: Path, fmt: str | None = None) -> tuple[list[int], list[tuple[str, int]]]:
    log = open_log(path, fmt)
    found = [int(record.position) for record in log.records()]
    assert log.damage.torn + log.damage.corrupt == len(log.damage.listed)
    return found, [(damage.kind, damage.position) for damage in log.damage.listed]


class TestTorn:
    @pytest.mark.parametrize("fmt", FORMATS)
    def test_every_prefix_of_the_last_record(self, fmt: str, tmp_path: Path) -> None:
        first, last = some_records(fmt, 2)
        path = tmp_path / "log"
        for size in range(1, len(last)):
            path.write_bytes(first + last[:size])
            expected = [("torn", len(first))] if any(last[:size][:4]) or size > 4 else []
            assert walk(path) == ([0], expected), size

    @pytest.mark.parametrize("fmt", FORMATS)
    def test_every_prefix_of_the_last_record_in_a_preallocated_file(self, fmt: str, tmp_path: Path) -> None:
        first, last = some_records(fmt, 2)
        path = tmp_path / "log"
        for size in range(1, len(last)):
            path.write_bytes((first + last[:size]).ljust(4096, b"\0"))
            found, damage = walk(path)
            if found == [0]:
                assert damage == ([("torn", len(first))] if any(last[: min(4, size)]) else [])
            else:  # what is missing is zeros anyway, or lies where the format has no checksum
                assert damage == []
                assert size >= len(last) - 60 or last[size:].count(0) == len(last) - size
                assert fmt != "litemq" or last[size:].count(0) == len(last) - size

    @pytest.mark.parametrize("fmt", ["rocketmq", "blueprint", "tmq"])
    def test_an_only_record_with_a_size_that_looks_like_a_filler(self, fmt: str, tmp_path: Path) -> None:
        (record,) = some_records(fmt, 1)
        (tmp_path / "log").write_bytes(b"\xff" * 4 + record[4:])
        assert walk(tmp_path / "log") == ([], [("torn", 0)])

    def test_a_later_segment_with_something_in_it_makes_it_corrupt(self, tmp_path: Path) -> None:
        records = some_records("litemq", 2)
        (tmp_path / f"{0:020d}").write_bytes(b"".join(records)[:-5])
        (tmp_path / f"{4096:020d}").write_bytes(bytes(4096))
        assert walk(tmp_path)[1] == [("torn", len(records[0]))]
        (tmp_path / f"{4096:020d}").write_bytes(b"".join(some_records("litemq", 1, 4096)))
        assert walk(tmp_path) == ([0, 4096], [("corrupt", len(records[0]))])

    def test_anything_behind_the_zeros_makes_it_corrupt(self, tmp_path: Path) -> None:
        records = some_records("litemq", 2)
        torn = b"".join(records)[:-60].ljust(100_000, b"\0")
        (tmp_path / "log").write_bytes(torn)
        assert walk(tmp_path / "log")[1] == [("torn", len(records[0]))]
        (tmp_path / "log").write_bytes(torn + b"\1")
        assert walk(tmp_path / "log")[1] == [("corrupt", len(records[0]))]

    def test_an_unsound_last_record_is_torn_whatever_its_fault(self, tmp_path: Path) -> None:
        records = some_records("rocketmq", 2)
        data = bytearray(b"".join(records))
        data[len(records[0]) + 28] ^= 1  # it states another log offset
        (tmp_path / f"{0:020d}").write_bytes(data)
        assert walk(tmp_path) == ([0], [("torn", len(records[0]))])

    def test_a_record_that_the_end_of_the_last_segment_cuts_is_torn_even_amid_others(self, tmp_path: Path) -> None:
        records = some_records("litemq", 3)
        data = bytearray(b"".join(records))
        data[len(records[0])] = 0x70
        (tmp_path / "log").write_bytes(data)
        assert walk(tmp_path / "log") == ([0], [("torn", len(records[0]))])


class TestCorrupt:
    @pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
    def test_no_flipped_bit_of_a_checked_record_goes_unseen(self, fmt: str, tmp_path: Path) -> None:
        """A bit of rocketmq's or blueprint's header or properties may: only their bodies have a checksum."""
        records = some_records(fmt, 3)
        at, size = len(records[0]), len(records[1])
        clean = b"".join(records)
        path = tmp_path / f"{0:020d}"
        name_at = clean.find(b"__CRC32C", at)
        for bit in range(8 * size):
            data = bytearray(clean)
            data[at + bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            found, damage = walk(tmp_path, fmt)
            assert found[0] == 0
            if at in found:
                place = at + bit // 8
                assert fmt != "litemq" or name_at <= place < name_at + 8
            else:
                assert damage
                assert damage[0][1] == at
                assert damage[0][0] == "corrupt" or bit < 32

    def test_goes_on_behind_an_intact_frame_before_a_filler_zeros_and_the_end(self, tmp_path: Path) -> None:
        first, second = some_records("litemq", 2)
        bad = bytearray(second)
        bad[-1] ^= 1
        for behind in (b"\xff\xff\xff\xff" + b"junk", bytes(50), b""):
            (tmp_path / f"{0:020d}").write_bytes(first + bad + behind)
            (tmp_path / f"{4096:020d}").write_bytes(b"".join(some_records("litemq", 1, 4096)))
            log = open_log(tmp_path)
            assert [record.position for record in log.records()] == [0, 4096]
            assert [(d.kind, d.position, d.size) for d in log.damage.listed] == [("corrupt", len(first), len(second))]

    def test_skips_the_rest_when_the_frame_cannot_be_trusted(self, tmp_path: Path) -> None:
        records = some_records("litemq", 4)
        data = bytearray(b"".join(records))
        at = len(records[0])
        data[at + 3] ^= 1  # the size leads into the middle of the next record
        (tmp_path / f"{0:020d}").write_bytes(bytes(data).ljust(4096, b"\0"))
        (tmp_path / f"{4096:020d}").write_bytes(b"".join(some_records("litemq", 2, 4096)))
        log = open_log(tmp_path)
        assert [record.position for record in log.records()] == [0, 4096, 4096 + len(records[0])]
        (damage,) = log.damage.listed
        assert (damage.kind, damage.position) == ("corrupt", at)
        assert log.damage.skipped_bytes == len(data.rstrip(b"\0")) - at

    def test_a_wrong_magic_cannot_be_trusted_either(self, tmp_path: Path) -> None:
        records = some_records("blueprint", 3)
        data = bytearray(b"".join(records))
        data[len(records[0]) + 4] ^= 1
        (tmp_path / "log").write_bytes(data)
        assert walk(tmp_path / "log") == ([0], [("corrupt", len(records[0]))])

    def test_a_decoy_in_a_body_is_never_a_record(self, tmp_path: Path) -> None:
        decoy = some_records("litemq", 1, 200)[0]
        outer = some_records("litemq", 2, 0, body=bytes(70) + decoy)
        data = bytearray(b"".join(outer))
        data[40] ^= 1  # the frame stays intact
        (tmp_path / "log").write_bytes(data)
        assert walk(tmp_path / "log") == ([len(outer[0])], [("corrupt", 0)])
        data[3] ^= 1  # and now it does not
        (tmp_path / f"{0:020d}").write_bytes(data)
        assert walk(tmp_path / f"{0:020d}") == ([], [("corrupt", 0)])

    @pytest.mark.parametrize("flag", [0x101, 0x201, 0x301, 0x001, 0x701])
    def test_a_body_that_does_not_decompress(self, flag: int, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, format="rocketmq")
        store.add(Message("t", zlib.compress(b"fine"), sys_flag=0x301))
        store.add(Message("t", b"not compressed at all", sys_flag=flag))
        store.add(Message("t", b"plain"))
        store.write()
        log = open_log(tmp_path)
        assert [record.body for record in log.records()] == [b"fine", b"plain"]
        (damage,) = log.damage.listed
        assert (damage.kind, damage.position) == ("corrupt", store.puts[1].position)
        assert "decompress" in damage.reason

    @pytest.mark.parametrize("fmt", FORMATS[:3])
    def test_a_compressed_record_that_ends_with_the_window(self, fmt: str, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, fmt, segment_size=1 << 20)
        bodies = [bytes([number]) + random.Random(number).randbytes(1500) for number in range(4)]
        for body in bodies:
            store.add(Message("t", zlib.compress(body), sys_flag=1))
        (tmp_path / "log").write_bytes(store.segments[0])
        log = open_log(tmp_path / "log")
        assert [record.body for record in log.records(window=store.puts[2].position)] == bodies
        assert all(batch.base <= batch.table[rows.POSITION] for batch in log.batches(window=store.puts[2].position))

    def test_many_compressed_records_fill_a_batch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_walk, "TABLE_ROWS", 3)
        store = StoreFiles(tmp_path, format="rocketmq")
        for number in range(10):
            store.add(Message("t", zlib.compress(b"%d" % number), sys_flag=1))
        store.write()
        assert [record.body for record in open_log(tmp_path).records()] == [b"%d" % number for number in range(10)]

    def test_all_are_counted_and_a_thousand_listed(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, segment_size=1 << 20)
        for _ in range(1200):
            store.add(Message("t", b"x"))
        for put in store.puts[:-1]:
            store.segments[0][put.position + 60] ^= 1
        store.write()
        log = open_log(tmp_path)
        assert len(list(log.records())) == 1
        assert (log.damage.corrupt, len(log.damage.listed)) == (1199, 1000)


class TestMemory:
    def peak(self, path: Path, fmt: str) -> int:
        tracemalloc.start()
        try:
            log = open_log(path, fmt)
            assert list(log.records()) == []
            assert len(log.damage.listed) == 1
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize("fmt", FORMATS)
    @pytest.mark.parametrize("size", [0x7FFFFFFF, 0x3F000000, 0xFFFFFFF0])
    def test_a_huge_size_costs_nothing(self, fmt: str, size: int, tmp_path: Path) -> None:
        record = bytearray(some_records(fmt, 1)[0])
        record[:4] = struct.pack(">I", size)
        with (tmp_path / "log").open("wb") as file:
            file.write(record)
            file.truncate(1 << 30)  # sparse: the bytes are there, and are zeros
        assert self.peak(tmp_path / "log", fmt) < 4 << 20

    @pytest.mark.parametrize("fmt", FORMATS)
    def test_a_record_larger_than_a_window_is_read_when_its_parts_add_up(self, fmt: str, tmp_path: Path) -> None:
        records = some_records(fmt, 3, body=b"x" * 3_000_000)
        (tmp_path / "log").write_bytes(b"".join(records))
        log = open_log(tmp_path / "log")
        assert [len(record.body) for record in log.records()] == [3_000_002] * 3
        (tmp_path / "log").write_bytes(b"".join(records)[:-1])
        assert walk(tmp_path / "log")[1] == [("torn", 2 * len(records[0]))]

    def test_a_size_beyond_memory_is_not_even_asked_for(self, tmp_path: Path) -> None:
        """The kernel alone decides about what is in a window; the walker never grows it beyond the file."""
        table = rows.table(1)
        data = struct.pack(">II", 0xFFFFFFF0, 0x4C4D5101)
        assert _scan_cy.scan(_scan_cy.LITEMQ, data, 0, len(data), 0, table)[2] == rows.CUT


class TestLive:
    def store(self, root: Path) -> StoreFiles:
        store = StoreFiles(root)
        for number in range(20):
            store.add(Message("t", b"x", message_id=f"m{number}"))
        store.write()
        return store

    def test_ends_at_the_flushed_position(self, tmp_path: Path) -> None:
        store = self.store(tmp_path)
        flushed = store.puts[12].position
        (tmp_path / "checkpoint").write_bytes(encode(Checkpoint(flushed=flushed, derived=0)))
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(store.segments[0])[:-3])
        lock = OsFileSystem().lock(tmp_path / "lock")
        assert lock is not None
        try:
            assert walk(tmp_path) == ([put.position for put in store.puts[:12]], [])
        finally:
            lock.release()
        assert walk(tmp_path)[1] == [("torn", store.puts[-1].position)]

    def test_a_foreign_writers_unfinished_tail_is_no_damage(self, tmp_path: Path) -> None:
        store = self.store(tmp_path)
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(store.segments[0])[:-3])
        lock = OsFileSystem().lock(tmp_path / "lock")
        assert lock is not None
        try:
            assert walk(tmp_path) == ([put.position for put in store.puts[:-1]], [])
            assert [d.kind for d in self.damage(tmp_path, live=False)] == ["torn"]
        finally:
            lock.release()

    def damage(self, path: Path, *, live: bool) -> list[log_walk.Damage]:
        log = open_log(path, live=live)
        for _ in log.batches():
            pass
        return log.damage.listed

    def test_damage_before_the_tail_is_damage(self, tmp_path: Path) -> None:
        store = self.store(tmp_path)
        data = store.segments[0]
        data[store.puts[3].position + 60] ^= 1
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(data)
        assert [(d.kind, d.position) for d in self.damage(tmp_path, live=True)] == [("corrupt", store.puts[3].position)]
