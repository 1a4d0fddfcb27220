"""A message as the store takes it: every field that any record format can hold.

Plain Python with slots; ``_message_cy.pxd`` gives the compiled kernels direct access to the fields.  Both builds
look at types and ranges in the same way, and refuse in the same words; what stands inside of tags, keys and
properties is looked at when a message is refused (``find_wrong``), not when one is made.
"""

from __future__ import annotations

from typing import Any, NoReturn

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

NO_HOST = "0.0.0.0:0"
EMPTY: dict[str, str] = {}

_INT32 = (-(1 << 31), (1 << 31) - 1)
_ANY32 = (-(1 << 31), (1 << 32) - 1)  # with or without a sign: formats differ, and a converter keeps the bits
_INT64 = (-(1 << 63), (1 << 63) - 1)
_UINT64 = (0, (1 << 64) - 1)
_TEXTS = ("topic", "message_id", "transaction_id", "sharding_key", "born_host")
_LISTS = ("tags", "keys")
_RANGES = {
    "queue_id": _ANY32,  # a store takes no negative one, but a foreign record may have it
    "type": (0, 4),
    "priority": (0, 255),
    "reliability": (0, 3),
    "delay_time": _UINT64,
    "status": (0, 3),
    "born_time": _UINT64,
    "flag": _INT32,
    "sys_flag": _INT32,
    "reconsume_times": _ANY32,
    "prepared_offset": _INT64,
    "consume_start_time": _UINT64,
    "consume_end_time": _UINT64,
}
# A literal above 2**31 would be a Python object to the compiler.
_LEAST_32 = cython.declare(cython.longlong, _INT32[0])
_MOST_32 = cython.declare(cython.longlong, _INT32[1])
_MOST_U32 = cython.declare(cython.longlong, _ANY32[1])
_LEAST_64 = cython.declare(cython.longlong, _INT64[0])
_MOST_64 = cython.declare(cython.longlong, _INT64[1])
_MOST_U64 = cython.declare(cython.ulonglong, _UINT64[1])


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_a(value: object, kind: type) -> cython.bint:
    """Return whether it is of this very type: the compiled fields hold no other."""
    return type(value) is kind


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def is_number(value: object) -> cython.bint:
    """Return whether it is a whole number: an ``IntEnum`` is, True and 1.0 are not."""
    return type(value) is int or (isinstance(value, int) and not isinstance(value, bool))


def refuse(fields: dict[str, Any]) -> NoReturn:
    """Raise what is wrong with the fields of a message."""
    error = find_wrong(fields)
    raise error if error is not None else ValueError("a field is wrong")


def find_wrong(fields: dict[str, Any]) -> TypeError | ValueError | None:
    """Return what is wrong with the fields of a message, as ``Message`` names them; None when nothing is."""
    return _wrong_type(fields) or _wrong_element(fields) or _wrong_number(fields)


def _wrong_type(fields: dict[str, Any]) -> TypeError | None:
    for name in _TEXTS:
        if type(fields[name]) is not str:
            return _must_be(name, "str", fields[name])
    for name in _LISTS:
        if type(fields[name]) is not tuple:
            return _must_be(name, "a tuple of str", fields[name])
    if type(fields["body"]) is not bytes:
        return _must_be("body", "bytes", fields["body"])
    if type(fields["properties"]) is not dict:
        return _must_be("properties", "a dict of str to str", fields["properties"])
    if type(fields["broadcast"]) is not bool:
        return _must_be("broadcast", "bool", fields["broadcast"])
    for name in _RANGES:
        value = fields[name]
        if not is_number(value) and not (name == "sys_flag" and value is None):
            return _must_be(name, "int or None" if name == "sys_flag" else "int", value)
    return None


def _wrong_element(fields: dict[str, Any]) -> TypeError | None:
    for name in _LISTS:
        for number, value in enumerate(fields[name]):
            if type(value) is not str:
                return _must_be(f"{name}[{number}]", "str", value)
    for name, value in fields["properties"].items():
        if type(name) is not str:
            return _must_be("the name of a property", "str", name)
        if type(value) is not str:
            return _must_be(f"properties[{name!r}]", "str", value)
    return None


def _wrong_number(fields: dict[str, Any]) -> ValueError | None:
    for name, (low, high) in _RANGES.items():
        value = fields[name]
        if value is not None and not low <= value <= high:
            # The text of a huge number is long, and Python refuses to make the longest.
            shown = str(value) if abs(value) < 1 << 128 else f"a number of {value.bit_length()} bits"
            return ValueError(f"{name} is {shown}, it must be {low} to {high}")
    return None


def _must_be(name: str, wanted: str, value: object) -> TypeError:
    return TypeError(f"{name} must be {wanted}, not {type(value).__name__}")


# The compiler's own checks of arguments would let floats and None pass, and speak words of their own.
@cython.annotation_typing(False)
class Message:
    """What a producer hands over; treat it as a value (the compiled build enforces that).

    ``body`` is as stored: compressed when ``sys_flag`` says so.  ``sys_flag`` is RocketMQ's; None derives it from
    ``status`` and the hosts.  Times are milliseconds since the epoch.

    Raises:
        TypeError: a field is of another type; an int may be an ``IntEnum``, but no bool, and a bool no int.
        ValueError: a number is out of the range that the field has.
    """

    __slots__ = (
        "body",
        "born_host",
        "born_time",
        "broadcast",
        "consume_end_time",
        "consume_start_time",
        "delay_time",
        "flag",
        "keys",
        "message_id",
        "prepared_offset",
        "priority",
        "properties",
        "queue_id",
        "reconsume_times",
        "reliability",
        "sharding_key",
        "status",
        "sys_flag",
        "tags",
        "topic",
        "transaction_id",
        "type",
    )

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        message_id: str = "",
        tags: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
        properties: dict[str, str] = EMPTY,
        type: int = 0,  # noqa: A002 - the format's own name of the field
        priority: int = 0,
        reliability: int = 0,
        delay_time: int = 0,
        transaction_id: str = "",
        status: int = 0,
        sharding_key: str = "",
        broadcast: bool = False,
        born_time: int = 0,
        born_host: str = NO_HOST,
        flag: int = 0,
        sys_flag: int | None = None,
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        consume_start_time: int = 0,
        consume_end_time: int = 0,
    ) -> None:
        if not (
            is_a(topic, str)
            and is_a(body, bytes)
            and is_a(message_id, str)
            and is_a(tags, tuple)
            and is_a(keys, tuple)
            and is_a(properties, dict)
            and is_a(transaction_id, str)
            and is_a(sharding_key, str)
            and is_a(broadcast, bool)
            and is_a(born_host, str)
            and is_number(queue_id)
            and is_number(type)
            and is_number(priority)
            and is_number(reliability)
            and is_number(delay_time)
            and is_number(status)
            and is_number(born_time)
            and is_number(flag)
            and (sys_flag is None or is_number(sys_flag))
            and is_number(reconsume_times)
            and is_number(prepared_offset)
            and is_number(consume_start_time)
            and is_number(consume_end_time)
        ):
            refuse(locals())
        self.topic = topic
        self.body = body
        self.message_id = message_id
        self.tags = tags
        self.keys = keys
        self.properties = properties
        self.transaction_id = transaction_id
        self.sharding_key = sharding_key
        self.broadcast = broadcast
        self.born_host = born_host
        self.sys_flag = None if sys_flag is None else int(sys_flag)
        try:
            self.queue_id = int(queue_id)
            self.type = int(type)
            self.priority = int(priority)
            self.reliability = int(reliability)
            self.delay_time = int(delay_time)
            self.status = int(status)
            self.born_time = int(born_time)
            self.flag = int(flag)
            self.reconsume_times = int(reconsume_times)
            self.prepared_offset = int(prepared_offset)
            self.consume_start_time = int(consume_start_time)
            self.consume_end_time = int(consume_end_time)
        except OverflowError:  # compiled, a field is a C integer
            fits = False
        else:
            fits = (
                0 <= self.type <= 4
                and 0 <= self.priority <= 255
                and 0 <= self.reliability <= 3
                and 0 <= self.status <= 3
                and _LEAST_32 <= self.queue_id <= _MOST_U32
                and _LEAST_32 <= self.reconsume_times <= _MOST_U32
                and _LEAST_32 <= self.flag <= _MOST_32
                and _LEAST_64 <= self.prepared_offset <= _MOST_64
                and 0 <= self.delay_time <= _MOST_U64
                and 0 <= self.born_time <= _MOST_U64
                and 0 <= self.consume_start_time <= _MOST_U64
                and 0 <= self.consume_end_time <= _MOST_U64
                and (sys_flag is None or _INT32[0] <= sys_flag <= _INT32[1])
            )
        if not fits:
            refuse(locals())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in Message.__slots__)

    def __hash__(self) -> int:
        return hash((self.topic, self.queue_id, self.message_id, self.body))

    def __repr__(self) -> str:
        return f"Message({self.topic!r}, {self.body[:40]!r}, queue_id={self.queue_id}, message_id={self.message_id!r})"


class Appended:
    """Where a message went.  ``end`` is the position behind its record: flush to it to make the record durable."""

    __slots__ = ("end", "position", "queue_offset", "store_time")

    def __init__(self, position: int, end: int, queue_offset: int, store_time: int) -> None:
        self.position = position
        self.end = end
        self.queue_offset = queue_offset
        self.store_time = store_time

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Appended):
            return NotImplemented
        return self.position == other.position and self.end == other.end and self.queue_offset == other.queue_offset

    def __hash__(self) -> int:
        return hash((self.position, self.queue_offset))

    def __repr__(self) -> str:
        return f"Appended(position={self.position}, end={self.end}, queue_offset={self.queue_offset})"
