"""Messages that were read ahead, from several queues, on their way to whoever polls or iterates, on whichever thread.

They are handed out in chunks as they were read, so that a message costs a step of an iterator and nothing else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint

from litemq.client._message_cy import Message
from litemq.client.queue_reader import QueueReader
from litemq.client.routes import TopicQueue


class Chunk:
    """Messages of one queue that came with one answer; ``after`` is where the next ones begin."""

    __slots__ = ("after", "messages", "place", "size")

    def __init__(self, place: Place, messages: list[Message], after: int, size: int) -> None:
        self.place = place
        self.messages = messages
        self.after = after
        self.size = size


class Place:
    """One queue of a pull consumer: what was handed out, and what lies ready while it is paused."""

    def __init__(self, queue: TopicQueue, out: Handout) -> None:
        self.queue = queue
        self.reader: QueueReader | None = None
        self.position: int | None = None
        """The offset behind what was handed out, but for the chunk in hand; None until it is known."""
        self.committed: int | None = None
        """What was committed last here."""
        self.is_paused = False
        self.parked: list[Chunk] = []
        self.ready = 0
        """Chunks that lie ready."""
        self._out = out

    def begun(self, offset: int) -> None:
        """Know where the queue is read from."""
        if self.position is None:
            self.position = offset

    def take(self, messages: list[Message], after: int, size: int) -> None:
        """Take messages that were read."""
        self._out.put(Chunk(self, messages, after, size))

    def moved(self, offset: int) -> None:
        """Forget what was read: the queue goes on elsewhere."""
        self._out.drop(self)
        self.position = offset


class Handout:
    """Takes chunks from the loop, gives messages to others; ``on_put`` is called on the loop when something came."""

    def __init__(self, on_put: Callable[[], None], on_room: Callable[[QueueReader], None]) -> None:
        self.more = threading.Condition(threading.Lock())
        """Notified when something came, and when it was closed."""
        self.is_closed = False
        self._on_put = on_put
        self._on_room = on_room
        self._chunks: deque[Chunk] = deque()
        self._current: Chunk | None = None
        self._rest: Iterator[Message] = iter(())

    # -- from the loop -----------------------------------------------------------------------------

    def put(self, chunk: Chunk) -> None:
        """Lay a chunk ready; one without messages only moves its queue's position."""
        with self.more:
            place = chunk.place
            if not chunk.messages:
                self._move_on(place, chunk.after)
                return
            if place.is_paused:
                place.parked.append(chunk)
                return
            self._chunks.append(chunk)
            place.ready += 1
            self.more.notify_all()
        self._on_put()

    def _move_on(self, place: Place, after: int) -> None:
        waiting = place.parked or ([each for each in self._chunks if each.place is place] if place.ready else [])
        if waiting:
            waiting[-1].after = after
        elif self._current is not None and self._current.place is place:
            self._current.after = after
        else:
            place.position = after

    def drop(self, place: Place) -> None:
        """Forget what lies ready of a queue."""
        with self.more:
            self._cut(place)
            place.parked.clear()
            self._chunks = deque(each for each in self._chunks if each.place is not place)
            place.ready = 0

    def pause(self, place: Place) -> None:
        """Hand nothing out of a queue until ``resume``."""
        with self.more:
            if place.is_paused:
                return
            place.is_paused = True
            left = self._cut(place)
            place.parked = [*([left] if left is not None else []), *(one for one in self._chunks if one.place is place)]
            self._chunks = deque(each for each in self._chunks if each.place is not place)
            place.ready = 0

    def resume(self, place: Place) -> None:
        """Hand out again."""
        with self.more:
            if not place.is_paused:
                return
            place.is_paused = False
            self._chunks.extendleft(reversed(place.parked))
            place.ready = len(place.parked)
            place.parked = []
            self.more.notify_all()
        self._on_put()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self.more:
            self.is_closed = True
            self._chunks.clear()
            self._exhaust()
            self.more.notify_all()
        self._on_put()

    # -- to whoever asks ---------------------------------------------------------------------------

    def take(self, most: int) -> list[Message]:
        """Return up to so many messages that lie ready."""
        with self.more:
            found: list[Message] = []
            while len(found) < most and (self._current is not None or self._next()):
                found += islice(self._rest, most - len(found))
                if not length_hint(self._rest):
                    self._finish()
            return found

    def rest(self) -> Iterator[Message] | None:
        """Return the messages of the chunk in hand, or of the next one; None when nothing lies ready.

        Every call returns the same iterator until it is at its end, so that nothing is handed out twice or left out.
        """
        with self.more:
            if self._current is not None and not length_hint(self._rest):
                self._finish()
            if self._current is None and not self._next():
                return None
            return self._rest

    def is_ready(self) -> bool:
        """Return whether something may be taken; the caller holds ``more``."""
        return bool(self._chunks) or (self._current is not None and length_hint(self._rest) > 0)

    def position(self, place: Place) -> int | None:
        """Return the offset behind what was handed out of a queue."""
        with self.more:
            current = self._current
            if current is not None and current.place is place:
                handed = len(current.messages) - length_hint(self._rest)
                if handed == len(current.messages):
                    return current.after
                if handed:
                    return current.messages[handed - 1].queue_offset + 1
            return place.position

    def _next(self) -> bool:
        if not self._chunks:
            return False
        self._current = self._chunks.popleft()
        self._current.place.ready -= 1
        self._rest = iter(self._current.messages)
        return True

    def _finish(self) -> None:
        """Know that the chunk in hand is handed out."""
        current, self._current = self._current, None
        if current is not None:
            current.place.position = current.after
            self._free(current.place, len(current.messages), current.size)

    def _cut(self, place: Place) -> Chunk | None:
        """Take the chunk in hand away if it is of this queue; return what was not handed out of it."""
        current = self._current
        if current is None or current.place is not place:
            return None
        left = self._exhaust()
        handed = len(current.messages) - len(left)
        size = current.size * handed // max(len(current.messages), 1)
        if handed:
            place.position = current.messages[handed - 1].queue_offset + 1 if left else current.after
            self._free(place, handed, size)
        return Chunk(place, left, current.after, current.size - size) if left else None

    def _exhaust(self) -> list[Message]:
        self._current = None
        return list(self._rest)  # whoever iterates over it comes to its end

    def _free(self, place: Place, count: int, size: int) -> None:
        reader = place.reader
        if reader is not None:
            reader.freed(count, size)
            if reader.is_full:
                self._on_room(reader)
