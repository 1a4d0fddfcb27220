"""``litemq store``: output, status and errors as the contract has them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.store_files import T0, StoreFiles
from tests.unit.store.test_fs_contract import put_no_file
from tests.unit.store.walk_support import CASES, FIXTURES, GoldenCase, some_records, unpack_rocketmq

from litemq._plain import ExtensionMissing
from litemq.cli import main as cli_main
from litemq.cli import store as cli_store
from litemq.cli.main import run
from litemq.format.record import FORMATS
from litemq.store import log_walk
from litemq.store.fs import OsFileSystem
from litemq.types import Message

Captured = pytest.CaptureFixture[bytes]

SMALL = ["--segment-size", "4096", "--queue-entries", "10", "--index-slots", "10", "--index-entries", "100"]


def objects(out: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.decode().splitlines()]


def refused(capture: Captured, *argv: str) -> str:
    """Run a command that must end with 2, and return its one line."""
    assert run(list(argv)) == 2
    shown = capture.readouterr()
    assert shown.out == b""
    lines = shown.err.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("litemq: error: ")
    return lines[0]


def command(*argv: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "litemq", *argv],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
    )


class TestDump:
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_equals_the_manifest(self, case: GoldenCase, capfdbinary: Captured) -> None:
        assert run(["store", "dump", str(case.path), "--format", case.format, "--json"]) == case.status
        shown = capfdbinary.readouterr()
        assert objects(shown.out) == case.dump
        places = [("torn", at) for at in case.torn] + [("corrupt", at) for at in case.corrupt]
        for line, (kind, at) in zip(shown.err.decode().splitlines(), places, strict=True):
            assert line.startswith(f"litemq: warning: {kind} record at {at} in {case.path.name}: ")

    def test_topic_queue_from_and_limit(self, tmp_path: Path, capfdbinary: Captured) -> None:
        store = StoreFiles(tmp_path)
        for number in range(30):
            store.add(Message("ab"[number % 2], b"x", queue_id=number % 3))
        store.write()
        start = store.puts[6].position
        options = ["--topic", "b", "--queue", "1", "--from", str(start), "--limit", "2", "--json"]
        assert run(["store", "dump", str(tmp_path), *options]) == 0
        found = objects(capfdbinary.readouterr().out)
        assert [record["position"] for record in found] == [store.puts[7].position, store.puts[13].position]
        assert run(["store", "dump", str(tmp_path), "--limit", "0"]) == 0
        assert capfdbinary.readouterr().out == b""

    def test_one_line_a_record_for_people(self, tmp_path: Path, capfdbinary: Captured) -> None:
        store = StoreFiles(tmp_path)
        store.add(Message("t", b"\x1b[31mred\nline\xff" + b"y" * 60, tags=("a", "b"), keys=("k",)), store_time=T0)
        store.add(Message("t", b"", born_time=1 << 60), store_time=1 << 62)
        store.write()
        assert run(["store", "dump", str(tmp_path)]) == 0
        lines = capfdbinary.readouterr().out.decode().splitlines()
        assert len(lines) == 2
        assert lines[0].startswith("           0  2023-11-14T22:13:20.000Z  t  q0  #0  tags=a,b  keys=k  ")
        assert "\\x1b[31mred\\x0aline\\xffyy" in lines[0]
        assert lines[0].endswith("y…")
        assert str(1 << 62) in lines[1]

    def test_lone_surrogates_of_file_names_and_text(self, tmp_path: Path, capfdbinary: Captured) -> None:
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
        path.write_bytes(some_records("litemq", 1)[0])
        assert run(["store", "dump", str(path), "--json"]) == 0
        (record,) = objects(capfdbinary.readouterr().out)
        assert record["segment"] == "caf\udce9"
        assert run(["store", "info", str(path)]) == 0


class TestVerify:
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_golden(self, case: GoldenCase, capfdbinary: Captured) -> None:
        assert run(["store", "verify", str(case.path), "--format", case.format, "--json"]) == case.status
        (report,) = objects(capfdbinary.readouterr().out)
        assert report["ok"] == (case.status == 0)
        assert report["torn"] == len(case.torn)
        assert report["corrupt"] == len(case.corrupt)

    def test_for_people(self, tmp_path: Path, capfdbinary: Captured) -> None:
        assert run(["store", "verify", str(unpack_rocketmq("killed", tmp_path))]) == 1
        shown = capfdbinary.readouterr().out.decode()
        assert "24 queues, 577 entries: 2 missing, 0 wrong, 1 dangling" in shown
        assert "torn record at 633854" in shown
        assert "not ok" in shown


class TestQuery:
    def test_by_key_id_and_time(self, capfdbinary: Captured) -> None:
        path = str(FIXTURES / "litemq" / "store")
        for options, found in (
            (["--key", "k1"], [704]),
            (["--id", "x1"], [1200, 1372]),
            (["--id", "x2"], [1544]),
            (["--key", "k1", "--topic", "orders"], []),
            (["--time", "1700000000000..1700000000700"], [0, 176]),
            (["--time", "2023-11-14T22:13:20Z..2023-11-14T22:13:20.700"], [0, 176]),
            (["--time", "..1700000000000"], [0]),
            (["--time", "..", "--limit", "1"], [2400]),
        ):
            assert run(["store", "query", path, *options, "--json"]) == 0
            assert [record["position"] for record in objects(capfdbinary.readouterr().out)] == found, options

    @pytest.mark.parametrize(
        "options",
        [
            [],
            ["--key", "a", "--id", "b"],
            ["--key", ""],
            ["--id", ""],
            ["--time", "9..3"],
            ["--time", "1"],
            ["--time", "now..then"],
            ["--key", "a", "--limit", "0"],
            ["--key", "a", "--limit", "many"],
        ],
    )
    def test_wrong_usage(self, options: list[str], capfdbinary: Captured) -> None:
        assert "litemq store query --help" in refused(
            capfdbinary, "store", "query", str(FIXTURES / "litemq" / "store"), *options
        )


class TestInfoAndFormats:
    def test_info(self, capfdbinary: Captured) -> None:
        assert run(["store", "info", str(FIXTURES / "litemq" / "store"), "--json"]) == 0
        (found,) = objects(capfdbinary.readouterr().out)
        assert found["kind"] == "store"
        assert run(["store", "info", str(FIXTURES / "tmq" / "store")]) == 0
        lines = capfdbinary.readouterr().out.decode().splitlines()
        assert "новости      0           0           1" in lines

    def test_formats(self, capfdbinary: Captured) -> None:
        assert run(["store", "formats", "--json"]) == 0
        found = objects(capfdbinary.readouterr().out)
        assert [line["name"] for line in found] == list(FORMATS)
        assert list(found[0]) == ["name", "magic", "written_by", "checked", "holds", "lacks", "limits"]
        assert found[0]["magic"] == "0x4C4D5101"
        assert run(["store", "formats"]) == 0
        assert b"0xDAA320A7" in capfdbinary.readouterr().out

    def test_the_names_of_the_formats_are_known_without_loading_them(self) -> None:
        assert list(FORMATS) == list(cli_store.FORMATS)


class TestTools:
    """Options reach the tools that write, reports reach the user; what they do is tested with them."""

    def test_convert(self, tmp_path: Path, capfdbinary: Captured) -> None:
        source, there = str(FIXTURES / "tmq" / "foreign"), tmp_path / "there"
        sizes = ["--segment-size", "4096", "--queue-entries", "10", "--index-slots", "11", "--index-entries", "50"]
        options = ["--to", "litemq", "--from", "tmq", *sizes]
        assert run(["store", "convert", source, str(there), *options, "--json"]) == 0
        (report,) = objects(capfdbinary.readouterr().out)
        assert (report["from"], report["to"], report["records"]) == ("tmq", "litemq", 3)
        assert (there / "commitlog" / f"{0:020d}").stat().st_size == 4096
        assert run(["store", "verify", str(there)]) == 0
        assert run(["store", "convert", source, str(tmp_path / "again"), *options]) == 0
        assert b"destination" in capfdbinary.readouterr().out
        refused(capfdbinary, "store", "convert", source, str(there), *options)

    def test_repair_and_rebuild(self, tmp_path: Path, capfdbinary: Captured) -> None:
        store = str(unpack_rocketmq("killed", tmp_path))
        assert run(["store", "repair", store, "--dry-run"]) == 0
        assert run(["store", "verify", store]) == 1
        capfdbinary.readouterr()
        assert run(["store", "repair", store, "--json"]) == 0
        (report,) = objects(capfdbinary.readouterr().out)
        assert report["cut"] == [{"position": 633854, "bytes": 380}]
        assert run(["store", "rebuild", store, "--only", "index", "--index-slots", "100", "--json"]) == 0
        assert run(["store", "verify", store]) == 0

    @pytest.mark.parametrize("fmt", ["litemq", "rocketmq", "tmq"])
    @pytest.mark.parametrize("kind", ["torn", "corrupt"])
    def test_rebuild_names_damage_as_dump_does(
        self, fmt: str, kind: str, tmp_path: Path, capfdbinary: Captured
    ) -> None:
        source = StoreFiles(tmp_path / "source")
        for body in (b"one", b"two", b"three"):
            source.add(Message("t", body * 9))
        source.write()
        store = tmp_path / "store"
        assert run(["store", "convert", str(source.root), str(store), "--to", fmt, *SMALL]) == 0
        capfdbinary.readouterr()
        assert run(["store", "rebuild", str(store), "--json"]) == 0
        (report,) = objects(capfdbinary.readouterr().out)
        assert (report["torn"], report["corrupt"], report["rejected"]) == (0, 0, 0)
        (log,) = (store / "t" / "0").glob("0*") if fmt == "tmq" else (store / "commitlog").iterdir()
        data = bytearray(log.read_bytes())
        if kind == "torn":
            at = data.index(b"three") + 5
            data[at:] = bytes(len(data) - at)
        elif fmt == "tmq":  # it has no checksum: a topic that is no text
            data[data.index(b"t", data.index(b"two" * 9) + 27)] = 0xFF
        else:
            data[data.index(b"two")] ^= 1
        log.write_bytes(data)
        assert run(["store", "dump", str(store), "--json"]) == 1
        warnings = capfdbinary.readouterr().err
        assert warnings.startswith(f"litemq: warning: {kind} record at ".encode())
        assert run(["store", "rebuild", str(store), "--json"]) == 1
        shown = capfdbinary.readouterr()
        assert shown.err == warnings
        (report,) = objects(shown.out)
        assert report == {**report, "records": 2, "torn": 0, "corrupt": 0, "rejected": 0, kind: 1}

    def test_rebuild_names_records_that_no_queue_can_have(self, tmp_path: Path, capfdbinary: Captured) -> None:
        store = StoreFiles(tmp_path)
        for topic in ("a/b", "t", ".."):
            store.add(Message(topic, b""))
        store.queues = {("t", 0): store.queues["t", 0]}
        store.write()
        shown = command("store", "rebuild", str(tmp_path), "--json")
        assert shown.returncode == 1
        assert shown.stderr.decode().splitlines() == [
            "litemq: warning: record at 0 is left out: the topic holds a slash",
            f"litemq: warning: record at {store.puts[2].position} is left out: the topic is '..'",
        ]
        (report,) = objects(shown.stdout)
        assert (report["records"], report["queue_entries"], report["rejected"]) == (3, 1, 2)

    def test_a_store_in_use(self, tmp_path: Path, capfdbinary: Captured) -> None:
        store = StoreFiles(tmp_path)
        store.add(Message("t", b""))
        store.write()
        lock = OsFileSystem().lock(tmp_path / "lock")
        assert lock is not None
        try:
            for name in ("repair", "rebuild"):
                refused(capfdbinary, "store", name, str(tmp_path))
            assert run(["store", "dump", str(tmp_path)]) == 0
        finally:
            lock.release()

    @pytest.mark.parametrize("kind", ["pipe", "loop", "nowhere", "folder"])
    def test_a_lock_that_is_no_file(self, kind: str, tmp_path: Path, capfdbinary: Captured) -> None:
        """Nobody can hold it, so it can be read; who would have to hold it says what is in the way."""
        store = StoreFiles(tmp_path)
        store.add(Message("t", b""))
        store.write()
        put_no_file(tmp_path / "lock", kind)
        assert run(["store", "dump", str(tmp_path)]) == 0
        capfdbinary.readouterr()
        for name in ("repair", "rebuild"):
            assert f"{tmp_path / 'lock'} cannot be locked: " in refused(capfdbinary, "store", name, str(tmp_path))

    @pytest.mark.parametrize("command", [["repair"], ["rebuild"], ["rebuild", "--only", "index"]], ids=" ".join)
    @pytest.mark.parametrize("kind", ["pipe", "loop", "nowhere", "file"])
    @pytest.mark.parametrize("place", ["consumequeue", "index", "consumequeue/t", "consumequeue/t/0"])
    def test_no_folder_where_one_belongs_changes_nothing(
        self, command: list[str], kind: str, place: str, tmp_path: Path, capfdbinary: Captured
    ) -> None:
        """The disk of the queues is not mounted: that must not cost the index."""
        store = StoreFiles(tmp_path)
        store.add(Message("t", b"", keys=("k",)))
        store.write()
        shutil.rmtree(tmp_path / place)
        put_no_file(tmp_path / place, kind)
        before = snapshot_of(tmp_path)
        line = refused(capfdbinary, "store", *command, str(tmp_path))
        assert f"{tmp_path / place} is " in line
        assert snapshot_of(tmp_path) == before

    @pytest.mark.parametrize("place", ["consumequeue", "index", "consumequeue/t", "consumequeue/t/0"])
    def test_rebuild_does_not_replace_links(self, place: str, tmp_path: Path, capfdbinary: Captured) -> None:
        """What they lead to would be emptied, and the link would stay in the way."""
        store = StoreFiles(tmp_path / "store")
        store.add(Message("t", b"", keys=("k",)))
        store.write()
        link = store.root / place
        link.rename(tmp_path / "disk")
        link.symlink_to(tmp_path / "disk")
        before = snapshot_of(tmp_path)
        assert f"{link} is a link" in refused(capfdbinary, "store", "rebuild", str(store.root))
        assert snapshot_of(tmp_path) == before
        other = "consumequeue" if place == "index" else "index"
        assert run(["store", "rebuild", str(store.root), "--only", other]) == 0

    @pytest.mark.parametrize("place", ["consumequeue", "index", "consumequeue/t", "consumequeue/t/0"])
    def test_repair_does_not_replace_links(self, place: str, tmp_path: Path, capfdbinary: Captured) -> None:
        store = StoreFiles(tmp_path / "store")
        store.add(Message("t", b"", keys=("k",)))
        store.write()
        link = store.root / place
        link.rename(tmp_path / "disk")
        link.symlink_to(tmp_path / "disk")
        assert run(["store", "repair", str(store.root)]) == 0  # nothing to do: nothing in its way
        capfdbinary.readouterr()
        for path in (path for path in (tmp_path / "disk").rglob("*") if path.is_file()):
            path.write_bytes(bytes(path.stat().st_size))
        before = snapshot_of(tmp_path)
        assert f"{link} is a link" in refused(capfdbinary, "store", "repair", str(store.root))
        assert snapshot_of(tmp_path) == before

    def test_a_folder_where_a_tmq_index_belongs_changes_nothing(self, tmp_path: Path, capfdbinary: Captured) -> None:
        source = StoreFiles(tmp_path / "source")
        for topic in "ab":
            source.add(Message(topic, b""))
        source.write()
        tree = tmp_path / "tree"
        assert run(["store", "convert", str(source.root), str(tree), "--to", "tmq"]) == 0
        capfdbinary.readouterr()
        (tree / "a" / "0" / "index").write_bytes(b"")
        (tree / "b" / "0" / "index").unlink()
        (tree / "b" / "0" / "index").mkdir()
        before = snapshot_of(tree)
        for name in ("repair", "rebuild"):
            assert "b/0/index is a folder" in refused(capfdbinary, "store", name, str(tree))
        assert snapshot_of(tree) == before


def snapshot_of(folder: Path) -> dict[str, bytes | None]:
    """Return all that is in a folder; None for what is no file."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


class TestBadInput:
    """Exit 2, one line that says what and what to do, nothing on stdout."""

    def test_no_such_path(self, tmp_path: Path, capfdbinary: Captured) -> None:
        for name in ("dump", "verify", "info"):
            assert "no such file" in refused(capfdbinary, "store", name, str(tmp_path / "nowhere"))

    def test_no_store(self, tmp_path: Path, capfdbinary: Captured) -> None:
        assert "is no store" in refused(capfdbinary, "store", "verify", str(tmp_path))

    def test_unknown_format(self, tmp_path: Path, capfdbinary: Captured) -> None:
        assert "'kafka'" in refused(capfdbinary, "store", "dump", str(tmp_path), "--format", "kafka")

    def test_unknown_magic_names_the_option(self, capfdbinary: Captured) -> None:
        assert "--format" in refused(capfdbinary, "store", "dump", str(FIXTURES / "tmq" / "foreign"))

    @pytest.mark.parametrize(
        ("argv", "advice"),
        [
            (["verify", "PATH"], "name its format with --format (litemq, "),
            (["convert", "PATH", "new", "--to", "tmq"], "name its format with --from (litemq, "),
            (["repair", "PATH"], "look into it with: litemq store dump PATH --format FORMAT"),
            (["rebuild", "PATH"], "look into it with: litemq store dump PATH --format FORMAT"),
        ],
    )
    def test_advice_names_what_exists(
        self, argv: list[str], advice: str, tmp_path: Path, capfdbinary: Captured
    ) -> None:
        (tmp_path / "text").write_bytes(b"root:x:0:0:root")
        line = refused(capfdbinary, "store", *(str(tmp_path / "text") if word == "PATH" else word for word in argv))
        assert f"; if it is a log, {advice}" in line

    def test_a_newer_version(self, tmp_path: Path, capfdbinary: Captured) -> None:
        record = bytearray(some_records("litemq", 1)[0])
        record[7] = 9
        (tmp_path / "log").write_bytes(record)
        assert "version 9" in refused(capfdbinary, "store", "verify", str(tmp_path / "log"))

    @pytest.mark.parametrize(
        "argv",
        [
            ["store"],
            ["store", "dum"],
            ["stor"],
            ["--nothing"],
            ["store", "dump"],
            ["store", "dump", "a", "b"],
            ["store", "dump", ""],
            ["store", "convert", "a", "", "--to", "tmq"],
            ["store", "dump", "a", "--from", "-1"],
            ["store", "convert", "a", "b"],
            ["store", "convert", "a", "b", "--to", "kafka"],
            ["store", "rebuild", "a", "--only", "everything"],
        ],
    )
    def test_wrong_usage(self, argv: list[str], capfdbinary: Captured) -> None:
        assert "--help" in refused(capfdbinary, *argv)

    def test_a_missing_choice_lists_what_there_is(self, capfdbinary: Captured) -> None:
        assert "Choose from: litemq, rocketmq, blueprint, tmq;" in refused(capfdbinary, "store", "convert", "a", "b")

    @pytest.mark.parametrize(
        ("argv", "value", "least"),
        [
            (["query", "a", "--key", "k", "--limit", "x"], "x", 1),
            (["dump", "a", "--limit", "-1"], "-1", 0),
            (["convert", "a", "b", "--to", "tmq", "--segment-size", "1GiB"], "1GiB", 1),
            (["rebuild", "a", "--index-slots", "0"], "0", 1),
        ],
    )
    def test_a_number_that_is_none(self, argv: list[str], value: str, least: int, capfdbinary: Captured) -> None:
        line = refused(capfdbinary, "store", *argv)
        assert f"'{value}' is not a whole number of at least {least}, in digits and without a unit" in line

    def test_a_kernel_that_is_not_compiled(self, monkeypatch: pytest.MonkeyPatch, capfdbinary: Captured) -> None:
        def fail(*_: object, **__: object) -> None:
            raise ExtensionMissing("litemq.x._y_cy is not compiled")

        monkeypatch.setattr(log_walk, "open_log", fail)
        assert refused(capfdbinary, "store", "dump", "x") == "litemq: error: litemq.x._y_cy is not compiled"

    def test_a_pipe_is_no_log(self, tmp_path: Path, capfdbinary: Captured) -> None:
        (tmp_path / "log").mkdir()
        os.mkfifo(tmp_path / "log" / f"{0:020d}")
        for path in (tmp_path / "log", tmp_path / "log" / f"{0:020d}"):
            assert "no regular file" in refused(capfdbinary, "store", "dump", str(path))

    def test_a_path_with_a_line_break_stays_one_line(self, tmp_path: Path, capfdbinary: Captured) -> None:
        assert "\\x0a" in refused(capfdbinary, "store", "dump", str(tmp_path / "a\nb"))

    @pytest.mark.parametrize(
        ("error", "status", "text"),
        [
            (OSError(5, "Input/output error", "/some/file"), 2, "/some/file: Input/output error; check the disk"),
            (OSError(13, "Permission denied", "/some/file"), 2, "/some/file: Permission denied; check its permissions"),
            (RecursionError("deep"), 2, "too much"),
            (MemoryError(), 2, "too much"),
            (ValueError("surprise"), 2, "unexpected ValueError: surprise"),
            (KeyboardInterrupt(), 130, ""),
        ],
    )
    def test_no_traceback_whatever_happens(
        self,
        error: BaseException,
        status: int,
        text: str,
        monkeypatch: pytest.MonkeyPatch,
        capfdbinary: Captured,
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(log_walk, "open_log", fail)
        assert run(["store", "dump", "x"]) == status
        shown = capfdbinary.readouterr()
        assert shown.out == b""
        assert b"Traceback" not in shown.err
        assert text in shown.err.decode()
        assert len(shown.err.strip().splitlines()) == (1 if text else 0)

    def test_debug_shows_where(self, monkeypatch: pytest.MonkeyPatch, capfdbinary: Captured) -> None:
        monkeypatch.setenv("LITEMQ_DEBUG", "1")
        assert run(["store", "dump", "/nowhere"]) == 2
        assert b"Traceback" in capfdbinary.readouterr().err


class TestProcess:
    """What only a process of its own shows."""

    @pytest.mark.parametrize(
        "environment", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
    )
    def test_utf8_whatever_the_locale(self, environment: dict[str, str]) -> None:
        path = FIXTURES / "litemq" / "store"
        done = command("store", "dump", str(path), "--json", **environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert objects(done.stdout) == objects(path.with_suffix(".jsonl").read_bytes())
        assert "订单".encode() in done.stdout
        done = command("store", "info", str(FIXTURES / "tmq" / "store"), **environment)
        assert "новости" in done.stdout.decode()

    def test_a_closed_pipe_ends_it_quietly(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, segment_size=1 << 20)
        for _ in range(4000):
            store.add(Message("t", b"x" * 100))
        store.write(index=False)
        process = subprocess.Popen(
            [sys.executable, "-m", "litemq", "store", "dump", str(tmp_path), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(30) == 0

    @pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-"])
    @pytest.mark.parametrize("name", ["dump", "info", "verify"])
    def test_without_an_output_it_works_unseen(self, name: str, streams: str) -> None:
        path = FIXTURES / "litemq" / "flipped"
        line = f'exec "$0" -m litemq store {name} "$1" {streams}'
        done = subprocess.run(["sh", "-c", line, sys.executable, path], capture_output=True, check=False, timeout=60)
        assert done.returncode == (0 if name == "info" else 1)
        assert b"error" not in done.stderr

    @pytest.mark.parametrize("name", ["dump", "info"])
    def test_an_output_that_cannot_be_written_is_named(self, name: str) -> None:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "litemq", "store", name, FIXTURES / "litemq" / "store"],
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                timeout=60,
            )
        assert done.returncode == 2
        assert done.stderr == b"litemq: error: cannot write the output: No space left on device\n"

    def test_interrupted(self, tmp_path: Path) -> None:
        store = StoreFiles(tmp_path, segment_size=1 << 20)
        for _ in range(4000):
            store.add(Message("t", b"x" * 100))
        store.write(index=False)
        process = subprocess.Popen(
            [sys.executable, "-m", "litemq", "store", "dump", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)  # it runs, and waits for us to read on
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert b"Traceback" not in process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        assert process.wait(30) == 130

    def test_help_loads_neither_store_nor_rich(self) -> None:
        code = (
            "import sys\nfrom litemq.cli.main import run\nassert run(['store', '--help']) == 0\n"
            "heavy = [n for n in sys.modules if n.startswith(('rich', 'litemq.store.', 'litemq.format.'))]\n"
            "assert not heavy, heavy"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr.decode()

    def test_shell_completion(self) -> None:
        done = command(_LITEMQ_COMPLETE="bash_source")
        assert b"_litemq_completion" in done.stdout
        done = command(_LITEMQ_COMPLETE="bash_complete", COMP_WORDS="litemq store ve", COMP_CWORD="2")
        assert done.stdout == b"plain,verify\n"


class TestVersion:
    def test_version(self, capfdbinary: Captured) -> None:
        assert run(["version", "--json"]) == 0
        (found,) = objects(capfdbinary.readouterr().out)
        assert list(found) == ["version", "build", "python", "formats"]
        assert found["build"] in ("compiled", "plain", "mixed")
        assert run(["version"]) == 0
        assert b"litemq 0x4C4D5101" in capfdbinary.readouterr().out
        assert run(["--version"]) == 0
        assert capfdbinary.readouterr().out.startswith(b"litemq ")

    def test_bare_command_shows_help(self, capfdbinary: Captured) -> None:
        assert run([]) == 0
        assert b"store" in capfdbinary.readouterr().out

    def test_main_ends_the_process(self) -> None:
        with pytest.raises(SystemExit) as ended:
            cli_main.main(["store", "formats", "--json"])
        assert ended.value.code == 0
