"""What goes into a record comes out of it, and litemq and rocketmq hold all that the other holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import strategies as make

from litemq.format import blueprint, litemq, names, rocketmq, tmq
from litemq.format import properties as property_text
from litemq.format.placement import Placement
from litemq.format.record import FORMATS, decode, to_json, to_message, to_placement
from litemq.format.reserved import derived_sys_flag
from litemq.types import NO_HOST, LogPosition, Message, QueueOffset, Record

PLACEMENT_KEYS = {
    *("format", "version", "segment", "position", "size", "check", "log_offset", "offset_id", "body_crc"),
    *("compression", "stored_body_size"),
}


def read(data: bytes, position: int, name: str) -> Record:
    record = decode(data, position, name)
    assert record is not None
    return record


def content(record: Record, *without: str) -> dict[str, object]:
    """Return the record object without what a conversion may change."""
    return {key: value for key, value in to_json(record).items() if key not in PLACEMENT_KEYS and key not in without}


def fields(message: Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in Message.__slots__}


@given(make.messages(texts=make.any_text), make.placements)
def test_litemq_gives_back_the_message(message: Message, place: Placement) -> None:
    record = read(litemq.encode(message, place), place.position, "litemq")
    assert record.check == "ok"
    assert to_placement(record, place.position) == place
    derived = derived_sys_flag(message.status, message.born_host, place.store_host)
    expected = {**fields(message), "sys_flag": None if message.sys_flag == derived else message.sys_flag}
    assert fields(to_message(record)) == expected


@given(make.messages(), make.placements)
def test_litemq_to_rocketmq_and_back_loses_nothing(message: Message, place: Placement) -> None:
    first = read(litemq.encode(message, place), place.position, "litemq")
    there = rocketmq.encode(to_message(first), to_placement(first, 77))
    second = read(there, 77, "rocketmq")
    back = read(litemq.encode(to_message(second), to_placement(second, 5)), 5, "litemq")
    # RocketMQ's text cannot hold an empty one: no host at all becomes 0.0.0.0:0, which counts as equal.
    empty = [host for host in ("born_host", "store_host") if getattr(first, host) == ""]
    assert content(back, *empty) == content(first, *empty)
    # Read as RocketMQ's, it is the same too, but for what is null there when it is 0 or empty here.
    assert not {key for key, value in comparable(second).items() if value != comparable(first)[key]} - {*empty}


@st.composite
def rocketmq_records(draw: st.DrawFn) -> bytes:
    """Return a record at position 9 as any RocketMQ might have written it, reserved names and all."""
    message = draw(make.messages())
    pairs = draw(
        st.dictionaries(make.plain_names | st.sampled_from(sorted(names.RESERVED_IN_ROCKETMQ)), make.plain_values)
    )
    pairs |= draw(st.dictionaries(st.sampled_from(sorted(names.SHOWN_BY_A_KEY)), make.plain_values))
    template = Message(
        message.topic,
        message.body,
        queue_id=message.queue_id,
        born_time=message.born_time,
        born_host=draw(make.ipv4_hosts if not (message.sys_flag or 0) & 0x10 else make.ipv6_hosts),
        sys_flag=message.sys_flag or 0,
        status=(message.sys_flag or 0) >> 2 & 3,
        flag=message.flag,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )
    store_host = draw(make.ipv4_hosts if not (message.sys_flag or 0) & 0x20 else make.ipv6_hosts)
    bare = rocketmq.encode(template, Placement(LogPosition(9), QueueOffset(3), 44, store_host))
    text = property_text.write(pairs.items())
    assert bare.endswith(b"\0\0")
    data = bare[:-2] + len(text).to_bytes(2) + text
    return len(data).to_bytes(4) + data[4:]


@given(rocketmq_records())
def test_rocketmq_to_litemq_and_back_loses_nothing(data: bytes) -> None:
    first = read(data, 9, "rocketmq")
    second = read(litemq.encode(to_message(first), to_placement(first, 0)), 0, "litemq")
    back = read(rocketmq.encode(to_message(second), to_placement(second, 9)), 9, "rocketmq")
    assert comparable(back) == comparable(second) == comparable(first)


def comparable(record: Record) -> dict[str, object]:
    """Return the content with null, 0 and empty as one, and without reserved names whose values cannot be read.

    Those stay properties, until a conversion needs the name for itself.
    """
    found = content(record)
    found["properties"] = {
        name: value for name, value in record.properties.items() if name not in names.RESERVED_IN_ROCKETMQ
    }
    return {key: value or None for key, value in found.items()}


BLUEPRINT_KEEPS = (
    *("topic", "body", "queue_id", "message_id", "properties", "delay_time", "transaction_id", "sharding_key"),
    *("born_time", "flag", "status"),
)


@given(make.messages(), make.placements)
def test_blueprint_gives_back_what_it_holds(message: Message, place: Placement) -> None:
    record = read(blueprint.encode(message, place), place.position, "blueprint")
    found = fields(to_message(record))
    if message.sys_flag is not None:
        assert record.sys_flag == message.sys_flag
        found["status"] = message.status
    assert {key: found[key] for key in BLUEPRINT_KEEPS} == {key: fields(message)[key] for key in BLUEPRINT_KEEPS}
    assert (record.store_time, record.queue_offset) == (place.store_time, place.queue_offset)
    if message.tags and property_text.can_hold("TAGS", message.tags[0]):
        assert record.tags == message.tags[:1]
    if all(" " not in key and property_text.can_hold("KEYS", key) for key in message.keys):
        assert record.keys == message.keys


TMQ_KEEPS = (
    "topic",
    "queue_id",
    "message_id",
    "properties",
    "delay_time",
    "transaction_id",
    "sharding_key",
    "born_time",
)


@given(make.messages(texts=make.sound_text), make.placements)
def test_tmq_gives_back_what_it_holds(message: Message, place: Placement) -> None:
    source = read(litemq.encode(message, place), place.position, "litemq")
    plain = to_message(source, plain_body=True)
    record = read(tmq.encode(plain, place), place.position, "tmq")
    found = fields(to_message(record))
    assert {key: found[key] for key in TMQ_KEEPS} == {key: fields(message)[key] for key in TMQ_KEEPS}
    assert record.body == source.body
    assert (record.log_offset, record.queue_offset) == (place.position, place.queue_offset)


@given(make.messages(texts=make.any_text), make.placements, st.sampled_from(sorted(FORMATS)))
def test_an_encoded_record_is_whole_and_detected(message: Message, place: Placement, name: str) -> None:
    data = FORMATS[name].write(message, place)
    record = decode(data, place.position)
    assert record is not None
    assert (record.format, record.size, record.topic) == (name, len(data), message.topic)


def test_what_a_source_lacks_is_empty() -> None:
    data = tmq.encode(Message("t", b"x", born_time=7), Placement(LogPosition(0), QueueOffset(0)))
    record = read(data, 0, "tmq")
    assert to_message(record) == Message("t", b"x", born_time=7)
    assert to_placement(record, 3) == Placement(LogPosition(3), QueueOffset(0), 7, NO_HOST)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_times_below_zero_keep_their_bits(name: str) -> None:
    born = (1 << 64) - 5
    data = FORMATS[name].write(Message("t", b"", born_time=born), Placement(LogPosition(0), QueueOffset(0), -6))
    record = read(data, 0, name)
    assert record.born_time == (born if name == "litemq" else -5)
    assert to_message(record).born_time == born
    if name != "tmq":
        assert to_placement(record, 0).store_time == -6


def convert(message: Message, first: str, second: str) -> tuple[Record, Record]:
    """Return the record of ``message`` in one format, and that of the same in another."""
    there = read(FORMATS[first].write(message, Placement(LogPosition(0), QueueOffset(0))), 0, first)
    return there, read(FORMATS[second].write(to_message(there), to_placement(there, 0)), 0, second)


LIKE_WELL_KNOWN = {
    "TAGS": "x",
    "KEYS": "a b",
    "UNIQ_KEY": "id",
    "__SHARDINGKEY": "s",
    "__transactionId__": "t",
    "TIMER_DELIVER_MS": "17",
}
LIKE_RESERVED = {
    "__TYPE": "order",
    "__PRIORITY": "7",
    "__RELIABILITY": "2",
    "__STATUS": "prepared",
    "__BROADCAST": "1",
    "__CONSUME_START_TIME": "1",
    "__CONSUME_END_TIME": "2",
    "__BORN_HOST": "b",
    "__STORE_HOST": "s",
    "__TAGS": '["x"]',
    "__KEYS": '["k"]',
}


@pytest.mark.parametrize("target", ["rocketmq", "blueprint", "tmq"])
def test_a_litemq_property_never_becomes_a_field(target: str) -> None:
    """A name that says something in the target is left out rather than taken for what it is not."""
    message = Message("t", b"x", properties={**LIKE_WELL_KNOWN, **LIKE_RESERVED, "plain": "p"})
    first, second = convert(message, "litemq", target)
    assert first.properties == message.properties
    assert comparable(second)["properties"] == {"plain": "p"}
    changed = {key for key, value in comparable(second).items() if value and value != comparable(first)[key]}
    assert changed == {"properties"}


def test_a_rocketmq_property_never_becomes_a_field() -> None:
    """``__SYS_FLAG=1`` would even say that the body is compressed."""
    message = Message("t", b"x", properties={"__FLAG": "5", "__SYS_FLAG": "1", "__PREPARED_OFFSET": "9", "plain": "p"})
    first, second = convert(message, "rocketmq", "litemq")
    assert first.properties == message.properties
    assert second.properties == {"plain": "p"}
    assert (second.flag, second.sys_flag, second.prepared_offset, second.compression) == (0, 0, 0, None)


@pytest.mark.parametrize(
    ("name", "value"), [("__FLAG", "x"), ("__SYS_FLAG", "99999999999"), ("__PREPARED_OFFSET", "+1")]
)
def test_a_reserved_name_whose_value_cannot_be_read_stays_in_litemq(name: str, value: str) -> None:
    first, second = convert(Message("t", b"", properties={name: value}), "litemq", "rocketmq")
    assert first.properties == second.properties == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("__TYPE", "odd"),
        ("__PRIORITY", "256"),
        ("__RELIABILITY", "-1"),
        ("__STATUS", "1"),
        ("__BROADCAST", "yes"),
        ("__CONSUME_START_TIME", "1.5"),
        ("__CONSUME_END_TIME", str(1 << 64)),
        ("__TAGS", "[1]"),
        ("__KEYS", "[" * 20_000),
        ("__KEYS", '["\\ud800"]'),
        ("TIMER_DELIVER_MS", "soon"),
    ],
)
def test_a_reserved_name_whose_value_cannot_be_read_stays_in_rocketmq(name: str, value: str) -> None:
    first, second = convert(Message("t", b"", properties={name: value}), "rocketmq", "litemq")
    assert first.properties == second.properties == {name: value}


def test_reserved_values_at_their_limits() -> None:
    message = Message(
        "t",
        b"",
        priority=255,
        reliability=3,
        flag=-(1 << 31),
        sys_flag=-(1 << 31),
        prepared_offset=-(1 << 63),
        consume_start_time=(1 << 64) - 1,
        consume_end_time=(1 << 64) - 1,
        delay_time=(1 << 64) - 1,
    )
    first, second = convert(message, "litemq", "rocketmq")
    assert content(first) == content(second) | {
        "message_id": "",
        "transaction_id": "",
        "sharding_key": "",
        "broadcast": False,
    }
    assert to_message(first) == message


def test_nothing_is_written_that_a_reader_derives() -> None:
    """Reserved properties appear only where a field would else be lost."""
    plain = Message(
        "t", b"x", tags=("a",), keys=("k1", "k2"), born_host="[::1]:5", message_id="m", sharding_key="s", type=4
    )
    data = rocketmq.encode(plain, Placement(LogPosition(0), QueueOffset(0)))
    assert property_text.parse(data[data.index(b"KEYS") :]) == {
        "KEYS": "k1 k2",
        "UNIQ_KEY": "m",
        "TAGS": "a",
        "__SHARDINGKEY": "s",
    }
    data = litemq.encode(plain, Placement(LogPosition(0), QueueOffset(0)))
    assert data.count(b"__") == 1, "the checksum and nothing else"


def test_reserved_properties_of_rocketmq_by_hand() -> None:
    message = Message(
        "t",
        b"",
        tags=("a", "b"),
        keys=("k", "", "x y"),
        type=1,
        status=2,
        sys_flag=0,
        broadcast=True,
        born_host="nowhere",
        consume_start_time=5,
    )
    data = rocketmq.encode(message, Placement(LogPosition(0), QueueOffset(0), 0, "elsewhere"))
    pairs = property_text.parse(data[data.index(b"KEYS") :])
    assert pairs.pop("__TAGS").replace(" ", "") == '["a","b"]'
    assert pairs.pop("__KEYS").replace(", ", ",") == '["k","","x y"]'
    assert pairs == {
        "TAGS": "a",
        "KEYS": "k",
        "__TYPE": "delay",
        "__STATUS": "committed",
        "__BROADCAST": "1",
        "__BORN_HOST": "nowhere",
        "__STORE_HOST": "elsewhere",
        "__CONSUME_START_TIME": "5",
    }
