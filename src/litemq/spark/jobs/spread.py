"""Do tasks on Spark: each is a picklable callable, one of Spark's tasks, and gives back a small picklable value.

Messages never enter the JVM: a task reads and writes files by itself.  A task may be done twice, at the same time
even, so that it must do no harm by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast
from uuid import uuid4

from litemq.errors import LiteMQError
from litemq.spark.errors import JobFailed
from litemq.spark.jobs.job import Run

_LOOK_S = 0.2
_TASKS_PER_SLOT = 3
"""So many tasks for each that runs at a time: a slow one at the end leaves few others waiting."""

_Result = TypeVar("_Result")


class Stopped(LiteMQError):
    """Somebody asked the job to stop."""


class OnSpark:
    """A ``Spread`` that Spark does."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._context = run.spark.sparkContext

    @property
    def least(self) -> int:
        """Return into how many tasks work is cut when there is enough of it."""
        return _TASKS_PER_SLOT * int(self._context.defaultParallelism)

    def __call__(self, tasks: Sequence[Callable[[], _Result]], /) -> list[_Result]:
        """Do the tasks; return what each gave, in their order.

        Raises:
            Stopped: the job was asked to stop meanwhile; tasks may run on for a moment.
        """
        if not tasks:
            return []
        with self._stoppable():
            found = self._context.parallelize(tasks, len(tasks)).map(_call).collect()
        return cast("list[_Result]", found)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Let Spark give up what runs within when the job shall stop."""
        if self._run.should_stop():
            raise Stopped("the job was stopped")
        group, ended = f"litemq-{uuid4().hex}", threading.Event()

        def watch() -> None:
            while not ended.wait(_LOOK_S):
                if self._run.should_stop():
                    self._context.cancelJobGroup(group)

        thread = threading.Thread(target=watch, name="litemq-stop", daemon=True)
        self._context.setJobGroup(group, "litemq", interruptOnCancel=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if self._run.should_stop():
                raise Stopped("the job was stopped") from error
            raise
        finally:
            ended.set()
            thread.join()


def _call(task: Callable[[], _Result]) -> _Result:
    try:
        return task()
    except OSError as error:  # of which Spark would show a stack
        raise JobFailed(f"{error.filename or 'a file'}: {error.strerror or error}") from error
