"""Appending: messages → staged records → one write per segment → dispatcher.

Nothing is visible before its bytes were written.  A message that cannot be stored raises before anything is
written or any queue is made.  When a write fails, the error's ``appended`` lists the messages of the call that are
in the log already (only a call that crossed into a new segment has any); the log takes no more writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from litemq._message_cy import find_wrong
from litemq.errors import ConcurrentAppend, InvalidRequest, LiteMQError
from litemq.format import hosts
from litemq.format import spans as columns
from litemq.format._spans_cy import Spans
from litemq.store._append_cy import CONCURRENT, NO_QUEUE, SEGMENT_FULL, Batch, not_a_message
from litemq.store._rows_cy import WRITE_FAILED, PlainTopic, RowAppender
from litemq.store._tails_cy import QueueTail
from litemq.store.commit_log import CommitLog
from litemq.store.consume_queue import Queues
from litemq.store.dispatcher import Dispatcher
from litemq.store.queue_files import QueueFiles
from litemq.types import Appended, Message

_RECORD_OVERHEAD = 64 << 10
"""What a record may have beside its body."""

OpenQueues = Callable[[set[tuple[str, int]]], object]
"""Makes (topic, queue id) known; raises before it makes any when one of them cannot be."""

OpenQueue = Callable[[PlainTopic, int], None]
"""Fills in the tail of one queue of a plain topic."""


class Appender:
    """The only writer of a log.  Called from one thread; a second one that comes in between is refused, if noticed."""

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        *,
        store_host: str,
        max_body_bytes: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._now_ms = now_ms
        self.store_host = store_host
        self._store_address = hosts.to_bytes(store_host) or bytes(8)
        self.max_body = max_body_bytes
        self.max_state_record = log.segments.last.size - 8
        self.max_record = min(max_body_bytes + _RECORD_OVERHEAD, self.max_state_record)
        """Size of the largest record that is taken of a client."""
        self.format_code = log.format.code
        self.batch = self._new_batch(is_state=False)
        """What clients' messages are staged in."""
        self._state_batch = self._new_batch(is_state=True)
        self._slow_thread: int | None = None
        """The thread that opens queues or rolls the log."""

    def _new_batch(self, *, is_state: bool) -> Batch:
        limits = (self.max_state_record,) * 2 if is_state else (self.max_record, self.max_body)
        return Batch(self.format_code, self.store_host, self._store_address, *limits)

    def append(
        self,
        messages: list[Message],
        queues: Queues,
        open_queues: OpenQueues,
        *,
        is_state: bool = False,
        is_whole: bool = False,
    ) -> list[Appended]:
        """Append messages in order; return where each went.

        Queues that are not in ``queues`` are asked of ``open_queues``, which puts them there or raises.
        What LiteMQ writes for itself (``is_state``) must fit into a segment; a setting must not stop it.
        What belongs together (``is_whole``) goes into one segment with one write, if one segment can hold it.
        """
        log = self._log
        if log.failure is not None:
            log.check_writable()
        now = self._now_ms()
        if now > log.tail.last_time:
            log.tail.last_time = now
        batch = self._state_batch if is_state else self.batch
        try:
            answer = batch.append(messages, queues, log.tail, self._dispatcher.index.tail)
        except OSError as error:
            raise log.failed(error) from error
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from error
        except (AttributeError, TypeError):
            _name_wrong(messages)
            raise
        if answer is None:
            return self._append_slowly(messages, queues, open_queues, is_state, is_whole)
        if batch.needs_care:
            self.finish(batch)
        return answer

    def finish(self, batch: Batch) -> None:
        """Do for a written batch what the kernel leaves."""
        try:
            self._dispatcher.finish(batch)
        finally:
            batch.clear()

    def row_appender(self, plain: dict[bytes, PlainTopic]) -> RowAppender:
        """Return what appends the plain sends to these topics."""
        return RowAppender(
            plain,
            self.batch,
            self._log.tail,
            self._dispatcher.index,
            max_record=self.max_record,
            max_body=self.max_body,
            now_ms=self._now_ms,
            finish=self.finish,
            failed=self._log.failed,
        )

    def append_rows(self, rows: RowAppender, spans: Spans, first: int, open_queue: OpenQueue) -> int:
        """Append plain sends from row ``first`` on; return the first row that was not taken.

        An error is raised only when none was taken: after a failed write the next call raises it.
        """
        self._log.check_writable()
        row = first
        while True:
            row = int(rows.append(spans, row))
            rows.settle()
            why = rows.why
            try:
                if why == WRITE_FAILED:
                    self._log.check_writable()
                if why != SEGMENT_FULL and why != NO_QUEUE:
                    return row
                self._help(rows, spans, row, open_queue)
            except LiteMQError:
                if row > first:
                    return row
                raise

    def _help(self, rows: RowAppender, spans: Spans, row: int, open_queue: OpenQueue) -> None:
        """Make what the send in ``row`` lacks: a segment with room, or an open queue."""
        if rows.why == SEGMENT_FULL:
            self._roll()
        else:
            open_queue(rows.last, spans.cell(row, columns.QUEUE_ID))

    def _append_slowly(
        self, messages: list[Message], queues: Queues, open_queues: OpenQueues, is_state: bool, is_whole: bool
    ) -> list[Appended]:
        """Append messages of which some need a queue or a segment that is not open yet.

        It may come back here from ``open_queues``, which appends records of its own; another thread may not.
        """
        outer, self._slow_thread = self._slow_thread, get_ident()
        if outer not in (None, self._slow_thread):
            self._slow_thread = outer
            raise ConcurrentAppend(CONCURRENT)
        try:
            return self._append_in_shares(messages, queues, open_queues, is_state, is_whole)
        finally:
            self._slow_thread = outer

    def _append_in_shares(
        self, messages: list[Message], queues: Queues, open_queues: OpenQueues, is_state: bool, is_whole: bool
    ) -> list[Appended]:
        self.check(messages, is_state=is_state)
        missing = {(m.topic, m.queue_id) for m in messages if m.queue_id not in queues.get(m.topic, ())}
        if missing:
            open_queues(missing)
        answer: list[Appended] = []
        try:
            while len(answer) < len(messages):
                share = self._share(messages, len(answer), queues, is_state)
                if share and (len(share) == len(messages) or not is_whole):
                    answer += self.append(share, queues, open_queues, is_state=is_state)
                else:
                    self._roll()
                    is_whole = False  # what an empty segment does not hold goes into two
        except LiteMQError as error:
            error.appended = answer
            raise
        return answer

    def _roll(self) -> None:
        with self._claimed():  # a log half way into its next file is no place for another thread's record
            self._log.roll()

    @contextmanager
    def _claimed(self) -> Iterator[None]:
        self.batch.claim()
        try:
            yield
        finally:
            self.batch.clear()

    def check(self, messages: list[Message], *, is_state: bool = False) -> None:
        """Raise what a message is refused for; nothing is appended."""
        stand_in = QueueTail("", 0, self._log.format.queue_entry_size, 0, QueueFiles(Path(), []))
        anywhere: Queues = {}
        for message in messages:
            if type(message) is not Message:
                _name_wrong(messages)
            anywhere.setdefault(message.topic, {})[message.queue_id] = stand_in
        try:
            self._new_batch(is_state=is_state).stage(messages, 0, anywhere, 0, 1 << 62, 0)
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from error
        except (AttributeError, TypeError):
            _name_wrong(messages)
            raise

    def _share(self, messages: list[Message], first: int, queues: Queues, is_state: bool) -> list[Message]:
        """Return the messages from ``first`` on that the last segment has room for."""
        trial = self._new_batch(is_state=is_state)
        with self._claimed():  # the tails count what is staged
            try:
                trial.stage(messages, first, queues, self._log.end, self._log.room, 0)
                return messages[first : first + trial.count]
            finally:
                trial.clear()


def _no_utf8(error: UnicodeEncodeError) -> InvalidRequest:
    return InvalidRequest(f"a text of the message has no UTF-8 form: {error.reason}")


def _name_wrong(messages: list[Message]) -> None:
    """Raise an error with place and field for what is no message, or for one with a field of a wrong type.

    The kernel looks at no more than it must, so that its own error may say neither.
    """
    for number, message in enumerate(messages):
        if type(message) is not Message:
            raise not_a_message(number, message) from None
        wrong = find_wrong({name: getattr(message, name, None) for name in Message.__slots__})
        if wrong is not None and len(messages) > 1:
            raise type(wrong)(f"message {number} of the call: {wrong}") from None
        if wrong is not None:
            raise wrong from None
