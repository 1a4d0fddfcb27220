"""Messages and placements that hypothesis makes up for the formats' tests."""

from __future__ import annotations

import sys
import zlib

import lz4.frame
from hypothesis import strategies as st

from litemq.format import names
from litemq.format.placement import Placement
from litemq.types import NO_HOST, LogPosition, Message, QueueOffset

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MARKS = "\x01\x02"

any_text = st.text(max_size=20) | st.sampled_from(["", "a b", "😀", "\x01", "x\x02y", "null", "0", "%RETRY%g", '["a"]'])
"""Text of any kind: empty, blanks, control characters, surrogate pairs."""

sound_text = st.text(st.characters(codec="utf-8", exclude_characters=MARKS), max_size=20)
"""Text that RocketMQ's property text can hold when it is not empty."""

topics = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60
).filter(lambda topic: topic not in (".", ".."))

ports = st.integers(0, 65535)
ipv4_hosts = st.builds("{}.{}.{}.{}:{}".format, *[st.integers(0, 255)] * 4, ports)
ipv6_hosts = st.builds(
    "[{}]:{}".format, st.sampled_from(["::", "::1", "fe80::1", "2001:db8:0:1::", "1:2:3:4:5:6:7:8"]), ports
)
odd_hosts = st.sampled_from(["", "localhost:10911", "10.0.0.1", "[::1]", "[::0]:1", "010.0.0.1:5", "1.2.3.4:05", "é:1"])
hosts = ipv4_hosts | ipv6_hosts | odd_hosts | st.just(NO_HOST)

TAKEN = names.SHOWN_BY_A_KEY | names.RESERVED_IN_LITEMQ | names.RESERVED_IN_ROCKETMQ | names.CHECKSUMS
"""Names that a plain property cannot have in every format."""

plain_names = (
    sound_text.filter(bool) | st.sampled_from(["TRAN_MSG", "DELAY", "TIMER_DELAY_SEC", "WAIT", "__ORIGIN", "__A", "~"])
).filter(lambda name: name not in TAKEN)
plain_values = sound_text.filter(bool) | st.sampled_from(["true", "3", "-1"])
plain_properties = st.dictionaries(plain_names, plain_values, max_size=5)
"""Properties that come through every format."""

times = st.integers(0, (1 << 63) - 1) | st.sampled_from([0, 1_700_000_000_000])
wide_times = times | st.integers(0, (1 << 64) - 1)

COMPRESSORS = {0x001: zlib.compress, 0x101: lz4.frame.compress, 0x201: zstd.compress, 0x301: zlib.compress}
FREE_BITS = 0x7FFFFFFF & ~0x735
"""Bits of a sys flag that say nothing of hosts, status and compression."""


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return a stored body and the compression bits of its sys flag."""
    plain = draw(st.binary(max_size=200))
    bits = draw(st.sampled_from([0, 0, 0, *COMPRESSORS]))
    return (COMPRESSORS[bits](plain) if bits else plain), bits


@st.composite
def messages(draw: st.DrawFn, *, texts: st.SearchStrategy[str] = sound_text) -> Message:
    """Return a message with every field that ``litemq`` can hold; ``texts`` makes what stands in fields."""
    body, compression = draw(bodies())
    status = draw(st.integers(0, 3))
    sys_flag = None
    if compression or draw(st.booleans()):
        bits = draw(st.integers(0, FREE_BITS)) & FREE_BITS
        sys_flag = bits | compression | draw(st.sampled_from([0, status << 2, 0x10, 0x30]))
        sys_flag = draw(st.sampled_from([sys_flag, sys_flag - (1 << 31)]))
    return Message(
        draw(topics),
        body,
        queue_id=draw(st.integers(0, 0x7FFFFFFF)),
        message_id=draw(texts),
        tags=tuple(draw(st.lists(any_text, max_size=3))),
        keys=tuple(draw(st.lists(any_text, max_size=4))),
        properties=draw(plain_properties),
        type=draw(st.integers(0, 4)),
        priority=draw(st.integers(0, 255)),
        reliability=draw(st.integers(0, 3)),
        delay_time=draw(wide_times),
        transaction_id=draw(texts),
        status=status,
        sharding_key=draw(texts),
        broadcast=draw(st.booleans()),
        born_time=draw(times),
        born_host=draw(hosts),
        flag=draw(st.integers(-(1 << 31), (1 << 31) - 1) | st.just(0)),
        sys_flag=sys_flag,
        reconsume_times=draw(st.integers(0, (1 << 31) - 1)),
        prepared_offset=draw(st.integers(-(1 << 63), (1 << 63) - 1) | st.just(0)),
        consume_start_time=draw(wide_times),
        consume_end_time=draw(wide_times),
    )


placements = st.builds(
    Placement,
    st.integers(0, (1 << 63) - 1).map(LogPosition),
    st.integers(0, (1 << 63) - 1).map(QueueOffset),
    times,
    hosts,
)
