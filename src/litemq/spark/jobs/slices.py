"""Sending much in slices: each is one batch transaction, so that a job that was stopped goes on with the next one.

    producer = what is sent to which topic        epoch = number of the slice × 100 + go

Brokers remember the last epoch of a producer for a week: what was committed is not sent again, whoever asks.  A slice
whose epoch was aborted, as one is that was staged and then left alone for a day, goes once more under the next number.
What was sent is noted in the state directory, too, for later than a week.

    killed …                                    the next run
    before the plan is written                  plans anew
    before the commit of a slice                stages it again; what was staged before is dropped
    between the commit and the note of it       hears of the commit from the broker
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from litemq.client.admin import Admin
from litemq.client.batch_transactions import BatchTransactions
from litemq.client.live_reads import LiveReader
from litemq.errors import InvalidRequest, UnknownTopic
from litemq.spark.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from litemq.spark.jobs.job import Run

STATE: Final = Path("~/.litemq/pipeline")
SLICE_ROWS: Final = 100_000
SLICE_BYTES: Final = 64 << 20
GOES: Final = 100
_BURST_S: Final = 2.0
"""With a rate, a slice is what may pass in this time."""
_LOOK_S: Final = 0.2
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
T = TypeVar("T")


def id_of(name: str, facts: Mapping[str, object]) -> str:
    """Return an id that follows from facts: the same for the same ones, on every machine."""
    text = json.dumps(facts, sort_keys=True, ensure_ascii=False)
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:40]
    return f"{readable or 'run'}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def checked_id(given: str) -> str:
    """Return an id that a person gave.

    Raises:
        InvalidRequest: it cannot be the name of a directory everywhere.
    """
    if not _ID.fullmatch(given):
        raise InvalidRequest(f"--id is {given!r}; it must be 1 to 100 letters, digits, dots, dashes and underscores")
    return given


def next_epoch(last: int | None, done: int, *, is_committed: bool) -> int:
    """Return the epoch that comes next.

    ``last`` is the last one that the brokers know to have ended, committed or not; ``done`` slices are known to be
    sent whatever brokers have forgotten.

    Raises:
        JobFailed: a slice was aborted too often.
    """
    if last is None:
        return done * GOES
    if is_committed:
        return max(last // GOES + 1, done) * GOES
    if last % GOES == GOES - 1:
        raise JobFailed(
            f"slice {last // GOES} was aborted {GOES} times; look at litemq cluster health, use another --id"
        )
    return max(last + 1, done * GOES)


def slice_rows(rate: float | None) -> int:
    """Return how many rows a slice may have: with a rate so few that it flows."""
    return SLICE_ROWS if rate is None else max(1, min(SLICE_ROWS, int(rate * _BURST_S)))


class Pace:
    """Lets no more than ``rate`` rows a second pass, over the whole run."""

    def __init__(self, rate: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._now = now
        self._due = now()

    def left(self) -> float:
        """Return how many seconds to wait before the next slice."""
        return max(0.0, self._due - self._now())

    def begins(self) -> None:
        """Note that a slice begins: time that nobody used is not made up for."""
        self._due = max(self._due, self._now())

    def passed(self, rows: int) -> None:
        """Note how many rows the slice had."""
        if self._rate is not None:
            self._due += rows / self._rate


class State:
    """What a job that sends keeps on this machine: its plan, and how many slices are sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from working with this directory.

        Raises:
            InvalidRequest: somebody does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InvalidRequest(f"another run works with {self.folder}; wait for its end") from error
            yield

    def plan(self) -> dict[str, Any] | None:
        """Return the plan; None when there is none yet."""
        return self._read("plan.json")

    def keep_plan(self, plan: Mapping[str, object]) -> None:
        """Write the plan: from here on it is what is sent."""
        write_whole(self.folder / "plan.json", json.dumps(plan, ensure_ascii=False))

    @property
    def done(self) -> int:
        """How many slices are sent, as far as was noted."""
        found = self._read("progress.json")
        return int(found["slices"]) if found else 0

    def note(self, slices: int, logs: Sequence[str] = ()) -> None:
        """Note how many slices are sent, and to the brokers of which logs."""
        write_whole(self.folder / "progress.json", json.dumps({"slices": slices, "logs": sorted(logs)}))

    def check_logs(self, logs: Sequence[str]) -> None:
        """Refuse brokers that are others than those of which the progress tells.

        Raises:
            InvalidRequest: they are.
        """
        found = self._read("progress.json")
        if found and found.get("logs") and set(found["logs"]).isdisjoint(logs):
            raise InvalidRequest(
                f"{self.folder} tells what was sent to other brokers, whose place these have taken; to send all of it "
                "to these, remove that directory or give another --state"
            )

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise JobFailed(f"{path} cannot be read: {error}; give another --state and --id") from error
        if not isinstance(found, dict):
            raise JobFailed(f"{path} holds no object; give another --state and --id")
        return found


def state_of(run_id: str, folder: Path | None) -> State:
    """Return the state of a run: in ``folder``, or where it is kept when nobody says."""
    return State(folder if folder is not None else STATE.expanduser() / run_id)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a power cut leaves the old one or the new one."""
    beside = path.with_name(f".{path.name}.tmp")
    with beside.open("w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows are sent, and under which name."""

    brokers: str
    topic: str
    producer_id: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What a run did."""

    rows: int
    """By this run."""
    before: int
    """By earlier ones."""
    slices: int
    is_stopped: bool


def check_topic(brokers: str, topic: str, *, creates: bool, queues: int | None = None, dry_run: bool = False) -> bool:
    """Return whether the topic is there; make it when that is wanted.

    Raises:
        UnknownTopic: it is missing and nobody asked to make it.
    """
    with Admin(brokers) as admin:
        try:
            admin.topic(topic)
        except UnknownTopic as error:
            if not creates:
                raise UnknownTopic(
                    f"there is no topic {topic!r} at {brokers}; add --create-topic, or: litemq topic create {topic}"
                ) from error
            if not dry_run:
                admin.create_topic(topic, queues=queues, exist_ok=True)
            return False
    return True


def last_epoch(target: Target) -> tuple[int | None, bool]:
    """Return the last epoch of the producer that brokers know to have ended, and whether it was committed."""
    with BatchTransactions(target.brokers) as transactions:
        last = transactions.status(target.producer_id, 0).last_epoch
        return last, last is not None and transactions.status(target.producer_id, last).state == "committed"


def send(
    run: Run, target: Target, state: State, counts: Sequence[int], frame_of: Callable[[int], DataFrame], pace: Pace
) -> Sent:
    """Send the slices that are not sent yet: of ``counts[n]`` rows is ``frame_of(n)``.

    Raises:
        JobFailed: a slice has other rows than it was planned with.
    """
    with LiveReader(target.brokers) as brokers:
        logs = [one.log_id for one in brokers.bounds([])]
    state.check_logs(logs)
    last, is_committed = last_epoch(target)
    epoch = next_epoch(last, state.done, is_committed=is_committed)
    first = min(epoch // GOES, len(counts))
    before = sum(counts[:first])
    if first > state.done:
        state.note(first, logs)  # brokers forget it one day
    done, total = before, sum(counts)
    for number in range(first, len(counts)):
        run.told(done, total)
        if not _waited(run, pace):
            return Sent(done - before, before, number - first, is_stopped=True)
        pace.begins()
        _send_one(target, frame_of(number), epoch, counts[number])
        pace.passed(counts[number])
        done += counts[number]
        epoch = (number + 1) * GOES
        state.note(number + 1, logs)
    run.told(total, total)
    return Sent(done - before, before, len(counts) - first, is_stopped=False)


def _send_one(target: Target, frame: DataFrame, epoch: int, count: int) -> None:
    options = {
        "brokers": target.brokers,
        "topic": target.topic,
        "writeId": target.producer_id,
        "epoch": str(epoch),
    }
    frame.write.format("litemq").options(**options).mode("append").save()
    with BatchTransactions(target.brokers) as transactions:
        sent = transactions.status(target.producer_id, epoch).rows
    if sent != count:
        raise JobFailed(
            f"slice {epoch // GOES} of {target.producer_id!r} had {sent} rows where {count} were planned: its source "
            "changed, or its condition answers differently each time; these rows are in the topic, nothing was "
            "sent behind them"
        )


def _waited(run: Run, pace: Pace) -> bool:
    """Wait until a slice may go; return False when somebody asks to stop."""
    while not run.should_stop():
        left = pace.left()
        if left <= 0:
            return True
        time.sleep(min(left, _LOOK_S))
    return False


def until_stopped(run: Run, work: Callable[[], T]) -> T | None:
    """Return what one long action of Spark returns; None when somebody asks to stop: then it is cancelled."""
    from pyspark import InheritableThread

    found: list[T] = []
    failed: list[BaseException] = []

    def act() -> None:
        try:
            found.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again by who waits
            failed.append(error)

    thread: threading.Thread = InheritableThread(act, name="litemq-action", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
        if run.should_stop() and thread.is_alive():
            run.spark.sparkContext.cancelAllJobs()
            thread.join()
            if not found:
                return None
    if failed:
        raise failed[0]
    return found[0]
