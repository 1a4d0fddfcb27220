"""Where the files of one ConsumeQueue are, and how a part of its entries is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from litemq.store.fs import WOULD_BLOCK, File


class QueueFiles:
    """Where one queue's files are: their directory and the sorted byte positions of their first entries."""

    __slots__ = ("_directory", "end_asked", "end_offset", "end_position", "min_offset", "min_offset_start", "starts")

    def __init__(self, directory: Path, starts: list[int]) -> None:
        self._directory = str(directory)  # a tenth of a Path: there may be 80 000 of them
        self.starts = starts
        self.min_offset = -1
        """First offset whose record is still there, found for a log that starts at ``min_offset_start``."""
        self.min_offset_start = -1
        self.end_asked = -1
        """A position that was asked for; -1: what follows is not known."""
        self.end_offset = 0
        """First offset whose record lies at or behind it, ``end_position``."""
        self.end_position = 0

    def forget(self) -> None:
        """Forget what was found out about the queue's ends: its entries were changed."""
        self.min_offset_start = self.end_asked = -1

    @property
    def directory(self) -> Path:
        """Return the directory of the queue."""
        return Path(self._directory)

    def path(self, start: int) -> Path:
        """Return the path of the file whose first byte is at ``start``."""
        return Path(f"{self._directory}/{start:020d}")


class EntryPart(NamedTuple):
    """Consecutive entries of a queue: ``size`` bytes at a place of a file, or ``data``, or nothing at all."""

    file: File | None
    place: int
    size: int
    data: bytes = b""


def read_parts(parts: list[EntryPart], filler: bytes, *, nowait: bool) -> bytearray | None:
    """Return the entries behind each other; None when ``nowait`` and they are not in memory.  Any thread may call it.

    ``filler`` is the entry of a message that is not there: it stands where a file is missing or too short.
    """
    whole = bytearray(sum(part.size for part in parts))
    at = 0
    for part in parts:
        have = len(part.data)
        if part.file is not None:
            have = part.file.read_into(memoryview(whole)[at : at + part.size], part.place, nowait=nowait)
            if have == WOULD_BLOCK:
                return None
        elif have:
            whole[at : at + have] = part.data
        if have < part.size:
            sound = have - have % len(filler)
            whole[at + sound : at + part.size] = filler * ((part.size - sound) // len(filler))
        at += part.size
    return whole
