"""One broker: builds the parts, wires them, starts and stops them in order.

Everything here runs on one event loop; threads only flush, prepare files and read what is not in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from litemq.broker._sent_cy import SentCounts
from litemq.broker.addresses import advertised, bind_pair, join
from litemq.broker.admin import Admin
from litemq.broker.assignment import Assignment
from litemq.broker.batch_peers import BatchPeers
from litemq.broker.batch_publisher import BatchPublisher
from litemq.broker.batch_transactions import BatchTransactions
from litemq.broker.consumption import Consumption
from litemq.broker.durability import Durability
from litemq.broker.faces.remoting._rows_cy import Bench
from litemq.broker.faces.remoting._transaction_rows_cy import TransactionRows
from litemq.broker.faces.remoting.handlers import all_handlers
from litemq.broker.faces.remoting.protocol import BrokerConnection
from litemq.broker.groups import Groups
from litemq.broker.limits import SendLimits, connection_limits
from litemq.broker.limits import report as limits_report
from litemq.broker.live_config import LiveConfig, Settings
from litemq.broker.live_reads import LiveReads
from litemq.broker.members import Clients
from litemq.broker.messages import MessageMaker, own_properties
from litemq.broker.offsets import Offsets
from litemq.broker.pauses import Pauses
from litemq.broker.pop import Pops
from litemq.broker.pull import Puller
from litemq.broker.query import Queries
from litemq.broker.registration import Identity, Registered, Registration
from litemq.broker.relay import Relay
from litemq.broker.reply import Replies
from litemq.broker.retries import Retries
from litemq.broker.schedule import Schedule
from litemq.broker.send import Sender
from litemq.broker.shrinking import Shrinking
from litemq.broker.slots import Slots
from litemq.broker.statistics import Statistics
from litemq.broker.stats_log import StatsLog
from litemq.broker.subscriptions import Filters
from litemq.broker.topic_retention import TopicRetention
from litemq.broker.topics import Topics
from litemq.broker.transactions import Transactions
from litemq.broker.unmatched import Unmatched
from litemq.clock import Clock, SystemClock
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig, TransactionConfig
from litemq.errors import LiteMQError
from litemq.features.batch_transaction import Batches
from litemq.features.ordering import QueueLocks
from litemq.format import hosts
from litemq.store.fs import FileSystem
from litemq.store.message_store import MessageStore
from litemq.wire.remoting._busy_poll_cy import BusyPoll
from litemq.wire.remoting.codes import MAX_BATCH_SIZE
from litemq.wire.remoting.command import Request, Response, encode_response
from litemq.wire.remoting.connection import Connection
from litemq.wire.remoting.server import Server
from litemq.wire.remoting.topic_table import DataVersion

logger = logging.getLogger(__name__)

_TICK_S = 0.1
_COLD_THREADS = 4
_LOCKS_EVERY_MS = 10_000


class Broker:
    """A broker over one store directory: ``start`` opens it, ``close`` leaves it clean."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        limits: LimitsConfig,
        data: Path,
        *,
        transaction: TransactionConfig | None = None,
        clock: Clock | None = None,
        fs: FileSystem | None = None,
    ) -> None:
        self.config = config
        self.limits = limits
        self.transaction = transaction or TransactionConfig()
        self.data = data
        self.clock = clock or SystemClock()
        self._fs = fs
        self._main, self._vip = bind_pair(config)
        host = advertised(config)
        self.address = join(host, self._main.getsockname()[1])
        """Where clients connect to, ``host:port``."""
        self.vip_address = join(host, self._vip.getsockname()[1])
        self.store_config = replace(store_config, store_host=self.address)
        self.store_host = hosts.to_bytes(self.address) or bytes(8)
        self.on_tick: list[Callable[[int], None]] = [lambda _now: self.store.tick(), self._expire]
        """Duties: called ten times a second with the wall clock's milliseconds."""
        self._troubles: dict[Callable[[int], None], str] = {}
        self._locks_at = 0
        self.reports: dict[str, Callable[[], object]] = {}
        """What the broker's own statistics tell, by part: each is asked when they are."""
        self._workers: list[asyncio.Task[None]] = []
        self._announcing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the store, and serve.

        Raises:
            StoreInUse: another process has the store open.
        """
        loop = asyncio.get_running_loop()
        try:
            self.store = MessageStore.open(self.data, self.store_config, fs=self._fs, clock=self.clock)
        except BaseException:
            self._main.close()
            self._vip.close()
            raise
        self.store.may_wait = False
        self.store.set_own_properties(own_properties(self.config.cluster))
        self._build(loop)
        self.pauses = Pauses()
        self.store.tell_of_work(self.pauses.during)
        await self.server.serve(self._main)
        await self.server.serve(self._vip)
        await self.registration.start()
        await self.topic_retention.hold_all()
        self._workers = [
            loop.create_task(self._tick(), name="litemq-tick"),
            loop.create_task(self.topic_retention.run(), name="litemq-retention"),
            loop.create_task(self.unmatched.run(), name="litemq-unmatched"),
        ]
        self.pauses.start()
        logger.info("broker started: name=%s address=%s store=%s", self.config.name, self.address, self.data)

    def _build(self, loop: asyncio.AbstractEventLoop) -> None:
        store, config, limits = self.store, self.config, self.limits
        self._sent = SentCounts()
        self._cold = ThreadPoolExecutor(_COLD_THREADS, thread_name_prefix="litemq-cold")
        self.durability = Durability(
            store,
            policy=self.store_config.flush,
            timeout_ms=self.store_config.flush_timeout_ms,
            limit_bytes=limits.waiting_bytes,
            loop=loop,
        )
        self.topics = Topics(store, config)
        self.send_limits = SendLimits(store, self.topics, self.durability, limits, now_ms=self.clock.monotonic_ms)
        self._version = DataVersion(0, self.clock.now_ms())
        self.topics.on_change.append(self._announce)
        self.registration = Registration(
            config.name_servers,
            Identity(cluster=config.cluster, name=config.name, address=self.address),
            lambda: Registered(self._version, {topic.name: topic.to_json() for topic in self.topics.all()}),
        )
        self.groups = Groups(store, self.topics, config)
        self.topic_retention = TopicRetention(store, self.topics, self.clock)
        self.offsets = Offsets(store, self.topics, self.groups)
        self.filters = Filters()
        self.clients = Clients(self.groups, self.topics, self.filters, self.clock)
        self.assignment = Assignment(config.name, self.topics, self.groups, self.clients, self.registration)
        self.locks = QueueLocks()
        self.on_tick.append(self.clients.tick)
        self.schedule = Schedule(store, now_ms=self.clock.now_ms)
        self.on_tick.append(self._release_due)
        self.maker = MessageMaker(config.cluster, store_host=self.address)
        self.retries = Retries(
            store,
            self.topics,
            self.groups,
            self.schedule,
            self.locks,
            self.maker,
            self.store_host,
            now_ms=self.clock.now_ms,
            monotonic_ms=self.clock.monotonic_ms,
        )
        self.transactions = Transactions(
            store,
            self.topics,
            self.retries,
            self.clients,
            self.transaction,
            self._sent,
            name=config.name,
            address=self.address,
            store_host=self.store_host,
            now_ms=self.clock.now_ms,
        )
        self.on_tick.append(self._ask_producers)
        self.reports["transactions"] = self.transactions.report
        self.sender = Sender(
            store,
            self.topics,
            self.maker,
            self.retries,
            self.transactions,
            self.send_limits,
            self._sent,
            max_batch_bytes=MAX_BATCH_SIZE,
        )
        self.transaction_rows = TransactionRows(self)
        self.puller = Puller(
            store,
            self.topics,
            self.groups,
            self.offsets,
            limits,
            cold=self._cold,
            on_loop=loop.call_soon_threadsafe,
            now_ms=self.clock.monotonic_ms,
        )
        self.pops = Pops(
            store,
            self.topics,
            self.groups,
            self.offsets,
            self.retries,
            self.puller,
            cold=self._cold,
            on_loop=loop.call_soon_threadsafe,
            now_ms=self.clock.now_ms,
            appended=lambda: store.ask_flush() if self.durability.waits else self.puller.wake(),
        )
        store.add_carrier(self.pops.states.carry)
        self.on_tick.append(self.pops.tick)
        self.reports["pop"] = self.pops.report
        self.clients.on_subscriptions = self.puller.check_anew
        self.durability.on_readable = self._readable
        self.bench = Bench(store, self.durability, self.puller, BusyPoll(loop, config.busy_poll_us), self._sent)
        self.unmatched = Unmatched(
            store,
            self.topics,
            self.groups,
            self.clients,
            self.filters,
            self.retries,
            cold=self._cold,
            appended=lambda: store.ask_flush() if self.durability.waits else self.puller.wake(),
        )
        self.live_reads = LiveReads(store, self.topics, limits, self.clock, cold=self._cold)
        self.topic_retention.floors.append(self.live_reads.leases.floors)
        self.on_tick.append(self.live_reads.tick)
        self.reports["liveReads"] = self.live_reads.report
        self._build_batches()
        self._build_administration()
        self.server = Server(
            all_handlers(self),
            connection_limits(limits),
            connection=lambda server: BrokerConnection(server, self),
        )
        settings = Settings(config, self.store_config, limits, self.transaction)
        self.live_config = LiveConfig(store, settings, self._configure)

    def _build_batches(self) -> None:
        """Build what stages and publishes batch transactions."""
        store, config = self.store, self.config
        core = Batches(config.name)
        publisher = BatchPublisher(
            store,
            self.topics,
            core,
            self.maker,
            self._sent,
            cluster=config.cluster,
            appended=lambda: store.ask_flush() if self.durability.waits else self.puller.wake(),
        )
        self.batches = BatchTransactions(
            store,
            self.sender,
            self.send_limits,
            publisher,
            Slots(store, config.cluster, config.name),
            core,
            self.transaction,
            max_body=self.store_config.max_body_bytes,
            flush_timeout_ms=self.store_config.flush_timeout_ms,
            now_ms=self.clock.now_ms,
        )
        self.batch_peers = BatchPeers(self.batches, self.registration, self.clock)
        self.on_tick += [self.batches.tick, self.batch_peers.tick]
        self.reports["batchTransactions"] = lambda: self.batches.report() | self.batch_peers.report()

    def _build_administration(self) -> None:
        """Build what operators and their tools ask."""
        self.statistics = Statistics(self.store, self.topics, self.puller, self.retries, self.clock)
        self.on_tick.append(self.statistics.tick)
        self.stats_log = StatsLog(self.store, self._sent, self.puller, self.clock)
        self.on_tick.append(self.stats_log.tick)
        self.reports["counters"] = self.store.counters
        self.reports["limitsMet"] = lambda: limits_report(self)
        self.reports["busyPoll"] = lambda: {"turns": self.bench.busy_poll.turns}
        self.reports["pauses"] = lambda: self.pauses.report()
        self.queries = Queries(self.store, self.offsets)
        self.consumption = Consumption(
            self.store, self.topics, self.groups, self.offsets, self.clients, self.puller, self.clock
        )
        shrinking = Shrinking(self.store, self.topics)
        self.on_tick.append(shrinking.tick)
        self.admin = Admin(self.topics, self.groups, shrinking)
        self.relay = Relay(self.clients, self.queries, self.config.name)
        self.replies = Replies(self.clients, self.address, self.clock)

    def _configure(self, settings: Settings) -> None:
        """Put changed settings to work."""
        self.config = self.groups.config = settings.broker
        self.store_config = settings.store
        self.transaction = self.transactions.config = self.batches.config = settings.transaction
        self.store.configure_retention(settings.store)
        self.apply_limits(settings.limits)
        self.topics.configure(settings.broker)

    def apply_limits(self, limits: LimitsConfig) -> None:
        """Put other limits to work, at once and for everybody."""
        self.limits = limits
        self.puller.apply_limits(limits)
        self.live_reads.limits = limits
        self.durability.limit_bytes = limits.waiting_bytes
        self.server.limits = connection_limits(limits)
        self.send_limits.apply(limits)

    async def close(self) -> None:
        """Stop: no new work, answers in hand go out, the store is closed cleanly."""
        self.pauses.stop()
        await self.registration.close()
        for worker in self._workers:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker
        self.server.serve_rest()
        await self.batch_peers.close()
        self.batches.stop()
        self.pops.answer_all()
        self.puller.answer_all()
        if self.store.failure is None:
            await asyncio.get_running_loop().run_in_executor(None, self.store.flush)
        self.durability.release()
        await self.server.close()
        self._cold.shutdown()
        self.schedule.close()
        self.pops.close()
        self.transactions.close()
        self.batches.close()
        self.stats_log.close()
        self.store.close()
        logger.info("broker stopped: name=%s", self.config.name)

    async def _tick(self) -> None:
        """Do what is due."""
        while True:
            await asyncio.sleep(_TICK_S)
            now = self.clock.now_ms()
            for duty in self.on_tick:
                self._do(duty, now)
                await asyncio.sleep(0)  # whoever waits for an answer waits for one duty, not for all

    def _do(self, duty: Callable[[int], None], now_ms: int) -> None:
        """Do one duty; whatever one stumbles over, the others must go on, and so must it the next time."""
        try:
            duty(now_ms)
        except LiteMQError as error:
            if self._troubles.get(duty) != str(error):  # it is tried again ten times a second
                logger.warning("a duty failed: duty=%s reason=%s", _name_of(duty), error)
            self._troubles[duty] = str(error)
        except Exception:
            logger.exception("a duty failed unexpectedly: duty=%s", _name_of(duty))
        else:
            self._troubles.pop(duty, None)

    def _expire(self, _now_ms: int) -> None:
        """Answer those who waited long enough, and forget locks that ended."""
        now = self.clock.monotonic_ms()
        self.puller.expire(now)
        self.durability.expire(now)
        if now >= self._locks_at:
            self._locks_at = now + _LOCKS_EVERY_MS
            self.locks.expire(now)

    @property
    def version(self) -> DataVersion:
        """Return the version of the tables of topics and groups."""
        return self._version

    # -- routes ----------------------------------------------------------------------------------

    def _announce(self, names: list[str]) -> None:
        """Tell the name servers of topics that changed."""
        self._version = DataVersion(self._version.counter + 1, self.clock.now_ms())
        task = asyncio.get_running_loop().create_task(self.registration.announce(names))
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def announced(self) -> None:
        """Return when the name servers in reach know of every topic that was changed before."""
        await asyncio.gather(*self._announcing)

    def _release_due(self, now_ms: int) -> None:
        if self.schedule.pass_(now_ms) and not self.durability.waits:
            self.puller.wake()

    def _ask_producers(self, now_ms: int) -> None:
        if self.transactions.pass_(now_ms) and not self.durability.waits:
            self.puller.wake()

    # -- answers ---------------------------------------------------------------------------------

    def _readable(self) -> None:
        """More of the log is flushed."""
        self.puller.wake()
        if not self.store.is_choked:
            self.server.choke(False)

    def answer_durable(self, connection: Connection, request: Request, response: Response, end: int) -> Response | None:
        """Answer when the log is flushed up to ``end``; wakes those who wait for what was appended."""
        if self.store.is_choked:
            self.server.choke(True)
        if not self.durability.waits:
            self.puller.wake()
            return response
        if not request.is_oneway:
            data = encode_response(response, opaque=request.opaque, codec=request.codec)
            self.durability.hold(end, connection, data, now_ms=self.clock.monotonic_ms())
        else:
            self.store.ask_flush()
        return None


def _name_of(duty: Callable[[int], None]) -> str:
    return getattr(duty, "__qualname__", repr(duty))
