"""A file of dead letters: JSON lines, bodies in base64, with a last line that counts them.

The file appears under its name when it is whole and on disk; until then it has another name beside it.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from types import TracebackType

from litemq.client.dead_letters import DeadLetter


class ArchiveFile:
    """A file that is being written; it takes the place of an older one at the end, or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._file = self._part.open("x", encoding="utf-8")
        except OSError as error:
            error.filename = str(path)  # the name that was given, not the one that stands for it
            raise
        self.count = 0

    def __enter__(self) -> ArchiveFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._file.close()
        self._part.unlink(missing_ok=True)

    def write(self, dead: DeadLetter) -> None:
        """Add one dead letter."""
        self._line(archived(dead))
        self.count += 1

    def _finish(self) -> None:
        self._line({"end": True, "count": self.count})
        self._file.flush()
        os.fsync(self._file.fileno())
        self._part.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _line(self, value: dict[str, object]) -> None:
        self._file.write(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n")


def archived(dead: DeadLetter) -> dict[str, object]:
    """Return the object of a dead letter, with everything that its record says."""
    message = dead.message
    return {
        "group": dead.group,
        "origin_topic": dead.origin_topic,
        "reason": dead.reason,
        "died_at": dead.died_ms,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "topic": message.topic,
        "broker": message.broker,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "born_at": message.born_ms,
        "stored_at": message.stored_ms,
        "reconsume_times": message.reconsume_times,
        "flag": message.flag,
        "properties": dict(message.raw_properties),
        "body": base64.b64encode(message.body).decode(),
    }
