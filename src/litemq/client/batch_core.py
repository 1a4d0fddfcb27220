"""The core of batch transactions: rows go to the brokers of their queues, the decision to the coordinator.

stage    a question to the coordinator (has the epoch ended?), then requests to brokers, each with its number
commit   every broker counts its rows; the coordinator decides; then the others are told

Whatever gets no answer is said again: a broker that heard it already says so, and nothing is doubled.  Whom a commit
does not reach is told by the coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeVar

from litemq.client._message_cy import Message
from litemq.client.answers import error_of, json_object
from litemq.client.coordinators import Coordinators
from litemq.client.net import Net
from litemq.client.routes import Routes, TopicQueue, name_servers
from litemq.client.staging import REQUEST_BYTES, Row, Staged, Staging
from litemq.client.values import seconds
from litemq.errors import (
    Closed,
    InvalidRequest,
    LiteMQError,
    NoAnswer,
    NotCoordinator,
    OutcomeUnknown,
    RowsMissing,
    StaleEpoch,
    TransactionOver,
    Unavailable,
)
from litemq.wire.remoting.bodies import dump
from litemq.wire.remoting.codes import BINARY, Ask, Code
from litemq.wire.remoting.command import Request, Response

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 30.0
_AT_ONCE: Final = 4_096
"""Messages that are looked at together."""
_BYTES_AT_ONCE: Final = 4 << 20
"""Bytes of their bodies: bodies may be large, and whoever stages may have little memory."""
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5
_ANSWER_S: Final = 10.0
T = TypeVar("T")
_REASONS: Final[dict[str, type[LiteMQError]]] = {
    kind.code: kind for kind in (StaleEpoch, TransactionOver, RowsMissing, NotCoordinator)
}


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """What the coordinator knows of a batch transaction, and its own share of the rows.

    >>> with litemq.BatchTransactions() as batches:
    ...     batches.status("nobody", 3).state
    'unknown'
    """

    state: str
    """``unknown``, ``open``, ``committed``, ``aborted``, or ``stale``: a later epoch of the producer ended."""
    last_epoch: int | None
    """The last epoch of the producer that ended."""
    rows: int
    """Committed rows on all brokers; of an open transaction the staged ones here."""
    unpublished: int
    """Rows of the coordinator that are on their way to their topics."""
    unconfirmed: tuple[str, ...]
    """Brokers that have not confirmed the decision yet."""
    coordinator: str
    reason: str
    """Why it was aborted."""


class BatchCore:
    """Stages and ends batch transactions over any network."""

    def __init__(self, net: Net, nameservers: str | Sequence[str] | None, *, timeout: float) -> None:
        self._timeout = seconds(timeout)
        if not self._timeout > 0:
            raise InvalidRequest(f"timeout is {timeout!r}, it must be seconds above 0")
        self._net = net
        self._routes = Routes(net, name_servers(nameservers), timeout=min(self._timeout, 3.0))
        self._coordinators = Coordinators(net, self._routes)
        self._is_closed = False

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        await self._net.close()

    # -- staging -----------------------------------------------------------------------------------

    async def stage(
        self, producer_id: str, epoch: int, partition: int, attempt: int, messages: Iterable[Row]
    ) -> Staged:
        """Stage rows; see ``litemq.BatchTransactions.stage``."""
        _check_key(producer_id, epoch)
        for what, number in (("partition", partition), ("attempt", attempt)):
            if type(number) is not int or not 0 <= number < 1 << 63:
                raise InvalidRequest(f"{what} must be a whole number from 0 to 2**63 - 1, not {number!r}")
        status = await self._status(producer_id, epoch)
        if status["state"] == "stale":
            raise StaleEpoch(
                f"epoch {epoch} of producer {producer_id!r} is stale: epoch {status['last_epoch']} has ended"
            )
        coordinator = str(status["coordinator"])
        staging = Staging(self, producer_id, epoch, partition, attempt, coordinator)
        staging.limit = min(REQUEST_BYTES, int(status["max_stage_bytes"]))
        if status["state"] in ("committed", "aborted"):
            return staging.result(status["state"])
        batch: list[Row] = []
        size = 0
        for row in messages:
            batch.append(row)
            size += _size(row)
            if len(batch) == _AT_ONCE or size >= _BYTES_AT_ONCE:
                if (ended := await staging.take(batch)) is not None:
                    return staging.result(ended)
                batch, size = [], 0
        if (ended := await staging.take(batch) or await staging.flush()) is not None:
            return staging.result(ended)
        return staging.result("staged")

    # -- ending ------------------------------------------------------------------------------------

    async def commit(self, producer_id: str, epoch: int, winners: Iterable[Staged]) -> int:
        """Commit; see ``litemq.BatchTransactions.commit``."""
        _check_key(producer_id, epoch)
        given = list(winners)
        for staged in given:
            if (staged.producer_id, staged.epoch) != (producer_id, epoch):
                raise InvalidRequest(
                    f"{staged!r} was staged for another transaction than epoch {epoch} of producer {producer_id!r}"
                )
        winning = [one for one in given if one.state == "staged"]
        coordinator = await self._coordinator(producer_id)
        others = sorted({broker for one in given for broker, rows in one.rows.items() if rows} - {coordinator})
        shares = {
            broker: [
                [one.partition, one.attempt, {broker: one.rows[broker]}] for one in winning if one.rows.get(broker)
            ]
            for broker in others
        }
        told = [[one.partition, one.attempt, one.rows] for one in winning]
        if others and (await self._status(producer_id, epoch))["state"] not in ("committed", "aborted", "stale"):
            for broker in others:
                await self._end(broker, producer_id, epoch, "prepare", coordinator, shares[broker])
        answer = await self._end(coordinator, producer_id, epoch, "commit", coordinator, told)
        for broker in others:
            try:
                await self._end(broker, producer_id, epoch, "commit", coordinator, shares[broker], once=True)
            except LiteMQError as error:
                logger.warning(
                    "a broker was not told of a commit, its coordinator will: broker=%s producer=%s epoch=%d reason=%s",
                    *(broker, producer_id, epoch, error),
                )
        return int(answer.ext.get("rows", "0"))

    async def abort(self, producer_id: str, epoch: int, reason: str = "") -> None:
        """Abort; see ``litemq.BatchTransactions.abort``."""
        _check_key(producer_id, epoch)
        coordinator = await self._coordinator(producer_id)
        ext = {"reason": reason} if reason else {}
        await self._end(coordinator, producer_id, epoch, "abort", coordinator, more=ext)
        await self._tell_others(coordinator, producer_id, epoch, "abort", ext)

    async def discard(self, producer_id: str, epoch: int, staged: Staged | None = None) -> None:
        """Drop rows; see ``litemq.BatchTransactions.discard``."""
        _check_key(producer_id, epoch)
        coordinator = await self._coordinator(producer_id)
        ext = {} if staged is None else {"partition": str(staged.partition), "attempt": str(staged.attempt)}
        answer = await self._end(coordinator, producer_id, epoch, "drop", coordinator, more=ext)
        if answer.ext.get("state") == "open":  # else rows on other brokers may have won
            await self._tell_others(coordinator, producer_id, epoch, "drop", ext)

    async def status(self, producer_id: str, epoch: int) -> BatchStatus:
        """Ask the coordinator; see ``litemq.BatchTransactions.status``."""
        _check_key(producer_id, epoch)
        found = await self._status(producer_id, epoch)
        return BatchStatus(
            state=found["state"],
            last_epoch=found["last_epoch"],
            rows=found["rows"],
            unpublished=found["unpublished"],
            unconfirmed=tuple(found["unconfirmed"]),
            coordinator=found["coordinator"],
            reason=found["reason"],
        )

    async def _tell_others(self, but: str, producer_id: str, epoch: int, decision: str, ext: dict[str, str]) -> None:
        """Tell every broker; whom it does not reach asks the coordinator some day."""
        for broker in await self._patiently(self._coordinators.brokers):
            if broker != but:
                try:
                    await self._end(broker, producer_id, epoch, decision, but, once=True, more=ext)
                except LiteMQError as error:
                    logger.info("a broker was not told: broker=%s decision=%s reason=%s", broker, decision, error)

    async def _status(self, producer_id: str, epoch: int) -> dict[str, Any]:
        coordinator = await self._coordinator(producer_id)
        ext = {"producerId": producer_id, "epoch": str(epoch)}
        return json_object(await self.ask(coordinator, Ask.LITEMQ_BATCH_STATUS, ext))

    async def _end(
        self,
        broker: str,
        producer_id: str,
        epoch: int,
        decision: str,
        coordinator: str,
        winners: Sequence[object] = (),
        *,
        once: bool = False,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> Response:
        ext = {
            "producerId": producer_id,
            "epoch": str(epoch),
            "decision": decision,
            "coordinator": coordinator,
            **more,
        }
        return await self.ask(broker, Ask.LITEMQ_END_BATCH, ext, dump({"winners": list(winners)}), once=once)

    async def _coordinator(self, producer_id: str) -> str:
        return await self._patiently(lambda: self._coordinators.of(producer_id))

    async def _patiently(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return what name servers and brokers say; those that are away are waited for."""
        deadline, pause = self._net.now() + self._timeout, _FIRST_PAUSE_S
        while True:
            try:
                return await question()
            except Unavailable:
                if self._net.now() + pause >= deadline:
                    raise
            await self._net.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    # -- asking ------------------------------------------------------------------------------------

    async def ask(
        self, broker: str, code: Ask, ext: dict[str, str], body: bytes = b"", *, once: bool = False
    ) -> Response:
        """Ask a broker until it answers, which may be after its next start.

        Raises:
            Unavailable: it did not within ``timeout``; with ``once``, at the first attempt.
            InvalidRequest: it refuses.
        """
        if self._is_closed:
            raise Closed("it is closed; make a new one")
        deadline, pause, failed = self._net.now() + self._timeout, _FIRST_PAUSE_S, False
        while True:
            try:
                address = await self._coordinators.address(broker, fresh=failed)
                left = max(min(deadline - self._net.now(), _ANSWER_S), 0.01)
                answer = await self._net.call(address, Request(code, ext, body, codec=BINARY), left)
                if answer.code == Code.SUCCESS:
                    return answer
                error = _refusal(answer, address)
            except (NoAnswer, OutcomeUnknown, Unavailable) as lost:
                error, failed = lost, True
            if not isinstance(error, Unavailable) or once or self._net.now() + pause >= deadline:
                raise error
            await self._net.sleep(max(pause, min(error.retry_after or 0.0, _LONGEST_PAUSE_S)))
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def queues(self, topic: str) -> Sequence[TopicQueue]:
        """Return the queues that a topic's messages can go to.

        Raises:
            UnknownTopic: there is none, and none would be made.
            Unavailable: there is none now.
        """
        route = await self._patiently(lambda: self._routes.find_for_send(topic, timeout=self._timeout))
        found = route.writable
        if not found:
            raise Unavailable(f"no broker takes messages for the topic {topic!r}; look at litemq cluster health")
        return found


def _size(row: object) -> int:
    """Return the bytes of a row's body; 0 for what is no row, which ``Staging`` refuses."""
    message = row[0] if isinstance(row, tuple) and row else row
    return len(message.body) if isinstance(message, Message) else 0


def _check_key(producer_id: str, epoch: int) -> None:
    if type(producer_id) is not str or not 0 < len(producer_id.encode("utf-8", "replace")) <= 255:
        raise InvalidRequest(f"a producer id is a text of 1 to 255 bytes, not {producer_id!r}")
    if type(epoch) is not int or not 0 <= epoch < 1 << 63:
        raise InvalidRequest(f"an epoch is a whole number from 0 to 2**63 - 1, not {epoch!r}")


def _refusal(answer: Response, address: str) -> LiteMQError:
    kind = _REASONS.get(answer.ext.get("reason", ""))
    return error_of(answer, address) if kind is None else kind(f"{address} refuses: {answer.remark}")
