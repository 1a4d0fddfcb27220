"""The real file system, with a ``kill -9`` of this process at one chosen call."""

from __future__ import annotations

import os
import signal

from tests.support.hooked_fs import HookedFileSystem
from tests.support.power_switch import EndAt, Moment, NoSync

from litemq.store.fs import FileSystem, OsFileSystem


def killer_fs(number: int, moment: Moment) -> FileSystem:
    """Return a file system that kills at the ``number``-th mutating call (from 0; negative: never)."""
    return HookedFileSystem(real_fs(), EndAt(number, moment, _kill_self))


def real_fs() -> FileSystem:
    """Return the real file system without its syncs, which a dead process does not need."""
    return HookedFileSystem(OsFileSystem(), NoSync())


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
