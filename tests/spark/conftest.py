"""One Spark for the whole run: starting it costs more than all the queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Give a session with two slots, quiet and small."""
    from litemq.spark import session

    folder: Path = tmp_path_factory.mktemp("spark")
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    found = session(
        "tests",
        spark__master="local[2,1]",
        spark__ui__enabled="false",
        spark__driver__extraJavaOptions=java,
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__sql__shuffle__partitions="1",
        spark__default__parallelism="2",
        spark__sql__warehouse__dir=str(folder / "warehouse"),
        spark__local__dir=str(folder / "local"),
    )
    found.sparkContext.setLogLevel("OFF")
    yield found
    found.stop()
