"""What a person gets wrong, without a session: each error says what to change."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.spark_rows import options_of, read
from tests.support.store_files import StoreFiles

from litemq.errors import BadStore
from litemq.spark.errors import BadOption, Unreadable
from litemq.types import Message


@pytest.fixture
def store(tmp_path: Path) -> StoreFiles:
    found = StoreFiles(tmp_path / "store", segment_size=600)
    for number in range(20):
        found.add(Message("orders", b"body %d" % number))
    found.write()
    return found


def segment(store: StoreFiles, number: int) -> Path:
    return sorted((store.root / "commitlog").iterdir())[number]


@pytest.mark.parametrize("number", [0, 1])
def test_a_folder_where_a_segment_should_be(number: int, store: StoreFiles) -> None:
    path = segment(store, number)
    path.unlink()
    path.mkdir()
    with pytest.raises(Unreadable, match=f"cannot read {path}: a folder .*move it away"):
        read(store.root)


def test_a_segment_that_is_no_file(store: StoreFiles) -> None:
    path = segment(store, 1)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unreadable, match=f"cannot read {path}: it is no regular file; the user that runs Spark"):
        read(store.root)


def test_a_segment_that_may_not_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        store = StoreFiles(Path(folder, "store"), segment_size=600)
        for number in range(20):
            store.add(Message("orders", b"body %d" % number))
        store.write()
        path = segment(store, 1)
        path.chmod(0)
        code = (
            "import os, sys\n"
            "from tests.support.spark_rows import read\n"
            "from pathlib import Path\n"
            "from litemq.spark.errors import Unreadable\n"
            "if os.geteuid() == 0:\n"
            "    read(Path(sys.argv[1]))\n"  # imports all that it needs
            "    os.seteuid(65534)\n"
            "try:\n    read(Path(sys.argv[1]))\n"
            "except Unreadable as error:\n    print(error)\n"
        )
        said = subprocess.run(
            [sys.executable, "-c", code, str(store.root)], capture_output=True, text=True, check=True
        ).stdout
        assert said.startswith(f"cannot read {path}: Permission denied; the user that runs Spark")


def test_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(BadStore, match=r"no such file or directory: .*; check the path"):
        read(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("these are some notes")
    with pytest.raises(BadStore, match=r"notes.txt has the unknown magic .*; .* name its format: .option\('format', "):
        read(tmp_path / "notes.txt")
    with pytest.raises(BadStore, match=r"is no store: .* give a store directory"):
        read(tmp_path)


def test_a_quarantine_that_cannot_be_written(store: StoreFiles, tmp_path: Path) -> None:
    store.segments[0][50] ^= 0xFF
    store.write()
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match=r"quarantinePath .*file/in cannot be written: .*; choose a folder"):
        read(store.root, onCorrupt="quarantine", quarantinePath=tmp_path / "file" / "in")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "earliest"}, "unknown option 'startingOffset'; did you mean startingOffsets?"),
        ({"onCorupt": "skip"}, "unknown option 'onCorupt'; did you mean onCorrupt?"),
        ({"zzz": "1"}, "unknown option 'zzz'; there are: .*subscribe"),
        ({"filterPushdown": "true"}, "filterPushdown is off for good: .* use subscribe, keys, tags"),
        ({"onCorrupt": "quarantine"}, "needs quarantinePath"),
        ({"onDataLoss": "record"}, "needs dataLossLog"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "subscribe and assign exclude each other"),
        ({"startingOffsets": "soon"}, "startingOffsets is no JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "startingOffsets is .* like"),
        ({"maxPartitionBytes": "8x"}, "must be a number of bytes such as 8m"),
        ({"brokers": "127.0.0.1:9876"}, "path and brokers exclude each other"),
        ({"view": "queue"}, "view is 'queue'; it must be one of: messages"),
    ],
)
def test_options(options: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=said):
        options_of(tmp_path, **options)


# -- what Spark itself needs ---------------------------------------------------------------------


def said_by_session(folder: Path, *, java: str = "", pyspark: str = "", path: str = "") -> str:
    """Return the last line of what starting a session says where Java or PySpark are others, or not there."""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHONPATH")}
    (folder / "bin").mkdir()
    if java:
        (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{java}' >&2\n")
        (folder / "bin" / "java").chmod(0o755)
    if pyspark:
        (folder / "pyspark").mkdir()
        (folder / "pyspark" / "__init__.py").write_text(f"__version__ = {pyspark!r}\n")
    ended = subprocess.run(
        [sys.executable, "-c", "from litemq import spark\nspark.session()"],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "PATH": path or str(folder / "bin"), "PYTHONPATH": str(folder)},
    )
    assert ended.returncode == 1
    return ended.stderr.splitlines()[-1]


def test_java_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    said = said_by_session(tmp_path)
    assert said.startswith(
        "litemq.spark.errors.SparkMissing: Spark needs Java 17 or newer, and no java is here; install"
    )


@pytest.mark.parametrize("version", ["11.0.21", "1.8.0_392"])
def test_java_is_too_old(version: str, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    said = said_by_session(tmp_path, java=f'openjdk version "{version}" 2023-10-17')
    number = "11" if version.startswith("11") else "8"
    assert f"{tmp_path}/bin/java is Java {number}, Spark needs 17 or newer; install" in said


def test_what_is_called_java_is_none(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    assert "tells no version; Spark needs Java 17 or newer: install" in said_by_session(tmp_path, java="hello")


@pytest.mark.parametrize("version", ["3.5.1", "4.1.0", "4.4.0", "5.0.0.dev1"])
def test_another_pyspark(version: str, tmp_path: Path) -> None:
    said = said_by_session(tmp_path, pyspark=version)
    assert said == (
        f"litemq.spark.errors.SparkMissing: PySpark {version} does not fit: LiteMQ needs 4.2 or 4.3; "
        "run: pip install 'litemq[spark]'"
    )
