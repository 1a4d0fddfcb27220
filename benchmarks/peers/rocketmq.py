"""A real RocketMQ on loopback: name server and broker from the published jars, which Maven fetches into the cache."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import native
from benchmarks.peers import maven
from benchmarks.peers.maven import java
from benchmarks.peers.process import (
    Server,
    counting_syncs,
    end,
    free_ports,
    wait_until_listening,
)
from benchmarks.peers.process import start as start_process

VERSION = "5.4.0"
HEAP = "2g"
# The jars are those that the tests with official clients need, so both share one copy of them.
POM = Path(__file__).resolve().parent.parent.parent / "tests" / "clients" / "pom.xml"
_OPEN = [
    f"--add-{kind}=java.base/{package}=ALL-UNNAMED"
    for kind, package in (
        ("opens", "java.nio"),
        ("opens", "sun.nio.ch"),
        ("opens", "java.util"),
        ("opens", "java.lang"),
        ("opens", "jdk.internal.ref"),
        ("exports", "jdk.internal.ref"),
        ("exports", "sun.nio.ch"),
    )
]


def jars() -> Path:
    """Return the folder with RocketMQ's jars."""
    return maven.jars("RocketMQ", VERSION, POM, "litemq-clients")


def start(folder: Path, *, flush: str = "async", counts_syncs: bool = False) -> Server:
    """Start a name server and a broker with RocketMQ's defaults; ``flush = "group"`` is its SYNC_FLUSH."""
    name_server, broker = free_ports(2, (-2, 0, 1))
    (folder / "home" / "conf").mkdir(parents=True, exist_ok=True)
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "listenPort": broker,
        "haListenPort": broker + 1,
        "namesrvAddr": f"127.0.0.1:{name_server}",
        "storePathRootDir": folder / "store",
        "storePathCommitLog": folder / "store" / "commitlog",
        "flushDiskType": "SYNC_FLUSH" if flush == "group" else "ASYNC_FLUSH",
        "diskMaxUsedSpaceRatio": 95,
    }
    (folder / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    (folder / "namesrv.conf").write_text(f"listenPort={name_server}\n")
    began = time.monotonic()
    names = _jvm(folder, "256m", "org.apache.rocketmq.namesrv.NamesrvStartup", "namesrv.conf", {})
    try:
        wait_until_listening(names, name_server, folder / "namesrv.conf.log")
        environment, counts = counting_syncs(folder, native.syncs_library()) if counts_syncs else ({}, None)
        process = _jvm(folder, HEAP, "org.apache.rocketmq.broker.BrokerStartup", "broker.conf", environment)
        server = Server(
            "rocketmq",
            broker,
            process,
            folder,
            name_server=f"127.0.0.1:{name_server}",
            syncs=counts,
            others=[names],
        )
    except BaseException:
        end(names)
        raise
    try:
        wait_until_listening(process, broker, folder / "broker.conf.log")
        server.ready_s = time.monotonic() - began
    except BaseException:
        server.__exit__()
        raise
    return server


def _jvm(folder: Path, heap: str, main: str, config: str, environment: dict[str, str]) -> native.Process:
    command: list[str | Path] = [
        java(),
        f"-Xms{heap}",
        f"-Xmx{heap}",
        "-XX:+UseG1GC",
        *_OPEN,
        f"-Duser.home={folder / 'home'}",
        "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
        "-cp",
        f"{jars()}/*",
        main,
        "-c",
        folder / config,
    ]
    home = {"ROCKETMQ_HOME": str(folder / "home")}
    return start_process(command, folder, environment=environment | home, log=f"{config}.log")
