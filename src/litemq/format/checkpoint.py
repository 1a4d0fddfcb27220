"""The file ``checkpoint``: 4096 bytes, big-endian, how far what is on disk reaches.

      at  size  field
       0     8  log time        store time up to which the log is flushed (ms)
       8     8  queue time      … the ConsumeQueues
      16     8  index time      … the key index
      24     8  master flushed  RocketMQ's: position flushed on the master
      32     8  confirmed       RocketMQ's: position on enough copies
      40     8  flushed         LiteMQ's: the log is flushed up to this position
      48     8  derived         LiteMQ's: ConsumeQueues and index hold everything below this position
      56     4  CRC-32C of bytes 0 to 55
      60     4  linked          LiteMQ's: index entries with smaller numbers are in the slots of their file; 0: unknown
      64     4  indexed         LiteMQ's: number of that file's first entry that is not below ``derived``; 0: unknown
      68     4  checked         LiteMQ's: 1 when every record behind ``flushed`` has a checksum of the whole of it
      72     4  CRC-32C of bytes 0 to 71

A real RocketMQ rewrites the first 40 bytes and knows nothing of the rest: then the checksum is wrong (or 0), and
what LiteMQ said is nobody's word.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from litemq.format._text_cy import crc32c

SIZE: Final = 4096
_TIMES = struct.Struct(">5q")
_OURS = struct.Struct(">7q")
_CRC = struct.Struct(">I")
_USED = _OURS.size + _CRC.size
_MORE = struct.Struct(">III")
_MORE_END = _USED + _MORE.size


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the file says.  ``flushed`` and ``derived`` are None in a checkpoint that LiteMQ did not write last."""

    log_time: int = 0
    queue_time: int = 0
    index_time: int = 0
    master_flushed: int = 0
    confirmed: int = 0
    flushed: int | None = None
    derived: int | None = None
    linked: int = field(default=0, kw_only=True)
    indexed: int = field(default=0, kw_only=True)
    checked: bool = field(default=False, kw_only=True)

    @property
    def is_ours(self) -> bool:
        """Whether LiteMQ wrote it last."""
        return self.flushed is not None and self.derived is not None

    @property
    def checked_from(self) -> int | None:
        """Position from which on a record without a checksum is no whole one; None: nobody says."""
        return self.flushed if self.checked else None


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the whole file; without ``flushed`` and ``derived`` it is one as RocketMQ writes it."""
    times = (
        checkpoint.log_time,
        checkpoint.queue_time,
        checkpoint.index_time,
        checkpoint.master_flushed,
        checkpoint.confirmed,
    )
    if checkpoint.flushed is None or checkpoint.derived is None:
        return _TIMES.pack(*times).ljust(SIZE, b"\0")
    head = _OURS.pack(*times, checkpoint.flushed, checkpoint.derived)
    head += _CRC.pack(crc32c(head))
    if checkpoint.linked or checkpoint.indexed or checkpoint.checked:
        head += _MORE.pack(checkpoint.linked, checkpoint.indexed, checkpoint.checked)
        head += _CRC.pack(crc32c(head))
    return head.ljust(SIZE, b"\0")


def decode(data: bytes | memoryview) -> Checkpoint | None:
    """Return what the file says; None when it is too short to say anything."""
    if len(data) < _TIMES.size:
        return None
    if len(data) >= _USED:
        head = bytes(data[: _OURS.size])
        (stored,) = _CRC.unpack_from(data, _OURS.size)
        if stored != 0 and stored == crc32c(head):
            linked, indexed, checked = _more(bytes(data))
            return Checkpoint(*_OURS.unpack(head), linked=linked, indexed=indexed, checked=checked == 1)
    return Checkpoint(*_TIMES.unpack_from(data))


def _more(data: bytes) -> tuple[int, int, int]:
    """Return what an older checkpoint does not have; zeros then."""
    if data[_MORE_END : _MORE_END + _CRC.size] != _CRC.pack(crc32c(data[:_MORE_END])):
        return 0, 0, 0
    linked, indexed, checked = _MORE.unpack_from(data, _USED)
    return linked, indexed, checked
