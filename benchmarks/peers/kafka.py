"""One Kafka node on loopback, broker and controller in one JVM (KRaft), from the published jars that Maven fetches."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.peers.process import (
    Broken,
    Missing,
    Server,
    cache_dir,
    end,
    found,
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


def java() -> str:
    """Return the ``java`` command."""
    return found("java", "install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless)")


def jars() -> Path:
    """Return the folder with Kafka's jars; fetch them when the cache lacks them.

    Raises:
        Missing: Maven is not installed, or cannot fetch them.
    """
    folder = cache_dir() / "litemq-bench" / f"kafka-{VERSION}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    maven = found("mvn", "and Kafka's jars are not in the cache: install Maven, 3.6 or newer (Debian: maven)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = folder.with_name(f"{folder.name}.{os.getpid()}")
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
    command: list[str | Path] = [maven, "-q", "-B", "-f", POM, goal, f"-DoutputDirectory={new}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        said = (done.stdout + done.stderr).strip().splitlines()
        raise Missing(f"Maven could not fetch Kafka {VERSION} ({said[0] if said else 'it said nothing'})")
    with contextlib.suppress(OSError):  # another run was quicker
        new.rename(folder)
    shutil.rmtree(new, ignore_errors=True)
    return folder


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
