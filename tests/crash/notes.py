"""What passes between a test and the process that it lets die: a request, and notes that outlive it."""

from __future__ import annotations

import json
import pickle
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.crash.model import Memory
from tests.support.power_switch import Moment


@dataclass(frozen=True, slots=True)
class Request:
    """Work on the store that ``notes`` knows, and die at a call; number -1: live, and leave the calls in ``sites``."""

    notes: str
    number: int
    moment: Moment
    steps: bool
    """Whether to work, or only to open."""


@dataclass(slots=True)
class Notes:
    """What a fork leaves behind."""

    memory: Memory
    is_open: bool = False

    def save(self, path: Path) -> None:
        new = path.with_suffix(".new")
        new.write_bytes(pickle.dumps(self))
        new.replace(path)

    @staticmethod
    def load(path: Path) -> Notes:
        notes = pickle.loads(path.read_bytes())
        assert isinstance(notes, Notes)
        return notes


def encode(request: Request) -> str:
    """Return the line that asks for it."""
    return json.dumps(asdict(request)) + "\n"
