"""Topics whose sends are appended straight from the table of spans, without a message object for each.

The broker says which topics these are: those that need nothing checked or changed but what ``_rows_cy`` looks at.
"""

from __future__ import annotations

from collections.abc import Callable

from litemq.format._encode_spans_cy import SpanWriter
from litemq.format.names import RESERVED_TOPIC_PREFIX
from litemq.store._rows_cy import PlainTopic
from litemq.store._tails_cy import QueueTail
from litemq.store.appender import Appender
from litemq.store.tables import Tables

FindQueue = Callable[[str, int], QueueTail]


class PlainTopics:
    """The table of plain topics of one store, and what appends their sends."""

    def __init__(self, appender: Appender, tables: Tables, find_queue: FindQueue) -> None:
        self._appender = appender
        self._tables = tables
        self._find_queue = find_queue
        self.table: dict[bytes, PlainTopic] = {}
        """By topic, as UTF-8."""
        self.rows = appender.row_appender(self.table)
        """Appends the sends of these topics."""
        self.set_own(())

    def set_own(self, pairs: tuple[tuple[str, str], ...]) -> None:
        """Have these properties added to every plain send; see ``plain_names.ADDED``."""
        self.rows.set_writer(SpanWriter(self._appender.format_code, self._appender.store_host, pairs))

    def put(self, topic: str, queue_count: int) -> None:
        """Take the sends to queues 0 to ``queue_count - 1`` of a topic as plain from now on.

        Left to the caller stays a topic that the store does not have with so many ordinary queues.
        """
        config = self._tables.topics.get(topic, {})
        known = config.get("writeQueueNums")
        can_be = isinstance(known, int) and 0 <= queue_count <= known and not self._tables.has_batch_queues(topic)
        if not can_be or topic.startswith(RESERVED_TOPIC_PREFIX):
            self.drop(topic)
            return
        self.table[topic.encode()] = PlainTopic(topic, queue_count)
        self.rows.forget()

    def drop(self, topic: str) -> None:
        """Leave the sends to a topic to the caller again."""
        self.table.pop(topic.encode("utf-8", "replace"), None)
        self.rows.forget()

    def open_queue(self, topic: PlainTopic, queue_id: int) -> None:
        """Fill in the tail of a queue that is used for the first time."""
        topic.tails[queue_id] = self._find_queue(topic.topic, queue_id)
