"""A real RocketMQ on loopback: its jars from the public Maven registry, its broker, its client library.

``Toolbox`` finds Java and Maven and the jars; ``Driver`` is one Java process with a name server and RocketMQ's own
clients in it (``java/Driver.java``); ``RealBroker`` is RocketMQ's unchanged broker on a store directory.  Processes
always end with their ``with`` block.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
VERSION = "5.4.0"
CLUSTER = "DefaultCluster"
BROKER = "broker-a"

_OPEN = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
_LOGBACK = """<configuration>
  <appender name="all" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d{{HH:mm:ss.SSS}} %p %c{{0}} - %m%n%ex</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="all"/></root>
</configuration>
"""

Shown = dict[str, Any]
"""A message as the Java client shows it: ``shown`` in ``Driver.java``."""


class Missing(Exception):
    """Something to install is not here; says what and how."""


def cache_dir() -> Path:
    """Return where jars are kept between runs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "litemq-clients"


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Java, and RocketMQ's jars."""

    java: str
    class_path: str
    classes: Path

    @classmethod
    def find(cls, work: Path) -> Toolbox:
        """Find Java and Maven, fetch the jars when the cache lacks them, compile the driver.

        Raises:
            Missing: Java or Maven is not installed, or the jars cannot be fetched.
        """
        java, javac, maven = shutil.which("java"), shutil.which("javac"), shutil.which("mvn")
        if java is None or javac is None:
            raise Missing(
                "no `java` and `javac` on the PATH: install a JDK, 17 or newer (Debian: openjdk-17-jdk-headless)"
            )
        jars = cls._jars(maven)
        classes = work / "classes"
        done = subprocess.run(
            [javac, "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", classes, *HERE.glob("java/*.java")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return cls(java, f"{classes}:{jars}/*", classes)

    @staticmethod
    def _jars(maven: str | None) -> Path:
        pom = HERE / "pom.xml"
        jars = cache_dir() / f"rocketmq-{VERSION}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
        if jars.is_dir():
            return jars
        if maven is None:
            raise Missing("no `mvn` on the PATH, and no jars in the cache: install Maven, 3.6 or newer (maven)")
        jars.parent.mkdir(parents=True, exist_ok=True)
        new = jars.with_name(f"{jars.name}.{os.getpid()}")
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        done = subprocess.run(
            [maven, "-q", "-B", "-f", pom, goal, f"-DoutputDirectory={new}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            shutil.rmtree(new, ignore_errors=True)
            said = (done.stdout + done.stderr).strip().splitlines()
            raise Missing(f"Maven could not fetch RocketMQ {VERSION} ({said[0] if said else 'it said nothing'})")
        with contextlib.suppress(OSError):  # another run was quicker
            new.rename(jars)
        shutil.rmtree(new, ignore_errors=True)
        return jars

    def start(self, work: Path, heap: str, *arguments: str, pipe: bool = False) -> subprocess.Popen[bytes]:
        """Start a JVM whose home, logs and output are in ``work``; ``pipe``: its output can be read instead."""
        (work / "home" / "conf").mkdir(parents=True, exist_ok=True)
        logback = work / "logback.xml"
        logback.write_text(_LOGBACK.format(log=work / "all.log"))
        command = [
            self.java,
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-XX:TieredStopAtLevel=1",
            *_OPEN,
            f"-Duser.home={work / 'home'}",
            f"-Drmq.logback.configurationFile={logback}",
            f"-Drocketmq.client.logRoot={work / 'home'}",
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
            "-cp",
            self.class_path,
            *arguments,
        ]
        environment = {**os.environ, "ROCKETMQ_HOME": str(work / "home")}
        with (work / "out.log").open("ab") as out:
            return subprocess.Popen(
                command,
                cwd=work,
                env=environment,
                stdin=subprocess.PIPE,  # its end ends the JVM, so that none outlives the test
                stdout=subprocess.PIPE if pipe else out,
                stderr=out,
            )


_given: set[int] = set()
"""Ports that may not be in use yet: a broker is started when a test wants it."""


def free_ports(count: int, steps: tuple[int, ...] = (0,)) -> list[int]:
    """Return ports that nobody listens on and nobody was given, each with its neighbours at ``steps``."""
    found: list[int] = []
    for port in range(20000 + os.getpid() % 10000, 60000, 10):
        if port not in _given and all(_is_free(port + step) for step in steps):
            found.append(port)
            _given.add(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def finish(process: subprocess.Popen[bytes], seconds: float = 90) -> int:
    """End a process, by force when it does not hear in time."""
    if seconds:
        process.terminate()
    else:
        process.kill()
    try:
        process.wait(seconds or None)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    return process.returncode


class Driver:
    """RocketMQ's clients and name server in one Java process; ask it by ``call``."""

    def __init__(self, tools: Toolbox, work: Path) -> None:
        self._work = work
        work.mkdir(parents=True, exist_ok=True)
        self.name_server_port, self.broker_port = free_ports(2, (-2, 0, 1))
        config = work / "namesrv.conf"
        config.write_text(f"listenPort={self.name_server_port}\nbindAddress=127.0.0.1\n")
        self._process = tools.start(work, "256m", "Driver", str(self.name_server_port), str(config), BROKER, pipe=True)
        self._answer()

    def call(self, op: str, **values: object) -> Any:  # noqa: ANN401 - whatever JSON the driver answers
        """Have the driver do something; its error is a ``DriverError``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **values}).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:  # noqa: ANN401
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DriverError(f"the driver ended: {(self._work / 'out.log').read_text()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer.get("ok")

    def close(self) -> None:
        """End the process."""
        finish(self._process, 5)


class DriverError(Exception):
    """What the Java side threw."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """File sizes that a store and a broker must agree on."""

    segment_bytes: int = 131072
    queue_entries: int = 60
    index_slots: int = 500
    index_entries: int = 700


class BrokerRefused(Exception):
    """The broker ended instead of starting; says what it printed."""


class RealBroker:
    """RocketMQ's own broker on the store at ``store``, started by ``with``, stopped cleanly at its end."""

    def __init__(self, tools: Toolbox, driver: Driver, store: Path, work: Path, sizes: Sizes, **more: object) -> None:
        self._tools = tools
        self._driver = driver
        self._store = store
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._is_connected = False
        settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": driver.broker_port,
            "haListenPort": driver.broker_port + 1,
            "namesrvAddr": f"127.0.0.1:{driver.name_server_port}",
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": sizes.segment_bytes,
            "mappedFileSizeConsumeQueue": 20 * sizes.queue_entries,
            "maxHashSlotNum": sizes.index_slots,
            "maxIndexNum": sizes.index_entries,
            "mapperFileSizeBatchConsumeQueue": 46 * sizes.queue_entries,
            "mappedFileSizeTimerLog": 102400,
            "autoCreateTopicEnable": "false",
            "fileReservedTime": 1_000_000,  # the fixtures' files are old
            "diskMaxUsedSpaceRatio": 95,
            "defaultReadDiskRatio": 0,
            "rejectTransactionMessage": "false",
            **more,
        }
        work.mkdir(parents=True, exist_ok=True)
        (work / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop() if kind is None else self.kill()

    def start(self, seconds: float = 90) -> None:
        """Start and wait until it serves.

        Raises:
            BrokerRefused: it ended by itself.
        """
        config = str(self._work / "broker.conf")
        self._process = self._tools.start(
            self._work, "512m", "Kept", "org.apache.rocketmq.broker.BrokerStartup", "-c", config
        )
        end = time.monotonic() + seconds
        out = self._work / "out.log"
        while "boot success" not in out.read_text():
            code = self._process.poll()
            if code is not None:
                self.kill()
                raise BrokerRefused(f"exit {code}: {out.read_text()}")
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"the broker did not start within {seconds} s: {out.read_text()}")
            time.sleep(0.05)
        self._driver.call("connect")
        self._is_connected = True

    def stop(self) -> None:
        """Stop it cleanly."""
        self._disconnect()
        if self._process is not None:
            process, self._process = self._process, None
            code = finish(process)
            assert code in (0, 128 + signal.SIGTERM, -signal.SIGTERM), f"the broker ended with {code}"
            assert not (self._store / "abort").exists(), "the broker did not stop cleanly"

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            finish(self._process, 0)
            self._process = None
        self._disconnect()

    def _disconnect(self) -> None:
        if self._is_connected:
            self._is_connected = False
            self._driver.call("disconnect")

    # -- what it says ----------------------------------------------------------------------------

    @property
    def log(self) -> str:
        """Return everything it logged."""
        path = self._work / "all.log"
        return path.read_text() if path.exists() else ""

    def complaints(self) -> list[str]:
        """Return lines of the log that tell of trouble with the store."""
        return [line for line in self.log.splitlines() if _is_complaint(line)]

    def started_after(self) -> str:
        """Return how it thinks the last stop went: ``normally`` or ``abnormally``."""
        return self.log.rpartition("last shutdown ")[2].partition(",")[0]

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return min and max offset by queue id."""
        found: dict[str, list[int]] = self._driver.call("offsets", topic=topic)
        return {int(queue): (low, high) for queue, (low, high) in found.items()}

    def pull(self, topic: str, queue: int, start: int = 0, tags: str = "*") -> list[Shown]:
        """Return every message of a queue from ``start`` on."""
        return self._decoded(self._driver.call("pull", topic=topic, queue=queue, **{"from": start}, tags=tags))

    def by_key(self, topic: str, key: str) -> list[Shown]:
        """Return what the index finds for a key."""
        return self._decoded(self._driver.call("byKey", topic=topic, key=key))

    def by_unique_key(self, topic: str, message_id: str) -> list[Shown]:
        """Return what the index finds for a message id."""
        return self._decoded(self._driver.call("byUniqueKey", topic=topic, id=message_id))

    def send(self, topic: str, messages: list[dict[str, object]]) -> list[dict[str, Any]]:
        """Send messages: ``body`` (bytes) and any of ``queue``, ``tags``, ``keys``, ``properties``, ``level``."""
        coded = []
        for message in messages:
            body = message["body"]
            assert isinstance(body, bytes)
            coded.append({**message, "body": base64.b64encode(body).decode()})
        answer: list[dict[str, Any]] = self._driver.call("send", topic=topic, messages=coded)
        assert all(sent["status"] == "SEND_OK" for sent in answer)
        return answer

    def committed(self, group: str, topic: str, queues: int) -> dict[int, int]:
        """Return the offsets that the broker has for a group."""
        found: dict[str, int] = self._driver.call("committed", group=group, topic=topic, queues=queues)
        return {int(queue): offset for queue, offset in found.items()}

    def consume(self, group: str, topic: str, count: int, seconds: int = 90) -> list[Shown]:
        """Return what a push consumer of a group gets."""
        return self._decoded(self._driver.call("consume", group=group, topic=topic, count=count, seconds=seconds))

    def create_topic(self, topic: str, queues: int) -> None:
        """Create or alter a topic."""
        self._driver.call("createTopic", topic=topic, queues=queues)

    def offset_by_time(self, topic: str, queue: int, time_ms: int) -> int:
        """Return the offset that the broker finds for a time."""
        found: int = self._driver.call("offsetByTime", topic=topic, queue=queue, time=time_ms)
        return found

    def mqadmin(self, *arguments: str) -> str:
        """Return what mqadmin prints."""
        said: str = self._driver.call("mqadmin", args=list(arguments))
        return said

    @staticmethod
    def _decoded(found: list[Shown]) -> list[Shown]:
        return [{**message, "body": base64.b64decode(message["body"])} for message in found]


_HARMLESS = (
    "found a illegal magic code 0x0",  # the end of every log
    "truncate dirty logic files",  # every start whose queues are complete
    "Offset not matched. Request offset",  # a queue whose last file is just full
    "possibly by shutdown",
    "may caused by shutdown",
    "Load default HA Service",
    "Index file",  # … is full, trying to create another one
    " RocketmqRemoting - ",  # a client went away
    "processRequestWrapper",
    "RemotingCommand [",
)


def _is_complaint(line: str) -> bool:
    is_bad = " ERROR " in line or "[BUG]" in line or (" WARN " in line and "RocketmqStore" in line)
    return is_bad and not any(text in line for text in _HARMLESS)


def until(is_so: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until ``is_so``; fail with ``what`` when it takes too long."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.1)
