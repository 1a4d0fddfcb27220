"""The options of ``format("litemq")``: one place that knows, checks and reads them.

Spark hands over texts under names whose case does not matter.  An unknown name is an error that says which known one is
nearest: a misspelt limit must not be no limit.
"""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from litemq.spark.errors import BadOption

OnCorrupt = Literal["fail", "skip", "keep", "quarantine"]
ValueFormat = Literal["binary", "string", "json"]

LATEST: Final = -1
EARLIEST: Final = -2

_COMMON: Final = (
    "path",
    "paths",
    "brokers",
    "litemq.bootstrap.servers",
    "format",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "keys",
    "tags",
    "columns",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxPartitionBytes",
    "failOnDataLoss",
    "onDataLoss",
    "onCorrupt",
    "quarantinePath",
    "verifyCrc",
    "isolation",
    "batchRows",
    "batchBytes",
    "valueFormat",
    "valueSchema",
    "includeHeaders",
    "schemaMode",
    "view",
    "filterPushdown",
)
_BATCH: Final = ("endingOffsets", "endingTimestamp", "countersPath")
_STREAM: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "dataLossLog",
    "consumerGroup",
    "retentionHold",
)
KNOWN: Final = (*_COMMON, *_BATCH, *_STREAM)
"""Every option of reading, as it is written."""

VIEWS: Final = ("messages", "queues", "segments", "groups", "dlq", "topics")

_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]+)\s*([a-z]*)", re.ASCII)
_AGO: Final = re.compile(r"-([0-9]+)\s*(ms|s|m|h|d)", re.ASCII)
_AGO_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_GROUP: Final = "group:"

Offsets = dict[str, dict[int | str, int]]
"""By topic and queue id, or ``broker/queue``; ``EARLIEST`` and ``LATEST`` stand for themselves."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which topics, at most one of them set; none set: all that are not reserved."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    queues: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read or a stream was asked for; picklable, and safe to hand to executors."""

    path: str
    brokers: str
    """Name servers; empty when a path is read."""
    format: str
    selection: Selection
    starting: int | Offsets
    starting_group: str
    """The group whose offsets come first; ``starting`` is for queues in which it has none."""
    ending: int | Offsets
    from_ms: int | None
    to_ms: int | None
    needs_time_match: bool
    keys: tuple[str, ...]
    tags: tuple[str, ...]
    columns: tuple[str, ...]
    min_partitions: int
    max_records: int
    max_partition_bytes: int
    on_data_loss: Literal["fail", "skip", "record"]
    data_loss_log: str
    on_corrupt: OnCorrupt
    quarantine_path: str
    is_committed_only: bool
    batch_rows: int
    batch_bytes: int
    value_format: ValueFormat
    value_schema: str
    include_headers: bool
    is_kafka: bool
    view: str
    max_offsets: int
    max_bytes: int
    min_offsets: int
    max_delay_ms: int
    consumer_group: str
    """The group that a stream over brokers tells how far it came."""
    hold_ms: int
    """How long brokers keep what is not read yet after a stream's last sign of life; 0: they do not."""
    counters_path: str


def read_options(given: Mapping[str, str], *, now_ms: int | None = None, is_stream: bool = False) -> ReadOptions:
    """Check and read the options of a read or a stream.

    Raises:
        BadOption: one is unknown, missing or wrong; the text says which and what to write instead.
    """
    found = _Given(given)
    now = int(time.time() * 1000) if now_ms is None else now_ms
    quarantine = found.text("quarantinePath")
    on_corrupt: OnCorrupt = found.choice("onCorrupt", ("fail", "skip", "keep", "quarantine"))  # type: ignore[assignment]
    if on_corrupt == "quarantine" and not quarantine:
        raise BadOption("onCorrupt=quarantine needs quarantinePath: a directory to which damaged bytes are copied")
    if found.text("filterPushdown"):
        raise BadOption(
            "filterPushdown is off for good: Spark gives wrong rows when a DataFrame is used twice; "
            "use subscribe, keys, tags, startingTimestamp … instead"
        )
    if not found.flag("verifyCrc", default=True):
        raise BadOption("verifyCrc=false is not offered: checksums are part of decoding; leave the option out")
    value_format: ValueFormat = found.choice("valueFormat", ("binary", "string", "json"))  # type: ignore[assignment]
    value_schema = found.text("valueSchema")
    if (value_format == "json") != bool(value_schema):
        raise BadOption('valueFormat=json and valueSchema go together: valueSchema = "id BIGINT, name STRING"')
    return ReadOptions(
        path=_path(found),
        brokers=_brokers(found),
        format=found.choice("format", ("auto", "litemq", "rocketmq", "blueprint", "tmq")),
        selection=_selection(found),
        starting=_offsets(found, "startingOffsets", LATEST if is_stream else EARLIEST),
        starting_group=_group(found.text("startingOffsets")),
        ending=_offsets(found, "endingOffsets", LATEST),
        from_ms=_time(found, "startingTimestamp", now),
        to_ms=_time(found, "endingTimestamp", now),
        needs_time_match=found.choice("startingOffsetsByTimestampStrategy", ("latest", "error")) == "error",
        keys=_list(found.text("keys")),
        tags=_list(found.text("tags")),
        columns=_list(found.text("columns")),
        min_partitions=found.number("minPartitions", 0, 0),
        max_records=found.number("maxRecordsPerPartition", 0, 0),
        max_partition_bytes=found.size("maxPartitionBytes", 128 << 20, 1),
        on_data_loss=_on_data_loss(found),
        data_loss_log=found.text("dataLossLog"),
        on_corrupt=on_corrupt,
        quarantine_path=quarantine,
        is_committed_only=found.choice("isolation", ("committed", "uncommitted")) == "committed",
        batch_rows=found.number("batchRows", 10_000, 1),
        batch_bytes=found.size("batchBytes", 8 << 20, 1),
        value_format=value_format,
        value_schema=value_schema,
        include_headers=found.flag("includeHeaders", default=False),
        is_kafka=found.choice("schemaMode", ("litemq", "kafka")) == "kafka",
        view=found.choice("view", VIEWS),
        max_offsets=found.number("maxOffsetsPerTrigger", 0, 0),
        max_bytes=found.size("maxBytesPerTrigger", 0, 0),
        min_offsets=found.number("minOffsetsPerTrigger", 0, 0),
        max_delay_ms=_duration(found, "maxTriggerDelay", 15 * 60_000),
        consumer_group=_consumer_group(found),
        hold_ms=_duration(found, "retentionHold", 0),
        counters_path=found.text("countersPath"),
    )


class _Given:
    """Texts by lower-case names, checked for unknown ones."""

    def __init__(self, given: Mapping[str, str]) -> None:
        known = {name.lower(): name for name in KNOWN}
        self._values: dict[str, str] = {}
        for name, value in given.items():
            if name.lower() not in known:
                raise BadOption(_unknown(name, known))
            self._values[name.lower()] = str(value)

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "").strip()

    def is_given(self, name: str) -> bool:
        return bool(self.text(name))

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.text(name).lower() or allowed[0]
        if value not in allowed:
            raise BadOption(f"{name} is {self.text(name)!r}; it must be one of: {', '.join(allowed)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name).lower()
        if value not in ("", "true", "false"):
            raise BadOption(f"{name} is {self.text(name)!r}; it must be true or false")
        return value == "true" if value else default

    def number(self, name: str, default: int, least: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise BadOption(f"{name} is {text!r}; it must be a whole number of at least {least}")
        return int(text)

    def size(self, name: str, default: int, least: int) -> int:
        text = self.text(name).lower()
        if not text:
            return default
        match = _SIZE.fullmatch(text)
        if match is None or match[2] not in _UNITS or int(match[1]) * _UNITS[match[2]] < least:
            raise BadOption(f"{name} is {text!r}; it must be a number of bytes such as 8m, 64k or 1g")
        return int(match[1]) * _UNITS[match[2]]


def _unknown(name: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
    advice = f"did you mean {known[near[0]]}?" if near else f"there are: {', '.join(sorted(KNOWN))}"
    return f"unknown option {name!r}; {advice}"


def _brokers(found: _Given) -> str:
    return (found.text("brokers") or found.text("litemq.bootstrap.servers")).replace(",", ";")


def _path(found: _Given) -> str:
    """Return the store's directory; empty when brokers are read."""
    if found.is_given("paths"):
        raise BadOption("one path can be read at a time; union the DataFrames of several loads")
    path = found.text("path")
    if _brokers(found):
        if path:
            raise BadOption("path and brokers exclude each other; give one of them")
        for name in ("format", "countersPath"):
            if found.is_given(name):
                raise BadOption(f"{name} goes with path, not with brokers; leave it out")
        if found.text("view").lower() == "segments":
            raise BadOption("view=segments needs path: segments are files of a store; brokers show queues and topics")
        if found.text("onCorrupt").lower() == "quarantine":
            raise BadOption("onCorrupt=quarantine needs path: brokers hand out no damaged bytes; use skip or keep")
        if found.text("isolation").lower() == "uncommitted":
            raise BadOption("isolation=uncommitted needs path: brokers hand out committed messages only")
    elif not path:
        raise BadOption(
            "path is missing: give the store directory, .option('path', 'litemq-store'), or read from running brokers: "
            ".option('brokers', '127.0.0.1:9876')"
        )
    return path.removeprefix("file://")


def _selection(found: _Given) -> Selection:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if found.is_given(name)]
    if len(names) > 1:
        raise BadOption(f"{' and '.join(names)} exclude each other; give one of them")
    pattern = found.text("subscribePattern")
    if pattern:
        try:
            re.compile(pattern)
        except re.error as error:
            raise BadOption(f"subscribePattern is no regular expression: {error}") from error
    return Selection(_list(found.text("subscribe")), pattern, _assigned(found.text("assign")))


def _assigned(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    if not text:
        return ()
    match _json("assign", text):
        case dict() as topics if all(_is_queues(queues) for queues in topics.values()):
            return tuple((topic, tuple(sorted(set(queues)))) for topic, queues in sorted(topics.items()))
    raise BadOption(f'assign is {text!r}; it must be like {{"orders": [0, 1]}}')


def _is_queues(found: object) -> bool:
    return isinstance(found, list) and all(type(queue) is int and queue >= 0 for queue in found)


def _offsets(found: _Given, name: str, default: int) -> int | Offsets:
    text = found.text(name)
    words = {"": default, "earliest": EARLIEST, "latest": LATEST, str(EARLIEST): EARLIEST, str(LATEST): LATEST}
    if text.lower() in words:
        return words[text.lower()]
    if text.startswith(_GROUP):
        if name == "startingOffsets" and _group(text):
            return default
        raise BadOption(f"{name} is {text!r}; a group goes with startingOffsets: group:NAME")
    answer: Offsets = {}
    given = _json(name, text)
    if isinstance(given, dict):
        for topic, queues in given.items():
            if not isinstance(queues, dict):
                break
            for queue, offset in queues.items():
                broker, _, number = queue.rpartition("/")
                if not number.isascii() or not number.isdigit() or type(offset) is not int or offset < EARLIEST:
                    break
                if broker and not _brokers(found):
                    raise BadOption(f"{name} names the queue {queue!r}; a path has no brokers, so write {number!r}")
                answer.setdefault(topic, {})[queue if broker else int(number)] = offset
            else:
                continue
            break
        else:
            return answer
    raise BadOption(f'{name} is {text!r}; it must be earliest, latest, group:NAME or like {{"orders": {{"0": 120}}}}')


def _group(text: str) -> str:
    return text.removeprefix(_GROUP).strip() if text.startswith(_GROUP) else ""


def _consumer_group(found: _Given) -> str:
    group = found.text("consumerGroup")
    if group and not _brokers(found):
        raise BadOption(
            "consumerGroup needs brokers: nobody keeps a group's offsets for a store that is read as files; leave it "
            "out, the stream's position is in its checkpoint (litemq pipeline offsets show)"
        )
    return group


def _json(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadOption(f"{name} is no JSON: {error}") from error


def _time(found: _Given, name: str, now_ms: int) -> int | None:
    text = found.text(name)
    return time_ms(name, text, now_ms) if text else None


def time_ms(name: str, text: str, now_ms: int) -> int:
    """Return a point in time in ms.

    Raises:
        BadOption: the text is none; ``name`` is where it stands.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ms - int(ago[1]) * _AGO_MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadOption(
            f"{name} is {text!r}; it must be ms since 1970, ISO 8601 (2026-05-01T12:00Z), or a time ago such as -1h"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _duration(found: _Given, name: str, default: int) -> int:
    text = found.text(name)
    match = _AGO.fullmatch("-" + text)
    if not text:
        return default
    if match is None:
        raise BadOption(f"{name} is {text!r}; it must be a duration such as 30s or 15m")
    return int(match[1]) * _AGO_MS[match[2]]


def _on_data_loss(found: _Given) -> Literal["fail", "skip", "record"]:
    default = "fail" if found.flag("failOnDataLoss", default=True) else "skip"
    if not found.is_given("onDataLoss"):
        return default  # type: ignore[return-value]
    value = found.choice("onDataLoss", ("fail", "skip", "record"))
    if value == "record" and not found.is_given("dataLossLog"):
        raise BadOption("onDataLoss=record needs dataLossLog: a file to which lost ranges are appended")
    return value  # type: ignore[return-value]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
