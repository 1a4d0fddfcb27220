"""A tiny blocking client of the remoting protocol, for what benchmarks do beside the load: topics, ends of queues."""

from __future__ import annotations

import itertools
import json
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Any, Self

_SEND_MESSAGE_V2, _UPDATE_AND_CREATE_TOPIC, _GET_MAX_OFFSET, _LITEMQ_STATISTICS = 310, 17, 30, 31001
_WORDS = struct.Struct(
    ">I"  # size of what follows
    "I"  # top byte: header codec, 0 is JSON; the rest: header size
)

Answer = dict[str, Any]


class Refused(Exception):
    """The broker answered with an error."""


class Client:
    """One connection; requests may be pipelined, answers are matched by their number."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection((host, port), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, code: int, fields: dict[str, object], body: bytes = b"") -> Answer:
        """Send one request and return the header of its answer."""
        return next(self.ask_all(code, [(fields, body)]))

    def ask_all(
        self, code: int, requests: Iterable[tuple[dict[str, object], bytes]], window: int = 64
    ) -> Iterator[Answer]:
        """Send requests, ``window`` of them in flight; yield the headers of their answers as they come."""
        waiting: set[int] = set()
        pending = iter(requests)
        while True:
            share = list(itertools.islice(pending, window - len(waiting)))
            frames = []
            for fields, body in share:
                number = next(self._numbers)
                waiting.add(number)
                frames.append(_frame(code, number, fields, body))
            self._socket.sendall(b"".join(frames))
            if not waiting:
                return
            answer = self._answer()
            if answer.get("flag", 0) & 1 and answer["opaque"] in waiting:
                waiting.remove(answer["opaque"])
                if answer["code"] != 0:
                    raise Refused(f"request {code}: code {answer['code']}: {answer.get('remark')}")
                yield answer

    def _answer(self) -> Answer:
        """Return the header of an answer, with its body's bytes as ``body``."""
        words = self._file.read(_WORDS.size)
        if len(words) < _WORDS.size:
            raise Refused("the broker closed the connection")
        size, word = _WORDS.unpack(words)
        rest = self._file.read(size - 4)
        end = word & 0xFFFFFF
        answer: Answer = json.loads(rest[:end])
        return answer | {"body": rest[end:]}

    # -- what benchmarks ask -------------------------------------------------------------------------

    def create_topics(self, names: Iterable[str], queues: int) -> None:
        """Create topics, or change how many queues they have."""
        common = {
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": "false",
        }
        for _ in self.ask_all(_UPDATE_AND_CREATE_TOPIC, (({"topic": name, **common}, b"") for name in names), 16):
            pass

    def ends(self, topic: str, queues: int) -> list[int]:
        """Return the end of every queue: the offset that its next message gets."""
        return [
            int(self.ask(_GET_MAX_OFFSET, {"topic": topic, "queueId": queue})["extFields"]["offset"])
            for queue in range(queues)
        ]

    def statistics(self) -> dict[str, Any]:
        """Return what LiteMQ tells of itself."""
        told: dict[str, Any] = json.loads(self.ask(_LITEMQ_STATISTICS, {})["body"])
        return told

    def send_all(self, places: Iterable[tuple[str, int]], body: bytes) -> int:
        """Send one message to each (topic, queue) and return how many were stored."""
        common = {"a": "benchmark_producer", "c": "TBW102", "d": 4, "f": 0, "g": 1_700_000_000_000, "h": 0, "i": ""}
        requests = (({"b": topic, "e": queue, **common}, body) for topic, queue in places)
        return sum(1 for _ in self.ask_all(_SEND_MESSAGE_V2, requests))


def _frame(code: int, number: int, fields: dict[str, object], body: bytes) -> bytes:
    header = json.dumps(
        {
            "code": code,
            "language": "PYTHON",
            "version": 493,
            "opaque": number,
            "flag": 0,
            "extFields": {name: str(value) for name, value in fields.items()},
        },
        separators=(",", ":"),
    ).encode()
    return _WORDS.pack(4 + len(header) + len(body), len(header)) + header + body
