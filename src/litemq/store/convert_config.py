"""The config tables of a converted store, true at its log's end.

Between ``litemq`` and ``rocketmq`` the files ``config/*.json`` are copied.  Three of them are snapshots that may hold
positions of the old log; they are brought up to the log's end and get positions of the new one:

    topics.json, subscriptionGroup.json   snapshot, then the changes in the log behind it
    consumerOffset.json                   snapshot, then the progress records in the log behind it

A snapshot without LiteMQ's object, which a real RocketMQ wrote last, is the truth as it is and is copied as it is.
``store.json`` says who a directory is: a new one is made.  In every other conversion ``topics.json`` is made from the
topics of the records.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

from litemq.format.config_json import JsonObject
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC, RESERVED_TOPIC_PREFIX, STAGE_SNAPSHOT
from litemq.format.record import LITEMQ, ROCKETMQ, Format
from litemq.store import changes, snapshot
from litemq.store.derived import Sizes
from litemq.store.file_tree import read_all, write_all
from litemq.store.fs import FileSystem
from litemq.store.layout import Layout, Paths
from litemq.store.log_walk import Log
from litemq.store.progress import Progress
from litemq.store.tables import Tables
from litemq.types import Record

_BAK: Final = ".bak"
_OURS: Final = "litemq"


def is_copied(source: Format | None, target: Format) -> bool:
    """Return whether a conversion takes the config tables along."""
    return target in (LITEMQ, ROCKETMQ) and (source is None or source in (LITEMQ, ROCKETMQ))


class Config:
    """What the tables of the source say, kept up to date while its records go by."""

    def __init__(self, log: Log, target: Format) -> None:
        self._fs: FileSystem = log.fs
        self._target = target
        store = log.store if is_copied(log.format, target) and not log.files.is_tree else None
        self._paths = None if store is None else Paths(store)
        self._topics = self._read("topics")
        self._groups = self._read("groups")
        self._offsets = self._read("progress")
        self._tables = Tables(target)
        self._tables.load(self._topics, self._groups)
        self._progress = Progress()
        self._progress_from = self._progress.load(self._offsets)
        self._has_changes = self._has_progress = False
        self._highest_queue: dict[str, int] = {}

    def _read(self, name: str) -> JsonObject | None:
        return None if self._paths is None else snapshot.read(self._fs, getattr(self._paths, name))

    @property
    def batch_topics(self) -> frozenset[str]:
        """Return the topics whose queues a RocketMQ keeps in ``batchconsumequeue/``."""
        return frozenset(topic for topic in self._tables.topics if self._tables.has_batch_queues(topic))

    def note_queue(self, topic: str, queue_id: int) -> None:
        """Take in that a record of this queue was written."""
        if self._highest_queue.get(topic, -1) < queue_id:
            self._highest_queue[topic] = queue_id

    def note(self, record: Record) -> None:
        """Take in a record that was written."""
        topic = record.topic
        self.note_queue(topic, record.queue_id)
        if topic.startswith(RESERVED_TOPIC_PREFIX):
            if topic == CHANGES_TOPIC:
                self._note_change(record)
            elif topic == PROGRESS_TOPIC and self._progress_from is not None:
                self._has_progress = True
                if record.position >= self._progress_from:
                    self._progress.replay(record.stored_body, record.position)

    def _note_change(self, record: Record) -> None:
        change = changes.decode(record.stored_body)
        if change is None:
            return
        self._has_changes = True
        self._tables.replay(change, record.position)
        if self._progress_from is not None and record.position >= self._progress_from:
            if change.op == "topic-deleted":
                self._progress.forget(topic=change.name)
            elif change.op == "group-deleted":
                self._progress.forget(group=change.name)

    # -- writing ---------------------------------------------------------------------------------

    def write(self, root: Path, sizes: Sizes, folded: Tables, end: int, now_ms: int) -> None:
        """Write ``config/`` below ``root``.

        ``folded`` is what all changes in the new log add up to: it knows their new positions.
        """
        paths = Paths(root)
        self._fs.make_dirs(paths.config)
        if self._target not in (LITEMQ, ROCKETMQ):
            snapshot.write(self._fs, paths.topics, self._made_topics())
            return
        snapshot.write(self._fs, paths.store_json, self._layout(sizes, now_ms).to_json())
        written = {paths.store_json.name}
        for path, old, new in self._snapshots(paths, folded, end, now_ms):
            if new is not None:
                written.add(path.name)
                snapshot.write(self._fs, path, {**(old or {}), **new})
        self._copy(paths.config, written)

    def _layout(self, sizes: Sizes, now_ms: int) -> Layout:
        return Layout(
            self._target,
            sizes.segment_bytes,
            sizes.queue_entries,
            sizes.index_slots,
            sizes.index_entries,
            str(uuid.uuid4()),
            now_ms,
        )

    def _snapshots(
        self, paths: Paths, folded: Tables, end: int, now_ms: int
    ) -> list[tuple[Path, JsonObject | None, JsonObject | None]]:
        """Return path, old content and new content of each snapshot; None: the file is copied, if there is one."""
        topics = groups = offsets = None
        if _is_ours(self._topics) or (self._topics is None and self._has_changes):
            topics = _moved(self._tables.to_topics(end, now_ms), folded.to_topics(end, now_ms))
        elif self._topics is None:
            topics = self._made_topics()
        if _is_ours(self._groups) or (self._groups is None and self._has_changes):
            groups = {**self._tables.to_groups(end, now_ms), **_only(self._groups, "forbiddenTable")}
        if _is_ours(self._offsets) or (self._offsets is None and self._has_progress):
            offsets = self._progress.to_snapshot(end, now_ms)
            # Where its records are is not known any more; carrying them a little too early does no harm.
            offsets[_OURS] = {"position": end, "oldest": 0}
        return [
            (paths.topics, self._topics, topics),
            (paths.groups, self._groups, groups),
            (paths.progress, self._offsets, offsets),
        ]

    def _made_topics(self) -> JsonObject:
        """Return ``topics.json`` with one entry for each topic."""
        is_hidden = RESERVED_TOPIC_PREFIX if self._target in (LITEMQ, ROCKETMQ) else "\0"
        return {
            "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0},
            "topicConfigTable": {
                topic: {
                    "attributes": {},
                    "order": False,
                    "perm": 6,
                    "readQueueNums": highest + 1,
                    "topicFilterType": "SINGLE_TAG",
                    "topicName": topic,
                    "topicSysFlag": 0,
                    "writeQueueNums": highest + 1,
                }
                for topic, highest in self._highest_queue.items()
                if not topic.startswith(is_hidden)
            },
        }

    def _copy(self, folder: Path, written: set[str]) -> None:
        """Copy the files that are not written yet; of one that a crash took away, the copy beside it."""
        if self._paths is None:
            return
        names = self._fs.names(self._paths.config)
        written.add(STAGE_SNAPSHOT)  # its positions are the old log's: the records say the same
        for name in names:
            target = name.removesuffix(_BAK)
            if not target.endswith(".json") or target in written or (name != target and target in names):
                continue
            written.add(target)
            write_all(self._fs, folder / target, read_all(self._fs, self._paths.config / name))


def _is_ours(table: JsonObject | None) -> bool:
    return table is not None and _OURS in table


def _only(table: JsonObject | None, key: str) -> JsonObject:
    return {} if table is None or key not in table else {key: table[key]}


def _moved(topics: JsonObject, folded: JsonObject) -> JsonObject:
    """Return the snapshot with the positions that its changes have in the new log."""
    ours, new = topics[_OURS], folded[_OURS]
    assert isinstance(ours, dict)
    assert isinstance(new, dict)
    positions, dead = ours["positions"], new["deadBelow"]
    found = new["positions"]
    assert isinstance(positions, dict)
    assert isinstance(found, dict)
    # A deletion whose record is gone has nothing left to delete; any other change without one is carried at once.
    ours["deadBelow"] = dead
    ours["positions"] = {name: found.get(name, 0) for name in positions}
    ours["origins"] = new["origins"]
    return topics
