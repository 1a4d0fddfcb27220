"""``litemq pipeline export, import, replay, dlq``: what is wrong with a command is said before a Spark is started."""

from __future__ import annotations

import sys

import pytest

from litemq.cli.main import run


def refused(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["pipeline", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pyspark" not in sys.modules
    return err


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("export", ("--to", "--format", "--body", "--topic", "--since", "--until", "--where", "--columns", "--view")),
        (
            "import",
            ("--from", "--topic", "--columns", "--on-bad", "--quarantine", "--create-topic", "--queues", "--id"),
        ),
        ("replay", ("--topic", "--to", "--to-nameserver", "--rate", "--same-topic", "--state", "--id")),
        ("dlq", ("--group", "--reason", "--error-like", "--redrive", "--rate", "--archive", "--yes")),
    ],
)
def test_help(capfd: pytest.CaptureFixture[str], command: str, options: tuple[str, ...]) -> None:
    assert run(["pipeline", command, "--help"]) == 0
    shown = capfd.readouterr().out
    for option in (*options, "--json", "--dry-run", "--report", "--master", "--nameserver"):
        assert option in shown


@pytest.mark.parametrize("rate", ["0", "-1/s", "many", "inf"])
@pytest.mark.parametrize("arguments", [("replay", "--topic", "a", "--to", "b"), ("dlq",)])
def test_a_rate_that_is_none(capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], rate: str) -> None:
    assert "is no number of messages a second: 50 or 0.5/s" in refused(capfd, *arguments, "--rate", rate)


def test_a_redrive_that_nobody_can_answer(capfd: pytest.CaptureFixture[str]) -> None:
    assert "add --yes" in refused(capfd, "dlq", "--redrive")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("export",), "Missing option '--to'"),
        (("export", "--to", "x", "--format", "orc"), "'orc' is not one of 'parquet', 'jsonl', 'csv'"),
        (("import", "--topic", "t"), "Missing option '--from'"),
        (("import", "--from", "x", "--topic", "t", "--columns", "body"), "'body' is not NAME=VALUE"),
        (("import", "--from", "x", "--topic", "t", "--on-bad", "cry"), "'cry' is not one of"),
        (("replay", "--topic", "t"), "Missing option '--to'"),
    ],
)
def test_wrong_options(capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(capfd, *arguments)
