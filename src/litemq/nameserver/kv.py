"""Key/value config: namespaces of texts that operators and brokers keep at a name server.

With a folder it is the file ``kvConfig.json`` in RocketMQ's form, replaced in one step; a change is answered when it
is durable.  Without one it lives as long as the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from litemq.errors import BadField, BadStore, Busy, WriteFailed
from litemq.format.config_json import JsonObject
from litemq.store import snapshot
from litemq.store.fs import FileSystem, OsFileSystem

FILE_NAME = "kvConfig.json"
ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace that brokers are told when they register."""

MAX_KEYS = 10_000
MAX_TEXT = 65_535
"""Characters of a namespace, a key or a value."""

_Table = dict[str, dict[str, str]]


class KeyValues:
    """The table; changes are made one after the other, each written before it is seen."""

    def __init__(self, folder: Path | None, fs: FileSystem | None = None) -> None:
        self._fs = fs or OsFileSystem()
        self._path = folder / FILE_NAME if folder is not None else None
        self._table: _Table = {}
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()

    def load(self) -> None:
        """Read the file, if there is one.

        Raises:
            BadStore: it cannot be read; it is left as it is.
        """
        if self._path is None:
            return
        try:
            self._fs.make_dirs(self._path.parent)
            found = snapshot.read(self._fs, self._path)
            is_there = self._fs.exists(self._path)
        except OSError as error:
            raise BadStore(f"the key/value config {self._path} cannot be read: {error}") from error
        if found is None and is_there:
            raise BadStore(f"the key/value config {self._path} is damaged: repair or remove it")
        self._table = _read(found, self._path) if found is not None else {}

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return the pairs of a namespace, None when there is none."""
        return self._table.get(name)

    def value(self, namespace: str, key: str) -> str | None:
        """Return one value."""
        return self._table.get(namespace, {}).get(key)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; durable on return."""
        for text in (namespace, key, value):
            if len(text) > MAX_TEXT:
                raise BadField(f"a text of {len(text)} characters, at most {MAX_TEXT} are kept")
        await self._finish(self._put(namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """Remove a value; nothing happens when there is none."""
        await self._finish(self._delete(namespace, key))

    async def close(self) -> None:
        """Wait for changes under way."""
        await asyncio.gather(*self._changes, return_exceptions=True)

    async def _finish(self, change: Coroutine[Any, Any, None]) -> None:
        """Make a change to its end even when nobody waits for it any more: half of one must not be overtaken."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        await asyncio.shield(task)

    async def _put(self, namespace: str, key: str, value: str) -> None:
        async with self._changing:
            if self.value(namespace, key) is None and sum(map(len, self._table.values())) >= MAX_KEYS:
                raise Busy(f"{MAX_KEYS} keys are kept, there is no room for more")
            await self._replace({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})

    async def _delete(self, namespace: str, key: str) -> None:
        async with self._changing:
            if self.value(namespace, key) is None:
                return
            left = {name: text for name, text in self._table[namespace].items() if name != key}
            others = {name: pairs for name, pairs in self._table.items() if name != namespace}
            await self._replace({**others, namespace: left} if left else others)

    async def _replace(self, table: _Table) -> None:
        if self._path is not None:
            whole: JsonObject = {"configTable": {name: {**pairs} for name, pairs in table.items()}}
            try:
                # In a thread: a busy disk must not hold up those who ask for routes.
                await asyncio.to_thread(snapshot.write, self._fs, self._path, whole)
            except OSError as error:
                raise WriteFailed(f"the key/value config {self._path} cannot be written: {error}") from error
        self._table = table


def _read(found: JsonObject, path: Path) -> _Table:
    table = found.get("configTable")
    if not isinstance(table, dict):
        raise BadStore(f"the key/value config {path} has no configTable: repair or remove it")
    return {
        name: {key: value for key, value in pairs.items() if isinstance(value, str)}
        for name, pairs in table.items()
        if isinstance(pairs, dict)
    }
