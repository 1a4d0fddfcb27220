"""The commit log: every message of every topic, in the order of arrival.

``end`` is the position behind the last record that was written; ``start`` that of the first that is still there.
A write that fails stops all further writes (what it left behind is unknown); reads go on.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from litemq.errors import LiteMQError, ReadFailed, StoreFull, WriteFailed
from litemq.format.record import Format
from litemq.store._append_cy import LogEnd
from litemq.store.segments import Segments

_LITEMQ_FILLER = b"\xff\xff\xff\xff"
_ROCKETMQ_FILLER = struct.Struct(">II")
_ROCKETMQ_BLANK = 0xCBD43194
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

During = Callable[[str], AbstractContextManager[object]]
"""Enters what is about to take long; its name is given."""


def unwatched(_work: str) -> AbstractContextManager[object]:
    """Tell nobody."""
    return nullcontext()


class CommitLog:
    """The files of one log and the way into them.  Called from one thread; only ``Segments.prepare`` may overlap."""

    def __init__(self, segments: Segments, fmt: Format, *, end: int) -> None:
        self.segments = segments
        self.format = fmt
        self.tail = LogEnd(end)
        """Where the next record goes; the append kernel moves it."""
        self._enter_last()
        self.failure: LiteMQError | None = None
        """Why the log takes no more writes."""
        self.rolls = 0
        self.during: During = unwatched
        """Told of what may keep the owner's thread waiting: ``flush``, ``roll``, ``checkpoint``, ``retention``."""

    def _enter_last(self) -> None:
        last = self.segments.last
        self.tail.enter(last.start, last.end, last.file.write_at)

    @property
    def end(self) -> int:
        """Return the position behind the newest record."""
        return int(self.tail.end)

    @property
    def writes(self) -> int:
        """Return how many times records were written."""
        return int(self.tail.writes)

    @property
    def start(self) -> int:
        """Return the position of the first byte that is still there."""
        return self.segments.first.start

    # -- write -----------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """Return the bytes left in the last segment."""
        return int(self.tail.segment_end - self.tail.end)

    def check_writable(self) -> None:
        """Raise the reason why the log takes no more writes, if there is one."""
        if self.failure is not None:
            raise type(self.failure)(*self.failure.args)  # a new one: raised again, the old would grow

    def stop(self, failure: LiteMQError) -> None:
        """Take no more writes; the first reason stays."""
        if self.failure is None:
            self.failure = failure
        self.tail.look_at = 0

    def failed(self, error: OSError) -> LiteMQError:
        """Take no more writes after one that failed; return its named error."""
        failure = write_error(error)
        self.stop(failure)
        return failure

    @contextmanager
    def changing_files(self) -> Iterator[None]:
        """Name what goes wrong with any file of the store: the log takes no more writes then."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def roll(self) -> None:
        """Close the last segment with a filler and start the next."""
        left = self.room
        filler = b""
        if self.format.name == "litemq":
            filler = _LITEMQ_FILLER if left >= len(_LITEMQ_FILLER) else b""
        elif left >= _ROCKETMQ_FILLER.size:
            filler = _ROCKETMQ_FILLER.pack(left, _ROCKETMQ_BLANK)
        with self.during("roll"), self.changing_files():
            # The next file first: without room for it the filler would end a segment that nothing follows.
            segment = self.segments.add(self.tail.segment_end)
            if filler:
                self.tail.write_at(filler, self.end - self.tail.segment_start)
        self.tail.end = segment.start
        self._enter_last()
        self.rolls += 1

    # -- read ------------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        """Return ``size`` bytes from ``position``; fewer at the end of a segment, none where there is no file."""
        segment = self.segments.find(position)
        if segment is None:
            return b""
        return segment.file.read_at(min(size, segment.end - position), position - segment.start)


def write_error(error: OSError) -> LiteMQError:
    """Return the named error of a failed write."""
    if error.errno in NO_SPACE:
        return StoreFull(f"the disk is full ({error.strerror}): free some room, then open the store again")
    return WriteFailed(f"a write failed ({error.strerror or error}): mend the disk, then open the store again")


def read_error(error: OSError) -> LiteMQError:
    """Return the named error of a failed read."""
    name = f" of {error.filename}" if error.filename is not None else ""
    return ReadFailed(f"a read{name} failed ({error.strerror or error}): look at the disk")


@contextmanager
def reading_files() -> Iterator[None]:
    """Name a read that fails."""
    try:
        yield
    except OSError as error:
        raise read_error(error) from error
