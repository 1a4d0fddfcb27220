"""Settings of a name server that tools read and change while it runs, under the names RocketMQ's tools use.

A change holds until the process ends: the config file says what holds after that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from litemq.config import NameserverConfig
from litemq.errors import BadField, BadStore, NoPermission

LIVE = {
    "heartbeatExpiryMillis": "heartbeat_expiry_ms",
    "brokerExpiryMillis": "broker_expiry_ms",
    "scanNotActiveBrokerInterval": "scan_interval_ms",
    "enableAllTopicList": "list_all_topics",
    "returnOrderTopicConfigToBroker": "return_order_config",
}
FIXED = {"listenAddress": "listen", "listenPort": "port", "dataPath": "data"}


def shown(config: NameserverConfig) -> dict[str, str]:
    """Return all settings as texts."""
    return {name: _text(getattr(config, field)) for name, field in (FIXED | LIVE).items()}


def changed(config: NameserverConfig, pairs: Mapping[str, str]) -> NameserverConfig:
    """Return the settings with these changes; all of them or none.

    Raises:
        NoPermission: a setting that cannot change while the server runs.
        BadField: no such setting, or no such value.
    """
    changes: dict[str, Any] = {}
    for name, text in pairs.items():
        if name in FIXED:
            raise NoPermission(f"the setting {name} cannot be changed while the name server runs")
        if name not in LIVE:
            raise BadField(f"there is no setting {name[:80]}; these can be changed: {', '.join(LIVE)}")
        changes[LIVE[name]] = _value(name, text, getattr(config, LIVE[name]))
    try:
        return replace(config, **changes)
    except BadStore as error:
        raise BadField(str(error)) from error


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _value(name: str, text: str, now: object) -> object:
    if isinstance(now, bool):
        if text not in ("true", "false"):
            raise BadField(f"the setting {name} is {text[:40]!r}, it must be true or false")
        return text == "true"
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise BadField(f"the setting {name} is {text[:40]!r}, it must be a whole number")
    return int(text)
