"""A hold on queues of brokers: retention leaves what a job has yet to read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from litemq.errors import LiteMQError
from litemq.spark.lake.archived import Queue

logger = logging.getLogger(__name__)
_ANSWER_S: Final = 5.0


@dataclass(slots=True)
class RetentionHold:
    """Moves with the job, under one name; ends by itself ``lease_s`` after the last move."""

    brokers: str
    """Name servers; empty where files are read, which nobody holds."""
    name: str
    lease_s: float
    _at: dict[Queue, int] = field(default_factory=dict)

    def move(self, offsets: Mapping[Queue, int]) -> None:
        """Have brokers keep these queues from these offsets on; others stay where they are held."""
        if not self.brokers or not self.lease_s:
            return
        from litemq.spark.live import reader_of

        self._at |= offsets
        for broker in sorted({name for _, name, _ in self._at}):
            mine = {(topic, queue_id): at for (topic, name, queue_id), at in self._at.items() if name == broker}
            try:
                reader_of(self.brokers).hold(broker, self.name, mine, lease_s=self.lease_s, timeout=_ANSWER_S)
            except LiteMQError as error:  # a broker that is away removes nothing; the next move asks again
                logger.warning("no retention hold: broker=%s reason=%s", broker, error)
