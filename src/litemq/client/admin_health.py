"""Whether a cluster is well: a list of checks, each with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from litemq.client.admin_brokers import BrokerAdmin, BrokerInfo, broker_info
from litemq.client.admin_cluster import Server
from litemq.client.admin_groups import GroupAdmin
from litemq.client.answers import json_object
from litemq.errors import LiteMQError, NoAnswer, OutcomeUnknown
from litemq.features.preset_groups import PRESET_GROUPS
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request

_ANSWER_S: Final = 2.0
_SLOW_S: Final = 0.5
_MIB: Final = 1 << 20
_UNFLUSHED: Final = (64 * _MIB, 1024 * _MIB)
_DISK: Final = (0.75, 0.90)
"""Shares of the disk from which on old messages go and new ones are refused, where the broker does not tell its own."""
_SHOWN: Final = 3
_WRITE: Final = 2


class Status(IntEnum):
    """How bad something is."""

    OK = 0
    WARN = 1
    FAIL = 2


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """What was looked at, and what was found."""

    where: str
    """Name of a broker, or address of a name server."""
    check: str
    status: Status
    text: str
    """What was found, and what to do about it."""

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {"where": self.where, "check": self.check, "status": self.status.name, "text": self.text}


@dataclass(frozen=True, slots=True)
class Health:
    """All checks of a cluster; its status is that of the worst.

    >>> with litemq.Admin() as admin:
    ...     admin.health(max_lag=10**9).status.name in ("OK", "WARN")
    True
    """

    checks: tuple[HealthCheck, ...]

    @property
    def status(self) -> Status:
        """The worst that was found."""
        return max((one.status for one in self.checks), default=Status.FAIL)

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {"status": self.status.name, "checks": [one.to_json() for one in self.checks]}


class HealthAdmin(GroupAdmin, BrokerAdmin):
    """The part of ``Admin`` that looks whether all is well."""

    async def health(self, *, max_lag: int = 10_000) -> Health:
        """Look at every name server and broker: reachable, writable, disk, flushing, slow consumers.

        >>> with litemq.Admin() as admin:
        ...     sorted({one.check for one in admin.health().checks})
        ['disk', 'flush', 'lag', 'reachable', 'registered', 'writable']

        Args:
            max_lag: a group with more messages to read on a broker is slow.

        Raises:
            NoAnswer: no name server answers.
        """
        servers = await self._cluster()
        checks = [await self._name_server(address) for address in self._servers]
        told = [check.where for check in checks if check.status is not Status.FAIL]
        checks.append(_registered(told[0] if told else self._servers[0], servers))
        for server in servers:
            checks += await self._broker(server, max_lag)
        return Health(tuple(checks))

    async def _name_server(self, address: str) -> HealthCheck:
        began = self._net.now()
        try:
            await self._net.call(address, Request(Ask.GET_BROKER_CLUSTER_INFO), _ANSWER_S)
        except (NoAnswer, OutcomeUnknown) as error:
            return HealthCheck(address, "reachable", Status.FAIL, f"{error}; start it: litemq nameserver")
        return _answered(address, self._net.now() - began)

    async def _broker(self, server: Server, max_lag: int) -> list[HealthCheck]:
        began = self._net.now()
        table = await self._runtime(server)
        took = self._net.now() - began
        if table is None:
            text = f"no answer from {server.address}; look at its process and log, and at the network between"
            return [HealthCheck(server.name, "reachable", Status.FAIL, text)]
        info = broker_info(server, table)
        checks = [_answered(server.name, took)]
        try:
            settings = bodies.parse_properties((await self._have(server.address, Ask.GET_BROKER_CONFIG)).body)
            checks.append(_disk(info, settings))
            checks.append(_flush(info))
            if server.number == 0:
                checks.append(await self._writable(info, settings))
                checks.append(await self._slow(server, max_lag))
        except LiteMQError as error:
            checks.append(HealthCheck(server.name, "reachable", Status.FAIL, f"it answers no more: {error}"))
        return checks

    async def _writable(self, info: BrokerInfo, settings: Mapping[str, str]) -> HealthCheck:
        """Look whether producers are told to send there: every broker has a topic of its own name."""
        if _disk(info, settings).status == Status.FAIL:
            return HealthCheck(info.broker, "writable", Status.FAIL, "messages are refused: its disk is full")
        answer = await self._routes.ask(Ask.GET_ROUTEINFO_BY_TOPIC, {"topic": info.broker})
        queues = json_object(answer).get("queueDatas") or () if answer.code == Code.SUCCESS else ()
        perms = [int(one["perm"]) for one in queues if one["brokerName"] == info.broker]
        if settings.get("brokerPermission", "6") in ("4", "0") or (perms and not perms[0] & _WRITE):
            text = "producers are told not to send to it; give it back: mqadmin addWritePerm"
            return HealthCheck(info.broker, "writable", Status.WARN, text)
        return HealthCheck(info.broker, "writable", Status.OK, "producers may send to it")

    async def _slow(self, server: Server, max_lag: int) -> HealthCheck:
        answer = await self._have(server.address, Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        groups = (json_object(answer).get("subscriptionGroupTable") or {}).keys() - set(PRESET_GROUPS)
        masters = {server.name: server.address}
        lags = {group: (await self._lag(masters, group, masters, {})).total for group in sorted(groups)}
        slow = sorted((group for group in lags if lags[group] > max_lag), key=lambda group: -lags[group])
        if not slow:
            text = f"{len(lags)} groups, none has more than {max_lag:,} messages to read"
            return HealthCheck(server.name, "lag", Status.OK, text)
        shown = ", ".join(f"{group}: {lags[group]:,}" for group in slow[:_SHOWN])
        more = f" and {len(slow) - _SHOWN} more" if len(slow) > _SHOWN else ""
        text = f"groups with many messages to read: {shown}{more}; see: litemq group lag {slow[0]}"
        return HealthCheck(server.name, "lag", Status.WARN, text)


def _answered(where: str, took_s: float) -> HealthCheck:
    text = f"answered in {took_s * 1000:.1f} ms"
    if took_s > _SLOW_S:
        return HealthCheck(where, "reachable", Status.WARN, f"{text}; it is busy, or the network is slow")
    return HealthCheck(where, "reachable", Status.OK, text)


def _registered(name_server: str, servers: list[Server]) -> HealthCheck:
    masters = [server.name for server in servers if server.number == 0]
    if not masters:
        text = f"no broker has registered; start one with: litemq broker --nameserver {name_server}"
        return HealthCheck(name_server, "registered", Status.FAIL, text)
    headless = sorted({server.name for server in servers} - set(masters))
    if headless:
        text = f"without a master: {', '.join(headless)}; start it again"
        return HealthCheck(name_server, "registered", Status.FAIL, text)
    return HealthCheck(name_server, "registered", Status.OK, f"{len(masters)} masters: {', '.join(masters)}")


def _disk(info: BrokerInfo, settings: Mapping[str, str]) -> HealthCheck:
    if info.disk_used is None:
        return HealthCheck(info.broker, "disk", Status.WARN, "it does not tell how full its disk is")
    starts = _number(settings, "store.disk_start_ratio", _DISK[0])
    refuses = _number(settings, "store.disk_refuse_ratio", _DISK[1])
    text = f"{info.disk_used:.0%} of the disk are in use"
    floor = _number(settings, "store.disk_free_floor", 0.0)
    if floor and (info.disk_free_bytes or 0) >= floor:  # with so much room the shares do not count
        return HealthCheck(info.broker, "disk", Status.OK, text)
    if info.disk_used >= refuses:
        return HealthCheck(info.broker, "disk", Status.FAIL, f"{text}: messages are refused; free some room")
    if info.disk_used >= starts:
        text += f": old messages go before their time, from {refuses:.0%} on new ones are refused"
        return HealthCheck(info.broker, "disk", Status.WARN, f"{text}; free some room, or keep messages for less long")
    return HealthCheck(info.broker, "disk", Status.OK, text)


def _flush(info: BrokerInfo) -> HealthCheck:
    waiting = info.unflushed_bytes or 0
    text = f"{waiting / _MIB:,.1f} MiB wait to be on disk"
    if waiting >= _UNFLUSHED[1]:
        return HealthCheck(info.broker, "flush", Status.FAIL, f"{text}; look at the disk and at the broker's log")
    if waiting >= _UNFLUSHED[0]:
        return HealthCheck(info.broker, "flush", Status.WARN, f"{text}; the disk is slower than what comes")
    return HealthCheck(info.broker, "flush", Status.OK, text)


def _number(settings: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(settings.get(name, default))
    except ValueError:
        return default
