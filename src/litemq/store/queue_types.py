"""Where the queues of a store live: ``consumequeue/``, and ``batchconsumequeue/`` for RocketMQ's type BatchCQ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from litemq.format import config_json
from litemq.format.record import ROCKETMQ
from litemq.store.fs import FileSystem
from litemq.store.log_walk import Log

_MAX_CONFIG: Final = 256 << 20


def queue_folders(root: Path, fs: FileSystem) -> Iterator[tuple[str, int, Path]]:
    """Yield topic, number and folder of each queue below ``consumequeue/`` or ``batchconsumequeue/``."""
    for topic in fs.names(root):
        if not fs.is_dir(root / topic):
            continue
        for queue in fs.names(root / topic):
            if queue.isascii() and queue.isdigit() and fs.is_dir(root / topic / queue):
                yield topic, int(queue), root / topic / queue


def batch_topics(log: Log) -> set[str]:
    """Return the topics of type BatchCQ: what ``topics.json`` says, and those with batch queues only."""
    if log.store is None or log.format is not ROCKETMQ:
        return set()
    named = {
        topic
        for topic, entry in topic_table(log.store, log.fs).items()
        if isinstance(entry, dict)
        and isinstance(attributes := entry.get("attributes"), dict)
        and attributes.get("queue.type") == "BatchCQ"
    }
    simple = set(log.fs.names(log.store / "consumequeue"))
    return named | {topic for topic in log.fs.names(log.store / "batchconsumequeue") if topic not in simple}


def topic_table(store: Path, fs: FileSystem) -> config_json.JsonObject:
    """Return the topics of ``config/topics.json``, of its ``.bak`` when that cannot be read, else none."""
    for name in ("topics.json", "topics.json.bak"):
        path = store / "config" / name
        if not fs.exists(path):
            continue
        file = fs.open(path)
        try:
            table = config_json.read(file.read_at(min(_MAX_CONFIG, file.size()), 0)).get("topicConfigTable")
        except config_json.BadConfig:
            continue
        finally:
            file.close()
        if isinstance(table, dict):
            return table
    return {}
