"""What ``litemq sql`` says before Spark starts; its page and that of ``litemq pipeline offsets`` have their flags."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from tests.support.cli_page import CliPage

from litemq.cli.main import run
from litemq.cli.pipeline_offsets import offsets
from litemq.cli.sql import sql

PAGE = CliPage("cli-pipeline-sql.md")
COMMANDS: dict[str, click.Command] = {
    "litemq sql": sql,
    **{f"litemq pipeline offsets {name}": command for name, command in offsets.commands.items()},
}
_OF_ALL = {"--nameserver", "--name-server", "--json"}


def test_the_page_has_every_command() -> None:
    assert {*COMMANDS} <= {*PAGE.sections}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_every_flag(name: str) -> None:
    parameters = [one for one in COMMANDS[name].params if isinstance(one, click.Option)]
    flags = {flag for one in parameters for flag in (*one.opts, *one.secondary_opts) if flag.startswith("--")}
    assert flags - _OF_ALL == PAGE.flags(name) - _OF_ALL
    assert all(one.help for one in parameters)


@pytest.mark.parametrize("words", [["sql"], ["pipeline", "offsets", "set"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom litemq.cli.main import run\n"
        f"assert run({[*words, '--help']!r}) == 0\n"
        "print(*(name for name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stderr.split())
    assert not found & {"pyspark", "pyarrow", "rich", "asyncio", "litemq.client", "litemq.store"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["DROP TABLE orders"], "DROP is refused"),
        ([], '"SELECT …", or --file FILE'),
        (["SELECT 1", "--file", "-"], '"SELECT …", or --file FILE'),
        (["--file", "nowhere.sql"], "nowhere.sql: No such file"),
        (["SELECT 1", "--output", "x.txt"], "says no format"),
        (["SELECT 1", "--path", "nowhere"], "nowhere"),
        (["SELECT 1", "--path", ".", "--since", "soon"], "startingTimestamp is 'soon'"),
        (["SELECT 1", "--limit", "0"], "--limit"),
        (["SELECT 1", "--nameserver", "127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_what_fails_before_spark_starts(
    arguments: list[str], said: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["sql", *arguments]) == 2
    out, err = (text.decode() for text in capfdbinary.readouterr())
    assert out == ""
    assert err.startswith("litemq: error: ")
    assert err.count("\n") == 1
    assert said in err
