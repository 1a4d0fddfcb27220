"""Servers that the scenario suites run against: LiteMQ in both store formats, a real RocketMQ, or any by address.

``LITEMQ_TEST_SERVERS`` names them (``litemq`` and ``rocketmq`` are LiteMQ's store formats, ``real`` is RocketMQ from
its published jars); ``LITEMQ_TEST_NAMESRV=host:port`` puts a running server in their place, which ``LITEMQ_TEST_KIND``
calls ``litemq`` (default) or ``real``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path

from tests.clients.rocketmq import BROKER, CLUSTER, Toolbox, finish, free_ports


def chosen() -> list[str]:
    """Return the names of the servers to test."""
    if os.environ.get("LITEMQ_TEST_NAMESRV"):
        return ["given"]
    return os.environ.get("LITEMQ_TEST_SERVERS", "litemq,rocketmq").split(",")


def start(name: str, tools: Toolbox, work: Path) -> Server:
    """Start a server by one of the names in ``chosen``."""
    match name:
        case "given":
            return GivenServer()
        case "real":
            return RealServer(tools, work)
        case _:
            return LiteMQServer(name, work)


_BETWEEN_CHECKS_MS = 3000
"""Of a transaction; scenarios count on it."""


class Server(ABC):
    """A name server and a broker on loopback."""

    name: str
    """The one that ``chosen`` gave it."""

    kind: str
    """``litemq``, or ``real`` where RocketMQ itself may answer otherwise."""

    name_server: str

    def do(self, what: str) -> None:
        """Do what a scenario asks for: ``stop and start the broker``."""
        how, _, rest = what.partition(" and start the ")
        self.restart(rest.replace(" ", ""), by_force=how == "kill")

    @abstractmethod
    def restart(self, part: str, *, by_force: bool) -> None:
        """Stop a part and start it again on the same data and address."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything that was started."""


class GivenServer(Server):
    """A server that somebody else runs."""

    def __init__(self) -> None:
        self.name = "given"
        self.kind = os.environ.get("LITEMQ_TEST_KIND", "litemq")
        self.name_server = os.environ["LITEMQ_TEST_NAMESRV"]

    def restart(self, part: str, *, by_force: bool) -> None:
        raise CannotRestart(f"this test does not own the {part} at {self.name_server}")

    def close(self) -> None:
        """Leave it running."""


class CannotRestart(Exception):
    """The server belongs to somebody else."""


class _Processes(Server):
    """A name server and a broker, each a process."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        name_server, broker = free_ports(2, (-2, 0, 1))
        self._ports = {"nameserver": name_server, "broker": broker}
        self.name_server = f"127.0.0.1:{name_server}"
        for part in self._ports:
            (work / part).mkdir(parents=True)

    @abstractmethod
    def _launch(self, part: str) -> subprocess.Popen[bytes]:
        """Start the process of a part."""

    def _start(self, part: str, seconds: float = 90) -> None:
        process = self._running[part] = self._launch(part)
        deadline = time.monotonic() + seconds
        while not _listens(self._ports[part]):
            assert process.poll() is None, f"the {part} ended with {process.returncode}: {self._said(part)}"
            assert time.monotonic() < deadline, f"the {part} did not listen within {seconds} s: {self._said(part)}"
            time.sleep(0.05)

    def _said(self, part: str) -> str:
        return (self._work / part / "out.log").read_text(errors="replace")[-2000:]

    def restart(self, part: str, *, by_force: bool) -> None:
        code = finish(self._running.pop(part), 0 if by_force else 60)
        assert by_force or self.kind != "litemq" or code == 0, f"the {part} ended with {code}: {self._said(part)}"
        self._start(part)

    def close(self) -> None:
        for part in reversed(list(self._running)):
            finish(self._running.pop(part), 30)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class RealServer(_Processes):
    """RocketMQ itself, with what LiteMQ has by default switched on."""

    def __init__(self, tools: Toolbox, work: Path) -> None:
        super().__init__(work)
        self.name = self.kind = "real"
        self._tools = tools
        (work / "nameserver" / "server.conf").write_text(
            f"listenPort={self._ports['nameserver']}\nbindAddress=127.0.0.1\n"
        )
        settings = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "listenPort": self._ports["broker"],
            "haListenPort": self._ports["broker"] + 1,
            "namesrvAddr": self.name_server,
            "storePathRootDir": work / "store",
            "storePathCommitLog": work / "store" / "commitlog",
            "mappedFileSizeCommitLog": 64 << 20,
            "autoCreateTopicEnable": "true",
            "enablePropertyFilter": "true",
            "recallMessageEnable": "true",
            "transactionCheckInterval": _BETWEEN_CHECKS_MS,
            "registerNameServerPeriod": 10000,
            "diskMaxUsedSpaceRatio": 95,
        }
        (work / "broker" / "server.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        for part in self._ports:
            self._start(part)

    def _launch(self, part: str) -> subprocess.Popen[bytes]:
        main, heap = {
            "nameserver": ("org.apache.rocketmq.namesrv.NamesrvStartup", "256m"),
            "broker": ("org.apache.rocketmq.broker.BrokerStartup", "1g"),
        }[part]
        work = self._work / part
        return self._tools.start(work, heap, "Kept", main, "-c", str(work / "server.conf"))


class LiteMQServer(_Processes):
    """LiteMQ with a store format.

    ``litemq`` is all in one process, where a restart of one part restarts the other as well; ``rocketmq`` is a name
    server and a broker in processes of their own.
    """

    def __init__(self, store_format: str, work: Path) -> None:
        super().__init__(work)
        self.name = store_format
        self.kind = "litemq"
        self._is_one = store_format == "litemq"
        (work / "litemq.toml").write_text(
            f'[store]\nformat = "{store_format}"\ndisk_free_floor = {64 << 20}\n'
            f"[nameserver]\nport = {self._ports['nameserver']}\n"
            f'[broker]\nport = {self._ports["broker"]}\nname_servers = ["{self.name_server}"]\n'
            f"[transaction]\ncheck_interval_ms = {_BETWEEN_CHECKS_MS}\n"
        )
        for part in ("broker",) if self._is_one else self._ports:
            self._start(part)

    def _launch(self, part: str) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name("litemq")
        command = [str(program), "up" if self._is_one else part, "--config", str(self._work / "litemq.toml")]
        if part == "broker":
            command += ["--data", str(self._work / "data")]
        with (self._work / part / "out.log").open("ab") as out:
            return subprocess.Popen(
                command, cwd=self._work / part, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
            )

    def restart(self, part: str, *, by_force: bool) -> None:
        super().restart("broker" if self._is_one else part, by_force=by_force)
