"""Disk faults by plan: full, broken, read-only, short writes, failed syncs; each can be cured."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from fnmatch import fnmatch
from random import Random

from tests.support.forgetful_fs import ForgetfulFile, ForgetfulFileSystem
from tests.support.hooked_fs import MUTATING, SYNCS, Call, Kind

UNTIL_CURED = 1 << 62

TAKES_ROOM: frozenset[Kind] = frozenset({"write", "create", "truncate", "make_dirs", "rename", "zero"})


@dataclass(slots=True, kw_only=True)
class Fault:
    """Error ``code`` for ``count`` calls of ``kinds`` on paths like ``path``, after ``skip`` of them went well.

    A failing write first writes its ``part`` (0 to 1) of the bytes.  A failing sync loses dirty pages as Linux does.
    """

    code: int
    kinds: frozenset[Kind]
    path: str = "*"
    skip: int = 0
    count: int = UNTIL_CURED
    part: float = 0.0

    def strikes(self, call: Call) -> bool:
        """Return whether it hits this call; counts down."""
        if call.kind not in self.kinds or not fnmatch(str(call.path), self.path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.count -= 1
        return self.count >= 0


def disk_full(*, path: str = "*", skip: int = 0, count: int = UNTIL_CURED, part: float = 0.0) -> Fault:
    return Fault(code=errno.ENOSPC, kinds=TAKES_ROOM, path=path, skip=skip, count=count, part=part)


def broken_write(*, path: str = "*", skip: int = 0, count: int = UNTIL_CURED, part: float = 0.0) -> Fault:
    return Fault(code=errno.EIO, kinds=frozenset({"write"}), path=path, skip=skip, count=count, part=part)


def broken_read(*, path: str = "*", skip: int = 0, count: int = UNTIL_CURED) -> Fault:
    return Fault(code=errno.EIO, kinds=frozenset({"read"}), path=path, skip=skip, count=count)


def failed_sync(*, path: str = "*", skip: int = 0, count: int = 1, kinds: frozenset[Kind] = SYNCS) -> Fault:
    return Fault(code=errno.EIO, kinds=kinds, path=path, skip=skip, count=count)


def read_only(*, skip: int = 0) -> Fault:
    return Fault(code=errno.EROFS, kinds=MUTATING, skip=skip)


class Faults:
    """Hook that raises what the plan says."""

    def __init__(self, seed: int = 0) -> None:
        self.struck = 0
        self._rng = Random(seed)
        self._plan: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._plan.append(fault)

    def cure(self) -> None:
        """Let every later call go well."""
        self._plan.clear()

    def before(self, call: Call) -> bool:
        for fault in self._plan:
            if fault.strikes(call):
                self._strike(fault, call)
        return True

    def after(self, call: Call) -> None:
        """Nothing to do."""

    def _strike(self, fault: Fault, call: Call) -> None:
        self.struck += 1
        if call.kind == "write" and fault.part:
            call.write_part(int(len(call.data) * fault.part))
        elif call.kind == "sync" and isinstance(call.file, ForgetfulFile):
            call.file.fail_sync(self._rng)
        elif call.kind == "sync_all" and isinstance(call.fs, ForgetfulFileSystem):
            call.fs.fail_sync_all(self._rng)
        raise OSError(fault.code, os.strerror(fault.code), str(call.path))
