"""Rows of an outbox as messages: what they say, and which travel together.  Values only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from litemq.client._message_cy import Message
from litemq.client.names import check_name
from litemq.errors import InvalidRequest, RecordTooLarge, ReservedName

OUTBOX_ID: Final = "outbox_id"
"""Property of every published message: the row's id, the same however often it is published."""

_REQUEST_BYTES: Final = 1 << 20
_REQUEST_ROWS: Final = 500


class Row(NamedTuple):
    """A row that is to be published."""

    place: int
    """What the database tells rows apart by; not the order of publishing."""
    outbox_id: str
    topic: str
    body: bytes
    tags: str | None
    message_keys: str | None
    sharding_key: str | None
    properties: str | None


def columns_of(
    topic: str,
    body: bytes | bytearray | memoryview,
    *,
    tags: str | None,
    keys: str | Iterable[str],
    sharding_key: str | None,
    properties: Mapping[str, str] | None,
    max_body_bytes: int,
) -> dict[str, object]:
    """Return what a row holds of a message, after a look at all that a broker would refuse: a refused row stops others.

    Raises:
        InvalidRequest: it is no message.
    """
    message = Message(topic, body, tags=tags, keys=keys, sharding_key=sharding_key, properties=properties)
    check_name("topic", topic)
    if properties is not None and OUTBOX_ID in properties:
        raise ReservedName(f"the property {OUTBOX_ID} is the outbox's own; choose another name")
    if len(message.body) > max_body_bytes:
        raise RecordTooLarge(what="the body", size=len(message.body), limit=max_body_bytes)
    return {
        "topic": topic,
        "body": message.body,
        "tags": tags,
        "message_keys": " ".join(message.keys) or None,
        "sharding_key": sharding_key,
        "properties": json.dumps(dict(properties)) if properties else None,
    }


def message_of(row: Row) -> Message:
    """Return the message that a row stands for; its id is a property and the last of its keys.

    Raises:
        InvalidRequest: it is none: somebody else than ``Outbox.add`` wrote it.
    """
    try:
        properties = json.loads(row.properties) if row.properties else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the column properties is no JSON: {error}") from error
    if not isinstance(properties, dict):
        raise InvalidRequest(f"the column properties is {row.properties!r:.80}, it must be a JSON object")
    if not isinstance(row.body, bytes | bytearray | memoryview):
        raise InvalidRequest(f"the column body holds {type(row.body).__name__}, it must hold bytes")
    properties[OUTBOX_ID] = row.outbox_id
    keys = (*(row.message_keys or "").split(), row.outbox_id)
    return Message(
        row.topic, bytes(row.body), tags=row.tags, keys=keys, sharding_key=row.sharding_key, properties=properties
    )


def runs_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows in their order, neighbours together that may travel as one request to one queue."""
    runs: list[list[Row]] = []
    size = 0
    for row in rows:
        last = runs[-1][-1] if runs else None
        size += len(row.body)
        is_of_run = last is not None and (last.topic, last.sharding_key) == (row.topic, row.sharding_key)
        if is_of_run and size <= _REQUEST_BYTES and len(runs[-1]) < _REQUEST_ROWS:
            runs[-1].append(row)
        else:
            runs.append([row])
            size = len(row.body)
    return runs
