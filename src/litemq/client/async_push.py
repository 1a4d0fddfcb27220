"""The consumer that calls the application, on an event loop: asyncio's face, and the core of the blocking one."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from litemq.client import broker_questions
from litemq.client import consumer_requests as requests
from litemq.client import subscription as wants
from litemq.client._message_cy import Message
from litemq.client.chores import Chores
from litemq.client.giving_back import GivingBack
from litemq.client.group_member import Deal, GroupMember, check_strategy, new_client_id
from litemq.client.handling import Handler, Handling
from litemq.client.names import check_name
from litemq.client.offset_files import OffsetFile
from litemq.client.offset_keeping import OffsetKeeping
from litemq.client.routes import TopicQueue, name_servers
from litemq.client.stop_signal import SIGNALS
from litemq.client.subscription import Start, Subscription, Wanted
from litemq.client.tenancy import Tenancy
from litemq.client.values import check_count, seconds
from litemq.errors import Closed, InvalidRequest
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
        check_name("group", group)
        if not callable(handler):
            raise InvalidRequest(f"the handler must be a function that takes a message, not {handler!r}")
        for name, count in (("concurrency", concurrency), ("prefetch", prefetch), ("batch", batch)):
            check_count(name, count)
        check_count("prefetch_bytes", prefetch_bytes)
        if max_attempts is not None:
            check_count("max_attempts", max_attempts)
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
        self._member: GroupMember | None = None
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
        file = OffsetFile(self._offset_dir, self.group, self._instance) if self._is_broadcast else None
        if file is not None:
            file.read()
        self._chores = Chores()
        self._handling = Handling(
            self._handler,
            f"litemq-{self.group}",
            concurrency=self._concurrency,
            batch=self._batch,
            is_ordered=self._is_ordered,
            breaker=self._breaker,
            on_done=lambda work: self._giving_back.done(work),
        )
        self._giving_back = GivingBack(
            member,
            self._handling,
            self._chores,
            is_ordered=self._is_ordered,
            is_broadcast=self._is_broadcast,
            batch=self._batch,
            max_attempts=self._max_attempts,
        )
        self._tenancy = Tenancy(
            member,
            self._handling,
            OffsetKeeping(member, self._start, file),
            self._chores,
            prefetch=self._prefetch,
            takes_locks=self._is_ordered and not self._is_broadcast,
            is_broadcast=self._is_broadcast,
        )
        self._member = member
        try:
            await member.start()
        except BaseException:
            self._is_stopping = True
            await self._close(member)
            raise

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
            on_shares=lambda share: self._tenancy.share(share),
            on_lost=lambda address: self._tenancy.lost(address),
            on_back=lambda: self._tenancy.back(),
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
        self._tenancy.end()
        if not await self._handling.wait(timeout):
            logger.warning("stopped with handlers at work: group=%s count=%d", self.group, self._handling.in_hand)
        await self._chores.finish(end - time.monotonic())
        await self._tenancy.leave()
        await member.leave()
        await self._close(member)

    async def _close(self, member: GroupMember) -> None:
        self._chores.cancel()
        await self._tenancy.close()
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
        if self._member is None:
            return frozenset()
        return frozenset(queue for queue, tenure in self._tenancy.tenures.items() if not tenure.is_ended)

    async def reply(self, message: Message, body: bytes) -> None:
        """Answer a request: the producer that waits in ``request`` gets ``body``.

        Raises:
            InvalidRequest: the message is no request.
            Unavailable: who asked is not there any more.
        """
        if self._member is None:
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

    # -- what brokers ask --------------------------------------------------------------------------

    def is_handler(self) -> bool:
        """Return whether the caller is a handler."""
        return self._member is not None and self._handling.is_caller()

    def places(self) -> Iterable[tuple[TopicQueue, int, int]]:
        """Return queues, how far each is worked off, and how many of its messages are held."""
        for queue, tenure in self._tenancy.tenures.items():
            if tenure.progress is not None:
                yield queue, tenure.progress.offset, tenure.progress.open_count

    def wanted(self) -> Mapping[str, Subscription]:
        """Return the subscriptions."""
        return self._member.subscriptions if self._member is not None else {}

    def reset(self, offsets: Mapping[TopicQueue, int]) -> None:
        """Go on at offsets that an operator set."""
        self._tenancy.reset(offsets)

    async def handle_now(self, message: Message) -> BaseException | None:
        """Handle a message that an operator sent."""
        return await self._handling.handle_now(message)


def _breaker(given: Breaker | bool) -> Breaker | None:
    if isinstance(given, bool):
        return Breaker(failure_ratio=0.8, min_calls=20, open_s=60.0) if given else None
    made: object = given
    if not isinstance(made, Breaker):
        raise InvalidRequest(f"breaker={given!r} must be True, False, or a Breaker of litemq.features.breaker")
    return made
