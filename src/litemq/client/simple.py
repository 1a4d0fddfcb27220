"""The consumer with receipts, blocking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Literal, Self

from litemq.client._message_cy import Message
from litemq.client.async_simple import AsyncSimpleConsumer, check_receive, span_ms
from litemq.client.loop_face import LoopFace
from litemq.client.net import BlockingNet
from litemq.client.running import run
from litemq.client.subscription import Wanted
from litemq.errors import LiteMQError

__all__ = ["AsyncSimpleConsumer", "SimpleConsumer"]


class SimpleConsumer(LoopFace):
    """Hands out messages with receipts: each is acknowledged by itself, and comes again when it is not.

    Any number of consumers of a group take from the same queues, so one slow message holds up no other.
    A message that is not acknowledged within its invisible time comes again, with a higher ``attempt``, after the
    last attempt as a dead letter.  Safe to use from several threads.

    >>> with litemq.Producer() as producer, litemq.SimpleConsumer("workers", {"jobs": "*"}) as consumer:
    ...     sent = producer.send("jobs", b"resize 17.png")
    ...     for message in consumer.receive(max_messages=16, invisible=60, timeout=20):
    ...         consumer.ack(message)

    Args:
        group: consumers of a group share the messages of its topics.
        subscriptions: topic → which of its messages: a tag expression (``"*"``, ``"paid || refunded"``), ``Tags(…)``
            or ``Sql(…)``.
        nameservers: ``host:port`` of name servers, several with ``;`` or as a list; else ``LITEMQ_NAMESERVER``.
        start: where a group begins that has not read a queue yet: ``"first"`` or ``"last"``.
        ordered: messages of a queue one after the other: none behind one that is not acknowledged.
        instance: name of this consumer, a part of its client id.

    Raises:
        InvalidRequest: an argument is wrong; ``BadFilter`` says where a filter is.
    """

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, Wanted],
        *,
        nameservers: str | Sequence[str] | None = None,
        start: Literal["first", "last"] = "first",
        ordered: bool = False,
        instance: str = "default",
    ) -> None:
        self._core = AsyncSimpleConsumer(
            group, subscriptions, nameservers=nameservers, start=start, ordered=ordered, instance=instance
        )
        super().__init__(f"litemq-simple-{group}")
        # What is there is taken, and receipts are given back, on the caller's thread; the loop is for waiting.
        self._net = BlockingNet()
        self._has_begun = False
        self._own = self._core.make_core(self._net)

    def receive(
        self, max_messages: int = 16, invisible: float | timedelta = 60.0, timeout: float | timedelta = 20.0
    ) -> list[Message]:
        """Return messages, as soon as there are any; an empty list when none came in time.

        No other consumer of the group gets them within ``invisible`` seconds.

        >>> with litemq.SimpleConsumer("workers", {"jobs": "*"}) as consumer:
        ...     messages = consumer.receive(max_messages=32, invisible=30, timeout=0.1)

        Raises:
            Unavailable: no name server or no broker answers.
            InvalidRequest: a broker refuses the group or a filter.
        """
        invisible_ms = check_receive(max_messages, invisible)
        if self._has_begun:
            self._loop()  # not after a fork, not after the end
            with suppress(LiteMQError):  # whoever waits finds out more
                places = run(self._own.places())
                if self._core.has_begun(places):
                    found, _ = run(self._own.sweep(places, max_messages, invisible_ms, 0))
                    if found:
                        return found
        found = self._do(self._core.receive(max_messages, invisible, timeout))
        self._has_begun = True
        return found

    def ack(self, *messages: Message) -> None:
        """Say that messages are done: they do not come again.  Several go in one request.

        >>> with litemq.SimpleConsumer("workers", {"jobs": "*"}) as consumer:
        ...     consumer.ack(*consumer.receive(timeout=0.1))

        Raises:
            InvalidRequest: a message was not received with receipts, or its time is over and somebody else has it.
            Unavailable: a broker does not answer; what is not acknowledged comes again.
        """
        self._loop()  # not after a fork, not after the end
        run(self._own.ack(messages))

    def change_invisible(self, message: Message, invisible: float | timedelta) -> None:
        """Have a message come again so many seconds from now, instead of when ``receive`` said; 0: at once.

        >>> with litemq.SimpleConsumer("workers", {"jobs": "*"}) as consumer:
        ...     for message in consumer.receive(timeout=0.1):
        ...         consumer.change_invisible(message, 120)  # it takes longer

        Raises:
            InvalidRequest: as with ``ack``.
            Unavailable: a broker does not answer.
        """
        self._loop()
        run(self._own.change_invisible(message, span_ms(invisible)))

    @property
    def client_id(self) -> str:
        """Who it is in its group.

        >>> "@" in litemq.SimpleConsumer("workers", {"jobs": "*"}).client_id
        True
        """
        return self._core.client_id

    def close(self) -> None:
        """Leave the group and close; what is not acknowledged comes again when its time is over.

        >>> consumer = litemq.SimpleConsumer("workers", {"jobs": "*"})
        >>> consumer.close()
        """
        if self._is_over:
            return
        if self._thread is not None and self._is_own_process:
            self._do(self._core.close())
        run(self._net.close())
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
