"""A store on real files in a process that kills itself: ``python -m tests.crash.child``.

Reads one request a line from stdin, forks for each, and answers with a line that says how the fork ended.  Before
and after each step the fork leaves its ``Memory`` in ``notes``, so that the parent knows what was promised.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from pathlib import Path

from tests.crash.lives import Life
from tests.crash.notes import Notes, Request
from tests.crash.workload import (
    TOPICS,
    Advance,
    Append,
    DeleteGroup,
    DeleteTopic,
    Fit,
    Purge,
    SetGroup,
    Simple,
    Step,
    Tick,
)
from tests.support.hooked_fs import HookedFileSystem
from tests.support.killer_fs import killer_fs, real_fs
from tests.support.power_switch import CallLog

from litemq.types import Message


def steps() -> list[Step]:
    """Return work that reaches every fault point: append, roll, flush, checkpoint, retention, deletion, clean stop."""

    def messages(mark: str, count: int) -> tuple[Message, ...]:
        return tuple(
            Message(
                TOPICS[number % 2],
                f"{mark}{number}|".encode() + b"x" * (97 * number % 700),
                queue_id=number % 2,
                message_id=f"id-{mark}{number}",
                keys=(f"key-{number % 5}",),
                tags=("red",),
            )
            for number in range(count)
        )

    return [
        Append(messages("a", 3), together=False),
        SetGroup("g", 3),
        Append(messages("b", 12), together=True),
        Simple("flush"),
        Advance("g", TOPICS[0], 0, 0.5),
        Tick(1100),
        Fit(0, "f|"),
        Fit(0, "g|"),
        Append(messages("c", 4), together=False),
        Simple("checkpoint"),
        DeleteTopic(TOPICS[1]),
        Append(messages("d", 6), together=True),
        Purge(TOPICS[0], 0, 0.3),
        Tick(3_700_000),
        Append(messages("e", 9), together=True),
        Advance("g", TOPICS[0], 1, 0.9),
        Simple("reopen"),
        DeleteGroup("g"),
        Append(messages("f", 9), together=True),
        Tick(3_700_000),
        Append(messages("h", 2), together=False),
        Append(messages("i", 15), together=True),
    ]


def live(request: Request) -> None:
    """Work until the request's call comes."""
    path = Path(request.notes)
    notes = Notes.load(path)
    log = CallLog()
    fs = HookedFileSystem(killer_fs(request.number, request.moment), log)
    life = Life(notes.memory, fs, real_fs())
    notes.is_open = True
    notes.save(path)
    for step in steps() if request.steps else ():
        notes.memory.note(notes.memory.scan(real_fs()))
        notes.save(path)
        life.do(step)
    path.with_name("sites").write_text(json.dumps([(site.kind, str(site)) for site in log.sites]))


def main() -> None:
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                live(request)
                code = 0
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
