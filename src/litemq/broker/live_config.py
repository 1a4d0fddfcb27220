"""The settings of a running broker: shown under RocketMQ's names and LiteMQ's own, and changed where that is possible.

All limits, retention and some switches can change while the broker runs.  A change is kept in the store's
``config/litemqSettings.json`` with the value that it replaced: it holds after a restart as long as file, environment
and flags still say what they said then.  Whoever edits the setting there has the last word.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from litemq.config import BrokerConfig, LimitsConfig, StoreConfig, TransactionConfig
from litemq.config_file import from_text
from litemq.errors import BadField, BadStore, NoPermission
from litemq.features.delay_levels import LEVELS_TEXT
from litemq.format.config_json import JsonObject, Value
from litemq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

SNAPSHOT: Final = "litemqSettings.json"

LIVE: Final = frozenset(
    {
        *(("limits", field.name) for field in fields(LimitsConfig)),
        *(("transaction", field.name) for field in fields(TransactionConfig)),
        *(("broker", key) for key in ("auto_create_topics", "auto_create_groups", "default_queues")),
        *(("broker", key) for key in ("max_topics", "max_groups")),
        *(("store", key) for key in ("retention_hours", "delete_hour", "disk_free_floor")),
        *(("store", key) for key in ("disk_start_ratio", "disk_force_ratio", "disk_refuse_ratio")),
    }
)
"""(section, key) of what can change while the broker runs."""

ALIASES: Final = {
    "brokerClusterName": ("broker", "cluster"),
    "brokerName": ("broker", "name"),
    "listenPort": ("broker", "port"),
    "namesrvAddr": ("broker", "name_servers"),
    "autoCreateTopicEnable": ("broker", "auto_create_topics"),
    "autoCreateSubscriptionGroup": ("broker", "auto_create_groups"),
    "defaultTopicQueueNums": ("broker", "default_queues"),
    "fileReservedTime": ("store", "retention_hours"),
    "deleteWhen": ("store", "delete_hour"),
    "maxMessageSize": ("store", "max_body_bytes"),
    "flushDiskType": ("store", "flush"),
    "mappedFileSizeCommitLog": ("store", "segment_bytes"),
    "maxTransferCountOnMessageInMemory": ("limits", "pull_count"),
    "maxTransferBytesOnMessageInMemory": ("limits", "pull_bytes"),
    "transactionTimeOut": ("transaction", "first_check_ms"),
    "transactionCheckInterval": ("transaction", "check_interval_ms"),
    "transactionCheckMax": ("transaction", "max_checks"),
    "rejectTransactionMessage": ("transaction", "reject"),
}
"""What RocketMQ calls settings that exist here; its other settings are shown, if at all, as they are, and fixed."""

Key = tuple[str, str]
"""Section and name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a broker."""

    broker: BrokerConfig
    store: StoreConfig
    limits: LimitsConfig
    transaction: TransactionConfig

    def value(self, key: Key) -> object:
        """Return one setting."""
        return getattr(getattr(self, key[0]), key[1])

    def changed(self, values: Mapping[Key, object]) -> Settings:
        """Return the settings with other values.

        Raises:
            BadStore: a value is out of its bounds.
        """
        parts: dict[str, dict[str, Any]] = {"broker": {}, "store": {}, "limits": {}, "transaction": {}}
        for (section, name), value in values.items():
            parts[section][name] = value
        return Settings(
            replace(self.broker, **parts["broker"]),
            replace(self.store, **parts["store"]),
            replace(self.limits, **parts["limits"]),
            replace(self.transaction, **parts["transaction"]),
        )

    def texts(self) -> dict[str, str]:
        """Return every setting as ``section.key`` → text."""
        structs = (
            ("broker", self.broker),
            ("store", self.store),
            ("limits", self.limits),
            ("transaction", self.transaction),
        )
        return {
            f"{section}.{field.name}": _text(getattr(struct, field.name))
            for section, struct in structs
            for field in fields(struct)
        }


class LiveConfig:
    """The settings in force; ``apply`` puts changed ones to work."""

    def __init__(self, store: MessageStore, configured: Settings, apply: Callable[[Settings], None]) -> None:
        self._store = store
        self._configured = configured
        self.settings = configured
        self._apply = apply
        self._changed: dict[Key, object] = {}
        self._load()

    # -- showing ---------------------------------------------------------------------------------

    def own_names(self) -> dict[str, str]:
        """Return every setting as ``section.key`` → text."""
        return self.settings.texts()

    def rocketmq_names(self, address: str) -> dict[str, str]:
        """Return what exists here under RocketMQ's names; tools look for them."""
        host, _, port = address.rpartition(":")
        broker, store, limits = self.settings.broker, self.settings.store, self.settings.limits
        transaction = self.settings.transaction
        hour = store.delete_hour
        return {
            "brokerClusterName": broker.cluster,
            "brokerName": broker.name,
            "brokerId": "0",
            "brokerRole": "ASYNC_MASTER",
            "brokerPermission": "6",
            "brokerIP1": host.strip("[]"),
            "listenPort": port,
            "namesrvAddr": ";".join(broker.name_servers),
            "autoCreateTopicEnable": _text(broker.auto_create_topics),
            "autoCreateSubscriptionGroup": _text(broker.auto_create_groups),
            "defaultTopicQueueNums": str(broker.default_queues),
            "fileReservedTime": f"{store.retention_hours:g}",
            "deleteWhen": f"{hour:02d}" if hour is not None else "",
            "maxMessageSize": str(store.max_body_bytes),
            "flushDiskType": "ASYNC_FLUSH" if store.flush == "async" else "SYNC_FLUSH",
            "diskMaxUsedSpaceRatio": f"{store.disk_start_ratio * 100:.0f}",
            "messageDelayLevel": LEVELS_TEXT,
            "maxTransferCountOnMessageInMemory": str(limits.pull_count),
            "maxTransferBytesOnMessageInMemory": str(limits.pull_bytes),
            "enablePropertyFilter": "true",
            "slaveReadEnable": "false",
            "traceTopicEnable": "true",
            "traceOn": "true",
            "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
            "transactionTimeOut": str(transaction.first_check_ms),
            "transactionCheckInterval": str(transaction.check_interval_ms),
            "transactionCheckMax": str(transaction.max_checks),
            "rejectTransactionMessage": _text(transaction.reject),
            "useServerSideResetOffset": "true",
        }

    # -- changing --------------------------------------------------------------------------------

    def update(self, pairs: Mapping[str, str]) -> list[str]:
        """Change settings by RocketMQ's or LiteMQ's names, all of them or none; return which changed.

        Raises:
            NoPermission: one of them cannot change while the broker runs.
            BadField: one of them is not known, or its value is wrong.
        """
        wanted: dict[Key, object] = {}
        for name, text in pairs.items():
            key = self._key(name)
            if key not in LIVE:
                place = ".".join(key)
                raise NoPermission(f"{name} cannot change while the broker runs: set {place} and restart it")
            try:
                wanted[key] = from_text(*key, text)
            except BadStore as error:
                raise BadField(str(error)) from error
        changed = [key for key, value in wanted.items() if value != self.settings.value(key)]
        self._take(wanted)
        if changed:
            self._changed |= {key: wanted[key] for key in changed}
            self._save()
        for section, name in changed:
            logger.info("setting changed: name=%s.%s value=%s", section, name, wanted[section, name])
        return [".".join(key) for key in changed]

    def _key(self, name: str) -> Key:
        if name in ALIASES:
            return ALIASES[name]
        section, dot, key = name.partition(".")
        if dot and name in self.own_names():
            return section, key
        if name in self.rocketmq_names(":"):
            raise NoPermission(f"{name} cannot be changed")
        raise BadField(f"there is no setting {name[:80]!r}; getBrokerConfig shows all of them")

    def _take(self, values: Mapping[Key, object]) -> None:
        """Put settings into force; what a struct refuses changes nothing."""
        try:
            settings = self.settings.changed(values)
        except BadStore as error:
            raise BadField(str(error)) from error
        if settings != self.settings:
            self.settings = settings
            self._apply(settings)

    # -- keeping ---------------------------------------------------------------------------------

    def _save(self) -> None:
        kept: dict[str, Value] = {}
        for key, value in self._changed.items():
            was = self._configured.value(key)
            if value != was:
                kept[".".join(key)] = {"value": _plain(value), "was": _plain(was)}
        self._store.save_table(SNAPSHOT, {"settings": kept})

    def _load(self) -> None:
        table = self._store.load_table(SNAPSHOT)
        found = table.get("settings") if table else None
        for name, entry in found.items() if isinstance(found, dict) else ():
            section, _, key = name.partition(".")
            if (section, key) in LIVE and isinstance(entry, dict):
                self._load_one((section, key), entry)

    def _load_one(self, key: Key, entry: JsonObject) -> None:
        name = ".".join(key)
        value, configured = entry.get("value"), self._configured.value(key)
        if entry.get("was") != configured:
            logger.warning("earlier change of a setting dropped: name=%s configured=%s", name, configured)
            return
        try:
            self._take({key: value})
        except BadField as error:
            logger.warning("earlier change of a setting dropped: name=%s reason=%s", name, error)
            return
        self._changed[key] = value
        logger.info("earlier change of a setting holds: name=%s value=%s", name, value)


def _plain(value: object) -> int | float | None:
    """Return a value of a setting that can change; all of them are numbers, switches or None."""
    assert value is None or isinstance(value, int | float), value
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ";".join(str(part) for part in value)
    return "none" if value is None else str(value)
