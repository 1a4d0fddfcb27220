"""Convert a log of any format to a complete store of any format; the same one gives a compacted copy.

The log is copied as it is, record by record in order, changes of tables and records of deleted topics included;
consume queues honour the deletions.  Positions are new, and whatever names one (``__ORIGIN``, snapshots, checkpoint)
names the new one.  The store is built beside its place and renamed when it is complete and synced.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from litemq.clock import Clock, SystemClock
from litemq.errors import BadStore, InvalidRequest
from litemq.format.checkpoint import Checkpoint
from litemq.format.record import FORMATS, TMQ, Format
from litemq.store import checkpoint
from litemq.store.convert_batch import BatchQueues
from litemq.store.convert_config import Config, is_copied
from litemq.store.convert_origin import Origins
from litemq.store.convert_source import OnBatch, Source
from litemq.store.convert_tally import Tally
from litemq.store.convert_target import LogTarget, Target, TmqTarget
from litemq.store.derived import Derived, Sizes
from litemq.store.file_tree import built_aside, check_free
from litemq.store.fs import FileSystem, OsFileSystem
from litemq.store.layout import Paths
from litemq.store.log_walk import Log, open_log
from litemq.store.tables import Tables
from litemq.types import Record

MAX_LISTED: Final = 1000
"""Rejected records that are named one by one; all are counted."""

JsonValue = str | int | float | None | dict[str, int] | list[dict[str, str | int]]


@dataclass(slots=True)
class ConvertReport:
    """What ``litemq store convert`` prints."""

    source: str
    destination: str
    from_format: str | None
    to_format: str
    records: int = 0
    """Of the destination, as ``bytes`` (their sizes) and ``segments``."""
    bytes: int = 0
    segments: int = 0
    torn: int = 0
    corrupt: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    """(position, reason) of the first records that the destination cannot hold."""
    rejected_count: int = 0
    seconds: float = 0.0

    def reject(self, position: int, reason: str) -> None:
        """Note a record that the destination cannot hold."""
        self.rejected_count += 1
        if len(self.rejected) < MAX_LISTED:
            self.rejected.append((position, reason))

    @property
    def is_ok(self) -> bool:
        """Whether every record of the source is in the destination."""
        return not (self.torn or self.corrupt or self.rejected_count)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the object that the CLI prints."""
        return {
            "source": self.source,
            "destination": self.destination,
            "from": self.from_format,
            "to": self.to_format,
            "records": self.records,
            "bytes": self.bytes,
            "segments": self.segments,
            "torn": self.torn,
            "corrupt": self.corrupt,
            "dropped": self.dropped,
            "rejected": [{"position": position, "reason": reason} for position, reason in self.rejected],
            "rejected_count": self.rejected_count,
            "seconds": self.seconds,
        }


def convert(
    source: Path | str,
    destination: Path | str,
    *,
    to: str,
    from_format: str | None = None,
    segment_size: int | None = None,
    queue_entries: int | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    on_batch: OnBatch | None = None,
) -> ConvertReport:
    """Write the records at ``source`` as a store of format ``to`` at ``destination``; durable on return.

    Raises:
        BadStore: the source cannot be read, the destination is in use, or a size is out of range; nothing changed.
        OSError: the destination could not be written; nothing of it is left.
    """
    sizes = sizes_of(segment_size, queue_entries, index_slots, index_entries)
    return Conversion.of(source, destination, to, from_format, sizes, fs, clock).run(on_batch)


def sizes_of(
    segment_size: int | None, queue_entries: int | None, index_slots: int | None, index_entries: int | None
) -> Sizes:
    """Return the sizes of a destination's files; None: what a store has by default.

    Raises:
        BadStore: one is out of range.
    """
    defaults = Sizes()
    sizes = Sizes(
        defaults.segment_bytes if segment_size is None else segment_size,
        defaults.queue_entries if queue_entries is None else queue_entries,
        defaults.index_slots if index_slots is None else index_slots,
        defaults.index_entries if index_entries is None else index_entries,
    )
    sizes.check()
    return sizes


class Conversion:
    """One conversion; checked, and not begun."""

    def __init__(self, log: Log, place: Path, fmt: Format, sizes: Sizes, clock: Clock) -> None:
        self._log = log
        self._fs = log.fs
        self._place = place
        self._fmt = fmt
        self._sizes = sizes
        self._clock = clock
        self._config = Config(log, fmt)
        self._tally = Tally()
        from_format = None if log.format is None else log.format.name
        self._report = ConvertReport(str(log.path), str(place), from_format, fmt.name)

    @classmethod
    def of(
        cls,
        source: Path | str,
        destination: Path | str,
        to: str,
        from_format: str | None,
        sizes: Sizes,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Return the conversion when it can be done.

        Raises:
            BadStore: the source cannot be read, or the destination is in use.
        """
        fs = fs or OsFileSystem()
        fmt = FORMATS.get(to)
        if fmt is None:
            raise BadStore(f"unknown format {to!r}; choose {', '.join(FORMATS)}")
        log = open_log(source, from_format, fs)
        place = Path(destination)
        check_free(fs, place)
        if log.files.kind != "file" and place.absolute().is_relative_to(log.path.absolute()):
            raise BadStore(f"{place} lies in the source {log.path}; give a directory outside")
        return cls(log, place, fmt, sizes, clock or SystemClock())

    @property
    def log(self) -> Log:
        """Return the log that is read."""
        return self._log

    def run(self, on_batch: OnBatch | None) -> ConvertReport:
        started = self._clock.monotonic_ms()
        with built_aside(self._fs, self._place) as root:
            if self._fmt is TMQ:
                target = TmqTarget(self._fs, root, self._sizes, self._tally.compare)
                self._copy(root, target, on_batch)
                self._config.write(root, self._sizes, Tables(), 0, self._clock.now_ms())
            else:
                self.build_log(root, on_batch)
        report = self._report
        report.dropped = self._tally.dropped
        report.seconds = (self._clock.monotonic_ms() - started) / 1000
        return report

    def build_log(self, root: Path, on_batch: OnBatch | None) -> None:
        """Write one log for all queues, and everything that belongs to it."""
        topics = self._config.batch_topics
        derived = Derived(self._fs, root, self._fmt, self._sizes, now_ms=self._clock.now_ms, batch_topics=topics)
        batch_queues = BatchQueues(self._fs, root, topics, self._sizes.queue_entries) if topics else None
        if batch_queues is not None:
            queues = batch_queues
            derived.on_change = lambda change, position: (
                queues.drop(change.name, position) if change.op == "topic-deleted" else None
            )
        target = LogTarget(self._fs, root, self._fmt, self._sizes, derived, batch_queues, self._tally.compare)
        self._copy(root, target, on_batch)
        self.finish_log(root, derived.tables, target.end, target.newest_time)

    def finish_log(self, root: Path, tables: Tables, end: int, time: int) -> None:
        """Write what stands beside a log and what is derived from it."""
        self._config.write(root, self._sizes, tables, end, self._clock.now_ms())
        # True once the destination has its name: everything is synced before.
        found = Checkpoint(time, time, time, flushed=end, derived=end, checked=True)
        checkpoint.write(self._fs, Paths(root).checkpoint, found)

    def _copy(self, root: Path, target: Target, on_batch: OnBatch | None) -> None:
        source = Source(self._log, on_batch)
        has_positions = is_copied(self._log.format, self._fmt)
        origins = Origins(self._fs, root / "origins") if has_positions else None
        try:
            for record in source.records():
                if origins is not None:
                    origins.translate(record)
                try:
                    position = target.add(record)
                except InvalidRequest as error:
                    self._reject(record, str(error))
                    continue
                if origins is not None:
                    origins.note(record, position)
                self._config.note(record)
            target.finish()
        finally:
            target.close()
            if origins is not None:
                origins.close()
        report = self._report
        report.records, report.bytes, report.segments = target.records, target.bytes, target.segments
        report.torn, report.corrupt = source.torn, source.corrupt

    def _reject(self, record: Record, reason: str) -> None:
        where = f"{record.segment}: " if self._log.files.is_tree else ""
        self._report.reject(record.position, where + reason)
