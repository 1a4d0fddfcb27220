"""Key/value config: kept, kept durably, and never lost to a damaged file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from litemq.errors import BadField, BadStore, Busy, WriteFailed
from litemq.nameserver import kv as kv_module
from litemq.nameserver.kv import FILE_NAME, KeyValues
from litemq.store.fs import File, OsFileSystem


def test_values_survive_a_restart(tmp_path: Path) -> None:
    async def write() -> None:
        kv = KeyValues(tmp_path / "data")
        kv.load()
        await asyncio.gather(*(kv.put("N", f"k{number}", "ü") for number in range(20)))
        await kv.put("M", "k", "v")
        await kv.delete("M", "k")
        await kv.delete("M", "k")
        await kv.close()

    asyncio.run(write())
    again = KeyValues(tmp_path / "data")
    again.load()
    assert again.namespace("N") == {f"k{number}": "ü" for number in range(20)}
    assert again.namespace("M") is None
    assert again.value("N", "k0") == "ü"
    assert again.value("N", "k20") is None


def test_the_file_has_rocketmqs_form(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"configTable":{"ORDER_TOPIC_CONFIG":{"T1":"broker-a:4"}}}')
    kv = KeyValues(tmp_path)
    kv.load()
    assert kv.namespace("ORDER_TOPIC_CONFIG") == {"T1": "broker-a:4"}
    asyncio.run(kv.put("N", "k", "v"))
    assert json.loads((tmp_path / FILE_NAME).read_text())["configTable"]["N"] == {"k": "v"}


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_damaged_file_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(BadStore, match="repair or remove it"):
        KeyValues(tmp_path).load()
    assert (tmp_path / FILE_NAME).read_text() == text


def test_a_change_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    class Full(OsFileSystem):
        def create(self, path: Path, size: int, *, reserve: bool = False) -> File:
            raise OSError(28, "No space left on device")

    kv = KeyValues(tmp_path, Full())
    kv.load()
    with pytest.raises(WriteFailed, match="No space left"):
        asyncio.run(kv.put("N", "k", "v"))
    assert kv.namespace("N") is None


def test_a_change_is_finished_when_nobody_waits_for_it(tmp_path: Path) -> None:
    async def write() -> None:
        kv = KeyValues(tmp_path)
        kv.load()
        impatient = asyncio.create_task(kv.put("N", "k", "v"))
        await asyncio.sleep(0)
        impatient.cancel()
        await kv.close()
        assert kv.value("N", "k") == "v"
        assert impatient.cancelled()

    asyncio.run(write())


def test_keys_and_texts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write() -> None:
        monkeypatch.setattr(kv_module, "MAX_KEYS", 2)
        kv = KeyValues(None)
        kv.load()
        await kv.put("N", "a", "1")
        await kv.put("M", "b", "1")
        await kv.put("M", "b", "2")
        with pytest.raises(Busy, match="2 keys"):
            await kv.put("N", "c", "1")
        with pytest.raises(BadField, match="65536 characters"):
            await kv.put("N", "a", "x" * 65_536)

    asyncio.run(write())
