"""Makes a broker known to every name server, and keeps it known.

Each name server has a link of its own, so that a dead one holds up neither the broker nor the others.  A link sends
the whole table when it connects, what changed when topics change, and every heartbeat asks whether the name server
still has this version of the table: after a restart it has none, and gets the table within one heartbeat at the latest.
A RocketMQ name server understands all of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from litemq.errors import BadStore, LiteMQError, NoAnswer, Unavailable
from litemq.wire.remoting import topic_table
from litemq.wire.remoting.bodies import dump
from litemq.wire.remoting.client import Client
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Response
from litemq.wire.remoting.topic_table import DELETED, FULL_TABLE, DataVersion

logger = logging.getLogger(__name__)

_FIRST_RETRY_S = 0.5
_LARGEST_PORT = 65535
_TOPICS_AT_ONCE = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who registers."""

    cluster: str
    name: str
    address: str
    """``host:port`` at which clients reach it."""
    ha_address: str = ""
    """… and its copies; the same address when there is none of its own."""
    broker_id: int = 0


@dataclass(frozen=True, slots=True)
class Registered:
    """What is registered: topic configs as ``topics.json`` holds them; another table has another version."""

    version: DataVersion
    topics: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often and how patiently."""

    heartbeat_s: float = 10.0
    renew_s: float = 30.0
    """A RocketMQ name server gets the whole table this often: it does not say when it was told to forget some of it."""
    timeout_s: float = 3.0
    expiry_s: float = 30.0
    """Silence after which name servers shall take the broker for dead."""


class Registration:
    """A broker's links to all its name servers."""

    def __init__(
        self,
        name_servers: Sequence[str],
        identity: Identity,
        table: Callable[[], Registered],
        pace: Pace | None = None,
    ) -> None:
        for address in name_servers:
            _check_address(address)
        self._encoded: tuple[DataVersion | None, bytes] = (None, b"")
        """The whole table, as it was encoded last."""
        self._identity = identity
        self._table = table
        self.pace = pace or Pace()
        self._links = [_Link(self, address) for address in dict.fromkeys(name_servers)]

    async def start(self) -> None:
        """Register; returns when every name server has answered or failed once, at the latest after ``timeout_s``."""
        for link in self._links:
            link.start()
        await self._patiently(*(link.was_tried.wait() for link in self._links))

    async def announce(self, topics: Collection[str]) -> None:
        """Tell of topics that were made, changed or deleted; on return every name server in reach knows.

        RocketMQ's name server learns of no deletion so: whoever deletes a topic tells it, as ``mqadmin`` does.
        """
        await self._patiently(*(link.announce(topics) for link in self._links))

    async def close(self) -> None:
        """Unregister where possible, and disconnect."""
        await asyncio.gather(*(link.close() for link in self._links))

    async def ask(self, code: int, ext: dict[str, str]) -> Response:
        """Ask the first name server that answers.

        Raises:
            NoAnswer: none of them does.
        """
        for link in self._links:
            if link.is_registered:
                with suppress(NoAnswer):
                    return await link.ask(code, ext)
        raise NoAnswer("no name server is in reach")

    @property
    def in_reach(self) -> list[str]:
        """Return the name servers that know the broker."""
        return [link.address for link in self._links if link.is_registered]

    async def _patiently(self, *waits: Coroutine[Any, Any, object]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.pace.timeout_s):
                await asyncio.gather(*waits)

    # -- what links ask --------------------------------------------------------------------------

    @property
    def version(self) -> DataVersion:
        """Return the version of the table now."""
        return self._table().version

    def header(self) -> dict[str, str]:
        """Return the fields by which every request says who asks."""
        who = self._identity
        return {
            "brokerName": who.name,
            "brokerAddr": who.address,
            "clusterName": who.cluster,
            "brokerId": str(who.broker_id),
        }

    async def whole(self) -> tuple[DataVersion, dict[str, str], bytes]:
        """Return version, header and body of a registration of all topics."""
        table = self._table()
        version, body = self._encoded
        if version != table.version:
            version = table.version
            topics = list(table.topics.items())
            parts = []
            for at in range(0, len(topics), _TOPICS_AT_ONCE):
                parts.append(topic_table.encode_topics(topics[at : at + _TOPICS_AT_ONCE]))
                await asyncio.sleep(0)  # ten thousand topics take longer than a message may wait
            body = topic_table.assemble(version, parts)
            self._encoded = (version, body)
        return version, self._registration(body) | {FULL_TABLE: "true"}, body

    def part(self, topics: Collection[str]) -> tuple[DataVersion, dict[str, str], bytes]:
        """Return version, header and body of a registration of some topics; those that are not there are deleted."""
        table = self._table()
        body = topic_table.encode(table.version, {name: table.topics[name] for name in topics if name in table.topics})
        header = self._registration(body) | {FULL_TABLE: "false"}
        deleted = [name for name in topics if name not in table.topics]
        return table.version, header | {DELETED: ",".join(deleted)} if deleted else header, body

    def _registration(self, body: bytes) -> dict[str, str]:
        return self.header() | {
            "haServerAddr": self._identity.ha_address or self._identity.address,
            "heartbeatTimeoutMillis": str(int(self.pace.expiry_s * 1000)),
            "enableActingMaster": "false",
            "compressed": "false",
            "bodyCrc32": str(topic_table.checksum(body)),
        }


class _Link:
    """One name server.  One task asks it one thing at a time, so that an older table never follows a newer one."""

    def __init__(self, owner: Registration, address: str) -> None:
        self.address = address
        self.is_registered = False
        """Whether the name server has a table of ours, told over the connection that is open now."""
        self.was_tried = asyncio.Event()
        self._owner = owner
        self._client = Client(address, on_lost=self._lost)
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._failures = 0
        self._version: DataVersion | None = None
        self._renew_at = 0.0
        self._changed: set[str] = set()
        self._needs_renewal = True
        self._waiters: list[asyncio.Future[None]] = []

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"litemq-registration-{self.address}")

    async def announce(self, topics: Collection[str]) -> None:
        """Have these topics told and wait for it; nobody waits for a name server that is not in reach."""
        self._changed.update(topics)
        if self._failures or self._task is None:
            return  # it gets the whole table when it is there
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(told)
        self._wake.set()
        await told

    async def ask(self, code: int, ext: dict[str, str]) -> Response:
        return await self._client.call(code, ext, timeout_s=self._owner.pace.timeout_s)

    async def close(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self.is_registered:
            with suppress(Unavailable):
                await self._client.call(Ask.UNREGISTER_BROKER, self._owner.header(), timeout_s=1.0)
        self.is_registered = False
        self._let_go(self._waiters)
        self._client.close()

    def _lost(self) -> None:
        """Come back soon, but not at once: one that takes connections and drops them must not keep us busy."""
        self._is_down("its connection was lost")
        self._failures = max(self._failures, 1)
        self._wake.set()

    def _is_down(self, reason: object) -> None:
        if self.is_registered or not self.was_tried.is_set():
            logger.warning("name server is out of reach: address=%s reason=%s", self.address, reason)
        self.is_registered = False

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await self._round()
            if not self._failures:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._owner.pace.heartbeat_s):
                        await self._wake.wait()
            if self._failures:
                await asyncio.sleep(self._back_off_s())

    def _back_off_s(self) -> float:
        return min(_FIRST_RETRY_S * 2.0 ** min(self._failures - 1, 20), self._owner.pace.heartbeat_s)

    async def _round(self) -> None:
        waiters, self._waiters = self._waiters, []
        try:
            await self._tell()
            self._failures = 0
        except LiteMQError as error:
            self._has_failed(error)
        except Exception as error:  # whatever one name server answers, the broker goes on
            logger.exception("registration failed unexpectedly: address=%s", self.address)
            self._has_failed(error)
        finally:
            self.was_tried.set()
            self._let_go(waiters)

    def _has_failed(self, error: Exception) -> None:
        self._is_down(error)
        self._failures += 1
        self._let_go(self._waiters)

    @staticmethod
    def _let_go(waiters: list[asyncio.Future[None]]) -> None:
        for told in waiters:
            if not told.done():
                told.set_result(None)

    async def _tell(self) -> None:
        """Send what the name server lacks, at least a heartbeat."""
        changed, self._changed = self._changed, set()
        is_due = self._needs_renewal and asyncio.get_running_loop().time() >= self._renew_at
        if not self.is_registered or is_due:
            await self._tell_all()
        elif changed:
            version, header, body = self._owner.part(changed)
            answer = await self._client.call(Ask.REGISTER_BROKER, header, body, timeout_s=self._owner.pace.timeout_s)
            if answer.code == Code.SUCCESS:
                self._version = version
            else:
                await self._tell_all()  # it has forgotten us
        elif self._version != self._owner.version or not await self._heartbeat():
            await self._tell_all()

    async def _tell_all(self) -> None:
        version, header, body = await self._owner.whole()
        pace = self._owner.pace
        answer = await self._client.call(Ask.REGISTER_BROKER, header, body, timeout_s=pace.timeout_s)
        if answer.code != Code.SUCCESS:
            raise Unavailable(f"{self.address} refuses the broker: {answer.remark}")
        if not self.is_registered:
            logger.info("registered: name_server=%s topics_version=%d", self.address, version.counter)
        self.is_registered = True
        self._version = version
        self._needs_renewal = FULL_TABLE not in answer.ext
        self._renew_at = asyncio.get_running_loop().time() + pace.renew_s

    async def _heartbeat(self) -> bool:
        """Return whether the name server has the table that it was told last; asking keeps the broker alive there."""
        assert self._version is not None
        body = dump(self._version.to_json())
        timeout_s = self._owner.pace.timeout_s
        answer = await self._client.call(Ask.QUERY_DATA_VERSION, self._owner.header(), body, timeout_s=timeout_s)
        return answer.code == Code.SUCCESS and answer.ext.get("changed") == "false"


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _LARGEST_PORT:
        raise BadStore(f"the name server {address!r} is no host and port: 127.0.0.1:9876")
