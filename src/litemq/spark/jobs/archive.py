"""Keep topics in a lake: a stream with a checkpoint beside it, each micro-batch one commit under (query, batch).

A batch that comes again after a crash finds its key committed and adds nothing.  What was read by offset is counted in
what was written, queue by queue, before it is committed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from litemq.spark.jobs.job import Report, Run, Source, Table
from litemq.spark.jobs.queue_bounds import queue_bounds
from litemq.spark.jobs.retention_hold import RetentionHold
from litemq.spark.lake.archived import Book, Queue, counts, distinct_counts, ends_of, last_commit, odd, query_id
from litemq.spark.lake.compaction import Compacted, compact
from litemq.spark.lake.messages import LAYOUT, messages_log, with_hour
from litemq.spark.lake.parquet_log import replace_durably
from litemq.spark.lake.table import BadLake, Log
from litemq.spark.lake.writing import Key, Writer, spark_path, writing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACES: Final = "topic string, broker string, queue_id int, queue_offset bigint"
_LOOK_S: Final = 0.25
"""How often a run that waits looks whether it should stop."""


class _Stopped(Exception):
    """Somebody asked the job to stop, and the last batch is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The job."""

    source: Source
    lake: Path
    kind: str = ""
    """``parquet`` or ``delta``; empty: what is there, else Delta where it is installed."""
    every_s: float = 0.0
    """0: read what is there and end; else do so again and again until stopped."""
    is_compacting: bool = False
    target_bytes: int = 128 << 20
    keep_replaced_s: float = 86_400.0
    """How long files that a merge replaced stay for those who read them."""
    hold_s: float = 3_600.0
    """How long brokers keep what is not archived yet after the last sign of life."""
    batch_bytes: str = str(1 << 30)
    on_data_loss: str = "fail"
    """Or ``record``: go on without, and note it in ``checkpoints/archive-lost.jsonl``."""
    on_corrupt: str = "fail"

    @property
    def name(self) -> str:
        """Return its name on the command line."""
        return "archive"

    @property
    def checkpoint(self) -> Path:
        """Return where the stream notes up to where it has read."""
        return self.lake / "checkpoints" / "archive"

    # -- what would be done ------------------------------------------------------------------------------------------

    def plan(self, spark: SparkSession) -> Table:
        """Return how much of each topic is not archived yet."""
        log = messages_log(self.lake, self.kind)
        self._check(log)
        last = last_commit(self.checkpoint)
        known = (ends_of(self.checkpoint, last) if last is not None else None) or {}
        rows: dict[str, list[int]] = {}
        for queue, (low, high) in sorted(queue_bounds(self._options()).items()):
            new = max(0, high - max(low, known.get(queue, low)))
            row = rows.setdefault(queue[0], [0, 0])
            row[0] += 1
            row[1] += new
        title = f"to {log.root} ({log.kind}), in batches of at most {self.batch_bytes} bytes:"
        return Table(title, ("topic", "queues", "new_messages"), [(topic, *row) for topic, row in rows.items()])

    def _options(self) -> dict[str, str]:
        place = {"brokers": self.source.brokers} if self.source.brokers else {"path": self.source.path}
        given = {**place, **self.source.options, "startingOffsets": "earliest", "maxBytesPerTrigger": self.batch_bytes}
        given |= {"onDataLoss": self.on_data_loss, "onCorrupt": self.on_corrupt, "maxPartitionBytes": "128m"}
        if self.on_data_loss == "record":
            given["dataLossLog"] = str(self.checkpoint.with_name("archive-lost.jsonl"))
        return given

    def _hold(self) -> RetentionHold:
        name = f"archive {hashlib.sha256(str(self.lake.absolute()).encode()).hexdigest()[:16]}"
        return RetentionHold(self.source.brokers, name, self.hold_s)

    # -- the lake and its stream belong together ---------------------------------------------------------------------

    def _check(self, log: Log) -> None:
        """Refuse to go on where messages would be archived twice, or never.

        Raises:
            BadLake: they would.
        """
        last, query = last_commit(self.checkpoint), query_id(self.checkpoint)
        if not query and log.files():
            raise BadLake(
                f"{log.root} holds messages, but the checkpoint {self.checkpoint} is gone, which knows up to "
                "where: put it back, or archive to another directory"
            )
        known = log.last_batch(query) if query else None
        if last is not None and (known is None or known < last):
            raise BadLake(
                f"{self.checkpoint} says that batch {last} is archived, and {log.root} has it not: put the table back, "
                f"or move {self.lake} away to archive all anew"
            )
        noted = self._stream_note()
        if noted.exists() and json.loads(noted.read_bytes()) != self._stream():
            told = json.loads(noted.read_bytes())
            raise BadLake(
                f"{self.lake} archives {', '.join(told['topics']) or 'all topics'} from {told['from']}, and a stream "
                "keeps to what it began with: give the same options, or archive to another directory"
            )

    def _stream(self) -> dict[str, object]:
        topics = sorted(filter(None, self.source.options.get("subscribe", "").split(",")))
        return {"from": "brokers" if self.source.brokers else "files", "topics": topics}

    def _stream_note(self) -> Path:
        return self.checkpoint.with_name("archive.json")

    # -- doing it ----------------------------------------------------------------------------------------------------

    def run(self, run: Run) -> Report:
        """Archive what is there; with ``every_s`` again and again until stopped."""
        log = messages_log(self.lake, self.kind)
        work = _Work(Book(), self._hold())
        with writing(log, LAYOUT, "archive") as writer:
            self._check(log)
            while True:
                due = time.monotonic() + self.every_s
                self._read_what_is_there(run, writer, work)
                if self.is_compacting:
                    self._compact(run, log, work)
                while not run.should_stop() and time.monotonic() < due:
                    time.sleep(_LOOK_S)
                if not self.every_s or run.should_stop():
                    break
        return self._report(log, work)

    def _read_what_is_there(self, run: Run, writer: Writer, work: _Work) -> None:
        from pyspark.errors import StreamingQueryException

        lows = {queue: low for queue, (low, _) in queue_bounds(self._options()).items()}
        self._stream_note().parent.mkdir(parents=True, exist_ok=True)
        replace_durably(self._stream_note(), json.dumps(self._stream()).encode())
        last = last_commit(self.checkpoint)
        work.hold.move(lows | ((ends_of(self.checkpoint, last) if last is not None else None) or {}))

        def step(frame: DataFrame, batch: int) -> None:
            if run.should_stop():
                work.is_stopped = True
                run.spark.sparkContext.setLogLevel("OFF")  # what follows is an error to Spark, and none to us
                raise _Stopped
            self._archive(frame, Key(query_id(self.checkpoint), batch), writer, work, lows)

        stream = run.spark.readStream.format("litemq").options(**self._options()).load()
        writing = stream.writeStream.foreachBatch(step).trigger(availableNow=True)
        query = writing.option("checkpointLocation", spark_path(self.checkpoint)).start()
        try:
            while not query.awaitTermination(_LOOK_S):
                pass  # signals are looked at in between
        except StreamingQueryException:
            if not work.is_stopped:
                raise
        finally:
            if query.isActive:
                query.stop()
            if work.is_stopped:
                run.spark.sparkContext.setLogLevel(run.spark.sparkContext.getConf().get("spark.log.level", "ERROR"))

    def _archive(self, frame: DataFrame, key: Key, writer: Writer, work: _Work, lows: Mapping[Queue, int]) -> None:
        """Commit one micro-batch, unless it is committed."""
        if writer.has(key):
            work.known_batches.append(key.batch)
            return
        ends = ends_of(self.checkpoint, key.batch) or {}
        starts = lows if key.batch == 0 else ends_of(self.checkpoint, key.batch - 1) or {}

        def look(staged: Path) -> None:
            place = spark_path(staged)
            rows = frame.sparkSession.read.schema(_PLACES).option("basePath", place).parquet(place)
            counted = counts(rows)
            closer = [queue for queue, _ in odd(starts, ends, counted)]
            work.book.add(starts, ends, counted, distinct_counts(rows, closer))

        files = writer.put(with_hour(frame), key, look=look)
        work.batches += 1
        work.files += len(files)
        work.bytes += sum(file.size for file in files)
        work.hold.move(ends)

    def _compact(self, run: Run, log: Log, work: _Work) -> None:
        with writing(log, LAYOUT, "compact") as writer:
            now_ms = time.time_ns() // 1_000_000
            done = compact(
                run.spark, writer, now_ms=now_ms, target_bytes=self.target_bytes, should_stop=run.should_stop
            )
        work.compacted.before += done.before
        work.compacted.after += done.after
        work.vacuumed += log.vacuum(self.keep_replaced_s)
        work.is_stopped |= run.should_stop()

    def _report(self, log: Log, work: _Work) -> Report:
        book = work.book
        report = Report(self.name)
        report.inputs = {"source": self.source.name, "topics": self.source.options.get("subscribe", "")}
        report.figures = {
            "messages": book.messages,
            "missing": book.missing,
            "repeated": book.repeated,
            "batches": work.batches,
            "files": work.files,
            "bytes": work.bytes,
        }
        if self.is_compacting:
            report.figures |= {
                "merged_files": work.compacted.before,
                "merged_into": work.compacted.after,
                "deleted_files": work.vacuumed,
            }
        report.outputs = [f"{log.root} ({log.kind})"]
        headers = ("topic", "broker", "queue_id", "from_offset", "to_offset", "messages", "missing", "repeated")
        rows = [
            (*queue, kept.start, kept.end, kept.messages, kept.missing, kept.repeated)
            for queue, kept in sorted(book.queues.items())
        ]
        report.tables["queues"] = Table("archived by this run", headers, rows)
        if book.missing:
            report.notes.append("missing: offsets that were read and have no message, as they were damaged or lost")
            report.status = "findings"
        if book.repeated:
            report.notes.append("repeated: messages that are there more than once; please report this")
            report.status = "findings"
        if work.known_batches:
            known = ", ".join(map(str, work.known_batches))
            report.notes.append(f"batch {known} was archived by a run that was killed, and is not counted here")
        if work.is_stopped and not self.every_s:  # otherwise being stopped is how it ends
            report.status = "stopped"
        return report


@dataclass(slots=True)
class _Work:
    """What a run did."""

    book: Book
    hold: RetentionHold
    batches: int = 0
    known_batches: list[int] = field(default_factory=list)
    """Those that came again."""
    files: int = 0
    bytes: int = 0
    compacted: Compacted = field(default_factory=Compacted)
    vacuumed: int = 0
    is_stopped: bool = False
