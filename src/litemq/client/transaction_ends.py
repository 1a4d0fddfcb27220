"""The core of transactions: half messages that nobody sees, and how they are ended.

half    a send with TRAN_MSG and PGROUP; its answer tells the handles: queue offset, position in the log
end     one request for each half: commit, rollback, or unknown; may be repeated
asked   a half that is not ended in time: the broker asks the group's ``check`` (``transaction_checks``)
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from typing import Final

from litemq.client._message_cy import Message
from litemq.client._sends_cy import Sent
from litemq.client.answers import error_of
from litemq.client.producing import Producing
from litemq.client.sending import SendCore
from litemq.client.values import seconds
from litemq.errors import Closed, InvalidRequest, LiteMQError, NoAnswer, OutcomeUnknown, Unavailable
from litemq.format import properties
from litemq.format.message_id import parse_offset_id
from litemq.format.names import UNIQ_KEY
from litemq.wire.remoting.codes import BINARY, Ask, Code
from litemq.wire.remoting.command import Request

logger = logging.getLogger(__name__)

_PREPARED: Final = 4
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 0.5


class Decision(IntEnum):
    """What becomes of a transaction; ``litemq.COMMIT``, ``litemq.ROLLBACK`` and ``litemq.UNKNOWN`` are its values.

    >>> paid = {"o-17"}
    >>> def check(message):
    ...     return litemq.COMMIT if message.keys[0] in paid else litemq.ROLLBACK
    >>> check(litemq.Message("orders", b"17 apples", keys="o-17")).name
    'COMMIT'
    """

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


COMMIT: Final = Decision.COMMIT
ROLLBACK: Final = Decision.ROLLBACK
UNKNOWN: Final = Decision.UNKNOWN


def as_decision(said: object, who: str) -> Decision:
    """Return what a function of the application says.

    Raises:
        InvalidRequest: it says something else.
    """
    if isinstance(said, Decision):
        return said
    raise InvalidRequest(f"{who} must return litemq.COMMIT, litemq.ROLLBACK or litemq.UNKNOWN, not {said!r}")


def check_after_s(given: float | timedelta | None) -> int | None:
    """Return after how many whole seconds brokers may ask; None: as they are set up.

    Raises:
        InvalidRequest: it is none.
    """
    if given is None:
        return None
    wanted = seconds(given)
    if not wanted > 0:
        raise InvalidRequest(f"check_after is {given}, it must be above 0 seconds")
    return math.ceil(wanted)


@dataclass(frozen=True, slots=True)
class Half:
    """What ends a half message: where it is."""

    topic: str
    broker: str
    position: int
    queue_offset: int
    message_id: str


class Halves:
    """Sends half messages of a producer group, and ends them."""

    def __init__(self, shared: Producing) -> None:
        self._shared = shared
        self._group = shared.settings.group
        self._retries = shared.settings.retries
        self._net = shared.net
        # A half that may be stored is not sent again: both could be committed.
        self._core: SendCore = shared.make_core(shared.net)
        self._core.settings = replace(shared.settings, retries=0)

    def begin(self, check_after: float | timedelta | None) -> OpenTransaction:
        """Begin a transaction."""
        if self._shared.is_closed:
            raise Closed("the producer is closed; make a new one")
        return OpenTransaction(self, check_after_s(check_after))

    def deadline(self, timeout: float | None = None) -> float:
        """Return when a call that begins now must be done."""
        return self._shared.deadline(timeout)

    async def send(self, message: Message, deadline: float, check_after: int | None) -> tuple[Sent, Half]:
        """Send a half message; return where it is.

        Raises:
            OutcomeUnknown: it may be stored; the broker will ask what became of it.
            Unavailable: it is not.
            InvalidRequest: it never will be.
        """
        outgoing = self._shared.outgoing(message)
        pairs = [("TRAN_MSG", "true"), ("PGROUP", self._group)]
        if check_after is not None:
            pairs.append(("CHECK_IMMUNITY_TIME_IN_SECONDS", str(check_after)))
        outgoing.sys_flag |= _PREPARED
        outgoing.text += properties.write(pairs)
        tries, pause = 0, _FIRST_PAUSE_S
        while True:
            try:
                (sent,) = await self._core.deliver([outgoing], deadline)
                break
            except OutcomeUnknown:
                raise
            except Unavailable:
                tries += 1
                if tries > self._retries or self._net.now() + pause >= deadline:
                    raise
            await self._net.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
        parsed = parse_offset_id(sent.offset_id)
        if parsed is None:
            raise OutcomeUnknown(
                f"{sent.broker} stored a half message, but does not say where ({sent.offset_id!r}); it will ask"
            )
        return sent, Half(sent.topic, sent.broker, parsed[1], sent.queue_offset, sent.message_id)

    async def end(self, half: Half, decision: Decision, deadline: float) -> None:
        """Tell a half's broker what becomes of it, until it has heard; may be repeated.

        Raises:
            Unavailable: it may not have heard; it will ask.
            InvalidRequest: it refuses; the text says why.
        """
        pause = _FIRST_PAUSE_S
        while True:
            try:
                address = await self._address(half, deadline)
                answer = await self._net.call(address, self._request(half, decision), self._left(deadline))
            except (NoAnswer, OutcomeUnknown) as error:
                self._core.routes.forget(half.topic)
                failed: LiteMQError = error
            else:
                if answer.code == Code.SUCCESS:
                    return
                failed = error_of(answer, address)
                if answer.code == Code.ILLEGAL_OPERATION:  # too late: the broker asks by now
                    raise Unavailable(str(failed))
                if answer.code == Code.SYSTEM_ERROR:
                    raise InvalidRequest(str(failed))
                if not isinstance(failed, Unavailable):
                    raise failed
            if self._net.now() + pause >= deadline:
                raise failed
            await self._net.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _address(self, half: Half, deadline: float) -> str:
        route = await self._core.routes.find_for_send(half.topic, timeout=self._left(deadline))
        address = route.addresses.get(half.broker)
        if address is None:
            raise NoAnswer(f"no address of {half.broker} is known, which has the half message {half.message_id}")
        return address

    def _left(self, deadline: float) -> float:
        return max(deadline - self._net.now(), 0.01)

    def _request(self, half: Half, decision: Decision) -> Request:
        return Request(
            Ask.END_TRANSACTION,
            {
                "producerGroup": self._group,
                "tranStateTableOffset": str(half.queue_offset),
                "commitLogOffset": str(half.position),
                "commitOrRollback": str(int(decision)),
                "fromTransactionCheck": "false",
                "msgId": half.message_id,
                "transactionId": half.message_id,
                "topic": half.topic,
                "bname": half.broker,
            },
            codec=BINARY,  # its answer comes so, too, and is quicker to read
        )


class OpenTransaction:
    """Half messages that end together."""

    def __init__(self, halves: Halves, check_after: int | None) -> None:
        self._halves = halves
        self._check_after = check_after
        self._open: list[Half] = []
        self.decision: Decision | None = None
        """None as long as it runs."""

    def check_open(self) -> None:
        """Refuse what comes too late."""
        if self.decision is not None:
            raise InvalidRequest(f"this transaction is over ({self.decision.name}); begin another one")

    async def send(self, message: Message, timeout: float | None) -> Sent:
        """Send a half message."""
        self.check_open()
        sent, half = await self._halves.send(message, self._halves.deadline(timeout), self._check_after)
        self._open.append(half)
        return sent

    async def end(self, decision: Decision) -> None:
        """End all halves; once more does no harm, otherwise than before is refused.

        Raises:
            InvalidRequest: it was ended otherwise before, or a broker refuses; the others are told all the same.
        """
        if self.decision is not None and self.decision is not decision:
            raise InvalidRequest(f"this transaction is over ({self.decision.name}), it cannot end as {decision.name}")
        self.decision = decision
        refused: LiteMQError | None = None
        deadlines: dict[str, float] = {}  # of each broker: one that is silent takes no time from others
        while self._open:
            half = self._open[0]
            deadline = deadlines.setdefault(half.broker, self._halves.deadline())
            try:
                await self._halves.end(half, decision, deadline)
            except Unavailable as error:
                logger.warning(
                    "end of a transaction not told, the broker will ask: message=%s end=%s reason=%s",
                    half.message_id,
                    decision.name,
                    error,
                )
            except LiteMQError as error:
                refused = refused or error
            self._open.pop(0)
        if refused is not None:
            raise refused

    async def end_after(self, error: BaseException) -> None:
        """Roll back because of an error, which stays the one that is told."""
        if self.decision is not None:
            return
        try:
            await self.end(ROLLBACK)
        except LiteMQError as failed:
            logger.warning("rollback failed after %s: %s", type(error).__name__, failed)


def with_id(message: Message, message_id: str) -> Message:
    """Return a message that knows the id it was sent with, as ``check`` will see it."""
    found = Message(
        message.topic,
        message.body,
        tags=message.tags,
        keys=message.keys,
        properties=message.properties,
        sharding_key=message.sharding_key,
    )
    assert found.pairs is not None
    found.pairs[UNIQ_KEY] = message_id
    return found
