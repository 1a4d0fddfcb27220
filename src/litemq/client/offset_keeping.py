"""Where a push consumer's offsets are kept: at the broker for groups, in a file for broadcast."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Literal

from litemq.client import consumer_requests as requests
from litemq.client.group_member import GroupMember
from litemq.client.offset_files import OffsetFile
from litemq.client.routes import TopicQueue
from litemq.client.tenure import Tenure
from litemq.errors import LiteMQError

logger = logging.getLogger(__name__)


class OffsetKeeping:
    """Finds where a queue is read from, and puts down how far it is worked off."""

    def __init__(self, member: GroupMember, start: Literal["first", "last"] | int, file: OffsetFile | None) -> None:
        self._member = member
        self._start = start
        self._file = file

    async def find(self, queue: TopicQueue) -> int:
        """Return where to read a queue from: behind what was finished before, else where the group begins."""
        member = self._member
        address = member.address(queue)
        known = await self.known(queue)
        if known is not None:
            return known
        return await requests.first_position(member.net, address, queue, self._start)

    async def known(self, queue: TopicQueue) -> int | None:
        """Return what was put down last, by this member or another; None: nothing."""
        member = self._member
        if self._file is not None:
            kept = self._file.offset(queue)
            if kept is not None and kept > await requests.end_of(member.net, member.address(queue), queue, "last"):
                logger.warning("offset forgotten, its queue ends before it: queue=%s offset=%d", queue, kept)
                return None  # another cluster, or a topic that was made anew
            return kept
        return await requests.committed(member.net, member.address(queue), member.group, queue)

    async def keep(self, tenures: Iterable[Tenure]) -> None:
        """Put down how far queues are worked off, where that has changed."""
        for tenure in tenures:
            offset = tenure.offset
            if offset is None or offset == tenure.committed:
                continue
            if self._file is not None:
                self._file.note(tenure.queue, offset)
                tenure.committed = offset
                continue
            member = self._member
            try:
                address = member.address(tenure.queue)
                await requests.tell_commit(member.net, address, member.group, tenure.queue, offset)
                tenure.committed = offset
            except LiteMQError as error:
                logger.debug("offset not told: queue=%s offset=%d reason=%s", tenure.queue, offset, error)
        if self._file is not None:
            try:
                self._file.write()
            except OSError as error:
                logger.warning("broadcast offsets cannot be written: %s: %s", self._file.path, error)
