"""The log's files: one is made ahead of time, few of them are open, and none is closed under a reader."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.unit.store.live_support import bodies, fill, open_store, small

from litemq.config import StoreConfig
from litemq.store.fs import File, OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.segments import Segment, Segments, name_of
from litemq.types import Message

SIZE = 1 << 16


def test_a_file_that_was_prepared_too_late_replaces_nothing(tmp_path: Path) -> None:
    segments = Segments.open(OsFileSystem(), tmp_path, SIZE)
    segments.add(0)
    second = segments.add(SIZE)
    second.file.write_at(b"written", 0)
    segments.prepare(SIZE)  # asked for while the first was the last one
    assert (tmp_path / name_of(SIZE)).read_bytes()[:7] == b"written"
    third = segments.add(2 * SIZE)
    assert [segment.start for segment in segments] == [0, SIZE, 2 * SIZE]
    assert third.path.exists()
    assert (tmp_path / name_of(SIZE)).exists()
    segments.close()


def test_a_store_goes_on_after_a_clean_stop_with_a_prepared_segment(tmp_path: Path) -> None:
    config = StoreConfig(segment_bytes=SIZE, queue_entries=100, index_slots=100, index_entries=400)
    with MessageStore.open(tmp_path / "s", config, background=False) as store:
        store.append(Message("orders", b"one"))
        store._log.segments.prepare(SIZE)
    assert (tmp_path / "s" / "commitlog" / name_of(SIZE)).exists()
    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert store.was_clean
        assert store.append(Message("orders", b"two")).end < SIZE
        assert [record.body for record in store.records("orders", 0, 0)] == [b"one", b"two"]
    with MessageStore.open(tmp_path / "s", background=False) as store:
        assert store.recovered.cut == []
        assert [record.body for record in store.records("orders", 0, 0)] == [b"one", b"two"]


def test_a_half_made_file_lies_beside_the_segments_and_goes_at_the_next_start(tmp_path: Path) -> None:
    """A real RocketMQ does not start while any other file is among them."""
    half_made: list[Path] = []

    class Watching(OsFileSystem):
        def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
            half_made.append(path)
            return super().create(path, size, reserve=reserve)

    directory = tmp_path / "commitlog"
    directory.mkdir()
    segments = Segments.open(Watching(), directory, SIZE)
    segments.add(0)
    segments.close()
    assert [path.parent for path in half_made] == [tmp_path]
    half_made[0].write_bytes(b"left by a crash")
    Segments.open(OsFileSystem(), directory, SIZE).close()
    assert [path.name for path in tmp_path.rglob("*")] == ["commitlog", name_of(0)]


# -- open files ------------------------------------------------------------------------------------------------------


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def segments_at(directory: Path, count: int, *, open_files: int) -> Segments:
    """Make segments that begin with their numbers."""
    segments = Segments.open(OsFileSystem(), directory, 4096, open_files)
    for number in range(len(segments), count):
        segments.add(4096 * number).file.write_at(b"%02d" % number, 0)
    return segments


def test_many_segments_need_few_open_files(tmp_path: Path) -> None:
    before = descriptors()
    for turn in range(2):  # made, and found again
        segments = segments_at(tmp_path, 12, open_files=3)
        segments.prepare(4096 * 12)
        assert descriptors() <= before + 3 + 2, turn
        assert [segment.file.read_at(2, 0) for segment in segments] == [b"%02d" % number for number in range(12)]
        assert descriptors() <= before + 3 + 2, turn
        assert segments.last.file is segments.last.file
        segments.drop_after(4096 * 12)
        segments.close()
        assert descriptors() == before, turn
        (tmp_path / name_of(4096 * 12)).unlink()


def test_a_file_stays_open_while_somebody_holds_it(tmp_path: Path) -> None:
    segments = segments_at(tmp_path, 10, open_files=1)
    first = segments.first.file
    for segment in segments:
        assert segment.file.read_at(2, 2) == b"\0\0"
    assert first.read_at(2, 0) == b"00"
    segments.close()
    assert first.read_at(2, 0) == b"00"


def test_a_segment_that_goes_can_be_read_by_those_who_have_it(tmp_path: Path) -> None:
    segments = segments_at(tmp_path, 10, open_files=1)
    before = descriptors()
    first, second = list(segments)[:2]
    segments.drop_first()
    segments.drop_first()
    for segment in segments:
        assert segment.file.read_at(2, 2) == b"\0\0"
    assert (first.file.read_at(2, 0), second.file.read_at(2, 0)) == (b"00", b"01")
    del first, second
    assert descriptors() <= before
    segments.close()


def test_the_last_segment_is_open_after_a_cut(tmp_path: Path) -> None:
    segments = segments_at(tmp_path, 10, open_files=1)
    segments.drop_after(4096 * 5)
    last = segments.last.file
    assert segments.first.file.read_at(2, 0) == b"00"
    assert segments.last.file is last
    segments.add(4096 * 5).file.write_at(b"new", 0)
    assert segments.last.file.read_at(3, 0) == b"new"
    segments.close()


def test_threads_read_and_remove_segments_at_once(tmp_path: Path) -> None:
    segments = segments_at(tmp_path, 12, open_files=2)
    wrong: list[object] = []

    def read(own: list[Segment]) -> None:
        try:
            for _ in range(20):
                wrong.extend(
                    segment for segment in own if segment.file.read_at(2, 0) != b"%02d" % (segment.start >> 12)
                )
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(list(segments),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(12, 20):
        segments.add(4096 * number)
        segments.drop_first()
    for thread in threads:
        thread.join()
    assert wrong == []
    segments.close()


def test_a_store_of_many_files_needs_few_descriptors(tmp_path: Path) -> None:
    before = descriptors()
    config = small(segment_bytes=1024, max_body_bytes=500, index_entries=4, open_files=3)
    store = open_store(tmp_path, config)
    sent = fill(store, 24, size=400)
    for turn in range(3):  # as it was written, after a crash, after a clean stop
        assert bodies(store) == sent
        assert [record.body for record in store.reader.by_key("orders", "0")] == sent[:1]
        assert store.counters()["segments"] > 20
        assert descriptors() <= before + 3 * config.open_files + 4, turn
        if turn == 0:
            store.abandon()
        else:
            store.close()
        assert descriptors() == before, turn
        store = open_store(tmp_path, config)
    store.close()
