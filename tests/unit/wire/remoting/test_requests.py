"""Frames → rows: what was sent is what the rows say, however the bytes arrive; anything odd is left to ``command``."""

from __future__ import annotations

import json
import random
import re
import struct
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import frames
from tests.support.frames import BINARY, JSON, Send

from litemq import _plain
from litemq.format import _spans_cy
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.wire.remoting import _requests_cy, command
from litemq.wire.remoting._requests_cy import split
from litemq.wire.remoting.codes import MAX_BATCH_SIZE

PLAIN = _plain.load_plain("litemq.wire.remoting._requests_cy")
PLAIN_SPANS = _plain.load_plain("litemq.format._spans_cy")
CODECS = pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
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
    "subVersion": "1763463600000000000",
    "expressionType": "TAG",
    "maxMsgBytes": "262144",
}


def table(data: bytes, kernel: ModuleType = _requests_cy, spans: ModuleType = _spans_cy) -> Spans:
    """Split whole frames; what lies behind them must not matter."""
    found: Spans = spans.Spans()  # or its plain twin
    found.data = bytearray(b"\xff" * 3 + data + b"\xff" * 9)
    assert kernel.split(found, 3, len(data)) == len(data)
    return found


def kinds(data: bytes) -> list[int]:
    found = table(data)
    return [found.kind(row) for row in range(found.count)]


def values(spans: Spans, row: int) -> dict[str, object]:
    """Return a row with its texts and bytes in place of where they are."""
    cells = spans.row(row)
    shown: dict[str, object] = {name: value for name, value in cells.items() if not name.endswith(("_AT", "_SIZE"))}
    for name in ("TOPIC", "GROUP", "PROPERTIES", "SUBSCRIPTION", "EXPRESSION"):
        shown[name] = spans.words(row, getattr(columns, f"{name}_AT"))
    shown["BODY"] = bytes(spans.part(row, columns.BODY_AT))
    shown["FRAME"] = bytes(spans.part(row, columns.FRAME_AT))
    return shown


# ── what was sent is what the rows say ──

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAME = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
ENTRIES = st.lists(st.tuples(st.binary(max_size=9), TEXT, INT32), min_size=1, max_size=4)
SENDS = st.builds(
    Send,
    topic=NAME,
    body=st.binary(max_size=30),
    properties=TEXT,
    group=NAME,
    queue_id=INT32,
    sys_flag=INT32,
    born_time=st.integers(0, (1 << 63) - 1),
    flag=INT32,
    reconsume_times=st.none() | st.integers(0, (1 << 31) - 1),
    batch=st.none() | st.just(False),
    more=st.sampled_from([{}, {"n": "broker-a"}, {"bname": "broker-a", "lo": "false"}]),
)
PULLS = st.fixed_dictionaries(
    {
        "consumerGroup": NAME,
        "topic": NAME,
        "queueId": INT32.map(str),
        "queueOffset": INT64.map(str),
        "maxMsgNums": INT32.map(str),
        "sysFlag": INT32.map(str),
        "commitOffset": INT64.map(str),
        "suspendTimeoutMillis": INT64.map(str),
        "subVersion": INT64.map(str),
    },
    optional={
        "subscription": NAME,
        "expressionType": NAME,
        "maxMsgBytes": st.integers(0, (1 << 31) - 1).map(str),
        "lmqFormat": st.just("litemq"),
        "bname": NAME,
        "lo": st.just("false"),
    },
)
TEXTS = frozenset(
    {"a", "b", "c", "i", "topic", "producerGroup", "consumerGroup", "defaultTopic", "properties", "subscription"}
    | {"expressionType", "bname", "n"}
)
NUMBER = re.compile(r"0|-?[1-9][0-9]*")


@st.composite
def headers(draw: st.DrawFn, code: int, ext: dict[str, str], opaque: int, flag: int) -> tuple[int, bytes]:
    """Return a codec and a header in one of the ways that clients write it."""
    pairs = draw(st.permutations(list(ext.items())))
    if draw(st.booleans()):
        doubled = [*pairs, *draw(st.lists(st.sampled_from(pairs), max_size=3))]
        return BINARY, frames.binary_header(code, doubled, opaque=opaque, flag=flag, remark=draw(TEXT))
    fields: dict[str, object] = dict(pairs)
    for name, value in pairs:
        if name not in TEXTS and NUMBER.fullmatch(value) and draw(st.booleans()):
            fields[name] = int(value)
    if draw(st.booleans()):
        fields["unheardOf"] = None
    members = {"code": code, "extFields": fields, "flag": flag, "opaque": opaque, "version": 493, "language": "CPP"}
    members |= draw(st.sampled_from([{}, {"remark": None}, {"remark": 'a "b" \\ \u0001'}, {"x": True, "y": 12}]))
    shuffled = dict(draw(st.permutations(list(members.items()))))
    separators = draw(st.sampled_from([(",", ":"), (" ,\n", "\t: ")]))
    return JSON, json.dumps(shuffled, separators=separators, ensure_ascii=draw(st.booleans())).encode()


@st.composite
def hot_requests(draw: st.DrawFn) -> tuple[bytes, list[dict[str, object]]]:
    """Return a frame and what its rows should say."""
    opaque = draw(INT32)
    flag = draw(st.sampled_from([0, 2]))
    rest = {"ENTRY_COUNT": 1, "OPAQUE": opaque, "COMMAND_FLAG": flag, "VERSION": 493}
    if draw(st.booleans()):
        code = draw(st.sampled_from([11, 361]))
        ext = draw(PULLS)
        codec, header = draw(headers(code, ext, opaque, flag))
        frame = frames.frame(header, b"", codec)
        said: dict[str, object] = {
            "KIND": columns.PULL,
            "TOPIC": ext["topic"].encode(),
            "GROUP": ext["consumerGroup"].encode(),
            "SUBSCRIPTION": ext.get("subscription", "").encode(),
            "EXPRESSION": ext.get("expressionType", "").encode(),
            "QUEUE_ID": int(ext["queueId"]),
            "SYS_FLAG": int(ext["sysFlag"]),
            "OFFSET": int(ext["queueOffset"]),
            "MAX_COUNT": int(ext["maxMsgNums"]),
            "MAX_BYTES": int(ext.get("maxMsgBytes", -1)),
            "COMMIT_OFFSET": int(ext["commitOffset"]),
            "SUSPEND_MS": int(ext["suspendTimeoutMillis"]),
            "SUB_VERSION": int(ext["subVersion"]),
            "RECORD_FORMAT": int("lmqFormat" in ext),
            "BORN_TIME": 0,
            "BODY": b"",
        }
        return frame, [{"CODEC": codec, "CODE": code, "FRAME": frame} | rest | said]
    code = draw(st.sampled_from([10, 310, 320]))
    sent = draw(SENDS)
    entries = [(sent.body, sent.properties, sent.flag)]
    if draw(st.booleans()):
        entries = draw(ENTRIES)
        sent = replace(
            sent, batch=True, sys_flag=sent.sys_flag & ~0x701, body=b"".join(frames.entry(*item) for item in entries)
        )
    codec, header = draw(headers(code, sent.ext(code), opaque, flag))
    frame = frames.frame(header, sent.body, codec)
    base: dict[str, object] = {
        "CODEC": codec,
        "CODE": code,
        "FRAME": frame,
        "TOPIC": sent.topic.encode(),
        "GROUP": sent.group.encode(),
        "QUEUE_ID": sent.queue_id,
        "SYS_FLAG": sent.sys_flag,
        "BORN_TIME": sent.born_time,
        "RECONSUME_TIMES": sent.reconsume_times or 0,
        "OFFSET": 0,
    }
    rows = []
    for number, (body, properties, message_flag) in enumerate(entries):
        kind = columns.SEND if not sent.batch else columns.MORE if number else columns.BATCH
        said = {"KIND": kind, "BODY": body, "PROPERTIES": properties.encode(), "MESSAGE_FLAG": message_flag}
        rows.append(base | rest | said | {"ENTRY_COUNT": 1 if number else len(entries)})
    return frame, rows


@settings(deadline=None)
@given(st.lists(hot_requests(), min_size=1, max_size=6), st.lists(st.integers(1, 300), max_size=20))
def test_rows_say_what_was_sent(requests: list[tuple[bytes, list[dict[str, object]]]], cuts: list[int]) -> None:
    """Both builds, the bytes in pieces as a socket might bring them."""
    expected = [row for _, rows in requests for row in rows]
    stream = b"".join(frame for frame, _ in requests)
    for kernel, cls in ((_requests_cy, Spans), (PLAIN, PLAIN_SPANS.Spans)):
        spans = cls()
        found = []
        kept, at = b"", 0
        for size in [*cuts, len(stream)]:
            kept += stream[at : at + size]
            at += size
            spans.data = bytearray(kept + b"\x00" * 8)
            used = kernel.split(spans, 0, len(kept))
            assert spans.status == columns.SPLIT
            assert spans.wanted == 0 or spans.wanted > len(kept) - used
            found += [values(spans, row) for row in range(spans.count)]
            kept = kept[used:]
        assert kept == b""
        assert len(found) == len(expected)
        for row, said in zip(found, expected, strict=True):
            assert {name: row[name] for name in said} == said


@CODECS
@given(sent=SENDS)
def test_command_reads_the_same(codec: int, sent: Send) -> None:
    """The two decoders agree on what a hot header says."""
    frame = frames.send(codec, 310, sent, opaque=7)
    spans = table(frame)
    request = command.decode(frame)
    assert isinstance(request, command.Request)
    assert spans.kind(0) == columns.SEND
    assert request.ext["b"].encode() == spans.words(0, columns.TOPIC_AT)
    assert request.ext.get("i", "").encode() == spans.words(0, columns.PROPERTIES_AT)
    assert int(request.ext["f"]) == spans.cell(0, columns.SYS_FLAG)
    assert (request.code, request.opaque, request.version) == (310, 7, spans.cell(0, columns.VERSION))


# ── anything odd is OTHER ──


def changed(**fields: str | None) -> dict[str, str]:
    ext: dict[str, str | None] = {**Send().ext(310), **fields}
    return {name: value for name, value in ext.items() if value is not None}


ODD_SENDS = {
    "no topic": changed(b=None),
    "no group": changed(a=None),
    "no template": changed(c=None),
    "no born time": changed(g=None),
    "empty topic": changed(b=""),
    "unknown field": changed(z="1"),
    "unknown long field": changed(something="1"),
    "signature": changed(Signature="abc"),
    "namespace": changed(ns="x"),
    "queue is no number": changed(e="1x"),
    "queue is a fraction": changed(e="1.0"),
    "queue with plus": changed(e="+1"),
    "queue of 33 bits": changed(e=str(1 << 31)),
    "queue is empty": changed(e=""),
    "queue is a minus": changed(e="-"),
    "flag below": changed(h=str(-(1 << 31) - 1)),
    "born before the epoch": changed(g="-1"),
    "born of 64 bits": changed(g=str(1 << 63)),
    "born of 20 digits": changed(g="1" * 20),
    "batch is not bool": changed(m="yes"),
    "unit mode is not bool": changed(k="1"),
    "template queues": changed(d="many"),
    "reconsume times": changed(j="-1"),
}


@CODECS
@pytest.mark.parametrize("ext", ODD_SENDS.values(), ids=ODD_SENDS)
def test_an_odd_send_is_left_to_python(codec: int, ext: dict[str, str]) -> None:
    good = frames.send(codec, 310, Send())
    data = good + frames.request(codec, 310, ext, b"body", opaque=9) + good
    assert kinds(data) == [columns.SEND, columns.OTHER, columns.SEND]


@CODECS
@pytest.mark.parametrize("missing", [*PULL, None])
def test_optional_fields_of_a_pull(codec: int, missing: str | None) -> None:
    ext = {name: value for name, value in PULL.items() if name != missing}
    optional = missing in (None, "subscription", "expressionType", "maxMsgBytes")
    assert kinds(frames.request(codec, 11, ext)) == [columns.PULL if optional else columns.OTHER]


@CODECS
@pytest.mark.parametrize(
    "more",
    [{"lmqFormat": "tmq"}, {"proxyFrowardClientId": "x"}, {"maxMsgBytes": "-1"}, {"subVersion": "x"}, {"a": "1"}],
)
def test_odd_pulls(codec: int, more: dict[str, str]) -> None:
    assert kinds(frames.request(codec, 361, PULL | more)) == [columns.OTHER]


END = {
    "producerGroup": "pg",
    "tranStateTableOffset": "7",
    "commitLogOffset": str((1 << 63) - 1),
    "commitOrRollback": "8",
    "msgId": "AC1100010B7018B4AAC2ABCDEF010000",
    "fromTransactionCheck": "false",
    "transactionId": "whatever",
    "topic": "T1",
    "bname": "broker-a",
}
"""What the official clients send with request 37."""


@CODECS
def test_the_end_of_a_transaction(codec: int) -> None:
    spans = table(frames.request(codec, 37, END, opaque=3, flag=2))
    row = spans.row(0)
    assert (row["KIND"], row["CODE"], row["OPAQUE"], row["COMMAND_FLAG"]) == (columns.END, 37, 3, 2)
    assert (row["OFFSET"], row["COMMIT_OFFSET"], row["SYS_FLAG"]) == (7, (1 << 63) - 1, 8)
    assert spans.words(0, columns.GROUP_AT) == b"pg"
    assert spans.words(0, columns.ID_AT) == END["msgId"].encode()


@CODECS
@pytest.mark.parametrize("missing", END)
def test_an_end_needs_what_names_its_transaction(codec: int, missing: str) -> None:
    ext = {name: value for name, value in END.items() if name != missing}
    needed = missing in ("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId")
    assert kinds(frames.request(codec, 37, ext)) == [columns.OTHER if needed else columns.END]


@CODECS
@pytest.mark.parametrize(
    "more",
    [
        *({"tranStateTableOffset": "x"}, {"commitLogOffset": str(1 << 63)}, {"commitOrRollback": "8.0"}),
        *({"commitOrRollback": str(1 << 31)}, {"producerGroup": ""}, {"msgId": ""}, {"unheard": "1"}),
    ],
)
def test_an_odd_end_is_left_to_python(codec: int, more: dict[str, str]) -> None:
    good = frames.request(codec, 37, END)
    odd = frames.request(codec, 37, END | more)
    assert kinds(good + odd + good) == [columns.END, columns.OTHER, columns.END]


def test_an_end_that_contradicts_itself() -> None:
    for name in ("producerGroup", "tranStateTableOffset", "commitLogOffset", "commitOrRollback", "msgId"):
        for value, kind in ((END[name], columns.END), ("5", columns.OTHER)):
            header = frames.binary_header(37, [*END.items(), (name, value)])
            assert kinds(frames.frame(header, b"", BINARY)) == [kind]


@CODECS
def test_long_names_only_with_their_code(codec: int) -> None:
    assert kinds(frames.request(codec, 310, Send().ext(10))) == [columns.OTHER]
    assert kinds(frames.request(codec, 10, Send().ext(310))) == [columns.OTHER]


@CODECS
@pytest.mark.parametrize("code", [34, 105, 324, 0, 9, 12])
def test_other_requests(codec: int, code: int) -> None:
    spans = table(frames.request(codec, code, {"topic": "T1"}, b"body", opaque=-5, flag=2))
    row = spans.row(0)
    assert (row["KIND"], row["CODE"], row["OPAQUE"], row["COMMAND_FLAG"]) == (columns.OTHER, code, -5, 2)
    assert bytes(spans.part(0, columns.BODY_AT)) == b"body"


@CODECS
@pytest.mark.parametrize("code", [0, 10, 11, 310])
def test_answers_are_told_apart(codec: int, code: int) -> None:
    """A response code may be the number of a request."""
    spans = table(frames.request(codec, code, {"msgId": "x"}, opaque=77, flag=1))
    assert (spans.kind(0), spans.cell(0, columns.OPAQUE)) == (columns.ANSWER, 77)


def test_a_field_twice() -> None:
    """The same value is nothing; of two values ``command`` takes the last."""
    pairs = list(Send().ext(310).items())
    for name, other in [("b", "else"), ("e", "5"), ("i", "x"), ("m", "true"), ("g", "1"), ("a", "x")]:
        same = dict(pairs)[name]
        for value, kind in ((same, columns.SEND), (other, columns.OTHER)):
            header = frames.binary_header(310, [*pairs, (name, value)])
            assert kinds(frames.frame(header, b"body", BINARY)) == [kind]
    doubled = json.dumps(dict(pairs))[:-1].encode() + b', "e": "5"}'
    header = b'{"code":310,"flag":0,"opaque":1,"extFields":' + doubled + b"}"
    assert kinds(frames.frame(header, b"body", JSON)) == [columns.OTHER]


def test_empty_binary_fields_are_none() -> None:
    header = frames.binary_header(310, [*Send().ext(310).items(), ("", "x"), ("z", ""), ("n", "")])
    assert kinds(frames.frame(header, b"body", BINARY)) == [columns.SEND]


FIELDS = json.dumps(Send().ext(310), separators=(",", ":")).encode()
GOOD = b'{"code":310,"extFields":%b,"flag":0,"opaque":1}' % FIELDS
BAD_JSON = {
    "empty": b"",
    "no object": b"[]",
    "empty object": b"{}",
    "text": b'"x"',
    "end missing": GOOD[:-1],
    "trailing": GOOD + b"x",
    "comma": GOOD[:-1] + b",}",
    "no comma": GOOD.replace(b',"flag"', b'"flag"'),
    "code as text": GOOD.replace(b"310", b'"310"'),
    "code as fraction": GOOD.replace(b"310", b"310.0"),
    "code too large": GOOD.replace(b"310", b"99999999999"),
    "code null": GOOD.replace(b"310", b"null"),
    "leading zero": GOOD.replace(b"310", b"0310"),
    "plus": GOOD.replace(b"310", b"+310"),
    "exponent": GOOD.replace(b"310", b"31e1"),
    "code twice": GOOD.replace(b'"flag"', b'"code":310,"flag"'),
    "nested": GOOD.replace(b'"flag"', b'"x":{"y":[1]},"flag"'),
    "array": GOOD.replace(b'"flag"', b'"x":[1],"flag"'),
    "ext null": GOOD.replace(FIELDS, b"null"),
    "ext list": GOOD.replace(FIELDS, b"[]"),
    "ext text": GOOD.replace(FIELDS, b'""'),
    "ext empty": GOOD.replace(FIELDS, b"{}"),
    "ext value list": GOOD.replace(b'"orders"', b"[1]"),
    "ext value number as topic": GOOD.replace(b'"orders"', b"1"),
    "ext value bool as topic": GOOD.replace(b'"orders"', b"true"),
    "topic null": GOOD.replace(b'"orders"', b"null"),
    "escape in a key": GOOD.replace(b'"b"', b'"\\u0062"'),
    "half a pair": GOOD.replace(b"orders", b"\\ud83d"),
    "other half": GOOD.replace(b"orders", b"\\ude00"),
    "pair of first halves": GOOD.replace(b"orders", b"\\ud83d\\ud83d"),
    "half before text": GOOD.replace(b"orders", b"\\ud83dabcdef"),
    "bad hex": GOOD.replace(b"orders", b"\\u00g0"),
    "short hex": GOOD[: GOOD.index(b"orders")] + b"\\u00",
    "bad escape": GOOD.replace(b"orders", b"\\x41"),
    "raw control character": GOOD.replace(b"orders", b"ord\x01ers"),
    "not UTF-8": GOOD.replace(b"orders", b"ord\xffers"),
    "surrogate in UTF-8": GOOD.replace(b"orders", b"\xed\xa0\x80"),
    "open string": GOOD[: GOOD.index(b"orders") + 3],
    "blank inside a number": GOOD.replace(b"310", b"3 10"),
}


@pytest.mark.parametrize("header", BAD_JSON.values(), ids=BAD_JSON)
def test_odd_json(header: bytes) -> None:
    data = frames.frame(header, b"body", JSON)
    good = frames.send(JSON, 310, Send())
    assert kinds(GOOD_FRAME) == [columns.SEND]
    assert kinds(good + data + good) == [columns.SEND, columns.OTHER, columns.SEND]
    assert [table(data, PLAIN, PLAIN_SPANS).row(0)] == [table(data).row(0)]


GOOD_FRAME = frames.frame(GOOD, b"body", JSON)


def test_escapes() -> None:
    header = GOOD.replace(b"orders", rb"\u0041\u00e9\u4e2d\ud83d\ude00\n\r\t\b\f\/\\\"\u0001z")
    spans = table(frames.frame(header, b"", JSON))
    assert spans.words(0, columns.TOPIC_AT) == 'Aé中😀\n\r\t\b\f/\\"\x01z'.encode()
    assert spans.words(0, columns.PROPERTIES_AT) == Send().properties.encode()


def test_members_in_any_order() -> None:
    header = b'\n{ "extFields" : %b , "opaque":-3,"remark":"a\\"}{","version":5,"flag":2,"code":310}\t' % FIELDS
    row = table(frames.frame(header, b"", JSON)).row(0)
    assert (row["KIND"], row["OPAQUE"], row["COMMAND_FLAG"], row["VERSION"]) == (columns.SEND, -3, 2, 5)


def test_golden_header_of_the_java_client() -> None:
    data = bytes.fromhex("000000260100002200690001df0000000700000000000000000000000d0005746f706963000000025431")
    row = table(data).row(0)
    assert (row["KIND"], row["CODE"], row["OPAQUE"], row["VERSION"]) == (columns.OTHER, 105, 7, 479)
    header = (
        b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )
    row = table(bytes.fromhex("000000800000007c") + header).row(0)
    assert (row["KIND"], row["CODE"], row["OPAQUE"], row["VERSION"]) == (columns.OTHER, 105, 7, 479)


# ── batches ──


def batch(body: bytes, sys_flag: int = 0) -> bytes:
    return frames.send(BINARY, 320, Send(batch=True, body=body, sys_flag=sys_flag))


def test_golden_entry() -> None:
    body = bytes.fromhex("0000001f000000000000000000000000000000026869000754414753014102")
    spans = table(batch(body))
    assert (spans.kind(0), spans.count, spans.behind(0)) == (columns.BATCH, 1, 1)
    assert bytes(spans.part(0, columns.BODY_AT)) == b"hi"
    assert spans.words(0, columns.PROPERTIES_AT) == b"TAGS\x01A\x02"


ENTRY = frames.entry(b"body", "a\x01b\x02")
BAD_BATCHES = {
    "empty": b"",
    "short": ENTRY[:-1],
    "longer": ENTRY + b"x",
    "cut in its head": ENTRY + ENTRY[:10],
    "wrong size": struct.pack(">I", len(ENTRY) + 1) + ENTRY[4:],
    "body too long": ENTRY[:16] + struct.pack(">I", 5000) + ENTRY[20:],
    "body of 32 bits": ENTRY[:16] + b"\xff\xff\xff\xff" + ENTRY[20:],
    "properties too long": ENTRY[:24] + struct.pack(">H", 5) + ENTRY[26:],
    "properties not UTF-8": frames.entry(b"", "ab").replace(b"ab", b"\xc0\x80"),
    "properties of 16 bits": frames.entry(b"", "a" * 40_000),
}


@pytest.mark.parametrize("body", BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_odd_batches(body: bytes) -> None:
    assert kinds(batch(ENTRY * 2) + batch(body) + batch(ENTRY)) == [
        *(columns.BATCH, columns.MORE),
        columns.OTHER,
        columns.BATCH,
    ]


def test_a_compressed_batch_is_odd() -> None:
    assert kinds(batch(ENTRY, sys_flag=1)) == [columns.OTHER]


def test_a_batch_over_the_limit_is_left_to_be_refused() -> None:
    head = len(frames.entry(b"", ""))
    most = frames.entry(bytes(MAX_BATCH_SIZE - head), "")
    assert len(most) == MAX_BATCH_SIZE
    assert kinds(batch(most)) == [columns.BATCH]
    assert kinds(batch(frames.entry(bytes(MAX_BATCH_SIZE - head + 1), ""))) == [columns.OTHER]


def test_the_table_is_bounded() -> None:
    """A batch that finds no room waits for the next split; one that fits no table is left to Python."""
    small, limit = frames.entry(b"", ""), columns.ROW_LIMIT
    stream = frames.send(BINARY, 310, Send()) + batch(small * limit) + batch(small * (limit + 1))
    spans = Spans()
    spans.data = bytearray(stream)
    counts, at = [], 0
    while at < len(stream):
        at += split(spans, at, len(stream) - at)
        counts.append((spans.count, spans.status))
    assert counts == [(1, columns.FULL), (limit, columns.FULL), (1, columns.SPLIT)]
    assert spans.kind(0) == columns.OTHER


def test_many_small_frames_fill_the_table() -> None:
    one = frames.request(BINARY, 34, {})
    spans = Spans()
    spans.data = bytearray(one * (columns.ROW_LIMIT + 5))
    assert split(spans, 0, len(spans.data)) == len(one) * columns.ROW_LIMIT
    assert spans.status == columns.FULL


# ── frames that are none ──

BAD_FRAMES = {
    "too long": struct.pack(">I", (1 << 24) - 3),
    "longest number": b"\xff\xff\xff\xff",
    "no header word": struct.pack(">I", 3) + b"abc",
    "nothing": bytes(4),
    "header behind the end": struct.pack(">II", 10, 7) + bytes(6),
    "codec": struct.pack(">II", 10, 2 << 24 | 6) + bytes(6),
    "TLS": bytes.fromhex("1603010200010001fc0303"),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("bad", BAD_FRAMES.values(), ids=BAD_FRAMES)
@pytest.mark.parametrize("kernel", [_requests_cy, PLAIN], ids=["this build", "plain"])
def test_a_bad_frame_ends_the_stream(kernel: ModuleType, bad: bytes) -> None:
    """At once, with the frames before it still served."""
    good = frames.send(JSON, 310, Send())
    spans = (Spans if kernel is _requests_cy else PLAIN_SPANS.Spans)()
    spans.data = bytearray(good + bad)
    assert kernel.split(spans, 0, len(spans.data)) == len(good)
    assert (spans.count, spans.status, spans.kind(0)) == (1, columns.BAD_FRAME, columns.SEND)


def test_the_longest_frame_is_waited_for() -> None:
    spans = Spans()
    spans.data = bytearray(struct.pack(">II", (1 << 24) - 4, 1 << 24))
    assert split(spans, 0, 8) == 0
    assert (spans.status, spans.wanted, spans.count) == (columns.SPLIT, 1 << 24, 0)
    assert split(spans, 0, 3) == 0
    assert (spans.status, spans.wanted) == (columns.SPLIT, 0)


@pytest.mark.parametrize(("start", "size"), [(-1, 3), (0, 11), (11, 0), (5, 6), (0, -1)])
def test_bytes_outside_the_buffer_are_refused(start: int, size: int) -> None:
    spans = Spans()
    spans.data = bytearray(10)
    with pytest.raises(ValueError, match="of a buffer of 10"):
        split(spans, start, size)


def test_mutated_frames_agree_in_both_builds() -> None:
    """Seeded; the long run is in tests/fuzz."""
    rnd = random.Random(4)
    seeds = [GOOD_FRAME, batch(ENTRY * 3), frames.request(BINARY, 11, PULL), frames.request(JSON, 361, PULL)]
    for _ in range(2000):
        data = bytearray(rnd.choice(seeds))
        for _ in range(rnd.choice((1, 1, 2, 5))):
            data[rnd.randrange(8, len(data))] = rnd.choice((0, 1, 34, 44, 92, 125, 255, rnd.randrange(256)))
        found = table(bytes(data))
        twin = table(bytes(data), PLAIN, PLAIN_SPANS)
        assert [found.row(row) for row in range(found.count)] == [twin.row(row) for row in range(twin.count)]
        assert found.text[: found.text_size] == twin.text[: twin.text_size]
