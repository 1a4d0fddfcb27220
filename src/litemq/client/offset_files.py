"""How far a broadcast consumer has read: a file of its own, as the broker keeps offsets for groups only.

{"orders": {"broker-a": {"0": 17, "1": 4}}}
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path

from litemq.client.routes import TopicQueue

logger = logging.getLogger(__name__)

DEFAULT = Path("~/.litemq/offsets")


class OffsetFile:
    """Offsets of one group and instance; written as a whole, so that a crash leaves the old file or the new one."""

    def __init__(self, folder: str | Path | None, group: str, instance: str) -> None:
        self.path = Path(folder or DEFAULT).expanduser() / f"{_safe(group)}@{_safe(instance)}.json"
        self._offsets: dict[TopicQueue, int] = {}
        self._is_changed = False

    def read(self) -> None:
        """Read the file; one that cannot be read counts as empty, with a warning."""
        try:
            found = json.loads(self.path.read_text())
            self._offsets = {
                TopicQueue(topic, broker, int(queue_id)): int(offset)
                for topic, brokers in found.items()
                for broker, queues in brokers.items()
                for queue_id, offset in queues.items()
            }
        except FileNotFoundError:
            self._offsets = {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            logger.warning("broadcast offsets cannot be read, the consumer begins anew: %s: %s", self.path, error)
            self._offsets = {}

    def offset(self, queue: TopicQueue) -> int | None:
        """Return how far a queue was read; None when that is not known."""
        return self._offsets.get(queue)

    def note(self, queue: TopicQueue, offset: int) -> None:
        """Remember how far a queue was read; ``write`` puts it down."""
        if self._offsets.get(queue) != offset:
            self._offsets[queue] = offset
            self._is_changed = True

    def write(self) -> None:
        """Put down what changed."""
        if not self._is_changed:
            return
        told: dict[str, dict[str, dict[str, int]]] = {}
        for queue, offset in sorted(self._offsets.items(), key=lambda item: str(item[0])):
            told.setdefault(queue.topic, {}).setdefault(queue.broker, {})[str(queue.queue_id)] = offset
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(told, file)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
        self._is_changed = False


def _safe(name: str) -> str:
    """Return a name as a part of a file's name; different names stay different."""
    return re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"%{ord(found[0]):02x}", name)
