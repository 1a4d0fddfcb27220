"""A remoting client of a few lines over a blocking socket: its own encoder, and records read by their layout alone."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

SEND, PULL, QUERY_OFFSET, UPDATE_OFFSET, MAX_OFFSET = 10, 11, 14, 15, 30
HEARTBEAT, SEND_BACK, MEMBERS, LOCK, UNLOCK = 34, 36, 38, 41, 42
SEND_V2, SEND_BATCH, VIEW = 310, 320, 33

_WORDS = struct.Struct(">II")
_RECORD = struct.Struct(
    ">i"  # size
    "12x"  # magic, checksum, queue
    "i"  # flag
    "q"  # queue offset
    "q"  # position
    "i"  # sys flag
    "q8xq8x"  # born time and host, store time and host (IPv4)
    "i"  # reconsume times
    "8x"
    "i"  # size of the body
)
_BODY_AT = 88


class Answer(NamedTuple):
    """An answer, or a request of the server."""

    code: int
    opaque: int
    ext: Mapping[str, str]
    body: bytes
    remark: str
    is_answer: bool


class Pulled(NamedTuple):
    """A message of an answer to a pull."""

    offset: int
    position: int
    reconsume_times: int
    body: bytes
    properties: bytes


def frame(code: int, ext: Mapping[str, str], body: bytes = b"", *, opaque: int = 0, flag: int = 0) -> bytes:
    """Return a request with a JSON header."""
    header = json.dumps(
        {"code": code, "extFields": ext, "flag": flag, "language": "JAVA", "opaque": opaque, "version": 479}
    ).encode()
    return _WORDS.pack(4 + len(header) + len(body), len(header)) + header + body


def binary_frame(code: int, ext: Mapping[str, str], body: bytes = b"", *, opaque: int = 0, flag: int = 0) -> bytes:
    """Return a request with a binary header."""
    entries = b"".join(
        struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value.encode())) + value.encode()
        for name, value in ext.items()
    )
    header = struct.pack(">hBhiiii", code, 0, 479, opaque, flag, 0, len(entries)) + entries
    return _WORDS.pack(4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def send_ext(topic: str, queue: int, properties: Mapping[str, str], *, is_batch: bool = False) -> dict[str, str]:
    """Return the short header of a send."""
    text = "".join(f"{name}\1{value}\2" for name, value in properties.items())
    return {
        "a": "producers",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": text,
        "j": "0",
        "k": "false",
        "m": "true" if is_batch else "false",
    }


def batch_body(messages: Iterable[tuple[bytes, Mapping[str, str]]]) -> bytes:
    """Return the body of a batch."""
    entries = []
    for body, properties in messages:
        text = "".join(f"{name}\1{value}\2" for name, value in properties.items()).encode()
        size = 22 + len(body) + len(text)
        entries.append(struct.pack(">iiiii", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(text)) + text)
    return b"".join(entries)


def pull_ext(
    topic: str, queue: int, offset: int, *, group: str, count: int = 32, park_ms: int = 0, commit: int | None = None
) -> dict[str, str]:
    """Return the header of a pull that brings its subscription along."""
    flag = 4 | (2 if park_ms else 0) | (1 if commit is not None else 0)
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": str(queue),
        "queueOffset": str(offset),
        "maxMsgNums": str(count),
        "sysFlag": str(flag),
        "commitOffset": str(commit or 0),
        "subVersion": "0",
        "suspendTimeoutMillis": str(park_ms),
        "subscription": "*",
        "expressionType": "TAG",
    }


def messages(body: bytes) -> Iterator[Pulled]:
    """Yield the messages of an answer to a pull."""
    at = 0
    while at < len(body):
        size, _, offset, position, sys_flag, _, _, times, body_size = _RECORD.unpack_from(body, at)
        assert not sys_flag & 0x30, "the addresses of these tests are IPv4"
        end = at + _BODY_AT + body_size
        text = end + 1 + body[end]
        yield Pulled(offset, position, times, body[at + _BODY_AT : end], body[text + 2 : at + size])
        at += size


class RawClient:
    """One connection; answers come in the order in which the server gives them."""

    def __init__(self, place: tuple[str, int], *, timeout_s: float = 30.0) -> None:
        self._socket = socket.create_connection(place, timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._opaque = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._socket.close()

    def finish(self) -> None:
        """Say that nothing more will be sent."""
        with suppress(OSError):  # the other end may have closed it already
            self._socket.shutdown(socket.SHUT_WR)

    def next_opaque(self) -> int:
        """Return a number for a request."""
        self._opaque += 1
        return self._opaque

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def read(self) -> Answer:
        """Return the next frame from the server.

        Raises:
            ConnectionError: the server has closed the connection.
        """
        while len(self._rest) < 4 or len(self._rest) < 4 + int.from_bytes(self._rest[:4], "big"):
            arrived = self._socket.recv(1 << 18)
            if not arrived:
                raise ConnectionResetError("closed by the server")
            self._rest += arrived
        end = 4 + int.from_bytes(self._rest[:4], "big")
        found, self._rest = self._rest[:end], self._rest[end:]
        return parse(found)

    def ask(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> Answer:
        """Ask, and return the answer; what the server says of its own accord meanwhile is dropped."""
        opaque = self.next_opaque()
        self.write(frame(code, ext, body, opaque=opaque))
        while True:
            answer = self.read()
            if answer.is_answer and answer.opaque == opaque:
                return answer


def parse(data: bytes) -> Answer:
    """Return what a frame says."""
    word = int.from_bytes(data[4:8], "big")
    codec, size = word >> 24, word & 0xFFFFFF
    header, body = data[8 : 8 + size], data[8 + size :]
    if codec == 1:
        code, _, _, opaque, flag, remark = struct.unpack_from(">hBhiii", header)
        entries = _entries(header[21 + remark :])
        return Answer(code, opaque, entries, body, header[17 : 17 + remark].decode(), bool(flag & 1))
    read = json.loads(header)
    ext = read.get("extFields") or {}
    return Answer(read["code"], read["opaque"], ext, body, read.get("remark") or "", bool(read["flag"] & 1))


def _entries(data: bytes) -> dict[str, str]:
    found = {}
    at = 0
    while at < len(data):
        name_end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        end = name_end + 4 + int.from_bytes(data[name_end : name_end + 4], "big")
        found[data[at + 2 : name_end].decode()] = data[name_end + 4 : end].decode()
        at = end
    return found
