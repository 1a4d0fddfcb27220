"""Messages that a group's filter does not let pass, as dead letters: for groups with the attribute ``unmatched``.

Behind each such group goes a judge.  It looks at a message when the group's committed offset has passed it, by the
filter that the members' heartbeats name at that time.  How far it has come is kept like the progress of a group,
under a name that no client can use; the letter stands in the log before the progress that covers it, so that a crash
may bring a letter twice and never loses one.  Judging begins where the group stands when it gets the attribute.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from litemq.broker.groups import UNMATCHED, Groups
from litemq.broker.members import Clients
from litemq.broker.retries import Retries
from litemq.broker.slowest import OWN_MARK
from litemq.broker.subscriptions import Filters
from litemq.broker.system_topics import RETRY_PREFIX, retry_topic
from litemq.broker.topics import Topics
from litemq.broker.turns import Turns
from litemq.errors import LiteMQError
from litemq.features.filters import Filter, TagFilter
from litemq.store._slice_cy import Pulled
from litemq.store._tail_pull_cy import PullStatus
from litemq.store.message_store import MessageStore
from litemq.types import Message

logger = logging.getLogger(__name__)

_INTERVAL_S = 1.0
_COUNT = 64
_BYTES = 1 << 18
"""What one look brings at most."""

_MARK = f"{OWN_MARK}unmatched"
_POSITION = slice(28, 36)
"""Where a record as clients read it says at which position it stands."""


class Unmatched:
    """Judges what groups have passed over."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        clients: Clients,
        filters: Filters,
        retries: Retries,
        *,
        cold: Executor,
        appended: Callable[[], None],
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._filters = filters
        self._retries = retries
        self._cold = cold
        self._appended = appended
        self._judged: set[str] = set()
        """Groups with a judge."""
        self._trouble = ""
        groups.on_change.append(self._note)
        for group in groups.all():
            self._note(group.name)
        for name in {key[0] for key in store.progress.all_keys() if key[0].endswith(_MARK)}:
            if name.removesuffix(_MARK) not in self._judged:
                store.progress.forget(group=name)

    def _note(self, name: str) -> None:
        """Send a judge behind a group, or call it back, as the group's attribute says."""
        group = self._groups.find(name)
        if group is None or group.attributes.get(UNMATCHED) != "dead-letter":
            if name in self._judged:
                self._judged.discard(name)
                self._store.progress.forget(group=name + _MARK)
            return
        self._judged.add(name)
        progress, judge = self._store.progress, name + _MARK
        if progress.offset(judge, retry_topic(name), 0) is None:
            for (topic, queue_id), offset in progress.of_group(name).items():
                progress.commit(judge, topic, queue_id, offset)
            progress.commit(judge, retry_topic(name), 0, 0)  # the sign that it has begun

    async def run(self) -> None:
        """Judge every second, until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            await self.pass_()

    async def pass_(self) -> None:
        """Judge what all groups have passed by now."""
        turns = Turns()
        for group in list(self._judged):
            try:
                await self._follow(group, turns)
                self._trouble = ""
            except LiteMQError as error:
                if str(error) != self._trouble:  # it is tried again every second
                    self._trouble = str(error)
                    logger.warning("unmatched messages not judged: group=%s reason=%s", group, error)
            except Exception:
                logger.exception("unmatched messages not judged: group=%s", group)

    async def _follow(self, group: str, turns: Turns) -> None:
        online = self._clients.membership.consumer_group(group)
        progress = self._store.progress
        for topic_name, subscription in list(online.subscriptions.items()) if online is not None else ():
            topic = self._topics.find(topic_name)
            if topic is None or topic_name.startswith(RETRY_PREFIX):
                continue
            wanted = self._filters.of(subscription.expression, subscription.kind)
            for queue_id in range(topic.queue_count):
                passed = progress.offset(group, topic_name, queue_id)
                judged = progress.offset(group + _MARK, topic_name, queue_id) or 0
                if passed is not None and judged < passed:
                    await self._judge(group, topic_name, queue_id, judged, passed, wanted, turns)

    async def _judge(
        self, group: str, topic: str, queue_id: int, offset: int, end: int, wanted: Filter, turns: Turns
    ) -> None:
        end = min(end, self._store.reader.max_offset(topic, queue_id))
        if isinstance(wanted, TagFilter) and wanted.is_all:
            offset = end
            self._store.progress.commit(group + _MARK, topic, queue_id, end)
        while offset < end:
            found = await self._read(topic, queue_id, offset, min(end - offset, _COUNT))
            if group not in self._judged or self._topics.find(topic) is None:
                return
            letters = self._letters(group, found, wanted) if found.status is PullStatus.FOUND else []
            if letters:
                self._store.append_many(letters)
                self._appended()
            offset = max(found.next_offset, offset + 1)
            self._store.progress.commit(group + _MARK, topic, queue_id, min(offset, end))
            await turns.take()

    async def _read(self, topic: str, queue_id: int, offset: int, count: int) -> Pulled:
        found = self._store.reader.pull(
            topic, queue_id, offset, max_count=count, max_bytes=_BYTES, max_scan=count, as_rocketmq=True
        )
        if isinstance(found, Pulled):
            return found
        return await asyncio.get_running_loop().run_in_executor(self._cold, found.finish)

    def _letters(self, group: str, found: Pulled, wanted: Filter) -> list[Message]:
        letters = []
        reader = self._store.reader
        for (place, _), properties in zip(found.places(), reader.properties(found), strict=True):
            if wanted.evaluate(properties):
                continue
            position = int.from_bytes(found.buffer[place + _POSITION.start : place + _POSITION.stop], "big")
            record = reader.record_at(position)
            if record is not None:
                letters.append(self._retries.unmatched(record, group))
        return letters
