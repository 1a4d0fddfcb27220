"""Every error that LiteMQ raises on purpose, by who must act.

LiteMQError
├── InvalidRequest        the caller must change the request
│   ├── RecordTooLarge        a record, its body, its properties or its topic over the limit
│   ├── TopicUnusable         a topic that cannot be a folder name
│   ├── ReservedName          a reserved topic or property used by a client
│   ├── UnknownTopic          no such topic or queue
│   ├── ConcurrentAppend      a second thread appends in the middle of an append
│   ├── StaleHandle           a position whose record is another one by now
│   ├── BadReceipt            a receipt that this broker never gave to this group
│   ├── StaleReceipt          a receipt of a delivery that is over
│   ├── BadFrame              bytes on a connection that are no frame: it must be closed
│   ├── BadField              a field of a request that is missing or wrong
│   ├── BadBody               the body of a request that cannot be read
│   ├── NotSupported          a request or a message that this server does not know (yet)
│   ├── NoPermission          a topic, group or broker that may not be used so
│   ├── UnknownGroup          no such consumer group
│   ├── NotSubscribed         no member of a group wants this topic
│   ├── UnknownMessage        no message where a request says one is
│   ├── StaleEpoch            an epoch of a producer below its last one that ended
│   ├── TransactionOver       a batch transaction that ended otherwise already
│   ├── RowsMissing           a commit that names rows which are not staged so
│   ├── NotCoordinator        a broker that does not decide about this producer
│   ├── NotOnline             a client that is not connected
│   ├── BadFilter             a filter expression that cannot be compiled
│   ├── BadCron               a cron expression that cannot be read, or that never fires
│   ├── UnknownZone           no such time zone
│   ├── BadJob                a cron job with a field that is missing or wrong
│   └── Closed                the store, producer or consumer is closed
├── Unavailable           try again, maybe elsewhere
│   ├── StoreFull             the disk is (nearly) full: writes are refused, reads go on
│   ├── StoreInUse            another process holds the store
│   ├── Busy                  a limit is reached: the answer says which one, and when to try again
│   ├── CannotListen          an address is in use, or none of this machine's
│   ├── NoAnswer              a peer did not answer in time, or went away
│   ├── OutcomeUnknown        a message was sent, but no answer came: it may be stored
│   ├── BufferFull            too much waits to be sent already
│   └── FlushTimeout          stored, but not yet known to be on disk
└── StorageError          an operator must look
    ├── TornRecord            the last write of a log is unfinished
    ├── CorruptRecord         once complete, now damaged
    ├── FlushFailed           a flush failed: what it lost is unknown, writes stop
    ├── WriteFailed           a write failed: writes stop, reads go on
    ├── ReadFailed            a read failed: this answer is not to be had, others may be
    └── BadStore              a directory, file or setting that cannot be worked on
        └── UnknownFormat         the first record does not tell the format of its log
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar


class LiteMQError(Exception):
    """Base of all errors raised on purpose; the text says what happened and what to do.

    ``code`` names the kind for programs: ``unknown_topic``, ``buffer_full``.

    >>> try:
    ...     litemq.Message("orders", "17 apples")
    ... except litemq.LiteMQError as error:
    ...     print(error.code, "-", error)
    invalid_request - a body must be bytes, not str; encode text: body.encode()
    """

    code: ClassVar[str] = "litemq_error"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    appended: Sequence[object] = ()
    """Raised by an append: the answers to the first messages of the call, which are in the log all the same."""


class InvalidRequest(LiteMQError):
    """The caller must change the request.

    >>> litemq.Message("", b"17 apples")
    Traceback (most recent call last):
    litemq.errors.InvalidRequest: the topic of a message must be a text that is not empty, not ''
    """


class Unavailable(LiteMQError):
    """Try again, maybe elsewhere; ``retry_after`` says in how many seconds, where that is known.

    >>> import time
    >>> def send_patiently(producer, message):
    ...     while True:
    ...         try:
    ...             return producer.send(message)
    ...         except litemq.OutcomeUnknown:
    ...             raise  # it may be stored already
    ...         except litemq.Unavailable as error:
    ...             time.sleep(error.retry_after or 1.0)
    """

    retry_after: float | None = None


class StorageError(LiteMQError):
    """An operator must look.

    >>> issubclass(litemq.StorageError, litemq.LiteMQError)
    True
    """


class RecordTooLarge(InvalidRequest):
    """Something of a message is over its limit.

    >>> error = litemq.RecordTooLarge(what="the body", size=5_000_000, limit=4_194_304)
    >>> str(error), error.limit
    ('the body has 5000000 bytes, at most 4194304 fit', 4194304)
    """

    def __init__(self, *, what: str, size: int, limit: int) -> None:
        super().__init__(f"{what} has {size} bytes, at most {limit} fit")
        self.what = what
        self.size = size
        self.limit = limit


class TopicUnusable(InvalidRequest):
    """A topic becomes a folder name; this one cannot."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic!r} cannot be used: {reason}")
        self.topic = topic
        self.reason = reason


class ReservedName(InvalidRequest):
    """A name that LiteMQ keeps for itself."""


class UnknownTopic(InvalidRequest):
    """There is no such topic or queue.

    >>> def delete(admin, topic):
    ...     try:
    ...         admin.delete_topic(topic)
    ...     except litemq.UnknownTopic:
    ...         pass  # somebody else deleted it
    """


class ConcurrentAppend(InvalidRequest):
    """A second thread appends while an append is under way; nothing of its call was stored."""


class StaleHandle(InvalidRequest):
    """The record at this position is not the one that the handle was made for."""


class BadReceipt(InvalidRequest):
    """A receipt that this broker never gave to this group; nothing was acknowledged."""


class StaleReceipt(InvalidRequest):
    """A receipt of a delivery that is over; nothing was acknowledged."""


class BadFrame(InvalidRequest):
    """Bytes that are no frame of the protocol; what follows them cannot be understood either."""


class BadField(InvalidRequest):
    """A field of a request that is missing or wrong."""


class BadBody(InvalidRequest):
    """The body of a request cannot be read."""


class NotSupported(InvalidRequest):
    """A request or a kind of message that this server does not know, or not yet."""


class NoPermission(InvalidRequest):
    """A topic, group or broker that may not be used so."""


class UnknownGroup(InvalidRequest):
    """There is no such consumer group.

    >>> litemq.UnknownGroup("there is no group 'billing'").code
    'unknown_group'
    """


class NotSubscribed(InvalidRequest):
    """A group has no member that subscribes to a topic, and the request does not say what it wants of it."""


class UnknownMessage(InvalidRequest):
    """There is no message where a request says one is."""


class StaleEpoch(InvalidRequest):
    """An epoch below the last one of its producer that ended: nothing was staged or committed.

    >>> litemq.StaleEpoch("epoch 3 of producer 'query' is stale").code
    'stale_epoch'
    """


class TransactionOver(InvalidRequest):
    """A batch transaction that ended otherwise already; the text says how, and nothing changed.

    >>> litemq.TransactionOver("it was committed: it cannot be aborted any more").code
    'transaction_over'
    """


class RowsMissing(InvalidRequest):
    """A commit that names other rows than are staged: nothing was committed.

    >>> litemq.RowsMissing("partition 3 has 5 of 7 rows").code
    'rows_missing'
    """


class NotCoordinator(InvalidRequest):
    """Another broker decides about the transactions of this producer."""


class NotOnline(InvalidRequest):
    """The client that a request is about is not connected."""


class BadFilter(InvalidRequest):
    """A filter expression that cannot be compiled; ``column`` begins at 1, ``reason`` says what was expected.

    >>> str(litemq.BadFilter("a value was expected", "amount >", 9))
    "filter 'amount >', column 9: a value was expected"
    """

    def __init__(self, reason: str, expression: str, column: int) -> None:
        shown = expression if len(expression) <= 80 else f"{expression[:80]}…"
        super().__init__(f"filter {shown!r}, column {column}: {reason}")
        self.reason = reason
        self.expression = expression
        self.column = column


class BadCron(InvalidRequest):
    """A cron expression that cannot be read, or that never fires; names field, text and what was expected."""

    def __init__(self, expression: str, *, field: str, text: str, expected: str) -> None:
        part = "" if text == expression else f", {field} {_shown(text)}"
        super().__init__(f"cron expression {_shown(expression)}{part}: expected {expected}")
        self.expression = expression
        self.field = field
        self.text = text
        self.expected = expected


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


class UnknownZone(InvalidRequest):
    """There is no such time zone; ``near`` has names that are like it."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        hint = f"did you mean {' or '.join(near)}?" if near else "use a name such as Europe/Berlin, or UTC"
        super().__init__(f"there is no time zone {_shown(name)}; {hint}")
        self.name = name
        self.near = tuple(near)


class BadJob(InvalidRequest):
    """A cron job that cannot be; ``field`` is what is wrong with it."""

    def __init__(self, job: str, field: str, reason: str) -> None:
        super().__init__(f"cron job {_shown(job)}, {field}: {reason}")
        self.job = job
        self.field = field
        self.reason = reason


class Closed(InvalidRequest):
    """The store, producer or consumer was closed before this call.

    >>> producer = litemq.Producer()
    >>> producer.close()
    >>> producer.send("orders", b"17 apples")
    Traceback (most recent call last):
    litemq.errors.Closed: ...
    """


class StoreFull(Unavailable):
    """The disk has no room: writes are refused, reads go on."""


class StoreInUse(Unavailable):
    """Another process holds the store's lock."""


class Busy(Unavailable):
    """A limit is reached; the text says which one.

    >>> litemq.Busy("the producer sends too much").retry_after is None
    True
    """


class CannotListen(Unavailable):
    """An address cannot be listened on: it is in use, or none of this machine's."""


class NoAnswer(Unavailable):
    """A peer did not answer in time, or its connection was lost.

    >>> with litemq.Producer("127.0.0.1:1", timeout=0.5) as producer:
    ...     producer.send("orders", b"17 apples")
    Traceback (most recent call last):
    litemq.errors.NoAnswer: no name server answers ...
    """


class OutcomeUnknown(Unavailable):
    """A message was sent, but no answer came: it may be stored, and sending it again may store it twice.

    >>> def book(producer, order):
    ...     try:
    ...         return producer.send("orders", order, keys="o-17")
    ...     except litemq.OutcomeUnknown:
    ...         return None  # consumers must be able to see an order twice before it is sent again
    """


class BufferFull(Unavailable):
    """Too much waits to be sent already; nothing of this call was taken.

    >>> def offer(producer, message):
    ...     try:
    ...         return producer.send_async(message)
    ...     except litemq.BufferFull:
    ...         producer.flush()  # wait until what was accepted is answered
    ...         return producer.send_async(message)
    """


class FlushTimeout(Unavailable):
    """The record is stored but was not flushed in time; it may or may not survive a power cut."""


class DamagedRecord(StorageError):
    """A record that cannot be sound; ``TornRecord`` or ``CorruptRecord``."""

    def __init__(self, *, position: int, reason: str) -> None:
        super().__init__(f"record at position {position}: {reason}")
        self.position = position
        self.reason = reason


class TornRecord(DamagedRecord):
    """The last write of a log is unfinished."""


class CorruptRecord(DamagedRecord):
    """A record that was complete once and is damaged now."""


class FlushFailed(StorageError):
    """A flush failed: what it lost is unknown, so the store takes no more writes until it is opened anew."""


class WriteFailed(StorageError):
    """A write failed: nothing of it is visible, and the store takes no more writes until it is opened anew."""


class ReadFailed(StorageError):
    """The disk did not give what was asked for; nothing changed."""


class BadStore(StorageError):
    """A path, file or setting that cannot be worked on; nothing was changed."""


class UnknownFormat(BadStore):
    """The first record does not tell the format of its log: it must be named, or this is no log."""
