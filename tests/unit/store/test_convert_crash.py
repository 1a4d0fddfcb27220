"""An interrupted conversion leaves no destination that looks complete."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.support.hooked_fs import Call, HookedFileSystem
from tests.support.killer_fs import killer_fs
from tests.support.power_switch import CallLog
from tests.unit.store.convert_support import FIXTURES, NAMES, SMALL, contents, is_sound, tree

from litemq.errors import BadStore
from litemq.store.convert import convert
from litemq.store.fs import FileSystem, OsFileSystem

SOURCE = next(fixture for fixture in FIXTURES if str(fixture) == "litemq-store").open(Path())


class FailAt:
    """Raises an error at the ``number``-th mutating call, and at none after it."""

    def __init__(self, number: int, error: BaseException) -> None:
        self._left = number
        self._error = error

    def before(self, call: Call) -> bool:
        if call.is_mutating:
            self._left -= 1
            if self._left == -1:
                raise self._error
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""


def calls_of(to: str, target: Path) -> int:
    log = CallLog()
    convert(SOURCE, target, to=to, fs=HookedFileSystem(OsFileSystem(), log), **SMALL)
    return len(log.sites)


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("to", NAMES)
def test_an_error_anywhere_leaves_what_was_there(to: str, exists: bool, tmp_path: Path) -> None:
    total = calls_of(to, tmp_path / "whole")
    folder = tmp_path / "place"
    folder.mkdir()
    for number in range(0, total - 1, 3):  # the last call syncs the name of what is complete
        if exists:
            (folder / "target").mkdir(exist_ok=True)
        error = KeyboardInterrupt() if number % 2 else OSError(errno.ENOSPC, "No space left on device")
        fs: FileSystem = HookedFileSystem(OsFileSystem(), FailAt(number, error))
        with pytest.raises((OSError, KeyboardInterrupt, BadStore)):
            convert(SOURCE, folder / "target", to=to, fs=fs, **SMALL)
        assert list(folder.iterdir()) == ([folder / "target"] if exists else [])
        assert tree(folder) == {}


def run_killed(to: str, target: Path, number: int) -> int:
    """Convert in a process that is killed at one call; return its wait status."""
    child = os.fork()
    if child == 0:
        try:
            convert(SOURCE, target, to=to, fs=killer_fs(number, "after"), **SMALL)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("to", NAMES)
def test_a_kill_anywhere_leaves_no_destination(to: str, tmp_path: Path) -> None:
    total = calls_of(to, tmp_path / "whole")
    expected = contents(tmp_path / "whole", to)
    for number in sorted({*range(0, total, 5), total - 2, total - 1}):
        target = tmp_path / f"{number}" / "target"
        assert os.WIFSIGNALED(run_killed(to, target, number))
        if target.exists():  # only the sync of its name was left to do
            assert number >= total - 2
            assert contents(target, to) == expected
            assert is_sound(target, to)
