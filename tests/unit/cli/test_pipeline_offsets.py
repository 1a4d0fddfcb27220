"""``litemq pipeline offsets`` on checkpoints as Spark writes them; ``tests/spark`` has it on those of a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.checkpoints import QUERY_ID, file_offset, live_offset, write_checkpoint
from tests.support.cli_page import CliPage
from tests.support.store_files import T0, StoreFiles

from litemq.cli.main import run
from litemq.spark.files import FileBackend
from litemq.types import Message

PAGE = CliPage("cli-pipeline-sql.md")


class Offsets:
    """Gives commands about one checkpoint."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[bytes]) -> None:
        self.folder = folder
        self._capture = capture

    def said(self, command: str, *arguments: str, status: int = 0) -> tuple[str, str]:
        found = run(["pipeline", "offsets", command, "--checkpoint", str(self.folder), *arguments])
        out, err = (text.decode() for text in self._capture.readouterr())
        assert found == status, out + err
        return out, err

    def told(self, command: str, *arguments: str) -> dict[str, Any]:
        out, _ = self.said(command, *arguments, "--json")
        found: dict[str, Any] = json.loads(out)
        return found

    def refused(self, command: str, *arguments: str) -> str:
        out, err = self.said(command, *arguments, status=2)
        assert not out
        assert err.startswith("litemq: error: ")
        assert err.count("\n") == 1
        return err

    def lines(self, batch: int) -> list[str]:
        return (self.folder / "offsets" / str(batch)).read_text().split("\n")


@pytest.fixture
def it(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Offsets:
    return Offsets(tmp_path / "checkpoint", capfdbinary)


def test_show(it: Offsets) -> None:
    write_checkpoint(it.folder, [live_offset(3)], [live_offset(5)], done=2)
    out, _ = it.said("show")
    rows = [line.split() for line in out.splitlines()]
    assert ["query", QUERY_ID] in rows
    assert ["last", "batch", "1,", "done"] in rows
    assert ["next", "batch", "2"] in rows
    assert rows[-3:] == [
        ["TOPIC", "BROKER", "QUEUE", "OFFSET"],
        ["orders", "broker-a", "0", "5"],
        ["orders", "broker-a", "1", "7"],
    ]
    told = it.told("show")
    PAGE.check("litemq pipeline offsets show", [told], unseen=["backups[]"])
    assert told["sources"][0]["queues"][0] == {
        "topic": "orders",
        "broker": "broker-a",
        "queue": 0,
        "offset": 5,
        "end": None,
    }


def test_show_a_batch_that_is_not_done(it: Offsets) -> None:
    write_checkpoint(it.folder, ["-", file_offset(3)], ["-", file_offset(5)], done=1)
    out, _ = it.said("show")
    assert "begun and not done" in out
    assert [line.split() for line in out.splitlines()][-2:] == [
        ["orders", "-", "0", "3", "5"],
        ["orders", "-", "1", "7", "7"],
    ]
    told = it.told("show")
    assert (told["next_batch"], told["done"]) == (1, False)
    assert [(one["source"], one["reads"]) for one in told["sources"]] == [(1, "path")]


def test_show_the_first_batch_that_is_not_done(it: Offsets) -> None:
    write_checkpoint(it.folder, [file_offset(3)], done=0)
    assert [queue["offset"] for queue in it.told("show")["sources"][0]["queues"]] == [None, None]


def test_set_numbers(it: Offsets) -> None:
    write_checkpoint(it.folder, [live_offset(3)], [live_offset(5)], done=2)
    before = it.lines(1)
    out, _ = it.said("set", "orders=2", "orders/broker-a/0=4", "--dry-run")
    assert [line.split() for line in out.splitlines()] == [
        ["TOPIC", "BROKER", "QUEUE", "BEFORE", "AFTER"],
        ["orders", "broker-a", "0", "5", "4"],
        ["orders", "broker-a", "1", "7", "2"],
        ["nothing", "was", "changed"],
    ]
    assert it.lines(1) == before
    assert "--yes" in it.said("set", "orders/0=4", status=2)[1]
    told = it.told("set", "orders/0=4", "--yes")
    PAGE.check("litemq pipeline offsets set", [told], unseen=[])
    assert told["queues"] == [{"topic": "orders", "broker": "broker-a", "queue": 0, "before": 5, "after": 4}]
    assert it.lines(1)[:2] == before[:2]
    assert it.lines(1)[2] == json.dumps(live_offset(4))  # to the letter: Spark compares texts
    assert not (it.folder / "offsets" / ".1.crc").exists()
    assert (it.folder / "offsets" / ".0.crc").exists()
    backup = Path(told["backup"])
    assert (backup / "offsets" / "1").read_text().split("\n") == before
    assert it.told("show")["backups"] == [str(backup)]


def test_set_words_and_times_of_files(it: Offsets, tmp_path: Path) -> None:
    store = StoreFiles(tmp_path / "store")
    for number in range(12):
        store.add(Message("orders", b"x", queue_id=number % 2))
    store.write()
    write_checkpoint(it.folder, [file_offset(3)], done=1)
    assert "--path STORE" in it.refused("set", "orders=earliest", "--dry-run")
    path = ("--path", str(tmp_path / "store"), "--dry-run")

    def goes(*moves: str) -> list[int]:
        return [queue["after"] for queue in it.told("set", *moves, *path)["queues"]]

    assert goes("*=latest") == [6, 6]
    assert goes("*=latest", "orders/1=earliest") == [6, 0]
    times = [put.store_time for put in store.puts if put.message.queue_id == 0]
    assert goes("*=earliest", f"orders/0=2023-11-14T22:13:20.{times[2] - T0:03d}Z")[0] == 2
    assert "has offsets 0 to 6, not 7" in it.refused("set", "*=7", *path)
    assert "another one than the checkpoint knows" in it.refused("set", "orders/0=1", *path)
    assert "is 'soon'; it must be ms since 1970" in it.refused("set", "*=soon", *path)
    it.said("set", "*=latest", *path[:2], "--yes")
    assert json.loads(it.lines(0)[2])["s"] == FileBackend(path[1]).identity


def test_a_batch_that_is_not_done_is_given_up_only_when_asked(it: Offsets) -> None:
    write_checkpoint(it.folder, [file_offset(3)], [file_offset(5)], done=1)
    assert "--abandon-batch" in it.refused("set", "orders/0=4", "--yes")
    told = it.told("set", "orders/0=4", "--yes", "--abandon-batch")
    assert (told["abandoned"], told["next_batch"]) == (1, 2)
    assert (it.folder / "commits" / "1").read_text() == (it.folder / "commits" / "0").read_text()
    assert it.told("show")["done"] is True
    (it.folder / "commits" / "1").unlink()
    (it.folder / "state" / "0").mkdir(parents=True)
    assert "keeps state" in it.refused("set", "orders/0=4", "--yes", "--abandon-batch")


@pytest.mark.parametrize(
    ("moves", "said"),
    [
        (["orders"], "PLACE=WHERE"),
        (["orders/x=3"], "no number"),
        (["bills=3"], "no queue bills; it has: orders/broker-a/0, orders/broker-a/1"),
        (["orders/9=3"], "no queue orders/9"),
        (["*/0=3"], "PLACE=WHERE"),
        (["orders=3", "--path", "."], "leave --path out"),
        (["orders=3", "--source", "4"], "--source must be one of 0"),
    ],
)
def test_wishes_that_cannot_be(it: Offsets, moves: list[str], said: str) -> None:
    write_checkpoint(it.folder, [live_offset(3)], done=1)
    assert said in it.refused("set", *moves, "--yes")


def test_two_sources(it: Offsets) -> None:
    write_checkpoint(it.folder, [live_offset(3), file_offset(4)], done=1)
    assert it.said("show")[0].splitlines()[-1].split() == ["orders", "-", "1", "7", "1"]
    assert "--source must be one of 0, 1" in it.refused("set", "orders/0=1", "--yes")
    it.told("set", "orders/0=1", "--yes", "--source", "1")
    assert [json.loads(line)["t"]["orders"]["q"] for line in it.lines(0)[2:]] == [
        {"broker-a/0": 3, "broker-a/1": 7},
        {"0": 1, "1": 7},
    ]


def test_fork(it: Offsets, tmp_path: Path) -> None:
    write_checkpoint(it.folder, [live_offset(3)], done=1)
    it.told("set", "orders/0=1", "--yes")
    copy = tmp_path / "copies" / "two"
    assert it.told("fork", "--to", str(copy), "--dry-run")["new_query_id"] is None
    assert not copy.exists()
    told = it.told("fork", "--to", str(copy))
    PAGE.check("litemq pipeline offsets fork", [told])
    assert told["new_query_id"] != QUERY_ID
    assert json.loads((copy / "metadata").read_text()) == {"id": told["new_query_id"]}
    assert not (copy / ".metadata.crc").exists()
    assert (copy / "offsets" / "0").read_text().split("\n") == it.lines(0)
    assert sorted(path.name for path in copy.iterdir()) == ["commits", "metadata", "offsets"]
    assert "is there already" in it.refused("fork", "--to", str(copy))
    assert "new query" in it.said("fork", "--to", str(tmp_path / "three"))[0]


@pytest.mark.parametrize("what", ["nothing", "no batch", "another format", "another source"])
def test_what_is_no_checkpoint_of_ours(it: Offsets, what: str) -> None:
    if what != "nothing":
        batches = [] if what == "no batch" else [["not ours" if what == "another source" else live_offset()]]
        write_checkpoint(it.folder, *batches, done=1)
    if what == "another format":
        (it.folder / "offsets" / "0").write_text("v9\n{}\n{}")
    said = {
        "nothing": "is no checkpoint of a Spark query",
        "no batch": "has not begun a batch yet",
        "another format": "is of format 'v9'",
        "another source": "reads nothing from LiteMQ",
    }
    assert said[what] in it.refused("show")
