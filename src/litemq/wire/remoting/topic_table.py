"""The table that a broker registers with a name server: topics, their queue counts, and the table's version.

    plain        {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{…},"topicConfigTable":{name:{…}}}}
    compressed   a zlib stream: i32 size, data version as JSON; i32 count; of each topic i32 size and
                 "name read write perm filterType [attributes]"; then filter servers and queue mappings, not read here

Both forms are read; brokers of ours send the plain one, which every name server since RocketMQ 4 reads.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from litemq.errors import BadBody
from litemq.wire.remoting.bodies import dump, load
from litemq.wire.remoting.fields import INT64

PERM_READ = 4
PERM_WRITE = 2
FULL_TABLE = "lmqFull"
"""Field of a registration: ``true``, the table is all the broker has; ``false``, it is what changed.

RocketMQ has no such field: its name server keeps topics that are not in the table, and lets any table be the first.
A name server that knows it sends it back; it need not be told the whole table again and again.
"""

DELETED = "lmqDeleted"
"""Field of a registration: topics that the broker has no more, with commas between them."""

MAX_TABLE_SIZE = 64 << 20
"""Bytes of a table that came compressed."""

_LONGEST_NAME = 255
_MOST_QUEUES = 65_536
_LARGEST_PERM = 15
_BARE_KEY = re.compile(rb"([{,])(-?[0-9]{1,20}):")
_LENGTH = struct.Struct(">i")
_WHAT = "a registration"


class DataVersion(NamedTuple):
    """Version of a table; two tables are the same when all three are."""

    counter: int = 0
    timestamp: int = 0
    state_version: int = 0

    def to_json(self) -> dict[str, int]:
        """Return it as it travels."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp}


class Queues(NamedTuple):
    """What a broker offers of a topic."""

    read: int
    write: int
    perm: int
    sys_flag: int = 0


class TopicTable(NamedTuple):
    """What a broker registers: all of its topics, or those that changed."""

    version: DataVersion
    topics: Mapping[str, Queues]


def checksum(body: bytes) -> int:
    """Return ``bodyCrc32`` of a registration."""
    return zlib.crc32(body) & 0x7FFFFFFF


def encode(version: DataVersion, topics: Mapping[str, Mapping[str, object]]) -> bytes:
    """Return the plain body; ``topics`` are topic configs as ``topics.json`` holds them."""
    return assemble(version, [encode_topics(topics.items())])


def encode_topics(topics: Iterable[tuple[str, Mapping[str, object]]]) -> bytes:
    """Return a part of the plain body, for a large table that is encoded piece by piece."""
    return dump({name: {**config, "topicName": name} for name, config in topics})[1:-1]


def assemble(version: DataVersion, parts: Iterable[bytes]) -> bytes:
    """Return the plain body made of parts."""
    head = dump(version.to_json()), dump(DataVersion().to_json()), b",".join(filter(None, parts))
    return (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":%b,"mappingDataVersion":%b,'
        b'"topicConfigTable":{%b},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}' % head
    )


def decode(body: bytes, *, compressed: bool) -> TopicTable:
    """Return the table in the body of a registration; without a body nothing is known of the topics.

    Raises:
        BadBody: it cannot be read, or says of a topic what cannot be.
    """
    if not body:
        return TopicTable(DataVersion(), {})
    return _decode_compressed(body) if compressed else _decode_plain(body)


def decode_version(body: bytes) -> DataVersion:
    """Return the data version that is a whole body."""
    return version_of(load(body, "a data version"))


def version_of(read: object) -> DataVersion:
    """Return a data version out of JSON; what is missing is 0."""
    if read is None:
        return DataVersion()
    if not isinstance(read, dict):
        raise BadBody("the data version is no JSON object")
    return DataVersion(*(_number(read, name, 0, INT64) for name in ("counter", "timestamp", "stateVersion")))


def queues_of(read: object) -> Queues:
    """Return what a topic config or a queue data says; counts that are missing are RocketMQ's defaults."""
    if not isinstance(read, dict):
        raise BadBody("it is no JSON object")
    return Queues(
        _number(read, "readQueueNums", 16, (0, _MOST_QUEUES)),
        _number(read, "writeQueueNums", 16, (0, _MOST_QUEUES)),
        _number(read, "perm", PERM_READ | PERM_WRITE, (0, _LARGEST_PERM)),
        _number(read, "topicSysFlag", 0, (0, 0x7FFFFFFF)),
    )


def check_name(name: object, what: str) -> str:
    """Return a name that can be one; the broker that has it knows what else a name needs."""
    if not isinstance(name, str) or not name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise BadBody(f"{what} {str(name)[:80]!r} is no name of 1 to {_LONGEST_NAME} printable characters")
    return name


def _number(read: Mapping[str, object], name: str, default: int, bounds: tuple[int, int]) -> int:
    value = read.get(name)
    if value is None:
        return default
    if type(value) is not int or not bounds[0] <= value <= bounds[1]:
        raise BadBody(f"{name} is {str(value)[:40]!r}, it must be {bounds[0]} to {bounds[1]}")
    return value


# -- the plain form ------------------------------------------------------------------------------


def _decode_plain(body: bytes) -> TopicTable:
    wrapper = load_lenient(body, _WHAT).get("topicConfigSerializeWrapper")
    if wrapper is None:
        return TopicTable(DataVersion(), {})
    if not isinstance(wrapper, dict):
        raise BadBody(f"topicConfigSerializeWrapper of {_WHAT} is no JSON object")
    configs = wrapper.get("topicConfigTable")
    if configs is None:
        configs = {}
    if not isinstance(configs, dict):
        raise BadBody(f"topicConfigTable of {_WHAT} is no JSON object")
    topics: dict[str, Queues] = {}
    for name, config in configs.items():
        try:
            topics[check_name(name, "the topic")] = queues_of(config)
        except BadBody as error:
            raise BadBody(f"the topic {name[:80]!r}: {error}") from None
    return TopicTable(version_of(wrapper.get("dataVersion")), topics)


def load_lenient(body: bytes, what: str) -> Mapping[str, Any]:
    """Return a JSON object as RocketMQ writes it: keys that are numbers may stand without quotes."""
    try:
        return load(body, what)
    except BadBody:
        return load(_BARE_KEY.sub(rb'\1"\2":', body), what)


# -- the compressed form -------------------------------------------------------------------------


def _decode_compressed(body: bytes) -> TopicTable:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, MAX_TABLE_SIZE)
    except zlib.error as error:
        raise BadBody(f"the body of {_WHAT} cannot be decompressed: {error}") from error
    if inflater.unconsumed_tail:
        raise BadBody(f"the body of {_WHAT} has more than {MAX_TABLE_SIZE} bytes, decompressed")
    text, at = _text(data, 0)
    version = version_of(load(text, "the data version"))
    count, at = _int(data, at)
    topics: dict[str, Queues] = {}
    for _ in range(count):
        text, at = _text(data, at)
        name, queues = _topic(text)
        topics[name] = queues
    return TopicTable(version, topics)


def _topic(text: bytes) -> tuple[str, Queues]:
    parts = text.decode("utf-8", "replace").split(" ", 5)
    if len(parts) < 4 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts[1:4]):
        raise BadBody(f"the topic {text[:80]!r} is not 'name read write perm …'")
    read, write, perm = (int(part) for part in parts[1:4])
    return check_name(parts[0], "the topic"), queues_of({"readQueueNums": read, "writeQueueNums": write, "perm": perm})


def _int(data: bytes, at: int) -> tuple[int, int]:
    if at + _LENGTH.size > len(data):
        raise BadBody(f"the body of {_WHAT} ends at byte {len(data)}, in the middle of a number")
    (value,) = _LENGTH.unpack_from(data, at)
    if value < 0:
        raise BadBody(f"the body of {_WHAT} counts {value} at byte {at}")
    return value, at + _LENGTH.size


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _int(data, at)
    if at + size > len(data):
        raise BadBody(f"the body of {_WHAT} ends at byte {len(data)}, in the middle of a text")
    return data[at : at + size], at + size
