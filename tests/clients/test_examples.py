"""The programs in ``examples/`` run as they stand, against ``litemq up``."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clients import scenarios, servers
from tests.clients.rocketmq import HERE, Missing, Toolbox
from tests.clients.servers import Server

pytestmark = pytest.mark.clients

EXAMPLES = HERE.parents[1] / "examples"


@pytest.fixture(scope="module")
def up(tools: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = servers.start("litemq", tools, tmp_path_factory.mktemp("examples"))
    yield started
    started.close()


def run(command: list[str | Path], work: Path) -> str:
    """Run a program to its end and return what it printed."""
    done = subprocess.run(
        command,
        cwd=work,
        env={**os.environ, "HOME": str(work)},  # clients keep logs and offsets there
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_orders(shown: str) -> None:
    """Nine orders were sent, and each customer's were consumed in order, those that are paid or shipped."""
    sent = re.findall(r"^sent +order (\d) of (c-\d): queue (\d), offset \d+$", shown, re.MULTILINE)
    assert [int(number) for number, _, _ in sent] == list(range(9)), shown
    queues = {customer: {queue for _, owner, queue in sent if owner == customer} for customer in ("c-0", "c-1", "c-2")}
    assert all(len(found) == 1 for found in queues.values()), shown
    consumed = re.findall(r"^consumed order (\d), (paid|shipped)$", shown, re.MULTILINE)
    assert sorted(int(number) for number, _ in consumed) == list(range(3, 9)), shown
    for customer in range(3):
        assert [int(number) for number, _ in consumed if int(number) % 3 == customer] == [customer + 3, customer + 6]
    assert shown.endswith("done\n")


def test_the_java_example(up: Server, tools: Toolbox, tmp_path: Path) -> None:
    home = [f"-Duser.home={tmp_path}", f"-Drocketmq.client.logRoot={tmp_path}"]
    program: list[str | Path] = [tools.java, *home, "-cp", tools.class_path, EXAMPLES / "java" / "Orders.java"]
    check_orders(run([*program, up.name_server, "java-orders"], tmp_path))


def test_the_java_example_names_the_client_that_is_tested() -> None:
    version = re.search(r"<version>(5[0-9.]+)</version>", (EXAMPLES / "java" / "pom.xml").read_text())
    tested = re.search(r"<rocketmq.version>(.*)</rocketmq.version>", (HERE / "pom.xml").read_text())
    assert version is not None
    assert tested is not None
    assert version[1] == tested[1]


def test_the_go_example(up: Server, tmp_path: Path) -> None:
    try:
        program = scenarios.build_go(tmp_path, EXAMPLES / "go")
    except Missing as missing:
        pytest.skip(f"needs the Go client: {missing}")
    check_orders(run([program, up.name_server, "go-orders"], tmp_path))
