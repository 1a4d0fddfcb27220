"""A store directory: the files decide what it is, a setting that disagrees is refused, and nothing is changed then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.unit.store.live_support import SMALL, bodies, fill, open_store, small

from litemq.config import StoreConfig
from litemq.errors import BadStore
from litemq.format.index_file import file_size
from litemq.store.fs import OsFileSystem
from litemq.store.layout import DEFAULT_QUEUE_ENTRIES, DEFAULT_SEGMENT_BYTES, Paths, settle
from litemq.store.message_store import MessageStore
from litemq.types import Message

NOW = 1_700_000_000_000


def tree(root: Path) -> dict[str, bytes | None]:
    """Return every path below ``root`` with its bytes."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in sorted(root.rglob("*"))
    }


def a_store(root: Path, **settings: object) -> Path:
    with open_store(root, small(**settings)) as store:
        fill(store, 60)
    return root / "store"


# -- new stores ------------------------------------------------------------------------------------------------------


def test_a_new_store_has_default_sizes(tmp_path: Path) -> None:
    layout = settle(OsFileSystem(), Paths(tmp_path / "new"), StoreConfig(), NOW)
    assert layout.format.name == "litemq"
    assert (layout.segment_bytes, layout.queue_entries) == (DEFAULT_SEGMENT_BYTES, DEFAULT_QUEUE_ENTRIES)
    assert (layout.index_slots, layout.index_entries) == (5_000_000, 20_000_000)
    assert layout.created_ms == NOW
    assert not (tmp_path / "new").exists()


def test_a_new_store_says_what_it_is(tmp_path: Path) -> None:
    store = a_store(tmp_path, format="rocketmq")
    said = json.loads((store / "config" / "store.json").read_text())
    assert said["format"] == "rocketmq"
    assert said["version"] == 1
    assert (said["segment_bytes"], said["queue_entries"]) == (SMALL.segment_bytes, SMALL.queue_entries)
    assert (said["index_slots"], said["index_entries"]) == (SMALL.index_slots, SMALL.index_entries)
    assert len(said["id"]) == 36
    with open_store(tmp_path, StoreConfig()):
        pass
    assert json.loads((store / "config" / "store.json").read_text()) == said


@pytest.mark.parametrize("there", ["nothing", "empty directory", "lock only", "half made"])
def test_a_store_is_made_where_nothing_else_is(tmp_path: Path, there: str) -> None:
    root = tmp_path / "deep" / "store"
    if there != "nothing":
        root.mkdir(parents=True)
    if there == "lock only":
        (root / "lock").write_bytes(b"lock")
    if there == "half made":
        (root / "config").mkdir()
        (root / "abort").touch()
    with MessageStore.open(root, SMALL, background=False) as store:
        store.append(Message("orders", b"one"))
        assert bodies(store) == [b"one"]


# -- the files decide ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("without_store_json", [False, True])
def test_sizes_and_format_are_found(tmp_path: Path, without_store_json: bool) -> None:
    root = a_store(tmp_path, format="rocketmq")
    if without_store_json:
        for path in (root / "config").glob("store.json*"):
            path.unlink()
    layout = settle(OsFileSystem(), Paths(root), StoreConfig(), NOW)
    assert layout.format.name == "rocketmq"
    assert (layout.segment_bytes, layout.queue_entries) == (SMALL.segment_bytes, SMALL.queue_entries)
    assert (layout.index_slots, layout.index_entries) == (SMALL.index_slots, SMALL.index_entries)
    with open_store(tmp_path, StoreConfig()) as store:
        assert len(bodies(store)) == 60


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("format", "rocketmq"),
        ("segment_bytes", 1 << 15),
        ("queue_entries", 21),
        ("index_slots", 14),
        ("index_entries", 41),
    ],
)
def test_a_setting_that_disagrees_is_refused(tmp_path: Path, setting: str, value: object) -> None:
    root = a_store(tmp_path)
    before = tree(root)
    with pytest.raises(BadStore, match=r"the store's .* is .*, not .* as configured; leave the setting out"):
        open_store(tmp_path, small(**{setting: value}))
    assert tree(root) == before
    with open_store(tmp_path, StoreConfig()) as store:
        assert len(bodies(store)) == 60


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"queue_entries":0,"index_slots":-5,"segment_bytes":true}'])
def test_a_damaged_store_json_is_no_obstacle(tmp_path: Path, garbage: bytes) -> None:
    root = a_store(tmp_path)
    (root / "config" / "store.json").write_bytes(garbage)
    with open_store(tmp_path) as store:
        assert len(bodies(store)) == 60


@pytest.mark.parametrize("garbage", [b"", b'{"version": 1, "id"', b"[]", b'{"id":5}'])
@pytest.mark.parametrize("has_copy", [False, True])
def test_a_damaged_store_json_is_replaced_once(
    tmp_path: Path, garbage: bytes, has_copy: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """S-11: the directory has one id, not another at every opening."""
    root = a_store(tmp_path)
    path = root / "config" / "store.json"
    before = path.read_bytes()
    if has_copy:
        path.with_name("store.json.bak").write_bytes(before)
    path.write_bytes(garbage)
    open_store(tmp_path).close()
    after = path.read_bytes()
    said = json.loads(after)
    assert (after == before) == (has_copy and garbage != b'{"id":5}')
    assert path.with_name("store.json.damaged").read_bytes() == garbage
    assert f"id={said['id']}" in caplog.text
    open_store(tmp_path).close()
    assert path.read_bytes() == after


def test_a_crash_while_store_json_is_replaced_costs_nothing(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    path = root / "config" / "store.json"
    said = path.read_bytes()
    path.rename(path.with_name("store.json.bak"))
    path.with_name("store.json.damaged").write_bytes(b"{")
    open_store(tmp_path).close()
    assert path.read_bytes() == said


# -- what is refused -------------------------------------------------------------------------------------------------


def refused(root: Path, match: str, config: StoreConfig = SMALL) -> None:
    """Opening must fail with this text and change nothing."""
    before = tree(root) if root.is_dir() else None
    with pytest.raises(BadStore, match=match):
        MessageStore.open(root, config, background=False)
    if before is not None:
        after = tree(root)
        after.pop("lock", None)
        before.pop("lock", None)
        assert after == before


def test_a_file_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    refused(path, "is a file, not a store directory")
    refused(path / "below", r"cannot be opened: Not a directory")


def test_a_directory_with_something_else_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    refused(tmp_path, "is no store .* and is not empty; choose another directory")


@pytest.mark.parametrize("with_log", [False, True])
def test_a_newer_store_is_refused(tmp_path: Path, with_log: bool) -> None:
    root = a_store(tmp_path)
    path = root / "config" / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    if not with_log:
        shutil.rmtree(root / "commitlog")
        (root / "commitlog").mkdir()
    refused(root, "version 2, this program knows 1; use the LiteMQ that wrote it, or a newer one")


def test_records_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[7] = 2
    log.write_bytes(data)
    refused(root, "version 2 of the format litemq")


@pytest.mark.parametrize("fmt", ["tmq", "blueprint", "unheard-of"])
def test_a_format_that_is_not_written_is_refused(tmp_path: Path, fmt: str) -> None:
    root = tmp_path / "store"
    (root / "config").mkdir(parents=True)
    (root / "commitlog").mkdir()
    (root / "config" / "store.json").write_text(json.dumps({"format": fmt}))
    refused(root, f"a store of format {fmt} is not written to; `litemq store convert` makes one that is")


def test_segments_of_different_sizes_are_refused(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    (root / "commitlog" / f"{1 << 20:020d}").write_bytes(b"x" * 100)
    refused(root, "segments of different sizes .*; `litemq store convert` evens them")


def test_a_queue_file_without_whole_entries_is_refused(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    for path in (root / "config").glob("store.json*"):
        path.unlink()
    for queue in (root / "consumequeue").rglob("0" * 20):
        queue.write_bytes(b"x" * 100)
    refused(root, "holds no whole entries; run `litemq store rebuild`", StoreConfig())


def test_a_strangers_files_do_no_harm(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    for path in (root / "config").glob("store.json*"):
        path.unlink()
    (root / "consumequeue" / ".DS_Store").write_text("?")
    (root / "consumequeue" / "orders" / "note").write_text("?")
    (root / "index" / "note").write_text("?")
    (root / "commitlog" / "note").write_text("?")
    with open_store(tmp_path, StoreConfig()) as store:
        assert len(bodies(store)) == 60


def test_an_index_whose_sizes_cannot_be_told_follows_the_settings(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    for path in (root / "config").glob("store.json*"):
        path.unlink()
    for path in (root / "index").iterdir():
        path.write_bytes(bytes(file_size(3, 7)))
    layout = settle(OsFileSystem(), Paths(root), small(index_slots=77, index_entries=99), NOW)
    assert (layout.index_slots, layout.index_entries) == (77, 99)


def test_an_unknown_format_in_store_json_is_refused_though_the_log_is_known(tmp_path: Path) -> None:
    root = a_store(tmp_path)
    path = root / "config" / "store.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": "litemq-9"}))
    refused(root, "unknown format 'litemq-9'")
