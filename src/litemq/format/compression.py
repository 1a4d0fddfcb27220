"""Compressed bodies: what the sys flag says, and the application's bytes.

    bit  0x001   the body is compressed
    mask 0x700   0x000 zlib (old clients), 0x100 LZ4 frame, 0x200 Zstandard, 0x300 zlib

A body is exactly one stream: bytes behind it, a stream without its end, an unknown type and more than 64 MiB
are *does not decompress*.  An empty body is never compressed, whatever the flag says: RocketMQ reads it the same way.
Output grows in steps with what comes out, so that no header can ask for memory; only Zstandard's window, at most
128 MiB of address space, is taken at once, and touched as far as bytes come out.
"""

from __future__ import annotations

import sys
import zlib
from typing import Final, Protocol

import lz4.frame

from litemq.format.names import FLAG_COMPRESSED

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT: Final = 64 << 20
"""The largest body that may come out."""

_TYPE_SHIFT: Final = 8
_TYPES: Final = ("zlib", "lz4", "zstd", "zlib")
_INPUT_STEP: Final = 1 << 16
_OUTPUT_STEP: Final = 1 << 16
_MAX_OUTPUT_STEP: Final = 1 << 20


class _Stream(Protocol):
    """What LZ4's and Zstandard's decompressors share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class DoesNotDecompress(ValueError):
    """A body that is not one whole stream of its type."""


def name_of(sys_flag: int | None) -> str | None:
    """Return the compression that the sys flag names; None when there is none, or an unknown one."""
    if sys_flag is None or not sys_flag & FLAG_COMPRESSED:
        return None
    kind = sys_flag >> _TYPE_SHIFT & 7
    return _TYPES[kind] if kind < len(_TYPES) else None


def plain_body(stored: bytes, sys_flag: int | None) -> bytes:
    """Return the application's bytes.

    Raises:
        DoesNotDecompress: the sys flag says compressed, and the bytes are not one whole stream of that type.
    """
    if sys_flag is None or not sys_flag & FLAG_COMPRESSED or not stored:
        return stored
    match name_of(sys_flag):
        case "zlib":
            return _inflate(stored)
        case "lz4":
            return _unfold(stored, lz4.frame.LZ4FrameDecompressor())
        case "zstd":
            return _unfold(stored, zstd.ZstdDecompressor())
        case _:
            raise DoesNotDecompress(f"body does not decompress: unknown type {sys_flag >> _TYPE_SHIFT & 7}")


def _inflate(stored: bytes) -> bytes:
    stream = zlib.decompressobj()
    out: list[bytes] = []
    size = 0
    pending = stored
    try:
        while not stream.eof:
            part = stream.decompress(pending, _step(size))
            pending = stream.unconsumed_tail
            if not part and not pending and not stream.eof:
                raise DoesNotDecompress("body does not decompress: the stream has no end")
            size = _grow(out, part, size)
    except zlib.error as error:
        raise DoesNotDecompress("body does not decompress: no zlib stream") from error
    if stream.unused_data:
        raise DoesNotDecompress("body does not decompress: bytes behind the stream")
    return b"".join(out)


def _unfold(stored: bytes, stream: _Stream) -> bytes:
    """Feed in steps: both libraries copy what they have not used yet at every call."""
    out: list[bytes] = []
    size = 0
    at = 0
    try:
        while not stream.eof:
            step = stored[at : at + _INPUT_STEP] if stream.needs_input else b""
            at += len(step)
            part = stream.decompress(step, _step(size))
            if not part and not step and not stream.eof:
                raise DoesNotDecompress("body does not decompress: the stream has no end")
            size = _grow(out, part, size)
    except (RuntimeError, EOFError, zstd.ZstdError) as error:
        raise DoesNotDecompress("body does not decompress: no such stream") from error
    if stream.unused_data or at < len(stored):
        raise DoesNotDecompress("body does not decompress: bytes behind the stream")
    return b"".join(out)


def _step(size: int) -> int:
    """Return how much to ask for when ``size`` bytes are out: LZ4 makes room for all of it at once."""
    return min(max(_OUTPUT_STEP, size), _MAX_OUTPUT_STEP)


def _grow(out: list[bytes], part: bytes, size: int) -> int:
    size += len(part)
    if size > LIMIT:
        raise DoesNotDecompress(f"body does not decompress: more than {LIMIT >> 20} MiB come out")
    out.append(part)
    return size
