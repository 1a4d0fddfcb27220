"""The command ``litemq``.

Exit status: 0 all well, 1 the work was done but something was found or lost, 2 wrong usage or input, 130 interrupted.
With 2 there is one line on stderr, and never a traceback (``LITEMQ_DEBUG=1`` shows it).
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

import click

from litemq._plain import ExtensionMissing
from litemq._version import VERSION
from litemq.cli import output
from litemq.cli.lazy import LazyGroup
from litemq.errors import LiteMQError

OK: Final = 0
DAMAGE: Final = 1
WRONG: Final = 2
INTERRUPTED: Final = 130

_ADVICE: Final = {
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.EROFS: "make the file system writable, or work on a copy",
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room",
    errno.EIO: "check the disk",
    errno.EMFILE: "allow more open files: ulimit -n",
}

_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


_COMMANDS: Final = {
    "up": ("litemq.cli.server:up", "Run a name server and a broker, all in one process."),
    "nameserver": ("litemq.cli.server:nameserver", "Run a name server."),
    "broker": ("litemq.cli.server:broker", "Run a broker that registers with name servers."),
    "topic": ("litemq.cli.topic:topic", "Make, look at, alter, empty and delete topics."),
    "group": ("litemq.cli.group:group", "Consumer groups: lag, members, offsets, settings."),
    "message": ("litemq.cli.message:message", "Send, follow, find and trace messages."),
    "dlq": ("litemq.cli.dlq:dlq", "Dead letters: list, show, redrive, archive, purge."),
    "cluster": ("litemq.cli.cluster:cluster", "Brokers: load, health, settings."),
    "bench": ("litemq.cli.bench:bench", "Put load on a cluster and measure it."),
    "config": ("litemq.cli.config:config", "Show and check the settings of file and environment."),
    "store": ("litemq.cli.store:store", "Tools over store files; no broker is needed."),
    "pipeline": ("litemq.cli.pipeline:pipeline", "Jobs over the history of topics, done by Spark."),
    "sql": ("litemq.cli.sql:sql", "Ask a store or a cluster in SQL, by Spark."),
    "completion": ("litemq.cli.completion:completion", "Print what a shell needs to complete these commands."),
    "version": ("litemq.cli.version:version", "Show version, kind of build, Python and record formats."),
}
"""Name → where the command is, and its line in the list: whoever asks for help waits for no imports."""


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings=_SETTINGS, invoke_without_command=True)
@click.version_option(VERSION, message="litemq %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """LiteMQ: a message queue on one log, readable by RocketMQ's clients and tools."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its status."""
    sys.exit(run(argv))


def run(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its status; whatever goes wrong is one line on stderr."""
    try:
        status = _run(argv)
        output.flush()
    except output.PipeClosed:
        output.forget_stdout()
        return OK
    except output.NotWritten as error:
        output.forget_stdout()
        return _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        return _fail(_usage_text(error))
    except LiteMQError as error:
        return _fail(str(error) + _advice(error.__cause__))
    except OSError as error:
        name = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{name}{error.strerror or error}{_advice(error)}")
    except ExtensionMissing as error:
        return _fail(str(error))
    except (MemoryError, RecursionError) as error:
        return _fail(f"the input asks for too much ({type(error).__name__}); verify it with: litemq store verify PATH")
    except Exception as error:  # noqa: BLE001 - a person must never see a traceback; LITEMQ_DEBUG=1 shows it
        return _fail(f"unexpected {type(error).__name__}: {error}; LITEMQ_DEBUG=1 shows where, please report it")
    return status if isinstance(status, int) else OK


def _run(argv: Sequence[str] | None) -> object:
    try:
        return cli.main(args=None if argv is None else list(argv), prog_name="litemq", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:  # ``litemq topic`` tells what there is, as ``litemq`` does
        output.write_line(error.format_message())
        return OK


def _usage_text(error: click.ClickException) -> str:
    text = " ".join(line.lstrip("\t") for line in error.format_message().split("\n")).strip()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        text = f"{text.rstrip('.')}; see: {context.command_path} --help"
    return text


def _advice(error: BaseException | None) -> str:
    """Return what to do about an error of the operating system, where that is always the same."""
    advice = _ADVICE.get(error.errno or 0) if isinstance(error, OSError) else None
    return f"; {advice}" if advice else ""


def _fail(text: str) -> int:
    if os.environ.get("LITEMQ_DEBUG", "") not in ("", "0"):
        traceback.print_exc()
    with suppress(output.PipeClosed, output.NotWritten):
        output.fail(text)
    return WRONG
