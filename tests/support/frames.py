"""Remoting requests as bytes, written down once more from the protocol's description: nothing of ours helps here."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

JSON, BINARY = 0, 1
Answer = tuple[int, int, int, dict[str, str]]
"""Codec, code, opaque, ext fields."""

LETTERS = "abcdefghijklm"
LONG_NAMES = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"),
)


@dataclass
class Send:
    """A send as a client means it."""

    topic: str = "orders"
    body: bytes = b"body"
    properties: str = "UNIQ_KEY\x017F0000010002\x02"
    group: str = "producers"
    queue_id: int = 0
    sys_flag: int = 0
    born_time: int = 1_700_000_000_000
    flag: int = 0
    reconsume_times: int | None = 0
    batch: bool | None = False
    more: dict[str, str] = field(default_factory=dict)

    def ext(self, code: int) -> dict[str, str]:
        """Return the ext fields of this code, those that are None left out."""
        values = (
            *(self.group, self.topic, "TBW102", "4", str(self.queue_id), str(self.sys_flag), str(self.born_time)),
            *(str(self.flag), self.properties, None if self.reconsume_times is None else str(self.reconsume_times)),
            *("false", None, None if self.batch is None else str(self.batch).lower()),
        )
        names = LONG_NAMES if code == 10 else LETTERS
        return {name: value for name, value in zip(names, values, strict=True) if value is not None} | self.more


def frame(header: bytes, body: bytes, codec: int) -> bytes:
    """Return a whole frame."""
    return struct.pack(">II", 4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def binary_header(
    code: int, ext: Iterable[tuple[str, str]], *, opaque: int = 0, flag: int = 0, remark: str = ""
) -> bytes:
    """Return a binary header."""
    text = remark.encode()
    fields = b""
    for name, value in ext:
        key, data = name.encode(), value.encode()
        fields += struct.pack(">H", len(key)) + key + struct.pack(">I", len(data)) + data
    head = struct.pack(">hBhiiI", code, 0, 493, opaque, flag, len(text))
    return head + text + struct.pack(">I", len(fields)) + fields


def json_header(code: int, ext: object, *, opaque: int = 0, flag: int = 0, ascii_only: bool = True) -> bytes:
    """Return a JSON header as the Java client writes it."""
    header = {
        "code": code,
        "extFields": ext,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 493,
    }
    return json.dumps(header, separators=(",", ":"), ensure_ascii=ascii_only).encode()


def request(
    codec: int, code: int, ext: Mapping[str, str], body: bytes = b"", *, opaque: int = 0, flag: int = 0
) -> bytes:
    """Return the frame of a request."""
    if codec == BINARY:
        return frame(binary_header(code, ext.items(), opaque=opaque, flag=flag), body, BINARY)
    return frame(json_header(code, dict(ext), opaque=opaque, flag=flag), body, JSON)


def send(codec: int, code: int, sent: Send, *, opaque: int = 0, flag: int = 0) -> bytes:
    """Return the frame of a send."""
    return request(codec, code, sent.ext(code), sent.body, opaque=opaque, flag=flag)


def entry(body: bytes, properties: str, flag: int = 0) -> bytes:
    """Return one entry of a batch's body."""
    text = properties.encode()
    size = 22 + len(body) + len(text)
    return struct.pack(">IIIiI", size, 0, 0, flag, len(body)) + body + struct.pack(">H", len(text)) + text


def answers(data: bytes) -> list[Answer]:
    """Return (codec, code, opaque, ext) of every answer in ``data``."""
    found = []
    at = 0
    while at < len(data):
        total, word = struct.unpack_from(">II", data, at)
        size = word & 0xFFFFFF
        assert total == 4 + size, "an answer to a send has no body"
        header = data[at + 8 : at + 8 + size]
        found.append(_json_answer(header) if word >> 24 == JSON else _binary_answer(header))
        at += 4 + total
    assert at == len(data)
    return found


def _json_answer(header: bytes) -> Answer:
    read = json.loads(header)
    assert set(read) == {"code", "extFields", "flag", "language", "opaque", "serializeTypeCurrentRPC", "version"}
    assert (read["flag"], read["version"]) == (1, 479)
    assert all(isinstance(value, str) for value in read["extFields"].values())
    return JSON, read["code"], read["opaque"], read["extFields"]


def _binary_answer(header: bytes) -> Answer:
    code, _, version, opaque, flag, remark, size = struct.unpack_from(">hBhiiII", header)
    assert (version, flag, remark, size) == (479, 1, 0, len(header) - 21)
    at = 21
    ext = {}
    while at < len(header):
        parts = []
        for layout in (">H", ">I"):
            (length,) = struct.unpack_from(layout, header, at)
            at += struct.calcsize(layout)
            parts.append(header[at : at + length].decode())
            at += length
        ext[parts[0]] = parts[1]
    return BINARY, code, opaque, ext
