"""Properties that make a send more than a plain one: each means something to the broker or to a record format.

Whoever appends a message without looking into it further must find none of these names among its properties.
"""

from __future__ import annotations

from typing import Final

from litemq.format import names

ADDED: Final = frozenset({"CLUSTER", "MSG_REGION", "TRACE_ON"})
"""What a broker adds to every message."""

EXACT: Final = frozenset(
    {
        *ADDED,
        names.TRAN_MSG,
        names.DELAY,
        "1ST_POP_TIME",
        "MAX_RECONSUME_TIMES",
        "ORIGIN_MESSAGE_ID",
        "REAL_QID",
        "REAL_TOPIC",
        "RECONSUME_TIME",
        "RETRY_TOPIC",
    }
)
"""The whole name."""

PREFIXES: Final = ("__", "DLQ_", "INNER_", "LITEMQ_", "POP_CK", "TIMER_", "TRANSACTION_")
"""How a name begins.  Two underscores: every name that a record format keeps for itself (``names``), and transient
ones of RocketMQ; the sharding key alone is plain all the same."""

WELL_KNOWN: Final = frozenset({names.KEYS, names.UNIQ_KEY, names.TAGS, names.SHARDING_KEY})
"""Looked at by name: records and indexes have places for them."""

MAX_PAIRS: Final = 48
"""Properties of a plain send."""


def is_special(name: str) -> bool:
    """Return whether a property of this name must be looked at."""
    return name not in WELL_KNOWN and (name in EXACT or name.startswith(PREFIXES))
