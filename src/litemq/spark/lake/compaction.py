"""Merging small files of hours that are over: which, is decided by a pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from litemq.spark.lake.messages import SCHEMA
from litemq.spark.lake.reading import read_files
from litemq.spark.lake.table import DataFile
from litemq.spark.lake.writing import Key, Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITER: Final = "compact"
_HOUR_MS: Final = 3_600_000
_ROUND: Final = 8
"""Files of the wanted size that one commit makes at most."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Small files of one topic that become larger ones in one commit; all those of an hour are in the same."""

    topic: str
    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Return how many bytes they have."""
        return sum(file.size for file in self.files)

    def rows_per_file(self, target_bytes: int) -> int:
        """Return how many of these rows make a file of the wanted size."""
        rows = sum(file.rows for file in self.files)
        return max(1, rows * target_bytes // max(1, self.size))


def merges(files: Iterable[DataFile], *, now_ms: int, target_bytes: int) -> list[Merge]:
    """Decide what to merge: of each topic and hour that is over, the files below half the wanted size, if several."""
    hours: dict[tuple[str, str, str], list[DataFile]] = {}
    for file in files:
        place = file.partition
        hour = (place["topic"], place["dt"], place["hour"])
        if file.size < target_bytes // 2 and _end_ms(place) <= now_ms:
            hours.setdefault(hour, []).append(file)
    found: list[Merge] = []
    for (topic, _, _), small in sorted(hours.items()):
        if len(small) < 2:
            continue
        last = found[-1] if found else None
        more = tuple(sorted(small, key=lambda file: file.path))
        if last is not None and last.topic == topic and last.size < _ROUND * target_bytes:
            found[-1] = Merge(topic, last.files + more)
        else:
            found.append(Merge(topic, more))
    return found


def _end_ms(place: dict[str, str]) -> int:
    begin = datetime.fromisoformat(f"{place['dt']}T{place['hour']}:00").replace(tzinfo=UTC)
    return round(begin.timestamp() * 1000) + _HOUR_MS


@dataclass(slots=True)
class Compacted:
    """What was done."""

    before: int = 0
    after: int = 0


def compact(
    spark: SparkSession, writer: Writer, *, now_ms: int, target_bytes: int, should_stop: Callable[[], bool]
) -> Compacted:
    """Merge small files, a commit for each merge; the old files stay until ``vacuum``."""
    done = Compacted()
    log = writer.log
    for merge in merges(log.files(), now_ms=now_ms, target_bytes=target_bytes):
        if should_stop():
            break
        frame = read_files(spark, log.root, merge.files, SCHEMA).repartition("topic", "dt", "hour")
        last = log.last_batch(WRITER)
        new = writer.put(
            frame,
            Key(WRITER, 0 if last is None else last + 1),
            remove=[file.path for file in merge.files],
            is_rewrite=True,
            max_rows_per_file=merge.rows_per_file(target_bytes),
        )
        done.before += len(merge.files)
        done.after += len(new)
    return done
