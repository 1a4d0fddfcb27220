"""What brokers ask each other about batch transactions.

A broker that holds rows for long asks their coordinator what became of them; nobody drops rows without having asked.
A coordinator repeats its decision to brokers that have not confirmed it.  Clients do both first: this is for those
that died meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from litemq.broker.batch_transactions import BatchTransactions
from litemq.broker.registration import Registration
from litemq.clock import Clock
from litemq.errors import LiteMQError, NoAnswer, NotOnline
from litemq.features.batch_parts import Ask as AskFor
from litemq.features.batch_parts import Expire, Key, Repeat
from litemq.format import config_json
from litemq.format.batch_records import read_winners
from litemq.wire.remoting.bodies import dump, load
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response

logger = logging.getLogger(__name__)

_EVERY_MS = 1_000
_ANSWER_S = 5.0
_AT_ONCE = 16


class BatchPeers:
    """The links to other brokers, made when they are needed."""

    def __init__(self, batches: BatchTransactions, registration: Registration, clock: Clock) -> None:
        self._batches = batches
        self._registration = registration
        self._clock = clock
        self._links: dict[str, Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next_ms = 0
        self._troubles: dict[str, str] = {}
        self.asked = self.repeated = self.expired = 0

    def tick(self, now_ms: int) -> None:
        """Begin what is due."""
        if now_ms < self._next_ms or len(self._tasks) >= _AT_ONCE:
            return
        self._next_ms = now_ms + min(_EVERY_MS, self._batches.config.batch_ask_ms)
        config = self._batches.config
        free = _AT_ONCE - len(self._tasks)
        for todo in self._batches.core.due(
            now_ms, ask_ms=config.batch_ask_ms, expiry_ms=config.batch_expiry_ms, most=free
        ):
            match todo:
                case Expire(key):
                    self._expire(key)
                case AskFor(key, coordinator, is_expired):
                    self._begin(coordinator, self._ask(key, coordinator, is_expired=is_expired))
                case Repeat():
                    self._begin(todo.broker, self._repeat(todo))

    def _expire(self, key: Key) -> None:
        name = self._batches.core.name
        try:
            self._batches.abort(key, name, "expired (transaction.batch_expiry_ms)")
        except LiteMQError as error:  # it is tried again, and what comes after it is not held up
            if self._troubles.get(name) != str(error):
                logger.warning("an expired batch transaction cannot be aborted: %s reason=%s", key, error)
            self._troubles[name] = str(error)
        else:
            self.expired += 1
            logger.warning("batch transaction expired and is aborted: %s", key)

    def _begin(self, broker: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._try(broker, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try(self, broker: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (LiteMQError, ValueError) as error:  # it is tried again
            if self._troubles.get(broker) != str(error):
                logger.warning("batch transactions: no understanding with broker %s: reason=%s", broker, error)
            self._troubles[broker] = str(error)
        else:
            self._troubles.pop(broker, None)

    async def _ask(self, key: Key, coordinator: str, *, is_expired: bool) -> None:
        self.asked += 1
        ext = {
            "producerId": key.producer_id,
            "epoch": str(key.epoch),
            "broker": self._batches.core.name,
            "expired": "true" if is_expired else "false",
        }
        answer = await self._call(coordinator, Ask.LITEMQ_BATCH_STATUS, ext)
        told = load(answer.body, "what a coordinator says")
        match told.get("decision"):
            case "committed":
                self._batches.commit(key, read_winners(told.get("winners")), coordinator)
                logger.info("batch transaction committed as its coordinator says: %s", key)
            case "aborted":
                self._batches.abort(key, coordinator, "as its coordinator says")
                logger.info("batch transaction aborted as its coordinator says: %s", key)

    async def _repeat(self, todo: Repeat) -> None:
        self.repeated += 1
        key = todo.key
        ext = {
            "producerId": key.producer_id,
            "epoch": str(key.epoch),
            "decision": "commit",
            "coordinator": self._batches.core.name,
        }
        body = dump({"winners": [list(winner) for winner in todo.winners]})
        await self._call(todo.broker, Ask.LITEMQ_END_BATCH, ext, body)
        self._batches.confirm(key, todo.broker)

    async def _call(self, broker: str, code: int, ext: dict[str, str], body: bytes = b"") -> Response:
        link = await self._link(broker)
        try:
            answer = await link.call(code, ext, body, timeout_s=_ANSWER_S)
        except NoAnswer:
            self._links.pop(broker, None)  # it may come back at another address
            link.close()
            raise
        if answer.code != Code.SUCCESS:
            raise NotOnline(f"{broker} refuses: {answer.remark}")
        return answer

    async def _link(self, broker: str) -> Client:
        known = self._links.get(broker)
        if known is not None:
            return known
        answer = await self._registration.ask(Ask.GET_BROKER_CLUSTER_INFO, {})
        table = config_json.read(answer.body).get("brokerAddrTable")
        entry = table.get(broker) if isinstance(table, dict) else None
        addresses = entry.get("brokerAddrs") if isinstance(entry, dict) else None
        address = addresses.get("0") if isinstance(addresses, dict) else None
        if not isinstance(address, str):
            raise NotOnline(f"no name server knows broker {broker!r}")
        return self._links.setdefault(broker, Client(address))

    async def close(self) -> None:
        """Ask nobody any more."""
        for task in list(self._tasks):
            task.cancel()
        for link in self._links.values():
            link.close()
        self._links.clear()

    def report(self) -> dict[str, int]:
        """Return what request 31001 tells."""
        return {"asked": self.asked, "repeated": self.repeated, "expired": self.expired}
