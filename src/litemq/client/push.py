"""The consumer that calls the application, on threads of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType

from litemq.client._message_cy import Message
from litemq.client.async_push import STOP_S, AsyncPushConsumer
from litemq.client.group_member import Deal
from litemq.client.handling import Handler
from litemq.client.loop_face import LoopFace
from litemq.client.routes import TopicQueue
from litemq.client.stop_signal import StopSignal
from litemq.client.subscription import Start, Wanted
from litemq.features.breaker import Breaker

__all__ = ["AsyncPushConsumer", "PushConsumer"]


class PushConsumer(LoopFace):
    """Calls a handler with the messages of a group's topics, on threads of its own.

    A handler that returns has handled its message.  One that raises gets it again, later and later, and in the end
    the message is a dead letter of the group; ``Retry`` says when it comes again, ``Reject`` that it never shall.

    >>> def handle(message):
    ...     if not message.body:
    ...         raise litemq.Reject("an empty order")
    >>> with litemq.PushConsumer("billing", {"orders": "paid || refunded"}, handle) as consumer:
    ...     consumer.stop()  # a program calls consumer.wait() here

    Args:
        group: members of a group share the messages of its topics.
        subscriptions: topic → which of its messages: a tag expression (``"*"``, ``"paid || refunded"``), ``Tags(…)``
            or ``Sql(…)``.
        handler: takes a ``Message``, with ``batch > 1`` a list of them.  A coroutine function runs as a task on the
            consumer's loop.
        nameservers: ``host:port`` of name servers, several with ``;`` or as a list; else ``LITEMQ_NAMESERVER``.
        ordered: messages of a queue one after the other; one that fails holds its queue until it is handled.
        broadcast: every consumer gets every message; offsets are kept in ``offset_dir``, what fails is dropped.
        concurrency: threads, or tasks, that run the handler.
        prefetch: messages that are read ahead, by all queues together; each queue may have at least 32 of them.
        prefetch_bytes: … and their bytes.
        start: where a group begins that has no position in a queue: ``"first"``, ``"last"``, an aware ``datetime``
            or milliseconds since 1970.
        rebalance: how queues are dealt to members: ``"average"``, ``"consistent-hash"``, ``"same-room"`` (queues of
            brokers in the own ``room`` first), or a function of queues, members and the own id that returns queues.
        max_attempts: so often a message is handed out before it is a dead letter; None: as the group is set up at the
            broker (16 retries), and without end where ``ordered``.
        batch: so many messages at most are handed out at once.
        breaker: when more than 80 % of the calls fail, handlers pause for 60 s; a ``Breaker`` of your own, or False.
        instance: name of this consumer, a part of its client id and of its broadcast file.
        offset_dir: where broadcast offsets are kept, ``~/.litemq/offsets``.
        room: where this consumer runs, for ``rebalance="same-room"``.

    Raises:
        InvalidRequest: an argument is wrong; ``BadFilter`` says where a filter is.
    """

    _core: AsyncPushConsumer

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, Wanted],
        handler: Handler,
        *,
        nameservers: str | Sequence[str] | None = None,
        ordered: bool = False,
        broadcast: bool = False,
        concurrency: int = 16,
        prefetch: int = 4096,
        prefetch_bytes: int = 64 << 20,
        start: Start = "first",
        rebalance: Deal | str = "average",
        max_attempts: int | None = None,
        batch: int = 1,
        breaker: Breaker | bool = True,
        instance: str = "default",
        offset_dir: str | Path | None = None,
        room: str = "",
    ) -> None:
        core = AsyncPushConsumer(
            group,
            subscriptions,
            handler,
            nameservers=nameservers,
            ordered=ordered,
            broadcast=broadcast,
            concurrency=concurrency,
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            start=start,
            rebalance=rebalance,
            max_attempts=max_attempts,
            batch=batch,
            breaker=breaker,
            instance=instance,
            offset_dir=offset_dir,
            room=room,
        )
        super().__init__(f"litemq-{group}")
        self._core = core
        self._ended = StopSignal()
        core.on_ended.append(self._ended.give)

    def start(self) -> None:
        """Join the group and begin to consume; ``with`` does it.

        >>> consumer = litemq.PushConsumer("billing", {"orders": "*"}, lambda message: None)
        >>> consumer.start()
        >>> consumer.stop()

        Raises:
            Unavailable: no name server answers.
            InvalidRequest: a broker refuses the group or a filter.
            Closed: it was stopped before.
        """
        try:
            self._do(self._core.start())
        except BaseException:
            self._end()
            raise

    def stop(self, timeout: float | timedelta = STOP_S) -> None:
        """Take no more messages, finish those in hand, put offsets down, leave the group and close.

        Handlers that are not done within ``timeout`` seconds are left alone: their messages come again elsewhere.
        A handler may call it: it returns at once then.

        >>> with litemq.PushConsumer("billing", {"orders": "*"}, lambda message: None) as consumer:
        ...     consumer.stop(timeout=10)
        """
        if self._is_over or not self._is_own_process:
            return
        if self._is_inside:
            self._leave_to_others(self._core.stop(timeout))
            return
        self._do(self._core.stop(timeout))
        self._end()

    def wait(self) -> None:
        """Wait until Ctrl-C or SIGTERM (where the main thread calls it), or until somebody calls ``stop``.

        >>> import threading
        >>> with litemq.PushConsumer("billing", {"orders": "*"}, lambda message: None) as consumer:
        ...     threading.Timer(0.1, consumer.stop).start()
        ...     consumer.wait()
        """
        self._ended.wait()

    @property
    def assignment(self) -> frozenset[TopicQueue]:
        """The queues that it reads at present.

        >>> with litemq.PushConsumer("billing", {"orders": "*"}, lambda message: None) as consumer:
        ...     queues = consumer.assignment
        """
        return self._core.assignment

    @property
    def client_id(self) -> str:
        """Who it is in its group.

        >>> "@" in litemq.PushConsumer("billing", {"orders": "*"}, lambda message: None).client_id
        True
        """
        return self._core.client_id

    def reply(self, message: Message, body: bytes) -> None:
        """Answer a request: the producer that waits in ``request`` gets ``body``.

        >>> def handle(message):
        ...     consumer.reply(message, b"it is " + message.body)
        >>> with litemq.PushConsumer("prices", {"questions": "*"}, handle) as consumer:
        ...     pass

        Raises:
            InvalidRequest: the message is no request.
            Unavailable: who asked is not there any more.
        """
        self._do(self._core.reply(message, body))

    def __enter__(self) -> PushConsumer:
        self.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _is_inside(self) -> bool:
        """Return whether a handler calls."""
        return self._is_on_loop or self._core.is_handler()
