"""What each format holds, and what does not fit it at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.format import golden

from litemq.errors import InvalidRequest, RecordTooLarge
from litemq.format.limits import FACTS, RECORD_KEYS, check_fits, is_folder_name
from litemq.format.placement import Placement
from litemq.format.record import FORMATS, decode, to_json
from litemq.types import LogPosition, Message, QueueOffset

PLACE = Placement(LogPosition(0), QueueOffset(0))
EACH = pytest.mark.parametrize("name", list(FORMATS))


@EACH
def test_facts_tell_the_truth(name: str) -> None:
    facts = FACTS[name].to_json()
    assert list(facts) == ["name", "magic", "written_by", "checked", "holds", "lacks", "limits"]
    assert {*FACTS[name].holds} | {*FACTS[name].lacks} == {*RECORD_KEYS}
    assert not {*FACTS[name].holds} & {*FACTS[name].lacks}
    full = decode(FORMATS[name].write(golden.LITEMQ.message, PLACE), 0, name)
    assert full is not None
    record = to_json(full)
    assert tuple(record) == RECORD_KEYS
    unset = {key for key, value in record.items() if value is None}
    assert unset - {"compression"} == {*FACTS[name].lacks} - {"compression"}


def test_facts_of_each_format() -> None:
    assert {name: (facts.written_by, facts.checked) for name, facts in FACTS.items()} == {
        "litemq": ("broker", "record"),
        "rocketmq": ("broker", "body"),
        "blueprint": ("convert", "body"),
        "tmq": ("convert", "none"),
    }
    assert [facts.to_json()["magic"] for facts in FACTS.values()] == [
        *("0x4C4D5101", "0xDAA320A7", "0xAABBCCDD", "0x544D5101")
    ]


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "empty"),
        (".", r"'\.'"),
        ("..", r"'\.\.'"),
        ("a/b", "slash"),
        ("a\0", "zero byte"),
        ("x" * 256, "256 bytes"),
        ("中" * 86, "258 bytes"),
        ("\ud800", "UTF-8"),
    ],
)
def test_topics_that_cannot_be_folders(topic: str, reason: str) -> None:
    said = is_folder_name(topic)
    assert said is not None
    with pytest.raises(ValueError, match=reason):
        raise ValueError(said)
    assert check_fits(Message(topic, b""), "litemq") == said


@pytest.mark.parametrize("topic", ["a", "...", ".a", "x" * 255, "中" * 85, "%RETRY%g", " ", "a\\b", "\x01"])
def test_topics_that_can_be_folders(topic: str) -> None:
    assert is_folder_name(topic) is None
    for name, fmt in FORMATS.items():
        message = Message(topic, b"x")
        assert check_fits(message, name) is None
        found = decode(fmt.write(message, PLACE), 0, name)
        assert found is not None
        assert found.topic == topic


def properties_of(size: int) -> dict[str, str]:
    """Return properties whose RocketMQ text has ``size`` bytes."""
    return {"a": "x" * (size - 3)}


@pytest.mark.parametrize(("name", "limit"), [("rocketmq", 32767), ("blueprint", 65535), ("tmq", 65535)])
def test_properties_at_their_limit(name: str, limit: int) -> None:
    assert FACTS[name].limits.properties == limit
    fits = Message("t", b"", properties=properties_of(limit))
    assert check_fits(fits, FORMATS[name]) is None
    found = decode(FORMATS[name].write(fits, PLACE), 0, name)
    assert found is not None
    assert found.properties == fits.properties
    too_long = Message("t", b"", properties=properties_of(limit + 1))
    assert check_fits(too_long, name) == f"properties has {limit + 1} bytes, at most {limit} fit"
    with pytest.raises(RecordTooLarge):
        FORMATS[name].write(too_long, PLACE)


@pytest.mark.parametrize("field", ["message_id", "transaction_id", "sharding_key", "born_host"])
def test_texts_of_litemq_at_their_limit(field: str) -> None:
    fits = Message("t", b"", **{field: "x" * 65535})  # type: ignore[arg-type]  # each of them is a text
    assert check_fits(fits, "litemq") is None
    assert decode(FORMATS["litemq"].write(fits, PLACE), 0) is not None
    too_long = Message("t", b"", **{field: "x" * 65534 + "é"})  # type: ignore[arg-type]
    assert "65536 bytes, at most 65535 fit" in str(check_fits(too_long, "litemq"))


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", tags=("a", "x" * 65536)),
        Message("t", b"", keys=("x" * 65536,)),
        Message("t", b"", properties={"x" * 65536: "v"}),
        Message("t", b"", properties={"n": "x" * 65536}),
    ],
    ids=["tag", "key", "name", "value"],
)
def test_lists_of_litemq_at_their_limit(message: Message) -> None:
    assert "at most 65535 fit" in str(check_fits(message, "litemq"))


def test_escapes_count() -> None:
    """A key with control characters takes six bytes each in a JSON list."""
    keys = ("\x1f" * 5000 + " ",)
    assert check_fits(Message("t", b"", keys=keys), "rocketmq") is None
    assert "at most 32767 fit" in str(check_fits(Message("t", b"", keys=(*keys, *keys)), "rocketmq"))


@EACH
def test_queue_ids(name: str) -> None:
    assert check_fits(Message("t", b"", queue_id=0x7FFFFFFF), name) is None
    assert "below 0" in str(check_fits(Message("t", b"", queue_id=-1), name))
    wide = check_fits(Message("t", b"", queue_id=0x80000000), name)
    assert (wide is None) == (name in ("blueprint", "tmq"))


@EACH
def test_half_a_surrogate_pair_fits_nowhere(name: str) -> None:
    assert "UTF-8" in str(check_fits(Message("t", b"", message_id="\ud800"), name))


def test_long_topics_take_version_2() -> None:
    for size, version in ((127, 1), (128, 2), (255, 2)):
        found = decode(FORMATS["rocketmq"].write(Message("x" * size, b""), PLACE), 0)
        assert found is not None
        assert (found.version, len(found.topic)) == (version, size)


def test_too_long_a_topic_for_its_size_field() -> None:
    with pytest.raises(InvalidRequest, match="at most 255"):
        FORMATS["blueprint"].write(Message("x" * 256, b""), PLACE)
    with pytest.raises(InvalidRequest, match="at most 32767"):
        FORMATS["rocketmq"].write(Message("x" * 32768, b""), PLACE)


def test_too_large_a_body_is_refused_before_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = FACTS["tmq"]
    monkeypatch.setitem(FACTS, "tmq", replace(facts, limits=replace(facts.limits, body=9)))
    assert check_fits(Message("t", b"x" * 9), "tmq") is None
    assert check_fits(Message("t", b"x" * 10), "tmq") == "the body has 10 bytes, at most 9 fit"
