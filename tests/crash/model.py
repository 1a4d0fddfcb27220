"""What an outside observer knows of a store: all that was written, promised and committed.

``Memory`` outlives the store's lives.  ``Expected`` is what the change and progress records of a log add up to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.plain_log import PlainLog, PlainRecord, Queue, scan_log

from litemq.clock import ManualClock
from litemq.config import StoreConfig
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC
from litemq.store.fs import FileSystem
from litemq.types import Appended, Message

ROOT = Path("/store")

ProgressKey = tuple[str, str, int]
"""Group, topic, queue id."""


class Forgotten(NamedTuple):
    """Progress went away with its group or topic, by the change at ``position``."""

    position: int


@dataclass(slots=True)
class Memory:
    """What is known of one store, across its lives."""

    config: StoreConfig
    root: Path = ROOT
    threads: bool = False
    """Whether the store works in the background."""
    clock: ManualClock = field(default_factory=ManualClock)
    legit: dict[int, PlainRecord] = field(default_factory=dict)
    """By position, records that may be there: survivors of the last opening, and everything written since."""
    opening: dict[int, set[bytes]] = field(default_factory=dict)
    """By position, bytes of records that openings wrote which a crash cut short."""
    messages: dict[int, tuple[Message, Appended]] = field(default_factory=dict)
    """By position, what was appended and how it was answered."""
    lost: list[Message] = field(default_factory=list)
    """What the last crash took, oldest first."""
    flushed: int = 0
    """The store said that everything before this survives."""
    checkpointed: int = 0
    """The last checkpoint that came to its end covers everything before this."""
    latest_start: int = 0
    """The log began here at most."""
    next_offsets: dict[Queue, int] = field(default_factory=dict)
    reserved: dict[int, PlainRecord] = field(default_factory=dict)
    """By position, every record of changes and progress that was not cut; retention took some of them."""
    commits: dict[ProgressKey, list[int | Forgotten]] = field(default_factory=dict)
    """What each group committed, in order, since the last opening."""
    keys: set[tuple[str, str]] = field(default_factory=set)
    """(topic, key or id) ever used."""
    repairs: dict[str, bytes] = field(default_factory=dict)
    """By file name, what openings had to save."""
    overhead: int | None = None
    """Size of a record of the fitted shape beside its body."""
    said: list[str] = field(default_factory=list)
    """What happened, for people."""

    @property
    def format(self) -> str:
        assert self.config.format is not None
        return self.config.format

    def scan(self, fs: FileSystem) -> PlainLog:
        """Read the store's log the plain way."""
        return scan_log(fs, self.root, self.format)

    def note(self, log: PlainLog) -> None:
        """Write down what stands in the log."""
        self.latest_start = max(self.latest_start, log.start)
        for record in log.records:
            self.legit[record.position] = record
            if record.topic in (CHANGES_TOPIC, PROGRESS_TOPIC):
                self.reserved[record.position] = record
            if record.has_entry:
                self.next_offsets[record.topic, record.queue_id] = record.queue_offset + 1

    def note_opening(self, log: PlainLog) -> None:
        """Write down what an opening wrote that did not come to its end: its own records only."""
        for record in log.records:
            if record.topic in (CHANGES_TOPIC, PROGRESS_TOPIC):
                self.opening.setdefault(record.position, set()).add(record.raw)

    def settle(self, log: PlainLog) -> None:
        """Take what an opening found for all there is: everything else was cut, and must never come back."""
        there = {record.position for record in log.records}
        cut = [record for at, record in sorted(self.legit.items()) if at >= log.start and at not in there]
        self.lost = [self.messages.pop(record.position)[0] for record in cut if record.position in self.messages]
        for record in reversed(cut):
            self.reserved.pop(record.position, None)
            if record.has_entry:
                self.next_offsets[record.topic, record.queue_id] = record.queue_offset
        # What retention took may come back with its segment: it was never cut.
        self.legit = {at: record for at, record in self.legit.items() if at < log.start}
        self.opening = {}
        self.note(log)

    def expected(self) -> Expected:
        """Return what changes and progress records add up to."""
        return Expected.of(self.reserved)

    def forget_progress(self, position: int, is_gone: Callable[[ProgressKey], bool]) -> None:
        for key in filter(is_gone, self.commits):
            self.commits[key].append(Forgotten(position))


@dataclass(slots=True)
class Expected:
    """The tables that a log's records make."""

    topics: dict[str, object] = field(default_factory=dict)
    groups: dict[str, object] = field(default_factory=dict)
    dead_below: dict[str, int] = field(default_factory=dict)
    min_offsets: dict[Queue, int] = field(default_factory=dict)
    progress: dict[ProgressKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, records: dict[int, PlainRecord]) -> Expected:
        """Fold records of changes and progress in the order of their positions."""
        self = cls()
        for position, record in sorted(records.items()):
            body = json.loads(record.body)
            if record.topic == PROGRESS_TOPIC:
                self._commit(body["offsets"])
            else:
                self._change(body, position)
        return self

    def _commit(self, offsets: dict[str, dict[str, dict[str, int]]]) -> None:
        for group, topics in offsets.items():
            for topic, queues in topics.items():
                for queue, offset in queues.items():
                    self.progress[group, topic, int(queue)] = offset

    def _change(self, body: dict[str, object], position: int) -> None:
        name = str(body.get("topic", body.get("group")))
        match body["op"]:
            case "topic":
                self.topics[name] = body["config"]
            case "topic-deleted":
                self.topics.pop(name, None)
                self.dead_below[name] = position
                self.progress = {key: offset for key, offset in self.progress.items() if key[1] != name}
                self.min_offsets = {queue: offset for queue, offset in self.min_offsets.items() if queue[0] != name}
            case "min-offsets":
                offsets = body["min_offsets"]
                assert isinstance(offsets, dict)
                for queue_id, offset in offsets.items():
                    queue = (name, int(queue_id))
                    self.min_offsets[queue] = max(offset, self.min_offsets.get(queue, 0))
            case "group":
                self.groups[name] = body["config"]
            case "group-deleted":
                self.groups.pop(name, None)
                self.progress = {key: offset for key, offset in self.progress.items() if key[0] != name}

    def is_deleted(self, record: PlainRecord) -> bool:
        """Return whether the record went with its topic."""
        return record.position < self.dead_below.get(record.topic, 0)

    def is_hidden(self, record: PlainRecord) -> bool:
        """Return whether readers must not see the record: deleted or purged."""
        purged = record.has_entry and record.queue_offset < self.min_offsets.get((record.topic, record.queue_id), 0)
        return self.is_deleted(record) or purged
