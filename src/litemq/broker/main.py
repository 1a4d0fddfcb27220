"""A broker in a process: built from the settings, started, closed with the process."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from litemq import process
from litemq.broker.broker import Broker
from litemq.config import BrokerConfig, LimitsConfig, StoreConfig, TransactionConfig
from litemq.config_file import Config
from litemq.store.message_store import check_free


async def begin(
    stack: AsyncExitStack, config: Config, data: Path, *, name_servers: tuple[str, ...] | None = None
) -> Broker:
    """Start a broker; it is closed with the stack.

    Args:
        stack: What the process closes at its end.
        config: All settings.
        data: The store directory.
        name_servers: Where it registers, instead of ``broker.name_servers``.

    Raises:
        StoreInUse: another process has the store open.
        CannotListen: one of the addresses is in use.
    """
    check_free(data)  # before the ports: a second start on the same store is told of the store
    settings = config.section(BrokerConfig)
    if name_servers is not None:
        settings = replace(settings, name_servers=name_servers)
    with process.listening(f"the broker {settings.name}", "--port or broker.listen"):
        broker = Broker(
            settings,
            config.section(StoreConfig),
            config.section(LimitsConfig),
            data,
            transaction=config.section(TransactionConfig),
        )
        await process.begin(stack, broker)
    return broker


def ready(broker: Broker) -> dict[str, object]:
    """Return what a ready line says of a broker."""
    config = broker.store_config
    return {
        "name": broker.config.name,
        "cluster": broker.config.cluster,
        "address": broker.address,
        "vip_address": broker.vip_address,
        "store": str(broker.data.absolute()),
        "format": broker.store.format,
        "flush": config.flush,
        "may_lose": may_lose(config),
        "pid": os.getpid(),
    }


def may_lose(config: StoreConfig) -> str:
    """Return what a flush policy can cost, in words."""
    if config.flush == "async":
        return (
            f"a power cut may cost what was acknowledged in the last {config.flush_interval_ms} ms;"
            " a crash of the broker costs nothing"
        )
    return "nothing that was acknowledged is lost to a power cut"
