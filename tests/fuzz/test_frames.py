"""Hostile frames against the compiled send path: consumed or flagged, never read beyond what arrived, never a crash.

``LITEMQ_FUZZ_CASES`` sets how many cases run, ``LITEMQ_FUZZ_SEED`` where they start; a failure names its case.
"""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path

import pytest
from tests.support import frames
from tests.support.frames import BINARY, JSON, Send
from tests.unit.store.live_support import open_store, small

from litemq import _plain
from litemq.errors import BadFrame
from litemq.format import spans as columns
from litemq.format._spans_cy import Peer, Spans
from litemq.wire.remoting import command
from litemq.wire.remoting._answers_cy import Outbox, sends
from litemq.wire.remoting._requests_cy import split

CASES = int(os.environ.get("LITEMQ_FUZZ_CASES", "150000"))
SEED = int(os.environ.get("LITEMQ_FUZZ_SEED", "20261118"))
MAX_FRAME = 1 << 24

pytestmark = pytest.mark.timeout(0 if CASES > 200_000 else 300)

PULL = {
    "consumerGroup": "readers",
    "topic": "orders",
    "queueId": "3",
    "queueOffset": "42",
    "maxMsgNums": "32",
    "sysFlag": "7",
    "commitOffset": "41",
    "suspendTimeoutMillis": "15000",
    "subscription": "a || b",
    "subVersion": "17634636000",
    "expressionType": "TAG",
    "maxMsgBytes": "262144",
    "lmqFormat": "litemq",
}
PROPERTIES = "UNIQ_KEY\x01id\x02TAGS\x01a\x02KEYS\x01k1 k2\x02color\x01blau 蓝 😀\x02"
BODY = b"".join(frames.entry(b"x" * n, PROPERTIES, n) for n in range(3))
SENDS = (Send(properties=PROPERTIES), Send(batch=True, body=BODY), Send(topic='中 " \\ \n', properties=PROPERTIES))
END = {
    "producerGroup": "pg",
    "tranStateTableOffset": "7",
    "commitLogOffset": "90",
    "commitOrRollback": "8",
    "msgId": "K",
}
SEEDS = [
    *(frames.send(codec, code, sent) for codec in (JSON, BINARY) for code in (10, 310, 320) for sent in SENDS),
    *(frames.request(codec, code, PULL) for codec in (JSON, BINARY) for code in (11, 361)),
    *(frames.request(codec, 37, END, flag=2) for codec in (JSON, BINARY)),
    *(frames.request(codec, 34, {}, b"{}", flag=flag) for codec in (JSON, BINARY) for flag in (0, 1)),
    frames.frame(frames.json_header(310, SENDS[2].ext(310), ascii_only=False), b"body", JSON),
]
TELLING = (0, 1, 2, 0x20, 0x22, 0x2C, 0x2D, 0x30, 0x39, 0x3A, 0x5C, 0x5D, 0x75, 0x7B, 0x7D, 0x7F, 0x80, 0xED, 0xFF)


def hostile(rnd: random.Random) -> bytes:
    """Return some frames, most of them with something wrong."""
    return b"".join(broken(rnd) for _ in range(rnd.choice((1, 1, 2, 4))))


def broken(rnd: random.Random) -> bytes:
    kind = rnd.randrange(12)
    if kind == 0:
        return rnd.randbytes(rnd.randrange(60))
    if kind == 1:  # a frame of noise
        header, body = rnd.randbytes(rnd.randrange(80)), rnd.randbytes(rnd.randrange(40))
        return frames.frame(header, body, rnd.choice((JSON, BINARY)))
    data = bytearray(rnd.choice(SEEDS))
    if kind == 2:
        return bytes(data)
    if kind == 3:  # cut short, with a length that says so or not
        data = data[: rnd.randrange(len(data))]
        if len(data) >= 8 and rnd.random() < 0.7:
            struct.pack_into(">I", data, 0, len(data) - 4)
        return bytes(data)
    if kind == 4:  # wrong lengths
        at = rnd.choice((0, 4, rnd.randrange(len(data) - 4)))
        struct.pack_into(
            ">I", data, at, rnd.choice((0, 3, 4, 7, 0xFFFFFF, 0x1000000, 0x7FFFFFFF, 0xFFFFFFFF, len(data)))
        )
        return bytes(data)
    if kind == 5:  # a part of it twice, or away
        a, b = sorted(rnd.randrange(8, len(data)) for _ in range(2))
        data = data[:b] + data[a:] if rnd.random() < 0.5 else data[:a] + data[b:]
        struct.pack_into(">I", data, 0, len(data) - 4)
        size = rnd.choice((struct.unpack_from(">I", data, 4)[0] & 0xFFFFFF, len(data) - 8, rnd.randrange(len(data))))
        struct.pack_into(">I", data, 4, data[4] << 24 | size & 0xFFFFFF)
        return bytes(data)
    for _ in range(rnd.choice((1, 1, 2, 3, 8))):
        data[rnd.randrange(8, len(data))] = rnd.choice(TELLING) if rnd.random() < 0.7 else rnd.randrange(256)
    return bytes(data)


def table(spans: Spans, data: bytes, behind: bytes) -> tuple[object, ...]:
    """Return all that a split of ``data`` says, whatever bytes lie around it."""
    spans.data = bytearray(behind + data + behind)
    used = split(spans, len(behind), len(data))
    rows = [spans.row(row) for row in range(spans.count)]
    return used, spans.status, spans.wanted, rows, bytes(spans.text[: spans.text_size])


def check(spans: Spans, data: bytes, start: int, used: int, number: int) -> None:
    """Every place lies within what arrived, the frames lie one behind the other, and what is left is less than one."""
    at = start
    texts = ("TOPIC", "GROUP", "PROPERTIES", "SUBSCRIPTION", "EXPRESSION", "ID")
    for row in range(spans.count):
        cells = spans.row(row)
        if cells["KIND"] != columns.MORE:
            assert cells["FRAME_AT"] == at, number
            at += cells["FRAME_SIZE"]
        assert cells["FRAME_AT"] + 8 <= cells["BODY_AT"] <= cells["BODY_AT"] + cells["BODY_SIZE"] <= at, number
        for name in texts:
            begin = cells[f"{name}_AT"]
            assert 0 <= begin <= begin + cells[f"{name}_SIZE"] <= spans.text_size, number
            spans.words(row, getattr(columns, f"{name}_AT")).decode()
    assert at == start + used, number
    left = len(data) - used
    if spans.status == columns.SPLIT:
        assert left < 4 or left < int.from_bytes(data[used : used + 4], "big") + 4 <= MAX_FRAME, number
        assert spans.wanted in (0, int.from_bytes(data[used : used + 4], "big") + 4), number
    else:
        assert spans.status == columns.BAD_FRAME, number
        with pytest.raises(BadFrame):
            refuse(data[used:])


def refuse(data: bytes) -> None:
    """Have ``command`` refuse a frame whose first words are wrong; what did not arrive yet is zeros."""
    total = int.from_bytes(data[:4], "big") + 4
    if not 8 <= total <= MAX_FRAME:
        raise BadFrame("its length")
    command.decode(data[:total].ljust(total, b"\0"))


def test_frames(tmp_path: Path) -> None:
    """Split, append and answer; what lies around the bytes that arrived changes nothing."""
    spans, again, out = Spans(), Spans(), Outbox()
    spans.peer = Peer("10.0.0.5:50000")
    kinds: dict[int, int] = {}
    with open_store(tmp_path, small(segment_bytes=1 << 22, index_slots=5000, index_entries=20_000)) as store:
        store.put_topic("orders")
        store.put_plain("orders", 8)
        for number in range(CASES):
            rnd = random.Random(SEED * 1_000_003 + number)
            data = hostile(rnd)
            used, *said = table(spans, data, b"")
            assert isinstance(used, int)
            if number % 4 == 0:
                moved = table(again, data, rnd.choice((b'"', b"\xff", b"0", b"}", b"\\")) * 16)
                assert (moved[0], *moved[1:3], moved[4]) == (used, *said[:2], said[3]), number
                for row in range(spans.count):
                    there = {"FRAME_AT": -16, "BODY_AT": -16}
                    cells = {name: value + there.get(name, 0) for name, value in again.row(row).items()}
                    assert cells == spans.row(row), number
                check(again, data, 16, used, number)
            check(spans, data, 0, used, number)
            row = 0
            while row < spans.count:
                kinds[spans.kind(row)] = kinds.get(spans.kind(row), 0) + 1
                done = store.append_rows(spans, row)
                sends(spans, row, done, out)
                row = spans.behind(done) if done < spans.count else done
            frames.answers(out.take())
        stored = store.counters()["messages"]
    assert min(kinds.get(kind, 0) for kind in (0, 1, 2, 4, 5)) > CASES // 1000, kinds
    assert stored > CASES // 20


def test_both_builds_agree() -> None:
    plain = _plain.load_plain("litemq.wire.remoting._requests_cy")
    spans, twin = Spans(), _plain.load_plain("litemq.format._spans_cy").Spans()
    for number in range(CASES, CASES + max(1, CASES // 20)):
        data = hostile(random.Random(SEED * 1_000_003 + number))
        used, *said = table(spans, data, b"")
        twin.data = bytearray(data)
        assert plain.split(twin, 0, len(data)) == used, number
        assert [twin.status, twin.wanted, [twin.row(row) for row in range(twin.count)]] == said[:3], number
        assert bytes(twin.text[: twin.text_size]) == said[3], number
