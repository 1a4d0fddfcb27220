"""``Admin``: what operators and tools ask of a cluster, in both faces."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from litemq.client.admin_batches import BatchAdmin
from litemq.client.admin_brokers import BrokerAdmin
from litemq.client.admin_cluster import TIMEOUT_S
from litemq.client.admin_groups import GroupAdmin
from litemq.client.admin_health import HealthAdmin
from litemq.client.admin_listings import ListingAdmin
from litemq.client.admin_messages import MessageAdmin
from litemq.client.admin_offsets import OffsetAdmin
from litemq.client.admin_topics import TopicAdmin
from litemq.client.net import BlockingNet, LoopNet
from litemq.client.running import blocking, run


class AdminCore(HealthAdmin, ListingAdmin, MessageAdmin, BatchAdmin):
    """All parts of ``Admin``, awaited, over any network."""


class AsyncAdmin(AdminCore):
    """``Admin`` for asyncio: the same methods, awaited.

    Args:
        nameservers: ``host:port``, several of them separated by ``;``; else ``LITEMQ_NAMESERVER``, else this machine's.
        timeout: seconds that one answer may take.
    """

    def __init__(self, nameservers: str | Sequence[str] | None = None, *, timeout: float = TIMEOUT_S) -> None:
        super().__init__(LoopNet(), nameservers, timeout=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Admin:
    """Looks after topics, consumer groups, offsets, messages and brokers of a cluster.

    >>> with litemq.Admin() as admin:
    ...     change = admin.create_topic("apples", queues=4, exist_ok=True)
    ...     admin.topic("apples").queues
    4

    Args:
        nameservers: ``host:port``, several of them separated by ``;``; else ``LITEMQ_NAMESERVER``, else this machine's.
        timeout: seconds that one answer may take.
    """

    def __init__(self, nameservers: str | Sequence[str] | None = None, *, timeout: float = TIMEOUT_S) -> None:
        self._core = AdminCore(BlockingNet(), nameservers, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; nothing can be asked any more.

        >>> litemq.Admin().close()
        """
        run(self._core.close())

    topics = blocking(TopicAdmin.topics)
    topic = blocking(TopicAdmin.topic)
    create_topic = blocking(TopicAdmin.create_topic)
    alter_topic = blocking(TopicAdmin.alter_topic)
    rebalance_topic = blocking(TopicAdmin.rebalance_topic)
    delete_topic = blocking(TopicAdmin.delete_topic)
    purge_topic = blocking(TopicAdmin.purge_topic)

    groups = blocking(GroupAdmin.groups)
    group = blocking(GroupAdmin.group)
    create_group = blocking(GroupAdmin.create_group)
    alter_group = blocking(GroupAdmin.alter_group)
    delete_group = blocking(GroupAdmin.delete_group)
    members = blocking(GroupAdmin.members)
    lag = blocking(OffsetAdmin.lag)
    reset_offset = blocking(OffsetAdmin.reset_offset)

    inflight = blocking(ListingAdmin.inflight)
    transactions = blocking(ListingAdmin.transactions)

    message = blocking(MessageAdmin.message)
    query = blocking(MessageAdmin.query)
    trace = blocking(MessageAdmin.trace)
    dead_letters = blocking(MessageAdmin.dead_letters)
    count_dead_letters = blocking(MessageAdmin.count_dead_letters)
    redrive = blocking(MessageAdmin.redrive)
    archive_dead_letters = blocking(MessageAdmin.archive_dead_letters)
    purge_dead_letters = blocking(MessageAdmin.purge_dead_letters)

    batch_transactions = blocking(BatchAdmin.batch_transactions)

    brokers = blocking(BrokerAdmin.brokers)
    config = blocking(BrokerAdmin.config)
    set_config = blocking(BrokerAdmin.set_config)
    health = blocking(HealthAdmin.health)
