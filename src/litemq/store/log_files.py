"""Find the files of the log that a path names.

A path is a store directory (``commitlog/``, or a tmq tree ``{topic}/{queue}/…``), a directory of segments, or one
segment.  A segment's name is the position of its first byte, zeros or spaces in front; a reader also takes ordinal
names and a ``.log`` suffix.  No file is opened here.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from litemq.errors import BadStore
from litemq.store.fs import FileSystem

PathKind = Literal["store", "log", "file"]

BROKER_TRACE: Final = "abort.bak"
"""What a RocketMQ broker leaves in a store: it makes this file whenever it starts."""

COMMIT_LOG: Final = "commitlog"
TMQ_INDEX: Final = "index"
_NAME: Final = re.compile(r" *([0-9]{1,20})(?:\.log)?")
MAX_START: Final = 1 << 62
"""No log gets so far; 20 digits can say more, and so can a damaged record."""
_SMALLEST_RECORD: Final = 50
"""No record of any format is smaller: names that are closer to each other count files, not bytes."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One file of a log."""

    path: Path
    name: str
    """As people see it; in a tmq tree ``topic/queue/file``."""
    number: int | None
    """What its name says."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The segments of one log in order.  Only a tmq tree has more than one log."""

    segments: tuple[SegmentFile, ...]
    is_ordinal: bool = False
    """Names count files: positions come from the running sum of the written parts."""
    folder: Path | None = None
    topic: str = ""
    queue_id: int = -1

    @property
    def named_start(self) -> int:
        """The position of the first byte by the first file's name; 0 where names say nothing of positions."""
        return 0 if self.is_ordinal or not self.segments else self.segments[0].number or 0


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What a path turned out to be."""

    path: Path
    kind: PathKind
    streams: tuple[Stream, ...]
    is_tree: bool = False

    @property
    def store(self) -> Path | None:
        """The store directory, when the path is one."""
        return self.path if self.kind == "store" else None


def find(path: Path, fs: FileSystem, *, as_tmq: bool = False) -> LogFiles:
    """Return the files of the log at ``path``; ``as_tmq`` when the caller named that format.

    Raises:
        BadStore: there is nothing there that could be a log.
    """
    try:
        return _find(path, fs, as_tmq=as_tmq)
    except OSError as error:
        raise BadStore(f"cannot read {path}: {error.strerror or error}") from error


def _find(path: Path, fs: FileSystem, *, as_tmq: bool) -> LogFiles:
    if not fs.exists(path):
        raise BadStore(f"no such file or directory: {path}; check the path")
    if not fs.is_dir(path):
        return LogFiles(path, "file", (Stream((SegmentFile(path, path.name, _number(path.name)),)),))
    log = path / COMMIT_LOG
    if fs.is_dir(log):
        stream = _stream(log, fs)
        is_topic = not stream.segments and bool(_queues(log, COMMIT_LOG, fs))
        if (as_tmq or is_topic) and (queues := _tree(path, fs)):
            return LogFiles(path, "store", queues, is_tree=True)
        return LogFiles(path, "store", (stream,))
    stream = _stream(path, fs)
    if stream.segments or path.name == COMMIT_LOG:
        return LogFiles(path, "log", (stream,))
    if fs.is_dir(path.parent / COMMIT_LOG) and path.name.endswith("consumequeue"):
        raise BadStore(f"{path} holds the consume queues of a store, not a log; give the store's own directory")
    queues = _tree(path, fs)
    if queues or _is_empty_tree(path, fs):
        return LogFiles(path, "store", queues, is_tree=True)
    raise BadStore(
        f"{path} is no store: it has neither commitlog/ nor segment files nor {{topic}}/{{queue}}/ folders; "
        "give a store directory, a directory of segments or one segment file"
    )


def named_by_queue(files: LogFiles) -> LogFiles:
    """Return the folder of one tmq queue with names as in its tree, ``topic/queue/file``."""
    folder = files.path.resolve()
    if files.kind != "log" or not folder.name.isdecimal():
        return files
    shown = f"{folder.parent.name}/{folder.name}/"
    (stream,) = files.streams
    segments = tuple(replace(segment, name=shown + segment.name) for segment in stream.segments)
    return replace(files, streams=(replace(stream, segments=segments),))


def _number(name: str) -> int | None:
    found = _NAME.fullmatch(name)
    number = int(found[1]) if found else MAX_START
    return number if number < MAX_START else None


def _stream(folder: Path, fs: FileSystem, *, topic: str = "", queue_id: int = -1, shown: str = "") -> Stream:
    found = []
    for name in fs.names(folder):
        number = _number(name)
        if number is not None and not fs.is_dir(folder / name):
            found.append((number, name))
    found.sort()
    segments = tuple(SegmentFile(folder / name, shown + name, number) for number, name in found)
    return Stream(segments, _counts_files([number for number, _ in found]), folder, topic, queue_id)


def _counts_files(numbers: list[int]) -> bool:
    if not numbers:
        return False
    if 0 < numbers[0] < _SMALLEST_RECORD:
        return True
    return any(0 < later - number < _SMALLEST_RECORD for number, later in itertools.pairwise(numbers))


def _tree(path: Path, fs: FileSystem) -> tuple[Stream, ...]:
    """Return the queues of a tmq tree by topic, then number; none when it is no such tree."""
    queues = []
    failed: OSError | None = None
    for topic in fs.names(path):
        try:
            queues += _queues(path / topic, topic, fs)
        except OSError as error:  # matters only if the rest turns out to be a tree
            failed = error
    if queues and failed is not None:
        raise failed
    return tuple(queues)


def _is_empty_tree(path: Path, fs: FileSystem) -> bool:
    """Return whether this is what a conversion to tmq leaves when there was no record: a table of no topics."""
    return fs.names(path) == ["config"] and fs.names(path / "config") == ["topics.json"]


def _queues(folder: Path, topic: str, fs: FileSystem) -> list[Stream]:
    if not fs.is_dir(folder):
        return []
    found = []
    for number in sorted(int(name) for name in fs.names(folder) if name.isdecimal() and name.isascii()):
        queue = folder / str(number)
        if fs.is_dir(queue):
            stream = _stream(queue, fs, topic=topic, queue_id=number, shown=f"{topic}/{number}/")
            if stream.segments or fs.exists(queue / TMQ_INDEX):
                found.append(stream)
    return found
