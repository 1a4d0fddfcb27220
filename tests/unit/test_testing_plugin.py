"""The pytest plugin, in a pytest of its own that finds it as an installed package's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import socket

import pytest

import litemq

seen = []

def is_there(broker):
    host, port = broker.nameservers.split(":")
    with socket.create_connection((host, int(port))):
        return True

@pytest.mark.parametrize("case", ["a b", "ü"])
def test_cluster(litemq_cluster, litemq_topic, case):
    with litemq.Admin(litemq_cluster.nameservers) as admin:
        assert admin.topic(litemq_topic).queues == 4
    seen.append((litemq_cluster.pid, litemq_topic))

def test_the_same_cluster_and_other_topics():
    (first, topic), (second, other) = seen
    assert first == second
    assert topic != other
    print("topics", topic, other)

def test_own_broker(litemq_broker, litemq_cluster):
    assert litemq_broker.pid != litemq_cluster.pid
    litemq_broker.kill()
    assert is_there(litemq_cluster)
    seen.append((litemq_broker.pid, ""))

def test_another_own_broker(litemq_broker):
    assert is_there(litemq_broker)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project beside an installed LiteMQ: what pyproject.toml says of plugins is what pytest finds."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "installed-1.0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n")
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options, "test_it.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "site"), "TMPDIR": str(project)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def test_the_fixtures_are_there_without_an_import(project: Path) -> None:
    done = run(project, "-s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert re.search(r"topics test_cluster-a-b-[0-9a-f]{12} test_cluster-[0-9a-z-]*[0-9a-f]{12}\n", done.stdout)
    assert not list(project.glob("litemq-*"))


def test_it_costs_other_tests_nothing(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    print('loaded', *sorted(n for n in sys.modules if n.startswith('litemq')))\n"
    )
    shown = re.search(r"^loaded (.*)", run(project, "-s").stdout, re.MULTILINE)
    assert shown is not None
    allowed = {"litemq", "litemq._plain", "litemq._version", "litemq.errors"}
    assert {name for name in shown[1].split() if not name.startswith("litemq.testing")} <= allowed


def test_the_fixtures_are_documented(project: Path) -> None:
    shown = run(project, "--fixtures").stdout
    assert re.search(r"litemq_broker -- .*\n +A broker for this test alone", shown)
    assert re.search(r"litemq_cluster \[session scope\] -- .*\n +A broker for all tests of the run", shown)
    assert re.search(r"litemq_topic -- .*\n +A topic of ``litemq_cluster`` that no other test uses", shown)
