"""Random stores with everything in them that may surprise a reader, and ways to damage one."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.support.store_files import T0, StoreFiles

from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.types import LogPosition, Message, QueueOffset

_ZLIB: Final = 0x001
_TOPICS: Final = ["orders", "orders", "orders", "bills", "%DLQ%g", "LITEMQ_SYS_POP", "é", "x" * 100]


def random_store(root: Path, fmt: str, chance: random.Random, *, count: int = 90, decoys: bool = True) -> StoreFiles:
    """Return a store that is not written yet: small segments, fillers, decoys in bodies, compression, transactions."""
    store = StoreFiles(root, fmt, segment_size=chance.choice([3000, 9000, 40_000]))
    time = T0
    for number in range(count):
        time += chance.choice([0, 1, 1, 40])
        body = chance.randbytes(chance.choice([0, 1, 20, 300]))
        if decoys and store.puts and chance.random() < 0.3:
            body = chance.randbytes(chance.randrange(4)) + decoy(store, chance) + body[:9]
        is_packed = fmt != "tmq" and chance.random() < 0.1
        store.add(
            Message(
                chance.choice(_TOPICS),
                zlib.compress(body) if is_packed else body,
                queue_id=chance.randrange(3),
                message_id=f"id{number}" if chance.random() < 0.8 else "",
                tags=("A",) if chance.random() < 0.5 else (),
                keys=tuple(f"k{n}" for n in range(chance.randrange(3))),
                properties={"p": "é"} if chance.random() < 0.5 else {},
                status=0 if is_packed else chance.choice([0, 0, 0, 0, 1, 2, 3]),
                sys_flag=_ZLIB if is_packed else None,
                sharding_key="s" if chance.random() < 0.1 else "",
                born_time=T0,
                born_host="10.0.0.1:5",
                delay_time=T0 + 10**9 if chance.random() < 0.1 else 0,
            ),
            store_time=time,
        )
    return store


def decoy(store: StoreFiles, chance: random.Random) -> bytes:
    """Return a whole valid record, sometimes one that states the very place where it will stand."""
    if chance.random() < 0.5:
        return chance.choice(store.puts).data[:600]
    place = store.end + chance.randrange(60, 220)
    message = Message("orders", b"decoy", born_host="10.0.0.1:5")
    return FORMATS[store.format].write(message, Placement(LogPosition(place), QueueOffset(0), 1, "1.2.3.4:5"))


# -- damage of files that are written ---------------------------------------------------------------------------


def file_of(store: StoreFiles, position: int) -> tuple[Path, int]:
    """Return the segment that a position lies in, and the place in it."""
    start = max(one for one in store.segments if one <= position)
    return store.root / "commitlog" / f"{start:020d}", position - start


def change(store: StoreFiles, position: int, data: bytes) -> None:
    """Write over bytes of the log."""
    path, place = file_of(store, position)
    whole = bytearray(path.read_bytes())
    whole[place : place + len(data)] = data[: max(0, len(whole) - place)]
    path.write_bytes(whole)


def torn_tail(store: StoreFiles, chance: random.Random) -> None:
    """Leave part of the last record, and zeros behind it."""
    last = store.puts[-1]
    change(store, last.position + chance.randrange(len(last.data)), bytes(len(last.data)))


def cut_file(store: StoreFiles, chance: random.Random) -> None:
    """End the last segment's file in the middle of a record."""
    last = store.puts[-chance.randrange(1, 4)]
    path, place = file_of(store, store.puts[-1].position)
    here, at = file_of(store, last.position)
    cut = at if here == path else place
    path.write_bytes(path.read_bytes()[: cut + chance.randrange(1, 60)])


def flipped_bit(store: StoreFiles, chance: random.Random) -> None:
    """Flip a bit of some records, anywhere in them."""
    for put in chance.sample(store.puts, 3):
        at = chance.randrange(len(put.data))
        change(store, put.position + at, bytes([put.data[at] ^ (1 << chance.randrange(8))]))


def lost_frame(store: StoreFiles, chance: random.Random) -> None:
    """Have a size field lead elsewhere: sometimes right to another record."""
    put = chance.choice(store.puts[:-2])
    wrong = chance.choice([0, 1, 4, len(put.data) - 1, len(put.data) + 7, 1 << 20, (1 << 31) - 1])
    change(store, put.position, wrong.to_bytes(4, "big"))


def hole(store: StoreFiles, chance: random.Random) -> None:
    """Leave zeros where some records in the middle were, sound ones behind them."""
    first = chance.randrange(1, len(store.puts) - 5)
    put, end = store.puts[first], store.puts[first + chance.randrange(1, 4)]
    path, place = file_of(store, put.position)
    there, stop = file_of(store, end.position)
    size = stop - place if there == path else store.segment_size - place
    change(store, put.position, bytes(size))


def empty_segment(store: StoreFiles, chance: random.Random) -> None:
    """Leave nothing of one segment but its size."""
    start = chance.choice(sorted(store.segments))
    change(store, start, bytes(store.segment_size))


Damage = Callable[[StoreFiles, random.Random], None]

DAMAGES: Final[list[Damage]] = [
    torn_tail,
    flipped_bit,
    lost_frame,
    hole,
    cut_file,
    empty_segment,
]
