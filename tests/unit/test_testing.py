"""``litemq.testing``: a broker of a test's own, which starts, dies, comes back and goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from litemq.client.net import BlockingNet
from litemq.client.routes import TEMPLATE, Routes
from litemq.client.running import run
from litemq.errors import NoAnswer, Unavailable
from litemq.testing import Broker, broker

LIMIT_S = 30.0


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody asked for is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def brokers_of(nameservers: str) -> dict[str, str]:
    """Return the brokers that the name server tells of."""
    net = BlockingNet()
    try:
        return run(Routes(net, [nameservers]).find(TEMPLATE)).addresses
    finally:
        run(net.close())


def test_a_broker_answers_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = dict(os.environ)
    with broker() as b:
        assert brokers_of(b.nameservers) == {"broker-a": b.address}
        assert b.data.is_relative_to(tmp_path)
        assert (b.data / "commitlog").is_dir()
        assert b.http is None
        assert "broker started" in b.log
        pid = b.pid
        assert pid is not None
        assert is_running(pid)
        assert repr(b) == f"<litemq.testing.Broker {b.nameservers} runs>"
    assert b.pid is None
    assert not is_running(pid)
    assert list(tmp_path.iterdir()) == []
    assert dict(os.environ) == before


def test_two_brokers_know_nothing_of_each_other() -> None:
    with broker() as one, broker() as two:
        assert one.nameservers != two.nameservers
        assert brokers_of(one.nameservers) == {"broker-a": one.address}
        assert brokers_of(two.nameservers) == {"broker-a": two.address}


@pytest.mark.parametrize("how", [Broker.kill, Broker.stop])
def test_it_comes_back_where_it_was(how: Callable[[Broker], None]) -> None:
    with broker() as b:
        before = (b.nameservers, b.address, b.data)
        how(b)
        how(b)  # a second time does nothing
        assert b.pid is None
        assert repr(b).endswith("does not run>")
        with pytest.raises(NoAnswer, match="no name server answers"):
            brokers_of(b.nameservers)
        b.restart()
        assert (b.nameservers, b.address, b.data) == before
        assert brokers_of(b.nameservers) == {"broker-a": b.address}
        assert b.log.count("broker started") == 2


def test_a_restart_of_a_running_one_stops_it_first() -> None:
    with broker() as b:
        before = b.pid
        b.start()
        assert b.pid == before, "it runs already"
        b.restart()
        assert b.pid not in (None, before)


def test_settings_are_those_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITEMQ_BROKER__CLUSTER", "not-a-test-s")
    with broker(broker={"name": "b-17", "auto_create_topics": False}, store={"flush": "sync"}) as b:
        assert "name=b-17" in b.log
        assert "cluster=DefaultCluster broker=b-17" in b.log


def test_a_store_that_is_named_stays(tmp_path: Path) -> None:
    with broker(data=tmp_path / "store") as b:
        assert b.data == tmp_path / "store"
    assert (tmp_path / "store" / "commitlog").is_dir()
    assert not (tmp_path / "store" / "abort").exists(), "it was stopped, not killed"
    with broker(data=str(tmp_path / "store")) as b:
        assert brokers_of(b.nameservers)


def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(Unavailable, match=r"exit status is 2(?s:.)*no setting store.flsh; the nearest is store.flush"):
        broker(store={"flsh": "sync"}).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = "from litemq.testing import broker\nwith broker() as b:\n    print(b.pid, flush=True)\n    input()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
        parent.wait()
        until(lambda: not is_running(pid))


def test_it_is_ready_in_less_than_half_a_second() -> None:
    """The best of some, as other processes may be busy; with the plain build it takes longer."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with broker():
            took.append(time.perf_counter() - began)
        if took[-1] < 0.5:
            return
    pytest.fail(f"it took {min(took):.2f} s at best")
