"""Leases against a model: a dictionary of what was taken, and a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.features.leases import LONGEST_MS, Leases, LeasesFull

NAMES = st.sampled_from("abcd")
OFFSETS = st.dictionaries(st.tuples(st.sampled_from(("T", "U")), st.integers(0, 2)), st.integers(0, 99), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), NAMES, st.integers(1, 60), OFFSETS),
        st.tuples(st.just("release"), NAMES),
        st.tuples(st.just("wait"), st.integers(0, 50)),
    ),
    max_size=40,
)


@given(STEPS)
def test_leases_end_when_they_said_and_floors_are_those_of_the_living(steps: list[tuple[object, ...]]) -> None:
    leases = Leases(most=3)
    model: dict[str, tuple[int, dict[tuple[str, int], int]]] = {}
    now = 1_000
    for step in steps:
        match step:
            case ("take", str(name), int(lasts), dict(offsets)):
                model = {one: found for one, found in model.items() if found[0] > now}
                if name not in model and len(model) >= 3:
                    with pytest.raises(LeasesFull):
                        leases.take(name, 7, offsets, lease_ms=lasts, now_ms=now)
                else:
                    leases.take(name, 7, offsets, lease_ms=lasts, now_ms=now)
                    model[name] = (now + lasts, offsets)
            case ("release", str(name)):
                assert leases.release(name) == (model.pop(name, None) is not None)
            case ("wait", int(time)):
                now += time
                over = {one for one, found in model.items() if found[0] <= now}
                assert {lease.name for lease in leases.expire(now)} == over
                model = {one: found for one, found in model.items() if one not in over}
        assert {lease.name: lease.until_ms for lease in leases.held()} == {one: at for one, (at, _) in model.items()}
        for topic in ("T", "U"):
            needed: dict[int, list[int]] = {}
            for _, offsets in model.values():
                for (held, queue_id), offset in offsets.items():
                    if held == topic:
                        needed.setdefault(queue_id, []).append(offset)
            assert leases.floors(topic) == {queue_id: min(found) for queue_id, found in needed.items()}


def test_no_lease_is_longer_than_a_day() -> None:
    lease = Leases().take("a", 0, {}, lease_ms=1 << 60, now_ms=5)
    assert lease.until_ms == 5 + LONGEST_MS
