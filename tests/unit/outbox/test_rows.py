from __future__ import annotations

import pytest

from litemq.errors import InvalidRequest, RecordTooLarge, ReservedName
from litemq.outbox.rows import OUTBOX_ID, Row, columns_of, message_of, runs_of


def row(place: int, *, topic: str = "orders", key: str | None = None, size: int = 10) -> Row:
    return Row(place, f"{place:032x}", topic, bytes(size), None, None, key, None)


def columns(**changes: object) -> dict[str, object]:
    given: dict[str, object] = {
        "topic": "orders",
        "body": b"17 apples",
        "tags": "paid",
        "keys": ["o-17", "c-3"],
        "sharding_key": "c-3",
        "properties": {"region": "eu"},
        "max_body_bytes": 100,
    }
    return columns_of(**{**given, **changes})  # type: ignore[arg-type]


def test_a_row_becomes_the_message_that_was_added() -> None:
    found = columns()
    names = Row._fields[2:]
    message = message_of(Row(7, "ab" * 16, *(found[name] for name in names)))  # type: ignore[arg-type]
    assert (message.topic, message.body, message.tags, message.sharding_key) == ("orders", b"17 apples", "paid", "c-3")
    assert message.keys == ("o-17", "c-3", "ab" * 16)
    assert message.properties == {"region": "eu", OUTBOX_ID: "ab" * 16}


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"topic": "or ders"}, InvalidRequest, "the topic"),
        ({"topic": ""}, InvalidRequest, "topic"),
        ({"body": "text"}, InvalidRequest, "bytes"),
        ({"tags": "a||b"}, InvalidRequest, "tag"),
        ({"properties": {OUTBOX_ID: "1"}}, ReservedName, "outbox's own"),
        ({"properties": {"KEYS": "1"}}, ReservedName, "LiteMQ's own"),
        ({"body": bytes(101)}, RecordTooLarge, "101 bytes, at most 100"),
    ],
)
def test_what_no_broker_would_take_is_refused_when_it_is_added(
    changes: dict[str, object], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        columns(**changes)


def test_neighbours_of_one_queue_travel_together() -> None:
    rows = [row(1), row(2), row(3, key="a"), row(4, key="a"), row(5, key="b"), row(6), row(7, topic="bills"), row(8)]
    assert [[one.place for one in run] for run in runs_of(rows)] == [[1, 2], [3, 4], [5], [6], [7], [8]]
    assert runs_of([]) == []


def test_runs_are_bounded() -> None:
    assert [len(run) for run in runs_of([row(place) for place in range(1_100)])] == [500, 500, 100]
    assert [len(run) for run in runs_of([row(place, size=400_000) for place in range(5)])] == [2, 2, 1]
    assert [len(run) for run in runs_of([row(1, size=4 << 20), row(2)])] == [1, 1]
