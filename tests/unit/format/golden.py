"""Records written by hand from the format pages, part by part, and the values that they hold."""

from __future__ import annotations

from dataclasses import dataclass

from litemq.format.placement import Placement
from litemq.types import LogPosition, Message, QueueOffset


@dataclass(frozen=True)
class Golden:
    """One record: its bytes, and the message and place that it holds."""

    format: str
    data: bytes
    message: Message
    place: Placement


def from_hex(text: str) -> bytes:
    """Return the bytes of lines of hex digits; what stands behind ``#`` is a comment."""
    return bytes.fromhex("".join(line.partition("#")[0] for line in text.splitlines()))


BORN = 1_700_000_000_000
STORED = 1_700_000_000_123

LITEMQ = Golden(
    "litemq",
    from_hex("""
        000000f1                                        # bytes that follow
        4c4d5101                                        # magic
        0002 6d31                                       # message id "m1"
        0003 54c3a9                                     # topic "Té"
        00000002 0001 41 0001 42                        # tags "A", "B"
        00000001 0003 6b2031                            # keys "k 1"
        00000006                                        # properties, sorted
          0008 5f5f435243333243  0008 3732383163323662  # __CRC32C = 7281c26b
          0006 5f5f464c4147      0002 2d32              # __FLAG = -2
          0011 5f5f50524550415245445f4f4646534554 0002 3939 # __PREPARED_OFFSET = 99
          000a 5f5f5359535f464c4147 0003 323234         # __SYS_FLAG = 224 (0xE0)
          0003 666f6f            0003 626172            # foo = bar
          0001 7a                0000                   # z, empty
        00000005 68656c6c6f                             # body "hello"
        04 07 02                                        # type order, priority 7, reliability 2
        000001a3185c5000                                # delay time 1800000000000
        0002 7478                                       # transaction id "tx"
        02                                              # status committed
        0001 73                                         # sharding key "s"
        01                                              # broadcast
        0000018bcfe56800                                # born time
        000b 5b3a3a315d3a3534333231                     # born host "[::1]:54321"
        000e 31302e302e302e353a3130393131               # store host "10.0.0.5:10911"
        00000003                                        # queue id
        0000000000000007                                # queue offset
        00000000000003e8                                # log offset
        000000f5                                        # store size, the size field included
        0000018bcfe5687b                                # store time
        0000000000000005 0000000000000006               # consume start and end time
        00000009                                        # consume count
    """),
    Message(
        "Té",
        b"hello",
        queue_id=3,
        message_id="m1",
        tags=("A", "B"),
        keys=("k 1",),
        properties={"foo": "bar", "z": ""},
        type=4,
        priority=7,
        reliability=2,
        delay_time=1_800_000_000_000,
        transaction_id="tx",
        status=2,
        sharding_key="s",
        broadcast=True,
        born_time=BORN,
        born_host="[::1]:54321",
        flag=-2,
        sys_flag=0xE0,
        reconsume_times=9,
        prepared_offset=99,
        consume_start_time=5,
        consume_end_time=6,
    ),
    Placement(LogPosition(1000), QueueOffset(7), STORED, "10.0.0.5:10911"),
)

LITEMQ_SMALLEST = Golden(
    "litemq",
    from_hex("""
        0000007d 4c4d5101
        0000 0000 00000000 00000000                     # no id, no topic, no tags, no keys
        00000001 0008 5f5f435243333243 0008 6239303235333938
        00000000                                        # no body
        00 00 00 0000000000000000 0000 00 0000 00 0000000000000000 0000 0000
        00000000 0000000000000000 0000000000000000 00000081
        0000000000000000 0000000000000000 0000000000000000 00000000
    """),
    Message("", b"", born_host=""),
    Placement(LogPosition(0), QueueOffset(0), 0, ""),
)

_ROCKETMQ_MESSAGE = Message(
    "T",
    b"hello",
    queue_id=3,
    tags=("TagA",),
    keys=("k1", "k2"),
    born_time=BORN,
    born_host="127.0.0.1:54321",
)

ROCKETMQ = Golden(
    "rocketmq",
    from_hex("""
        00000076daa320a73610a6860000000300000000000000000000000700000000000003e8000000000000018bcfe56800
        7f0000010000d4310000018bcfe5687b0a00000500002a9f000000000000000000000000
        0000000568656c6c6f015400154b455953016b31206b320254414753015461674102
    """),
    _ROCKETMQ_MESSAGE,
    Placement(LogPosition(1000), QueueOffset(7), STORED, "10.0.0.5:10911"),
)

ROCKETMQ_IPV6 = Golden(
    "rocketmq",
    from_hex("""
        0000008edaa320a73610a6860000000300000000000000000000000700000000000003e8000000300000018bcfe56800
        000000000000000000000000000000010000d4310000018bcfe5687bfe80000000000000000000000000000100002a9f
        0000000000000000000000000000000568656c6c6f015400154b455953016b31206b320254414753015461674102
    """),
    Message("T", b"hello", queue_id=3, tags=("TagA",), keys=("k1", "k2"), born_time=BORN, born_host="[::1]:54321"),
    Placement(LogPosition(1000), QueueOffset(7), STORED, "[fe80::1]:10911"),
)

ROCKETMQ_V2 = Golden(
    "rocketmq",
    ROCKETMQ.data.replace(b"\0\0\0\x76\xda\xa3\x20\xa7", b"\0\0\0\xf8\xda\xa3\x20\xab").replace(
        b"hello\x01T", b"hello\x00\x82" + b"x" * 130
    ),
    Message(
        "x" * 130, b"hello", queue_id=3, tags=("TagA",), keys=("k1", "k2"), born_time=BORN, born_host="127.0.0.1:54321"
    ),
    ROCKETMQ.place,
)

ROCKETMQ_CHECKED = (
    ROCKETMQ.data.replace(b"\0\0\0\x76\xda", b"\0\0\0\x8a\xda").replace(b"T\x00\x15KEYS", b"T\x00\x29KEYS")
    + b"__CRC32#\x014333568641\x02"
)
"""The first vector with RocketMQ's record checksum, which a store gives to each record that it appends."""

BLUEPRINT = Golden(
    "blueprint",
    from_hex("""
        00000072                                        # total size
        aabbccdd                                        # magic
        3610a686                                        # CRC-32 of "hello"
        00000003                                        # queue id
        ffffffff                                        # flag -1
        0000000000000007                                # queue offset
        00000000000003e8                                # physical offset
        00000008                                        # sys flag: committed
        0000018bcfe56800                                # born time
        0000018bcfe5687b                                # store time
        03 54c3a9                                       # topic "Té"
        00000005 68656c6c6f                             # body "hello"
        002b                                            # properties
          54414753 01 41 02                             # TAGS = A
          4b455953 01 6b31206b32 02                     # KEYS = k1 k2
          554e49515f4b4559 01 6d31 02                   # UNIQ_KEY = m1
          666f6f 01 626172 02                           # foo = bar
          7a 01 c3bc 02                                 # z = ü
    """),
    Message(
        "Té",
        b"hello",
        queue_id=3,
        message_id="m1",
        tags=("A",),
        keys=("k1", "k2"),
        properties={"foo": "bar", "z": "ü"},
        status=2,
        flag=-1,
        born_time=BORN,
    ),
    Placement(LogPosition(1000), QueueOffset(7), STORED),
)

TMQ = Golden(
    "tmq",
    from_hex("""
        00000066                                        # length
        544d5101                                        # magic
        00000003                                        # queue id
        00000000000003e8                                # file offset
        0000000000000007                                # queue offset
        00000002 6d31                                   # message id "m1"
        0000018bcfe56800                                # born time
        00000005 68656c6c6f                             # body "hello"
        00000003 54c3a9                                 # topic "Té"
        002a                                            # properties
          5f5f5348415244494e474b4559 01 73 02           # __SHARDINGKEY = s
          54494d45525f44454c495645525f4d53 01 3137 02   # TIMER_DELIVER_MS = 17
          666f6f 01 76 02                               # foo = v
    """),
    Message(
        "Té",
        b"hello",
        queue_id=3,
        message_id="m1",
        properties={"foo": "v"},
        type=1,
        delay_time=17,
        sharding_key="s",
        born_time=BORN,
    ),
    Placement(LogPosition(1000), QueueOffset(7), BORN),
)

ALL = (LITEMQ, LITEMQ_SMALLEST, ROCKETMQ, ROCKETMQ_IPV6, ROCKETMQ_V2, BLUEPRINT, TMQ)
