"""What a pull consumer hands out, beside a model: each queue in order, nothing twice, nothing left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from litemq.client.handout import Chunk, Handout, Place
from litemq.client.routes import TopicQueue

QUEUES = 3


class _Message:
    """As much of a message as a handout looks at."""

    def __init__(self, queue: int, offset: int) -> None:
        self.queue = queue
        self.queue_offset = offset


class _Reader:
    """Counts what is given back to it."""

    is_full = True

    def __init__(self) -> None:
        self.count = self.size = 0

    def freed(self, count: int, size: int) -> None:
        self.count += count
        self.size += size


class Handing(RuleBasedStateMachine):
    """Chunks come, messages go, by polls and by a loop, through pauses and seeks."""

    def __init__(self) -> None:
        super().__init__()
        self.out = Handout(lambda: None, lambda _reader: None)
        self.places = [Place(TopicQueue("t", "b", number), self.out) for number in range(QUEUES)]
        self.readers = [_Reader() for _ in range(QUEUES)]
        for place, reader in zip(self.places, self.readers, strict=True):
            place.reader = reader  # type: ignore[assignment] # all that a handout asks for
            place.begun(0)
        self.next_offset = [0] * QUEUES
        self.expected: list[list[int]] = [[] for _ in range(QUEUES)]
        """Offsets that were put and not handed out."""
        self.after: list[dict[int, int]] = [{} for _ in range(QUEUES)]
        """Last offset of a chunk → where the queue goes on behind it."""
        self.position = [0] * QUEUES
        self.put_count = [0] * QUEUES
        self.loop: Iterator[Any] = iter(())

    @rule(queue=st.integers(0, QUEUES - 1), count=st.integers(0, 6), gap=st.integers(0, 3))
    def put(self, queue: int, count: int, gap: int) -> None:
        first = self.next_offset[queue]
        messages: Any = [_Message(queue, first + number) for number in range(count)]
        behind = self.next_offset[queue] = first + count + gap
        if count:
            self.after[queue][first + count - 1] = behind
            self.put_count[queue] += count
        elif self.expected[queue]:
            self.after[queue][self.expected[queue][-1]] = behind
        else:
            self.position[queue] = behind
        self.expected[queue] += [message.queue_offset for message in messages]
        self.out.put(Chunk(self.places[queue], messages, behind, count * 10))

    def _got(self, message: Any) -> None:  # noqa: ANN401 - a stand-in of a message
        queue, offset = message.queue, message.queue_offset
        assert not self.places[queue].is_paused
        assert self.expected[queue], f"{queue}@{offset} was not expected"
        assert self.expected[queue].pop(0) == offset
        self.position[queue] = self.after[queue].get(offset, offset + 1)

    @rule(most=st.integers(1, 8))
    def poll(self, most: int) -> None:
        ready = sum(len(self.expected[queue]) for queue in range(QUEUES) if not self.places[queue].is_paused)
        found = self.out.take(most)
        assert len(found) == min(most, ready)
        for message in found:
            self._got(message)

    @rule(steps=st.integers(1, 5))
    def iterate(self, steps: int) -> None:
        for _ in range(steps):
            message = next(self.loop, None)
            if message is None:
                rest = self.out.rest()
                if rest is None:
                    assert not any(self.expected[q] for q in range(QUEUES) if not self.places[q].is_paused)
                    return
                self.loop = rest
                message = next(self.loop)
            self._got(message)

    @rule(queue=st.integers(0, QUEUES - 1))
    def pause(self, queue: int) -> None:
        self.out.pause(self.places[queue])

    @rule(queue=st.integers(0, QUEUES - 1))
    def resume(self, queue: int) -> None:
        self.out.resume(self.places[queue])

    @rule(queue=st.integers(0, QUEUES - 1), offset=st.integers(0, 50))
    def seek(self, queue: int, offset: int) -> None:
        place = self.places[queue]
        self.out.drop(place)
        place.position = self.position[queue] = self.next_offset[queue] = offset
        self.expected[queue].clear()
        self.after[queue].clear()
        self.readers[queue].count = self.put_count[queue] = 0  # as ``QueueReader.seek`` forgets what it held

    @precondition(lambda self: not any(self.expected))
    @rule()
    def all_is_given_back(self) -> None:
        self.out.rest()  # finishes what a loop has come to the end of
        assert [reader.count for reader in self.readers] == self.put_count

    @invariant()
    def positions_are_behind_what_was_handed_out(self) -> None:
        assert [self.out.position(place) for place in self.places] == self.position


TestHanding = Handing.TestCase
TestHanding.settings = settings(max_examples=100, stateful_step_count=40)


def test_a_chunk_is_handed_out_by_two_loops_at_once() -> None:
    out = Handout(lambda: None, lambda _reader: None)
    place = Place(TopicQueue("t", "b", 0), out)
    messages: Any = [_Message(0, number) for number in range(6)]
    out.put(Chunk(place, messages, 6, 60))
    one, other = out.rest(), out.rest()
    assert one is not None
    assert one is other
    assert [message.queue_offset for message in itertools.islice(one, 6)] == list(range(6))
    assert out.rest() is None
    assert out.position(place) == 6
