"""The file ``abort``: there while a store runs, so that a start that finds it knows of a crash.

It says up to where the log was flushed, which is never synced and only a hint: after a flush that failed, pages may
read well and count as clean though they are not on disk, so the next start writes again what was not flushed.  A
power cut loses the hint, and those pages with it.
"""

from __future__ import annotations

from pathlib import Path

from litemq.store.fs import File, FileSystem

_PREFIX = b"flushed="


class RunningMark:
    """The mark of a store that is open for writing."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path
        self.was_there = fs.exists(path)
        """Whether the last run did not stop cleanly."""
        self._file: File = fs.open(path, write=True) if self.was_there else fs.create(path, 0)
        self.flushed = self._read()
        """Position that the last run knew to be flushed, 0 when it does not say."""
        # Also when it was there: the last run may have died before it was on disk, and this one must not look clean.
        fs.sync_dir(path.parent)
        self._file.truncate(0)  # whatever this run finds and cuts, the word of the last one counts no more

    def _read(self) -> int:
        text = self._file.read_at(64, 0)
        digits = text.removeprefix(_PREFIX)
        return int(digits) if text.startswith(_PREFIX) and digits.isdigit() else 0  # a real RocketMQ writes its pid

    def note_flushed(self, position: int) -> None:
        """Say that the log is on disk up to ``position``; without this word the next start only works more."""
        try:
            self._file.write_at(_PREFIX + b"%020d" % position, 0)
        except OSError:
            return

    def remove(self) -> None:
        """Take the mark away: this stop is a clean one; durable on return."""
        self._fs.remove(self._path)
        self._fs.sync_dir(self._path.parent)

    def close(self) -> None:
        """Let go of the file; the mark stays."""
        self._file.close()
