"""Where the files of one ConsumeQueue are."""

from __future__ import annotations

from pathlib import Path


class QueueFiles:
    """Where one queue's files are: their directory and the sorted byte positions of their first entries."""

    __slots__ = ("_directory", "min_offset", "min_offset_start", "starts")

    def __init__(self, directory: Path, starts: list[int]) -> None:
        self._directory = str(directory)  # a tenth of a Path: there may be 80 000 of them
        self.starts = starts
        self.min_offset = -1
        """First offset whose record is still there, found for a log that starts at ``min_offset_start``."""
        self.min_offset_start = -1

    @property
    def directory(self) -> Path:
        """Return the directory of the queue."""
        return Path(self._directory)

    def path(self, start: int) -> Path:
        """Return the path of the file whose first byte is at ``start``."""
        return Path(f"{self._directory}/{start:020d}")
