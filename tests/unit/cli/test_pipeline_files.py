"""What the jobs over store files print, and which command lines they refuse; Spark itself is asked elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.store_files import StoreFiles
from tests.unit.store.convert_support import LAZY, SMALL
from tests.unit.store.test_verify import fill

from litemq.cli.main import main
from litemq.cli.pipeline_frame import write_report
from litemq.spark.jobs import convert, rebuild, verify
from litemq.spark.jobs.job import Report
from litemq.store.convert import convert as convert_here
from litemq.store.rebuild import rebuild as rebuild_here
from litemq.store.verify import verify as verify_here
from litemq.types import Message


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Return a store with a corrupt record, one without a possible queue, and a queue that lacks an entry."""
    store = fill(StoreFiles(tmp_path / "store"))
    store.add(Message("..", b"nowhere"))
    store.queues.pop(("..", 0))
    store.queues["topic-1", 0].pop(3)
    store.segments[4096][700] ^= 1
    return store.write()


def shown(report: Report, capsys: pytest.CaptureFixture[str]) -> tuple[str, dict[str, object]]:
    write_report(report, as_json=False)
    table = capsys.readouterr().out
    write_report(report, as_json=True)
    return table, json.loads(capsys.readouterr().out)


def test_verify(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("verify")
    tool = verify_here(damaged)
    verify.tell(report, tool)
    table, found = shown(report, capsys)
    assert found["status"] == "findings"
    assert found["damage"] == tool.to_json()["damage"]
    assert isinstance(found["figures"], dict)
    assert tool.consume_queue is not None
    assert found["figures"]["queue_entries_missing"] == tool.consume_queue.missing
    assert "KIND" in table
    assert tool.damage.listed[0].reason in table
    assert "litemq store repair" in table


def test_rebuild(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("rebuild")
    tool = rebuild_here(damaged, fs=LAZY)
    rebuild.tell(report, tool)
    table, found = shown(report, capsys)
    assert (found["status"], found["figures"]) == ("findings", tool.to_json())
    assert isinstance(found["left_out"], list)
    assert {one["kind"] for one in found["left_out"]} == {"corrupt", "rejected"}
    assert "the topic is '..'" in table


def test_convert(damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("convert")
    tool = convert_here(damaged, tmp_path / "new", to="blueprint", fs=LAZY, **SMALL)
    convert.tell(report, tool)
    table, found = shown(report, capsys)
    assert found["status"] == "findings"
    assert isinstance(found["figures"], dict)
    assert (found["figures"]["records"], found["figures"]["rejected"]) == (tool.records, tool.rejected_count)
    assert {one["key"]: one["records"] for one in found["dropped"]} == tool.dropped  # type: ignore[attr-defined]
    assert "KEY" in table
    assert "the topic is '..'" in table


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["convert", "a", "b"], "--to"),
        (["convert", "a", "b", "--to", "kafka"], "kafka"),
        (["convert", "a"], "DESTINATION"),
        (["rebuild", "a", "--only", "log"], "log"),
        (["rebuild", "a", "--queue-entries", "0"], "--queue-entries"),
        (["verify"], "STORE"),
        (["verify", "a", "--format", "parquet"], "parquet"),
    ],
    ids=str,
)
def test_wrong_command_lines_are_refused(line: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", *line])
    answer = capsys.readouterr()
    assert ended.value.code == 2
    assert answer.out == ""
    assert said in answer.err
