"""What a person sees who gets something wrong: the last lines that Python prints, not a stack of the JVM."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import StoreFiles

from litemq.spark.errors import message_of
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one damaged record."""
    found = StoreFiles(tmp_path_factory.mktemp("wrong") / "store", segment_size=1 << 16)
    for number in range(20):
        found.add(Message("orders", b"body %d" % number))
    found.segments[0][found.puts[5].position + 60] ^= 0xFF
    return found.write()


def said_by(action: Callable[[], object]) -> str:
    """Return the message; what is printed ends with it, or with the state that Spark tells of a stream."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark has a class for each step
        action()
    text = str(caught.value)
    said = message_of(caught.value)
    shown = text.partition("=== Streaming Query ===")[0].removesuffix("\n").splitlines()
    assert any(said in line for line in shown[-3:]), text
    assert not any(line.startswith("\tat ") for line in text.splitlines()), text
    return said


def read(spark: Any, **options: object) -> Callable[[], object]:  # noqa: ANN401 - Spark's session
    return lambda: spark.read.format("litemq").options(**options).load().show()


def write(spark: Any, column: str = "body", mode: str = "append", **options: object) -> Callable[[], object]:  # noqa: ANN401
    frame = spark.range(3).selectExpr(f"cast(id as string) AS {column}")
    return lambda: frame.write.format("litemq").options(**options).mode(mode).save()


def test_reading(spark: Any, store: Path) -> None:  # noqa: ANN401 - Spark's session
    assert "onCorrupt to skip, keep or quarantine" in said_by(read(spark, path=store))
    assert said_by(read(spark, path=store, subscribe="order")).endswith("topics are: orders")
    assert said_by(read(spark, path=store, subscribes="orders")).endswith("did you mean subscribe?")
    assert said_by(read(spark, path=store / "none")).endswith("check the path")
    assert "give the store directory" in said_by(read(spark))
    assert "is no store" in said_by(read(spark, path=store.parent))
    assert "view=segments needs path" in said_by(read(spark, brokers=NOBODY, view="segments"))


def test_writing(spark: Any, store: Path) -> None:  # noqa: ANN401 - Spark's session
    to = {"brokers": NOBODY, "topic": "orders", "timeout": "2"}
    assert "give brokers instead" in said_by(write(spark, path=store, topic="orders"))
    assert "use .mode('append')" in said_by(write(spark, mode="overwrite", **to))
    assert "a column body (or value)" in said_by(write(spark, "text", **to))
    assert "did you mean topic?" in said_by(write(spark, brokers=NOBODY, topik="orders"))
    assert "no name server answers" in said_by(write(spark, **to))


def test_brokers_that_are_away(spark: Any) -> None:  # noqa: ANN401 - Spark's session
    began = time.monotonic()
    assert "no name server answers (127.0.0.1:1 cannot be reached" in said_by(read(spark, brokers=NOBODY))
    assert time.monotonic() - began < 25  # five seconds of it are ours: half a minute would be a read that goes on


def test_streams(spark: Any, store: Path, tmp_path: Path) -> None:  # noqa: ANN401 - Spark's session
    def run(**options: object) -> Callable[[], object]:
        frame = spark.readStream.format("litemq").options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return lambda: writer.trigger(availableNow=True).start().awaitTermination()

    assert "view=queues cannot be read as a stream" in said_by(run(path=store, view="queues"))
    assert said_by(run(path=store, subscribe="order")).endswith("topics are: orders")
