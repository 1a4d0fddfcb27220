"""A cron job as a value, and what makes one impossible."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from litemq.errors import BadJob
from litemq.features.cron import next_run
from litemq.features.cron.zones import UTC
from litemq.format.limits import is_folder_name
from litemq.format.names import (
    INTERNAL,
    KEYS,
    RESERVED_TOPIC_PREFIX,
    SHARDING_KEY,
    TAGS,
    TIMER_DELIVER_MS,
    TRAN_MSG,
    TRANSACTION_ID,
    UNIQ_KEY,
)
from litemq.format.properties import can_hold

Policy = Literal["once", "skip", "all"]

POLICIES: Final[tuple[str, ...]] = get_args(Policy)
MIN_WINDOW_MS: Final = 10_000
DEFAULT_WINDOW_MS: Final = 86_400_000
MAX_WINDOW_MS: Final = 366 * 86_400_000
MAX_JITTER_MS: Final = 86_400_000
MAX_TIMEOUT_MS: Final = 30 * 86_400_000
MAX_RETRY: Final = 16
MAX_TEXT: Final = 255
"""Bytes of a name, a word, a group."""
MAX_PROPERTIES: Final = 30_000
"""Bytes of all texts of the message; a record holds 32 767, with what the broker adds."""

JOB_PROPERTY: Final = "LITEMQ_CRON_JOB"
"""Of a run's message: the job's id."""
TIME_PROPERTY: Final = "LITEMQ_CRON_TIME_MS"
"""Of a run's message: the time for which it was scheduled."""

_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_WHY_NOT: Final[Mapping[str, str]] = {
    TAGS: "it is given as the job's tags",
    KEYS: "it is given as the job's keys",
    SHARDING_KEY: "it is given as the job's sharding_key",
    UNIQ_KEY: "each run gets a message id of its own",
    TIMER_DELIVER_MS: "each run has a time of its own",
    TRAN_MSG: "a run cannot be part of a transaction",
    TRANSACTION_ID: "a run cannot be part of a transaction",
    JOB_PROPERTY: "each run gets it",
    TIME_PROPERTY: "each run gets it",
}


@dataclass(frozen=True, slots=True)
class Misfire:
    """What happens to times that pass while nobody serves the job (the broker is down).

    once    the newest of them runs, the others are skipped
    skip    they are skipped
    all     they run, oldest first

    What is older than the window when the job is served again is skipped in any case.
    """

    policy: Policy = "once"
    window_ms: int = DEFAULT_WINDOW_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What runs, and when; ``check`` says whether it can be."""

    id: str
    topic: str
    expression: str
    zone: str = UTC
    name: str = ""
    """For people; it need not be unique."""
    payload: bytes = b""
    properties: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sharding_key: str = ""
    enabled: bool = True
    retry: int = 3
    """How often publishing is tried again when it fails."""
    timeout_ms: int = 0
    """How long after its time a run may still be published, or consumed where there is a ``group``; 0: for ever."""
    group: str = ""
    """The consumer group whose progress decides whether a run was consumed; empty: nobody looks."""
    jitter_ms: int = 0
    """Each run waits for up to so long, a part of it that depends on the job and the run's time only."""
    misfire: Misfire = Misfire()
    created_ms: int = 0
    """``@every`` counts from here."""
    updated_ms: int = 0


def check(job: Job, now_ms: int, *, max_body_bytes: int) -> None:
    """Refuse a job that cannot be.

    Raises:
        BadJob: a field is wrong; names it.
        BadCron: the expression cannot be read, or has no time within 29 years.
        UnknownZone: there is no such zone.
    """
    for name, reason in _looked_at(job, max_body_bytes):
        if reason:
            raise BadJob(str(job.id), name, reason)
    next_run.check(job.expression, job.zone, now_ms)


def _looked_at(job: Job, max_body_bytes: int) -> Iterator[tuple[str, str]]:
    """Yield each field and what is wrong with it, empty when nothing is; what follows may rely on what came before."""
    yield "id", _wrong_id(job.id)
    yield "topic", _wrong_text(job.topic) or _wrong_topic(job.topic)
    yield "expression", _wrong_text(job.expression) or ("" if job.expression.strip() else "it is empty")
    yield "zone", _wrong_text(job.zone)
    yield "name", _wrong_text(job.name)
    yield "payload", _wrong_payload(job.payload, max_body_bytes)
    yield "tags", _wrong_words(job.tags, "| ")
    yield "keys", _wrong_words(job.keys, " ")
    yield "sharding_key", _wrong_text(job.sharding_key)
    yield "properties", _wrong_properties(job.properties) or _wrong_size(job)
    yield "enabled", _wrong_flag(job.enabled)
    yield "retry", _wrong_number(job.retry, 0, MAX_RETRY)
    yield "timeout_ms", _wrong_number(job.timeout_ms, 0, MAX_TIMEOUT_MS)
    yield "group", _wrong_text(job.group)
    yield "jitter_ms", _wrong_number(job.jitter_ms, 0, MAX_JITTER_MS)
    yield "misfire policy", "" if job.misfire.policy in POLICIES else f"it must be one of {', '.join(POLICIES)}"
    yield "misfire window_ms", _wrong_number(job.misfire.window_ms, MIN_WINDOW_MS, MAX_WINDOW_MS)
    yield "created_ms", _wrong_number(job.created_ms, 0, _MAX_MS)
    yield "updated_ms", _wrong_number(job.updated_ms, 0, _MAX_MS)


def _wrong_id(job_id: object) -> str:
    if isinstance(job_id, str) and _ID.fullmatch(job_id):
        return ""
    return "it must have 1 to 64 letters, digits, dots, underscores or dashes"


def _wrong_text(text: object) -> str:
    if not isinstance(text, str):
        return f"it must be a text, not {type(text).__name__}"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "it has no UTF-8 form"
    if "\x01" in text or "\x02" in text:
        return "it holds a byte 1 or 2, which separate properties"
    return f"it has {size} bytes, at most {MAX_TEXT} fit" if size > MAX_TEXT else ""


def _wrong_topic(topic: str) -> str:
    if topic.startswith(RESERVED_TOPIC_PREFIX):
        return f"{topic!r} is LiteMQ's own; choose another one"
    return is_folder_name(topic) or ""


def _wrong_payload(payload: object, most: int) -> str:
    if not isinstance(payload, bytes):
        return f"it must be bytes, not {type(payload).__name__}"
    return f"it has {len(payload)} bytes, at most {most} fit" if len(payload) > most else ""


def _wrong_words(words: object, forbidden: str) -> str:
    if not isinstance(words, tuple):
        return f"they must be a tuple of texts, not {type(words).__name__}"
    for word in words:
        wrong = _wrong_text(word)
        if wrong:
            return f"{word!r}: {wrong}"
        if not word or word == "*" or any(letter in word for letter in forbidden):
            return f"{word!r} is none: each is one word, without {' or '.join(map(repr, forbidden))}, and not *"
    return ""


def _wrong_properties(properties: object) -> str:
    if not isinstance(properties, Mapping):
        return f"they must be names and texts, not {type(properties).__name__}"
    for name, value in properties.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            return f"{name!r}: names and values are texts, and {value!r} may not be"
        if not can_hold(name, value):
            return f"{name!r}: names and values may not be empty, nor hold a byte 1 or 2"
        if name in _WHY_NOT or name in INTERNAL:
            return f"{name!r} cannot be set: {_WHY_NOT.get(name, 'it belongs to LiteMQ')}"
    return ""


def _wrong_size(job: Job) -> str:
    texts = [*job.properties, *job.properties.values(), *job.tags, *job.keys, job.sharding_key]
    try:
        size = len("".join(texts).encode()) + 2 * len(texts)
    except UnicodeEncodeError:
        return "a name or a value has no UTF-8 form"
    return f"they have {size} bytes with tags and keys, at most {MAX_PROPERTIES} fit" if size > MAX_PROPERTIES else ""


def _wrong_flag(flag: object) -> str:
    return "" if isinstance(flag, bool) else f"it must be true or false, not {str(flag)[:40]}"


def _wrong_number(number: object, low: int, high: int) -> str:
    if isinstance(number, int) and not isinstance(number, bool) and low <= number <= high:
        return ""
    return f"it must be a whole number from {low} to {high}, not {str(number)[:40]}"
