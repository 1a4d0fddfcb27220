"""Snapshots: the old one, the new one or the ``.bak`` is there after any stop, and one of them is always whole."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.forgetful_fs import ForgetfulFileSystem, PowerCut
from tests.support.hooked_fs import HookedFileSystem
from tests.support.power_switch import MOMENTS, EndAt, Moment, power_off

from litemq.format.checkpoint import Checkpoint
from litemq.format.config_json import JsonObject
from litemq.store import checkpoint, snapshot
from litemq.store.fs import FileSystem, OsFileSystem

CONFIG = Path("/config")
TABLE = CONFIG / "table.json"


def new_disk() -> ForgetfulFileSystem:
    disk = ForgetfulFileSystem()
    disk.make_dirs(CONFIG)
    return disk


def put(fs: FileSystem, path: Path, data: bytes) -> None:
    fs.remove(path)
    file = fs.create(path, 0)
    file.write_at(data, 0)
    file.close()


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    fs = OsFileSystem()
    path = tmp_path / "table.json"
    assert snapshot.read(fs, path) is None
    for number in range(3):
        snapshot.write(fs, path, {"number": number, "litemq": {"position": number}})
        assert snapshot.read(fs, path) == {"number": number, "litemq": {"position": number}}
    assert sorted(item.name for item in tmp_path.iterdir()) == ["table.json", "table.json.bak"]
    path.unlink()
    assert snapshot.read(fs, path) == {"number": 1, "litemq": {"position": 1}}
    snapshot.drop_backups(fs, [path])
    assert snapshot.read(fs, path) is None
    snapshot.drop_backups(fs, [path])


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"\0" * 100, b"\xff\xfe", b'{"a":1} x'])
def test_a_damaged_snapshot_gives_way_to_the_one_before(garbage: bytes) -> None:
    disk = new_disk()
    snapshot.write(disk, TABLE, {"number": 1})
    snapshot.write(disk, TABLE, {"number": 2})
    put(disk, TABLE, garbage)
    assert snapshot.read(disk, TABLE) == {"number": 1}
    put(disk, TABLE.with_name("table.json.bak"), garbage)
    assert snapshot.read(disk, TABLE) is None
    snapshot.write(disk, TABLE, {"number": 3})
    assert snapshot.read(disk, TABLE) == {"number": 3}


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stop_anywhere_leaves_the_old_or_the_new_one(moment: Moment, power: bool) -> None:
    for call in range(8):
        for seed in range(20):
            disk = new_disk()
            for number in (1, 2):
                snapshot.write(disk, TABLE, {"number": number})
            finished = False
            try:
                snapshot.write(HookedFileSystem(disk, EndAt(call, moment, power_off)), TABLE, {"number": 3})
                finished = True
            except PowerCut:
                pass
            after = disk.crash(Random(seed)) if power else disk.kill()
            assert snapshot.read(after, TABLE) in ([{"number": 3}] if finished else [{"number": 2}, {"number": 3}])
            snapshot.write(after, TABLE, {"number": 4})  # whatever was left behind
            assert snapshot.read(after.crash(Random(seed)), TABLE) == {"number": 4}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_checkpoint_is_replaced_in_one_step(moment: Moment) -> None:
    path = CONFIG / "checkpoint"
    old, new = Checkpoint(1, 2, 3, flushed=10, derived=10), Checkpoint(4, 5, 6, flushed=20, derived=20)
    for call in range(7):
        for seed in range(20):
            disk = new_disk()
            checkpoint.write(disk, path, old)
            finished = False
            try:
                checkpoint.write(HookedFileSystem(disk, EndAt(call, moment, power_off)), path, new)
                finished = True
            except PowerCut:
                pass
            assert checkpoint.read(disk.crash(Random(seed)), path) in ([new] if finished else [old, new])


def test_a_checkpoint_that_is_too_short_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    assert checkpoint.read(OsFileSystem(), path) is None
    path.write_bytes(b"short")
    assert checkpoint.read(OsFileSystem(), path) is None


@pytest.mark.parametrize(
    ("table", "position"),
    [
        (None, None),
        ({}, None),
        ({"litemq": 5}, None),
        ({"litemq": {}}, None),
        ({"litemq": {"position": True}}, None),
        ({"litemq": {"position": "7"}}, None),
        ({"litemq": {"position": 7}}, 7),
    ],
)
def test_the_position_of_a_snapshot(table: JsonObject | None, position: int | None) -> None:
    assert snapshot.position_of(table) == position
