"""Brokers: what they are and do, and their settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from litemq.client.admin_cluster import ClusterCore, Server
from litemq.client.answers import check, json_object
from litemq.errors import InvalidRequest, NoAnswer, OutcomeUnknown
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask

_UPTIME = re.compile(r"(\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds")
_FREE = re.compile(r"Free : ([\d.]+) (B|KiB|MiB|GiB|TiB)\b")
_SHIFTS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_UNITS_S: Final = (86_400, 3_600, 60, 1)

_ANSWER_S: Final = 2.0
"""A broker that does not say within so long how it does is not there."""

Setting = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker and its load; all but its name and address is None when it does not answer.

    >>> with litemq.Admin() as admin:
    ...     [info.is_reachable for info in admin.brokers()]
    [True]
    """

    broker: str
    number: int
    """0 for the master, others for its replicas."""
    address: str
    cluster: str
    version: str | None = None
    in_per_s: float | None = None
    """Messages that came, each second of the last ten."""
    out_per_s: float | None = None
    in_today: int | None = None
    out_today: int | None = None
    disk_used: float | None = None
    """Share of its disk, 0 to 1."""
    disk_free_bytes: int | None = None
    log_bytes: int | None = None
    unflushed_bytes: int | None = None
    uptime_s: int | None = None

    @property
    def is_reachable(self) -> bool:
        """Whether it answered."""
        return self.version is not None

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {
            "broker": self.broker,
            "number": self.number,
            "address": self.address,
            "cluster": self.cluster,
            "reachable": self.is_reachable,
            "version": self.version,
            "in_per_s": self.in_per_s,
            "out_per_s": self.out_per_s,
            "in_today": self.in_today,
            "out_today": self.out_today,
            "disk_used": self.disk_used,
            "disk_free_bytes": self.disk_free_bytes,
            "log_bytes": self.log_bytes,
            "unflushed_bytes": self.unflushed_bytes,
            "uptime_s": self.uptime_s,
        }


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A broker's setting before and after."""

    broker: str
    name: str
    before: str
    after: str

    def to_json(self) -> dict[str, object]:
        """Return the object that ``--json`` prints."""
        return {"broker": self.broker, "name": self.name, "before": self.before, "after": self.after}


class BrokerAdmin(ClusterCore):
    """The part of ``Admin`` that is about brokers."""

    async def brokers(self) -> list[BrokerInfo]:
        """Return every broker that the name servers know, with its load.

        >>> with litemq.Admin() as admin:
        ...     [(info.number, info.is_reachable) for info in admin.brokers()]
        [(0, True)]
        """
        return [broker_info(server, await self._runtime(server)) for server in await self._cluster()]

    async def config(self, broker: str) -> dict[str, str]:
        """Return a broker's settings, LiteMQ's as ``section.key`` and RocketMQ's as it calls them.

        >>> with litemq.Admin() as admin:
        ...     admin.config(admin.brokers()[0].broker)["store.flush"]
        'async'

        Args:
            broker: its name or address.
        """
        server = await self._server(broker)
        return bodies.parse_properties((await self._have(server.address, Ask.GET_BROKER_CONFIG)).body)

    async def set_config(
        self, broker: str, changes: Mapping[str, Setting], *, dry_run: bool = False
    ) -> list[SettingChange]:
        """Change settings of a broker while it runs, all of them or none; they hold after a restart, too.

        >>> with litemq.Admin() as admin:
        ...     name = admin.brokers()[0].broker
        ...     [change.after for change in admin.set_config(name, {"broker.default_queues": 8})]
        ['8']

        Args:
            broker: its name or address.
            changes: setting → value; None for none.
            dry_run: tell what would be, and change nothing; whether the broker takes the values is not known then.

        Raises:
            InvalidRequest: a setting does not exist, or cannot have this value.
            NoPermission: it cannot change while the broker runs.
        """
        if not changes:
            raise InvalidRequest("no setting is given; config() tells their names")
        texts = {name: _setting_text(name, value) for name, value in changes.items()}
        server = await self._server(broker)
        before = await self.config(server.address)
        for name in texts:
            if name not in before:
                raise InvalidRequest(
                    f"{server.name} has no setting {name!r}; see: litemq cluster config get {server.name}"
                )
        if not dry_run:
            await self._have(server.address, Ask.UPDATE_BROKER_CONFIG, body=bodies.properties_text(texts))
        return [SettingChange(server.name, name, before[name], text) for name, text in texts.items()]

    async def _runtime(self, server: Server) -> dict[str, str] | None:
        """Return a broker's table of its state; None when it does not answer."""
        try:
            answer = await self._ask(server.address, Ask.GET_BROKER_RUNTIME_INFO, timeout=min(self._timeout, _ANSWER_S))
        except (NoAnswer, OutcomeUnknown):
            return None
        table = json_object(check(answer, server.address)).get("table") or {}
        return {str(name): str(value) for name, value in table.items()}


def broker_info(server: Server, table: Mapping[str, str] | None) -> BrokerInfo:
    """Return what a broker's table says."""
    if table is None:
        return BrokerInfo(server.name, server.number, server.address, server.cluster)
    return BrokerInfo(
        server.name,
        server.number,
        server.address,
        server.cluster,
        version=table.get("brokerVersionDesc", "?"),
        in_per_s=_first_rate(table.get("putTps", "")),
        out_per_s=_first_rate(table.get("getTransferredTps", table.get("getTransferedTps", ""))),
        in_today=_whole(table, "msgPutTotalTodayNow") - _whole(table, "msgPutTotalTodayMorning"),
        out_today=_whole(table, "msgGetTotalTodayNow") - _whole(table, "msgGetTotalTodayMorning"),
        disk_used=_rate(table.get("commitLogDiskRatio", "")),
        disk_free_bytes=_free(table.get("commitLogDirCapacity", "")),
        log_bytes=_whole(table, "commitLogMaxOffset") - _whole(table, "commitLogMinOffset"),
        unflushed_bytes=_whole(table, "remainHowManyDataToFlush"),
        uptime_s=_uptime(table.get("runtime", "")),
    )


def _whole(table: Mapping[str, str], name: str) -> int:
    """Return a number with which a value begins, such as ``17 B``; 0 for none."""
    found = re.match(r"-?\d+", table.get(name, ""))
    return int(found[0]) if found else 0


def _rate(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _first_rate(text: str) -> float | None:
    """Return the first of the rates over ten seconds, a minute and ten minutes."""
    return _rate(text.partition(" ")[0])


def _free(text: str) -> int | None:
    """Return the free bytes that ``Total : 100.0 GiB, Free : 40.0 GiB.`` tells."""
    found = _FREE.search(text)
    return None if found is None else int(float(found[1]) * (1 << _SHIFTS.index(found[2]) * 10))


def _uptime(text: str) -> int | None:
    found = _UPTIME.search(text)
    return None if found is None else sum(int(part) * unit for part, unit in zip(found.groups(), _UNITS_S, strict=True))


def _setting_text(name: str, value: Setting) -> str:
    if value is None:
        return "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\n" in text or "\n" in name or "=" in name:
        raise InvalidRequest(f"the setting {name!r} is {text!r}: neither can hold line ends, the name no =")
    return text
