"""Tells brokers how far a stream has read, as the offsets of a consumer group: then its lag can be seen like any other.

Spark's checkpoint stays the truth: what is told moves nothing, and comes late or not at all when brokers are away.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from litemq.client.admin import Admin
from litemq.client.live_reads import LiveReader
from litemq.errors import LiteMQError
from litemq.spark.offsets import Place

logger = logging.getLogger(__name__)

_TIMEOUT_S: Final = 5.0


class GroupPosition:
    """The position of one group; the group is made when it is not there.

    Args:
        brokers: the name servers.
        group: the consumer group.

    Raises:
        LiteMQError: the group cannot be made.
    """

    def __init__(self, brokers: str, group: str) -> None:
        self._group = group
        self._told: dict[Place, int] = {}
        self._reader = LiveReader(brokers.replace(",", ";"), timeout=_TIMEOUT_S)
        with Admin(brokers.replace(",", ";")) as admin:
            admin.create_group(group, exist_ok=True)

    def tell(self, places: Mapping[Place, int]) -> None:
        """Commit the next offsets of queues, by topic, broker and queue id; none of them ever goes back."""
        for place, at in places.items():
            if at <= self._told.get(place, -1):
                continue
            topic, broker, queue_id = place
            try:
                self._reader.commit(broker, self._group, topic, queue_id, at)
                self._told[place] = at
            except LiteMQError as error:
                logger.info("a stream's position was not told: queue=%s reason=%s", place, error)
