"""What makes a job impossible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from litemq.errors import BadCron, BadJob, UnknownZone
from litemq.features.cron.job import Job, Misfire, check

NOW = 1_795_000_000_000
JOB = Job(
    id="report-1",
    topic="reports",
    expression="0 9 * * MON-FRI",
    zone="Europe/Berlin",
    name="the morning's report, für alle",
    payload=b"{}",
    properties={"region": "eu"},
    tags=("daily",),
    keys=("report", "r-1"),
    sharding_key="eu",
    group="printers",
    timeout_ms=60_000,
    jitter_ms=5_000,
    misfire=Misfire("all", 10_000),
    created_ms=NOW,
    updated_ms=NOW,
)


def test_a_job_that_can_be() -> None:
    check(JOB, NOW, max_body_bytes=2)
    check(Job(id="a", topic="t", expression="@every 1s"), NOW, max_body_bytes=0)


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"id": ""}, "id", "1 to 64 letters"),
        ({"id": "a/b"}, "id", "1 to 64 letters"),
        ({"id": "a" * 65}, "id", "1 to 64 letters"),
        ({"id": 7}, "id", "1 to 64 letters"),
        ({"topic": ""}, "topic", "the topic is empty"),
        ({"topic": "a/b"}, "topic", "the topic holds a slash"),
        ({"topic": "LITEMQ_SYS_CRON"}, "topic", "is LiteMQ's own"),
        ({"topic": "x" * 256}, "topic", "has 256 bytes, at most 255 fit"),
        ({"expression": ""}, "expression", "it is empty"),
        ({"expression": None}, "expression", "must be a text, not NoneType"),
        ({"zone": 7}, "zone", "must be a text, not int"),
        ({"name": "x" * 256}, "name", "has 256 bytes, at most 255 fit"),
        ({"name": "\ud800"}, "name", "it has no UTF-8 form"),
        ({"payload": "text"}, "payload", "must be bytes, not str"),
        ({"payload": b"123"}, "payload", "it has 3 bytes, at most 2 fit"),
        ({"tags": "daily"}, "tags", "must be a tuple of texts, not str"),
        ({"tags": ("a|b",)}, "tags", "each is one word, without '|' or ' '"),
        ({"tags": ("*",)}, "tags", "'*' is none"),
        ({"keys": ("a b",)}, "keys", "each is one word, without ' '"),
        ({"keys": ("",)}, "keys", "'' is none"),
        ({"keys": (5,)}, "keys", "5: it must be a text"),
        ({"sharding_key": "\x01"}, "sharding_key", "it holds a byte 1 or 2"),
        ({"properties": [("a", "b")]}, "properties", "must be names and texts, not list"),
        ({"properties": {"a": 1}}, "properties", "names and values are texts"),
        ({"properties": {"a": ""}}, "properties", "'a': names and values may not be empty"),
        ({"properties": {"a": "\ud800"}}, "properties", "has no UTF-8 form"),
        ({"properties": {"TAGS": "x"}}, "properties", "'TAGS' cannot be set: it is given as the job's tags"),
        ({"properties": {"UNIQ_KEY": "x"}}, "properties", "each run gets a message id of its own"),
        ({"properties": {"LITEMQ_CRON_JOB": "x"}}, "properties", "each run gets it"),
        ({"properties": {"__ORIGIN": "x"}}, "properties", "it belongs to LiteMQ"),
        ({"properties": {"a": "x" * 30_000}}, "properties", "at most 30000 fit"),
        ({"enabled": 1}, "enabled", "must be true or false, not 1"),
        ({"retry": -1}, "retry", "must be a whole number from 0 to 16, not -1"),
        ({"retry": True}, "retry", "from 0 to 16, not True"),
        ({"timeout_ms": 1.5}, "timeout_ms", "must be a whole number from 0 to 2592000000, not 1.5"),
        ({"group": 3}, "group", "must be a text, not int"),
        ({"jitter_ms": 86_400_001}, "jitter_ms", "from 0 to 86400000, not 86400001"),
        ({"misfire": Misfire("twice")}, "misfire policy", "must be one of once, skip, all"),  # type: ignore[arg-type]
        ({"misfire": Misfire("all", 9_999)}, "misfire window_ms", "from 10000 to"),
        ({"created_ms": -1}, "created_ms", "must be a whole number from 0 to"),
        ({"updated_ms": None}, "updated_ms", "must be a whole number from 0 to"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(BadJob) as caught:
        check(replace(JOB, **change), NOW, max_body_bytes=2)
    assert caught.value.field == field
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"cron job {str(change.get('id', 'report-1'))!r}, {field}: ")


def test_its_schedule_is_looked_at() -> None:
    with pytest.raises(BadCron, match="hour '25': expected 0 to 23"):
        check(replace(JOB, expression="0 25 * * *"), NOW, max_body_bytes=2)
    with pytest.raises(BadCron, match="there is none"):
        check(replace(JOB, expression="0 0 30 2 *"), NOW, max_body_bytes=2)
    with pytest.raises(UnknownZone, match="Europe/Berlin"):
        check(replace(JOB, zone="Berlin"), NOW, max_body_bytes=2)
