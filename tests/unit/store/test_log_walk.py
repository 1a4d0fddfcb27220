"""The walker on the golden cases and real stores, and every way in which a path names a log."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.walk_support import CASES, GoldenCase, messages, some_records, unpack_rocketmq

from litemq.errors import BadStore, UnknownFormat
from litemq.format.record import to_json
from litemq.store.fs import File, OsFileSystem
from litemq.store.log_walk import Log, open_log
from litemq.types import Message

FORMATS = ["litemq", "rocketmq", "blueprint", "tmq"]


def damage_of(log: Log) -> list[tuple[str, int]]:
    return [(found.kind, found.position) for found in log.damage.listed]


def positions(log: Log, start: int | None = None) -> list[int]:
    return [record.position for record in log.records(start)]


class TestGoldenCases:
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_records_and_damage(self, case: GoldenCase) -> None:
        for fmt in case.formats:
            log = open_log(case.path, fmt)
            assert [to_json(record) for record in log.records()] == case.dump
            assert damage_of(log) == [("torn", at) for at in case.torn] + [("corrupt", at) for at in case.corrupt]

    @pytest.mark.parametrize("case", CASES, ids=str)
    @pytest.mark.parametrize("window", [64, 177, 300])
    def test_small_windows_see_the_same(self, case: GoldenCase, window: int) -> None:
        log = open_log(case.path, case.format)
        assert [to_json(record) for record in log.records(window=window)] == case.dump
        assert damage_of(log) == [("torn", at) for at in case.torn] + [("corrupt", at) for at in case.corrupt]

    @pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "blueprint"])
    def test_windows_may_end_anywhere(self, fmt: str, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, fmt, segment_size=1000)
        for number in range(12):
            store.add(Message("t", b"x" * number, message_id=f"m{number}"))
        store.write()
        expected = [put.position for put in store.puts]
        for window in range(16, 1010):
            log = open_log(tmp_path)
            assert [record.position for record in log.records(window=window)] == expected, window
            assert damage_of(log) == [], window

    def test_the_folder_of_one_tmq_queue(self) -> None:
        case = next(case for case in CASES if str(case) == "tmq-store")
        log = open_log(case.path / "news" / "0")
        assert [to_json(record) for record in log.records()] == case.dump[:7]

    def test_unknown_magic_is_refused_without_a_name(self) -> None:
        case = next(case for case in CASES if not case.auto)
        with pytest.raises(UnknownFormat):
            open_log(case.path)

    @pytest.mark.parametrize("name", ["clean", "killed"])
    def test_what_a_real_rocketmq_wrote(self, name: str, tmp_path: Path) -> None:
        log = open_log(unpack_rocketmq(name, tmp_path))
        assert positions(log) == [found["position"] for found in messages(name)]
        assert damage_of(log) == ([] if name == "clean" else [("torn", 633854)])


class TestNames:
    def write(self, folder: Path, names: list[str], fmt: str = "litemq", *, pad: int = 0) -> list[int]:
        """Write two records into each file, positions going on; return all positions."""
        folder.mkdir(parents=True, exist_ok=True)
        position = 0
        found = []
        for name in names:
            records = some_records(fmt, 2, position)
            (folder / name).write_bytes(b"".join(records) + bytes(pad))
            found += [position, position + len(records[0])]
            position += len(records[0]) + len(records[1])
        return found

    @pytest.mark.parametrize(
        "names",
        [
            ["0", "1", "2"],
            ["00000000000000000000", "00000000000000000001", "00000000000000000002"],
            ["0.log", "1.log", "2.log"],
            ["00000000000000000000.log", "00000000000000000001.log"],
        ],
    )
    @pytest.mark.parametrize("pad", [0, 3, 1000])
    def test_ordinal_names_take_positions_from_the_written_parts(
        self, names: list[str], pad: int, tmp_path: Path
    ) -> None:
        expected = self.write(tmp_path / "log", names, pad=pad)
        log = open_log(tmp_path / "log")
        assert positions(log) == expected
        assert damage_of(log) == []
        assert positions(log, expected[3]) == expected[3:]

    def test_ordinals_that_do_not_begin_at_zero_start_where_the_first_record_says(self, tmp_path: Path) -> None:
        records = some_records("litemq", 2, 5_000)
        (tmp_path / "7.log").write_bytes(b"".join(records))
        assert positions(open_log(tmp_path)) == [5_000, 5_000 + len(records[0])]

    def test_an_ordinal_file_behind_a_lost_rest_starts_where_its_first_record_says(self, tmp_path: Path) -> None:
        first = some_records("litemq", 2)
        second = some_records("litemq", 2, len(b"".join(first)))
        (tmp_path / "0").write_bytes(first[0] + b"\x7f" + first[1][1:])  # a size that leads out of the file
        (tmp_path / "1").write_bytes(b"".join(second))
        log = open_log(tmp_path)
        start = len(b"".join(first))
        assert positions(log) == [0, start, start + len(second[0])]
        assert damage_of(log) == [("corrupt", len(first[0]))]

    def test_position_names_and_suffix(self, tmp_path: Path) -> None:
        for start in (0, 4096):
            (tmp_path / f"{start:020d}.log").write_bytes(b"".join(some_records("litemq", 2, start)).ljust(4096, b"\0"))
        assert [at // 4096 for at in positions(open_log(tmp_path))] == [0, 0, 1, 1]

    @pytest.mark.parametrize("fmt", FORMATS)
    def test_a_single_file_starts_where_its_first_record_says(self, fmt: str, tmp_path: Path) -> None:
        records = some_records(fmt, 2, 12_345)
        (tmp_path / "00000000000000000999").write_bytes(b"".join(records))
        assert positions(open_log(tmp_path / "00000000000000000999")) == [12_345, 12_345 + len(records[0])]

    def test_a_single_file_whose_first_record_is_damaged_starts_where_the_next_one_says(self, tmp_path: Path) -> None:
        records = some_records("litemq", 3, 700)
        data = bytearray(b"".join(records))
        data[len(records[0]) - 40] ^= 1  # the log offset that the first one states
        (tmp_path / "copy").write_bytes(data)
        log = open_log(tmp_path / "copy")
        assert positions(log) == [700 + len(records[0]), 700 + len(records[0]) * 2]
        assert damage_of(log) == [("corrupt", 700)]

    def test_a_single_file_without_a_sound_record_goes_by_its_name(self, tmp_path: Path) -> None:
        record = some_records("litemq", 1, 4096)[0]
        (tmp_path / "00000000000000004096").write_bytes(record[:-1])
        log = open_log(tmp_path / "00000000000000004096")
        assert positions(log) == []
        assert damage_of(log) == [("torn", 4096)]

    def test_other_files_beside_segments_are_not_read(self, tmp_path: Path) -> None:
        self.write(tmp_path, ["00000000000000000000"])
        (tmp_path / "notes.txt").write_text("no segment")
        (tmp_path / "1").mkdir()
        assert len(positions(open_log(tmp_path))) == 2

    @pytest.mark.parametrize("name", ["99999999999999999999", "09223372036854775807", str(1 << 62)])
    def test_a_name_beyond_every_position_is_none(self, name: str, tmp_path: Path) -> None:
        expected = self.write(tmp_path / "log", ["00000000000000000000", name])
        assert positions(open_log(tmp_path / "log")) == expected[:2]
        (tmp_path / "log" / name).rename(tmp_path / name)
        assert positions(open_log(tmp_path / name)) == expected[2:]

    def test_a_topic_may_be_called_commitlog(self, tmp_path: Path) -> None:
        queue = tmp_path / "commitlog" / "0"
        self.write(queue, ["00000000000000000000"], "tmq")
        for fmt in ("tmq", None):
            assert len(positions(open_log(tmp_path, fmt))) == 2

    @pytest.mark.parametrize("kind", ["store", "log", "file"])
    def test_what_nothing_is_written_into_starts_where_its_name_says(self, kind: str, tmp_path: Path) -> None:
        segment = tmp_path / "commitlog" / f"{4096:020d}"
        segment.parent.mkdir()
        segment.write_bytes(bytes(100))
        log = open_log({"store": tmp_path, "log": segment.parent, "file": segment}[kind])
        assert positions(log) == []
        assert (log.first_position, log.end_position) == (4096, 4096)


class TestFrom:
    def test_starts_at_or_behind_the_position_and_reads_no_earlier_segment(self, tmp_path: Path) -> None:
        opened: list[str] = []

        class Watched(OsFileSystem):
            def open(self, path: Path, *, write: bool = False) -> File:
                opened.append(path.name)
                return super().open(path, write=write)

        store = StoreFiles(tmp_path)
        for number in range(60):
            store.add(Message("t", b"x" * 50, message_id=f"m{number}"))
        store.write()
        all_positions = [put.position for put in store.puts]
        log = open_log(tmp_path, fs=Watched())
        for wanted in (0, 1, 4095, 4096, 4097, all_positions[-1], all_positions[-1] + 1):
            opened.clear()
            assert positions(log, wanted) == [at for at in all_positions if at >= wanted]
            assert opened[0] == f"{min(wanted, all_positions[-1]) // 4096 * 4096:020d}"

    def test_damage_before_the_position_is_not_met(self, tmp_path: Path) -> None:
        records = some_records("litemq", 3)
        data = bytearray(b"".join(records))
        data[50] ^= 1
        (tmp_path / "log").write_bytes(data)
        log = open_log(tmp_path / "log")
        assert positions(log, 1) == [len(records[0]), len(records[0]) + len(records[1])]
        assert damage_of(log) == []

    def test_topic_and_queue(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path)
        for number in range(12):
            store.add(Message("tq"[number % 2], b"", queue_id=number % 3))
        store.write()
        found = list(open_log(tmp_path).records(topic="q", queue_id=1))
        assert [(record.topic, record.queue_id, record.queue_offset) for record in found] == [("q", 1, 0), ("q", 1, 1)]


class TestBadInput:
    def test_no_such_path(self, tmp_path: Path) -> None:
        with pytest.raises(BadStore, match="no such file"):
            open_log(tmp_path / "nowhere")

    def test_a_directory_that_is_no_store(self, tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        with pytest.raises(BadStore, match="is no store"):
            open_log(tmp_path)

    def test_unknown_format_name(self, tmp_path: Path) -> None:
        with pytest.raises(BadStore, match="unknown format"):
            open_log(tmp_path, "kafka")

    def test_a_newer_record_version(self, tmp_path: Path) -> None:
        record = bytearray(some_records("litemq", 1)[0])
        record[7] = 2
        (tmp_path / "log").write_bytes(record)
        with pytest.raises(UnknownFormat, match="version 2"):
            open_log(tmp_path / "log")

    def test_a_damaged_first_version_is_damage_when_the_format_is_named(self, tmp_path: Path) -> None:
        first, second = some_records("litemq", 2)
        (tmp_path / "log").write_bytes(first[:7] + b"\2" + first[8:] + second)
        log = open_log(tmp_path / "log", "litemq")
        list(log.batches())
        assert damage_of(log) == [("corrupt", 0)]

    @pytest.mark.parametrize("text", ['{"version": 2, "format": "litemq"}', '{"format": "litemq9"}'])
    def test_a_newer_store(self, text: str, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path)
        store.add(Message("t", b""))
        store.write()
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "store.json").write_text(text)
        with pytest.raises(BadStore, match="newer"):
            open_log(tmp_path)

    def test_an_unreadable_store_json_says_nothing(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path)
        store.add(Message("t", b""))
        store.write()
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "store.json").write_text("{")
        assert positions(open_log(tmp_path)) == [0]

    def test_an_unreadable_file(self, tmp_path: Path) -> None:
        class Refusing(OsFileSystem):
            def open(self, path: Path, *, write: bool = False) -> File:
                raise PermissionError(13, "Permission denied", str(path))

        (tmp_path / "log").write_bytes(b"x")
        with pytest.raises(BadStore, match="Permission denied"):
            open_log(tmp_path / "log", fs=Refusing())

    @pytest.mark.parametrize("data", [b"\0\0\0\1", b"abcdefgh", b"\0\0\0\x50\x4b"])
    def test_a_file_of_no_known_format(self, data: bytes, tmp_path: Path) -> None:
        (tmp_path / "log").write_bytes(data)
        with pytest.raises(UnknownFormat):
            open_log(tmp_path / "log")

    def test_a_consume_queue_is_no_log(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path)
        store.add(Message("t", b""))
        store.write()
        with pytest.raises(BadStore, match="store's own directory"):
            open_log(tmp_path / "consumequeue")
        with pytest.raises(UnknownFormat):
            open_log(tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}")

    @pytest.mark.parametrize("size", [0, 1, 3, 100, 5000])
    def test_nothing_written_yet(self, size: int, tmp_path: Path) -> None:
        (tmp_path / "commitlog").mkdir()
        if size:
            (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(size))
        for path in (tmp_path, tmp_path / "commitlog"):
            log = open_log(path)
            assert log.format is None
            assert positions(log) == []
            assert log.damage.listed == []

    @pytest.mark.parametrize("fmt", FORMATS)
    def test_a_cut_magic_is_enough_when_only_one_format_begins_so(self, fmt: str, tmp_path: Path) -> None:
        record = some_records(fmt, 1)[0]
        for size in (5, 6, 7):
            (tmp_path / "log").write_bytes(record[:size])
            log = open_log(tmp_path / "log")
            assert positions(log) == []
            assert damage_of(log) == [("torn", 0)]
