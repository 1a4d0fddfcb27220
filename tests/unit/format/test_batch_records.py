"""Records of batch transactions: bytes as the page has them, and what cannot be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format import batch_records as records
from litemq.format.batch_records import Confirmed, Dropped, Ended, Fact, Published, Publishing, Staged, Winner

names = st.text(max_size=20)
numbers = st.integers(0, (1 << 63) - 1)
winners = st.lists(
    st.builds(Winner, numbers, numbers, st.dictionaries(names.filter(str.isprintable), numbers)), max_size=3
).map(tuple)
facts = st.one_of(
    st.builds(
        Staged,
        *(names, numbers, numbers, numbers, numbers, names, numbers, numbers, numbers),
        *(st.lists(names).map(tuple), numbers, names),
    ),
    st.builds(
        Ended,
        *(names, numbers, st.booleans(), winners, names, names, numbers, numbers),
        *(st.integers(-1, 10), st.lists(names).map(tuple)),
    ),
    st.builds(Dropped, names, numbers, numbers, numbers),
    st.builds(Publishing, names, numbers, numbers, numbers),
    st.builds(Published, names, numbers),
    st.builds(Confirmed, names, numbers, names),
)


def test_golden() -> None:
    staged = Staged("p", 7, 3, 9, 0, "broker-a", 2, 50, 17, ("T", "U"), 1700000000000, "10.0.0.1:99")
    text = (
        b'{"producer_id":"p","epoch":7,"partition":3,"attempt":9,"sequence":0,"coordinator":"broker-a","count":2,'
        b'"size":50,"checksum":17,"topics":["T","U"],"born_ms":1700000000000,"born_host":"10.0.0.1:99"}'
    )
    assert records.encode(staged, b"rows") == b"\x01\x01" + len(text).to_bytes(4, "big") + text + b"rows"
    ended = Ended("gr\u00fcn", 7, True, (Winner(3, 9, {"broker-a": 2}),), "broker-a", "", 1700000000000, 2)
    text = (
        '{"producer_id":"gr\u00fcn","epoch":7,"is_committed":true,"winners":[[3,9,{"broker-a":2}]],'
        '"coordinator":"broker-a","reason":"","used_ms":1700000000000,"rows":2,"published":0,"confirmed":[]}'
    ).encode()
    assert records.encode(ended) == b"\x01\x02" + len(text).to_bytes(4, "big") + text
    short: tuple[tuple[Fact, bytes], ...] = (
        (Dropped("p", 7), b'{"producer_id":"p","epoch":7,"partition":-1,"attempt":-1}'),
        (Publishing("p", 7, 100, 50), b'{"producer_id":"p","epoch":7,"first":100,"count":50}'),
        (Published("p", 7), b'{"producer_id":"p","epoch":7}'),
        (Confirmed("p", 7, "broker-b"), b'{"producer_id":"p","epoch":7,"broker":"broker-b"}'),
    )
    for kind, (fact, text) in enumerate(short, 3):
        assert records.encode(fact) == bytes((1, kind)) + len(text).to_bytes(4, "big") + text


@given(facts, st.binary())
def test_what_is_written_is_read(fact: Fact, rows: bytes) -> None:
    body = records.encode(fact, rows)
    found = records.decode(body)
    assert found is not None
    assert found[0] == fact
    assert body[found[1] :] == rows


@pytest.mark.parametrize("body", [b"\x02\x01\0\0\0\x02{}", b"\x01\x63\0\0\0\x02{}"], ids=["version", "kind"])
def test_what_a_later_version_says_is_passed_over(body: bytes) -> None:
    assert records.decode(body) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01\x05\0\0\0",
        b"\x01\x05\0\0\0\x09{}",
        b"\x01\x05\0\0\0\x02{}",
        b"\x01\x05\0\0\0\x02[]",
        b"\x01\x05\0\0\0\x01{",
    ],
)
def test_what_is_no_fact_is_an_error(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any text: the caller names the record
        records.decode(body)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "no list"),
        ([[1, 2]], "winner 0"),
        ([[1, 2, {"a": 3}], [1, 2, {"a": -1}]], "winner 1"),
        ([["1", 2, {"a": 3}]], "winner 0"),
        ([[1, 2, {"a": True}]], "winner 0"),
    ],
)
def test_winners_that_are_none(found: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        records.read_winners(found)
