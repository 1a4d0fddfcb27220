"""What tests of readers share: the golden cases, the two RocketMQ stores on disk, and single-file logs."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from litemq.format.placement import Placement
from litemq.format.record import FORMATS
from litemq.types import LogPosition, Message, QueueOffset

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


@dataclass(frozen=True)
class GoldenCase:
    """One line of a ``cases.jsonl``."""

    name: str
    path: Path
    format: str
    auto: bool
    dump: list[dict[str, object]]
    unchecked: int
    torn: list[int]
    corrupt: list[int]
    status: int

    def __str__(self) -> str:
        return f"{self.format}-{self.name}"

    @property
    def formats(self) -> list[str | None]:
        return [None, self.format] if self.auto else [self.format]


def _case(folder: Path, line: str) -> GoldenCase:
    found = json.loads(line)
    return GoldenCase(
        name=found["name"],
        path=folder / found["path"],
        format=found["format"],
        auto=found["auto"],
        dump=[json.loads(record) for record in (folder / found["dump"]).read_text().splitlines()],
        unchecked=found["unchecked"],
        torn=found["torn"],
        corrupt=found["corrupt"],
        status=found["exit"],
    )


CASES = [
    _case(FIXTURES / name, line)
    for name in ("litemq", "blueprint", "tmq")
    for line in (FIXTURES / name / "cases.jsonl").read_text().splitlines()
]


def unpack_rocketmq(name: str, folder: Path) -> Path:
    """Unpack ``clean`` or ``killed`` and return the store directory."""
    with tarfile.open(FIXTURES / f"rocketmq-5.4.0-{name}.tar.xz") as archive:
        members = [member for member in archive if "timerwheel" not in member.name]
        archive.extractall(folder, members, filter="data")
    return folder / "store"


def meta(name: str) -> dict[str, dict[str, list[int]]]:
    """Return what a running RocketMQ says of the store."""
    found: dict[str, dict[str, list[int]]] = json.loads((FIXTURES / f"rocketmq-5.4.0-{name}.meta.json").read_text())
    return found


def messages(name: str) -> list[dict[str, object]]:
    """Return what RocketMQ's own decoder says of the store."""
    lines = (FIXTURES / f"rocketmq-5.4.0-{name}.messages.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def some_records(fmt: str, count: int = 3, start: int = 0, body: bytes = b"body") -> list[bytes]:
    """Return records that follow each other from position ``start``."""
    found: list[bytes] = []
    position = start
    for number in range(count):
        message = Message(
            "orders",
            body + b" %d" % number,
            message_id=f"m-{number}",
            keys=(f"k{number}",),
            tags=("TagA",),
            properties={"a": "b"},
            born_time=1_700_000_000_000 + number,
            born_host="10.0.0.1:50000",
        )
        place = Placement(LogPosition(position), QueueOffset(number), 1_700_000_000_000 + number, "10.0.0.9:10911")
        found.append(FORMATS[fmt].write(message, place))
        position += len(found[-1])
    return found
