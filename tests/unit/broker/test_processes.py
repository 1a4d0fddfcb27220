"""Broker processes are started, started again when they die, and ended with their parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from litemq.broker.processes import BrokerProcesses
from litemq.errors import Unavailable

READY = "import os, sys; print('{\"pid\": %d}' % os.getpid(), flush=True)"
UNTIL_EOF = f"{READY}; sys.stdin.read()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}; import time; time.sleep(600)"


def command(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *arguments]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - nobody tells: what changes is another process
            await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_all_are_ready_on_return_and_gone_after_closing() -> None:
    async def main() -> None:
        brokers = BrokerProcesses({"broker-a": command(UNTIL_EOF), "broker-b": command(UNTIL_EOF)})
        await brokers.start()
        pids = [child.ready["pid"] for child in brokers.children]
        assert pids == [child.process.pid for child in brokers.children if child.process is not None]
        await brokers.close()
        assert not any(is_running(pid) for pid in pids if isinstance(pid, int))
        assert [child.process.returncode for child in brokers.children if child.process is not None] == [
            -signal.SIGTERM
        ] * 2

    asyncio.run(main())


def test_one_that_dies_is_reported_and_started_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        brokers = BrokerProcesses({"a": command(UNTIL_EOF), "b": command(UNTIL_EOF)}, first_delay_s=0.01)
        await brokers.start()
        first, other = brokers.children
        killed = first.process
        assert killed is not None
        killed.kill()
        await until(lambda: first.starts == 2 and first.ready["pid"] != killed.pid)
        assert other.starts == 1
        await brokers.close()

    asyncio.run(main())
    assert "a was ended by SIGKILL; it is started again" in caplog.text


def test_delays_double_up_to_a_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The first time it gets ready; later it ends before that."""
    mark = tmp_path / "mark"
    code = f"import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.exists() and sys.exit(3); p.touch(); {READY}"

    async def main() -> None:
        brokers = BrokerProcesses({"a": command(code, str(mark))}, first_delay_s=0.01, max_delay_s=0.04)
        await brokers.start()
        await until(lambda: brokers.children[0].starts >= 5)
        await brokers.close()

    asyncio.run(main())
    delays = [float(line.rpartition("delay_s=")[2]) for line in caplog.text.splitlines() if "delay_s" in line]
    assert delays[:4] == [0.01, 0.02, 0.04, 0.04]
    assert "a ended with status 0; it is started again" in caplog.text
    assert "a ended with status 3 before it was ready" in caplog.text


def test_when_one_cannot_start_all_are_ended() -> None:
    async def main() -> None:
        brokers = BrokerProcesses({"a": command(UNTIL_EOF), "b": command("import sys; sys.exit(2)")})
        with pytest.raises(Unavailable, match="b ended with status 2 before it was ready"):
            await brokers.start()
        assert all(child.process is not None and child.process.returncode is not None for child in brokers.children)

    asyncio.run(main())


def test_one_that_does_not_stop_is_killed() -> None:
    async def main() -> None:
        brokers = BrokerProcesses({"a": command(STUBBORN)}, grace_s=0.05)
        await brokers.start()
        await brokers.close()
        assert brokers.children[0].process is not None
        assert brokers.children[0].process.returncode == -signal.SIGKILL

    asyncio.run(main())


def test_children_end_with_a_parent_that_is_killed() -> None:
    code = (
        "import asyncio, sys\n"
        "from litemq.broker.processes import BrokerProcesses\n"
        "async def main():\n"
        "    brokers = BrokerProcesses({'a': [sys.executable, '-S', '-c', sys.argv[1]]})\n"
        "    await brokers.start()\n"
        "    print(brokers.children[0].process.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, UNTIL_EOF], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
