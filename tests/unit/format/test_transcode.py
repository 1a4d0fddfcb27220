"""Records as remoting clients read them: what the kernel writes is what decoding and encoding anew gives."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.format import strategies as make

from litemq import _plain
from litemq.errors import InvalidRequest
from litemq.format import _transcode_cy, litemq, names, properties, rocketmq, rows
from litemq.format._encode_cy import encode
from litemq.format._scan_cy import LITEMQ, ROCKETMQ, scan
from litemq.format._text_cy import crc32c
from litemq.format.placement import Placement
from litemq.format.record import LITEMQ as LITEMQ_FORMAT
from litemq.format.record import ROCKETMQ as ROCKETMQ_FORMAT
from litemq.format.record import decode, to_message, to_placement
from litemq.format.transcode import odd_to_rocketmq, to_rocketmq
from litemq.types import LogPosition, Message, QueueOffset

TWIN = _plain.load_plain("litemq.format._transcode_cy")
PLACE = Placement(LogPosition(4096), QueueOffset(7), 1_700_000_000_000, "10.0.0.1:10911")

any_names = (
    make.any_text
    | st.sampled_from(sorted(names.INTERNAL | names.SHOWN_BY_A_KEY))
    | st.sampled_from(["__", "__A", "_", "__CRC32", "__ORIGINS", "TAG", "WAIT"])
)
any_values = make.any_text | st.sampled_from(
    ["-0", "00", "-1", "12345678901234567", "1234567890123456789", "18446744073709551615", "99999999999999999999"]
)
any_properties = st.dictionaries(any_names, any_values, max_size=8)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Return a message whose properties may have any name, those with a meaning too."""
    message = draw(make.messages(texts=make.any_text))
    message.properties.update(draw(any_properties))
    return message


def without_internal(record: bytes, position: int) -> bytes:
    """Return a ``rocketmq`` record without its internal properties, the slow way."""
    table = rows.table(1)
    count, _, _ = scan(ROCKETMQ, record, 0, len(record), position, table)
    assert count == 1
    text = record[table[rows.PROPERTIES_AT] :]
    pairs = [pair for pair in text.split(b"\x02") if pair.partition(b"\x01")[0].decode() not in names.INTERNAL]
    text = b"\x02".join(pairs)
    head = record[: table[rows.PROPERTIES_AT] - 2]
    return (len(head) + 2 + len(text)).to_bytes(4) + head[4:] + len(text).to_bytes(2) + text


def the_long_way(record: bytes, position: int) -> bytes:
    found = decode(record, position, LITEMQ_FORMAT)
    assert found is not None
    return without_internal(rocketmq.encode(to_message(found), to_placement(found, position)), position)


def sealed(record: bytes) -> bytes:
    """Return a ``litemq`` record with the right checksum again."""
    at = record.index(b"\x00\x08__CRC32C\x00\x08") + 12
    crc = crc32c(record[:at] + b"00000000" + record[at + 8 :])
    return record[:at] + b"%08x" % crc + record[at + 8 :]


@given(messages(), make.placements)
def test_a_litemq_record_becomes_what_its_message_would_be(message: Message, place: Placement) -> None:
    record = litemq.encode(message, place)
    wanted = the_long_way(record, place.position)
    assert to_rocketmq(LITEMQ, record, place.position) == wanted
    assert odd_to_rocketmq(record, place.position) == wanted
    short: bytes | int = _transcode_cy.as_rocketmq(record, place.position)
    assert short in (wanted, _transcode_cy.ODD)
    assert TWIN.as_rocketmq(record, place.position) == short
    assert len(wanted) <= len(record) + _transcode_cy.ROOM


@given(make.messages(), make.placements)
def test_a_usual_record_takes_the_short_way(message: Message, place: Placement) -> None:
    assume(len(str(message.prepared_offset)) <= 18)
    record = litemq.encode(message, place)
    assert _transcode_cy.as_rocketmq(record, place.position) == the_long_way(record, place.position)


@given(messages(), make.placements, st.booleans())
def test_a_rocketmq_record_loses_its_internal_names_only(message: Message, place: Placement, checked: bool) -> None:
    record = encode(
        ROCKETMQ,
        message,
        position=place.position,
        queue_offset=place.queue_offset,
        store_time=place.store_time,
        store_host=place.store_host,
        checked=checked,
    )
    wanted = without_internal(record, place.position)
    assert to_rocketmq(ROCKETMQ, record, place.position) == wanted
    assert TWIN.stripped(record) == wanted
    before, after = (decode(data, place.position, ROCKETMQ_FORMAT) for data in (record, wanted))
    assert before is not None
    assert after is not None
    assert after.stored_body == before.stored_body
    assert after.message_id == before.message_id
    assert after.properties == {name: value for name, value in before.properties.items() if name not in names.INTERNAL}
    assert properties.parse(_transcode_cy.properties_text(wanted)).keys().isdisjoint(names.INTERNAL)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 5000, 100_000])
def test_a_body_passes_untouched_with_its_checksum(size: int) -> None:
    body = random.Random(size).randbytes(size)
    for flag in (None, 0x1, 0x701):  # it does not decompress, which is the application's business
        record = litemq.encode(Message("t", body, sys_flag=flag), PLACE)
        answer = to_rocketmq(LITEMQ, record, PLACE.position)
        assert answer == TWIN.as_rocketmq(record, PLACE.position)
        assert answer == rocketmq.encode(Message("t", body, sys_flag=flag), PLACE)


@pytest.mark.parametrize("size", [127, 128, 255])
def test_a_long_topic_makes_a_record_of_version_2(size: int) -> None:
    record = litemq.encode(Message("t" * size, b"body"), PLACE)
    answer = to_rocketmq(LITEMQ, record, PLACE.position)
    assert answer == rocketmq.encode(Message("t" * size, b"body"), PLACE)
    assert answer is not None
    assert _transcode_cy.stripped(answer) == TWIN.stripped(answer) == answer


def test_of_a_name_that_stands_twice_the_last_value_counts() -> None:
    message = Message("t", b"body", properties={"a1": "one", "a2": "two", "b": "three"})
    record = sealed(litemq.encode(message, PLACE).replace(b"a2", b"a1"))
    assert _transcode_cy.as_rocketmq(record, PLACE.position) == _transcode_cy.ODD
    answer = to_rocketmq(LITEMQ, record, PLACE.position)
    assert answer == the_long_way(record, PLACE.position)
    assert answer is not None
    assert answer.endswith(b"a1\x01two\x02b\x01three\x02")


def test_properties_in_another_order_keep_it() -> None:
    record = litemq.encode(Message("t", b"body", properties={"a": "one", "b": "two"}), PLACE)
    swapped = sealed(record.replace(b"\x01a\x00\x03one\x00\x01b", b"\x01c\x00\x03one\x00\x01b"))
    assert swapped != record
    answer = to_rocketmq(LITEMQ, swapped, PLACE.position)
    assert answer == the_long_way(swapped, PLACE.position)
    assert answer is not None
    assert answer.endswith(b"c\x01one\x02b\x01two\x02")


def test_what_does_not_fit_is_left_out() -> None:
    fits = Message("t", b"", properties={"name": "x" * 32761})
    record = litemq.encode(fits, PLACE)
    assert to_rocketmq(LITEMQ, record, PLACE.position) == rocketmq.encode(fits, PLACE)
    message = Message("t", b"", properties={"name": "x" * 32762})
    with pytest.raises(InvalidRequest):
        rocketmq.encode(message, PLACE)
    assert to_rocketmq(LITEMQ, litemq.encode(message, PLACE), PLACE.position) is None


@given(make.messages(), st.data())
def test_damage_is_never_transcoded(message: Message, data: st.DataObject) -> None:
    record = bytearray(litemq.encode(message, PLACE))
    name = record.index(b"\x00\x08__CRC32C")  # without this one it would be a sound record of an older writer
    at = data.draw(st.integers(0, len(record) - 1).filter(lambda at: not name <= at < name + 10))
    record[at] ^= 1 << data.draw(st.integers(0, 7))
    assert to_rocketmq(LITEMQ, bytes(record), PLACE.position) is None
    assert TWIN.as_rocketmq(bytes(record), PLACE.position) == 0


@given(make.messages(), st.data())
def test_a_rocketmq_record_whose_parts_do_not_add_up_is_left_out(message: Message, data: st.DataObject) -> None:
    record = bytearray(rocketmq.encode(message, PLACE))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(record[: data.draw(st.integers(0, len(record)) | st.just(len(record)))])
    answer = _transcode_cy.stripped(damaged)
    assert answer == TWIN.stripped(damaged)
    if answer is not None:
        assert int.from_bytes(answer[:4]) == len(answer) <= len(damaged)


@given(st.binary(max_size=300))
def test_any_bytes_are_taken(data: bytes) -> None:
    assert _transcode_cy.stripped(data) == TWIN.stripped(data)
    assert _transcode_cy.as_rocketmq(data, 0) == TWIN.as_rocketmq(data, 0) == 0


HOSTS = [
    *("", "1.2.3.4:5", "0.0.0.0:0", "255.255.255.255:65535", "256.1.1.1:1", "1.2.3:4", "1.2.3.4.5:6", "01.2.3.4:5"),
    *("1.2.3.4:", "1.2.3.4:-1", "1.2.3.4:-0", "1.2.3.4:-", "1.2.3.4:2147483647", "1.2.3.4:2147483648"),
    *("1.2.3.4:-2147483648", "1.2.3.4:99999999999", "1.2.3.4:999999999999", "1.2.3.4:05", "1..3.4:5", "1.2.3.4:5 "),
    *("1.2.3.4", "[::1]:5", "[::1]", "[", "[::1:5", "[::0]:1", "host:1", "1.2.3.1000:5", "1.2.3.4;5", "é.2.3.4:5"),
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("flag", [None, 0, 0x10, 0x20, 0x30])
def test_hosts(host: str, flag: int | None) -> None:
    message = Message("t", b"body", born_host=host, sys_flag=flag)
    place = replace(PLACE, store_host=host)
    record = litemq.encode(message, place)
    wanted = the_long_way(record, place.position)
    assert _transcode_cy.as_rocketmq(record, place.position) == wanted
    assert TWIN.as_rocketmq(record, place.position) == wanted
