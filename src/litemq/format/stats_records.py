"""Bodies of records of ``LITEMQ_SYS_STATS``: what was sent, handed out and confirmed, by hour.

Compact JSON, the keys in this order; a part without anything is left out.

    {"op":"counts","hour":H,"sent":{TOPIC:{PRODUCER GROUP:N}},"delivered":{GROUP:{TOPIC:N}},"acked":{GROUP:{TOPIC:N}}}
    {"op":"incomplete","since":MS,"until":MS,"why":TEXT}

Counts are what came since the record before.  ``hour`` is the first millisecond of the hour, UTC: of what was sent the
one in which the messages were stored, whenever the record is.  ``incomplete``: the counts of the hours from ``since``
to ``until`` do not hold everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

HOUR_MS: Final = 3_600_000

Counts = Mapping[str, Mapping[str, Mapping[str, int]]]
"""One of ``PARTS`` → name → name → messages."""

PARTS: Final = ("sent", "delivered", "acked")

_Cell = tuple[str, str, str, int]


def encode_counts(hour: int, counts: Counts, max_bytes: int) -> Iterator[bytes]:
    """Yield bodies that hold the counts of an hour, each of at most ``max_bytes`` as far as one count fits."""
    cells = [
        (part, name, other, count)
        for part in PARTS
        for name, others in sorted(counts.get(part, {}).items())
        for other, count in sorted(others.items())
    ]
    shares = [cells] if cells else []
    while shares:
        share = shares.pop()
        body = _dump({"op": "counts", "hour": hour, **_nested(share)})
        if len(body) > max_bytes and len(share) > 1:
            half = len(share) // 2
            shares += [share[half:], share[:half]]
        else:
            yield body


def encode_incomplete(since: int, until: int, why: str) -> bytes:
    """Return the body that says of which time the counts are not complete."""
    return _dump({"op": "incomplete", "since": since, "until": until, "why": why})


def _nested(cells: list[_Cell]) -> dict[str, dict[str, dict[str, int]]]:
    table: dict[str, dict[str, dict[str, int]]] = {}
    for part, name, other, count in cells:
        table.setdefault(part, {}).setdefault(name, {})[other] = count
    return table


def _dump(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
