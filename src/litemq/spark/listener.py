"""Tells brokers how far a stream has read, as the offsets of a consumer group: then its lag can be seen like any other.

    spark.streams.addListener(LiteMQQueryListener("127.0.0.1:9876", "spark-orders"))

Spark's checkpoint stays the truth: what is told here moves nothing, and comes late or not at all when brokers are away.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from litemq.spark.group_position import GroupPosition
from litemq.spark.offsets import places_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class LiteMQQueryListener(StreamingQueryListener):
    """Commits what streams have read for a consumer group.

    Args:
        brokers: the name servers.
        group: the consumer group; it is made when it is not there.
        query: name or id of the one stream that is told of; None: all that read from brokers.
    """

    def __init__(self, brokers: str, group: str, *, query: str | None = None) -> None:
        self._query = query
        self._position = GroupPosition(brokers, group)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Tell how far a batch came."""
        progress = event.progress
        if self._query not in (None, progress.name, str(progress.id)):
            return
        for source in progress.sources:
            self.tell(source.endOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def tell(self, offset: str | None) -> None:
        """Commit the offsets of one source; those of another kind of source are passed over."""
        try:
            found: Any = json.loads(offset or "")
            places = places_of(found)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        self._position.tell(places)
