"""Requests of every kind that a broker knows, and what a hostile or broken client makes of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from tests.support import raw_client as raw

from litemq.wire.remoting.codes import Ask

_ELSEWHERE = frozenset(
    {37, 39, 40, *range(100, 107), 205, 206, 216, 217, 219, 220, 221, 224, 304, 311, 312, 313, 318, 319, 323, 326, 327}
)
"""Requests that name servers or clients answer, or nobody yet."""

CODES = tuple(int(code) for code in Ask if code not in _ELSEWHERE)
HOT = (int(Ask.SEND_MESSAGE), int(Ask.SEND_MESSAGE_V2), int(Ask.SEND_BATCH_MESSAGE), int(Ask.PULL_MESSAGE))
"""Requests that compiled code reads: they come more often than the others."""

LATER = frozenset({11, 361, 307, 309, 223, 324, 325})
"""Requests whose answers may take a while: parked pulls, and what a client must answer first."""

_ONEWAY = 2
_TOPIC = "fuzzed"
_GROUP = "fuzzers"
_PROPERTIES = "UNIQ_KEY\0010A0B\2TAGS\1a\2KEYS\1k1 k2\2"
_FIELDS = {
    "topic": _TOPIC,
    "consumerGroup": _GROUP,
    "producerGroup": "makers",
    "group": _GROUP,
    "groupName": _GROUP,
    "srcGroup": _GROUP,
    "destGroup": "cloned",
    "clientId": "me@1",
    "clientID": "me@1",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "8",
    "maxMsgBytes": "4096",
    "sysFlag": "6",
    "commitOffset": "1",
    "suspendTimeoutMillis": "20",
    "subscription": "a || b",
    "subVersion": "1",
    "expressionType": "TAG",
    "offset": "0",
    "timestamp": "1700000000000",
    "isForce": "true",
    "boundaryType": "LOWER",
    "setZeroIfNotFound": "false",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "bornTimestamp": "1700000000000",
    "flag": "0",
    "properties": _PROPERTIES,
    "reconsumeTimes": "0",
    "maxReconsumeTimes": "3",
    "batch": "false",
    "delayLevel": "1",
    "originMsgId": "0",
    "originTopic": _TOPIC,
    "unitMode": "false",
    "key": "k1",
    "maxNum": "16",
    "beginTimestamp": "0",
    "endTimestamp": "9000000000000",
    "indexType": "K",
    "index": "0",
    "count": "10",
    "msgId": "7F00000100002A9F0000000000000000",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
    "attributes": "+message.type=NORMAL",
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": _TOPIC,
    "topicList": f"{_TOPIC};other",
    "isOrder": "false",
    "beforeOffset": "0",
    "beforeTime": "1",
    "cleanOffset": "true",
    "lmqError": "it broke",
    "lmqStack": "at line 1",
    "fromOffset": "0",
    "toOffset": "8",
    "maxBytes": "4096",
    "everyBytes": "256",
    "name": "a job",
    "leaseMs": "1000",
}
_LETTERS = {
    "a": "makers",
    "b": _TOPIC,
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": _PROPERTIES,
    "j": "0",
    "k": "false",
    "l": "3",
    "m": "false",
    "n": "broker-a",
}
_QUEUE = {"brokerName": "broker-a", "queueId": 0, "topic": _TOPIC}
_SUBSCRIPTION = {"topic": _TOPIC, "subString": "a", "expressionType": "TAG", "subVersion": 1, "tagsSet": ["a"]}
_CONSUMER = {
    "groupName": _GROUP,
    "consumeType": "CONSUME_PASSIVELY",
    "messageModel": "CLUSTERING",
    "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
    "subscriptionDataSet": [_SUBSCRIPTION],
    "unitMode": False,
}
_TOPIC_CONFIG = {"topicName": _TOPIC, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "attributes": {}}
_GROUP_CONFIG = {"groupName": _GROUP, "retryMaxTimes": 3, "retryQueueNums": 1, "consumeEnable": True}

BODIES: dict[int, object] = {
    Ask.HEART_BEAT: {
        "clientID": "me@1",
        "producerDataSet": [{"groupName": "makers"}],
        "consumerDataSet": [_CONSUMER],
    },
    Ask.LOCK_BATCH_MQ: {"clientId": "me@1", "consumerGroup": _GROUP, "mqSet": [_QUEUE]},
    Ask.UNLOCK_BATCH_MQ: {"clientId": "me@1", "consumerGroup": _GROUP, "mqSet": [_QUEUE]},
    Ask.CHECK_CLIENT_CONFIG: {"clientId": "me@1", "group": _GROUP, "subscriptionData": _SUBSCRIPTION},
    Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: _GROUP_CONFIG,
    Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [_GROUP_CONFIG]},
    Ask.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [_TOPIC_CONFIG]},
    Ask.LITEMQ_BOUNDS: {"topics": [_TOPIC, "other"]},
    Ask.LITEMQ_OFFSETS_AT: {"queues": [[_TOPIC, 0, 1], [_TOPIC, 1, 1700000000000]]},
    Ask.LITEMQ_HOLD: {"queues": [[_TOPIC, 0, 0], [_TOPIC, 1, 5]]},
    Ask.UPDATE_BROKER_CONFIG: b"limits.pull_count=32\nno.such=1\n",
    Ask.SEND_BATCH_MESSAGE: raw.batch_body([(b"one", {"TAGS": "a"}), (b"two", {"UNIQ_KEY": "U2"})]),
}

_TEXTS = (
    *("", " ", "0", "-1", "1", "255", "2147483647", "-2147483648", "2147483648", "9223372036854775807", "1e3", "٣"),
    *("99999999999999999999999", "true", "\0", "../../etc", "a/b", "%RETRY%fuzzers", "%DLQ%fuzzers", "TBW102"),
    *(
        "SCHEDULE_TOPIC_XXXX",
        "LITEMQ_SYS_PROGRESS",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "é" * 100,
        "x" * 300,
        "\ud800",
        "\udfff",
    ),
    *("SQL92", "TAG", "a > 1 AND", "(" * 200, "a IN ('b','c') OR NOT x IS NULL", "||", "a||" * 200, "*", "\1\2\1\2"),
    *("DELAY\0013\2", "TRAN_MSG\1true\2", "TIMER_DELAY_SEC\0015\2", "KEYS\1" + "k " * 500 + "\2", "A\1\ud800\2"),
    *("MSG_REGION\1x\2", "UNIQ_KEY\1" + "u" * 40_000 + "\2", "__SHARDINGKEY\1s\2", "litemq", "NaN", "-0", "007"),
    *("fuzzed", "fuzzers", "cloned", "k1", "unknown", "é\u2028\n", "{}", "[]", "null", "x" * 70_000),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1 << 31, 1 << 63, 1 << 70, 1.5, 1e308, float("nan"), float("inf")),
    *("", "x", "\ud800", "\0", "x" * 300, [], {}, [[]], {"": {}}, [None], {"a": [1, 2]}, "2147483648", "a" * 20_000),
)


class Fuzzer:
    """Makes frames by a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._serial = 0

    def request(self, opaque: int) -> tuple[int, bool, bytes]:
        """Return code, whether it wants an answer, and the frame: a frame by all rules, whatever it asks for."""
        rng = self._rng
        code = rng.choice(HOT if rng.random() < 0.3 else CODES)
        if rng.random() < 0.04:
            code = rng.randrange(-(1 << 15), 1 << 15)
        flag = _ONEWAY if rng.random() < 0.05 else 0
        ext = self._ext(code)
        body = self._body(code)
        if rng.random() < 0.3:
            return code, not flag, self._binary(code, ext, body, opaque, flag)
        return code, not flag, self._json(code, ext, body, opaque, flag)

    def _ext(self, code: int) -> dict[str, Any]:
        rng = self._rng
        is_short = code in (Ask.SEND_MESSAGE_V2, Ask.SEND_BATCH_MESSAGE, Ask.SEND_REPLY_MESSAGE_V2)
        ext: dict[str, Any] = dict(_LETTERS if is_short else _FIELDS)
        if code == Ask.SEND_BATCH_MESSAGE:
            ext["m"] = "true"
        for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 8))):
            name = rng.choice(list(ext))
            how = rng.random()
            if how < 0.2:
                del ext[name]
            elif how < 0.8:
                ext[name] = rng.choice(_TEXTS)
            elif how < 0.9:
                ext[name] = "".join(chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) for _ in range(9))
            else:
                ext[rng.choice(_TEXTS)[:200]] = rng.choice(_TEXTS)
            if not ext:
                break
        return ext

    def _body(self, code: int) -> bytes:
        rng = self._rng
        golden = BODIES.get(code, b"some bytes")
        how = rng.random()
        if how < 0.05:
            return rng.randbytes(rng.choice((0, 1, 7, 100, 5000)))
        if how < 0.07:
            return rng.choice((b"[" * 100_000, b'{"a":' * 20_000, b'"' + b"\\u0000" * 3000 + b'"', b"\xff\xfe{}"))
        if isinstance(golden, bytes):
            return self._damaged(golden) if how < 0.5 else golden
        if how < 0.7:
            golden = self._altered(golden)
        data = json.dumps(golden).encode()
        return self._damaged(data) if how > 0.9 else data

    def _altered(self, value: object) -> object:
        """Return a copy with something else somewhere inside."""
        rng = self._rng
        if isinstance(value, dict) and value and rng.random() < 0.85:
            name = rng.choice(list(value))
            if rng.random() < 0.15:
                return {key: found for key, found in value.items() if key != name}
            return {**value, name: self._altered(value[name])}
        if isinstance(value, list) and value and rng.random() < 0.7:
            if rng.random() < 0.1:
                return value * rng.choice((0, 2, 1500))
            at = rng.randrange(len(value))
            return [*value[:at], self._altered(value[at]), *value[at + 1 :]]
        return rng.choice(_VALUES)

    def _damaged(self, data: bytes) -> bytes:
        """Return bytes with some changed, cut off or doubled."""
        rng = self._rng
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(changed) + 1)
            match rng.randrange(5):
                case 0:
                    changed[at : at + 1] = rng.randbytes(1)
                case 1:
                    del changed[at:]
                case 2:
                    changed[at : at + 4] = struct.pack(">I", rng.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 20)))
                case 3:
                    changed[at:at] = changed[: rng.randrange(40)]
                case _:
                    del changed[at : at + rng.randrange(1, 8)]
        return bytes(changed)

    def _json(self, code: int, ext: dict[str, Any], body: bytes, opaque: int, flag: int) -> bytes:
        rng = self._rng
        if rng.random() < 0.05:
            ext[rng.choice(list(ext) or ["x"])] = rng.choice(_VALUES)
        header = {"code": code, "extFields": ext, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 479}
        if rng.random() < 0.05:
            header[rng.choice(("language", "remark", "extra", "serializeTypeCurrentRPC"))] = rng.choice(_VALUES)
        data = self._spelled(header).encode("utf-8", "surrogatepass")
        return struct.pack(">II", 4 + len(data) + len(body), len(data)) + data + body

    def _spelled(self, header: dict[str, object]) -> str:
        """Return a header as JSON, in one of the many ways to write it."""
        rng = self._rng
        if rng.random() < 0.2:
            names = list(header)
            rng.shuffle(names)
            header = {name: header[name] for name in names}
        separators = rng.choice(((",", ":"), (", ", ": "), (" ,\n", "\t:\r ")))
        text = json.dumps(header, ensure_ascii=rng.random() < 0.5, separators=separators)
        if rng.random() < 0.1:  # the same letters, escaped
            letter = rng.choice("abetopcqun01fT")
            text = text.replace(f'"{letter}', f'"\\u{ord(letter):04x}', rng.choice((1, 3)))
        if rng.random() < 0.05:  # a name twice
            text = f'{text[:-1]},"extFields":{json.dumps(self._ext(310))}}}'
        if rng.random() < 0.05:
            text = rng.choice((" ", "\n\n", "\t")) + text + rng.choice(("", " ", "\n"))
        return text

    def _binary(self, code: int, ext: dict[str, Any], body: bytes, opaque: int, flag: int) -> bytes:
        rng = self._rng
        parts = []
        for name, value in ext.items():
            key = str(name).encode("utf-8", "surrogatepass")[:30_000]
            text = str(value).encode("utf-8", "surrogatepass")
            if rng.random() < 0.02:
                text = self._damaged(text)
            parts.append(struct.pack(">h", len(key)) + key + struct.pack(">i", len(text)) + text)
        entries = b"".join(parts)
        head = struct.pack(">HBhiii", code & 0xFFFF, rng.randrange(256), 479, opaque, flag, 0)
        data = head + struct.pack(">i", len(entries)) + entries
        return struct.pack(">II", 4 + len(data) + len(body), 1 << 24 | len(data)) + data + body

    # -- no frames ---------------------------------------------------------------------------------

    def nonsense(self) -> bytes:
        """Return bytes that break the rules of frames, in most cases."""
        rng = self._rng
        _, _, good = self.request(opaque=1)
        makers: tuple[Callable[[bytes], bytes], ...] = (
            self._damaged,
            lambda data: data[: rng.randrange(len(data))],
            lambda data: (
                struct.pack(">I", rng.choice((0, 1, 3, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 24, len(data)))) + data[4:]
            ),
            lambda data: (
                data[:4] + struct.pack(">I", rng.choice((0, 0xFFFFFF, 0x01FFFFFF, 0x02000010, 0xFF000000))) + data[8:]
            ),
            lambda data: data[:8] + self._damaged(data[8:]),
            lambda data: rng.randbytes(rng.choice((4, 8, 64, 4096))),
            lambda data: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            lambda data: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
            lambda data: _with_header(b'{"code":' + b"[" * 50_000),
            lambda data: _with_header(b'{"code":%d,"flag":0}' % (1 << 40)),
            lambda data: _with_header(b'{"code":34,"opaque":1.5,"flag":"x"}'),
            lambda data: _with_header(b'{"code":34,"extFields":[1,2]}'),
            lambda data: _with_header(b'{"code":34,"version":' + b"9" * 5000 + b"}"),
            lambda data: _with_header(struct.pack(">hBhiii", 34, 0, 1, 1, 0, 0x7FFFFFFF), codec=1),
            lambda data: _with_header(struct.pack(">hBhiiiih", 34, 0, 1, 1, 0, 0, 2, 0x7FFF), codec=1),
            lambda data: _with_header(struct.pack(">hBhiiii", 34, 0, 1, 1, 0, -1, -1), codec=1),
            lambda data: _with_header(json.dumps({"code": 0, "flag": 1, "opaque": rng.randrange(9)}).encode()),
        )
        return rng.choice(makers)(good)


def _with_header(header: bytes, *, codec: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header), codec << 24 | len(header)) + header
