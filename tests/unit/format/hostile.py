"""Hostile bytes: sound records of all formats, broken in the ways in which disks, bugs and enemies break them."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from functools import cache

from tests.unit.format import fixtures, golden

from litemq.format._text_cy import crc32c
from litemq.format.record import FORMATS
from litemq.types import Message

LENGTHS = (0, 1, 2, 3, 4, 7, 8, 49, 50, 62, 63, 90, 91, 108, 109, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF)
PLANTED = (*LENGTHS, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFB, 0xFFFFFFFE, 0xFFFFFFFF)


@cache
def seeds() -> list[tuple[int, bytes]]:
    """Return sound records, and the codes of their formats: golden ones, fixtures, compressed and checked ones."""
    found = [(FORMATS[record.format].code, record.data) for record in golden.ALL]
    found.append((FORMATS["rocketmq"].code, golden.ROCKETMQ_CHECKED))
    for name in ("litemq", "blueprint", "tmq"):
        for case in fixtures.cases(name):
            found += [(case.format.code, data) for _, data in fixtures.sound_records_with_bytes(case)]
    for sys_flag, body in (
        (0x301, zlib.compress(b"hello" * 9)),
        (0x101, b"\x04\x22\x4d\x18"),
        (0x201, b"\x28\xb5\x2f\xfd"),
    ):
        message = Message("T", body, sys_flag=sys_flag, properties={"a": "b"})
        found += [(fmt.code, fmt.write(message, golden.ROCKETMQ.place)) for fmt in FORMATS.values()]
    for segment in list(fixtures.rocketmq("clean").records())[::40]:
        if segment.size < 2000:
            start = int(segment.segment)
            data = fixtures.rocketmq("clean").files[f"commitlog/{segment.segment}"]
            found.append((1, data[segment.position - start : segment.position - start + segment.size]))
    return found


def cases(rnd: random.Random, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield ``count`` pairs of a format's code and bytes to read as that format."""
    kinds = (flip, plant, cut, splice, repeat, noise, shuffle)
    for _ in range(count):
        code, data = rnd.choice(seeds())
        for _ in range(rnd.choice((1, 1, 1, 2, 3))):
            data = rnd.choice(kinds)(rnd, data)
        if rnd.random() < 0.5 and len(data) >= 4:
            data = mend(code, data)
        yield (code if rnd.random() < 0.9 else rnd.randrange(4)), data[:4096]


def flip(rnd: random.Random, data: bytes) -> bytes:
    """Flip a few bits."""
    changed = bytearray(data)
    for _ in range(rnd.choice((1, 1, 2, 8)) if data else 0):
        changed[rnd.randrange(len(changed))] ^= 1 << rnd.randrange(8)
    return bytes(changed)


def plant(rnd: random.Random, data: bytes) -> bytes:
    """Write a dangerous length somewhere."""
    width = rnd.choice((1, 2, 4))
    at = rnd.randrange(max(1, len(data) - width + 1))
    value = rnd.choice(PLANTED) & (1 << 8 * width) - 1
    return data[:at] + value.to_bytes(width) + data[at + width :]


def cut(rnd: random.Random, data: bytes) -> bytes:
    """Take bytes away at the end, or from the middle, or zero the end."""
    at = rnd.randrange(len(data) + 1)
    match rnd.randrange(3):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + rnd.randrange(1, 9) :]
        case _:
            return data[:at].ljust(len(data), b"\0")


def splice(rnd: random.Random, data: bytes) -> bytes:
    """Put a piece of another record in."""
    other = rnd.choice(seeds())[1]
    at, start = rnd.randrange(len(data) + 1), rnd.randrange(len(other))
    return data[:at] + other[start : start + rnd.randrange(1, 64)] + data[at:]


def repeat(rnd: random.Random, data: bytes) -> bytes:
    """Follow the record by another, zeros or a filler."""
    return data + rnd.choice((data, rnd.choice(seeds())[1], bytes(rnd.randrange(40)), b"\xff\xff\xff\xff"))


def noise(rnd: random.Random, data: bytes) -> bytes:
    """Replace a stretch, or all, by random bytes."""
    if rnd.random() < 0.2:
        return data[: rnd.choice((0, 4, 8))] + rnd.randbytes(rnd.randrange(200))
    at = rnd.randrange(len(data) + 1)
    return data[:at] + rnd.randbytes(rnd.randrange(16)) + data[at + rnd.randrange(16) :]


def shuffle(rnd: random.Random, data: bytes) -> bytes:
    """Exchange two stretches."""
    a, b = sorted(rnd.randrange(len(data) + 1) for _ in range(2))
    return data[b:] + data[a:b] + data[:a]


def mend(code: int, data: bytes) -> bytes:
    """Make the size fields and a checksum right again, so that a reader looks into the record."""
    if code != 0:
        return len(data).to_bytes(4) + data[4:]
    data = (len(data) - 4).to_bytes(4) + data[4:-32] + len(data).to_bytes(4) + data[-28:]
    at = data.find(b"\0\x08__CRC32C\0\x08") + 12
    if at < 12 or at + 8 > len(data):
        return data
    digits = f"{crc32c(data[:at] + b'0' * 8 + data[at + 8 :]):08x}"
    return data[:at] + digits.encode() + data[at + 8 :]


def stated_position(code: int, data: bytes) -> int:
    """Return the position that a record of this format would state, so that a reader is not put off by it."""
    if code == 0:
        end = min(len(data), int.from_bytes(data[:4]) + 4)
        return int.from_bytes(data[max(0, end - 40) : max(0, end - 32)], signed=True)
    return int.from_bytes(data[28:36], signed=True)
