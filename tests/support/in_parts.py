"""Does the tasks of a job here, as badly as Spark may: pickled, in any order, some of them twice at the same time."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class InAnyOrder:
    """A ``Spread`` without Spark."""

    def __init__(self, seed: int = 0) -> None:
        self.tasks = 0
        self._random = random.Random(seed)

    def __call__(self, tasks: Sequence[Callable[[], Result]], /) -> list[Result]:
        self.tasks += len(tasks)
        packed = [pickle.dumps(task) for task in tasks]
        order = [*range(len(tasks)), *self._random.sample(range(len(tasks)), len(tasks) // 3)]
        self._random.shuffle(order)
        with ThreadPoolExecutor(2) as pool:
            done = pool.map(_do, [packed[number] for number in order])
            found = dict(zip(order, done, strict=True))
        return [pickle.loads(found[number]) for number in range(len(tasks))]


def _do(task: bytes) -> bytes:
    return pickle.dumps(pickle.loads(task)())
