"""Progress of a queue: the committed offset never passes a message that is not finished."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from litemq.client.queue_progress import QueueProgress


def test_it_begins_where_it_is_told() -> None:
    assert QueueProgress(17).offset == 17


def test_what_a_filter_left_out_counts_as_finished() -> None:
    progress = QueueProgress(0)
    progress.took([], behind=800)
    assert progress.offset == 800
    progress.took([803], behind=810)
    assert progress.offset == 803
    progress.finished(803)
    assert progress.offset == 810


@given(
    gaps=st.lists(st.integers(1, 5), min_size=1, max_size=40),
    pulls=st.lists(st.integers(1, 8), min_size=1, max_size=40),
    data=st.data(),
)
def test_the_offset_is_the_lowest_that_is_not_finished(gaps: list[int], pulls: list[int], data: st.DataObject) -> None:
    offsets = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    progress = QueueProgress(0)
    taken: list[int] = []
    is_open: set[int] = set()
    behind = 0
    last = 0
    while offsets or is_open:
        if offsets and (not is_open or data.draw(st.booleans(), label="take")):
            count = pulls[len(taken) % len(pulls)]
            now, offsets = offsets[:count], offsets[count:]
            behind = now[-1] + 1
            progress.took(now, behind=behind)
            taken += now
            is_open.update(now)
        else:
            done = data.draw(st.sampled_from(sorted(is_open)), label="finish")
            is_open.discard(done)
            progress.finished(done)
        assert progress.offset == (min(is_open) if is_open else behind)
        assert progress.open_count == len(is_open)
        assert progress.offset >= last
        last = progress.offset
