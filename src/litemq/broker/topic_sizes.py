"""How many bytes a topic's messages take, and which must go so that they take no more than they may.

The sizes are added up once, in blocks of messages: later looks only add what came and drop what went.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from litemq.store.reader import Reader

_MAX_COUNT = 4096
"""Messages that one look adds up."""

_BLOCKS = 256
"""The limit is kept with an error of one part in so many."""

_MAX_BLOCKS = 4 * _BLOCKS
"""Of one queue; when there are more, older ones are put together: those have to go anyway."""


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

    def put_together(self) -> None:
        """Make one block of two, in the older half."""
        blocks = list(self.blocks)
        half = len(blocks) // 4 * 2
        older = [
            _Block(second.end, first.bytes + second.bytes, first.position)
            for first, second in zip(blocks[0:half:2], blocks[1:half:2], strict=True)
        ]
        self.blocks = deque([*older, *blocks[half:]])


class TopicSizes:
    """The messages of one topic that may have ``limit`` bytes."""

    def __init__(self, topic: str, limit: int) -> None:
        self._topic = topic
        self.limit = limit
        self._block_bytes = max(limit // _BLOCKS, 1)
        self._count = _MAX_COUNT
        """Messages that a block has, more or less."""
        self._queues: dict[int, _Queue] = {}

    @property
    def total(self) -> int:
        """Return the bytes of what was looked at and is still there."""
        return sum(block.bytes for queue in self._queues.values() for block in queue.blocks)

    @property
    def block_count(self) -> int:
        """Return how much memory this takes, in blocks."""
        return sum(len(queue.blocks) for queue in self._queues.values())

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
        found = reader.span(self._topic, queue_id, queue.end, self._count)
        if found.count > 1 and found.bytes > self._block_bytes:
            self._count = max(found.count * self._block_bytes // found.bytes, 1)
            found = reader.span(self._topic, queue_id, queue.end, self._count)
        elif 2 * found.bytes < self._block_bytes:
            self._count = min(2 * self._count, _MAX_COUNT)
        if not found.count:
            return False
        queue.end += found.count
        last = queue.blocks[-1] if queue.blocks else None
        if last is not None and last.bytes + found.bytes <= self._block_bytes:
            last.end, last.bytes = queue.end, last.bytes + found.bytes
        else:
            queue.blocks.append(_Block(queue.end, found.bytes, found.position))
            if len(queue.blocks) > _MAX_BLOCKS:
                queue.put_together()
        return True

    def take_excess(self, floors: Mapping[int, int]) -> dict[int, int]:
        """Drop the oldest messages until the rest fits; return where each queue begins then, of those that change.

        ``floors`` names queues with an offset from which on nothing may go.
        """
        taken: dict[int, int] = {}
        excess = self.total - self.limit
        heap = [(queue.blocks[0].position, number) for number, queue in self._queues.items() if queue.blocks]
        heapq.heapify(heap)
        while excess > 0 and heap:
            queue_id = heapq.heappop(heap)[1]
            blocks = self._queues[queue_id].blocks
            block = blocks[0]
            if block.end > floors.get(queue_id, block.end):
                continue
            blocks.popleft()
            excess -= block.bytes
            taken[queue_id] = block.end
            if blocks:
                heapq.heappush(heap, (blocks[0].position, queue_id))
        return taken
