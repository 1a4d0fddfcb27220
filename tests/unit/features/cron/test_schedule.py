"""What is published, skipped and waited for, beside a model that lists all times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from litemq.features.cron import run_id, schedule
from litemq.features.cron.job import POLICIES, Job, Misfire
from litemq.features.cron.next_run import next_after
from litemq.features.cron.schedule import GRACE_MS, GiveUp, Plan, Run, Skipped, TryAgain, decide

NOON = 1_795_435_200_000
HOUR = 3_600_000
JOB = Job(id="a", topic="t", expression="*/5 * * * *", payload=b"x", created_ms=NOON)


def served(
    job: Job, decided_ms: int, now_ms: int, since_ms: int, most: int = 3
) -> tuple[list[Run], list[Skipped], Plan]:
    """Carry out plans until nothing is due."""
    published: list[Run] = []
    skipped: list[Skipped] = []
    while True:
        plan = decide(job, decided_ms, now_ms=now_ms, serving_since_ms=since_ms, most=most)
        assert len(plan.publish) <= most
        published += plan.publish
        skipped += [plan.skipped] if plan.skipped else []
        decided_ms = plan.decided_ms
        if plan.next is None or plan.next.due_ms > now_ms:
            return published, skipped, plan
        assert plan.publish or plan.skipped, "no plan does nothing while something is due"


def times(runs: list[Run]) -> list[int]:
    return [run.fire_ms for run in runs]


# -- by example ----------------------------------------------------------------------------------------


def test_a_job_waits_for_its_first_time() -> None:
    plan = decide(JOB, schedule.start(JOB), now_ms=NOON + 1, serving_since_ms=NOON)
    assert plan == Plan((), None, NOON, Run("a", NOON + 300_000, NOON + 300_000))


def test_a_run_is_published_when_it_is_due() -> None:
    at = NOON + 300_000
    assert decide(JOB, NOON, now_ms=at - 1, serving_since_ms=NOON).publish == ()
    plan = decide(JOB, NOON, now_ms=at, serving_since_ms=NOON)
    assert plan == Plan((Run("a", at, at),), None, at, Run("a", at + 300_000, at + 300_000))


def test_nothing_is_missed_by_a_queue_that_is_long() -> None:
    """The job was served all the time, its turn came after an hour."""
    for policy in ("once", "skip", "all"):
        job = replace(JOB, misfire=Misfire(policy))
        published, skipped, _ = served(job, NOON, NOON + HOUR, NOON)
        assert (len(published), skipped) == (12, [])


@pytest.mark.parametrize(
    ("policy", "window_ms", "published", "skipped"),
    [
        ("once", 86_400_000, [60], (5, 55, 11)),
        ("once", 10_000, [], (5, 60, 12)),
        ("once", 60_000, [60], (5, 55, 11)),
        ("skip", 86_400_000, [], (5, 60, 12)),
        ("all", 86_400_000, list(range(5, 65, 5)), None),
        ("all", 1_260_000, [40, 45, 50, 55, 60], (5, 35, 7)),
    ],
)
def test_an_hour_down(policy: str, window_ms: int, published: list[int], skipped: tuple[int, int, int] | None) -> None:
    """Back 30 s after the last time of the hour."""
    assert policy in POLICIES
    job = replace(JOB, misfire=Misfire(policy, window_ms))  # type: ignore[arg-type]
    back = NOON + HOUR + 30_000
    runs, missed, plan = served(job, NOON, back, back)
    minutes = [(fire_ms - NOON) // 60_000 for fire_ms in times(runs)]
    assert minutes == published
    expected = Skipped(NOON + skipped[0] * 60_000, NOON + skipped[1] * 60_000, skipped[2]) if skipped else None
    assert missed == ([expected] if expected else [])
    assert plan.next == Run("a", NOON + HOUR + 300_000, NOON + HOUR + 300_000)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_quick_restart_misses_nothing(policy: str) -> None:
    job = replace(JOB, misfire=Misfire(policy))  # type: ignore[arg-type]
    back = NOON + 300_000 + GRACE_MS
    runs, skipped, _ = served(job, NOON, back, back)
    assert (times(runs), skipped) == ([NOON + 300_000], [])


def test_once_is_once_although_the_newest_was_not_missed() -> None:
    back = NOON + HOUR + 3_000
    runs, skipped, _ = served(JOB, NOON, back, back)
    assert times(runs) == [NOON + HOUR]
    assert skipped == [Skipped(NOON + 300_000, NOON + HOUR - 300_000, 11)]


def test_a_year_of_seconds_is_skipped_at_once() -> None:
    job = replace(JOB, expression="* * * * * *")
    back = NOON + 365 * 24 * HOUR
    runs, skipped, _ = served(job, NOON, back, back)
    assert times(runs) == [back]
    assert skipped == [Skipped(NOON + 1_000, back - 1_000, schedule.MAX_COUNTED)]


def test_a_job_that_is_disabled_does_nothing() -> None:
    job = replace(JOB, enabled=False)
    assert decide(job, NOON, now_ms=NOON + HOUR, serving_since_ms=NOON) == Plan((), None, NOON, None)


def test_what_passed_in_a_pause_was_not_missed() -> None:
    paused = replace(JOB, enabled=False)
    assert schedule.decided_after_change(JOB, paused, NOON, NOON + HOUR) == NOON
    assert schedule.decided_after_change(paused, JOB, NOON, NOON + HOUR) == NOON + HOUR
    assert schedule.decided_after_change(JOB, replace(JOB, expression="0 9 * * *"), NOON, NOON + HOUR) == NOON + HOUR
    assert schedule.decided_after_change(JOB, replace(JOB, zone="Asia/Tokyo"), NOON, NOON + HOUR) == NOON + HOUR
    assert schedule.decided_after_change(JOB, replace(JOB, payload=b"y"), NOON, NOON + HOUR) == NOON


def test_a_job_without_more_times_has_no_next_run() -> None:
    end = int(datetime(9990, 12, 31, 23, 55, tzinfo=UTC).timestamp()) * 1000
    plan = decide(JOB, end - 1, now_ms=end, serving_since_ms=end)
    assert (times(list(plan.publish)), plan.next) == ([end], None)


def test_a_burst_of_one_job_comes_in_slices() -> None:
    job = replace(JOB, misfire=Misfire("all"))
    plan = decide(job, NOON, now_ms=NOON + HOUR, serving_since_ms=NOON + HOUR, most=5)
    assert len(plan.publish) == 5
    assert plan.decided_ms == plan.publish[-1].fire_ms
    assert plan.next is not None
    assert plan.next.due_ms <= NOON + HOUR


# -- by model ------------------------------------------------------------------------------------------

EXPRESSIONS = ["*/7 * * * * *", "*/5 * * * *", "13 5 */2 * * *", "@every 11s", "30 2 * * *"]


@st.composite
def situations(draw: st.DrawFn) -> tuple[Job, int, int, int]:
    """Return a job, what was decided, since when it is served, and now."""
    job = replace(
        JOB,
        id=draw(st.sampled_from(["a", "b", "report-17"])),
        expression=draw(st.sampled_from(EXPRESSIONS)),
        zone=draw(st.sampled_from(["UTC", "Europe/Berlin"])),
        jitter_ms=draw(st.sampled_from([0, 0, 1_000, 30_000, 600_000])),
        misfire=Misfire(
            draw(st.sampled_from(["once", "skip", "all"])), draw(st.sampled_from([10_000, 300_000, 86_400_000]))
        ),
        created_ms=NOON - draw(st.integers(0, 10**6)),
    )
    decided = NOON + draw(st.integers(0, 10**5))
    since = decided + draw(st.integers(-(10**6), 10**6) | st.just(0))
    now = max(decided, since) + draw(st.integers(0, 10**6))
    return job, decided, since, now


def all_times(job: Job, decided: int, until: int) -> list[int]:
    found: list[int] = []
    at = next_after(job.expression, job.zone, decided, anchor_ms=job.created_ms)
    while at is not None and at <= until:
        found.append(at)
        at = next_after(job.expression, job.zone, at, anchor_ms=job.created_ms)
    return found


def to_run(job: Job, decided: int, since: int, now: int) -> list[int]:
    """Return the times that are to run, by the words of the reference page."""
    passed = all_times(job, decided, now)
    missed = [at for at in passed if at + job.jitter_ms < since - GRACE_MS]
    on_time = passed[len(missed) :]
    if not missed:
        return on_time
    in_window = [at for at in missed if at >= since - job.misfire.window_ms]
    if job.misfire.policy == "skip":
        return on_time
    if job.misfire.policy == "all":
        return in_window + on_time
    before = [at for at in passed if at <= since]
    is_too_old = before[-1] < since - job.misfire.window_ms
    return on_time if is_too_old else [before[-1], *(at for at in on_time if at > since)]


@settings(max_examples=300, deadline=None)
@given(situations(), st.integers(1, 50))
def test_policies_do_what_the_page_says(situation: tuple[Job, int, int, int], most: int) -> None:
    job, decided, since, now = situation
    runs, skipped, plan = served(job, decided, now, since, most)
    wanted = to_run(job, decided, since, now)
    due = {at: at + run_id.jitter(job.id, at, job.jitter_ms) for at in wanted}
    assert [(run.fire_ms, run.due_ms) for run in runs] == list(takewhile(lambda pair: pair[1] <= now, due.items()))
    # Everything up to what is decided was published or skipped, once.
    ran = set(times(runs))
    gone = [at for at in all_times(job, decided, plan.decided_ms) if at not in ran]
    assert sum(found.count for found in skipped) == min(len(gone), schedule.MAX_COUNTED)
    assert len(skipped) <= 1
    if skipped:
        assert (skipped[0].first_ms, skipped[0].last_ms) == (gone[0], gone[-1])
    assert plan.decided_ms >= decided
    assert plan.next is not None
    assert plan.next.due_ms > now


@settings(max_examples=100, deadline=None)
@given(situations(), st.integers(1, 5), st.data())
def test_a_crash_repeats_the_same_messages(
    situation: tuple[Job, int, int, int], most: int, data: st.DataObject
) -> None:
    """The broker dies after publishing, before what it decided is kept: the log refuses the ids that it knows."""
    job, decided, since, now = situation
    job = replace(job, misfire=Misfire("all"))
    log: dict[str, int] = {}
    expected = {run.message_id: run.fire_ms for run in served(job, decided, now, since)[0]}
    for _ in range(10_000):
        plan = decide(job, decided, now_ms=now, serving_since_ms=since, most=most)
        for run in plan.publish:
            assert log.setdefault(run.message_id, run.fire_ms) == run.fire_ms
        if len(log) > 20 or data.draw(st.integers(0, 3)):
            decided = plan.decided_ms
        if plan.next is None or plan.next.due_ms > now:
            break
    assert log == expected


# -- jitter, ids, messages, failures -------------------------------------------------------------------


def test_jitter_is_the_same_again_and_spread() -> None:
    found = [run_id.jitter(f"job-{number}", NOON, 9_999) for number in range(2_000)]
    assert found == [run_id.jitter(f"job-{number}", NOON, 9_999) for number in range(2_000)]
    assert min(found) >= 0
    assert max(found) <= 9_999
    tenths = [sum(part * 1_000 <= wait < (part + 1) * 1_000 for wait in found) for part in range(10)]
    assert min(tenths) > 140
    assert len({run_id.jitter("job", NOON + fire, 9_999) for fire in range(100)}) > 90
    assert run_id.jitter("job", NOON, 0) == 0


def test_a_message_id_is_one_of_its_run() -> None:
    found = {run_id.message_id(f"job-{job}", NOON + fire * 1_000) for job in range(100) for fire in range(100)}
    assert len(found) == 10_000
    # It stays as it is: a log may have runs of an older version.
    assert run_id.message_id("report-1", NOON) == GOLDEN


GOLDEN = "649AB335EDACD1B9979C73DF1600B860"


def test_a_message_id_has_its_time_where_rocketmq_looks() -> None:
    month = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1000
    found = bytes.fromhex(run_id.message_id("a", NOON))
    assert len(found) == 16
    assert int.from_bytes(found[10:14]) == NOON - month


def test_the_message_of_a_run() -> None:
    job = replace(JOB, properties={"region": "eu"}, tags=("daily",), keys=("r", "s"), sharding_key="k")
    run = Run("a", NOON, NOON + 17)
    message = schedule.message_of(job, run)
    assert (message.topic, message.body, message.tags, message.keys) == ("t", b"x", ("daily",), ("r", "s"))
    assert (message.sharding_key, message.message_id) == ("k", run.message_id)
    assert message.properties == {"region": "eu", "LITEMQ_CRON_JOB": "a", "LITEMQ_CRON_TIME_MS": str(NOON)}


def test_publishing_is_tried_again_ever_later() -> None:
    job, run = replace(JOB, retry=8), Run("a", NOON, NOON)
    waits = [schedule.after_failure(job, run, attempts, now_ms=NOON) for attempts in range(1, 10)]
    delays = [wait.at_ms - NOON for wait in waits if isinstance(wait, TryAgain)]
    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert waits[-1] == GiveUp("publishing failed 9 times")


def test_publishing_ends_with_the_timeout() -> None:
    job, run = replace(JOB, timeout_ms=5_000), Run("a", NOON, NOON + 100)
    assert schedule.after_failure(job, run, 1, now_ms=NOON + 4_100) == TryAgain(NOON + 5_100)
    assert schedule.after_failure(job, run, 1, now_ms=NOON + 4_101) == GiveUp(
        "it could not be published within 5000 ms"
    )


def test_jitter_keeps_the_order_of_a_job() -> None:
    job = replace(JOB, expression="* * * * * *", jitter_ms=60_000)
    now, decided = NOON, NOON
    found: list[int] = []
    for now in takewhile(lambda at: at < NOON + 300_000, count(NOON, 500)):
        plan = decide(job, decided, now_ms=now, serving_since_ms=NOON)
        decided = plan.decided_ms
        found += times(list(plan.publish))
    assert found == sorted(set(found))
    assert now - found[-1] < 62_000
    assert found == list(range(NOON + 1_000, found[-1] + 1, 1_000))
