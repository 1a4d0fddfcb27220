"""Hostile bytes against every decoder: only our own errors, always an end, no memory that a length asked for.

``LITEMQ_FUZZ_CASES`` sets how many cases run in all, ``LITEMQ_FUZZ_SEED`` where they start; a failure names its case.
"""

from __future__ import annotations

import contextlib
import os
import random
import tracemalloc
from collections.abc import Callable

import pytest
from tests.unit.format import fixtures, hostile

from litemq import _plain
from litemq.errors import CorruptRecord, TornRecord
from litemq.format import (
    _scan_cy,
    checkpoint,
    config_json,
    hosts,
    index_file,
    limits,
    message_id,
    properties,
    queue_entry,
    record,
    reserved,
    rows,
)
from litemq.types import Record

CASES = int(os.environ.get("LITEMQ_FUZZ_CASES", "150000"))
SEED = int(os.environ.get("LITEMQ_FUZZ_SEED", "20261118"))
FORMATS = list(record.FORMATS.values())
KIB = 1 << 10

pytestmark = pytest.mark.timeout(0 if CASES > 200_000 else 120)


def cases(share: float, salt: int) -> range:
    """Return the numbers of a share of the cases; a number and the seed are all that a case depends on."""
    return range(salt * 1_000_000_000, salt * 1_000_000_000 + max(1, int(CASES * share)))


def chance(number: int) -> random.Random:
    return random.Random(SEED * 1_000_003 + number)


def broken_record(number: int) -> tuple[int, bytes]:
    return next(hostile.cases(chance(number), 1))


def decoded(data: bytes, code: int | None) -> Record | None:
    with contextlib.suppress(TornRecord, CorruptRecord):
        position = 1000 if code is None else hostile.stated_position(code, data)
        return record.decode(data, position, None if code is None else FORMATS[code])
    return None


def test_records() -> None:
    """A record that is taken for sound lies within the bytes, and can be shown, stored again and converted."""
    rnd = random.Random(SEED)
    sound = 0
    for start in cases(0.6, 1)[::1000]:
        for number, (code, data) in enumerate(hostile.cases(chance(start), 1000), start):
            for named in (code, None) if rnd.random() < 0.2 else (code,):
                found = decoded(data, named)
                if found is not None:
                    assert found.size <= len(data), number
                    assert tuple(record.to_json(found)) == limits.RECORD_KEYS, number
                    assert record.to_message(found).topic == found.topic, number
                    sound += 1
                    if sound % 4 == 0:
                        convert(found)
    assert sound > 0, "mutations must not all miss"


def convert(found: Record) -> None:
    """Whatever came out of a file either fits a format and comes back from it, or is refused with a reason."""
    for fmt in FORMATS:
        message = record.to_message(found, plain_body=fmt is record.TMQ)
        place = record.to_placement(found, 1000)
        if limits.check_fits(message, fmt, place.store_host) is None:
            again = record.decode(fmt.write(message, place), 1000, fmt)
            assert again is not None
            assert (again.topic, again.body, again.queue_offset) == (found.topic, found.body, found.queue_offset)


def test_whole_segments() -> None:
    """The walk goes forward and ends, and never reads behind the end that it was given."""
    for number in cases(0.1, 2):
        rnd = chance(number)
        code, data = next(hostile.cases(rnd, 1))
        view = memoryview(data + rnd.choice(hostile.seeds())[1])
        end = rnd.choice((len(data), len(view)))
        table = rows.table(rnd.choice((1, 2, 9)))
        at = rnd.choice((0, 0, 0, rnd.randrange(end + 1)))
        for _ in range(end + 1):
            count, place, why = _scan_cy.scan(code, view, at, end, rnd.choice((1000, 0)), table, rnd.random() < 0.5, -1)
            assert at <= place <= end, number
            assert why in (rows.ROOM, rows.END, rows.FILLER, rows.CUT, rows.COMPRESSED, *rows.REASONS), number
            for row in range(count):
                assert_inside(table[row * rows.WIDTH : (row + 1) * rows.WIDTH], end)
            if why not in (rows.ROOM, rows.COMPRESSED):
                break
            assert place > at, number
            at = place
        else:
            raise AssertionError(f"case {number} does not end")


PARTS = (
    (rows.TOPIC_AT, rows.TOPIC_SIZE),
    (rows.ID_AT, rows.ID_SIZE),
    (rows.KEYS_AT, rows.KEYS_SIZE),
    (rows.TAG_AT, rows.TAG_SIZE),
    (rows.PROPERTIES_AT, rows.PROPERTIES_SIZE),
    (rows.BODY_AT, rows.BODY_SIZE),
)


def assert_inside(row: object, end: int) -> None:
    assert isinstance(row, type(rows.table(0)))
    for at, size in PARTS:
        assert 0 <= row[at] <= row[at] + row[size] <= end


def test_compiled_and_plain_agree() -> None:
    plain = _plain.load_plain("litemq.format._scan_cy")
    for number in cases(0.03, 3):
        code, data = broken_record(number)
        answers = []
        for scan in (_scan_cy.scan, plain.scan):
            table = rows.table(3)
            answer = scan(code, memoryview(data), 0, len(data), 1000, table, False, -1)
            answers.append((answer, table[: answer[0] * rows.WIDTH]))
        assert answers[0] == answers[1], number


def test_memory_follows_the_bytes_that_are_there() -> None:
    decoded(hostile.seeds()[0][1], None)
    tracemalloc.start()
    try:
        for number in cases(0.02, 4):
            code, data = broken_record(number)
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            decoded(data, code)
            used = tracemalloc.get_traced_memory()[1] - before
            # A three-byte property becomes two texts of some sixty bytes; a compressed body is unfolded in steps.
            assert used < 256 * KIB + 64 * len(data), number
    finally:
        tracemalloc.stop()


# ── the other files ──


def mutated(data: bytes, rnd: random.Random) -> bytes:
    for _ in range(rnd.choice((1, 2, 4))):
        data = rnd.choice((hostile.flip, hostile.plant, hostile.cut, hostile.noise, hostile.shuffle))(rnd, data)
    return data


def read_index(data: bytes, rnd: random.Random) -> None:
    def read(size: int, at: int) -> bytes:
        assert 0 < size <= 1 << 20
        return data[at : at + size]

    if len(data) >= index_file.HEADER_SIZE:
        header = index_file.decode_header(data)
        slots = index_file.slot_count(len(data), header, read)
        assert slots is None or slots >= 0
        for _, entry in index_file.chain(read, header, slots or 1 + rnd.randrange(40), rnd.randrange(1 << 31)):
            assert isinstance(entry.position, int)


def read_config(data: bytes, _: random.Random) -> None:
    with contextlib.suppress(config_json.BadConfig):
        config_json.write(config_json.read(data))


def read_checkpoint(data: bytes, _: random.Random) -> None:
    found = checkpoint.decode(data)
    assert found is None or not found.is_ours or checkpoint.encode(found)[:60] == data[:60]


def read_texts(data: bytes, _: random.Random) -> None:
    for name, value in properties.parse(data).items():
        assert properties.can_hold(name, value.replace("\x01", "?") or "?")
    text = data.decode("utf-8", "replace")
    reserved.texts("[" + text)
    reserved.number(text, reserved.INT64)
    host = hosts.to_bytes(text)
    assert host is None or hosts.to_text(host) == text
    message_id.parse_offset_id(text)


def read_entries(data: bytes, _: random.Random) -> None:
    for at in range(0, len(data) - 45, 46):
        assert queue_entry.encode_batch(queue_entry.decode_batch(data, at))[:42] == data[at : at + 42]
        assert queue_entry.encode_litemq(queue_entry.decode_litemq(data, at)) == data[at : at + 24]
        assert queue_entry.encode_rocketmq(queue_entry.decode_rocketmq(data, at)) == data[at : at + 20]
        assert queue_entry.encode_tmq(queue_entry.decode_tmq(data, at))[:20] == data[at : at + 20]


STORE = fixtures.rocketmq("clean")
INDEXES = [
    path.read_bytes()
    for name in ("litemq", "blueprint")
    for path in (fixtures.ROOT / name / "store" / "index").iterdir()
]
OTHERS: dict[str, tuple[list[bytes], Callable[[bytes, random.Random], None], float]] = {
    "index": (INDEXES, read_index, 0.03),
    "config": ([data[:3000] for path, data in STORE.below("config").items() if ".json" in path], read_config, 0.05),
    "checkpoint": ([STORE.files["checkpoint"][:80]], read_checkpoint, 0.05),
    "texts": ([data for _, data in hostile.seeds()], read_texts, 0.1),
    "entries": ([data[:460] for data in STORE.below("consumequeue").values()], read_entries, 0.05),
}


@pytest.mark.parametrize("kind", list(OTHERS))
def test_other_files(kind: str) -> None:
    seeds, read, share = OTHERS[kind]
    for number in cases(share, 5 + list(OTHERS).index(kind)):
        rnd = chance(number)
        read(mutated(rnd.choice(seeds), rnd), rnd)


def test_the_cases_add_up() -> None:
    """The shares above make at least as many cases as were asked for."""
    assert 0.6 + 0.1 + 0.03 + 0.02 + sum(share for *_, share in OTHERS.values()) >= 1
