"""A bounded number of open files: those that were used last.

Any thread may ask.  A file that must make room is not closed but let go of: one that is still used elsewhere closes
when its last user lets go of it, too.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from litemq.store.fs import File

Key = TypeVar("Key", bound=Hashable)


class OpenFiles(Generic[Key]):
    """Opens files when they are asked for and keeps the last ``limit`` of them open."""

    def __init__(self, limit: int, open_file: Callable[[Key], File]) -> None:
        self._limit = limit
        self._open_file = open_file
        self._files: OrderedDict[Key, File] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: Key) -> File:
        """Return the open file; it stays open while the caller holds it."""
        with self._guard:
            file = self._files.get(key)
            if file is None:
                file = self._open_file(key)
                self._keep(key, file)
            else:
                self._files.move_to_end(key)
            return file

    def put(self, key: Key, file: File) -> None:
        """Take in a file that is open already."""
        with self._guard:
            self._keep(key, file)

    def _keep(self, key: Key, file: File) -> None:
        self._files[key] = file
        if len(self._files) > self._limit:
            self._files.popitem(last=False)

    def drop(self, key: Key) -> None:
        """Let go of a file; nothing happens when it is not open."""
        with self._guard:
            self._files.pop(key, None)

    def clear(self) -> None:
        """Let go of all files."""
        with self._guard:
            self._files.clear()
