"""Tag filters: hash first, then the tag itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.errors import BadFilter
from litemq.features.filters import TagFilter, compile_filter
from litemq.features.filters.tag import MAX_LENGTH, tag_hash


@pytest.mark.parametrize("expression", [None, "", "*", " * ", "  "])
def test_everything_passes(expression: str | None) -> None:
    found = compile_filter(expression)
    assert isinstance(found, TagFilter)
    assert found.is_all
    assert found.hashes is None
    assert found.tags is None
    assert found.matches_tag("x")
    assert found.matches_tag(None)
    assert found.evaluate({})


def test_one_of_several() -> None:
    found = compile_filter("TagA || TagB||", "")
    assert isinstance(found, TagFilter)
    assert not found.is_all
    assert found.tags == frozenset({"TagA", "TagB"})
    assert found.hashes == frozenset({2598919, 2598920})  # codeSet of a real client's heartbeat
    assert [found.matches_tag(tag) for tag in ("TagA", "TagB", "TagC", "", None)] == [True, True, False, False, False]
    assert found.evaluate({"TAGS": "TagB"})
    assert not found.evaluate({"KEYS": "TagB"})


def test_equal_hashes_are_not_equal_tags() -> None:
    found = TagFilter("Aa")
    assert found.hashes == frozenset({tag_hash("BB")})
    assert not found.matches_tag("BB")


def test_hash_has_a_sign() -> None:
    assert tag_hash("polygenelubricants") == -(1 << 31)
    assert tag_hash("TagA") == 2598919


@given(st.text(min_size=1))
def test_hash_is_javas(tag: str) -> None:
    units = tag.encode("utf-16-be", "replace")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "big")) % (1 << 32)
    assert tag_hash(tag) % (1 << 32) == value
    assert -(1 << 31) <= tag_hash(tag) < 1 << 31


@pytest.mark.parametrize(
    ("expression", "kind", "reason"),
    [
        ("||", "TAG", "a tag expected"),
        ("x" * (MAX_LENGTH + 1), "TAG", "at most 32767"),
        ("a = 1", "SQL", "TAG or SQL92, not 'SQL'"),
        (None, "SQL92", "a property, a number"),
    ],
)
def test_refused(expression: str | None, kind: str, reason: str) -> None:
    with pytest.raises(BadFilter, match=reason):
        compile_filter(expression, kind)
