"""Jobs over store files on a real Spark: the findings and the bytes of the tools that do it in one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import FIXTURES, SMALL, copy_store, tree
from tests.unit.store.test_convert_live import make_store
from tests.unit.store.test_verify import fill

from litemq.cli.pipeline_frame import write_report
from litemq.config import StoreConfig
from litemq.errors import BadStore, StoreInUse
from litemq.spark.jobs.convert import Convert
from litemq.spark.jobs.job import Report, Run
from litemq.spark.jobs.rebuild import Rebuild
from litemq.spark.jobs.verify import Verify
from litemq.store.convert import convert
from litemq.store.message_store import MessageStore
from litemq.store.offline import BUILD
from litemq.store.rebuild import rebuild
from litemq.store.verify import verify
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

STORES = [fixture for fixture in FIXTURES if fixture.name in ("store", "clean", "killed")]


def same_as_the_tool(report: Report, path: Path) -> bool:
    """Return whether a report says what ``litemq store verify`` says."""
    tool, found = verify(path).to_json(), report.to_json()
    figures: Any = found["figures"]
    queues, index = tool["consume_queue"], tool["index"]
    assert found["damage"] == tool["damage"]
    assert (report.status == "done") == tool["ok"]
    if isinstance(queues, dict):
        assert figures["queues"] == queues["queues"]
        assert {name: figures[f"queue_entries_{name}"] for name in ("missing", "wrong", "dangling")} == {
            name: queues[name] for name in ("missing", "wrong", "dangling")
        }
    if isinstance(index, dict):
        assert {name: figures[f"index_entries_{name}"] for name in ("missing", "wrong")} == {
            name: index[name] for name in ("missing", "wrong")
        }
    same = ("format", "segments", "records", "bytes", "unchecked", "torn", "corrupt", "skipped_bytes")
    return {name: figures[name] for name in same} == {name: tool[name] for name in same}


@pytest.mark.parametrize("fixture", STORES, ids=str)
def test_fixtures_are_verified_alike(spark: Any, fixture: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = fixture.open(tmp_path)
    assert same_as_the_tool(Verify(str(path)).run(Run(spark)), path)


def test_damage_is_found_alike(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ANN401
    store = fill(StoreFiles(tmp_path))
    store.segments[4096][700] ^= 1
    store.queues["topic-1", 0].pop(3)
    store.entries.pop(50)
    store.write()
    report = Verify(str(tmp_path)).run(Run(spark))
    assert same_as_the_tool(report, tmp_path)
    assert report.status == "findings"
    write_report(report, as_json=False)
    shown = capsys.readouterr().out
    assert "KIND" in shown
    assert "queue entries missing" in shown
    plan = Verify(str(tmp_path)).plan(spark)
    assert [row[0] for row in plan.rows] == ["segments", "parts read at the same time"]


def test_a_store_in_use_is_verified_and_not_rebuilt(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    config = StoreConfig(segment_bytes=1 << 16, queue_entries=100, index_slots=101, index_entries=1000)
    with MessageStore.open(tmp_path, config, background=False) as store:
        for number in range(900):
            store.append(Message(f"t{number % 3}", b"x" * 50, message_id=f"m{number}"))
            if number == 700:
                store.checkpoint()
        report = Verify(str(tmp_path)).run(Run(spark))
        assert same_as_the_tool(report, tmp_path)
        assert report.status == "done"
        with pytest.raises(StoreInUse, match="stop it first"):
            Rebuild(str(tmp_path)).plan(spark)
        with pytest.raises(StoreInUse, match="stop it first"):
            Rebuild(str(tmp_path)).run(Run(spark))


def test_what_is_no_store_is_refused(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    for job in (Verify(str(tmp_path / "none")), Rebuild(str(tmp_path / "none"))):
        with pytest.raises(BadStore, match="no such file or directory"):
            job.run(Run(spark))


def test_rebuilt_files_are_the_tools(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    make_store(tmp_path / "tool", "litemq")
    copy_store(tmp_path / "tool", tmp_path / "job")
    expected = rebuild(tmp_path / "tool")
    assert [row[0] for row in Rebuild(str(tmp_path / "job")).plan(spark).rows][-2:] == [
        "consumequeue/ replaced",
        "index/ replaced",
    ]
    report = Rebuild(str(tmp_path / "job")).run(Run(spark))
    assert (report.status, report.figures) == ("done", expected.to_json())
    assert not (tmp_path / "job" / BUILD).exists()
    assert sorted(tree(tmp_path / "job", "index").values()) == sorted(tree(tmp_path / "tool", "index").values())
    assert without_index(tmp_path / "job") == without_index(tmp_path / "tool")


@pytest.mark.parametrize("to", ["rocketmq", "blueprint", "tmq"])
def test_converted_files_are_the_tools(spark: Any, to: str, tmp_path: Path) -> None:  # noqa: ANN401
    source, tool, job = (tmp_path / name for name in ("source", "tool", "job"))
    make_store(source, "litemq")
    expected = convert(source, tool, to=to, **SMALL)
    task = Convert(str(source), str(job), to, **SMALL)
    assert [row[0] for row in task.plan(spark).rows][-1] == f"{job} made"
    assert not job.exists()
    report = task.run(Run(spark))
    assert report.status == "done"
    assert (report.figures["records"], report.figures["bytes"]) == (expected.records, expected.bytes)
    assert report.tables["dropped"].to_json() == [
        {"key": key, "records": count} for key, count in expected.dropped.items()
    ]
    for part in ("commitlog", "consumequeue", "kept"):
        assert tree(job, part) == tree(tool, part)
    assert sorted(tree(job, "index").values()) == sorted(tree(tool, "index").values())
    assert verify(job).is_ok
    with pytest.raises(BadStore, match="is not empty"):
        task.run(Run(spark))


def test_a_stopped_conversion_leaves_nothing(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    make_store(tmp_path / "source", "litemq")
    report = Convert(str(tmp_path / "source"), str(tmp_path / "new"), "rocketmq").run(
        Run(spark, should_stop=lambda: True)
    )
    assert report.status == "stopped"
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def without_index(store: Path) -> dict[str, str]:
    """Return all files but those of the index, whose names are times, and the checkpoint, which is an open store's."""
    return {path: digest for path, digest in tree(store).items() if not path.startswith("index/")}


def test_a_stop_leaves_the_store_as_it_was(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    make_store(tmp_path / "store", "litemq")
    before = tree(tmp_path / "store")
    asked: list[int] = []

    def should_stop() -> bool:
        asked.append(1)
        return len(asked) > 1  # the first look is before anything is done

    report = Rebuild(str(tmp_path / "store")).run(Run(spark, should_stop=should_stop))
    assert report.status == "stopped"
    assert tree(tmp_path / "store") == before
    assert Rebuild(str(tmp_path / "store")).run(Run(spark)).status == "done"


def command(*arguments: str) -> list[str]:
    quick = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    return [sys.executable, "-m", "litemq", "pipeline", *arguments, "--conf", quick]


def test_a_kill_leaves_the_store_as_it_was(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = tmp_path / "store"
    config = StoreConfig(segment_bytes=1 << 22, queue_entries=1000, index_slots=1000, index_entries=9_000)
    with MessageStore.open(store, config, background=False) as opened:
        for number in range(40):
            keys = [f"k{number}-{at}" for at in range(500)]
            opened.append_many([Message(f"t{at % 7}", b"x" * 200, keys=(key,)) for at, key in enumerate(keys)])
    before = tree(store)
    with subprocess.Popen(command("rebuild", str(store)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as job:
        while not list((store / BUILD).glob("*/*")):
            assert job.poll() is None, job.communicate()
            time.sleep(0.005)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    assert {path: digest for path, digest in tree(store).items() if not path.startswith(BUILD)} == before
    assert verify(store).is_ok
    expected = rebuild(copy_store(store, tmp_path / "tool")).to_json()
    assert Rebuild(str(store)).run(Run(spark)).figures == expected
    assert tree(store, "consumequeue") == tree(tmp_path / "tool", "consumequeue")
    assert not (store / BUILD).exists()


def test_the_command_line(tmp_path: Path) -> None:
    store = fill(StoreFiles(tmp_path / "store"))
    store.segments[0][100] ^= 1
    store.write()
    report = tmp_path / "report.json"
    done = subprocess.run(
        command("verify", str(store.root), "--json", "--report", str(report)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads(report.read_text())
    assert (found["job"], found["status"]) == ("verify", "findings")
    assert found["damage"][0]["kind"] == "corrupt"
