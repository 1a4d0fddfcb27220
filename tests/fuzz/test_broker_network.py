"""A broker among hostile, broken and slow clients: it answers or closes, keeps its memory, and serves the others."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support import raw_client as raw
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawClient

from litemq.wire.remoting.codes import Ask

ROOT = Path(__file__).parent.parent.parent
MIB = 1 << 20
FRAMES = 104_000
PROCESSES = 2
CONNECTIONS = 5_000
SETTINGS = {"broker.max_topics": 200, "broker.max_groups": 200}


def say(text: str) -> None:
    """Show a figure; ``pytest -s`` lets it through."""
    sys.stdout.write(f"{text}\n")


class Innocent:
    """A client that sends and pulls all the time, and notes how long each takes."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        self._is_ending = threading.Event()
        self._error: BaseException | None = None
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> str:
        """End; return how it was served."""
        self._is_ending.set()
        self._thread.join(60)
        if self._error is not None:
            raise self._error
        assert len(self.times) > 20, "the innocent client was not served"
        ordered = sorted(self.times)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1000 for part in (0.5, 0.99))
        return f"innocent client: {len(ordered)} sends and pulls, p50 {p50:.2f} ms, p99 {p99:.2f} ms"

    @property
    def p99_s(self) -> float:
        """Return the time that 99 of 100 pairs of a send and a pull stayed below."""
        return sorted(self.times)[int(len(self.times) * 0.99)]

    def _run(self) -> None:
        try:
            with RawClient(self._place) as client:
                serial = 0
                while not self._is_ending.wait(0.004):
                    self._one(client, serial)
                    serial += 1
        except BaseException as error:  # noqa: BLE001 - raised again by ``stop``
            self._error = error

    def _one(self, client: RawClient, serial: int) -> None:
        body = b"innocent %d" % serial
        began = time.perf_counter()
        sent = client.ask(raw.SEND_V2, raw.send_ext("innocent", 0, {"UNIQ_KEY": f"I{serial}"}), body)
        assert sent.code == 0, sent
        got = client.ask(raw.PULL, raw.pull_ext("innocent", 0, int(sent.ext["queueOffset"]), group="good", count=1))
        self.times.append(time.perf_counter() - began)
        assert [message.body for message in raw.messages(got.body)] == [body]


@contextmanager
def besieged(folder: Path, *, files: int = 0, **settings: object) -> Iterator[tuple[BrokerProcess, Innocent]]:
    """Yield a broker and somebody who must not suffer; at the end the broker is well and has no surprise in its log."""
    given = {**SETTINGS, **{name.replace("__", "."): value for name, value in settings.items()}}
    with BrokerProcess(folder / "store", folder / "log", given, files=files) as broker:
        innocent = Innocent(broker.place)
        yield broker, innocent
        say(innocent.stop())
        say(f"longest pause of the broker's loop: {own_pause_ms(broker):.0f} ms of its own")
        assert innocent.p99_s < 2.0
        assert broker.is_alive
        assert broker.stop() == 0
        assert not broker.surprises(), broker.surprises()[0]


def own_pause_ms(broker: BrokerProcess) -> float:
    """Return the longest pause of a broker's loop that the machine is not to blame for."""
    with RawClient(broker.place) as client:
        told = json.loads(client.ask(Ask.LITEMQ_STATISTICS, {}).body)
    longest: float = told["pauses"]["longest_own_ms"]
    return longest


@pytest.mark.timeout(600)
def test_frames_that_nobody_should_send(tmp_path: Path) -> None:
    with besieged(tmp_path) as (broker, _):
        attack(broker, seed=1, count=FRAMES // 4)
        before = broker.memory()
        tally = attack(broker, seed=2, count=FRAMES - FRAMES // 4)
        say(f"{tally}\nRssAnon: {before / MIB:.1f} MiB after a quarter, {broker.memory() / MIB:.1f} MiB at the end")
        assert tally["broken"] > FRAMES // 100
        assert tally["code 0"] > FRAMES // 10, "too few get past the first check"
        assert not tally["unanswered"]
        assert not tally["left open"]
        assert not tally["closed"], "a connection was closed though its frames were whole"
        assert broker.memory() - before < 48 * MIB


def attack(broker: BrokerProcess, *, seed: int, count: int) -> Counter[str]:
    """Let processes throw frames at a broker; return what became of them."""
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.fuzz.fuzz_process", broker.place[0], str(broker.place[1])),
                *(str(seed * 1000 + number), str(count // PROCESSES)),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    tally: Counter[str] = Counter()
    for process in processes:
        said, _ = process.communicate()
        assert process.returncode == 0
        tally.update(json.loads(said))
    return tally


def fill(broker: BrokerProcess, topic: str, *, count: int, size: int) -> None:
    """Store messages."""
    with RawClient(broker.place) as client:
        for serial in range(count):
            ext = raw.send_ext(topic, 0, {"UNIQ_KEY": f"F{serial}"})
            assert client.ask(raw.SEND_V2, ext, b"x" * size).code == 0


def is_closed(connection: socket.socket, *, within_s: float = 30.0) -> bool:
    """Return whether the broker closes a connection; what it sends before is dropped."""
    connection.settimeout(within_s)
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.timeout(180)
def test_readers_that_do_not_read(tmp_path: Path) -> None:
    with (
        besieged(tmp_path, limits__output_stall_ms=1500, limits__output_bytes=4 * MIB) as (broker, _),
        ExitStack() as open_,
    ):
        fill(broker, "large", count=64, size=MIB // 2)
        before = broker.memory()
        pull = raw.frame(raw.PULL, {**raw.pull_ext("large", 0, 0, group="slow", count=64), "maxMsgBytes": str(4 * MIB)})
        readers = [open_.enter_context(socket.create_connection(broker.place)) for _ in range(20)]
        peak = before
        for _ in range(10):
            for reader in readers:
                _send(reader, pull)
            peak = max(peak, broker.memory())
            time.sleep(0.05)
        say(f"RssAnon: {before / MIB:.1f} MiB before, {peak / MIB:.1f} MiB with 20 readers that do not read")
        assert peak - before < 20 * 10 * MIB, "one answer of 4 MiB may wait for each, and the one that was too much"
        time.sleep(3)
        assert all(is_closed(reader) for reader in readers)
        until_memory(broker, before + 48 * MIB)


def _send(connection: socket.socket, data: bytes) -> None:
    """Send, unless the other side has closed."""
    try:
        connection.sendall(data)
    except ConnectionError:
        return


def until_memory(broker: BrokerProcess, bound: int, *, within_s: float = 20.0) -> None:
    """Wait until the broker's memory is below a bound; fail when it stays above."""
    end = time.monotonic() + within_s
    while broker.memory() > bound:
        assert time.monotonic() < end, f"RssAnon stays at {broker.memory() / MIB:.1f} MiB"
        time.sleep(0.1)


@pytest.mark.timeout(180)
def test_writers_of_a_byte_at_a_time(tmp_path: Path) -> None:
    with besieged(tmp_path) as (broker, _), ExitStack() as open_:
        writers = [open_.enter_context(socket.create_connection(broker.place)) for _ in range(100)]
        data = raw.frame(raw.SEND_V2, raw.send_ext("slow", 1, {"UNIQ_KEY": "S"}), b"at last", opaque=7)
        for at in range(len(data)):
            for writer in writers:
                writer.send(data[at : at + 1])
            time.sleep(0.005)
        for writer in writers:
            writer.settimeout(30)
            assert b'"queueOffset"' in writer.recv(4096)


@pytest.mark.timeout(180)
def test_announced_frames_that_never_come_cost_nothing(tmp_path: Path) -> None:
    with besieged(tmp_path, limits__idle_ms=2500) as (broker, _), ExitStack() as open_:
        before = broker.memory()
        silent = [open_.enter_context(socket.create_connection(broker.place)) for _ in range(600)]
        for number, connection in enumerate(silent[200:]):
            connection.sendall((MIB * 16 - 4).to_bytes(4, "big") + bytes(100 if number % 2 else 4000))
        time.sleep(0.5)
        with RawClient(broker.place) as client:
            assert client.ask(raw.MAX_OFFSET, {"topic": "innocent", "queueId": "0"}).code == 0
        grown = broker.memory() - before
        say(f"RssAnon: {grown / MIB:.1f} MiB more with 600 connections")
        assert grown < 24 * MIB
        assert all(is_closed(connection) for connection in silent), "the silent ones are closed after limits.idle_ms"


@pytest.mark.timeout(300)
def test_five_thousand_connections(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * CONNECTIONS + 1000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"the machine allows {hard} open files, {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        with besieged(tmp_path) as (broker, innocent), ExitStack() as open_:
            before = broker.memory()
            data = raw.frame(raw.MAX_OFFSET, {"topic": "innocent", "queueId": "0"}, opaque=1)
            peers = []
            for _ in range(CONNECTIONS):
                peers.append(open_.enter_context(socket.create_connection(broker.place, 30)))
                peers[-1].sendall(data)
            for peer in peers:
                assert peer.recv(4096)
            grown = broker.memory() - before
            say(f"RssAnon: {grown / MIB:.1f} MiB more with {CONNECTIONS} connections")
            assert grown < CONNECTIONS * 30 * MIB // 1000
            innocent.times.clear()
            for number, peer in enumerate(peers):  # all leave in the middle of a frame, half of them without a word
                peer.sendall(data[: number % len(data)])
                if number % 2:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                peer.close()
            time.sleep(1)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timeout(180)
def test_connections_leave_files_to_the_store(tmp_path: Path) -> None:
    with besieged(tmp_path, files=600) as (broker, _), ExitStack() as open_, RawClient(broker.place) as client:
        peers = [open_.enter_context(socket.create_connection(broker.place)) for _ in range(700)]
        for topic in range(60):
            assert client.ask(raw.SEND_V2, raw.send_ext(f"T{topic}", 0, {"UNIQ_KEY": "K"}), b"x").code == 0
        refused = sum(is_closed(peer, within_s=0.001) for peer in peers)
        assert 300 < refused < 700, "some are refused, but not all"
