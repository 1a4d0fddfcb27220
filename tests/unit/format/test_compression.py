"""Compressed bodies: whole streams only, and never more than 64 MiB."""

from __future__ import annotations

import contextlib
import tracemalloc
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format.strategies import COMPRESSORS

from litemq.format import compression
from litemq.format.compression import DoesNotDecompress, name_of, plain_body

MIB = 1 << 20
EACH = pytest.mark.parametrize("flag", sorted(COMPRESSORS))


def test_names() -> None:
    assert [name_of(flag) for flag in (0x001, 0x101, 0x201, 0x301)] == ["zlib", "lz4", "zstd", "zlib"]
    assert [name_of(flag) for flag in (None, 0, 0x300, 0x401, 0x701, -2)] == [None] * 6
    assert name_of(-1 & ~0x600) == "lz4"


@given(st.binary(max_size=5000), st.sampled_from(sorted(COMPRESSORS)))
def test_round_trip(body: bytes, flag: int) -> None:
    assert plain_body(COMPRESSORS[flag](body), flag) == body


def test_golden_zlib() -> None:
    assert plain_body(bytes.fromhex("785ecb48cdc9c957c84090003a2e067d"), 1) == b"hello hello hello"


def test_a_plain_body_is_itself() -> None:
    body = b"hello"
    assert plain_body(body, 0) is plain_body(body, None) is body
    assert plain_body(b"", 0x301) == plain_body(b"", 0x701) == b"", "an empty body is never compressed"


@EACH
def test_every_prefix_and_any_bytes_behind_are_refused(flag: int) -> None:
    stream = COMPRESSORS[flag](b"hello hello hello" * 9)
    for size in range(1, len(stream)):
        with pytest.raises(DoesNotDecompress):
            plain_body(stream[:size], flag)
    for behind in (b"\0", b"garbage", stream):
        with pytest.raises(DoesNotDecompress, match=r"behind|no such"):
            plain_body(stream + behind, flag)


@EACH
def test_other_bytes_are_refused(flag: int) -> None:
    for body in (b"x", b"hello", bytes(100), b"\xff" * 100):
        with pytest.raises(DoesNotDecompress):
            plain_body(body, flag)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(DoesNotDecompress, match="unknown type 4"):
        plain_body(b"x", 0x401)


def test_a_large_body_in_small_steps() -> None:
    body = b"0123456789abcdef" * (3 * MIB // 16)
    for flag, compress in COMPRESSORS.items():
        assert plain_body(compress(body), flag) == body


@pytest.mark.parametrize(
    ("flag", "bomb"),
    [
        (0x301, zlib.compress(bytes(80 * MIB), 9)),
        (0x101, lz4.frame.compress(bytes(80 * MIB), store_size=True)),
        (0x201, COMPRESSORS[0x201](bytes(80 * MIB))),
    ],
    ids=["zlib", "lz4", "zstd"],
)
def test_a_bomb_is_refused_before_it_is_large(flag: int, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DoesNotDecompress, match="64 MiB"):
            plain_body(bomb, flag)
        assert tracemalloc.get_traced_memory()[1] < compression.LIMIT + 6 * MIB
    finally:
        tracemalloc.stop()


def test_exactly_the_limit_is_a_body() -> None:
    body = bytes(compression.LIMIT)
    assert plain_body(zlib.compress(body, 1), 0x301) == body
    with pytest.raises(DoesNotDecompress, match="64 MiB"):
        plain_body(zlib.compress(body + b"\0", 1), 0x301)


def test_a_claimed_size_is_not_believed() -> None:
    """The frame's header says 2^60 bytes; nothing of that size is ever asked for."""
    header = lz4.frame.compress_begin(ctx := lz4.frame.create_compression_context(), source_size=1 << 60)
    frame = header + lz4.frame.compress_chunk(ctx, b"hello")
    tracemalloc.start()
    try:
        with pytest.raises(DoesNotDecompress):
            plain_body(frame, 0x101)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@given(
    st.binary(max_size=300),
    st.integers(0, 7),
    st.sampled_from([b"", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd", b"\x78\x9c"]),
)
def test_any_bytes_are_answered(body: bytes, kind: int, start: bytes) -> None:
    with contextlib.suppress(DoesNotDecompress):
        plain_body(start + body, kind << 8 | 1)
