"""How many bytes a topic's messages take, and which must go so that they take no more than they may.

The sizes are added up once, in blocks of messages: later looks only add what came and drop what went.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from litemq.store.reader import Reader

_MAX_COUNT = 4096
"""Messages that one look adds up."""

_BLOCKS = 256
"""The limit is kept with an error of one part in so many."""


@dataclass(slots=True)
class _Block:
    """Messages of a queue that go together: those before ``end``."""

    end: int
    bytes: int
    position: int


@dataclass(slots=True)
class _Queue:
    end: int
    blocks: deque[_Block] = field(default_factory=deque)


class TopicSizes:
    """The messages of one topic that may have ``limit`` bytes."""

    def __init__(self, topic: str, limit: int) -> None:
        self._topic = topic
        self.limit = limit
        self._block_bytes = max(limit // _BLOCKS, 1)
        self._queues: dict[int, _Queue] = {}

    @property
    def total(self) -> int:
        """Return the bytes of what was looked at and is still there."""
        return sum(block.bytes for queue in self._queues.values() for block in queue.blocks)

    def look(self, reader: Reader) -> Iterator[None]:
        """Add up what came since the last look; yields now and then, so that others can do something."""
        for queue_id in reader.queue_ids(self._topic):
            low = reader.min_offset(self._topic, queue_id)
            queue = self._queues.setdefault(queue_id, _Queue(low))
            while queue.blocks and queue.blocks[0].end <= low:
                queue.blocks.popleft()
            queue.end = max(queue.end, low)
            while self._add(reader, queue_id, queue):
                yield
            yield

    def _add(self, reader: Reader, queue_id: int, queue: _Queue) -> bool:
        """Add up some messages; return False at the queue's end."""
        found = reader.span(self._topic, queue_id, queue.end, _MAX_COUNT)
        if found.count > 1 and found.bytes > self._block_bytes:
            count = max(found.count * self._block_bytes // found.bytes, 1)
            found = reader.span(self._topic, queue_id, queue.end, count)
        if not found.count:
            return False
        queue.end += found.count
        last = queue.blocks[-1] if queue.blocks else None
        if last is not None and last.bytes + found.bytes <= self._block_bytes:
            last.end, last.bytes = queue.end, last.bytes + found.bytes
        else:
            queue.blocks.append(_Block(queue.end, found.bytes, found.position))
        return True

    def take_excess(self, floors: Mapping[int, int]) -> dict[int, int]:
        """Drop the oldest messages until the rest fits; return where each queue begins then, of those that change.

        ``floors`` names queues with an offset from which on nothing may go.
        """
        taken: dict[int, int] = {}
        excess = self.total - self.limit
        open_queues = dict(self._queues)
        while excess > 0:
            oldest = min(
                ((queue.blocks[0].position, queue_id) for queue_id, queue in open_queues.items() if queue.blocks),
                default=None,
            )
            if oldest is None:
                break
            queue_id = oldest[1]
            block = open_queues[queue_id].blocks[0]
            if block.end > floors.get(queue_id, block.end):
                del open_queues[queue_id]
                continue
            open_queues[queue_id].blocks.popleft()
            excess -= block.bytes
            taken[queue_id] = block.end
        return taken
