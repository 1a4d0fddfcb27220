"""What a push consumer does with messages that were handled, and with those whose handler raised."""

from __future__ import annotations

import asyncio
import logging
import time

from litemq.client import consumer_requests as requests
from litemq.client._message_cy import Message
from litemq.client.chores import Chores
from litemq.client.failures import after_error, give_up
from litemq.client.group_member import GroupMember
from litemq.client.handling import Handling
from litemq.client.tenure import Tenure, Work
from litemq.client.values import Reject, Retry
from litemq.errors import LiteMQError

logger = logging.getLogger(__name__)

_SUSPEND_S = 1.0
"""An ordered queue waits so long after a failure that names no delay."""
_SEND_AGAIN_S = 5.0


class GivingBack:
    """Notes what is finished; gives back what failed, or keeps it here where that cannot be.

    Nothing is finished before its broker has taken it back: until then the group's offset stays before it.
    """

    def __init__(
        self,
        member: GroupMember,
        handling: Handling,
        chores: Chores,
        *,
        is_ordered: bool,
        is_broadcast: bool,
        batch: int,
        max_attempts: int | None,
    ) -> None:
        self._member = member
        self._handling = handling
        self._chores = chores
        self._is_ordered = is_ordered
        self._is_broadcast = is_broadcast
        self._batch = batch
        self._max_attempts = max_attempts

    def done(self, work: Work) -> None:
        """Take what a handler has tried."""
        tenure = work.tenure
        handled = work.messages[: work.done]
        if handled:
            tenure.attempts = 0
            tenure.finished(work, handled)
        left = work.messages[work.done :]
        if not left:
            return
        error = work.error
        if error is None or (isinstance(error, asyncio.CancelledError) and self._chores.is_ending):
            tenure.again(work, left)  # nobody has tried it
            return
        self._log(left[0], error)
        if self._is_ordered:
            self._suspend(work, left, error)
        elif self._is_broadcast:
            tenure.finished(work, left)
        elif not tenure.is_revoked:
            for message in left:
                self._chores.do(self._give_back(work, message, error))

    # -- at the same time --------------------------------------------------------------------------

    async def _give_back(self, work: Work, message: Message, error: BaseException) -> None:
        tenure = work.tenure
        if await self._is_taken_back(message, after_error(error, self._max_attempts)):
            tenure.finished(work, [message])
            tenure.release()
            return
        await self._chores.pause(_SEND_AGAIN_S)
        tenure.again(work, [message])
        self._handling.ready(tenure)

    # -- in order ----------------------------------------------------------------------------------

    def _suspend(self, work: Work, left: list[Message], error: BaseException) -> None:
        """Keep the order: the failed messages come first again in a moment, or die before others come."""
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
        self._chores.do(self._bury(work, left[: self._batch], error))

    async def _bury(self, work: Work, messages: list[Message], error: BaseException) -> None:
        tenure = work.tenure
        while messages and not tenure.is_revoked:
            if self._is_broadcast or await self._is_taken_back(messages[0], give_up(error)):
                tenure.finished(work, [messages.pop(0)])
            elif self._chores.is_ending:
                return
            else:
                await self._chores.pause(_SEND_AGAIN_S)
        self._go_on(tenure)

    def _go_on(self, tenure: Tenure) -> None:
        tenure.release()
        tenure.attempts = 0
        tenure.held_until = 0.0
        self._handling.ready(tenure)

    async def _is_taken_back(self, message: Message, how: requests.SendBack) -> bool:
        """Give a message back; return whether its broker has taken it."""
        member = self._member
        try:
            address = member.address_of(message.broker)
            await requests.send_back(member.net, address, member.group, message, message.topic, how)
        except LiteMQError as error:
            logger.warning("a message cannot be given back, trying on: %r reason=%s", message, error)
            return False
        return True

    def _log(self, message: Message, error: BaseException) -> None:
        if isinstance(error, Reject | Retry):
            logger.info("handler gives back: %r attempt=%d %r", message, message.attempt, error)
        else:
            group, attempt = self._member.group, message.attempt
            logger.warning("handler failed: group=%s attempt=%d %r", group, attempt, message, exc_info=error)
