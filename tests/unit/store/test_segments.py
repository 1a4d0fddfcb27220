"""The next segment is made ahead of time by a thread: it must never get in the way of the one that is written to."""

from __future__ import annotations

from pathlib import Path

from litemq.config import StoreConfig
from litemq.store.fs import File, OsFileSystem
from litemq.store.message_store import MessageStore
from litemq.store.segments import Segments, name_of
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
