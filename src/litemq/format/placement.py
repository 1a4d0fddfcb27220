"""Where a message goes: what the store adds when it becomes a record."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.types import NO_HOST, LogPosition, QueueOffset


@dataclass(frozen=True, slots=True)
class Placement:
    """Position in the log, offset in the queue, store time in ms and the storing broker's ``ip:port``."""

    position: LogPosition
    queue_offset: QueueOffset
    store_time: int = 0
    store_host: str = NO_HOST
