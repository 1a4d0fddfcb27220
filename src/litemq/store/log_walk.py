"""Open the log at a path and walk over its records: what every command on store files stands on.

``open_log`` finds files and format; ``Log.batches`` yields sound records as rows, ``Log.records`` as values, and
``Log.damage`` says what the latest walk could not read.  A walk changes nothing and is the same every time.

A store that a broker holds open is read up to the flushed position of its checkpoint; one that is not LiteMQ's up to
the first record that is not whole.  Neither end is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from litemq.errors import BadStore
from litemq.format import checkpoint, rows
from litemq.format.record import FORMATS, TMQ, Format, decode_row
from litemq.format.tmq import ANY_MAGIC
from litemq.format.tmq import MAGIC as TMQ_MAGIC
from litemq.store.fs import File, FileSystem, OsFileSystem
from litemq.store.log_files import BROKER_TRACE, LogFiles, find, named_by_queue
from litemq.store.log_format import check_version, detect_format
from litemq.store.segment_walk import TABLE_ROWS, Batch, Damage
from litemq.store.stream_walk import Reached, StreamWalk
from litemq.store.window import WINDOW
from litemq.types import Record

__all__ = ["Batch", "Damage", "Damages", "Log", "Reached", "open_log"]

MAX_LISTED: Final = 1000
"""Damages that are remembered one by one; all are counted."""


@dataclass(slots=True)
class Damages:
    """What one walk could not read."""

    listed: list[Damage] = field(default_factory=list)
    torn: int = 0
    corrupt: int = 0
    skipped_bytes: int = 0

    def add(self, damage: Damage) -> None:
        if damage.kind == "torn":
            self.torn += 1
        else:
            self.corrupt += 1
        self.skipped_bytes += damage.size
        if len(self.listed) < MAX_LISTED:
            self.listed.append(damage)

    @classmethod
    def of(cls, parts: Iterable[Damages]) -> Damages:
        """Put together what was found in parts that follow each other."""
        found = cls()
        for part in parts:
            found.torn += part.torn
            found.corrupt += part.corrupt
            found.skipped_bytes += part.skipped_bytes
            found.listed += part.listed[: MAX_LISTED - len(found.listed)]
        return found


class Log:
    """The records at a path.  One walk at a time; nothing stays open between walks."""

    def __init__(
        self,
        files: LogFiles,
        fmt: Format | None,
        magic: int,
        fs: FileSystem,
        *,
        live: Live | None,
        checked_from: int | None = None,
    ) -> None:
        self.files = files
        self.format = fmt
        """None: nothing is written yet."""
        self.fs = fs
        self.open_file: Callable[[Path], File] = fs.open
        """How a walk opens a segment."""
        self.live = live
        """Set while another process holds the store."""
        self.checked_from = checked_from
        """Position from which on a record without a checksum is no whole one; None: nobody says."""
        self.damage = Damages()
        """Of the latest walk, complete when it ended."""
        self.reached: list[list[Reached]] = [[] for _ in files.streams]
        """Segments that the latest walk went through, for each log."""
        self.first_positions: list[int] = [stream.named_start for stream in files.streams]
        """Start of each log's first segment by its name, until a walk has looked at it."""
        self._magic = magic

    @property
    def path(self) -> Path:
        return self.files.path

    @property
    def store(self) -> Path | None:
        """The store directory, when the path is one."""
        return self.files.store

    @property
    def segment_count(self) -> int:
        return sum(len(stream.segments) for stream in self.files.streams)

    @property
    def first_position(self) -> int:
        """Start of the log's first segment, known after a walk; 0 in a log without files."""
        return self.first_positions[0] if self.first_positions else 0

    @property
    def end_position(self) -> int:
        """End of the written part, known after a walk."""
        return self.end_of(0) if self.reached else 0

    def end_of(self, stream: int) -> int:
        """Return the end of one log's written part, known after a walk; segments made in advance are not written."""
        for reached in reversed(self.reached[stream]):
            if reached.end > reached.start:
                return reached.end
        return self.first_positions[stream]

    def batches(
        self,
        from_position: int | None = None,
        *,
        streams: range | None = None,
        on_damage: Callable[[Damage], None] | None = None,
        window: int = WINDOW,
        is_exact: bool = False,
    ) -> Iterator[Batch]:
        """Yield all sound records at or behind ``from_position`` as rows, in log order, log by log.

        A batch is good until the next one is asked for.  Earlier segments are not read when names tell positions.
        ``window`` is how many bytes are looked at together, for who walks over many logs at once.  With ``is_exact`` a
        record starts at ``from_position``, so that its segment need not be read from its start.
        """
        count = len(self.files.streams)
        # Only the logs of this walk get a list of their own: a tree may be walked by one walk for each of its queues.
        reached: dict[int, list[Reached]] = {number: [] for number in streams or range(count)}
        others: list[Reached] = []
        self.reached = [reached.get(number, others) for number in range(count)]
        report = self._reporter(on_damage)
        if self.format is None:
            return
        buffer = bytearray(window)
        table = rows.table(max(1, TABLE_ROWS * window // WINDOW))
        for number in reached:
            walk = StreamWalk(self, self.format, self._magic, number, reached[number], report)
            yield from walk.batches(-1 if from_position is None else from_position, buffer, table, is_exact=is_exact)

    def part(
        self, segment: int, start: int, end: int, on_damage: Callable[[Damage], None] | None = None
    ) -> Iterator[Batch]:
        """Yield the sound records of one segment of the first log, from ``start``, where one starts, to before ``end``.

        Afterwards ``reached`` and ``damage`` tell of this part alone.
        """
        self.reached = [[] for _ in self.files.streams]
        report = self._reporter(on_damage)
        if self.format is not None:
            walk = StreamWalk(self, self.format, self._magic, 0, self.reached[0], report)
            yield from walk.part(segment, start, end, bytearray(WINDOW), rows.table(TABLE_ROWS))

    def _reporter(self, on_damage: Callable[[Damage], None] | None) -> Callable[[Damage], None]:
        """Begin to count what a walk cannot read; return what is to be told of each damage."""
        damage = self.damage = Damages()

        def report(found: Damage) -> None:
            damage.add(found)
            if on_damage is not None:
                on_damage(found)

        return report

    def with_files(self, files: LogFiles) -> Log:
        """Return a log of the same kind over other files, such as some of its streams."""
        return Log(files, self.format, self._magic, self.fs, live=self.live, checked_from=self.checked_from)

    def __reduce__(self) -> tuple[object, ...]:
        """Let a walk in another process find the very same log, whatever has happened to the files since."""
        name = None if self.format is None else self.format.name
        return _same_log, (self.files, name, self._magic, self.live, self.checked_from)

    def records(
        self,
        from_position: int | None = None,
        *,
        topic: str | None = None,
        queue_id: int | None = None,
        on_damage: Callable[[Damage], None] | None = None,
        on_batch: Callable[[Log, Batch], None] | None = None,
        window: int = WINDOW,
    ) -> Iterator[Record]:
        """Yield all sound records at or behind ``from_position``, of one topic or queue when named."""
        wanted = None if topic is None else topic.encode("utf-8", "surrogatepass")
        for batch in self.batches(from_position, on_damage=on_damage, window=window):
            if on_batch is not None:
                on_batch(self, batch)
            yield from decoded(self.format, batch, wanted, queue_id)


def _same_log(files: LogFiles, name: str | None, magic: int, live: Live | None, checked_from: int | None) -> Log:
    fmt = None if name is None else FORMATS[name]
    return Log(files, fmt, magic, OsFileSystem(), live=live, checked_from=checked_from)


def decoded(fmt: Format | None, batch: Batch, topic: bytes | None, queue_id: int | None) -> Iterator[Record]:
    """Yield the records of one batch, of one topic or queue when named."""
    if fmt is None:
        return
    table = batch.table
    for row in range(batch.first, batch.count):
        at = row * rows.WIDTH
        if queue_id is not None and table[at + rows.QUEUE_ID] != queue_id:
            continue
        if topic is not None:
            start = table[at + rows.TOPIC_AT]
            if batch.view[start : start + table[at + rows.TOPIC_SIZE]] != topic:
                continue
        yield decode_row(fmt, batch.view, table, row, batch.segment.name)


@dataclass(frozen=True, slots=True)
class Live:
    """A store that another process is writing."""

    flushed: int | None
    """Where the log ends for readers; None: at the first record that is not whole."""
    derived: int | None
    """ConsumeQueues and index hold everything below; None: nobody says."""


def open_log(
    path: Path | str,
    format: str | None = None,  # noqa: A002 - the CLI's word
    fs: FileSystem | None = None,
    *,
    live: bool | None = None,
) -> Log:
    """Open the log at ``path``: a store directory, a directory of segments, or one segment.

    Args:
        format: name of its format; None or ``auto``: the magic of the first record decides.
        live: whether another process is writing; None: its lock tells.

    Raises:
        BadStore: there is no log, or none that can be worked on; the text says what to do.
    """
    fs = fs or OsFileSystem()
    path = Path(path)
    named = None
    if format not in (None, "auto"):
        named = FORMATS.get(str(format))
        if named is None:
            raise BadStore(f"unknown format {format!r}; choose auto, {', '.join(FORMATS)}")
    files = find(path, fs, as_tmq=named is TMQ)
    try:
        check_version(files, fs)
        if live is None:
            live = files.store is not None and not files.is_tree and fs.is_locked(files.store / "lock")
        fmt = detect_format(files, fs, named)
        return Log(
            named_by_queue(files) if fmt is TMQ else files,
            fmt,
            ANY_MAGIC if named is TMQ else TMQ_MAGIC,
            fs,
            live=_live(files, fs) if live else None,
            checked_from=_checked_from(files, fs),
        )
    except OSError as error:
        raise BadStore(f"cannot read {error.filename or path}: {error.strerror or error}") from error


def _live(files: LogFiles, fs: FileSystem) -> Live:
    found = read_checkpoint(files.store, fs)
    return Live(found.flushed, found.derived) if found is not None else Live(None, None)


def _checked_from(files: LogFiles, fs: FileSystem) -> int | None:
    """Return where the next opening of the store begins to ask for checksums."""
    if files.store is None or files.is_tree or fs.exists(files.store / BROKER_TRACE):
        return None
    try:
        found = read_checkpoint(files.store, fs)
    except OSError:
        return None
    return found.checked_from if found is not None else None


def read_checkpoint(store: Path | None, fs: FileSystem) -> checkpoint.Checkpoint | None:
    """Return what the store's checkpoint says; None when it has none."""
    if store is None or not fs.exists(store / "checkpoint"):
        return None
    file = fs.open(store / "checkpoint")
    try:
        return checkpoint.decode(file.read_at(checkpoint.SIZE, 0))
    finally:
        file.close()
