"""``litemq pipeline archive`` and ``rollup`` before Spark starts: amounts, the lake of the settings, wrong options."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from litemq.cli.amounts import DURATION, SIZE
from litemq.cli.lake_directory import lake_directory
from litemq.cli.main import run
from litemq.errors import BadStore


def test_amounts() -> None:
    assert [DURATION.convert(text, None, None) for text in ("250ms", "90s", "5m", "2h", "1d")] == [
        *(0.25, 90, 300, 7_200, 86_400)
    ]
    assert [SIZE.convert(text, None, None) for text in ("7", "64k", "128M", "1gb")] == [7, 1 << 16, 1 << 27, 1 << 30]
    for kind, text in ((DURATION, "5"), (DURATION, "-1h"), (SIZE, "0"), (SIZE, "1t")):
        with pytest.raises(click.BadParameter, match="give one such as"):
            kind.convert(text, None, None)


def test_the_lake_is_that_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert lake_directory(None) == Path("litemq-lake")
    (tmp_path / "litemq.toml").write_text('[pipeline]\nlake = "/data/lake"\n')
    assert lake_directory(None) == Path("/data/lake")
    monkeypatch.setenv("LITEMQ_PIPELINE__LAKE", "/mnt/lake")
    assert lake_directory(None) == Path("/mnt/lake")
    assert lake_directory(Path("mine")) == Path("mine")
    monkeypatch.delenv("LITEMQ_PIPELINE__LAKE")
    (tmp_path / "litemq.toml").write_text('[pipeline]\nlake = ""\n')
    with pytest.raises(BadStore, match="the setting lake is '', it must be a path"):
        lake_directory(None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["archive", "--every", "often"], "'often' is no duration; give one such as 90s"),
        (["archive", "--format", "orc"], "'orc' is not one of 'parquet', 'delta'"),
        (["archive", "--target-size", "0"], "'0' is no size in bytes"),
        (["rollup", "--since", "soon"], "startingTimestamp is 'soon'"),
    ],
)
def test_wrong_options_say_what_to_give(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["pipeline", *arguments]) == 2
    assert told in capfdbinary.readouterr().err.decode()
