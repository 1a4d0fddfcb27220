"""Answers brokers that ask what became of a transaction: ``check`` decides, on a thread or as a task."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from litemq.client._message_cy import Message, decode_messages
from litemq.client.answers import check as granted
from litemq.client.answers import json_object
from litemq.client.chores import Chores
from litemq.client.group_member import new_client_id
from litemq.client.net import LoopNet
from litemq.client.presence import Presence
from litemq.client.routes import Routes
from litemq.client.transaction_ends import Decision, as_decision
from litemq.client.worker_threads import WorkerThreads
from litemq.errors import InvalidRequest, LiteMQError
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request
from litemq.wire.remoting.connection import Connection

logger = logging.getLogger(__name__)

Check = Callable[[Message], Decision] | Callable[[Message], Awaitable[Decision]]
"""Says what became of the transaction of a message: ``COMMIT``, ``ROLLBACK``, or ``UNKNOWN`` when it still runs."""

_AT_ONCE: Final = 4
_MOST: Final = 10_000
"""Questions that may wait; brokers repeat what is not answered."""
_ANSWER_S: Final = 3.0
_WARN_S: Final = 30.0


@dataclass(slots=True)
class Question:
    """One question of a broker, and what ``check`` says to it."""

    connection: Connection
    ext: dict[str, str]
    message: Message
    decision: Decision = Decision.UNKNOWN
    key: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.key = (self.connection.peer, self.ext.get("commitLogOffset", ""))


class TransactionChecks:
    """Keeps a producer group known to all brokers, and answers what they ask; lives on an event loop."""

    def __init__(self, servers: Sequence[str], group: str, check: Check) -> None:
        if not callable(check):
            raise InvalidRequest(f"check must be a function that takes a message and says COMMIT, not {check!r}")
        self._group = group
        self._check = check
        self._is_async = inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(type(check).__call__)
        self._client_id = new_client_id("transactions")
        self._net = LoopNet({Ask.CHECK_TRANSACTION_STATE: self._on_question}, lambda it: self.presence.on_lost(it))
        self._routes = Routes(self._net, servers)
        self.presence = Presence(self._net, f"producer group {group}", self._find, self._heartbeat)
        self._threads: WorkerThreads[Question] | None = None
        self._chores = Chores()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._open: set[tuple[str, str]] = set()
        self._warned_at = float("-inf")
        self._is_closed = False

    def start(self) -> None:
        """Begin, in the background: brokers are looked for as long as there are none."""
        if not self._is_async and self._threads is None:
            self._threads = WorkerThreads(_AT_ONCE, f"litemq-check-{self._group}", self._ask, self._answer_all)
        self.presence.start()

    async def stop(self) -> None:
        """Leave the group, finish what is in hand, and close."""
        self._is_closed = True
        await self.presence.stop()
        leaving = (self._leave(address) for address in self.presence.known_to)
        await asyncio.gather(*leaving)
        if self._threads is not None:
            self._threads.stop()
            await asyncio.get_running_loop().run_in_executor(None, self._threads.join, 1.0)
            await asyncio.sleep(0)  # what threads finished is collected in the loop's next round
        await self._chores.finish(1.0)
        self._chores.cancel()
        await self._net.close()

    # -- who is there ------------------------------------------------------------------------------

    async def _find(self) -> Iterable[str]:
        """Return the masters of the cluster: any of them may have messages of this group, also of one that died."""
        found = json_object(granted(await self._routes.ask(Ask.GET_BROKER_CLUSTER_INFO), "the name server"))
        brokers = (found.get("brokerAddrTable") or {}).values()
        return [broker["brokerAddrs"]["0"] for broker in brokers if "0" in broker["brokerAddrs"]]

    def _heartbeat(self) -> bytes:
        beat = {"clientID": self._client_id, "producerDataSet": [{"groupName": self._group}], "consumerDataSet": []}
        return json.dumps(beat, separators=(",", ":")).encode()

    async def _leave(self, address: str) -> None:
        ext = {"clientID": self._client_id, "producerGroup": self._group}
        try:
            await self._net.call(address, Request(Ask.UNREGISTER_CLIENT, ext), _ANSWER_S)
        except LiteMQError as error:  # it finds out when the connection ends
            logger.debug("not unregistered: address=%s reason=%s", address, error)

    # -- questions ---------------------------------------------------------------------------------

    def _on_question(self, connection: Connection, request: Request) -> None:
        if self._is_closed:
            return
        try:
            messages = decode_messages(request.body, broker=request.ext.get("bname", ""))
        except LiteMQError as error:
            logger.warning("a broker asks about what is no message: address=%s reason=%s", connection.peer, error)
            return
        for message in messages[:1]:
            group = message.raw_properties.get("PGROUP", self._group)
            question = Question(connection, request.ext, message)
            if group != self._group or question.key in self._open:
                continue
            if len(self._open) >= _MOST:
                self._warn_of_many()
                continue
            self._open.add(question.key)
            if self._threads is not None:
                self._threads.put(question)
            else:
                self._chores.do(self._ask_task(question))

    def _warn_of_many(self) -> None:
        now = time.monotonic()
        if now - self._warned_at >= _WARN_S:
            self._warned_at = now
            logger.warning("%d transactions wait for check already, group=%s; others wait", _MOST, self._group)

    def _ask(self, question: Question) -> None:
        """Ask the application, on a thread."""
        if self._is_closed:
            return
        try:
            said: Any = self._check(question.message)
            question.decision = as_decision(said, "check")
        except BaseException as error:  # noqa: BLE001 - whatever it raises, the broker asks again
            self._failed(question, error)

    async def _ask_task(self, question: Question) -> None:
        async with self._slots:
            try:
                said: Any = self._check(question.message)
                question.decision = as_decision(await said, "check")
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(question, error)
        await self._answer(question)

    def _failed(self, question: Question, error: BaseException) -> None:
        logger.warning(
            "check failed, the broker will ask again: group=%s message=%s",
            self._group,
            question.message.message_id,
            exc_info=error,
        )

    def _answer_all(self, questions: list[Question]) -> None:
        for question in questions:
            self._chores.do(self._answer(question))

    async def _answer(self, question: Question) -> None:
        """Tell the broker, with exactly the handles that it asked with."""
        self._open.discard(question.key)
        if self._is_closed and question.decision is Decision.UNKNOWN:
            return
        asked = question.ext
        handles = ("tranStateTableOffset", "commitLogOffset", "msgId", "bname")
        ext = {
            **{name: asked[name] for name in handles if name in asked},
            "producerGroup": self._group,
            "commitOrRollback": str(int(question.decision)),
            "fromTransactionCheck": "true",
            "transactionId": asked.get("transactionId") or question.message.message_id,
            "topic": question.message.topic,
        }
        ext.setdefault("msgId", question.message.message_id)
        try:
            answer = await question.connection.call(Ask.END_TRANSACTION, ext, timeout_s=_ANSWER_S)
            granted(answer, question.connection.peer)
        except LiteMQError as error:
            logger.warning(
                "what check said was not taken: message=%s said=%s reason=%s",
                question.message.message_id,
                question.decision.name,
                error,
            )
