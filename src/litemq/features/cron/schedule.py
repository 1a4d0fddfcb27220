"""What to do about a job now: which runs to publish, which to skip, and when to look again.

Sans-IO.  All that is kept of a job beside itself is ``decided_ms``: every time up to it was published or skipped.  The
caller publishes what ``decide`` names, then keeps the plan's ``decided_ms``; after a crash between the two it publishes
the same runs again, under the same message ids.

A time is missed when it passed before the job was served (``serving_since_ms``), not when its turn came late: of a
million jobs due in one second none is missed because it had to wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from litemq.features.cron import run_id
from litemq.features.cron.job import JOB_PROPERTY, MIN_WINDOW_MS, TIME_PROPERTY, Job
from litemq.features.cron.next_run import newest_until, next_after
from litemq.types import Message

GRACE_MS: Final = MIN_WINDOW_MS
"""Times that passed so shortly before the job was served are on time: a quick restart misses nothing."""

MAX_RUNS: Final = 100
"""Runs of one job in one plan; the next plan has the next ones."""

MAX_COUNTED: Final = 100
_FIRST_RETRY_MS: Final = 1_000
_MAX_RETRY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Run:
    """One time of a job: when it was scheduled for, and when it is due, with its jitter."""

    job_id: str
    fire_ms: int
    due_ms: int

    @property
    def message_id(self) -> str:
        """Return the id of the run's message: always the same."""
        return run_id.message_id(self.job_id, self.fire_ms)


@dataclass(frozen=True, slots=True)
class Skipped:
    """Times that were missed and will not run."""

    first_ms: int
    last_ms: int
    count: int
    """How many, ``MAX_COUNTED`` for more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: publish runs in this order, note what is skipped, keep ``decided_ms``, look again at ``next``."""

    publish: tuple[Run, ...]
    skipped: Skipped | None
    decided_ms: int
    next: Run | None
    """None: the job is disabled, or has no more times."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Publish a run once more, not before ``at_ms``."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A run failed for good."""

    reason: str


def start(job: Job) -> int:
    """Return ``decided_ms`` of a new job: its times begin after it was made."""
    return job.created_ms


def decided_after_change(old: Job, new: Job, decided_ms: int, now_ms: int) -> int:
    """Return ``decided_ms`` of a job that was changed.

    With another schedule, or after a pause, times begin now: nothing of before was missed.
    """
    was_paused = new.enabled and not old.enabled
    is_rescheduled = (old.expression, old.zone) != (new.expression, new.zone)
    return max(decided_ms, now_ms) if was_paused or is_rescheduled else decided_ms


def decide(job: Job, decided_ms: int, *, now_ms: int, serving_since_ms: int, most: int = MAX_RUNS) -> Plan:
    """Return what to do about a job.

    Args:
        decided_ms: of the last plan, or of ``start``.
        serving_since_ms: since when this job's times are watched without a break: since the broker started, became
            the job's, or woke up from a suspend.
        most: runs to publish at most; when there are more, ``next`` is due already.
    """
    if not job.enabled:
        return Plan((), None, decided_ms, None)
    upcoming = next_of(job, decided_ms)
    skipped = None
    if upcoming is not None and upcoming.fire_ms <= _missed_until(job, serving_since_ms):
        skip_until = _skip_until(job, decided_ms, serving_since_ms)
        skipped = _skipped(job, decided_ms, skip_until)
        decided_ms = max(decided_ms, skip_until)
        upcoming = next_of(job, decided_ms)
    publish: list[Run] = []
    while upcoming is not None and upcoming.due_ms <= now_ms and len(publish) < most:
        publish.append(upcoming)
        decided_ms = upcoming.fire_ms
        upcoming = next_of(job, decided_ms)
    return Plan(tuple(publish), skipped, decided_ms, upcoming)


def next_of(job: Job, decided_ms: int) -> Run | None:
    """Return the first run whose time is later than ``decided_ms``."""
    fire_ms = next_after(job.expression, job.zone, decided_ms, anchor_ms=job.created_ms)
    if fire_ms is None:
        return None
    return Run(job.id, fire_ms, fire_ms + run_id.jitter(job.id, fire_ms, job.jitter_ms))


def _missed_until(job: Job, serving_since_ms: int) -> int:
    """Return the last time that was missed, if it is one of the job's."""
    return serving_since_ms - GRACE_MS - job.jitter_ms - 1


def _skip_until(job: Job, decided_ms: int, serving_since_ms: int) -> int:
    """Return up to when the times of a job that has missed some are skipped."""
    missed_until = _missed_until(job, serving_since_ms)
    too_old = serving_since_ms - job.misfire.window_ms - 1
    if job.misfire.policy == "skip":
        return missed_until
    if job.misfire.policy == "all":
        return min(too_old, missed_until)
    # The newest of all times until now runs for all others, also when it was not missed itself.
    newest = newest_until(job.expression, job.zone, decided_ms, serving_since_ms, anchor_ms=job.created_ms)
    return missed_until if newest is None or newest <= too_old else newest - 1


def _skipped(job: Job, decided_ms: int, until_ms: int) -> Skipped | None:
    """Return the times after ``decided_ms`` and up to ``until_ms``; None when there are none."""
    first = next_after(job.expression, job.zone, decided_ms, anchor_ms=job.created_ms)
    last = newest_until(job.expression, job.zone, decided_ms, until_ms, anchor_ms=job.created_ms)
    if first is None or last is None:
        return None
    count, at = 1, first
    while at < last and count < MAX_COUNTED:
        at = next_after(job.expression, job.zone, at, anchor_ms=job.created_ms) or last
        count += 1
    return Skipped(first, last, count)


def message_of(job: Job, run: Run) -> Message:
    """Return the message of a run."""
    return Message(
        job.topic,
        job.payload,
        message_id=run.message_id,
        tags=job.tags,
        keys=job.keys,
        sharding_key=job.sharding_key,
        properties={**job.properties, JOB_PROPERTY: job.id, TIME_PROPERTY: str(run.fire_ms)},
    )


def after_failure(job: Job, run: Run, attempts: int, *, now_ms: int) -> TryAgain | GiveUp:
    """Decide on a run that could not be published; ``attempts`` have failed by now."""
    if attempts > job.retry:
        return GiveUp(f"publishing failed {attempts} times")
    at_ms = now_ms + min(_FIRST_RETRY_MS << min(attempts - 1, 16), _MAX_RETRY_MS)
    if job.timeout_ms and at_ms > run.due_ms + job.timeout_ms:
        return GiveUp(f"it could not be published within {job.timeout_ms} ms")
    return TryAgain(at_ms)
