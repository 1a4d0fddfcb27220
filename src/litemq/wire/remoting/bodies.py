"""JSON bodies as RocketMQ's clients write and read them.

Always compact: the Go client cuts addresses out of the text and takes a blank for a part of them.  Maps whose keys
are message queues are written as RocketMQ does, ``{{"brokerName":…}:…}``, which is no JSON, but all that clients read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from litemq.errors import BadBody

_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)
"""Texts, and where objects begin and end outside of them."""


def dump(value: object) -> bytes:
    """Return ``value`` as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def load(body: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object that a body holds; ``what`` names it in the error.

    Raises:
        BadBody: it is no JSON object.
    """
    try:
        read = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadBody(f"the body of {what} is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise BadBody(f"the body of {what} is no JSON object")
    return read


def queue(topic: str, broker: str, queue_id: int) -> dict[str, object]:
    """Return a message queue as clients name it."""
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


def queue_map(pairs: Iterable[tuple[Mapping[str, object], object]]) -> bytes:
    """Return a map from message queues to values; its keys are objects."""
    return b"{%b}" % b",".join(b"%b:%b" % (dump(key), dump(value)) for key, value in pairs)


def with_queue_map(name: str, pairs: Iterable[tuple[Mapping[str, object], object]], **others: object) -> bytes:
    """Return an object with one member that is a map from message queues."""
    members = [b"%b:%b" % (dump(key), dump(value)) for key, value in others.items()]
    return b"{%b}" % b",".join([*members, b"%b:%b" % (dump(name), queue_map(pairs))])


def raw_member(body: bytes, name: str) -> bytes | None:
    """Return the bytes of an object member of a body that need not be JSON; None when there is none of this name.

    Raises:
        BadBody: the object does not end.
    """
    at = body.find(dump(name) + b":")
    if at < 0:
        return None
    start = at + len(dump(name)) + 1
    depth = 0
    for found in _MARKS.finditer(body, start):
        mark = found[0]
        if not depth and (mark != b"{" or body[start : found.start()].strip()):
            return None
        depth += {b"{": 1, b"}": -1}.get(mark, 0)
        if not depth:
            return body[start : found.end()].strip()
    raise BadBody(f"the member {name} of a body does not end")


def properties_text(pairs: Mapping[str, str]) -> bytes:
    """Return ``k=v`` lines, as configurations travel."""
    return "".join(f"{name}={value}\n" for name, value in pairs.items()).encode("utf-8", "replace")


def parse_properties(body: bytes) -> dict[str, str]:
    """Return the pairs of ``k=v`` lines; empty lines and comments are passed over."""
    try:
        lines = body.decode().splitlines()
    except UnicodeDecodeError as error:
        raise BadBody(f"a configuration that is no UTF-8: {error.reason}") from error
    found: dict[str, str] = {}
    for line in lines:
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, mark, value = text.partition("=")
        if not mark:
            raise BadBody(f"the line {text[:80]!r} of a configuration is not name=value")
        found[name.strip()] = value.strip()
    return found
