"""Settings: one frozen struct per component, validated once, passed down in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from litemq.errors import BadStore

FlushPolicy = Literal["async", "group", "sync"]
WritableFormat = Literal["litemq", "rocketmq"]
TransactionEnd = Literal["drop", "dead-letter"]

MIB = 1 << 20
_MAX_INT = 0x7FFFFFFF
"""RocketMQ counts and measures files in 32 bits."""
_MAX_PORT = 65535

_RANGES = {
    "segment_bytes": (1024, _MAX_INT),
    "queue_entries": (1, _MAX_INT),
    "index_slots": (1, _MAX_INT),
    "index_entries": (2, _MAX_INT),  # number 0 is never used
    "flush_interval_ms": (1, _MAX_INT),
    "flush_bytes": (1, 1 << 40),
    "dirty_limit_bytes": (1, 1 << 40),
    "flush_timeout_ms": (1, _MAX_INT),
    "checkpoint_interval_ms": (1, _MAX_INT),
    "checkpoint_bytes": (1, 1 << 40),
    "progress_interval_ms": (1, _MAX_INT),
    "progress_changes": (1, _MAX_INT),
    "max_body_bytes": (1, _MAX_INT),
    "retention_hours": (0, 1_000_000),
    "delete_hour": (0, 23),
    "disk_start_ratio": (0, 1),
    "disk_force_ratio": (0, 1),
    "disk_refuse_ratio": (0, 1),
    "disk_free_floor": (0, 1 << 60),
    "open_files": (1, 1_000_000),
}
_NAMESERVER_RANGES = {
    "port": (0, _MAX_PORT),
    "heartbeat_expiry_ms": (1_000, _MAX_INT),
    "broker_expiry_ms": (1_000, _MAX_INT),
    "scan_interval_ms": (100, _MAX_INT),
}
_BROKER_RANGES = {
    "port": (0, _MAX_PORT),
    "default_queues": (1, 1 << 20),
    "max_topics": (1, 1_000_000),
    "max_groups": (1, 1_000_000),
    "busy_poll_us": (0, 1_000_000),
}
_LIMITS_RANGES = {
    "pull_count": (1, 1 << 20),
    "max_pull_count": (1, 1 << 20),
    "pull_bytes": (1, 15 * MIB),  # an answer is one frame, which has less than 16 MiB
    "max_pull_bytes": (1, 15 * MIB),
    "parked_pulls": (0, _MAX_INT),
    "pop_in_flight": (0, _MAX_INT),
    "connections": (1, _MAX_INT),
    "connections_per_address": (1, _MAX_INT),
    "requests_in_flight": (1, _MAX_INT),
    "output_bytes": (1, 1 << 40),
    "output_stall_ms": (1, _MAX_INT),
    "idle_ms": (1, _MAX_INT),
    "producer_messages_per_s": (0, _MAX_INT),
    "producer_bytes_per_s": (0, 1 << 40),
    "queue_backlog": (0, 1 << 60),
    "waiting_bytes": (1, 1 << 40),
}
_TRANSACTION_RANGES = {
    "first_check_ms": (1, _MAX_INT),
    "check_interval_ms": (1, _MAX_INT),
    "max_checks": (1, 255),
    "batch_expiry_ms": (1, _MAX_INT),
    "batch_memory_ms": (1, _MAX_INT),
    "batch_ask_ms": (1, _MAX_INT),
    "batch_open": (0, 1_000_000),
    "batch_parts": (1, 1_000_000),
    "batch_producers": (1, 1_000_000),
    "batch_staged_bytes": (0, 1 << 50),
}
_FRACTIONS = ("retention_hours", "disk_start_ratio", "disk_force_ratio", "disk_refuse_ratio")
_MAY_BE_NONE = ("segment_bytes", "queue_entries", "index_slots", "index_entries", "delete_hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """One store directory."""

    format: WritableFormat | None = None
    """Record format of a new store (default ``litemq``).  An existing store decides; a conflict is refused."""

    segment_bytes: int | None = None
    """Size of one commit-log file (default 1 GiB).  The files of an existing store decide."""

    queue_entries: int | None = None
    """Entries of one ConsumeQueue file (default 300 000).  The files of an existing store decide."""

    index_slots: int | None = None
    """Hash slots of one index file (default 5 000 000)."""

    index_entries: int | None = None
    """Entries of one index file (default 20 000 000)."""

    flush: FlushPolicy = "async"
    """``async``: a power cut may cost the last ``flush_interval_ms``; ``group``, ``sync``: nothing acknowledged."""

    flush_interval_ms: int = 500
    """The longest time that something dirty waits for its fdatasync when nobody asks for it."""

    flush_bytes: int = 16 * MIB
    """With ``async``: flush at once when this much is dirty."""

    dirty_limit_bytes: int = 64 * MIB
    """Above this much unflushed, an append waits: the kernel must never throttle it instead."""

    flush_timeout_ms: int = 5_000
    """A flush that takes longer is answered with ``FlushTimeout``."""

    checkpoint_interval_ms: int = 10_000
    """Derived files are written out and synced this often; recovery reads no more of the log than came since."""

    checkpoint_bytes: int = 256 * MIB
    """… or after this much was appended."""

    progress_interval_ms: int = 1_000
    """How often changed group progress becomes a record."""

    progress_changes: int = 10_000
    """… or after this many changes."""

    max_body_bytes: int = 4 * MIB
    """Largest body, as stored; the whole record may have 64 KiB more."""

    retention_hours: float = 72.0
    """A segment whose newest message is older goes at the next ``delete_hour``."""

    delete_hour: int | None = 4
    """Hour of the day (local time) at which expired segments go; None = at any hour."""

    disk_start_ratio: float = 0.75
    """Disk use above which expired segments go at any hour (all three ratios count only below ``disk_free_floor``)."""

    disk_force_ratio: float = 0.85
    """Disk use above which the oldest segments go even when not expired or held."""

    disk_refuse_ratio: float = 0.90
    """Disk use above which messages are refused."""

    disk_free_floor: int = 10 << 30
    """The ratios mean nothing while at least this much is free."""

    open_files: int = 256
    """Bound of the cache of open ConsumeQueue files; of full segments and index files fewer are kept open."""

    store_host: str = "127.0.0.1:10911"
    """Address written into records; part of RocketMQ's offset message id."""

    def __post_init__(self) -> None:
        _check_ranges(self, _RANGES)
        if self.flush not in get_args(FlushPolicy):
            raise BadStore(f"the setting flush is {self.flush!r}, it must be one of {', '.join(get_args(FlushPolicy))}")
        if self.format is not None and self.format not in get_args(WritableFormat):
            formats = ", ".join(get_args(WritableFormat))
            raise BadStore(f"the setting format is {self.format!r}, it must be one of {formats}")
        if not self.disk_start_ratio <= self.disk_force_ratio <= self.disk_refuse_ratio:
            raise BadStore("the settings disk_start_ratio, disk_force_ratio and disk_refuse_ratio must not fall")
        _check_address("store_host", self.store_host)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameserverConfig:
    """One name server."""

    listen: str = "127.0.0.1"
    """Address to listen on; ``0.0.0.0`` or ``::`` for all."""

    port: int = 9876
    """0 chooses a free one."""

    data: Path | None = None
    """Folder of the key/value config; None keeps it in memory only."""

    heartbeat_expiry_ms: int = 30_000
    """A broker that heartbeats goes after so long without a sign of life, unless it announces a time of its own."""

    broker_expiry_ms: int = 120_000
    """… and one that only registers, as RocketMQ's do every 30 s."""

    scan_interval_ms: int = 10_000
    """How often expired brokers are looked for."""

    list_all_topics: bool = True
    """Whether the list of all topics may be asked for."""

    return_order_config: bool = True
    """Whether brokers that register are told the key/value config of ordered topics."""

    def __post_init__(self) -> None:
        _check_ranges(self, _NAMESERVER_RANGES)
        _check_kind("listen", self.listen, str, "an address: 127.0.0.1")
        _check_kind("data", self.data or Path(), Path, "a path")
        for name in ("list_all_topics", "return_order_config"):
            _check_kind(name, getattr(self, name), bool, "true or false")


def _check_kind(name: str, value: object, kind: type, wanted: str) -> None:
    """Raise ``BadStore`` when the setting is something else, or an empty text."""
    if not isinstance(value, kind) or value == "":
        raise BadStore(f"the setting {name} is {value!r}, it must be {wanted}")


def _check_ranges(config: object, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Raise ``BadStore`` when a setting with bounds is no number or out of them."""
    for name, (low, high) in ranges.items():
        value = getattr(config, name)
        if value is None and name in _MAY_BE_NONE:
            continue
        _check_number(name, value)
        if not low <= value <= high:
            raise BadStore(f"the setting {name} is {value}, it must be {low} to {high}")


def _check_number(name: str, value: object) -> None:
    """Raise ``BadStore`` when the setting is no number, or no whole one where it should be."""
    is_number = isinstance(value, (int, float) if name in _FRACTIONS else int) and not isinstance(value, bool)
    if not is_number:
        wanted = "a number" if name in _FRACTIONS else "a whole number"
        raise BadStore(f"the setting {name} is {value!r}, it must be {wanted}, not {type(value).__name__}")


def _check_address(name: str, text: object) -> None:
    """Raise ``BadStore`` when the setting is not ``host:port``; the host may be a name."""
    host, _, port = text.rpartition(":") if type(text) is str else ("", "", "")
    if not host or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > _MAX_PORT:
        raise BadStore(
            f"the setting {name} is {text!r}, it must be a host and a port of 0 to {_MAX_PORT}: 127.0.0.1:10911"
        )
    try:
        host.encode()
    except UnicodeEncodeError as error:
        raise BadStore(f"the setting {name} is {text!r}, it must be UTF-8") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One broker."""

    cluster: str = "DefaultCluster"
    """Name of the cluster; clients and tools group brokers by it."""

    name: str = "broker-a"
    """Name of the broker, unique in its cluster."""

    listen: str = "127.0.0.1"
    """Address to listen on; ``0.0.0.0`` is all of them."""

    port: int = 10911
    """Port of the remoting protocol; the VIP port is two below.  0 chooses free ones."""

    advertise: str = ""
    """Address that clients are told to connect to; empty: the listen address, or that of the default route."""

    name_servers: tuple[str, ...] = ("127.0.0.1:9876",)
    """Where the broker registers: ``host:port`` of every name server."""

    auto_create_topics: bool = True
    """Whether the first message to an unknown topic makes it."""

    auto_create_groups: bool = True
    """Whether the first heartbeat of an unknown consumer group makes it."""

    default_queues: int = 8
    """Queues of the template for topics that are made by their first message."""

    max_topics: int = 10_000
    max_groups: int = 10_000

    busy_poll_us: int = 400
    """For so long the broker stays awake for the next request while requests come one at a time, each within this time
    of the last.  It saves waking up, which is most of the latency on a virtual machine, and takes up to one CPU while
    it does; 0: never."""

    def __post_init__(self) -> None:
        _check_ranges(self, _BROKER_RANGES)
        if 0 < self.port <= 2:
            raise BadStore(f"the setting port is {self.port}, it must be 0 or at least 3: the VIP port is two below")
        for name, wanted in (("cluster", "a name"), ("name", "a name"), ("listen", "an address: 127.0.0.1")):
            _check_kind(name, getattr(self, name), str, wanted)
        _check_kind("advertise", self.advertise or "-", str, "an address, or empty")
        for name in ("auto_create_topics", "auto_create_groups"):
            _check_kind(name, getattr(self, name), bool, "true or false")
        for server in self.name_servers:
            _check_address("name_servers", server)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    """What clients may take; each limit has a named answer."""

    pull_count: int = 32
    """Messages of an answer to a pull that asks for no number."""

    max_pull_count: int = 1_024
    """Messages of one answer at most."""

    pull_bytes: int = 256 << 10
    """Bytes of an answer to a pull that names no budget."""

    max_pull_bytes: int = 4 << 20
    """Bytes of one answer at most; one message always fits."""

    parked_pulls: int = 20_000
    """Pulls that may wait for messages at the same time; as many requests for messages by receipt may, too."""

    pop_in_flight: int = 2_000_000
    """Messages that all groups together may hold by receipts: about 25 bytes each, 65 when their time is over."""

    connections: int = 10_000
    connections_per_address: int = 500
    """Not counted for loopback addresses."""

    requests_in_flight: int = 1_000
    """Of one connection, waiting for something else than the log; parked pulls do not count."""

    output_bytes: int = 16 << 20
    """Unread answers of one connection; a client that leaves more is cut off."""

    output_stall_ms: int = 10_000
    """A client that takes nothing of its answers for so long is cut off."""

    idle_ms: int = 120_000
    """A connection without a byte in either direction for so long is closed."""

    producer_messages_per_s: int = 0
    """Messages a second of one producer (client id); 0: no limit.  The plan's figure is 10 000."""

    producer_bytes_per_s: int = 0
    """Bytes a second of one producer; 0: no limit.  The plan's figure is 100 MB."""

    queue_backlog: int = 0
    """Messages of a queue that its slowest group may not have read; 0: no limit."""

    waiting_bytes: int = 256 * MIB
    """Answers that wait for a flush; sends are refused while there are more."""

    def __post_init__(self) -> None:
        _check_ranges(self, _LIMITS_RANGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """Transactional messages: when their producers are asked how a transaction ended, and how often."""

    first_check_ms: int = 60_000
    """Age at which a member of the producer group is asked for the first time; a message may name another one."""

    check_interval_ms: int = 60_000
    """Time between two questions, and until somebody is there to be asked."""

    max_checks: int = 15
    """Questions about one transaction."""

    end: TransactionEnd = "drop"
    """What becomes of a message after them: ``drop`` leaves a copy in ``TRANS_CHECK_MAX_TIME_TOPIC``, ``dead-letter``
    one in the dead letters of the producer group."""

    reject: bool = False
    """Whether transactional messages are refused."""

    batch_expiry_ms: int = 86_400_000
    """Age at which a batch transaction that got no more rows and was not ended is aborted."""

    batch_memory_ms: int = 604_800_000
    """So long after its last use a producer's last ended epoch is remembered."""

    batch_ask_ms: int = 60_000
    """Age of staged rows at which the broker asks their coordinator what became of them, and time between two
    questions; the coordinator repeats a decision after so long to brokers that have not confirmed it."""

    batch_open: int = 1_000
    """Batch transactions that may be open on this broker."""

    batch_parts: int = 100_000
    """Attempts of partitions that one batch transaction may have on this broker."""

    batch_producers: int = 100_000
    """Producers of batch transactions that are open or remembered."""

    batch_staged_bytes: int = 4 << 30
    """Bytes that may be staged; each request counts at least 16 KiB."""

    def __post_init__(self) -> None:
        _check_ranges(self, _TRANSACTION_RANGES)
        ends = get_args(TransactionEnd)
        if self.end not in ends:
            raise BadStore(f"the setting end is {self.end!r}, it must be one of {', '.join(ends)}")
        _check_kind("reject", self.reject, bool, "true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """The jobs of ``litemq pipeline``."""

    lake: str = "./litemq-lake"
    """Directory in which ``archive`` keeps messages and ``rollup`` its statistics, where none is named."""

    def __post_init__(self) -> None:
        _check_kind("lake", self.lake, str, "a path")
