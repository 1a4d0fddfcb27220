"""The producers of the soak: ordered, tagged, in batches, and what will be sent back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from tests.soak.ledger import Ledger
from tests.soak.load import BATCHES, ORDERS, QUEUES, RETRIED, TAGGED, body_of, tag_of
from tests.support import raw_client as raw

from litemq.errors import NoAnswer
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code

_BATCH = 8
_PAUSE_S = 0.2


class Producers:
    """Sends until stopped; what is not acknowledged counts as not sent."""

    def __init__(self, address: str, ledger: Ledger, rate: int) -> None:
        self._client = Client(address)
        self._ledger = ledger
        self._is_stopping = asyncio.Event()
        self.refused = 0
        """Sends that were answered with an error, or not at all."""
        share = rate / 4
        jobs = [
            *(self._pace(share / QUEUES, self._order(queue)) for queue in range(QUEUES)),
            self._pace(share, self._single(TAGGED)),
            self._pace(share / _BATCH, self._batch()),
            self._pace(share, self._single(RETRIED)),
        ]
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def stop(self) -> None:
        """Finish what was begun."""
        self._is_stopping.set()
        await asyncio.gather(*self._tasks)
        self._client.close()

    def failed(self) -> BaseException | None:
        """Return why a producer has ended before its time."""
        ended = [task for task in self._tasks if task.done()]
        return next((error for task in ended if (error := task.exception()) is not None), None)

    async def _pace(self, per_s: float, send: Callable[[], Awaitable[None]]) -> None:
        """Send so many a second, one after the other; what is late is not made up for."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._is_stopping.is_set():
            await send()
            due = max(due + 1 / per_s, loop.time() - 1.0)
            await asyncio.sleep(max(due - loop.time(), 0))

    def _order(self, queue: int) -> Callable[[], Awaitable[None]]:
        """Return a sender of one queue: the serials of a queue rise with the order in which they were sent."""
        serials = itertools.count(queue, QUEUES)

        async def send() -> None:
            serial = next(serials)
            found = {"UNIQ_KEY": f"{ORDERS}{serial}", "__SHARDINGKEY": f"key{queue}"}
            await self._send(Ask.SEND_MESSAGE_V2, ORDERS, queue, found, body_of(ORDERS, serial), [serial])

        return send

    def _single(self, topic: str) -> Callable[[], Awaitable[None]]:
        serials = itertools.count()

        async def send() -> None:
            serial = next(serials)
            tag = tag_of(serial) if topic == TAGGED else ""
            found = {"UNIQ_KEY": f"{topic}{serial}", **({"TAGS": tag} if tag else {}), "KEYS": f"k{serial % 1000}"}
            body = body_of(topic, serial, tag=tag)
            await self._send(Ask.SEND_MESSAGE_V2, topic, serial % QUEUES, found, body, [serial])

        return send

    def _batch(self) -> Callable[[], Awaitable[None]]:
        firsts = itertools.count(0, _BATCH)

        async def send() -> None:
            first = next(firsts)
            serials = list(range(first, first + _BATCH))
            entries = [(body_of(BATCHES, serial), {"UNIQ_KEY": f"{BATCHES}{serial}"}) for serial in serials]
            queue = first // _BATCH % QUEUES
            await self._send(Ask.SEND_BATCH_MESSAGE, BATCHES, queue, {}, raw.batch_body(entries), serials)

        return send

    async def _send(
        self, code: int, topic: str, queue: int, found: dict[str, str], body: bytes, serials: list[int]
    ) -> None:
        ext = raw.send_ext(topic, queue, found, is_batch=code == Ask.SEND_BATCH_MESSAGE)
        try:
            answer = await self._client.call(code, ext, body, timeout_s=10)
        except NoAnswer:
            self.refused += 1
            await asyncio.sleep(_PAUSE_S)
            return
        if answer.code != Code.SUCCESS:
            self.refused += 1
            await asyncio.sleep(_PAUSE_S)
            return
        for serial in serials:
            self._ledger.note_sent(topic, serial)
