"""The consumer that the application asks, with a thread of its own that reads ahead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType

from litemq.client._message_cy import Message
from litemq.client.async_pull import AsyncPullConsumer, Seek
from litemq.client.group_member import Deal
from litemq.client.loop_face import LoopFace
from litemq.client.routes import TopicQueue
from litemq.client.subscription import Start, Wanted
from litemq.client.values import seconds

__all__ = ["AsyncPullConsumer", "PullConsumer"]


class PullConsumer(LoopFace):
    """Gives messages to whoever asks for them: by ``poll``, or in a ``for`` loop.

    With a group it shares the topics that it subscribes to with other members, and goes on where the group has
    committed; it commits only when told.

    >>> with litemq.Producer() as producer, litemq.PullConsumer("audit") as consumer:
    ...     sent = producer.send("orders", b"17 apples")
    ...     consumer.subscribe("orders")
    ...     for message in consumer:
    ...         consumer.commit()
    ...         break

    Args:
        group: whose offsets are used and committed; None: no group, no commits, all queues.
        nameservers: ``host:port`` of name servers, several with ``;`` or as a list; else ``LITEMQ_NAMESERVER``.
        start: where to begin in a queue in which the group has no position: ``"first"``, ``"last"``, an aware
            ``datetime`` or milliseconds since 1970.
        prefetch: messages that are read ahead, by all queues together; each queue may have at least 32 of them.
        prefetch_bytes: … and their bytes.
        rebalance: how queues are dealt to members: ``"average"``, ``"consistent-hash"``, ``"same-room"``, or a
            function of queues, members and the own id that returns queues.
        instance: name of this consumer, a part of its client id.
        room: where this consumer runs, for ``rebalance="same-room"``.

    Raises:
        InvalidRequest: an argument is wrong.
    """

    def __init__(
        self,
        group: str | None = None,
        *,
        nameservers: str | Sequence[str] | None = None,
        start: Start = "first",
        prefetch: int = 16_384,
        prefetch_bytes: int = 64 << 20,
        rebalance: Deal | str = "average",
        instance: str = "default",
        room: str = "",
    ) -> None:
        self._core = AsyncPullConsumer(
            group,
            nameservers=nameservers,
            start=start,
            prefetch=prefetch,
            prefetch_bytes=prefetch_bytes,
            rebalance=rebalance,
            instance=instance,
            room=room,
        )
        super().__init__(f"litemq-pull-{group or 'none'}")

    def subscribe(self, topic: str, wanted: Wanted = "*") -> None:
        """Want a topic's messages: with a group the queues that are this member's share, without one all of them.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders", litemq.Sql("amount > 100 AND region = 'eu'"))

        Raises:
            BadFilter: the filter cannot be read; says where.
            Unavailable: no name server answers.
        """
        self._do(self._core.subscribe(topic, wanted))

    def assign(self, queues: Iterable[TopicQueue], wanted: Wanted = "*") -> None:
        """Read exactly these queues, whoever else does; no group is joined, though its offsets are used.

        >>> with litemq.Producer() as producer, litemq.PullConsumer() as consumer:
        ...     sent = producer.send("orders", b"17 apples")
        ...     consumer.assign([litemq.TopicQueue("orders", sent.broker, sent.queue_id)])

        Raises:
            UnknownTopic: no broker has the topic.
            Unavailable: no name server answers.
        """
        self._do(self._core.assign(queues, wanted))

    def poll(self, max_messages: int = 32, timeout: float | timedelta = 1.0) -> list[Message]:
        """Return messages, as soon as there are any; an empty list when none came in time.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders")
        ...     messages = consumer.poll(max_messages=100, timeout=0.1)
        """
        core = self._core
        core.check_poll(max_messages)
        self._loop()  # not after a fork
        out = core.out
        found = out.take(max_messages)
        if found:
            return found
        end = time.monotonic() + seconds(timeout)
        while True:
            with out.more:
                left = end - time.monotonic()
                if not out.is_ready() and left > 0:
                    out.more.wait(left)
            found = out.take(max_messages)
            if found or time.monotonic() >= end:
                return found
            core.check_poll(max_messages)

    def __iter__(self) -> Iterator[Message]:
        core = self._core
        core.check_poll(1)
        self._loop()
        out = core.out
        while not out.is_closed:
            rest = out.rest()
            if rest is not None:
                yield from rest
                continue
            with out.more:
                while not out.is_ready() and not out.is_closed:
                    out.more.wait()

    def commit(self, message: Message | None = None) -> None:
        """Tell the group's brokers how far it has read: all that was handed out, or up to a message of a queue.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders")
        ...     for message in consumer.poll(timeout=0.1):
        ...         consumer.commit(message)
        ...     consumer.commit()

        Raises:
            InvalidRequest: there is no group, or the message's queue is somebody else's by now.
            Unavailable: a broker does not answer; what is not committed comes again.
        """
        self._do(self._core.commit(message))

    def seek(self, topic: str, to: Seek) -> None:
        """Go on elsewhere in a topic's queues; what was read ahead is forgotten.

        >>> from datetime import UTC, datetime, timedelta
        >>> with litemq.PullConsumer() as consumer:
        ...     consumer.subscribe("orders")
        ...     consumer.seek("orders", to="last")
        ...     consumer.seek("orders", to=datetime.now(UTC) - timedelta(hours=1))
        ...     consumer.seek("orders", to={0: 17})

        Raises:
            InvalidRequest: a queue is not this consumer's.
            Unavailable: a broker does not answer.
        """
        self._do(self._core.seek(topic, to))

    def position(self, topic: str | None = None) -> dict[TopicQueue, int]:
        """Return the offsets behind what was handed out, of a topic's queues or of all.

        >>> with litemq.PullConsumer() as consumer:
        ...     consumer.subscribe("orders")
        ...     offsets = consumer.position("orders")
        """
        return self._do(self._core.position(topic))

    def committed(self, topic: str | None = None) -> dict[TopicQueue, int | None]:
        """Return how far the group has read as the brokers know it; None where it has said nothing yet.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders")
        ...     offsets = consumer.committed()
        """
        return self._do(self._core.committed(topic))

    def ends(self, topic: str | None = None) -> dict[TopicQueue, tuple[int, int]]:
        """Return the first offset of each queue, and the one behind its last.

        >>> with litemq.PullConsumer() as consumer:
        ...     consumer.subscribe("orders")
        ...     count = sum(end - begin for begin, end in consumer.ends("orders").values())
        """
        return self._do(self._core.ends(topic))

    def pause(self, what: str | TopicQueue | None = None) -> None:
        """Hand nothing out of a topic, a queue, or at all, until ``resume``; other members do not take it over.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders")
        ...     consumer.pause("orders")
        ...     consumer.resume("orders")
        """
        self._do(self._core.pause(what))

    def resume(self, what: str | TopicQueue | None = None) -> None:
        """Hand out again what ``pause`` held back.

        >>> with litemq.PullConsumer("audit") as consumer:
        ...     consumer.subscribe("orders")
        ...     consumer.pause()
        ...     consumer.resume()
        """
        self._do(self._core.resume(what))

    @property
    def assignment(self) -> frozenset[TopicQueue]:
        """The queues that it reads at present.

        >>> with litemq.PullConsumer() as consumer:
        ...     consumer.subscribe("orders")
        ...     queues = consumer.assignment
        """
        return self._core.assignment

    @property
    def client_id(self) -> str:
        """Who it is in its group.

        >>> "@" in litemq.PullConsumer("audit").client_id
        True
        """
        return self._core.client_id

    def close(self) -> None:
        """Leave the group and close; nothing is committed by it.

        >>> consumer = litemq.PullConsumer()
        >>> consumer.close()
        """
        if self._is_over:
            return
        if self._thread is not None and self._is_own_process:
            self._do(self._core.close())
        self._end()

    def __enter__(self) -> PullConsumer:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
