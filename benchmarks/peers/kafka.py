"""One Kafka node on loopback, broker and controller in one JVM (KRaft), from the published jars that Maven fetches."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from benchmarks.peers import maven
from benchmarks.peers.maven import java
from benchmarks.peers.process import (
    Broken,
    Server,
    end,
    free_ports,
    wait_until_listening,
)
from benchmarks.peers.process import start as start_process

VERSION = "4.3.1"
POM = Path(__file__).resolve().with_name("kafka.pom.xml")
CLUSTER_ID = "bGl0ZW1xLWJlbmNoLXB5dA"  # any 16 bytes in base64
# What Kafka's own start script gives the JVM.
_JVM = (
    "-Xms1g",
    "-Xmx1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)


def jars() -> Path:
    """Return the folder with Kafka's jars."""
    return maven.jars("Kafka", VERSION, POM, "litemq-bench")


def start(folder: Path) -> Server:
    """Format a new log directory and start the node on it, with Kafka's defaults otherwise."""
    port, controller = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "server.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "data",
        # There is one node only, and nobody else joins a group.
        "offsets.topic.replication.factor": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    began = time.monotonic()
    _format(folder, config)
    process = start_process([java(), *_JVM, "-cp", f"{jars()}/*", "kafka.Kafka", config], folder)
    try:
        wait_until_listening(process, port, folder / "out.log")
    except BaseException:
        end(process)
        raise
    return Server("kafka", port, process, folder, ready_s=time.monotonic() - began)


def _format(folder: Path, config: Path) -> None:
    tool: list[str | Path] = [java(), "-cp", f"{jars()}/*", "kafka.tools.StorageTool"]
    command = [*tool, "format", "-t", CLUSTER_ID, "-c", config]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"Kafka could not format its log directory: {(done.stdout + done.stderr)[-2000:]}")
