"""Consumers that call the application: ``AsyncPushConsumer`` does it on an event loop, ``PushConsumer`` has its own."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from litemq.client import broker_questions
from litemq.client import consumer_requests as requests
from litemq.client import subscription as wants
from litemq.client._message_cy import Message
from litemq.client.failures import after_error, give_up
from litemq.client.group_member import Deal, GroupMember, check_strategy, new_client_id
from litemq.client.handling import Handler, Handling
from litemq.client.loop_face import LoopFace
from litemq.client.offset_files import OffsetFile
from litemq.client.offset_keeping import OffsetKeeping
from litemq.client.queue_locks import QueueLocks
from litemq.client.queue_reader import QueueReader, shares
from litemq.client.routes import RouteQueue, name_servers
from litemq.client.stop_signal import SIGNALS, StopSignal
from litemq.client.subscription import Start, Subscription, TopicQueue, Wanted
from litemq.client.tenure import Tenure, Work
from litemq.client.values import Reject, Retry, seconds
from litemq.errors import Closed, InvalidRequest, LiteMQError
from litemq.features.breaker import Breaker
from litemq.features.retry import retry_topic

logger = logging.getLogger(__name__)

STOP_S = 30.0
_COMMIT_S = 5.0
_SUSPEND_S = 1.0
_SEND_AGAIN_S = 5.0
_LEAVE_S = 0.3
"""Who gives a queue up has so long to finish what is in hand, and then tells how far it came."""
_HANDOVER_S = 0.5
"""… and who takes it over waits so long before it asks: what was finished need not come again."""
_FROM_WHERE = {"first": "CONSUME_FROM_FIRST_OFFSET", "last": "CONSUME_FROM_LAST_OFFSET"}
_CORRELATION, _REPLY_TO, _CLUSTER, _TTL = "CORRELATION_ID", "REPLY_TO_CLIENT", "CLUSTER", "TTL"


class AsyncPushConsumer:
    """Calls a handler with the messages of a group's topics; see ``PushConsumer`` for what the arguments mean.

    The handler is a coroutine function, called in a task; or a plain function, called on a thread.
    """

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
        wants.check_name("group", group)
        if not callable(handler):
            raise InvalidRequest(f"the handler must be a function that takes a message, not {handler!r}")
        for name, count in (("concurrency", concurrency), ("prefetch", prefetch), ("batch", batch)):
            wants.check_count(name, count)
        wants.check_count("prefetch_bytes", prefetch_bytes)
        if max_attempts is not None:
            wants.check_count("max_attempts", max_attempts)
        self.group = group
        self._subscriptions = wants.subscriptions(subscriptions)
        self._handler = handler
        self._servers = name_servers(nameservers)
        self._is_ordered = ordered
        self._is_broadcast = broadcast
        self._concurrency = concurrency
        self._prefetch = (prefetch, prefetch_bytes)
        self._start = wants.start_at(start)
        self._deal = check_strategy(rebalance)
        self._max_attempts = max_attempts
        self._batch = batch
        self._breaker = _breaker(breaker)
        self._instance = instance
        self._offset_dir = offset_dir
        self._client_id = new_client_id(instance, room)
        self._tenures: dict[RouteQueue, Tenure] = {}
        self._leaving: dict[RouteQueue, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._member: GroupMember | None = None
        self._locks: QueueLocks | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.on_ended: list[Callable[[], None]] = []
        """Called when it is told to stop."""

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and begin to consume.

        Raises:
            Unavailable: no name server answers.
            InvalidRequest: a broker refuses the group or a filter.
            Closed: it was stopped before.
        """
        if self._is_stopping:
            raise Closed("this consumer was stopped; make a new one")
        if self._member is not None:
            return
        member = self._make_member()
        self._handling = Handling(
            self._handler,
            f"litemq-{self.group}",
            concurrency=self._concurrency,
            batch=self._batch,
            is_ordered=self._is_ordered,
            breaker=self._breaker,
            on_done=self._done,
        )
        file = OffsetFile(self._offset_dir, self.group, self._instance) if self._is_broadcast else None
        if file is not None:
            file.read()
        self._keeping = OffsetKeeping(member, self._start, file)
        if self._is_ordered and not self._is_broadcast:
            self._locks = QueueLocks(member, self._granted, self._refused)
        self._member = member
        try:
            await member.start()
        except BaseException:
            self._is_stopping = True
            await self._close(member)
            raise
        self._keeper = asyncio.create_task(self._keep_offsets(), name=f"litemq-offsets-{self.group}")

    def _make_member(self) -> GroupMember:
        properties = {"PROP_CLIENT_VERSION": "LITEMQ_PYTHON", "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
        member = GroupMember(
            self._servers,
            self.group,
            self._client_id,
            joins=True,
            is_push=True,
            is_broadcast=self._is_broadcast,
            from_where=_FROM_WHERE.get(str(self._start), "CONSUME_FROM_TIMESTAMP"),
            deal=self._deal,
            on_shares=self._share,
            on_lost=self._lost,
            handlers=broker_questions.handlers(lambda: None if self._is_stopping else self, properties),
        )
        wanted = {each.topic: each for each in self._subscriptions}
        if not self._is_broadcast:
            topic = retry_topic(self.group)
            wanted[topic] = Subscription(topic)
        member.subscriptions = wanted
        return member

    async def stop(self, timeout: float | timedelta = STOP_S) -> None:
        """Take no more messages, finish those in hand, put offsets down, leave the group and close.

        Handlers that are not done within ``timeout`` seconds are left alone: their messages come again elsewhere.
        Called by a handler it returns at once.
        """
        self._is_stopping = True
        for told in self.on_ended:
            told()
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(seconds(timeout)), name=f"litemq-stop-{self.group}")
        if self._member is None or not self._handling.is_caller():
            await asyncio.shield(self._stopping)

    async def _stop(self, timeout: float) -> None:
        member = self._member
        if member is None:
            return
        end = time.monotonic() + timeout
        await member.stop()
        if self._locks is not None:
            await self._locks.stop()
        if self._keeper is not None:
            self._keeper.cancel()
        for tenure in self._tenures.values():
            tenure.end()
        if not await self._handling.wait(timeout):
            logger.warning("stopped with handlers at work: group=%s count=%d", self.group, self._handling.in_hand)
        pending = [*self._chores, *self._leaving.values()]
        if pending:
            await asyncio.wait(pending, timeout=max(end - time.monotonic(), 0))
        await self._keeping.keep(self._tenures.values())
        if self._locks is not None:
            for tenure in self._tenures.values():
                if not tenure.running:
                    await self._locks.release(tenure.queue)
        await member.leave()
        await self._close(member)

    async def _close(self, member: GroupMember) -> None:
        for task in (*self._chores, *self._leaving.values()):
            task.cancel()
        for tenure in self._tenures.values():
            tenure.end()
        self._tenures.clear()
        if self._locks is not None:
            await self._locks.stop()
        await self._handling.stop()
        await member.stop()
        await member.net.close()

    async def wait(self) -> None:
        """Wait until ``stop`` is called, or until Ctrl-C or SIGTERM where signals come to this thread."""
        if self._is_stopping:
            return
        ended = asyncio.Event()
        self.on_ended.append(ended.set)
        loop = asyncio.get_running_loop()
        before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                before[number] = signal.getsignal(number)
                loop.add_signal_handler(number, ended.set)
        try:
            await ended.wait()
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)
            self.on_ended.remove(ended.set)

    async def __aenter__(self) -> AsyncPushConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.stop()

    # -- what applications ask ---------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """Who it is in its group."""
        return self._client_id

    @property
    def assignment(self) -> frozenset[TopicQueue]:
        """The queues that it reads at present."""
        return frozenset(queue for queue, tenure in self._tenures.items() if not tenure.is_ended)

    async def reply(self, message: Message, body: bytes) -> None:
        """Answer a request: the producer that waits in ``request`` gets ``body``.

        Raises:
            InvalidRequest: the message is no request.
            Unavailable: who asked is not there any more.
        """
        if self._member is None or self._is_stopping:
            raise Closed("this consumer does not run; replies are sent between start() and stop()")
        found = message.raw_properties
        if _CORRELATION not in found or _REPLY_TO not in found or _CLUSTER not in found:
            raise InvalidRequest(f"{message!r} is no request, so nobody waits for a reply; send it by request()")
        properties = {"MSG_TYPE": "reply", **{name: found[name] for name in (_CORRELATION, _REPLY_TO)}}
        if _TTL in found:
            properties[_TTL] = found[_TTL]
        member = self._member
        address = member.address_of(message.broker)
        now_ms = int(time.time() * 1000)
        await requests.reply(member.net, address, self.group, found[_CLUSTER], properties, body, now_ms)

    # -- queues come and go ------------------------------------------------------------------------

    def _share(self, share: set[RouteQueue]) -> None:
        if self._is_stopping:
            return
        for queue in [queue for queue in self._tenures if queue not in share]:
            self._revoke(queue)
        if self._locks is not None:
            self._locks.want(share - self._leaving.keys())
        else:
            for queue in sorted(share - self._tenures.keys(), key=str):
                self._begin(queue)
        self._limit()

    def _begin(self, queue: RouteQueue) -> Tenure:
        member = self._member
        assert member is not None
        tenure = self._tenures[queue] = Tenure(queue, self._handling.ready, self._placed)
        find = partial(self._find, queue)
        tenure.reader = QueueReader(member, queue, member.subscriptions[queue.topic], tenure, find)
        tenure.reader.limit(*shares(*self._prefetch, len(self._tenures)))
        tenure.reader.start()
        logger.info("queue taken up: group=%s queue=%s", self.group, queue)
        return tenure

    async def _find(self, queue: RouteQueue) -> int:
        member = self._member
        if self._locks is None and not self._is_broadcast and member is not None and member.has_others:
            await asyncio.sleep(_HANDOVER_S)
        return await self._keeping.find(queue)

    def _limit(self) -> None:
        limit = shares(*self._prefetch, len(self._tenures))
        for tenure in self._tenures.values():
            if tenure.reader is not None:
                tenure.reader.limit(*limit)

    def _revoke(self, queue: RouteQueue, *, is_lost: bool = False) -> None:
        """Give a queue up; with ``is_lost`` somebody else has it already."""
        tenure = self._tenures.pop(queue)
        tenure.is_revoked = True
        tenure.end()
        logger.info("queue given up: group=%s queue=%s", self.group, queue)
        task = asyncio.create_task(self._leave(tenure, is_lost=is_lost))
        self._leaving[queue] = task

        def gone(_task: asyncio.Task[None]) -> None:
            if self._leaving.get(queue) is task:
                del self._leaving[queue]
            if self._locks is not None and self._member is not None and not self._is_stopping:
                self._member.rebalance()  # it may be this member's again

        task.add_done_callback(gone)

    async def _leave(self, tenure: Tenure, *, is_lost: bool) -> None:
        if self._locks is not None:  # the next one gets the lock when the last message is done
            await tenure.left.wait()
        elif not is_lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_S):
                    await tenure.left.wait()
        if not is_lost:
            await self._keeping.keep([tenure])
            if self._locks is not None:
                await self._locks.release(tenure.queue)

    def _granted(self, queue: RouteQueue, until: float) -> None:
        tenure = self._tenures.get(queue)
        if self._is_stopping or queue in self._leaving:
            return
        if tenure is None:
            tenure = self._begin(queue)
            self._limit()
            tenure.locked_until = until
        elif tenure.locked_until:
            tenure.locked_until = until
        else:
            self._do(self._take_up_again(tenure, until))

    async def _take_up_again(self, tenure: Tenure, until: float) -> None:
        """Go on with a queue whose lock was away: somebody else may have had it meanwhile."""
        try:
            known = await self._keeping.known(tenure.queue)
        except LiteMQError:
            self._revoke_if_there(tenure)
            return
        if known is not None and tenure.offset is not None and known > tenure.offset and tenure.reader is not None:
            tenure.reader.seek(known)
            tenure.moved(known)
        tenure.locked_until = until
        self._handling.ready(tenure)

    def _revoke_if_there(self, tenure: Tenure) -> None:
        if self._tenures.get(tenure.queue) is tenure:
            self._revoke(tenure.queue, is_lost=True)

    def _refused(self, queue: RouteQueue) -> None:
        if queue in self._tenures and not self._is_stopping:
            self._revoke(queue, is_lost=True)

    def _lost(self, address: str) -> None:
        """Trust nothing that a broker knew before it went: neither its locks nor what it was told last."""
        if self._locks is not None:
            for queue in self._locks.lost(address):
                tenure = self._tenures.get(queue)
                if tenure is not None:
                    tenure.locked_until = 0.0
        for tenure in self._tenures.values():
            tenure.committed = None

    def _placed(self, tenure: Tenure) -> None:
        """Put down at once where a queue is read from: it is the group's place from now on, whatever is sent."""
        self._do(self._keeping.keep([tenure]))

    async def _keep_offsets(self) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            await self._keeping.keep(list(self._tenures.values()))

    # -- what handlers did -------------------------------------------------------------------------

    def _done(self, work: Work) -> None:
        tenure = work.tenure
        done = work.messages[: work.done]
        if done:
            tenure.attempts = 0
            tenure.finished(work, done)
        left = work.messages[work.done :]
        if not left:
            return
        error = work.error
        if error is None or isinstance(error, asyncio.CancelledError):
            tenure.again(work, left)
            return
        self._log(left[0], error)
        if self._is_ordered:
            self._suspend(work, left, error)
        elif self._is_broadcast:
            tenure.finished(work, left)
        elif not tenure.is_revoked:
            for message in left:
                self._do(self._give_back(work, message, error))

    def _suspend(self, work: Work, left: list[Message], error: BaseException) -> None:
        """Keep the order: the failed messages come first again, in a moment, or are dead letters before others come."""
        tenure = work.tenure
        tenure.attempts += 1
        is_over = self._max_attempts is not None and tenure.attempts >= self._max_attempts
        if not isinstance(error, Reject) and not is_over:
            tenure.again(work, left)
            delay = error.delay if isinstance(error, Retry) else None
            tenure.held_until = time.monotonic() + (_SUSPEND_S if delay is None else delay)
            return
        tenure.held_until = float("inf")
        tenure.again(work, left[self._batch :])
        self._do(self._bury(work, left[: self._batch], error))

    async def _bury(self, work: Work, messages: list[Message], error: BaseException) -> None:
        tenure = work.tenure
        while messages and not tenure.is_revoked:
            if self._is_broadcast or await self._was_sent_back(messages[0], give_up(error)):
                tenure.finished(work, [messages.pop(0)])
            elif self._is_stopping:
                return
            else:
                await asyncio.sleep(_SEND_AGAIN_S)
        tenure.release()
        tenure.attempts = 0
        tenure.held_until = 0.0
        self._handling.ready(tenure)

    async def _give_back(self, work: Work, message: Message, error: BaseException) -> None:
        tenure = work.tenure
        if await self._was_sent_back(message, after_error(error, self._max_attempts)):
            tenure.finished(work, [message])
            tenure.release()
            return
        if not self._is_stopping:
            await asyncio.sleep(_SEND_AGAIN_S)
            tenure.again(work, [message])
            self._handling.ready(tenure)

    async def _was_sent_back(self, message: Message, how: requests.SendBack) -> bool:
        member = self._member
        assert member is not None
        try:
            address = member.address_of(message.broker)
            await requests.send_back(member.net, address, self.group, message, message.topic, how)
        except LiteMQError as error:
            logger.warning("a message cannot be given back, trying on: %r reason=%s", message, error)
            return False
        return True

    def _log(self, message: Message, error: BaseException) -> None:
        if isinstance(error, Reject | Retry):
            logger.info("handler gives back: %r attempt=%d %r", message, message.attempt, error)
        else:
            logger.warning(
                "handler failed: group=%s id=%s attempt=%d %r",
                self.group,
                message.message_id,
                message.attempt,
                message,
                exc_info=error,
            )

    def _do(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    # -- what brokers ask --------------------------------------------------------------------------

    def is_handler(self) -> bool:
        """Return whether the caller is a handler."""
        return self._member is not None and self._handling.is_caller()

    def places(self) -> Iterable[tuple[RouteQueue, int, int]]:
        """Return queues, how far each is worked off, and how many of its messages are held."""
        for queue, tenure in self._tenures.items():
            if tenure.progress is not None:
                yield queue, tenure.progress.offset, tenure.progress.open_count

    def wanted(self) -> Mapping[str, Subscription]:
        """Return the subscriptions."""
        return self._member.subscriptions if self._member is not None else {}

    def reset(self, offsets: Mapping[RouteQueue, int]) -> None:
        """Go on at offsets that an operator set."""
        for queue, offset in offsets.items():
            tenure = self._tenures.get(queue)
            if tenure is not None and tenure.reader is not None:
                tenure.reader.seek(offset)
                tenure.moved(offset)

    async def handle_now(self, message: Message) -> BaseException | None:
        """Handle a message that an operator sent."""
        return await self._handling.handle_now(message)


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


def _breaker(given: Breaker | bool) -> Breaker | None:
    if isinstance(given, bool):
        return Breaker(failure_ratio=0.8, min_calls=20, open_s=60.0) if given else None
    return given
