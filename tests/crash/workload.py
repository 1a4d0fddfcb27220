"""What a store is put through, as plain data: equal seeds, equal steps.

Sizes are tiny, so that a few dozen messages roll segments, ConsumeQueue files and index files alike, and records
straddle sectors.  Every body is different, so that no record can pass for another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from tests.support.page_cache import Fate
from tests.support.power_switch import MOMENTS, Moment

from litemq.config import FlushPolicy, StoreConfig, WritableFormat
from litemq.types import Message

TOPICS = ("alpha", "beta", "%RETRY%g")
QUEUES = 2
GROUPS = ("g", "h")
FITTED_TOPIC = TOPICS[0]


@dataclass(frozen=True, slots=True)
class Append:
    """Messages one by one, or in one call."""

    messages: tuple[Message, ...]
    together: bool

    def __str__(self) -> str:
        sizes = ", ".join(f"{message.topic}/{message.queue_id} {len(message.body)}" for message in self.messages)
        return f"append{'_many' if self.together else ''}({sizes})"


@dataclass(frozen=True, slots=True)
class Fit:
    """A message that leaves just ``left`` bytes of its segment."""

    left: int
    mark: str


@dataclass(frozen=True, slots=True)
class Twins:
    """Messages of the same shape as the first ones that the last crash took: an old one may fit right behind a new."""

    count: int


@dataclass(frozen=True, slots=True)
class Simple:
    """A call without arguments; ``squeeze`` is retention on a disk so full that the oldest segment must go."""

    call: Literal["flush", "checkpoint", "retain", "squeeze", "reopen", "kill"]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes, then the store's own housekeeping."""

    ms: int


@dataclass(frozen=True, slots=True)
class SetTopic:
    """Create or alter a topic."""

    topic: str
    queues: int


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    topic: str


@dataclass(frozen=True, slots=True)
class Purge:
    """Raise the min offset of a queue to this share of it."""

    topic: str
    queue_id: int
    share: float


@dataclass(frozen=True, slots=True)
class SetGroup:
    """Create or alter a group."""

    group: str
    retries: int


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    group: str


@dataclass(frozen=True, slots=True)
class Advance:
    """A group has consumed this share of a queue."""

    group: str
    topic: str
    queue_id: int
    share: float


Step = Append | Fit | Twins | Simple | Tick | SetTopic | DeleteTopic | Purge | SetGroup | DeleteGroup | Advance


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a life ends: in the ``call``-th mutating call of a step, at the step's end when it makes fewer.

    ``step`` -1 is opening the store; None is the end of all steps.
    """

    step: int | None
    call: int
    moment: Moment


@dataclass(frozen=True, slots=True)
class LifePlan:
    """One life of a store, from an opening to a crash."""

    steps: tuple[Step, ...]
    cut: Cut
    power: bool
    """Whether the power goes, or only the process."""
    seed: int
    """Of what the disk forgets."""
    fate: Fate | None = None
    """How it forgets, when not by the seed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run: lives one after the other; behind the last one the store is opened, closed and looked through."""

    seed: int
    config: StoreConfig
    lives: tuple[LifePlan, ...]
    threads: bool = False
    """Whether the store flushes and syncs in the background; then a seed does not give the same run every time."""


Style = Literal["mixed", "rolls", "retention", "tables", "ghosts", "aligned", "deletions", "killed"]
"""What a run has most of."""

STYLES: tuple[Style, ...] = (
    *("mixed", "mixed", "mixed", "mixed", "rolls", "retention", "tables"),
    *("ghosts", "aligned", "deletions", "killed"),
)


def make_plan(seed: int, *, fmt: WritableFormat | None = None, style: Style | None = None) -> Plan:
    """Return the run of a seed."""
    rng = Random(seed)
    config = config_of(rng, fmt)
    chosen = rng.choice(STYLES)
    style = chosen if style is None else style
    if style in ("ghosts", "aligned", "killed"):
        config = replace(config, segment_bytes=4096, max_body_bytes=1024, flush="async", flush_bytes=1 << 20)
    if style in ("ghosts", "aligned"):
        lives = _ghost_lives(rng, config, f"{seed}.0", aligned=style == "aligned")
    elif style == "deletions":
        lives = _deletion_lives(rng, config, f"{seed}.0")
    elif style == "killed":
        lives = _killed_lives(rng, config, str(seed))
    else:
        lives = _lives(rng, config, str(seed), style)
    return Plan(seed, config, tuple(lives))


def with_threads(plan: Plan) -> Plan:
    """Return the same run with the store's threads at work."""
    config = replace(plan.config, flush_interval_ms=plan.config.flush_interval_ms // 100, flush_timeout_ms=100)
    return replace(plan, config=config, threads=True)


def _lives(rng: Random, config: StoreConfig, mark: str, style: Style) -> list[LifePlan]:
    lives = []
    for number in range(rng.choice((2, 2, 3))):
        size = rng.choice((2, 5, 12, 30)) if number else rng.choice((5, 12, 30, 60))
        steps = list(itertools.islice(Workload(rng, config, f"{mark}.{number}", style), size))
        if number and rng.random() < 0.5:
            steps.insert(0, Twins(rng.choice((1, 2, 4, 50))))
            steps[1:1] = rng.choice(([], [Simple("flush")]))
        lives.append(LifePlan(tuple(steps), _cut(rng, len(steps)), rng.random() < 0.9, rng.randrange(1 << 32)))
    return lives


def _ghost_lives(rng: Random, config: StoreConfig, mark: str, *, aligned: bool) -> list[LifePlan]:
    """Return short lives around the end of a segment: the first loses something, the next ones write the like of it.

    ``aligned``: what is lost ends with a sector, so that a write does not touch the old bytes behind it.
    """
    workload = Workload(rng, config, mark, "rolls")
    steps: list[Step] = [*(SetTopic(topic, 8) for topic in TOPICS), Fit(8, f"{mark}.a|")]
    if aligned:
        steps += [Fit(left, f"{mark}.{left}|") for left in (2048, 1024, 0)]
        steps += [Simple("flush"), Fit(3584, f"{mark}.b|")]
        steps += [Append((Message(TOPICS[0], f"{mark}.{n}|".encode()),), together=False) for n in range(3)]
        twins: list[Step] = [Twins(1)]
    else:
        steps += [*itertools.islice(workload, rng.randint(1, 8)), Simple("flush")]
        steps += [step for step in itertools.islice(workload, rng.randint(2, 8)) if step != Simple("flush")]
        twins = [Twins(rng.randint(1, 6)), *rng.choice(([], [Simple("flush")]))]
    return [_to_the_end(rng, life, rng.choice(("scattered", "scattered", None))) for life in (steps, twins, twins)]


def _deletion_lives(rng: Random, config: StoreConfig, mark: str) -> list[LifePlan]:
    """Return lives in which something is deleted, and the segment that says so goes soon after."""
    workload = Workload(rng, config, mark, "tables")
    steps: list[Step] = [SetGroup(GROUPS[0], 1), *(SetTopic(topic, 2) for topic in TOPICS)]
    steps += [Advance(GROUPS[0], topic, 0, 1.0) for topic in TOPICS]
    steps += [Tick(1100), rng.choice((Simple("checkpoint"), Simple("reopen"), Tick(1)))]
    steps += rng.sample([DeleteTopic(TOPICS[1]), DeleteTopic(TOPICS[2]), DeleteGroup(GROUPS[0])], rng.randint(1, 3))
    count = (config.segment_bytes or 0) // 200
    steps += [Append(tuple(workload.message() for _ in range(count)), together=True)]
    steps += [Simple("squeeze")] * rng.randint(1, 2)
    return [_to_the_end(rng, steps, None), _to_the_end(rng, [workload.random_step()], None)]


def _killed_lives(rng: Random, config: StoreConfig, mark: str) -> list[LifePlan]:
    """Return lives of which the first loses its process in the middle of a call, and the next one all power."""
    before = Workload(rng, config, f"{mark}.0", "rolls")
    many = Append(tuple(before.message() for _ in range(20)), together=True)
    steps = [*(SetTopic(topic, 8) for topic in TOPICS), many, *itertools.islice(before, 2)]
    cut = Cut(rng.choice((-1, 3, 4, 5)), rng.randrange(30), rng.choice(MOMENTS))
    killed = LifePlan(tuple(steps), cut, False, 0)
    workload = Workload(rng, config, f"{mark}.1", "mixed")
    messages = tuple(workload.message() for _ in range(rng.randint(1, 5)))
    return [killed, _to_the_end(rng, [Append(messages, together=False), Simple("flush")], None)]


def _to_the_end(rng: Random, steps: list[Step], fate: Fate | None) -> LifePlan:
    return LifePlan(tuple(steps), Cut(None, 0, "before"), True, rng.randrange(1 << 32), fate)


def _cut(rng: Random, steps: int) -> Cut:
    step = rng.choice((None, -1, *(rng.randrange(steps) for _ in range(6))))
    return Cut(step, rng.choice((0, 1, 2, 3, 5, 8, 12, 20)), rng.choice(MOMENTS))


def config_of(rng: Random, fmt: WritableFormat | None = None) -> StoreConfig:
    """Return a small store's settings."""
    formats: tuple[WritableFormat, ...] = ("litemq", "litemq", "rocketmq")
    policies: tuple[FlushPolicy, ...] = ("async", "group", "sync")
    segment_bytes = rng.choice((4096, 4096, 8192, 16384))
    return StoreConfig(
        format=rng.choice(formats) if fmt is None else fmt,
        segment_bytes=segment_bytes,
        queue_entries=rng.choice((4, 16, 64)),
        index_slots=rng.choice((4, 16)),
        index_entries=rng.choice((8, 40, 200)),
        flush=rng.choice(policies),
        flush_interval_ms=rng.choice((100, 500)),
        flush_bytes=rng.choice((1024, 1 << 20)),
        dirty_limit_bytes=rng.choice((4096, 1 << 20)),
        checkpoint_interval_ms=rng.choice((300, 10_000)),
        checkpoint_bytes=rng.choice((2048, 1 << 20)),
        progress_interval_ms=rng.choice((200, 1000)),
        progress_changes=rng.choice((3, 1000)),
        max_body_bytes=segment_bytes // 4,
        retention_hours=1,
        delete_hour=None,
        open_files=rng.choice((2, 256)),
    )


_MIXED = {
    "append": 30,
    "append_many": 12,
    "fit": 8,
    "flush": 10,
    "tick": 14,
    "hour": 2,
    "checkpoint": 5,
    "retain": 1,
    "squeeze": 2,
    "reopen": 2,
    "kill": 2,
    "set_topic": 4,
    "delete_topic": 1,
    "purge": 1,
    "set_group": 2,
    "delete_group": 1,
    "advance": 8,
}
_WEIGHTS: dict[Style, dict[str, int]] = {
    "mixed": _MIXED,
    "rolls": {"append": 10, "append_many": 10, "fit": 30, "flush": 5, "tick": 3, "checkpoint": 2, "kill": 1},
    "retention": {**_MIXED, "append_many": 30, "hour": 10, "squeeze": 10, "delete_topic": 4, "delete_group": 4},
    "tables": {**_MIXED, "append": 10, "append_many": 15, "set_group": 8, "delete_topic": 8, "delete_group": 8},
}


class Workload:
    """An endless stream of steps for one life of a store; ``mark`` makes its messages unlike any other life's."""

    def __init__(self, rng: Random, config: StoreConfig, mark: str, style: Style) -> None:
        self._rng = rng
        self._mark = mark
        self._count = 0
        self._largest = config.max_body_bytes
        self._weights = _WEIGHTS[style]
        self._moves: dict[str, Callable[[], Step]] = {
            "append": self._append,
            "append_many": self._append_many,
            "fit": self._fit,
            "flush": lambda: Simple("flush"),
            "tick": lambda: Tick(rng.choice((1, 60, 250, 600, 1100, 11_000))),
            "hour": lambda: Tick(3_700_000),
            "checkpoint": lambda: Simple("checkpoint"),
            "retain": lambda: Simple("retain"),
            "squeeze": lambda: Simple("squeeze"),
            "reopen": lambda: Simple("reopen"),
            "kill": lambda: Simple("kill"),
            "set_topic": lambda: SetTopic(rng.choice(TOPICS), rng.randint(1, 8)),
            "delete_topic": lambda: DeleteTopic(rng.choice(TOPICS[1:])),
            "purge": lambda: Purge(rng.choice(TOPICS), rng.randrange(QUEUES), rng.random()),
            "set_group": lambda: SetGroup(rng.choice(GROUPS), rng.randint(0, 16)),
            "delete_group": lambda: DeleteGroup(rng.choice(GROUPS)),
            "advance": self._advance,
        }

    def __iter__(self) -> Iterator[Step]:
        while True:
            yield self.random_step()

    def random_step(self) -> Step:
        """Return the next step."""
        names, weights = list(self._weights), list(self._weights.values())
        return self._moves[self._rng.choices(names, weights)[0]]()

    def message(self) -> Message:
        """Return the next message."""
        rng = self._rng
        self._count += 1
        name = f"{self._mark}-{self._count}"
        size = rng.choice((0, 10, 100, 200, 400, 700, rng.randint(0, self._largest)))
        return Message(
            rng.choice(TOPICS),
            (name + "|").encode() + rng.randbytes(min(size, self._largest - len(name) - 1)),
            queue_id=rng.randrange(QUEUES),
            message_id=rng.choice(("", f"id-{name}")),
            tags=rng.choice(((), ("red",), ("red", "blue"))),
            keys=rng.choice(((), (f"key-{rng.randrange(6)}",), (f"key-{name}", "common"))),
            properties=rng.choice(({}, {"colour": "green"})),
            born_time=1_700_000_000_000 + self._count,
            born_host="10.0.0.1:1234",
            status=rng.choice((0, 0, 0, 0, 0, 0, 0, 1, 2, 3)),
        )

    def _append(self) -> Step:
        return Append(tuple(self.message() for _ in range(self._rng.choice((1, 1, 2)))), together=False)

    def _append_many(self) -> Step:
        return Append(tuple(self.message() for _ in range(self._rng.choice((0, 1, 3, 8, 15)))), together=True)

    def _fit(self) -> Step:
        self._count += 1
        return Fit(self._rng.choice((0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12)), f"{self._mark}-{self._count}|")

    def _advance(self) -> Step:
        rng = self._rng
        return Advance(rng.choice(GROUPS), rng.choice(TOPICS), rng.randrange(QUEUES), rng.random())
