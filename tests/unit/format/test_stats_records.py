"""Bodies of ``LITEMQ_SYS_STATS``: the bytes, and how they are parted."""

from __future__ import annotations

import json

import pytest

from litemq.format.stats_records import encode_counts, encode_incomplete

HOUR = 1_795_132_800_000
COUNTS = {
    "acked": {"billing": {"orders": 2}},
    "sent": {"orders": {"shop": 3, "écran": 1}, "bills": {"payer": 5}},
    "delivered": {"billing": {"orders": 3}},
}


def test_golden_bytes() -> None:
    assert list(encode_counts(HOUR, COUNTS, 1 << 20)) == [
        b'{"op":"counts","hour":1795132800000,"sent":{"bills":{"payer":5},"orders":{"shop":3,"\xc3\xa9cran":1}},'
        b'"delivered":{"billing":{"orders":3}},"acked":{"billing":{"orders":2}}}'
    ]
    assert list(encode_counts(HOUR, {"sent": {"orders": {"shop": 3}}}, 1 << 20)) == [
        b'{"op":"counts","hour":1795132800000,"sent":{"orders":{"shop":3}}}'
    ]
    assert encode_incomplete(5, 7, "the broker was not stopped") == (
        b'{"op":"incomplete","since":5,"until":7,"why":"the broker was not stopped"}'
    )


def test_nothing_counted_is_no_record() -> None:
    assert list(encode_counts(HOUR, {}, 1 << 20)) == []
    assert list(encode_counts(HOUR, {"sent": {}, "acked": {"g": {}}}, 1 << 20)) == []


@pytest.mark.parametrize("limit", [1, 150, 1000])
def test_large_counts_are_parted(limit: int) -> None:
    counts = {part: {f"é{n}": {"x": n, "y": 1} for n in range(40)} for part in ("sent", "delivered", "acked")}
    bodies = list(encode_counts(HOUR, counts, limit))
    found: dict[str, dict[str, dict[str, int]]] = {}
    for body in bodies:
        told = json.loads(body)
        assert (told.pop("op"), told.pop("hour")) == ("counts", HOUR)
        cells = [(part, name, other) for part in told for name in told[part] for other in told[part][name]]
        assert len(body) <= limit or len(cells) == 1
        for part, name, other in cells:
            assert other not in found.setdefault(part, {}).setdefault(name, {})
            found[part][name][other] = told[part][name][other]
    assert found == counts


def test_names_without_a_utf_8_form_are_counted_all_the_same() -> None:
    (body,) = encode_counts(HOUR, {"sent": {"a\ud800": {"g": 1}}}, 1 << 20)
    assert json.loads(body)["sent"] == {"a?": {"g": 1}}
