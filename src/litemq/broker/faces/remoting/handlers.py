"""All requests that a broker answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.broker.faces.remoting import (
    batch_transactions,
    clients,
    config,
    consumption,
    groups_admin,
    listings,
    live_reads,
    offsets,
    pops,
    pulls,
    purges,
    queries,
    relays,
    replies,
    retries,
    sends,
    stats,
    topics_admin,
    transactions,
)
from litemq.wire.remoting.connection import Handler, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_AREAS = (
    sends,
    pulls,
    pops,
    offsets,
    clients,
    retries,
    queries,
    topics_admin,
    groups_admin,
    consumption,
    stats,
    relays,
    replies,
    config,
    purges,
    transactions,
    batch_transactions,
    listings,
    live_reads,
)


def all_handlers(broker: Broker) -> Handlers:
    """Return who answers which request; no request has two."""
    found: dict[int, Handler] = {}
    for area in _AREAS:
        for code, handler in area.handlers(broker).items():
            assert code not in found, code
            found[code] = handler
    return found
