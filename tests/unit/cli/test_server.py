"""``litemq up``, ``nameserver`` and ``broker`` as real processes: ready lines, signals, refusals, children."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from litemq.cli.main import run
from litemq.cli.up import ready_lines, seats
from litemq.config import BrokerConfig
from litemq.errors import BadStore

LITEMQ = [sys.executable, "-m", "litemq"]
SMALL = [
    *("--set", "store.segment_bytes=1048576", "--set", "store.queue_entries=100"),
    *("--set", "store.index_slots=100", "--set", "store.index_entries=400"),
]
FREE = ["--port", "0", "--nameserver-port", "0"]
LIMIT_S = 60


class Server:
    """A running command."""

    def __init__(self, arguments: Sequence[str], where: Path, *, stdin: int = subprocess.DEVNULL) -> None:
        self.log = where / f"{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*LITEMQ, *arguments], cwd=where, stdin=stdin, stdout=subprocess.PIPE, stderr=log, text=True
            )

    def ready(self) -> dict[str, Any]:
        """Wait for the ready line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT_S)


@contextmanager
def server(*arguments: str, where: Path, stdin: int = subprocess.DEVNULL) -> Iterator[Server]:
    started = Server(arguments, where, stdin=stdin)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait()
        for pipe in (started.process.stdout, started.process.stdin):
            if pipe is not None:
                pipe.close()


def refused(*arguments: str, where: Path) -> str:
    """Run a command that must end with status 2; return what it says."""
    done = subprocess.run(
        [*LITEMQ, *arguments], cwd=where, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("litemq: error: "))
    return line


def is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_in_one_starts_serves_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with server("up", *FREE, *SMALL, "--json", "--flush", "group", "--format", "rocketmq", where=tmp_path) as up:
        ready = up.ready()
        (broker,) = ready["brokers"]
        assert ready["pid"] == broker["pid"] == up.process.pid
        for address in (ready["name_server"], broker["address"], broker["vip_address"]):
            assert is_listening(address)
        assert (broker["name"], broker["cluster"]) == ("broker-a", "DefaultCluster")
        assert (broker["format"], broker["flush"]) == ("rocketmq", "group")
        assert broker["may_lose"] == "nothing that was acknowledged is lost to a power cut"
        assert broker["store"] == str(tmp_path / "litemq-store")
        assert (tmp_path / "litemq-store" / "abort").exists()
        assert up.end(number) == 0
        assert not (tmp_path / "litemq-store" / "abort").exists()
        assert "Traceback" not in up.log.read_text()


def test_a_person_is_told_addresses_store_and_what_a_policy_costs(tmp_path: Path) -> None:
    with server("up", *FREE, *SMALL, where=tmp_path) as up:
        assert up.process.stdout is not None
        lines = [up.process.stdout.readline() for _ in range(5)]
        assert up.end() == 0
    text = "".join(lines)
    assert re.search(r"^name server  127\.0\.0\.1:\d+$", text, re.MULTILINE)
    assert re.search(r"^broker-a     127\.0\.0\.1:\d+ \(VIP \d+\), cluster DefaultCluster$", text, re.MULTILINE)
    assert f"store      {tmp_path / 'litemq-store'}, format litemq\n" in text
    assert "flush      async: a power cut may cost what was acknowledged in the last 500 ms" in text
    assert lines[-1].startswith("LiteMQ ")
    assert "is ready" in lines[-1]


def test_a_second_start_is_refused_with_who_holds_the_store(tmp_path: Path) -> None:
    with server("up", *FREE, *SMALL, "--json", where=tmp_path) as up:
        ready = up.ready()
        port = ready["name_server"].rpartition(":")[2]
        for command in (["up", "--nameserver-port", port, "--port", "0"], ["broker", "--port", "0"]):
            told = refused(*command, where=tmp_path)
            assert f"litemq-store is in use by process {up.process.pid} (" in told
            assert "stop it first" in told
        assert up.end() == 0


@pytest.mark.parametrize("who", ["nameserver", "up nameserver", "broker", "vip"])
def test_a_port_that_is_taken_is_named(tmp_path: Path, who: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if who == "nameserver":
            told = refused("nameserver", "--port", str(port), where=tmp_path)
            assert told.endswith("choose another address with --port or nameserver.listen")
        elif who == "up nameserver":
            told = refused("up", "--nameserver-port", str(port), "--port", "0", *SMALL, where=tmp_path)
            assert told.endswith("choose another address with --nameserver-port or nameserver.listen")
        else:
            wanted = port if who == "broker" else port + 2
            told = refused("broker", "--port", str(wanted), *SMALL, where=tmp_path)
            assert "the broker broker-a: " in told
            assert told.endswith("choose another address with --port or broker.listen")
        assert f"cannot listen on 127.0.0.1:{port}: " in told
        assert "ddress already in use" in told


def test_an_address_of_another_machine_is_named(tmp_path: Path) -> None:
    told = refused("nameserver", "--listen", "192.0.2.7", "--port", "0", where=tmp_path)
    assert "cannot listen on 192.0.2.7:0" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["up", "--port", "70000"], "--port: the setting port is 70000, it must be 0 to 65535"),
        (["up", "--port", "x"], "--port is 'x', it must be a whole number"),
        (["up", "--flush", "never"], "--flush is 'never', it must be one of async, group, sync"),
        (["up", "--set", "store.flsh=1"], "there is no setting store.flsh; the nearest is store.flush"),
        (["up", "--set", "flush"], "'flush' is not SECTION.KEY=VALUE"),
        (["up", "--brokers", "27"], "27 is not in the range"),
        (["up", "--brokers", "3", "--port", "65530"], "the last of 3 brokers would be at 65550"),
        (["broker", "--config", "none.toml"], "none.toml cannot be read"),
        (["broker", "--nameserver", "x"], "--nameserver: the setting name_servers is 'x'"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path: Path, arguments: list[str], told: str) -> None:
    assert told in refused(*arguments, where=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_name_server_alone(tmp_path: Path) -> None:
    with server("nameserver", "--port", "0", "--data", "kv", "--json", where=tmp_path) as names:
        ready = names.ready()
        assert ready["brokers"] == []
        assert is_listening(ready["name_server"])
        assert names.end() == 0


def test_settings_come_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "litemq.toml").write_text('[broker]\nname = "orders"\ncluster = "c1"\n[store]\nflush = "sync"\n')
    monkeypatch.setenv("LITEMQ_BROKER__CLUSTER", "c2")
    with server("up", *FREE, *SMALL, "--json", where=tmp_path) as up:
        (broker,) = up.ready()["brokers"]
        assert (broker["name"], broker["cluster"], broker["flush"]) == ("orders", "c2", "sync")
        assert up.end() == 0


def test_a_broker_registers_with_its_name_server(tmp_path: Path) -> None:
    with ExitStack() as stack:
        names = stack.enter_context(server("nameserver", "--port", "0", "--json", where=tmp_path))
        address = names.ready()["name_server"]
        broker = stack.enter_context(
            server("broker", "--port", "0", "--nameserver", address, "--json", *SMALL, where=tmp_path)
        )
        own = broker.ready()["brokers"][0]["address"]
        until(
            lambda: f"broker registered: cluster=DefaultCluster broker=broker-a address={own}" in names.log.read_text()
        )
        assert broker.end() == 0
        assert names.end() == 0


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    with server("broker", "--port", "0", "--child", "--json", *SMALL, where=tmp_path, stdin=subprocess.PIPE) as child:
        child.ready()
        assert child.process.stdin is not None
        child.process.stdin.close()
        assert child.process.wait(LIMIT_S) == 0
        assert not (tmp_path / "litemq-store" / "abort").exists()


def test_several_brokers_are_processes_that_are_started_again(tmp_path: Path) -> None:
    with server("up", "--brokers", "2", *FREE, *SMALL, "--json", where=tmp_path) as up:
        ready = up.ready()
        first, second = ready["brokers"]
        assert [first["name"], second["name"]] == ["broker-a", "broker-b"]
        assert first["store"] == str(tmp_path / "litemq-store" / "broker-a")
        assert len({up.process.pid, first["pid"], second["pid"]}) == 3
        for broker in (first, second):
            assert is_listening(broker["address"])
        os.kill(first["pid"], signal.SIGKILL)
        until(lambda: up.log.read_text().count("broker ready: name=broker-a") == 2)
        assert "broker-a was ended by SIGKILL; it is started again" in up.log.read_text()
        (pid,) = re.findall(r"broker ready: name=broker-a pid=(\d+)", up.log.read_text())[1:]
        assert is_running(int(pid))
        assert up.end() == 0
        assert not is_running(int(pid))
        assert not is_running(second["pid"])
        for name in ("broker-a", "broker-b"):
            assert not (tmp_path / "litemq-store" / name / "abort").exists()


def test_no_child_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    with server("up", "--brokers", "2", *FREE, *SMALL, "--json", where=tmp_path) as up:
        pids = [broker["pid"] for broker in up.ready()["brokers"]]
        up.end(signal.SIGKILL)
        until(lambda: not any(is_running(pid) for pid in pids))
    assert not (tmp_path / "litemq-store" / "broker-a" / "abort").exists()


def test_when_a_broker_cannot_start_nothing_runs(tmp_path: Path) -> None:
    (tmp_path / "litemq-store" / "broker-b").mkdir(parents=True)
    (tmp_path / "litemq-store" / "broker-b" / "something").touch()
    done = subprocess.run(
        [*LITEMQ, "up", "--brokers", "2", *FREE, *SMALL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "broker-b ended with status 2 before it was ready" in done.stderr
    assert "is no store" in done.stderr


# -- parts ------------------------------------------------------------------------------------------------------------


def test_seats_of_several_brokers(tmp_path: Path) -> None:
    assert [(seat.name, seat.port, seat.data) for seat in seats(BrokerConfig(), tmp_path, 3)] == [
        ("broker-a", 10911, tmp_path / "broker-a"),
        ("broker-b", 10921, tmp_path / "broker-b"),
        ("broker-c", 10931, tmp_path / "broker-c"),
    ]
    assert [seat.name for seat in seats(BrokerConfig(name="orders"), tmp_path, 2)] == ["orders-a", "orders-b"]
    assert [seat.port for seat in seats(BrokerConfig(port=0), tmp_path, 2)] == [0, 0]
    (one,) = seats(BrokerConfig(), tmp_path, 1)
    assert (one.name, one.port, one.data) == ("broker-a", 10911, tmp_path)


def test_a_directory_of_another_number_of_brokers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one" / "commitlog").mkdir(parents=True)
    (tmp_path / "two" / "broker-a" / "commitlog").mkdir(parents=True)
    with pytest.raises(BadStore, match="is the store of a single broker"):
        seats(BrokerConfig(), tmp_path / "one", 2)
    with pytest.raises(BadStore, match=r"holds the stores of several brokers \(broker-a\)"):
        seats(BrokerConfig(), tmp_path / "two", 1)


def test_lines_of_a_ready_name_server() -> None:
    (where, last) = ready_lines("127.0.0.1:9876", [])
    assert where == "name server  127.0.0.1:9876"
    assert "is ready" in last


@pytest.mark.parametrize("command", ["up", "nameserver", "broker", "config"])
def test_help_loads_no_server(command: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run([command, "--help"]) == 0
    assert capfdbinary.readouterr().out
    code = (
        "import sys; from litemq.cli.main import run; run([sys.argv[1], '--help'])\n"
        "print([name for name in ('asyncio', 'uvloop', 'rich', 'litemq.store.message_store') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
