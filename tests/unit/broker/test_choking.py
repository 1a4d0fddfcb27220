"""Too much that is not flushed: the broker stops reading, and never waits for the disk itself."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from tests.support.broker import Talk, running, until
from tests.support.hooked_fs import Call, HookedFileSystem

from litemq.config import StoreConfig
from litemq.store.fs import OsFileSystem
from litemq.wire.remoting.codes import Code


class _Gate:
    """Syncs of the log wait until the gate is open."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()

    def before(self, call: Call) -> bool:
        if call.kind == "sync" and "commitlog" in str(call.path):
            assert self.is_open.wait(20)
        return True

    def after(self, call: Call) -> None:
        pass


def test_a_broker_whose_disk_is_behind_reads_no_more_until_it_is_not(tmp_path: Path) -> None:
    gate = _Gate()
    store = StoreConfig(flush_bytes=2_000, dirty_limit_bytes=20_000)

    async def test() -> None:
        async with running(tmp_path, store=store, fs=HookedFileSystem(OsFileSystem(), gate)) as (broker, talk):
            assert (await talk.send("T", b"first")).code == Code.SUCCESS
            other = Talk(broker.address)
            assert (await other.send("T", b"other")).code == Code.SUCCESS
            gate.is_open.clear()
            # The compiled way stores the first one, Python's the second: neither waits on the loop.
            assert (await talk.send("T", b"0" * 12_000)).code == Code.SUCCESS
            assert (await talk.send("T", b"1" * 12_000, TRACE_ON="x")).code == Code.SUCCESS
            await until(lambda: broker.store.is_choked)
            waiting = asyncio.create_task(other.send("T", b"must wait"))
            await asyncio.sleep(0.3)  # the loop runs; nothing is read from the sockets
            assert not waiting.done()
            gate.is_open.set()
            assert (await waiting).code == Code.SUCCESS
            assert not broker.store.is_choked
            other.close()

    asyncio.run(asyncio.wait_for(test(), 60))
